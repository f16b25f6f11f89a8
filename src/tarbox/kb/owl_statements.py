"""Axioms as statements, by the mapping of `tarbox.kb.owl_rdf`: what is written here is read there."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import count
from typing import Final, final

from tarbox.kb.axioms import Axiom, canonical
from tarbox.kb.namespaces import OWL, RDF, RDFS, TOP, TYPE, XML_SCHEMA
from tarbox.kb.owl_rdf import CARDINALITIES, COMPLEMENTS, FILLERS, GROUPS, LISTS, NEGATIVE, NEGATIVE_PARTS, PAIRS, TYPES
from tarbox.kb.terms import literal

_PAIR_OF: Final = {
    **{word.format(kind): p for p, (word, _) in PAIRS.items() for kind in ("Object", "Data")},
    "DatatypeDefinition": OWL + "equivalentClass",
}
_TYPE_OF: Final = {word.format(kind): type for type, word in TYPES.items() for kind in ("Object", "Data")}
_GROUP_OF: Final = {word.format(kind): type for type, (word, _) in GROUPS.items() for kind in ("Object", "Data")}
_RESTRICTION_OF: Final = {kind + word: p for p, word in FILLERS.items() for kind in ("Object", "Data")}
_CONSTRUCT_OF: Final = {
    **{kind + word: p for p, word in LISTS.items() for kind in ("Object", "Data")},
    **{word: p for p, word in COMPLEMENTS.items()},
}
_COUNT_OF: Final = {word: p for p, word in CARDINALITIES.items() if "ualified" not in p}
_QUALIFIED_OF: Final = {word: p for p, word in CARDINALITIES.items() if "ualified" in p}


@final
class StatementMaker:
    """Makes statements of axioms; its blank nodes are `_:x1`, `_:x2`, ... in the order in which they are made."""

    def __init__(self) -> None:
        self._numbers = count(1)
        self._made: list[tuple[str, str, str]] = []

    def statements(self, axiom: Axiom) -> list[tuple[str, str, str]]:
        """The statements of one axiom or plain fact."""
        self._made = []
        word, *parts = canonical(axiom)
        self._axiom(str(word), *parts)
        return self._made

    def _say(self, subject: str, predicate: str, object: str) -> str:
        self._made.append((subject, predicate, object))
        return subject

    def _node(self, type: str) -> str:
        return self._say(self._blank(), TYPE, type)

    def _blank(self) -> str:
        return f"_:x{next(self._numbers)}"

    def _axiom(self, word: str, *parts: str | Axiom) -> None:
        match word, *parts:
            case _ if word.endswith("Assertion"):
                self._fact(word, *parts)
            case "DisjointUnion", cls, *members:
                self._say(self._term(cls), OWL + "disjointUnionOf", self._list(members))
            case "SubObjectPropertyOf", ("ObjectPropertyChain", *links), above:
                self._say(self._term(above), OWL + "propertyChainAxiom", self._list(links))
            case "HasKey", cls, ("", *relations), ("", *values):
                self._say(self._term(cls), OWL + "hasKey", self._list([*relations, *values]))
            case _, *members if word in _GROUP_OF and len(members) != 2:
                self._say(self._node(_GROUP_OF[word]), OWL + "members", self._list(members))
            case _, one if word in _TYPE_OF:
                self._say(self._term(one), TYPE, _TYPE_OF[word])
            case "InverseObjectProperties", ("ObjectInverseOf", first), second:
                if isinstance(second, tuple):
                    self._axiom(word, first, second[1])
                else:  # the statement's subject must have a name: a blank node with an inverse is an expression
                    self._axiom(word, second, ("ObjectInverseOf", first))
            case _, first, *others:
                subject = self._term(first)
                for other in others:
                    self._say(subject, _PAIR_OF[word], self._term(other))

    def _fact(self, word: str, relation: str | Axiom, source: str | Axiom, *target: str | Axiom) -> None:
        match word, relation:
            case "ClassAssertion", cls:
                self._say(self._term(source), TYPE, self._term(cls))
            case "ObjectPropertyAssertion", ("ObjectInverseOf", str(forwards)):
                self._say(self._term(target[0]), forwards, self._term(source))
            case "ObjectPropertyAssertion" | "DataPropertyAssertion", str(forwards):
                self._say(self._term(source), forwards, self._term(target[0]))
            case _:
                node, last = self._node(NEGATIVE), NEGATIVE_PARTS[3 if "Data" in word else 2]
                for part, term in zip((*NEGATIVE_PARTS[:2], last), (source, relation, *target), strict=True):
                    self._say(node, OWL + part, self._term(term))

    def _list(self, terms: Iterable[str | Axiom]) -> str:
        rest = RDF + "nil"
        for term in reversed(list(terms)):
            node = self._say(self._blank(), RDF + "first", self._term(term))
            rest = self._say(node, RDF + "rest", rest)
        return rest

    def _term(self, term: str | Axiom) -> str:
        """A name, or the blank node of an expression."""
        match term:
            case str():
                return term
            case ("ObjectInverseOf", inner):
                return self._say(self._blank(), OWL + "inverseOf", self._term(inner))
            case ("DatatypeRestriction", base, *facets):
                node = self._say(self._node(RDFS + "Datatype"), OWL + "onDatatype", self._term(base))
                nodes = [self._say(self._blank(), *facet) for facet in zip(facets[::2], facets[1::2], strict=True)]  # type: ignore[arg-type]
                return self._say(node, OWL + "withRestrictions", self._list(nodes))
            case (str(word), *parts) if word.endswith("Cardinality"):
                return self._cardinality(word, *parts)
            case (str(word), relation, *filler) if word in _RESTRICTION_OF:
                what = self._term(filler[0]) if filler else literal("true", XML_SCHEMA + "boolean")
                return self._say(self._restriction(relation), _RESTRICTION_OF[word], what)
            case _:
                construct, *parts = term
                word = str(construct)
                node = self._node(RDFS + "Datatype" if word.startswith("Data") else OWL + "Class")
                what = self._term(parts[0]) if word in COMPLEMENTS.values() else self._list(parts)
                return self._say(node, _CONSTRUCT_OF[word], what)

    def _restriction(self, relation: str | Axiom) -> str:
        return self._say(self._node(OWL + "Restriction"), OWL + "onProperty", self._term(relation))

    def _cardinality(self, word: str, number: str | Axiom, relation: str | Axiom, filler: str | Axiom = TOP) -> str:
        kind = "Data" if word.startswith("Data") else "Object"
        node, times = self._restriction(relation), literal(str(number), XML_SCHEMA + "nonNegativeInteger")
        if filler in (TOP, RDFS + "Literal"):
            return self._say(node, _COUNT_OF[word.removeprefix(kind)], times)
        self._say(node, OWL + ("onDataRange" if kind == "Data" else "onClass"), self._term(filler))
        return self._say(node, _QUALIFIED_OF[word.removeprefix(kind)], times)
