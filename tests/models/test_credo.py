"""Laws of Credo: what is known, what the hierarchy demands, what a file holds."""

from __future__ import annotations

import numpy as np
import pytest
from probability_models import credo_of, random_ranking

from tarbox.core.errors import ConfigError, StoreVersion
from tarbox.core.ids import Level
from tarbox.execution.exact import answer_rows
from tarbox.kb.facts import Facts
from tarbox.kb.vocabulary import Vocabulary
from tarbox.models.credo import MOST_ALTERNATIVES, PRESUPPOSED, WAYS, Credo, CredoConfig, alternatives, presuppose
from tarbox.models.describing import FEATURES
from tarbox.query.algebra import Or, Query, slots
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
def test_no_concept_is_likelier_than_that_there_is_an_answer(reasoner: Credo, name: str) -> None:
    shape = SHAPES[name]
    predicted = reasoner.predict(shape, rows(shape))
    assert (predicted.concepts <= predicted.entities.sum(1, keepdims=True) + 1e-6).all()


@NAMES
def test_the_order_of_concepts_is_that_of_their_scores(reasoner: Credo, name: str) -> None:
    """Lowering the degrees of a query that may have no answer lowers them together."""
    shape = SHAPES[name]
    scores = reasoner.score(shape, rows(shape), Level.CONCEPT)
    degrees = reasoner.degrees(shape, rows(shape), Level.CONCEPT)
    before = np.argsort(-scores, axis=1, kind="stable")
    assert (np.diff(np.take_along_axis(degrees, before, 1), axis=1) <= 1e-6).all()


@NAMES
def test_no_concept_is_above_a_wider_one(reasoner: Credo, name: str) -> None:
    shape, hierarchy = SHAPES[name], reasoner.index.instances.hierarchy
    degrees = reasoner.degrees(shape, rows(shape), Level.CONCEPT)
    scores = reasoner.score(shape, rows(shape), Level.CONCEPT)
    for concept in range(6):
        for wider in hierarchy.ancestors[concept]:
            assert (degrees[:, concept] <= degrees[:, wider]).all()
            assert (scores[:, concept] <= scores[:, wider] + 1e-6).all()


@NAMES
def test_degrees_have_the_order_of_what_is_ranked(reasoner: Credo, name: str) -> None:
    """Of what is not known: to temper degrees changes no order, and ranks are by degrees that are not tempered."""
    shape = SHAPES[name]
    predicted = reasoner.predict(shape, rows(shape))
    for level, degrees, known in (
        (Level.ENTITY, predicted.entities, predicted.known_entities),
        (Level.CONCEPT, predicted.concepts, predicted.known_concepts),
    ):
        scores, open_ = reasoner.score(shape, rows(shape), level), np.ones(degrees.shape, np.bool_)
        open_[known.coordinates()] = False
        _, untempered = reasoner.consider(shape, rows(shape), level)
        assert (untempered[~open_] == 0).all()
        for row in range(len(degrees)):
            places = np.flatnonzero(open_[row])
            exact = places[np.argsort(untempered[row, places], kind="stable")]
            assert (np.diff(degrees[row, exact]) >= 0).all()
            ranked = places[np.argsort(scores[row, places], kind="stable")]
            assert (np.diff(degrees[row, ranked]) >= -1e-6).all()  # a prior decides between equals


@NAMES
def test_members_are_weighed_in_their_order_and_known_ones_as_before(reasoner: Credo, name: str) -> None:
    shape = SHAPES[name]
    asked = reasoner.ask(shape, rows(shape))
    weighed = reasoner.weigh(asked)
    known = asked.entities.coordinates()
    np.testing.assert_array_equal(weighed.sets_BE[known], asked.sets_BE[known])
    assert (weighed is asked) is (reasoner.weighing is None)
    assert ((weighed.sets_BE >= 0) & (weighed.sets_BE <= 1)).all()
    before, after = asked.sets_BE.copy(), weighed.sets_BE.copy()
    before[known] = after[known] = 0
    for row in range(len(before)):
        assert (np.diff(after[row, np.argsort(before[row], kind="stable")]) >= 0).all()


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
    found = reasoner.predict(shape, rows(shape))
    for level, degrees in ((Level.ENTITY, found.entities), (Level.CONCEPT, found.concepts)):
        np.testing.assert_allclose(degrees, reasoner.degrees(shape, rows(shape), level), rtol=1e-6, atol=1e-9)


@NAMES
def test_what_is_saved_scores_the_same(reasoner: Credo, facts: Facts, name: str) -> None:
    ways = WAYS[reasoner.noisy]
    again = Credo.of_arrays(facts, reasoner.arrays(), CredoConfig(ways=ways))
    for level in Level:
        wanted = reasoner.score(SHAPES[name], rows(SHAPES[name]), level)
        np.testing.assert_array_equal(again.score(SHAPES[name], rows(SHAPES[name]), level), wanted)
        degrees = reasoner.degrees(SHAPES[name], rows(SHAPES[name]), level)
        np.testing.assert_array_equal(again.degrees(SHAPES[name], rows(SHAPES[name]), level), degrees)
    assert set(again.tempers) == set(reasoner.tempers)
    assert (again.weighing is None) is (reasoner.weighing is None)


UNIONS = {
    "2u": ([("1p", [0, 1]), ("1p", [2, 3])]),
    "up": ([("2p", [0, 1, 2]), ("2p", [0, 3, 4])]),
}


