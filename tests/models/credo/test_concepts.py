"""The evidence for concepts and their degrees, against plain evaluations over dictionaries."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from uncertain import Maker, World

from tarbox.core.ids import Level
from tarbox.execution.interpreter import evaluate
from tarbox.execution.rows import encode
from tarbox.kb.closure import Hierarchy
from tarbox.kb.rows import Rows
from tarbox.models.credo.concept_kernels import gather_concepts, raise_to_narrower
from tarbox.models.credo.concepts import CONCEPT_FEATURES, ConceptFeatures, LastRelations, SetModel
from tarbox.models.credo.evidence import fit_linear
from tarbox.models.credo.model import Credo, alternatives
from tarbox.models.credo.network import Network
from tarbox.models.priors import Priors
from tarbox.query.algebra import Direction, Exists, Not, slots, walk
from tarbox.query.templates import TEMPLATES, template

seeds = st.integers(0, 1 << 32)
some = settings(max_examples=30, deadline=None, derandomize=True)


def network(seed: int) -> Network:
    """Says something about every feature, and nothing in particular."""
    random = np.random.default_rng(seed)
    width = len(CONCEPT_FEATURES)
    layers = (random.normal(0, 0.3, (1, width)).astype(np.float32), np.zeros(1, np.float32))
    return Network(np.zeros(width, np.float32), np.full(width, 4, np.float32), layers)


def reasoner(world: World, ranking: Network | None = None) -> Credo:
    return Credo.of(world.index, world.probabilities, SetModel.of(world.index, 0), ranking)


def proofs(world: World, members: np.ndarray, concept: int) -> list[float]:
    """The probabilities that each entity is an answer and that the concept describes it."""
    described = world.all_descriptions()
    return [float(members[entity]) * described.get((entity, concept), 0.0) for entity in range(world.entities)]


@some
@given(seeds)
def test_descriptions_are_the_noisy_or_over_annotations(seed: int) -> None:
    """Also: known ones, and no others, have 1, and no concept has less than one below it."""
    world = Maker(seed, concepts=6).world()
    found, wanted = world.probabilities.descriptions, world.all_descriptions()
    entities, concepts = found.coordinates()
    assert set(zip(entities.tolist(), concepts.tolist(), strict=True)) == set(wanted)
    for pair, degree in wanted.items():
        assert found.value(*pair) == pytest.approx(degree, abs=1e-5)
    known = world.index.descriptions.concepts_of.coordinates()
    assert np.array_equal(np.stack(known), np.stack((entities, concepts))[:, found.values == 1.0])
    for entity, concept in wanted:
        assert all(found.value(entity, above) >= found.value(entity, concept) for above in world.above(concept))
    if not world.facts.annotations:
        assert found is world.probabilities.concepts


@some
@given(seeds)
def test_gathering_concepts_sums_what_their_instances_say(seed: int) -> None:
    world, random = Maker(seed, concepts=6).world(), np.random.default_rng(seed)
    members = (random.random(7) * (random.random(7) < 0.7)).astype(np.float32)
    known = np.flatnonzero(random.random(7) < 0.3).astype(np.int32)
    members[known] = 1.0
    held = world.probabilities.concepts
    space, touched = np.zeros((6, 7)), np.empty(6, np.int32)
    count = gather_concepts((held.offsets, held.columns, held.values), members, known, 1e-5, space, touched)
    typings = world.all_typings()
    assert sorted(touched[:count]) == sorted({concept for entity, concept in typings if members[entity] > 0})
    for concept in range(6):
        wanted = np.zeros(7)
        for entity in range(7):
            degree = typings.get((entity, concept), 0.0)
            chance = float(members[entity]) * degree
            wanted[4] += chance
            wanted[6] = max(wanted[6], chance)
            if chance > 0 and not (entity in known and degree == 1.0):
                kind = 1 if entity in known else 0 if degree == 1.0 else 2
                wanted[kind] -= math.log1p(-min(chance, 0.999999))
                wanted[3] = max(wanted[3], min(chance, 0.999999))
            if entity not in known:
                wanted[5] += math.sqrt(members[entity]) * degree
        np.testing.assert_allclose(space[concept], wanted, rtol=1e-3, atol=1e-6)


@some
@given(seeds)
def test_raising_to_narrower_concepts(seed: int) -> None:
    random = np.random.default_rng(seed)
    below = [(low, int(random.integers(0, low))) for low in range(1, 9) for _ in range(2)]
    tree = Hierarchy.of(*np.array(below, np.int32).T, 9)
    concepts = np.flatnonzero(random.random(9) < 0.7).astype(np.int32)
    values = random.random(len(concepts)).astype(np.float32)
    found, space = values.copy(), np.zeros(9, np.float32)
    raise_to_narrower((tree.ancestors.offsets, tree.ancestors.columns), concepts, found, space)
    own = dict(zip(concepts.tolist(), values.tolist(), strict=True))
    for concept, value in zip(concepts.tolist(), found.tolist(), strict=True):
        assert value == max(own.get(narrower, 0.0) for narrower in tree.descendants[concept].tolist())
    assert not space.any()  # ready for the next query


@some
@given(seeds)
def test_what_is_known_of_parents_and_siblings(seed: int) -> None:
    world, random = Maker(seed, concepts=8).world(), np.random.default_rng(seed)
    features = ConceptFeatures.of(world.index, SetModel.of(world.index, 0))
    parents: dict[int, set[int]] = {}
    for sub, above in zip(world.facts.subs.tolist(), world.facts.supers.tolist(), strict=True):
        parents.setdefault(sub, set()).add(above)
    known = np.flatnonzero(random.random(8) < 0.4).astype(np.int32)
    concepts = np.arange(8, dtype=np.int32)
    found = features._relatives(concepts, known)
    for concept in range(8):
        own = parents.get(concept, set())
        share = [above in known for above in own]
        children = [[below for below in parents if above in parents[below]] for above in own]
        siblings = [sum(below in known for below in each) / len(each) for each in children]
        assert found[0][concept] == pytest.approx(np.mean(share) if own else 1.0)
        assert found[1][concept] == pytest.approx(np.mean(siblings) if own else 0.0)


@some
@given(seeds)
def test_priors_count_what_stands_at_the_end_of_the_last_relation(seed: int) -> None:
    maker = Maker(seed)
    world = maker.world()
    way = maker.random.choice(list(Direction))
    query = Exists("urn:r1", way, maker.query(2))
    shape, ids = encode(query, world.facts.vocabulary)
    facts, typings = world.facts, World(world.facts, {}, {}).all_descriptions()
    ends = (facts.heads if way is Direction.FORWARD else facts.tails)[facts.relations == 1].tolist()
    counts = {
        Level.ENTITY: [ends.count(entity) for entity in range(7)],
        Level.CONCEPT: [sum((end, concept) in typings for end in ends) for concept in range(4)],
    }
    for level, wanted in counts.items():
        priors = Priors.of(world.index, level)
        found = priors.frequencies(shape, ids[None])
        assert found is not None
        assert found[0].tolist() == wanted
        np.testing.assert_allclose(priors.relative(shape, ids[None])[0], np.array(wanted) / max(*wanted, 1))
    assert Priors.of(world.index, Level.ENTITY).frequencies(Not(shape), ids[None]) is None


@some
@given(seeds, st.booleans())
def test_degrees_of_concepts_lie_between_their_proofs(seed: int, ranked: bool) -> None:
    """Never below the best single proof, never above the noisy-or of all, of the concept or of one below it; 0 without
    evidence; never below a sub-concept's."""
    maker = Maker(seed, concepts=6)
    world = maker.world()
    model = reasoner(world, network(seed) if ranked else None)
    query = maker.query()
    shape, ids = encode(query, world.facts.vocabulary)
    members = model.fuzzy_sets(shape, ids[None])[0]
    found, expected = model.predict(shape, ids[None]).dense_concepts(0, 6)
    upper = [1 - np.prod([1 - proof for proof in proofs(world, members, concept)]) for concept in range(6)]
    for concept in range(6):
        own = proofs(world, members, concept)
        narrower = [below for below in range(6) if concept in world.above(below)]
        assert found[concept] >= max(own) - 1e-5
        assert found[concept] <= max(upper[below] for below in narrower) + 1e-5
        assert all(found[concept] >= found[below] for below in narrower)
        assert expected[concept] == pytest.approx(sum(own), abs=1e-4)
        if max(own) == 0:
            assert found[concept] == 0


