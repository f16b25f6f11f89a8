"""Laws over all registered models."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import torch

from tarbox.core.errors import ConfigError, QueryError
from tarbox.core.ids import Level
from tarbox.execution.graph import Index
from tarbox.execution.rows import decode, encode
from tarbox.kb.facts import Facts
from tarbox.kb.rows import TripleKeys
from tarbox.kb.vocabulary import Vocabulary
from tarbox.models.counting import Counting
from tarbox.models.credo.concepts import CONCEPT_FEATURES, SetModel
from tarbox.models.credo.model import Credo
from tarbox.models.credo.network import Network
from tarbox.models.credo.probabilities import FactProbabilities
from tarbox.models.qto import Qto, QtoConfig
from tarbox.models.registry import MODELS, find_model
from tarbox.models.saved import build_model, sizes_of
from tarbox.models.scorer import Scorer
from tarbox.models.tar import Tar, TarConfig
from tarbox.query.algebra import And, Or, Query, operands, slots, with_operands
from tarbox.query.templates import TEMPLATES, template


def untrained_tar(facts: Facts) -> Scorer:
    """In double precision, as the laws are exact."""
    torch.manual_seed(5)
    return Tar(TarConfig(dimension=12, initial_range=0.8), sizes_of(facts)).double()


def untrained(name: str, **settings: object) -> Callable[[Facts], Scorer]:
    """A small model with these settings, in double precision."""

    def make(facts: Facts) -> Scorer:
        torch.manual_seed(5)
        return build_model(find_model(name), {"name": name, **settings}, sizes_of(facts)).double()

    return make


def predicting(facts: Facts) -> Scorer:
    """The default reasoner with probabilities of facts, and a ranking of concepts, from nowhere."""
    random, sizes = np.random.default_rng(5), sizes_of(facts)
    links = np.unique(random.integers(0, sizes.relations * sizes.entities**2, 150))
    known = TripleKeys(sizes.entities).encode(facts.relations, facts.heads, facts.tails)
    links = links[~np.isin(links, known)]
    typings = np.unique(random.integers(0, sizes.entities * sizes.concepts, 30))
    found = [(keys, random.random(len(keys)).astype(np.float32)) for keys in (links, typings)]
    width = len(CONCEPT_FEATURES)
    layers = (random.normal(0, 0.2, (1, width)).astype(np.float32), np.zeros(1, np.float32))
    ranking = Network(np.zeros(width, np.float32), np.full(width, 3, np.float32), layers)
    index = Index.of(facts)
    return Credo.of(index, FactProbabilities.of(facts, sizes, *found), SetModel.of(index, 0), ranking)


def untrained_qto(facts: Facts) -> Scorer:
    """In double precision; it knows the links of the facts."""
    torch.manual_seed(5)
    return Qto.begin(QtoConfig(rank=6, initial=0.8), facts).double()


def observing(name: str, **settings: object) -> Callable[[Facts], Scorer]:
    """A small model in double precision that knows the links of the facts, and leaves none out at random."""

    def make(facts: Facts) -> Scorer:
        torch.manual_seed(5)
        kind = find_model(name)
        return kind.begin(kind.Config(**settings), facts).double().eval()  # type: ignore[attr-defined]

    return make


def describing(name: str, **settings: object) -> Callable[[Facts], Scorer]:
    """A small model of memberships that has seen the facts; its vectors are from nowhere, as are those of words."""

    def make(facts: Facts) -> Scorer:
        torch.manual_seed(5)
        kind = find_model(name)
        model = kind.begin(kind.Config(**settings), facts).double()  # type: ignore[attr-defined]
        for buffer in model.buffers():
            buffer.normal_()
        return model

    return make


UNDER_TEST: dict[str, Callable[[Facts], Scorer]] = {
    "beta": untrained("beta", dimension=6, hidden=8),
    "box2el": describing("box2el", dimension=6, answers=5),
    "cone": untrained("cone", dimension=6, hidden=8),
    "counting": Counting.from_facts,
    "cqd": untrained("cqd", rank=6, beam=4),
    "credo": predicting,
    "elem": describing("elem", dimension=6),
    "emel": describing("emel", dimension=6),
    "fuzzqe": untrained("fuzzqe", dimension=6, bases=3),
    "gnnqe": observing("gnnqe", dimension=4, layers=2),
    "gqe": untrained("gqe", dimension=6),
    "hype": untrained("hype", dimension=6),
    "logice": untrained("logice", dimension=6, hidden=8),
    "joie": describing("joie", dimension=6, score="distmult"),
    "opa2vec": describing("opa2vec", dimension=6),
    "owl2vec": describing("owl2vec", dimension=6, hidden=4),
    "q2b": untrained("q2b", dimension=6),
    "qto": untrained_qto,
    "tar": untrained_tar,
    "ultraquery": observing("ultraquery", dimension=4, layers=2, relation_layers=2),
}
"""How each registered model is made for the laws below."""
PRECISION = {"credo": 2e-5}
"""The relative error that a model in single precision is allowed."""
LACKING = dict.fromkeys(("gqe", "hype", "q2b"), ("2in", "3in", "inp", "pin", "pni"))
"""The templates that a model has no meaning for: to say so clearly is the law then."""
COUNTS = tuple(name for name in MODELS if not find_model(name).lacks)
"""The models that have a meaning for everything: they answer from facts."""


@pytest.fixture(scope="module")
def facts() -> Facts:
    random = np.random.default_rng(2)
    vocabulary = Vocabulary.of(
        [f"urn:e{n:02}" for n in range(20)], [f"urn:c{n}" for n in range(6)], [f"urn:r{n}" for n in range(3)]
    )
    return Facts.of(
        vocabulary,
        map(tuple, random.integers(0, [20, 3, 20], (90, 3)).tolist()),
        map(tuple, random.integers(0, [20, 6], (25, 2)).tolist()),
        [(0, 1), (1, 2), (3, 2)],
    )


@pytest.fixture(scope="module", params=MODELS)
def name(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="module")
def precision(name: str) -> float:
    return PRECISION.get(name, 1e-7)


@pytest.fixture(scope="module")
def model(name: str, facts: Facts) -> Scorer:
    return UNDER_TEST[name](facts)


def shape_for(model: Scorer, template: str) -> Query:
    """The shape of a template; a test about what a model lacks is left to `test_what_a_model_lacks_...`."""
    shape = TEMPLATES[template].shape
    if not model.supports(shape):
        pytest.skip("no meaning for it")
    return shape


def rows(shape: Query, size: int = 30) -> np.ndarray:
    limits = [{"entity": 20, "concept": 6, "relation": 6}[slot.role.value] for slot in slots(shape)]
    return np.random.default_rng(7).integers(0, limits, (size, len(limits))).astype(np.int32)


def reverse(query: Query) -> Query:
    """The operands of every `And` and `Or` in the opposite order."""
    parts = [reverse(part) for part in operands(query)]
    return with_operands(query, parts[::-1] if isinstance(query, And | Or) else parts)


def test_every_registered_model_is_under_test() -> None:
    assert set(UNDER_TEST) == set(MODELS)


@pytest.mark.parametrize("level", Level)
@pytest.mark.parametrize("template", TEMPLATES)
def test_one_finite_score_per_candidate(model: Scorer, template: str, level: Level, facts: Facts) -> None:
    shape = shape_for(model, template)
    scores = np.asarray(model.score(shape, rows(shape), level))
    size = len(facts.vocabulary.entities if level is Level.ENTITY else facts.vocabulary.concepts)
    assert model.candidates(level) == size
    assert scores.shape == (30, size)
    assert np.isfinite(scores).all()


@pytest.mark.parametrize("level", Level)
@pytest.mark.parametrize("template", TEMPLATES)
def test_a_batch_equals_its_rows(model: Scorer, template: str, level: Level, precision: float) -> None:
    shape = shape_for(model, template)
    ids = rows(shape, 8)
    alone = np.concatenate([np.asarray(model.score(shape, ids[n : n + 1], level)) for n in range(8)])
    np.testing.assert_allclose(np.asarray(model.score(shape, ids, level)), alone, precision)


@pytest.mark.parametrize("level", Level)
@pytest.mark.parametrize("template", TEMPLATES)
def test_the_order_of_operands_changes_nothing(
    model: Scorer, template: str, level: Level, facts: Facts, precision: float
) -> None:
    shape = shape_for(model, template)
    for row in rows(shape, 5):
        turned, ids = encode(reverse(decode(shape, row, facts.vocabulary)), facts.vocabulary)
        given = np.asarray(model.score(shape, row[None], level))
        np.testing.assert_allclose(given, np.asarray(model.score(turned, ids[None], level)), precision)


def test_what_a_model_lacks_is_said_clearly(name: str, model: Scorer) -> None:
    """In one line that says what it cannot do and who can; it has a meaning for all other templates."""
    for called, given in TEMPLATES.items():
        lacking = called in LACKING.get(name, ())
        assert model.supports(given.shape) != lacking
        if lacking:
            with pytest.raises(
                QueryError, match=rf"^{name} does not support negation \('not'\)\..* ask .*beta.*tar, ultraquery\.$"
            ):
                model.score(given.shape, rows(given.shape), Level.ENTITY)


@pytest.mark.parametrize("text", ["?r1 min 2 ?c1", "?r1 Self", "?r1 some xsd:integer"])
def test_counts_loops_and_data_ranges_are_answered_or_refused(name: str, model: Scorer, text: str) -> None:
    shape = template("t", text).shape
    assert model.supports(shape) == (name in COUNTS)
    if model.supports(shape):
        for level in Level:
            assert np.isfinite(np.asarray(model.score(shape, rows(shape), level))).all()
    else:
        with pytest.raises(QueryError, match=rf"^{name} does not support .* ask a model that has: .*counting, credo"):
            model.score(shape, rows(shape), Level.ENTITY)


@pytest.mark.parametrize("level", Level)
def test_concepts_inside_a_query(model: Scorer, level: Level) -> None:
    shape = template("ci", "?c1 and (?r1 some (?c2 and (?r2 value ?e1)))").shape
    scores = np.asarray(model.score(shape, rows(shape), level))
    assert scores.shape == (30, model.candidates(level))
    assert np.isfinite(scores).all()


@pytest.mark.parametrize("level", Level)
def test_an_empty_batch(model: Scorer, level: Level) -> None:
    shape = TEMPLATES["2i"].shape
    assert np.asarray(model.score(shape, rows(shape, 0), level)).shape == (0, model.candidates(level))


def test_an_unknown_model_is_said_with_its_nearest_name() -> None:
    with pytest.raises(ConfigError, match=r"no model 'countin'\. Did you mean 'counting'"):
        find_model("countin")
    with pytest.raises(ConfigError, match="There are: beta, box2el, cone, counting"):
        find_model("xyz")


def test_a_model_of_the_user_is_named_by_its_module() -> None:
    assert find_model("tarbox.models.tar:Tar") is Tar
    with pytest.raises(ConfigError, match=r"no model 'tarbox\.nowhere:Tar'.*package\.module:Class"):
        find_model("tarbox.nowhere:Tar")
    with pytest.raises(ConfigError, match=r"no model 'tarbox\.models\.tar:Nothing'"):
        find_model("tarbox.models.tar:Nothing")
