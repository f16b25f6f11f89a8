"""Coherence: what the probability of an answer is, held against the laws of logic and slow, plain evaluations."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from uncertain import Maker, World

from tarbox.execution.exact import answer_query
from tarbox.execution.rows import encode
from tarbox.models.credo.kernels import project
from tarbox.query.algebra import And, AtLeast, Concept, Direction, Entity, Exists, Not, Or, Query, fold, lift, slots
from tarbox.query.names import ANYTHING
from tarbox.query.restrictions import restrict

CLOSE = {"rtol": 1e-4, "atol": 2e-6}

seeds = st.integers(0, 1 << 32)
many = settings(max_examples=60, deadline=None, derandomize=True)


def differs(found: np.ndarray, wanted: np.ndarray | float) -> bool:
    return not np.allclose(found, wanted, **CLOSE)


# Bounds


@many
@given(seeds)
def test_probabilities_are_between_0_and_1(seed: int) -> None:
    maker = Maker(seed)
    world = maker.world()
    for _ in range(3):
        found = world.value(maker.query())
        assert found.dtype == np.float32
        assert found.min() >= 0
        assert found.max() <= 1


@many
@given(seeds)
def test_no_answer_is_likelier_than_a_conjunct(seed: int) -> None:
    maker = Maker(seed)
    world = maker.world()
    parts = [maker.query(3) for _ in range(maker.random.choice([2, 3]))]
    found = world.value(And(tuple(parts)))
    for part in parts:
        assert np.all(found <= world.value(part) + 1e-6), part


@many
@given(seeds)
def test_no_answer_is_less_likely_than_an_alternative(seed: int) -> None:
    maker = Maker(seed)
    world = maker.world()
    parts = [maker.query(3) for _ in range(maker.random.choice([2, 3]))]
    found = world.value(Or(tuple(parts)))
    for part in parts:
        assert np.all(found >= world.value(part) - 1e-6), part


@many
@given(seeds)
def test_a_projection_is_the_noisy_or_of_its_proofs(seed: int) -> None:
    maker = Maker(seed)
    world = maker.world()
    relation, direction = maker.random.randrange(3), maker.random.choice(list(Direction))
    operand = maker.query(3)
    found = world.value(Exists(f"urn:r{relation}", direction, operand))
    members = world.value(operand)
    none = np.ones(world.entities)
    for (of, head, tail), degree in world.all_links().items():
        if of == relation:
            near, far = (tail, head) if direction is Direction.FORWARD else (head, tail)
            none[far] *= 1 - members[near] * degree
    assert not differs(found, 1 - none)


@many
@given(seeds)
def test_counts_are_tails_of_how_many_fillers_there_are(seed: int) -> None:
    """By all outcomes of the links."""
    maker = Maker(seed, entities=4)
    world, relation, way = maker.world(dense=1.5), maker.random.randrange(3), maker.random.choice(list(Direction))
    operand = maker.query(2)
    members = world.value(operand).astype(np.float64)
    before = world.value(Exists(f"urn:r{relation}", way, operand))
    for count in (2, 3):
        found = world.value(AtLeast(count, f"urn:r{relation}", way, operand))
        assert np.all(found <= before + 1e-6)
        before = found
        for entity in range(world.entities):
            fillers = [
                members[near] * degree
                for (of, head, tail), degree in world.all_links().items()
                for near, far in [(tail, head) if way is Direction.FORWARD else (head, tail)]
                if of == relation and far == entity
            ]
            tail = sum(
                np.prod([p if is_one else 1 - p for p, is_one in zip(fillers, outcome, strict=True)])
                for outcome in product([False, True], repeat=len(fillers))
                if sum(outcome) >= count
            )
            assert found[entity] == pytest.approx(tail, abs=2e-5)


@many
@given(seeds)
def test_exactly_is_the_difference_of_two_counts(seed: int) -> None:
    maker = Maker(seed)
    world, operand = maker.world(), maker.query(2)
    given = "urn:r0", Direction.FORWARD, operand
    two, three = (world.value(restrict("min", *given, count)) for count in (2, 3))
    assert not differs(world.value(restrict("exactly", *given, 2)), two - three)
    assert not differs(world.value(And((AtLeast(3, *given), Exists(*given)))), three)
    both = Or((AtLeast(3, *given), AtLeast(2, *given), Not(Exists(*given))))
    assert not differs(world.value(both), 1 - world.value(restrict("exactly", *given, 1)))


# Logic


@many
@given(seeds)
def test_not_is_the_complement(seed: int) -> None:
    maker = Maker(seed)
    world, query = maker.world(), maker.query()
    assert not differs(world.value(Not(query)), 1 - world.value(query))


@many
@given(seeds)
def test_a_contradiction_has_no_answer_and_a_tautology_every_one(seed: int) -> None:
    maker = Maker(seed)
    world, query = maker.world(), maker.query(3)
    other = maker.query(2)
    for never in (And((query, Not(query))), And((Not(query), other, query)), And((query, And((other, Not(query)))))):
        assert world.value(never).tolist() == [0.0] * world.entities
    for always in (Or((query, Not(query))), Or((Not(query), other, query)), Not(And((query, Not(query))))):
        assert world.value(always).tolist() == [1.0] * world.entities


def equivalents(a: Query, b: Query, c: Query, relation: str, way: Direction) -> dict[str, tuple[Query, Query]]:
    """Pairs of queries that are equal by logic."""

    def some(operand: Query) -> Query:
        return Exists(relation, way, operand)

    everything = Concept(ANYTHING)
    return {
        "order of and": (And((a, b, c)), And((c, a, b))),
        "order of or": (Or((a, b, c)), Or((c, a, b))),
        "nesting of and": (And((a, And((b, c)))), And((And((a, b)), c))),
        "nesting of or": (Or((a, Or((b, c)))), Or((Or((a, b)), c))),
        "duplicates in and": (And((a, b, a)), And((a, b))),
        "duplicates in or": (Or((a, b, a)), Or((a, b))),
        "double negation": (Not(Not(a)), a),
        "De Morgan's first law": (Not(And((a, b))), Or((Not(a), Not(b)))),
        "De Morgan's second law": (Not(Or((a, b))), And((Not(a), Not(b)))),
        "and over or": (And((a, Or((b, c)))), Or((And((a, b)), And((a, c))))),
        "or over and": (Or((a, And((b, c)))), And((Or((a, b)), Or((a, c))))),
        "absorption by and": (And((a, Or((a, b)))), a),
        "absorption by or": (Or((a, And((a, b)))), a),
        "cases": (Or((And((a, b)), And((a, Not(b))))), a),
        "everything in and": (And((a, everything)), a),
        "everything in or": (Or((a, everything)), everything),
        "some of a union": (some(Or((a, b))), Or((some(a), some(b)))),
        "some of a union in a conjunction": (And((some(Or((a, b))), c)), Or((And((some(a), c)), And((some(b), c))))),
        "no union": (Not(some(Or((a, b)))), And((Not(some(a)), Not(some(b))))),
        "equal operands of some": (some(And((a, Or((b, c))))), some(Or((And((a, b)), And((a, c)))))),
        "equal conjuncts": (And((some(And((a, Or((a, b))))), some(a))), some(a)),
    }


NAMES = list(equivalents(Entity("a"), Entity("b"), Entity("c"), "r", Direction.FORWARD))


@pytest.mark.parametrize("name", NAMES)
@settings(max_examples=25, deadline=None, derandomize=True)
@given(seeds)
def test_equivalent_queries_have_equal_probabilities(name: str, seed: int) -> None:
    maker = Maker(seed, relations=maker_relations(seed))
    world = maker.world()
    a, b, c = (maker.query(3) for _ in range(3))
    relation, way = f"urn:r{maker.random.randrange(maker.sizes[2])}", maker.random.choice(list(Direction))
    one, other = equivalents(a, b, c, relation, way)[name]
    assert not differs(world.value(one), world.value(other))


def maker_relations(seed: int) -> int:
    """One relation in some knowledge bases: what it leads to from several sets overlaps then."""
    return 1 + seed % 3


# Batches


@many
@given(seeds)
def test_a_batch_equals_its_rows(seed: int) -> None:
    """Also where some rows have equal names in slots in which others do not, and where one concept is everything."""
    maker = Maker(seed)
    world, random = maker.world(), maker.random
    shape, _ = lift(maker.query())
    limits = {"entity": (0, 3), "concept": (-1, 3), "relation": (0, 3)}
    rows = [[random.randrange(*limits[slot.role.value]) for slot in slots(shape)] for _ in range(12)]
    ids = np.array(rows, np.int32).reshape(12, -1)
    together = world.values(shape, ids)
    for row in range(len(ids)):
        alone = world.values(shape, ids[row : row + 1])[0]
        assert not differs(together[row], alone), ids[row]


def test_rows_with_equal_names_are_not_taken_for_rows_with_different_ones() -> None:
    """`?c1 and not ?c2` is empty in the row in which both are one concept, and there alone."""
    maker = Maker(3)
    world = maker.world()
    shape = And((Concept("?c1"), Not(Concept("?c2"))))
    ids = np.array([[0, 1], [1, 1], [1, 0], [2, 2]], np.int32)
    found = world.values(shape, ids)
    typings = world.all_typings()
    for row, (one, other) in enumerate(ids.tolist()):
        for entity in range(world.entities):
            inside, outside = typings.get((entity, one), 0.0), 1 - typings.get((entity, other), 0.0)
            assert found[row, entity] == pytest.approx(0.0 if one == other else inside * outside, abs=1e-6)
    assert found[[0, 2]].max() > 0


def test_no_rows_at_all() -> None:
    shape = And((Concept("?c1"), Not(Entity("?e1"))))
    assert Maker(0).world().values(shape, np.empty((0, 2), np.int32)).shape == (0, 7)


# Plain evaluations


@many
@given(seeds)
def test_known_facts_alone_give_the_exact_answers(seed: int) -> None:
    maker = Maker(seed)
    world = maker.world(uncertain=False, dense=0.7)
    for _ in range(3):
        query = maker.query()
        wanted = np.zeros(world.entities)
        wanted[answer_query(query, world.index).entities] = 1
        assert world.value(query).tolist() == wanted.tolist(), query


def enumerate_worlds(query: Query, atoms: dict[Query, np.ndarray]) -> np.ndarray:
    """[E] the sum over all truth assignments of the atoms of those that make the query true."""
    total = np.zeros(len(next(iter(atoms.values()))))
    for truths in product([False, True], repeat=len(atoms)):
        given = dict(zip(atoms, truths, strict=True))

        def truth(node: Query, parts: list[bool], given: dict[Query, bool] = given) -> bool:
            match node:
                case And():
                    return all(parts)
                case Or():
                    return any(parts)
                case Not():
                    return not parts[0]
                case _:
                    return given[node]

        if fold(query, truth):
            total += np.prod([p if given[atom] else 1 - p for atom, p in atoms.items()], axis=0)
    return total


@many
@given(seeds)
def test_boolean_parts_agree_with_all_truth_assignments(seed: int) -> None:
    """Of entities and concepts, each as often as it comes: distinct ones are independent."""
    maker = Maker(seed, relations=1)
    world, random = maker.world(), maker.random
    leaves = [Concept(f"urn:c{n:02}") for n in range(4)] + [Entity("urn:e01")]

    def draw(depth: int) -> Query:
        kind = random.random()
        if depth == 0 or kind < 0.1:
            return random.choice(leaves)
        if kind < 0.3:
            return Not(draw(depth - 1))
        parts = tuple(draw(depth - 1) for _ in range(random.choice([2, 3])))
        return And(parts) if kind < 0.65 else Or(parts)

    atoms = {leaf: world.value(leaf).astype(np.float64) for leaf in leaves}
    for _ in range(2):
        query = draw(4)
        assert not differs(world.value(query), enumerate_worlds(query, atoms))


@many
@given(seeds)
def test_what_one_relation_leads_to_shares_its_links(seed: int) -> None:
    """A Boolean formula of projections by one relation of leaves agrees with all truth assignments of its links and of
    the leaves' members, which are independent."""
    maker = Maker(seed, entities=3, relations=1)
    world, random = maker.world(dense=1.0), maker.random
    leaves = [Concept(f"urn:c{n:02}") for n in range(3)]
    steps = [Exists("urn:r0", Direction.FORWARD, leaf) for leaf in leaves]

    def draw(depth: int) -> Query:
        kind = random.random()
        if depth == 0 or kind < 0.2:
            return random.choice(steps)
        if kind < 0.4:
            return Not(draw(depth - 1))
        parts = tuple(draw(depth - 1) for _ in range(2))
        return And(parts) if kind < 0.7 else Or(parts)

    query = draw(2)
    members = np.stack([world.value(leaf) for leaf in leaves], axis=1).astype(np.float64)  # [entity, leaf]
    for head in range(world.entities):
        chance = led_to(world, head, members)
        wanted = sum(
            chance[mask] for mask in range(8) if fold(query, lambda node, parts, mask=mask: holds(node, parts, mask))
        )
        assert world.value(query)[head] == pytest.approx(wanted, abs=5e-6), (query, head)