@some
@given(seeds, st.booleans())
def test_known_concepts_are_certain_where_nothing_is_denied(seed: int, ranked: bool) -> None:
    maker = Maker(seed)
    world = maker.world()
    model = reasoner(world, network(seed) if ranked else None)
    query = maker.query()
    while any(isinstance(node, Not) for node in walk(query)):
        query = maker.query()
    shape, ids = encode(query, world.facts.vocabulary)
    found = model.predict(shape, ids[None])
    assert all(found.concept(0, concept) == 1.0 for concept in found.known_concepts[0].tolist())
    assert all(found.entities[0, entity] == 1.0 for entity in found.known_entities[0].tolist())
    scores = model.score(shape, ids[None], Level.CONCEPT)[0]
    known = found.known_concepts[0]
    others = np.setdiff1d(np.arange(4), known)
    if len(known) and len(others):
        assert scores[known].min() > scores[others].max()


@some
@given(seeds, st.booleans())
def test_several_queries_at_once_are_as_each_alone(seed: int, ranked: bool) -> None:
    maker = Maker(seed)
    world = maker.world()
    model = reasoner(world, network(seed) if ranked else None)
    shape = TEMPLATES[maker.random.choice(["2p", "2i", "up", "2in", "pni"])].shape
    limits = [{"entity": 7, "relation": 6}[slot.role.value] for slot in slots(shape)]
    ids = np.random.default_rng(seed).integers(0, limits, (20, len(limits))).astype(np.int32)
    together = model.predict(shape, ids)
    for row in range(20):
        alone = model.predict(shape, ids[row : row + 1])
        for one, other in zip(together.dense_concepts(row, 4), alone.dense_concepts(0, 4), strict=True):
            np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-6)


