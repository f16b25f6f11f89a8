"""Axioms and facts as RDF triples, for a reasoner that reads nothing else and judges our rules."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import count
from typing import Any

from tarbox.kb.axioms import Axiom
from tarbox.kb.facts import Facts
from tarbox.kb.namespaces import OWL, RDF, RDFS, SUBCLASS, TYPE

Triple = tuple[str, str, str]
_STATEMENTS = {
    "SubClassOf": SUBCLASS,
    "EquivalentClasses": f"{OWL}equivalentClass",
    "DisjointClasses": f"{OWL}disjointWith",
    "SubObjectPropertyOf": f"{RDFS}subPropertyOf",
    "EquivalentObjectProperties": f"{OWL}equivalentProperty",
    "InverseObjectProperties": f"{OWL}inverseOf",
    "ObjectPropertyDomain": f"{RDFS}domain",
    "ObjectPropertyRange": f"{RDFS}range",
    "SameIndividual": f"{OWL}sameAs",
}
_KINDS = {f"{kind}ObjectProperty": f"{OWL}{kind}Property" for kind in ("Symmetric", "Transitive", "Functional")} | {
    "InverseFunctionalObjectProperty": f"{OWL}InverseFunctionalProperty"
}
_RESTRICTIONS = {
    "ObjectSomeValuesFrom": "someValuesFrom",
    "ObjectAllValuesFrom": "allValuesFrom",
    "ObjectHasValue": "hasValue",
}
_LISTS = {"ObjectIntersectionOf": "intersectionOf", "ObjectUnionOf": "unionOf", "ObjectOneOf": "oneOf"}


class TripleWriter:
    """Collects the triples of axioms with two arguments, and of the expressions in them."""

    def __init__(self) -> None:
        self.triples: list[Triple] = []
        self._fresh = (f"urn:blank:{number}" for number in count())

    def add(self, axiom: Axiom) -> None:
        match axiom:
            case ("SubObjectPropertyOf", ("ObjectPropertyChain", *roles), upper):
                self._say(str(upper), f"{OWL}propertyChainAxiom", self._list(roles))
            case (word, role) if word in _KINDS:
                self._say(str(role), TYPE, _KINDS[word])
            case (word, one, other):
                self._say(self._term(one), _STATEMENTS[str(word)], self._term(other))

    def _say(self, subject: str, predicate: str, object: str) -> None:
        self.triples.append((subject, predicate, object))

    def _term(self, term: Any) -> str:
        if isinstance(term, str):
            return term
        node, (word, *parts) = next(self._fresh), term
        if word in _LISTS:
            self._say(node, TYPE, f"{OWL}Class")
            self._say(node, OWL + _LISTS[word], self._list(parts))
        else:
            self._say(node, TYPE, f"{OWL}Restriction")
            self._say(node, f"{OWL}onProperty", parts[0])
            self._say(node, OWL + _RESTRICTIONS[word], self._term(parts[1]))
        return node

    def _list(self, parts: Iterable[Any]) -> str:
        rest = f"{RDF}nil"
        for part in reversed(list(parts)):
            node = next(self._fresh)
            self._say(node, f"{RDF}first", self._term(part))
            self._say(node, f"{RDF}rest", rest)
            rest = node
        return rest


def axiom_triples(axioms: Iterable[Axiom]) -> list[Triple]:
    writer = TripleWriter()
    for axiom in axioms:
        writer.add(axiom)
    return writer.triples


def fact_triples(facts: Facts) -> Iterator[Triple]:
    entities, concepts, relations = (
        names.iris.to_pylist()
        for names in (facts.vocabulary.entities, facts.vocabulary.concepts, facts.vocabulary.relations)
    )
    for head, relation, tail in zip(facts.heads, facts.relations, facts.tails, strict=True):
        yield entities[head], relations[relation], entities[tail]
    for entity, concept in zip(facts.typed, facts.types, strict=True):
        yield entities[entity], TYPE, concepts[concept]
    for lower, upper in zip(facts.subs, facts.supers, strict=True):
        yield concepts[lower], SUBCLASS, concepts[upper]
