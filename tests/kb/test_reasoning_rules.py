"""Rules over individuals against a slow judge that reads the axioms as they stand, and against `reasonable`."""

from __future__ import annotations

from itertools import product
from typing import Any

import reasonable
from hypothesis import given, settings
from hypothesis import strategies as st

from owl_triples import axiom_triples, fact_triples
from tarbox.kb.axioms import Axiom
from tarbox.kb.closure import Instances
from tarbox.kb.facts import Facts
from tarbox.kb.namespaces import TOP, TYPE
from tarbox.kb.reasoning.inference import infer_individuals
from tarbox.kb.vocabulary import Vocabulary

E = [f"urn:x:e{number}" for number in range(5)]
C = [f"urn:x:C{number}" for number in range(5)]
R = [f"urn:x:r{number}" for number in range(4)]
Known = tuple[set[tuple[str, str, str]], set[tuple[str, str]]]


class Judge:
    """Applies axioms one by one, to one individual after the other, until nothing changes."""

    def __init__(self, facts: set[tuple[str, str, str]], typings: set[tuple[str, str]], axioms: list[Axiom]) -> None:
        self.facts, self.typings, self.axioms = set(facts), set(typings), axioms
        self.same = {(x, x) for x in E}

    def run(self) -> Known:
        size = -1
        while size != len(self.facts) + len(self.typings) + len(self.same):
            size = len(self.facts) + len(self.typings) + len(self.same)
            for axiom in self.axioms:
                self.apply(axiom)
            self.same |= {(y, x) for x, y in self.same}
            self.same |= {(x, z) for (x, y), (a, z) in product(self.same, self.same) if a == y}
            alike = {x: [y for z, y in self.same if z == x] for x in E}
            self.facts |= {(a, p, b) for x, p, y in self.facts for a in alike[x] for b in alike[y]}
            self.typings |= {(a, c) for x, c in self.typings for a in alike[x]}
        return self.facts, self.typings

    def pairs(self, role: Any) -> set[tuple[str, str]]:
        if isinstance(role, tuple):
            return {(y, x) for x, y in self.pairs(role[1])}
        return {(x, y) for x, p, y in self.facts if p == role}

    def link(self, role: Any, x: str, y: str) -> None:
        if isinstance(role, tuple):
            self.link(role[1], y, x)
        else:
            self.facts.add((x, role, y))

    def holds(self, x: str, term: Any) -> bool:  # noqa: PLR0911 - a case for each kind of expression
        match term:
            case str():
                return term == TOP or (x, term) in self.typings
            case ("ObjectIntersectionOf", *parts):
                return all(self.holds(x, part) for part in parts)
            case ("ObjectUnionOf", *parts):
                return any(self.holds(x, part) for part in parts)
            case ("ObjectSomeValuesFrom", role, filler):
                return any(x == a and self.holds(b, filler) for a, b in self.pairs(role))
            case ("ObjectHasValue", role, value):
                return any(x == a and (b, value) in self.same for a, b in self.pairs(role))
            case ("ObjectOneOf", *individuals):
                return any((x, one) in self.same for one in individuals)
            case ("ObjectHasSelf", role):
                return (x, x) in self.pairs(role)
        return False

    def put(self, x: str, term: Any) -> None:
        match term:
            case str():
                self.typings.add((x, term))
            case ("ObjectIntersectionOf", *parts):
                for part in parts:
                    self.put(x, part)
            case ("ObjectAllValuesFrom", role, filler):
                for a, b in self.pairs(role):
                    if a == x:
                        self.put(b, filler)
            case ("ObjectHasValue", role, value) | ("ObjectSomeValuesFrom", role, ("ObjectOneOf", value)):
                self.link(role, x, value)
            case ("ObjectHasSelf", role):
                self.link(role, x, x)
            case ("ObjectOneOf", one):
                self.same.add((x, one))
            case ("ObjectMaxCardinality", "1", role, filler):
                reached = [b for a, b in self.pairs(role) if a == x and self.holds(b, filler)]
                self.same |= set(product(reached, reached))

    def apply(self, axiom: Axiom) -> None:  # noqa: C901, PLR0912 - a case for each kind of axiom
        match axiom:
            case ("SubClassOf", lower, upper):
                for x in E:
                    if self.holds(x, lower):
                        self.put(x, upper)
            case ("EquivalentClasses", one, other):
                self.apply(("SubClassOf", one, other))
                self.apply(("SubClassOf", other, one))
            case ("SubObjectPropertyOf", ("ObjectPropertyChain", *roles), upper):
                reached = {(x, x) for x in E}
                for role in roles:
                    reached = {(x, z) for x, y in reached for a, z in self.pairs(role) if a == y}
                for x, y in reached:
                    self.link(upper, x, y)
            case ("SubObjectPropertyOf", lower, upper):
                for x, y in self.pairs(lower):
                    self.link(upper, x, y)
            case ("EquivalentObjectProperties", one, other):
                self.apply(("SubObjectPropertyOf", one, other))
                self.apply(("SubObjectPropertyOf", other, one))
            case ("InverseObjectProperties", one, other):
                self.apply(("EquivalentObjectProperties", one, ("ObjectInverseOf", other)))
            case ("SymmetricObjectProperty", role):
                self.apply(("InverseObjectProperties", role, role))
            case ("TransitiveObjectProperty", role):
                self.apply(("SubObjectPropertyOf", ("ObjectPropertyChain", role, role), role))
            case ("ObjectPropertyDomain", role, filler):
                self.apply(("SubClassOf", ("ObjectSomeValuesFrom", role, TOP), filler))
            case ("ObjectPropertyRange", role, filler):
                self.apply(("ObjectPropertyDomain", ("ObjectInverseOf", role), filler))
            case ("FunctionalObjectProperty", role):
                self.apply(("SubClassOf", TOP, ("ObjectMaxCardinality", "1", role, TOP)))
            case ("InverseFunctionalObjectProperty", role):
                self.apply(("FunctionalObjectProperty", ("ObjectInverseOf", role)))
            case ("SameIndividual", one, other):
                self.same.add((one, other))
            case _:
                raise AssertionError(axiom)