def test_a_prediction_for_no_query_at_all() -> None:
    world = Maker(0).world()
    found = reasoner(world, network(0)).predict(TEMPLATES["2i"].shape, np.empty((0, 4), np.int32))
    assert found.entities.shape == (0, 7)
    assert len(found.concepts) == 0


def test_alternatives_of_a_shape() -> None:
    assert alternatives(TEMPLATES["2i"].shape) == ()
    parts = alternatives(template("x", "?c1 and ((?r1 value ?e1) or (?r2 value ?e2) or ?c2)").shape)
    assert [columns for _, columns in parts] == [[0, 1, 2], [0, 3, 4], [0, 5]]
    many = " or ".join(f"(?r{n} value ?e{n})" for n in range(1, 12))
    assert alternatives(template("x", many).shape) == ()  # described as a whole


def test_last_relations() -> None:
    shape = template("x", "?c1 and (?r1 some (?r2 value ?e1)) and not (?r3 value ?e2)").shape
    ids = np.array([[0, 4, 1, 0, 2, 0], [1, 3, 3, 0, 5, 1]], np.int32)
    columns = {slot.name: ids[:, place] for place, slot in enumerate(slots(shape))}
    found = evaluate(shape, LastRelations(columns, (2, 6)))
    assert [np.flatnonzero(row).tolist() for row in found] == [[4], [3]]


@some
@given(seeds)
def test_the_model_of_sets_predicts_from_the_relation_and_the_other_concepts(seed: int) -> None:
    world = Maker(seed).world()
    sets = SetModel.of(world.index, 0)
    facts, typings = world.facts, World(world.facts, {}, {}).all_descriptions()
    rows = []
    for way in range(6):
        ends = (facts.tails, facts.heads) if way % 2 == 0 else (facts.heads, facts.tails)
        own = facts.relations == way // 2
        for near in sorted(set(ends[0][own].tolist())):
            row = np.zeros(6 + len(sets.kept))
            row[way] = 1
            for far in ends[1][own][ends[0][own] == near].tolist():
                for place, concept in enumerate(sets.kept.tolist()):
                    row[6 + place] = max(row[6 + place], (far, concept) in typings)
            rows.append(row)
    table = np.array(rows)
    inverse = np.linalg.inv(table.T @ table + 20 * np.eye(table.shape[1]))
    weights = -inverse / np.diag(inverse)
    np.fill_diagonal(weights, 0)
    np.testing.assert_allclose(sets.weights, weights[:, 6:], atol=2e-3)  # half precision
    out = np.full(4, -5.0, np.float32)
    sets.apply(np.array([2], np.int32), np.array([1], np.int32), out)
    for place, concept in enumerate(sets.kept.tolist()):
        other = sets.weights[6 + sets.kept.tolist().index(1), place] if 1 in sets.kept else 0.0
        assert out[concept] == pytest.approx(sets.weights[2, place] + other, abs=1e-6)


def test_linear_models_of_nothing() -> None:
    empty = Rows.of(np.empty(0, np.int32), np.empty(0, np.int32), 0, 3)
    assert fit_linear(empty, 3).tolist() == np.zeros((3, 3)).tolist()
