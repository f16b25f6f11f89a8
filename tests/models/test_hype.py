"""HypE's own mathematics: the geometry of the ball, against its definitions."""

from __future__ import annotations

import torch
from entity_models import SHAPES, SIZES, model_of, rows_of

from tarbox.models.hype import add, distance, from_ball, to_ball

EVERYONE = slice(0, SIZES.entities)


def points(size: int, seed: int = 0) -> torch.Tensor:
    torch.manual_seed(seed)
    return to_ball(torch.randn(size, 4, dtype=torch.float64) / 2)


def test_maps_at_the_origin_undo_each_other() -> None:
    tangent = torch.randn(20, 4, dtype=torch.float64)
    torch.testing.assert_close(from_ball(to_ball(tangent)), tangent)
    assert (to_ball(100 * tangent).norm(dim=-1) < 1).all()


def test_the_distance_is_that_of_moebius_addition() -> None:
    """d(x, y) = 2 artanh |-x + y|, symmetric, 0 for equal points, and no shorter by a detour."""
    x, y, z = points(30, 1), points(30, 2), points(30, 3)
    torch.testing.assert_close(distance(x, y), 2 * torch.atanh(add(-x, y).norm(dim=-1)))
    torch.testing.assert_close(distance(x, y), distance(y, x))
    assert (distance(x, x) < 1e-5).all()
    assert (distance(x, z) <= distance(x, y) + distance(y, z) + 1e-9).all()


def test_addition_moves_all_points_alike() -> None:
    """Adding a point from the left keeps distances, adding its opposite undoes it, and the origin changes nothing."""
    x, y, move = points(30, 1), points(30, 2), points(30, 3)
    torch.testing.assert_close(distance(add(move, x), add(move, y)), distance(x, y))
    torch.testing.assert_close(add(-move, add(move, x)), x)
    torch.testing.assert_close(add(x, torch.zeros_like(x)), x)


def test_points_within_a_query_are_nearer_than_those_outside() -> None:
    """The distance outside is 0 within, where only the share of the way to the centre counts."""
    model, ids = model_of("hype", inside=0.0), rows_of(SHAPES["2i"])
    (query,) = model.hyperboloids(SHAPES["2i"], ids)
    ends = torch.stack([add(query.centre_BD, sign * query.limit_BD) for sign in (-1.0, 1.0)])
    assert (model._distances(ends.mean(0)[:, None], query) < 1e-5).all()
    beyond = to_ball(3 * from_ball(ends.amax(0)).abs())
    assert (model._distances(beyond[:, None], query) > 0.1).all()


def test_an_intersection_does_not_depend_on_the_order() -> None:
    model, ids = model_of("hype"), rows_of(SHAPES["2i"])
    turned = model.score(SHAPES["2i"], ids[:, [2, 3, 0, 1]], EVERYONE)
    torch.testing.assert_close(model.score(SHAPES["2i"], ids, EVERYONE), turned)
