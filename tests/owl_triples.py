"""Axioms and facts as RDF triples, for a reasoner that reads nothing else and judges our rules."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from tarbox.kb.axioms import Axiom
from tarbox.kb.facts import Facts
from tarbox.kb.namespaces import SUBCLASS, TYPE
from tarbox.kb.owl_statements import StatementMaker

Triple = tuple[str, str, str]


def axiom_triples(axioms: Iterable[Axiom]) -> Iterator[Triple]:
    """Blank nodes have IRIs here: `reasonable` takes nothing else from Python."""
    maker = StatementMaker()
    for axiom in axioms:
        for s, p, o in maker.statements(axiom):
            yield s.replace("_:", "urn:blank:"), p, o.replace("_:", "urn:blank:")


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
