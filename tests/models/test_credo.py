"""Laws of Credo: what is known, what the hierarchy demands, what a file holds."""

from __future__ import annotations

import numpy as np
import pytest
from belief_models import credo_of, random_ranking

from tarbox.core.errors import ConfigError
from tarbox.core.ids import Level
from tarbox.execution.exact import answer_rows
from tarbox.kb.facts import Facts
from tarbox.kb.vocabulary import Vocabulary
from tarbox.models.credo import WAYS, Credo, CredoConfig
from tarbox.query.algebra import Query, slots
from tarbox.query.templates import TEMPLATES, template

SHAPES = {name: given.shape for name, given in TEMPLATES.items()} | {
    "ci": template("ci", "?c1 and (?r1 some (?c2 and (?r2 value ?e1)))").shape,
    "not": template("not", "not (?r1 value ?e1)").shape,
    "c": template("c", "?c1").shape,
}
NAMES = pytest.mark.parametrize("name", SHAPES)


@pytest.fixture(scope="module")
def facts() -> Facts:
    random = np.random.default_rng(2)
    words = Vocabulary.of([f"e{n:02}" for n in range(20)], [f"c{n}" for n in range(6)], [f"r{n}" for n in range(3)])
    return Facts.of(
        words,
        map(tuple, random.integers(0, [20, 3, 20], (90, 3)).tolist()),
        map(tuple, random.integers(0, [20, 6], (25, 2)).tolist()),
        [(0, 1), (1, 2), (3, 2)],
    )


@pytest.fixture(scope="module", params=[(ways, ranked) for ways in WAYS for ranked in (False, True)], ids=str)
def reasoner(facts: Facts, request: pytest.FixtureRequest) -> Credo:
    ways, ranked = request.param
    return credo_of(facts, ways, random_ranking() if ranked else None)


def rows(shape: Query, size: int = 25) -> np.ndarray:
    limits = [{"entity": 20, "concept": 6, "relation": 6}[slot.role.value] for slot in slots(shape)]
    return np.random.default_rng(7).integers(0, limits, (size, len(limits))).astype(np.int32)


@NAMES
def test_what_is_known_has_degree_1_and_nothing_has_more(reasoner: Credo, name: str) -> None:
    shape = SHAPES[name]
    entities, concepts, _ = answer_rows(shape, rows(shape), reasoner.index)
    for level, known in ((Level.ENTITY, entities), (Level.CONCEPT, concepts)):
        degrees = reasoner.degrees(shape, rows(shape), level)
        assert (degrees[known.coordinates()] == 1).all()
        assert ((degrees >= 0) & (degrees <= 1)).all()


@NAMES
def test_no_concept_is_above_a_wider_one(reasoner: Credo, name: str) -> None:
    shape, hierarchy = SHAPES[name], reasoner.index.instances.hierarchy
    for scores in (
        reasoner.degrees(shape, rows(shape), Level.CONCEPT),
        reasoner.score(shape, rows(shape), Level.CONCEPT),
    ):
        for concept in range(6):
            for wider in hierarchy.ancestors[concept]:
                assert (scores[:, concept] <= scores[:, wider] + 1e-6).all()


@NAMES
def test_known_concepts_come_before_all_others(reasoner: Credo, name: str) -> None:
    shape = SHAPES[name]
    scores = reasoner.score(shape, rows(shape), Level.CONCEPT)
    known = np.zeros(scores.shape, np.bool_)
    known[answer_rows(shape, rows(shape), reasoner.index)[1].coordinates()] = True
    least = np.where(known, scores, np.inf).min(1)
    assert (np.where(known, -np.inf, scores).max(1) <= least).all()


@NAMES
def test_both_levels_at_once_are_the_degrees_of_each(reasoner: Credo, name: str) -> None:
    shape = SHAPES[name]
    found = reasoner.believe(shape, rows(shape))
    for level, degrees in ((Level.ENTITY, found.entities), (Level.CONCEPT, found.concepts)):
        np.testing.assert_allclose(degrees, reasoner.degrees(shape, rows(shape), level), rtol=1e-6, atol=1e-9)


@NAMES
def test_what_is_saved_scores_the_same(reasoner: Credo, facts: Facts, name: str) -> None:
    ways = WAYS[reasoner.noisy]
    again = Credo.of_arrays(facts, reasoner.arrays(), CredoConfig(ways=ways))
    for level in Level:
        wanted = reasoner.score(SHAPES[name], rows(SHAPES[name]), level)
        np.testing.assert_array_equal(again.score(SHAPES[name], rows(SHAPES[name]), level), wanted)


def test_independent_ways_are_never_weaker(facts: Facts) -> None:
    strongest, independent = (credo_of(facts, ways) for ways in WAYS)
    for shape in (SHAPES["1p"], SHAPES["2p"], SHAPES["3p"], SHAPES["pi"]):
        one, other = (model.fuzzy_sets(shape, rows(shape)) for model in (strongest, independent))
        assert (other >= one - 1e-6).all()


LITTLE: dict[str, Facts] = {
    "no facts": Facts.of(Vocabulary.of(["a", "b"], ["C"], ["p"])),
    "no concepts": Facts.of(Vocabulary.of(["a", "b"], relations=["p"]), [(0, 0, 1)]),
    "one entity": Facts.of(Vocabulary.of(["a"], ["C"], ["p"]), [(0, 0, 0)], [(0, 0)]),
    "a concept without instances": Facts.of(Vocabulary.of(["a", "b"], ["C", "D"], ["p"]), [(0, 0, 1)], [], [(0, 1)]),
}


@pytest.mark.parametrize("given", LITTLE)
@pytest.mark.parametrize("ranked", [False, True])
def test_a_graph_with_little_in_it(given: str, ranked: bool) -> None:
    facts = LITTLE[given]
    model = credo_of(facts, ranking=random_ranking() if ranked else None, count=1)
    for name in ("1p", "2i", "2in", "up"):
        shape = SHAPES[name]
        ids = np.zeros((3, len(slots(shape))), np.int32)
        for level in Level:
            degrees = model.degrees(shape, ids, level)
            assert degrees.shape == (3, model.candidates(level))
            assert ((degrees >= 0) & (degrees <= 1)).all()


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"ways": "all"}, "ways = 'all': choose one of strongest, independent"),
        ({"hidden": 1.0}, "hidden = 1.0: it must lie between 0 and 1"),
        ({"rehearsed": 0}, "rehearsed = 0: it must be at least 1"),
    ],
)
def test_mistakes_in_the_settings(settings: dict[str, object], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        CredoConfig(**settings)  # type: ignore[arg-type]
