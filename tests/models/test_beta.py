"""BetaE's own mathematics against torch.distributions, and its laws of complement and union."""

from __future__ import annotations

import pytest
import torch
from entity_models import SHAPES, SIZES, model_of, rows_of
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.distributions import Beta as Distribution
from torch.distributions import kl_divergence

from tarbox.core.errors import ConfigError
from tarbox.models.base import Sizes
from tarbox.models.beta import LEAST_PARAMETER, STARTS, Beta, BetaConfig, features, log_beta, positive
from tarbox.query.templates import template

PARAMETERS = st.lists(st.tuples(*[st.floats(0.05, 60, allow_nan=False)] * 4), min_size=1, max_size=5)
EVERYONE = slice(0, SIZES.entities)


@settings(deadline=None, max_examples=60)
@given(PARAMETERS)
def test_the_divergence_is_a_product_of_features(parameters: list[tuple[float, float, float, float]]) -> None:
    a, b, c, d = torch.tensor(parameters, dtype=torch.float64).T
    wanted = kl_divergence(Distribution(a, b), Distribution(c, d)).sum().item()
    entity, query = torch.cat([a, b])[None], torch.cat([c, d])[None]
    row, own = features(entity)
    found = log_beta(query) + own - (row * query).sum(-1)
    assert found.item() == pytest.approx(wanted, rel=1e-7, abs=1e-7)


def test_scores_are_the_margin_less_the_divergence() -> None:
    model, ids = model_of("beta"), rows_of(SHAPES["2i"])
    (query,) = model.distributions(SHAPES["2i"], ids)
    entities = positive(model.entities)
    apart = kl_divergence(Distribution(*entities[None].chunk(2, -1)), Distribution(*query[:, None].chunk(2, -1))).sum(
        -1
    )
    torch.testing.assert_close(model.score(SHAPES["2i"], ids, EVERYONE), (60.0 - apart).detach())


def test_single_precision_is_enough() -> None:
    """At the paper's size, for parameters as training leaves them."""
    torch.manual_seed(0)
    entities, queries = 1 + 9 * torch.rand(40, 800), 1 + 9 * torch.rand(30, 800)
    scores = []
    for rows, query in ((entities, queries), (entities.double(), queries.double())):
        found, own = features(rows)
        scores.append(log_beta(query)[:, None] + own - query @ found.T)
    assert (scores[0].double() - scores[1]).abs().max() < 0.02
    assert scores[1].std() > 10


def test_parameters_stay_above_their_least() -> None:
    model = model_of("beta")
    with torch.no_grad():
        model.entities.mul_(100)
    for shape in SHAPES.values():
        for query in model.distributions(shape, rows_of(shape)):
            assert (query > 0).all()
    assert positive(torch.tensor([-3.0, 0.0, 2.0])).tolist() == pytest.approx([LEAST_PARAMETER, 1.0, 3.0])


def test_a_double_complement_is_the_query() -> None:
    model, ids = model_of("beta"), rows_of(SHAPES["1p"])
    twice = template("nn", "not not (?r1 value ?e1)").shape
    torch.testing.assert_close(model.score(twice, ids, EVERYONE), model.score(SHAPES["1p"], ids, EVERYONE))
    once = template("n", "not (?r1 value ?e1)").shape
    torch.testing.assert_close(
        model.distributions(once, ids)[0] * model.distributions(SHAPES["1p"], ids)[0], torch.ones(6, 10).double()
    )


def test_an_intersection_has_parameters_between_its_operands() -> None:
    """A product of densities to powers that add up to 1; both parameters of a dimension have one power."""
    model, ids = model_of("beta"), rows_of(SHAPES["2i"])
    (both,) = model.distributions(SHAPES["2i"], ids)
    one, two = (model.distributions(SHAPES["1p"], ids[:, columns])[0] for columns in ([0, 1], [2, 3]))
    assert (both >= torch.minimum(one, two) - 1e-9).all()
    assert (both <= torch.maximum(one, two) + 1e-9).all()
    told_apart = ((one - two).abs() > 1e-6).view(6, 2, 5).all(1)
    shares = ((both - two) / (one - two)).detach().chunk(2, -1)
    assert told_apart.any()
    torch.testing.assert_close(*(share[told_apart] for share in shares), rtol=1e-6, atol=1e-6)


def test_of_a_union_the_nearest_alternative_counts() -> None:
    model, ids = model_of("beta"), rows_of(SHAPES["2u"])
    branches = [model.score(SHAPES["1p"], ids[:, columns], EVERYONE) for columns in ([0, 1], [2, 3])]
    torch.testing.assert_close(model.score(SHAPES["2u"], ids, EVERYONE), torch.maximum(*branches))


def test_the_complement_of_a_union_is_an_intersection_of_complements() -> None:
    model, ids = model_of("beta"), rows_of(template("nu", "not ((?r1 value ?e1) or (?r2 value ?e2))").shape)
    given, wanted = ("not ((?r1 value ?e1) or (?r2 value ?e2))", "(not (?r1 value ?e1)) and not (?r2 value ?e2)")
    scores = [model.score(template("x", text).shape, ids, EVERYONE) for text in (given, wanted)]
    torch.testing.assert_close(*scores)


def test_a_projection_may_begin_near_the_identity() -> None:
    """Where the anchors of queries differ, what a projection makes of them differs alike; a random one scrambles it."""
    alike = {}
    for start in STARTS:
        torch.manual_seed(0)
        model = Beta(BetaConfig(dimension=40, hidden=160, start=start), Sizes(entities=30, concepts=0, relations=4))
        ids = torch.stack([torch.arange(30) % 8, torch.arange(30)], 1)
        (found,) = model.distributions(SHAPES["1p"], ids)
        own = [(given - given.mean(0)).flatten() for given in (found, positive(model.entities))]
        alike[start] = torch.corrcoef(torch.stack(own))[0, 1].item()
    assert abs(alike["random"]) < 0.1
    assert alike["identity"] > 0.8


def test_the_identity_needs_room() -> None:
    with pytest.raises(ConfigError, match=r"hidden = 8: the identity of 5 distributions takes at least 10\."):
        BetaConfig(dimension=5, hidden=8, start="identity")
    with pytest.raises(ConfigError, match="start = 'zero': choose one of random, identity"):
        BetaConfig(start="zero")