@pytest.mark.parametrize("name", UNIONS)
def test_the_concepts_of_a_union_are_those_of_its_alternatives(reasoner: Credo, name: str) -> None:
    """What neither has is what the union lacks; what one of them knows is known."""
    ids = rows(SHAPES[name], 40)
    lacking, known, voids = np.ones((40, 6)), np.zeros((40, 6), np.bool_), np.zeros(40, np.bool_)
    for part, columns in UNIONS[name]:
        asked = reasoner.weigh(reasoner.ask(SHAPES[part], ids[:, columns]))
        degrees = reasoner._judge(asked)[0]
        void = asked.entities.sizes() == 0
        degrees[void] *= PRESUPPOSED / degrees[void].max(1, keepdims=True)
        lacking *= 1 - degrees
        voids |= void
        known[asked.concepts.coordinates()] = True
    scores = reasoner.score(SHAPES[name], ids, Level.CONCEPT)
    assert known.any()
    assert not known.all()
    assert voids.any()
    assert scores[~known] == pytest.approx(1 - lacking[~known], abs=1e-6)
    assert (scores[known] > 1).all()


@pytest.mark.parametrize("name", UNIONS)
def test_degrees_of_a_union_are_those_of_its_alternatives_in_the_order_of_scores(reasoner: Credo, name: str) -> None:
    """Each alternative is tempered by itself; dealt out again, the greater of their degrees follow the scores."""
    ids = rows(SHAPES[name], 40)
    scores, degrees = (ask(SHAPES[name], ids, Level.CONCEPT) for ask in (reasoner.score, reasoner.degrees))
    parts = [reasoner.predict(SHAPES[part], ids[:, columns]) for part, columns in UNIONS[name]]
    known = scores > 1
    assert (degrees[known] == 1).all()
    answered = np.all([part.entities.sum(1) >= 1 for part in parts], axis=0)  # elsewhere degrees are bounded
    assert answered.any()
    for row in np.flatnonzero(answered):
        own, open_ = np.maximum(*(part.concepts[row] for part in parts)), ~known[row]
        order = np.argsort(scores[row][open_], kind="stable")
        assert degrees[row][open_][order] == pytest.approx(np.sort(own[open_]), abs=1e-6)


def test_a_void_alternative_is_presupposed_to_have_answers() -> None:
    """Its likeliest concept stands above what an alternative with answers may lack; the order within stays."""
    degrees = np.array([[0.02, 0.01, 0.0], [0.02, 0.01, 0.0], [0.0, 0.0, 0.0]], np.float32)
    found = presuppose(degrees, np.array([True, False, True]))
    assert found[0] == pytest.approx([PRESUPPOSED, PRESUPPOSED / 2, 0.0])
    np.testing.assert_array_equal(found[1:], degrees[1:])
    assert found.dtype == np.float32


def test_a_union_of_too_many_is_described_as_a_whole(facts: Facts) -> None:
    wide = template("wide", " or ".join(f"(?r{n} value ?e{n})" for n in range(1, MOST_ALTERNATIVES + 2))).shape
    assert not alternatives(wide)
    assert len(alternatives(Or(wide.operands[:MOST_ALTERNATIVES]))) == MOST_ALTERNATIVES
    assert not alternatives(SHAPES["2i"])
    reasoner = credo_of(facts)
    assert (reasoner.degrees(wide, rows(wide), Level.CONCEPT) <= 1).all()


def test_a_run_with_other_features_is_of_an_earlier_version(facts: Facts) -> None:
    arrays = credo_of(facts, ranking=random_ranking(width=FEATURES - 1)).arrays()
    with pytest.raises(StoreVersion, match="train it again"):
        Credo.of_arrays(facts, arrays, CredoConfig())


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


@pytest.mark.parametrize("ranked", [False, True])
def test_a_graph_without_entities(ranked: bool) -> None:
    facts = Facts.of(Vocabulary.of([], ["C", "D"], ["p"]), [], [], [(0, 1)])
    model = credo_of(facts, ranking=random_ranking() if ranked else None)
    for shape in (SHAPES["c"], template("all", "?r1 some ?c1").shape):
        predicted = model.predict(shape, np.zeros((3, len(slots(shape))), np.int32))
        assert predicted.entities.shape == (3, 0)
        assert predicted.concepts.shape == (3, 2)
        assert ((predicted.concepts >= 0) & (predicted.concepts <= 1)).all()


def test_of_equal_concepts_the_wider_is_first(facts: Facts) -> None:
    """Where nothing is predicted of any concept they are in order of their instances, then of their depth."""
    model = credo_of(facts, count=0)
    shape = SHAPES["1p"]
    scores, degrees = (call(shape, rows(shape), Level.CONCEPT) for call in (model.score, model.degrees))
    sizes = model.index.instances.entities_of.sizes()
    depth = model.index.instances.hierarchy.depth
    order = np.lexsort((depth, -sizes))
    tied = [order[degrees[row, order] == degrees[row].min()] for row in range(len(degrees)) if degrees[row].min() < 1]
    scores = scores[degrees.min(1) < 1]
    assert max(map(len, tied)) > 2
    for row, wanted in enumerate(tied):
        assert wanted[np.argsort(-scores[row, wanted], kind="stable")].tolist() == wanted.tolist()


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