def led_to(world: World, head: int, members_EL: np.ndarray) -> np.ndarray:  # noqa: N803
    """[8] the probability of each set of three leaves, as bits, that relation 0 leads an entity to a member of."""
    chance = np.eye(8)[0]
    for (_, own, tail), degree in world.all_links().items():
        if own == head:
            inside = [np.array([1 - members_EL[tail, n], members_EL[tail, n]]) for n in range(3)]
            reached = degree * np.einsum("c,b,a->cba", inside[2], inside[1], inside[0]).ravel()
            reached[0] += 1 - degree
            joined = np.zeros(8)
            for one, other in product(range(8), repeat=2):
                joined[one | other] += chance[one] * reached[other]
            chance = joined
    return chance


def holds(node: Query, parts: list[bool], mask: int) -> bool:
    """The truth of a node over projections of `urn:c00`, `urn:c01` and `urn:c02`, the mask says which hold."""
    match node:
        case Exists(operand=Concept(name)):
            return bool(mask >> int(name[-1]) & 1)
        case And():
            return all(parts)
        case Or():
            return any(parts)
        case Not():
            return not parts[0]
        case _:
            return False


@many
@given(seeds)
def test_project_agrees_with_plain_python(seed: int) -> None:
    """Over few members of many links and over many of few, which are walked in different ways."""
    maker = Maker(seed, entities=12)
    world, random = maker.world(dense=12.0), np.random.default_rng(seed)
    sets = random.random((6, 12)).astype(np.float32) * (random.random((6, 12)) < random.random((6, 1)))
    sets[0] = 0
    sets[1, 3:] = 0
    relations = random.integers(0, 6, 6).astype(np.int32)
    out = np.full((6, 12), 7.0, np.float32)
    project(world.probabilities.links(), relations, sets, out)
    for row, way in enumerate(relations.tolist()):
        for far in range(12):
            proofs = [0.0]
            for (relation, head, tail), degree in world.all_links().items():
                ends = (tail, head) if way % 2 == 0 else (head, tail)
                if relation == way // 2 and ends[1] == far:
                    proofs.append(float(sets[row, ends[0]]) * degree)
            assert out[row, far] == pytest.approx(1 - np.prod([1 - proof for proof in proofs]), abs=3e-6)


def test_everything_is_the_set_of_all() -> None:
    world: World = Maker(0).world()
    shape, ids = encode(Concept(ANYTHING), world.facts.vocabulary)
    assert world.values(shape, ids[None]).tolist() == [[1.0] * 7]
