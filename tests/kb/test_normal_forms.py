"""Normal forms say what the axioms say: judged by the meaning of both in small random worlds."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest

from tarbox.kb.facts import Facts
from tarbox.kb.namespaces import OWL
from tarbox.kb.normal_forms import NormalForm, normalise
from tarbox.kb.vocabulary import Vocabulary

ENTITIES, CONCEPTS, RELATIONS = ("a", "b"), ("A", "B", "C"), ("p", "q")
WORDS = Vocabulary.of(ENTITIES, CONCEPTS, RELATIONS)
THING, NOTHING = f"{OWL}Thing", f"{OWL}Nothing"
DOMAIN = range(3)


class World:
    """A random interpretation: the meaning of names, of expressions, and of axioms."""

    def __init__(self, chance: random.Random) -> None:
        share = chance.choice([0.2, 0.5, 0.9])
        self.entities = {name: chance.choice(DOMAIN) for name in ENTITIES}
        self.concepts = {name: {x for x in DOMAIN if chance.random() < share} for name in CONCEPTS}
        self.relations = {
            name: {(x, y) for x in DOMAIN for y in DOMAIN if chance.random() < share} for name in RELATIONS
        }

    def members(self, part: Any) -> set[int]:
        """Of an expression in functional syntax."""
        match part:
            case str():
                return {THING: set(DOMAIN), NOTHING: set()}.get(part) or set(self.concepts.get(part, ()))
            case ("ObjectOneOf", *names):
                return {self.entities[name] for name in names}
            case ("ObjectIntersectionOf", *parts):
                return set.intersection(*map(self.members, parts))
            case ("ObjectUnionOf", *parts):
                return set.union(*map(self.members, parts))
            case ("ObjectHasValue", relation, name):
                return self.members(("ObjectSomeValuesFrom", relation, ("ObjectOneOf", name)))
            case ("ObjectSomeValuesFrom", relation, filler):
                return self.before(relation, self.members(filler))
        raise AssertionError(part)

    def before(self, relation: str, members: set[int]) -> set[int]:
        return {x for x, y in self.relations[relation] if y in members}

    def follow(self, *relations: str) -> set[tuple[int, int]]:
        found = self.relations[relations[0]]
        for name in relations[1:]:
            found = {(x, z) for x, y in found for w, z in self.relations[name] if w == y}
        return found

    def holds(self, axiom: Any) -> bool:  # noqa: PLR0911 (a line for each kind)
        match axiom:
            case ("SubClassOf", below, above):
                return self.members(below) <= self.members(above)
            case ("EquivalentClasses", *parts):
                return all(self.members(part) == self.members(parts[0]) for part in parts)
            case ("DisjointClasses", one, other):
                return not self.members(one) & self.members(other)
            case ("ObjectPropertyDomain", relation, concept):
                return self.before(relation, set(DOMAIN)) <= self.members(concept)
            case ("ClassAssertion", concept, name):
                return self.entities[name] in self.members(concept)
            case ("SubObjectPropertyOf", ("ObjectPropertyChain", *chain), above):
                return self.follow(*chain) <= self.follow(above)
            case ("SubObjectPropertyOf", below, above):
                return self.follow(below) <= self.follow(above)
            case ("TransitiveObjectProperty", relation):
                return self.follow(relation, relation) <= self.follow(relation)
        raise AssertionError(axiom)

    def tree(self, expression: Any) -> set[int]:
        """Of an expression as `Normalised.fresh` has it."""
        match expression:
            case str():
                return self.members(expression)
            case int() if expression < len(ENTITIES):
                return {self.entities[ENTITIES[expression]]}
            case int():
                return self.concepts[CONCEPTS[expression - len(ENTITIES)]]
            case ("and", *parts):
                return set.intersection(*map(self.tree, parts))
            case ("or", *parts):
                return set.union(*map(self.tree, parts))
            case ("some", relation, filler):
                return self.before(RELATIONS[relation], self.tree(filler))
        raise AssertionError(expression)

    def satisfies(self, form: NormalForm, row: list[int], fresh: tuple[Any, ...]) -> bool:
        first = len(ENTITIES) + len(CONCEPTS)
        nodes = [self.tree(node if node < first else fresh[node - first]) for node in row[form.relations :]]
        names = [RELATIONS[relation] for relation in row[: form.relations]]
        match form:
            case NormalForm.TYPING | NormalForm.SUBSUMPTION:
                return nodes[0] <= nodes[1]
            case NormalForm.ASSERTION | NormalForm.LINK:
                return nodes[0] <= self.before(names[0], nodes[1])
            case NormalForm.FILLER:
                return self.before(names[0], nodes[0]) <= nodes[1]
            case NormalForm.CONJUNCTION:
                return nodes[0] & nodes[1] <= nodes[2]
            case NormalForm.DISJOINT:
                return not nodes[0] & nodes[1]
            case NormalForm.INCLUSION | NormalForm.CHAIN:
                return self.follow(*names[:-1]) <= self.follow(names[-1])


def expression(chance: random.Random, depth: int, is_below: bool) -> Any:
    kinds = ["name", "one"] if depth == 0 else ["name", "and", "some", "value", "thing", *(["or"] if is_below else [])]
    match chance.choice(kinds):
        case "name":
            return chance.choice(CONCEPTS)
        case "one":
            return "ObjectOneOf", chance.choice(ENTITIES)
        case "thing":
            return THING
        case "value":
            return "ObjectHasValue", chance.choice(RELATIONS), chance.choice(ENTITIES)
        case "some":
            return "ObjectSomeValuesFrom", chance.choice(RELATIONS), expression(chance, depth - 1, is_below)
        case kind:
            word = {"and": "ObjectIntersectionOf", "or": "ObjectUnionOf"}[kind]
            return word, *(expression(chance, depth - 1, is_below) for _ in range(chance.choice([2, 3])))


def axiom(chance: random.Random) -> Any:
    def part(depth: int, is_below: bool = False) -> Any:
        return expression(chance, depth, is_below)

    roles = chance.choices(RELATIONS, k=3)
    return chance.choice(
        [
            ("SubClassOf", part(3, True), part(3)),
            ("SubClassOf", ("ObjectIntersectionOf", part(1, True), part(1, True)), NOTHING),
            ("EquivalentClasses", part(0), part(2)),
            ("DisjointClasses", part(2, True), part(1, True)),
            ("ObjectPropertyDomain", roles[0], part(2)),
            ("ClassAssertion", part(2), chance.choice(ENTITIES)),
            ("SubObjectPropertyOf", *roles[:2]),
            ("SubObjectPropertyOf", ("ObjectPropertyChain", *roles[:2]), roles[2]),
            ("TransitiveObjectProperty", roles[0]),
        ]
    )


@pytest.mark.parametrize("seed", range(40))
def test_a_world_satisfies_the_forms_where_it_satisfies_the_axiom(seed: int) -> None:
    """Fresh names mean what they stand for."""
    chance = random.Random(seed)
    for _ in range(25):
        given = axiom(chance)
        forms = normalise(Facts.of(WORDS), [given])
        worlds = [World(chance) for _ in range(8)]
        for world in worlds:
            found = all(
                world.satisfies(form, row, forms.fresh) for form, rows in forms.rows.items() for row in rows.tolist()
            )
            assert found == world.holds(given), given


def test_facts_are_rows_of_their_own() -> None:
    facts = Facts.of(WORDS, [(0, 1, 1)], [(1, 2)], [(0, 2)])
    rows = normalise(facts, []).rows
    assert rows[NormalForm.ASSERTION].tolist() == [[1, 0, 1]]
    assert rows[NormalForm.TYPING].tolist() == [[1, 4]]
    assert rows[NormalForm.SUBSUMPTION].tolist() == [[2, 4]]


@pytest.mark.parametrize(
    "beyond",
    [
        ("SubClassOf", "A", ("ObjectAllValuesFrom", "p", "B")),
        ("SubClassOf", "A", ("ObjectUnionOf", "B", "C")),
        ("SubClassOf", ("ObjectComplementOf", "A"), "B"),
        ("SubClassOf", "A", ("ObjectSomeValuesFrom", ("ObjectInverseOf", "p"), "B")),
        ("SubClassOf", "A", ("ObjectIntersectionOf", "B", ("ObjectMinCardinality", "2", "p", "B"))),
        ("SubClassOf", "A", "Unknown"),
        ("SubClassOf", "A", ("ObjectSomeValuesFrom", "unknown", "B")),
        ("SubClassOf", "A", NOTHING),
        ("ObjectPropertyRange", "p", "A"),
        ("SubObjectPropertyOf", ("ObjectPropertyChain", "p", "q", "p"), "q"),
        ("SubObjectPropertyOf", ("ObjectInverseOf", "p"), "q"),
        ("InverseObjectProperties", "p", "q"),
    ],
)
def test_what_is_beyond_the_forms_is_left_out(beyond: Any) -> None:
    assert not any(len(rows) for rows in normalise(Facts.of(WORDS), [beyond]).rows.values())


def test_equal_expressions_share_a_name_and_rows_stand_once() -> None:
    part = ("ObjectSomeValuesFrom", "p", ("ObjectIntersectionOf", "A", "B"))
    forms = normalise(
        Facts.of(WORDS), [("SubClassOf", part, "C"), ("SubClassOf", part, "B"), ("SubClassOf", part, "C")]
    )
    assert forms.fresh == (("and", 2, 3),)
    assert forms.rows[NormalForm.FILLER].tolist() == [[0, 5, 3], [0, 5, 4]]
    assert forms.rows[NormalForm.CONJUNCTION].tolist() == [[2, 3, 5]]
    assert all(rows.dtype == np.int64 for rows in forms.rows.values())
