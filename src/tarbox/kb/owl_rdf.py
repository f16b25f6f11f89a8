"""The axioms that statements make, and the words that RDF has for OWL 2.

The mapping is the W3C's (OWL 2 Web Ontology Language Mapping to RDF Graphs); from RDF, the older ways of OWL 1 are
read too. Annotations of axioms are no part of it. A cardinality always has a filler, `owl:Thing` or `rdfs:Literal`
where none is written. What blank nodes name are expressions: an axiom about an anonymous individual is none of ours.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Final, final

from tarbox.kb.axioms import Axiom, canonical
from tarbox.kb.namespaces import OWL, RDF, RDFS, SUBCLASS, TOP, TYPE, XML_SCHEMA
from tarbox.kb.terms import is_blank, is_literal, split_literal

Row = tuple[int, str, str]  # where a statement is staged, its predicate, its object

_MOST_ROWS: Final = 1_000_000  # of one axiom: nodes that share nodes can say more than memory holds
_MOST_NESTED: Final = 100
_NIL: Final = RDF + "nil"
_ANY_VALUE: Final = RDFS + "Literal"

PAIRS: Final[
    dict[str, tuple[str, str]]
] = {  # C class, P property, F class or data range as the property is, I individual
    SUBCLASS: ("SubClassOf", "CC"),
    OWL + "equivalentClass": ("EquivalentClasses", "CC"),
    OWL + "disjointWith": ("DisjointClasses", "CC"),
    RDFS + "subPropertyOf": ("Sub{}PropertyOf", "PP"),
    OWL + "equivalentProperty": ("Equivalent{}Properties", "PP"),
    OWL + "propertyDisjointWith": ("Disjoint{}Properties", "PP"),
    OWL + "inverseOf": ("InverseObjectProperties", "PP"),
    RDFS + "domain": ("{}PropertyDomain", "PC"),
    RDFS + "range": ("{}PropertyRange", "PF"),
    OWL + "sameAs": ("SameIndividual", "II"),
    OWL + "differentFrom": ("DifferentIndividuals", "II"),
}
TYPES: Final[dict[str, str]] = {
    OWL + "FunctionalProperty": "Functional{}Property",
    **{
        f"{OWL}{word}Property": word + "ObjectProperty"
        for word in ("InverseFunctional", "Reflexive", "Irreflexive", "Symmetric", "Asymmetric", "Transitive")
    },
}
GROUPS: Final[dict[str, tuple[str, str]]] = {
    OWL + "AllDisjointClasses": ("DisjointClasses", "C"),
    OWL + "AllDisjointProperties": ("Disjoint{}Properties", "P"),
    OWL + "AllDifferent": ("DifferentIndividuals", "I"),
}
LISTS: Final = {OWL + "intersectionOf": "IntersectionOf", OWL + "unionOf": "UnionOf", OWL + "oneOf": "OneOf"}
COMPLEMENTS: Final = {OWL + "complementOf": "ObjectComplementOf", OWL + "datatypeComplementOf": "DataComplementOf"}
FILLERS: Final = {
    OWL + word[0].lower() + word[1:]: word for word in ("SomeValuesFrom", "AllValuesFrom", "HasValue", "HasSelf")
}
CARDINALITIES: Final = {
    OWL + "minCardinality": "MinCardinality",
    OWL + "maxCardinality": "MaxCardinality",
    OWL + "cardinality": "ExactCardinality",
    OWL + "minQualifiedCardinality": "MinCardinality",
    OWL + "maxQualifiedCardinality": "MaxCardinality",
    OWL + "qualifiedCardinality": "ExactCardinality",
}
NEGATIVE: Final = OWL + "NegativePropertyAssertion"
NEGATIVE_PARTS: Final = ("sourceIndividual", "assertionProperty", "targetIndividual", "targetValue")
_FIRST, _REST, _INVERSE, _ON = RDF + "first", RDF + "rest", OWL + "inverseOf", OWL + "onProperty"
_ONE, _NOT, _SELF = OWL + "oneOf", OWL + "complementOf", OWL + "hasSelf"
_UNION, _CHAIN, _KEY = OWL + "disjointUnionOf", OWL + "propertyChainAxiom", OWL + "hasKey"
_FACETS: Final = (
    *("minInclusive", "maxInclusive", "minExclusive", "maxExclusive", "length", "minLength", "maxLength", "pattern"),
    *("totalDigits", "fractionDigits"),
)
_DATA_RANGES: Final = (RDFS + "Datatype", OWL + "DataRange")

AXIOM_TYPES: Final = frozenset({*TYPES, *GROUPS, NEGATIVE})
NODE_TYPES: Final = frozenset({OWL + "Class", OWL + "Restriction", RDFS + "Class", RDF + "List", *_DATA_RANGES})
AXIOM_PREDICATES: Final = frozenset({*PAIRS, *LISTS, *COMPLEMENTS, _UNION, _CHAIN, _KEY})
NODE_PREDICATES: Final = frozenset(
    {*LISTS, *COMPLEMENTS, *FILLERS, *CARDINALITIES, _FIRST, _REST, _INVERSE, _ON}
    | {OWL + word for word in (*NEGATIVE_PARTS, "onClass", "onDataRange", "onDatatype", "withRestrictions")}
    | {OWL + "members", OWL + "distinctMembers"}
    | {XML_SCHEMA + word for word in _FACETS}
    | {RDF + "langRange"}
)


class Unmapped(Exception):
    """These statements make no axiom of OWL 2."""


@final
class AxiomGraph:
    """Blank nodes with what is said of them, from which axioms are read.

    `data` are the data properties, `annotations` the annotation properties. `passed` has the rows of the nodes that the
    last axiom was made of.
    """

    def __init__(self, nodes: dict[str, list[Row]], data: Collection[str], annotations: Collection[str] = ()) -> None:
        self._nodes, self._data, self._annotations = nodes, data, annotations
        self._open: list[str] = []
        self.passed: list[int] = []

    def axiom(self, subject: str, predicate: str, object: str) -> Axiom:
        """The axiom whose main statement this is; raises `Unmapped`."""
        self._open, self.passed = [], []
        if subject in self._annotations:
            raise Unmapped
        return canonical(self._axiom(subject, predicate, object))

    def _axiom(self, subject: str, predicate: str, object: str) -> Axiom:
        if predicate == TYPE:
            return self._typed(subject, object)
        if predicate in PAIRS:
            return self._pair(subject, predicate, object)
        if predicate in LISTS or predicate in COMPLEMENTS:  # as OWL 1 defines a class
            data = self._is_range(subject) or (predicate == _ONE and any(map(is_literal, self._list(object))))
            meant = self._construct(predicate, object, data)
            return ("DatatypeDefinition" if data else "EquivalentClasses", _name(subject), meant)
        terms = self._list(object)
        if predicate == _UNION:
            return ("DisjointUnion", _name(subject), *map(self._class, terms))
        if predicate == _CHAIN:
            return (
                "SubObjectPropertyOf",
                ("ObjectPropertyChain", *map(self._property, terms)),
                self._property(subject),
            )
        relations = [self._property(term) for term in terms if term not in self._data]
        return ("HasKey", self._class(subject), ("", *relations), ("", *(term for term in terms if term in self._data)))

    def _typed(self, subject: str, type: str) -> Axiom:
        if type in TYPES:
            return (TYPES[type].format(self._kind(subject)), self._property(subject))
        if type == NEGATIVE:
            return self._negative(subject)
        if type in GROUPS:
            return self._group(subject, *GROUPS[type])
        return ("ClassAssertion", self._class(type), _individual(subject))

    def _pair(self, subject: str, predicate: str, object: str) -> Axiom:
        word, places = PAIRS[predicate]
        if word == "EquivalentClasses" and (self._is_range(subject) or self._is_range(object)):
            return ("DatatypeDefinition", _name(subject), self._range(object))
        kind = self._kind(subject)
        return (word.format(kind), self._part(places[0], subject, kind), self._part(places[1], object, kind))

    def _kind(self, relation: str) -> str:
        return "Data" if relation in self._data else "Object"

    def _part(self, place: str, term: str, kind: str) -> str | Axiom:
        match place:
            case "C":
                return self._class(term)
            case "P":
                return self._property(term)
            case "I":
                return _individual(term)
            case _:
                return self._range(term) if kind == "Data" else self._class(term)

    def _group(self, node: str, word: str, place: str) -> Axiom:
        said = self._said(node)
        members = self._list(said.get(OWL + "members") or said.get(OWL + "distinctMembers") or "")
        kind = self._kind(members[0]) if members else ""
        return (word.format(kind), *(self._part(place, member, kind) for member in members))

    def _negative(self, node: str) -> Axiom:
        said = self._said(node)
        source, relation = (said.get(OWL + part, "_:") for part in NEGATIVE_PARTS[:2])
        if OWL + "targetValue" in said:
            value = said[OWL + "targetValue"]
            return ("NegativeDataPropertyAssertion", _name(relation), _individual(source), value)
        target = _individual(said.get(OWL + "targetIndividual", "_:"))
        return ("NegativeObjectPropertyAssertion", self._property(relation), _individual(source), target)

    def _said(self, node: str) -> dict[str, str]:
        """What is said of a blank node, each predicate once but for its types."""
        rows = self._nodes.get(node, [])
        said = {predicate: object for _, predicate, object in rows if predicate != TYPE}
        if not said or len(said) != sum(predicate != TYPE for _, predicate, _ in rows) or len(self.passed) > _MOST_ROWS:
            raise Unmapped
        self.passed += [row for row, _, _ in rows]
        return said

    def _list(self, node: str) -> list[str]:
        found: dict[str, str] = {}
        while node != _NIL:
            said = self._said(node)
            if node in found or said.keys() != {_FIRST, _REST}:
                raise Unmapped
            found[node] = said[_FIRST]
            node = said[_REST]
        return list(found.values())

    def _property(self, term: str) -> str | Axiom:
        if not is_blank(term):
            return _name(term)
        said = self._said(term)
        if said.keys() != {_INVERSE}:
            raise Unmapped
        return ("ObjectInverseOf", _name(said[_INVERSE]))

    def _class(self, term: str) -> str | Axiom:
        return self._expression(term, data=False) if is_blank(term) else _name(term)

    def _range(self, term: str) -> str | Axiom:
        return self._expression(term, data=True) if is_blank(term) else _name(term)

    def _is_range(self, term: str) -> bool:
        """Whether a term is surely a data range and no class."""
        types = (object for _, predicate, object in self._nodes.get(term, ()) if predicate == TYPE)
        return term == _ANY_VALUE or term.startswith(XML_SCHEMA) or any(type in _DATA_RANGES for type in types)

    def _expression(self, node: str, data: bool) -> Axiom:
        if node in self._open or len(self._open) == _MOST_NESTED:
            raise Unmapped
        self._open.append(node)
        said = self._said(node)
        if _ON in said:
            found = self._restriction(said, said.pop(_ON))
        elif OWL + "onDatatype" in said:
            found = self._facets(said)
        elif len(said) == 1:
            ((predicate, object),) = said.items()
            found = self._construct(predicate, object, data or self._is_range(node))
        else:
            raise Unmapped
        self._open.pop()
        return found

    def _construct(self, predicate: str, object: str, data: bool) -> Axiom:
        meant = self._range if data else self._class
        if predicate in COMPLEMENTS:
            return (COMPLEMENTS[predicate], (self._class if predicate == _NOT else self._range)(object))
        if predicate not in LISTS:
            raise Unmapped
        terms = self._list(object)
        if predicate == _ONE:
            values = data or any(map(is_literal, terms))
            return ("DataOneOf", *terms) if values else ("ObjectOneOf", *map(_individual, terms))
        return (("Data" if data else "Object") + LISTS[predicate], *map(meant, terms))

    def _restriction(self, said: dict[str, str], relation: str) -> Axiom:
        on_class, on_range = said.pop(OWL + "onClass", None), said.pop(OWL + "onDataRange", None)
        if len(said) != 1:
            raise Unmapped
        ((predicate, object),) = said.items()
        data = relation in self._data or on_range is not None
        data = data or (predicate in FILLERS and (is_literal(object) or self._is_range(object)))
        data = data and predicate != _SELF
        kind, on = "Data" if data else "Object", _name(relation) if data else self._property(relation)
        if predicate in CARDINALITIES:
            filler = self._range(on_range or _ANY_VALUE) if data else self._class(on_class or TOP)
            count = split_literal(object)[0].strip().lstrip("+") if is_literal(object) else ""
            if not (count.isascii() and count.isdigit()):
                raise Unmapped
            return (kind + CARDINALITIES[predicate], str(int(count)), on, filler)
        match FILLERS.get(predicate):
            case "HasSelf":
                return ("ObjectHasSelf", on)
            case "HasValue":
                return (kind + "HasValue", on, object if data else _individual(object))
            case str(word):
                return (kind + word, on, self._range(object) if data else self._class(object))
            case _:
                raise Unmapped

    def _facets(self, said: dict[str, str]) -> Axiom:
        found: list[str] = []
        for node in self._list(said.get(OWL + "withRestrictions", "")):
            facets = self._said(node)
            if not all(map(is_literal, facets.values())):
                raise Unmapped
            found += [term for facet in facets.items() for term in facet]
        return ("DatatypeRestriction", _name(said[OWL + "onDatatype"]), *found)


def _name(term: str) -> str:
    if is_blank(term) or is_literal(term):
        raise Unmapped
    return term


_individual = _name
