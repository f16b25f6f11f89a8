"""The features of concepts against loops over members and the hierarchy."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from probability_models import credo_of

from tarbox.core.ids import Level
from tarbox.execution.interpreter import evaluate
from tarbox.kb.closure import Hierarchy, Instances
from tarbox.kb.facts import Facts
from tarbox.kb.rows import Rows
from tarbox.kb.vocabulary import Vocabulary
from tarbox.models.counting import Counting
from tarbox.models.credo import Credo
from tarbox.models.describing import FEATURES, LEAST_MEMBER, LastRelations, raise_to_narrower, relatives
from tarbox.query.algebra import Query, slots
from tarbox.query.templates import TEMPLATES, template

ENTITIES, CONCEPTS, RELATIONS = 15, 7, 2
SHAPES = {name: given.shape for name, given in TEMPLATES.items()} | {
    "ci": template("ci", "?c1 and (?r1 some (?c2 and (?r2 value ?e1)))").shape,
    "not": template("not", "not (?r1 value ?e1)").shape,
    "e": template("e", "{?e1}").shape,
}
NAMES = pytest.mark.parametrize("name", SHAPES)


@pytest.fixture(scope="module")
def reasoner() -> Credo:
    random = np.random.default_rng(3)
    words = Vocabulary.of(
        [f"e{n:02}" for n in range(ENTITIES)],
        [f"c{n}" for n in range(CONCEPTS)],
        [f"r{n}" for n in range(RELATIONS)],
    )
    assertions = random.integers(0, [ENTITIES, RELATIONS, ENTITIES], (50, 3)).tolist()
    typings = random.integers(0, [ENTITIES, CONCEPTS], (16, 2)).tolist()
    return credo_of(Facts.of(words, map(tuple, assertions), map(tuple, typings), [(0, 1), (1, 2), (3, 2), (4, 2)]))


def rows(shape: Query, size: int = 9) -> np.ndarray:
    limits = [{"entity": ENTITIES, "concept": CONCEPTS, "relation": 4}[slot.role.value] for slot in slots(shape)]
    return np.random.default_rng(5).integers(0, limits, (size, len(limits))).astype(np.int32)


def listed(edges: Rows, row: int) -> list[tuple[int, float]]:
    own = slice(edges.offsets[row], edges.offsets[row + 1])
    return list(zip(edges.columns[own].tolist(), edges.values[own].tolist(), strict=True))


@NAMES
def test_sums_over_members(reasoner: Credo, name: str) -> None:
    """What witnesses say of each concept, one member and one of its concepts after the other."""
    shape = SHAPES[name]
    asked = reasoner.ask(shape, rows(shape))
    features, expected = reasoner.describer.describe(asked, reasoner.probabilities)
    assert features.shape == (9, CONCEPTS, FEATURES)
    assert np.isfinite(features).all()
    for row in range(9):
        sums, best, count = np.zeros((3, CONCEPTS)), np.zeros(CONCEPTS), np.zeros(CONCEPTS)
        known = set(asked.entities[row].tolist())
        for entity in range(ENTITIES):
            strength = float(asked.sets_BE[row, entity])
            if strength < LEAST_MEMBER and entity not in known:
                continue
            for concept, degree in listed(reasoner.probabilities.concepts, entity):
                chance = degree if entity in known else strength * degree
                count[concept] += chance
                if entity in known and degree == 1:
                    continue  # known: nothing is left to be predicted
                kind = 1 if entity in known else 0 if degree == 1 else 2
                chance = min(chance, 0.999999)
                sums[kind, concept] -= math.log1p(-chance)
                best[concept] = max(best[concept], chance)
        close = {"rtol": 2e-4, "atol": 2e-3}
        np.testing.assert_allclose(expected[row], count, **close)
        np.testing.assert_allclose(features[row, :, :3].T, np.log(1e-6 + sums), **close)
        any_witness = np.log(1e-6 + 1 - np.exp(-sums.sum(0)))
        np.testing.assert_allclose(features[row, :, 3], any_witness, **close)
        np.testing.assert_allclose(features[row, :, 4], np.log(1e-6 + best), **close)
        concepts = asked.concepts[row]
        most = max([-20.0, *np.delete(any_witness, concepts)])  # of those that are not known
        np.testing.assert_allclose(features[row, :, 5], any_witness - most, **close)
        np.testing.assert_allclose(features[row, :, 12], np.log1p(len(known)))
        np.testing.assert_allclose(features[row, :, 13], np.log1p(len(concepts)))
        np.testing.assert_allclose(features[row, :, 14], np.log(1e-6 + count), **close)


@NAMES
def test_what_is_not_known_is_shared_out(reasoner: Credo, name: str) -> None:
    """Among the members, by the roots of their degrees; each gives its part to all of its concepts."""
    shape = SHAPES[name]
    asked = reasoner.ask(shape, rows(shape))
    features, expected = reasoner.describer.describe(asked, reasoner.probabilities)
    assert reasoner.describer.expect(asked, reasoner.probabilities) == pytest.approx(expected)
    for row in range(9):
        known = set(asked.entities[row].tolist())
        parts = {e: math.sqrt(asked.sets_BE[row, e]) for e in range(ENTITIES) if e not in known}
        inside = np.zeros(CONCEPTS)
        for entity, part in parts.items():
            if part >= LEAST_MEMBER:
                for concept, degree in listed(reasoner.probabilities.concepts, entity):
                    inside[concept] += part * degree
        wanted = np.log(1e-5 + inside / max(sum(parts.values()), 1e-9))
        assert features[row, :, 17] == pytest.approx(wanted, abs=1e-4)


@NAMES
def test_the_prior_is_that_of_counting(reasoner: Credo, name: str) -> None:
    """Counting scores the number of known instances plus its prior."""
    shape, facts = SHAPES[name], reasoner.index.facts
    ids = rows(shape)
    asked = reasoner.ask(shape, ids)
    scores = Counting.from_facts(facts).score(shape, ids, Level.CONCEPT)
    scores[asked.concepts.coordinates()] -= asked.counts
    found = reasoner.describer.describe(asked, reasoner.probabilities)[0][:, :, 6]
    np.testing.assert_allclose(found, np.log(1e-4 + scores), rtol=1e-4, atol=1e-4)


def test_the_linear_model_adds_relations_and_known_concepts(reasoner: Credo) -> None:
    shape, weights = SHAPES["2i"], reasoner.describer.weights
    ids = rows(shape)
    asked = reasoner.ask(shape, ids)
    found = reasoner.describer.describe(asked, reasoner.probabilities)[0][:, :, 7]
    places = [place for place, slot in enumerate(slots(shape)) if slot.role.value == "relation"]
    for row in range(9):
        given = {int(ids[row, place]) for place in places} | {4 + int(c) for c in asked.concepts[row]}
        np.testing.assert_allclose(found[row], sum(weights[place] for place in given), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
    ("name", "wanted"),
    [("1p", [0]), ("2p", [0]), ("2i", [0, 1]), ("2u", [0, 1]), ("2in", [0]), ("pi", [0, 2]), ("ip", [0]), ("ci", [0])],
)
def test_last_relations(name: str, wanted: list[int]) -> None:
    """Those that lead to the answers, by their number in slot order; what is negated does not."""
    shape = SHAPES[name]
    named = [slot for slot in slots(shape) if slot.role.value == "relation"]
    columns = {slot.name: np.array([place], np.int32) for place, slot in enumerate(named)}
    columns |= {slot.name: np.array([0], np.int32) for slot in slots(shape) if slot not in named}
    found = evaluate(shape, LastRelations(columns, (1, 4)))
    assert np.flatnonzero(found[0]).tolist() == wanted


hierarchies = st.lists(st.tuples(st.integers(0, 6), st.integers(0, 6)), max_size=10).map(
    lambda pairs: Hierarchy.of(
        np.array([low for low, _ in pairs], np.int32), np.array([high for _, high in pairs], np.int32), CONCEPTS
    )
)
tables = st.lists(
    st.lists(st.floats(0, 1, width=32), min_size=CONCEPTS, max_size=CONCEPTS), min_size=1, max_size=3
).map(lambda rows: np.array(rows, np.float32))


@given(hierarchy=hierarchies, scores=tables)
@settings(deadline=None)
def test_no_concept_is_above_a_wider_one(hierarchy: Hierarchy, scores: np.ndarray) -> None:
    raised = raise_to_narrower(hierarchy, scores)
    for concept in range(CONCEPTS):
        below = hierarchy.descendants[concept]
        np.testing.assert_array_equal(raised[:, concept], scores[:, below].max(1))
        for wider in hierarchy.ancestors[concept]:
            assert (raised[:, concept] <= raised[:, wider]).all()
    np.testing.assert_array_equal(raise_to_narrower(hierarchy, raised), raised)


@given(hierarchy=hierarchies, known=tables.map(lambda table: (table > 0.5).astype(np.float32)))
@settings(deadline=None)
def test_relatives(hierarchy: Hierarchy, known: np.ndarray) -> None:
    parents = [hierarchy.parents[concept].tolist() for concept in range(CONCEPTS)]
    children = [[low for low in range(CONCEPTS) if concept in parents[low]] for concept in range(CONCEPTS)]
    share, siblings = relatives(hierarchy, known)
    for row, values in enumerate(known.tolist()):
        for concept, above in enumerate(parents):
            wanted = sum(values[p] for p in above) / len(above) if above else 1.0
            assert share[row, concept] == pytest.approx(wanted)
            means = [sum(values[c] for c in children[p]) / len(children[p]) for p in above]
            assert siblings[row, concept] == pytest.approx(sum(means) / len(means) if means else 0.0)


def test_concepts_of_a_vocabulary_without_any() -> None:
    facts = Facts.of(Vocabulary.of(["a", "b"], relations=["p"]), [(0, 0, 1)])
    found = credo_of(facts)
    asked = found.ask(SHAPES["1p"], np.array([[0, 1], [1, 0]], np.int32))
    features, expected = found.describer.describe(asked, found.probabilities)
    assert features.shape == (2, 0, FEATURES)
    assert expected.shape == (2, 0)
    assert len(Instances.of(facts).hierarchy) == 0