entities, concepts, relations = (st.sampled_from(names) for names in (E, C, R))
roles = relations | relations.map(lambda role: ("ObjectInverseOf", role))
conditions = st.recursive(
    concepts
    | st.tuples(st.just("ObjectHasValue"), roles, entities)
    | st.tuples(st.just("ObjectHasSelf"), roles)
    | st.lists(entities, min_size=1, max_size=2).map(lambda some: ("ObjectOneOf", *some)),
    lambda inner: (
        st.tuples(st.sampled_from(["ObjectIntersectionOf", "ObjectUnionOf"]), inner, inner)
        | st.tuples(st.just("ObjectIntersectionOf"), inner, inner, inner)
        | st.tuples(st.just("ObjectSomeValuesFrom"), roles, inner | st.just(TOP))
    ),
    max_leaves=4,
)
conclusions = st.recursive(
    concepts
    | st.tuples(st.just("ObjectHasValue"), roles, entities)
    | st.tuples(st.just("ObjectHasSelf"), roles)
    | st.tuples(st.just("ObjectOneOf"), entities)
    | st.tuples(st.just("ObjectMaxCardinality"), st.just("1"), roles, concepts | st.just(TOP)),
    lambda inner: (
        st.tuples(st.just("ObjectIntersectionOf"), inner, inner)
        | st.tuples(st.just("ObjectAllValuesFrom"), roles, inner)
    ),
    max_leaves=3,
)
chains = st.lists(roles, min_size=2, max_size=3).map(lambda some: ("ObjectPropertyChain", *some))
plain = (
    st.tuples(st.just("SubObjectPropertyOf"), relations, relations)
    | st.tuples(st.sampled_from(["EquivalentObjectProperties", "InverseObjectProperties"]), relations, relations)
    | st.tuples(st.sampled_from(["SymmetricObjectProperty", "TransitiveObjectProperty"]), relations)
    | st.tuples(st.sampled_from(["ObjectPropertyDomain", "ObjectPropertyRange"]), relations, concepts)
    | st.tuples(st.just("SubClassOf"), concepts, concepts)
)
some_axioms = (
    plain
    | st.tuples(st.just("SubClassOf"), conditions | st.just(TOP), conclusions)
    | st.tuples(st.just("EquivalentClasses"), concepts, conditions)
    | st.tuples(st.just("SubObjectPropertyOf"), roles | chains, roles)
    | st.tuples(st.sampled_from(["FunctionalObjectProperty", "InverseFunctionalObjectProperty"]), roles)
    | st.tuples(st.just("SameIndividual"), entities, entities)
)
some_facts = st.sets(st.tuples(entities, relations, entities), max_size=10)
some_typings = st.sets(st.tuples(entities, concepts), max_size=6)


def make(facts: set[tuple[str, str, str]], typings: set[tuple[str, str]]) -> Facts:
    return Facts.of(
        Vocabulary.of(E, C, R),
        [(E.index(x), R.index(p), E.index(y)) for x, p, y in facts],
        [(E.index(x), C.index(c)) for x, c in typings],
    )


def read(every: Facts) -> Known:
    typed, types = Instances.of(every).concepts_of.coordinates()
    return (
        {(E[h], R[r], E[t]) for h, r, t in zip(every.heads, every.relations, every.tails, strict=True)},
        {(E[x], C[c]) for x, c in zip(typed, types, strict=True)},
    )


@settings(max_examples=600, deadline=None)
@given(some_facts, some_typings, st.lists(some_axioms, max_size=6))
def test_rules_find_what_the_slow_judge_finds(
    facts: set[tuple[str, str, str]], typings: set[tuple[str, str]], axioms: list[Axiom]
) -> None:
    every, _ = infer_individuals(make(facts, typings), tuple(axioms))
    assert read(every) == Judge(facts, typings, axioms).run()


known_to_reasonable = (
    plain
    | st.tuples(
        st.just("EquivalentClasses"),
        concepts,
        st.tuples(
            st.just("ObjectIntersectionOf"), concepts, st.tuples(st.just("ObjectSomeValuesFrom"), relations, concepts)
        )
        | st.tuples(st.just("ObjectHasValue"), relations, entities),
    )
    | st.tuples(st.just("SubClassOf"), concepts, st.tuples(st.just("ObjectAllValuesFrom"), relations, concepts))
)


@settings(max_examples=200, deadline=None)
@given(some_facts, some_typings, st.lists(known_to_reasonable, max_size=5))
def test_rules_agree_with_reasonable(
    facts: set[tuple[str, str, str]], typings: set[tuple[str, str]], axioms: list[Axiom]
) -> None:
    given_facts = make(facts, typings)
    reasoner = reasonable.PyReasoner()
    reasoner.from_graph([*axiom_triples(axioms), *fact_triples(given_facts)])
    found = {(str(s), str(p), str(o)) for s, p, o in reasoner.reason()}
    ours = read(infer_individuals(given_facts, tuple(axioms))[0])
    assert ours[0] == {t for t in found if t[0] in E and t[1] in R and t[2] in E}
    assert ours[1] == {(s, o) for s, p, o in found if s in E and p == TYPE and o in C}
