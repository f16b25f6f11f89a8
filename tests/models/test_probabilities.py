"""FactProbabilities against their definition, written down naively over dictionaries; exactness and the error of leaving out."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from probability_models import NONE, Floats, Keys, random_beliefs

from tarbox.execution.exact import answer_rows
from tarbox.execution.graph import Index
from tarbox.execution.interpreter import evaluate
from tarbox.execution.rows import encode
from tarbox.kb.closure import Hierarchy
from tarbox.kb.facts import Facts
from tarbox.kb.vocabulary import Vocabulary
from tarbox.models.probabilities import BACKGROUND, LEAST, FactProbabilities, ProbabilityAlgebra, share_out
from tarbox.models.probability_kernels import FEW
from tarbox.models.saved import sizes_of
from tarbox.query.algebra import And, Concept, Direction, Entity, Exists, Not, Or, Query, operands, slots, walk
from tarbox.query.names import ANYTHING
from tarbox.query.templates import TEMPLATES, template

ENTITIES, CONCEPTS, RELATIONS = 6, 4, 2
VOCABULARY = Vocabulary.of(
    [f"urn:e{n}" for n in range(ENTITIES)],
    [f"urn:c{n}" for n in range(CONCEPTS)],
    [f"urn:r{n}" for n in range(RELATIONS)],
)
NOISY = pytest.mark.parametrize("noisy", [False, True], ids=["strongest", "independent"])
Triple = tuple[int, int, int]


@dataclass(frozen=True)
class World:
    """Facts and degrees beyond them: triples (head, relation, tail) and typings (entity, concept)."""

    facts: Facts
    triples: dict[Triple, float]
    typings: dict[tuple[int, int], float]

    def probabilities(self, least: float = 0.0) -> FactProbabilities:
        links = {(r * ENTITIES + h) * ENTITIES + t: degree for (h, r, t), degree in self.triples.items()}
        typings = {e * CONCEPTS + c: degree for (e, c), degree in self.typings.items()}
        return FactProbabilities.of(self.facts, sizes_of(self.facts), _arrays(links, least), _arrays(typings, least))


def _arrays(degrees: dict[int, float], least: float) -> tuple[Keys, Floats]:
    kept = sorted((key, degree) for key, degree in degrees.items() if degree >= least)
    return np.array([key for key, _ in kept], np.int64), np.array([degree for _, degree in kept], np.float32)


entity, concept, relation = (st.integers(0, size - 1) for size in (ENTITIES, CONCEPTS, RELATIONS))
triples = st.tuples(entity, relation, entity)
degree = st.floats(0, 1 - 2**-10, width=32) | st.floats(0, 2**-8, width=32)  # many below LEAST, which is near 2**-10


@st.composite
def worlds(draw: st.DrawFn) -> World:
    asserted = draw(st.lists(triples, max_size=12))
    typed = draw(st.lists(st.tuples(entity, concept), max_size=6))
    facts = Facts.of(VOCABULARY, asserted, typed, draw(st.lists(st.tuples(concept, concept), max_size=4)))
    more = draw(st.dictionaries(triples, degree, max_size=15))
    predicted = draw(st.dictionaries(st.tuples(entity, concept), degree, max_size=8))
    return World(facts, {key: value for key, value in more.items() if key not in set(asserted)}, predicted)


def names(role: str, size: int) -> st.SearchStrategy[str]:
    return st.integers(0, size - 1).map(lambda n: f"urn:{role}{n}")


queries = st.recursive(
    names("e", ENTITIES).map(Entity) | names("c", CONCEPTS).map(Concept) | st.just(Concept(ANYTHING)),
    lambda inner: (
        st.builds(Exists, names("r", RELATIONS), st.sampled_from(Direction), inner)
        | st.lists(inner, min_size=2, max_size=3).map(lambda several: And(tuple(several)))
        | st.lists(inner, min_size=2, max_size=3).map(lambda several: Or(tuple(several)))
        | inner.map(Not)
    ),
    max_leaves=5,
)


class Definition:
    """Degrees by the definition, one entity at a time."""

    def __init__(self, world: World, noisy: bool) -> None:
        facts = world.facts
        self.noisy = noisy
        self.links = dict(world.triples)
        for h, r, t in zip(facts.heads.tolist(), facts.relations.tolist(), facts.tails.tolist(), strict=True):
            self.links[h, r, t] = 1.0
        typings = dict(world.typings)
        typings |= dict.fromkeys(zip(facts.typed.tolist(), facts.types.tolist(), strict=True), 1.0)
        self.above = {c: {c} for c in range(CONCEPTS)}
        for _ in range(CONCEPTS):
            for low, high in zip(facts.subs.tolist(), facts.supers.tolist(), strict=True):
                for c in range(CONCEPTS):
                    self.above[c] |= self.above[high] if low in self.above[c] else set()
        self.typings: dict[tuple[int, int], float] = {}
        for (e, c), value in typings.items():
            for wider in self.above[c]:
                self.typings[e, wider] = max(value, self.typings.get((e, wider), 0.0))

    def degrees(self, query: Query) -> list[float]:
        everyone = range(ENTITIES)
        match query:
            case Entity(name):
                return [float(x == VOCABULARY.entities.find(name)) for x in everyone]
            case Concept(name):
                wanted = VOCABULARY.concepts.find(name)
                return [1.0 if name == ANYTHING else self.typings.get((x, wanted), 0.0) for x in everyone]
            case Exists(name, direction, operand):
                r, inner = VOCABULARY.relations.find(name), self.degrees(operand)
                return [self.reach([inner[y] * self.link(x, r, y, direction) for y in everyone]) for x in everyone]
            case Not(operand):
                return [1 - value for value in self.degrees(operand)]
            case And(parts):
                columns = zip(*map(self.degrees, parts), strict=True)
                return [math.prod(max(value, BACKGROUND) for value in column) for column in columns]
            case Or(parts):
                columns = zip(*map(self.degrees, parts), strict=True)
                return [1 - math.prod(1 - value for value in column) for column in columns]

    def link(self, x: int, r: int | None, y: int, direction: Direction) -> float:
        assert r is not None
        return self.links.get((x, r, y) if direction is Direction.FORWARD else (y, r, x), 0.0)

    def reach(self, ways: list[float]) -> float:
        return 1 - math.prod(1 - way for way in ways) if self.noisy else max(ways)


def degrees_of(query: Query, probabilities: FactProbabilities, noisy: bool) -> Floats:
    shape, ids = encode(query, VOCABULARY)
    columns = {slot.name: ids[None, place] for place, slot in enumerate(slots(shape))}
    return evaluate(shape, ProbabilityAlgebra(probabilities, columns, (1, ENTITIES), noisy))[0]


@NOISY
@given(world=worlds(), query=queries)
@settings(deadline=None, max_examples=200)
def test_degrees_follow_the_definition(noisy: bool, world: World, query: Query) -> None:
    wanted = Definition(world, noisy).degrees(query)
    assert degrees_of(query, world.probabilities(), noisy).tolist() == pytest.approx(wanted, rel=1e-4, abs=2e-6)


@given(world=worlds())
@settings(deadline=None, max_examples=200)
def test_a_typing_is_never_below_that_of_a_narrower_concept(world: World) -> None:
    probabilities = world.probabilities()
    wanted = Definition(world, False)
    typings, members = probabilities.concepts, probabilities.members
    rows = np.repeat(np.arange(ENTITIES), np.diff(typings.offsets)).tolist()
    found = dict(zip(zip(rows, typings.columns.tolist(), strict=True), typings.values.tolist(), strict=True))
    assert found == pytest.approx(wanted.typings)
    for (e, c), value in found.items():
        assert all(found[e, wider] >= value for wider in wanted.above[c])
    columns = np.repeat(np.arange(CONCEPTS), np.diff(members.offsets)).tolist()
    turned = dict(zip(zip(members.columns.tolist(), columns, strict=True), members.values.tolist(), strict=True))
    assert turned == found


def hops(query: Query) -> int:
    return sum(isinstance(node, Exists) for node in walk(query))


def leaves(query: Query) -> int:
    return sum(not operands(node) for node in walk(query))


chains = st.builds(
    lambda name, steps: _chain(Entity(name), steps),
    names("e", ENTITIES),
    st.lists(st.tuples(names("r", RELATIONS), st.sampled_from(Direction)), min_size=1, max_size=4),
)


def _chain(query: Query, steps: list[tuple[str, Direction]]) -> Query:
    for name, direction in steps:
        query = Exists(name, direction, query)
    return query


@given(world=worlds(), query=chains)
@settings(deadline=None, max_examples=200)
def test_what_is_not_held_changes_n_hops_by_less_than_the_least_degree(world: World, query: Query) -> None:
    """A way with a step below `LEAST` is itself below it: n hops lose no more than one, and less than n * LEAST."""
    whole, held = (degrees_of(query, world.probabilities(least), False) for least in (0.0, LEAST))
    assert (held <= whole).all()
    assert (whole - held <= LEAST * (1 + 1e-6)).all()
    assert (whole - held <= hops(query) * LEAST * (1 + 1e-6)).all()


@given(world=worlds(), query=queries)
@settings(deadline=None, max_examples=300)
def test_what_is_not_held_changes_any_query_by_the_least_degree_for_each_leaf(world: World, query: Query) -> None:
    """`and`, `or` and `not` add up the errors of their operands at most; a hop adds none to one of `LEAST`."""
    whole, held = (degrees_of(query, world.probabilities(least), False) for least in (0.0, LEAST))
    assert (np.abs(whole - held) <= leaves(query) * LEAST + 1e-6).all()


POSITIVE = {
    name: given.shape for name, given in TEMPLATES.items() if not any(isinstance(n, Not) for n in walk(given.shape))
} | {
    "ci": template("ci", "?c1 and (?r1 some (?c2 and (?r2 value ?e1)))").shape,
}


@pytest.fixture(scope="module")
def larger() -> Facts:
    """With more entities than are followed one by one."""
    random = np.random.default_rng(2)
    words = Vocabulary.of([f"e{n:03}" for n in range(90)], [f"c{n}" for n in range(8)], [f"r{n}" for n in range(3)])
    assertions = random.integers(0, [90, 3, 90], (500, 3)).tolist()
    typings = random.integers(0, [90, 8], (120, 2)).tolist()
    return Facts.of(words, map(tuple, assertions), map(tuple, typings), [(0, 1), (1, 2), (3, 2)])


def rows(shape: Query, size: int = 800) -> np.ndarray:
    limits = [{"entity": 90, "concept": 8, "relation": 6}[slot.role.value] for slot in slots(shape)]
    return np.random.default_rng(7).integers(0, limits, (size, len(limits))).astype(np.int32)


@NOISY
@pytest.mark.parametrize("name", POSITIVE)
def test_of_known_facts_alone_a_set_is_the_exact_answers(name: str, noisy: bool, larger: Facts) -> None:
    """1 for the answers; for the others 0, or what is left of the floor of `and`: BACKGROUND for each way."""
    shape = POSITIVE[name]
    ids = rows(shape)
    probabilities = FactProbabilities.of(larger, sizes_of(larger), NONE, NONE)
    columns = {slot.name: ids[:, place] for place, slot in enumerate(slots(shape))}
    found = evaluate(shape, ProbabilityAlgebra(probabilities, columns, (len(ids), 90), noisy))
    answers = np.zeros(found.shape, np.bool_)
    answers[answer_rows(shape, ids, Index.of(larger))[0].coordinates()] = True
    assert answers.any()
    assert (found[answers] == 1).all()
    rest = 90 * BACKGROUND if noisy else BACKGROUND
    joined = any(isinstance(node, And) for node in walk(shape))
    assert (found[~answers] <= (rest if joined else 0)).all()


@NOISY
@pytest.mark.parametrize("members", [FEW // 2, FEW, FEW + 1, 90])
def test_few_members_and_many_are_followed_alike(members: int, noisy: bool, larger: Facts) -> None:
    probabilities = FactProbabilities.of(larger, sizes_of(larger), *random_beliefs(larger, count=600))
    random = np.random.default_rng(members)
    sets = np.zeros((12, 90), np.float32)
    for row in sets:
        row[random.choice(90, members, replace=False)] = random.uniform(0.01, 1, members)
    sets[0, 5] = 1.0
    relations = random.integers(0, 6, 12).astype(np.int32)
    dense = np.zeros((6, 90, 90))
    ways = np.repeat(np.arange(6), np.diff(probabilities.starts))
    dense[ways, probabilities.near, probabilities.far] = probabilities.degrees
    each = sets[:, :, None].astype(np.float64) * dense[relations]
    wanted = 1 - np.prod(1 - each, axis=1) if noisy else each.max(1)
    algebra = ProbabilityAlgebra(probabilities, {"?r1": relations}, (12, 90), noisy)
    np.testing.assert_allclose(algebra.exists("?r1", Direction.FORWARD, sets), wanted, rtol=1e-4, atol=1e-6)


def test_both_directions_hold_the_same_facts(larger: Facts) -> None:
    links, typings = random_beliefs(larger, count=600)
    probabilities = FactProbabilities.of(larger, sizes_of(larger), links, typings)
    parts = [slice(probabilities.starts[way], probabilities.starts[way + 1]) for way in range(6)]
    for forward, inverse in zip(parts[::2], parts[1::2], strict=True):
        assert (np.diff(probabilities.near[forward]) >= 0).all()
        one = zip(probabilities.far[forward], probabilities.near[forward], probabilities.degrees[forward], strict=True)
        two = zip(probabilities.near[inverse], probabilities.far[inverse], probabilities.degrees[inverse], strict=True)
        assert sorted(one) == sorted(two)
    assert len(probabilities.degrees) == 2 * (len(larger.heads) + len(links[0]))


@pytest.mark.parametrize("size", [0, 1, 3, 4, 9, 100])
def test_work_is_shared_out_once(size: int) -> None:
    done = np.zeros(size, np.int64)

    def work(part: slice) -> None:
        done[part] += 1

    share_out(work, size)
    assert (done == 1).all()


def test_the_closure_of_a_cycle_holds_its_concepts_alike() -> None:
    facts = Facts.of(VOCABULARY, [], [], [(0, 1), (1, 0), (1, 2)])
    assert Hierarchy.of(facts.subs, facts.supers, CONCEPTS).equivalents(0).tolist() == [0, 1]
    probabilities = World(facts, {}, {(3, 1): 0.5, (3, 2): 0.25}).probabilities()
    assert probabilities.concepts.columns.tolist() == [0, 1, 2]
    assert probabilities.concepts.values.tolist() == [0.5, 0.5, 0.5]
