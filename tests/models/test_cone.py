"""ConE's own mathematics: the distance from a cone case by case, and what operations do to cones."""

from __future__ import annotations

from math import pi, sin

import pytest
import torch
from entity_models import SHAPES, SIZES, model_of, rows_of
from hypothesis import given, settings
from hypothesis import strategies as st

from tarbox.models import cone, pairs
from tarbox.models.cone import Cones, angles
from tarbox.models.pairs import cone_pairs

ANGLES = st.floats(-pi, pi, allow_nan=False)
PLACES = st.lists(st.tuples(ANGLES, st.floats(0, pi), ANGLES), min_size=1, max_size=6)
EVERYONE = slice(0, SIZES.entities)


def slow_distance(axis: float, half: float, place: float, inside: float) -> float:
    """As the paper has it: outside from the nearer of both ends, and nothing within the cone."""
    to_axis, width = abs(sin((place - axis) / 2)), abs(sin(half / 2))
    ends = (abs(sin((place - end) / 2)) for end in (axis - half, axis + half))
    return (0.0 if to_axis < width else min(ends)) + inside * min(to_axis, width)


@settings(deadline=None, max_examples=80)
@given(PLACES, st.floats(0, 0.9))
def test_the_distance_from_a_cone(places: list[tuple[float, float, float]], inside: float) -> None:
    axes, halves, points = torch.tensor(places, dtype=torch.float64).T
    found = cone_pairs((axes[None], halves[None]), points[None], torch.zeros(1, 1, dtype=torch.int64), inside)
    assert found.item() == pytest.approx(sum(slow_distance(*place, inside) for place in places), abs=1e-7)


def test_scores_have_a_margin_and_a_learnt_scale(monkeypatch: pytest.MonkeyPatch) -> None:
    """However few queries are scored at a time."""
    monkeypatch.setattr(pairs, "_TERMS_AT_A_TIME", 1)
    model, ids = model_of("cone"), rows_of(SHAPES["2p"])
    (cones,) = model.cones(SHAPES["2p"], ids)
    found, places = model.score(SHAPES["2p"], ids, EVERYONE), angles(model.entities)
    for row, entity in [(0, 3), (4, 7), (5, 11)]:
        parts = zip(cones.axis_BD[row].tolist(), cones.half_BD[row].tolist(), places[entity].tolist(), strict=True)
        distance = sum(slow_distance(*part, 0.02) for part in parts)
        assert found[row, entity].item() == pytest.approx(30.0 - model.log_modulus.exp().item() * distance)


@pytest.mark.parametrize("name", ["1p", "3p", "3i", "2in", "nu"])
def test_cones_are_cones(name: str) -> None:
    model, ids = model_of("cone"), rows_of(SHAPES[name])
    for cones in model.cones(SHAPES[name], ids):
        assert (cones.axis_BD.abs() <= pi).all()
        assert ((cones.half_BD >= 0) & (cones.half_BD <= pi)).all()


def test_a_complement_is_what_is_left_of_the_circle() -> None:
    """Whoever is inside of a cone is outside of its complement, and the complement of that is the cone itself."""
    algebra = cone._Cones(model_of("cone"), {})
    torch.manual_seed(1)
    cones = Cones((torch.rand(30, 5) * 2 - 1) * pi, torch.rand(30, 5) * pi)
    other = algebra.complement(cones)
    for one, two in zip(algebra.complement(other), cones, strict=True):
        torch.testing.assert_close(one, two)
    places = (torch.rand(30, 5) * 2 - 1) * pi
    within, left = (torch.sin((places - one.axis_BD) / 2).abs() < torch.sin(one.half_BD / 2) for one in (cones, other))
    assert (within ^ left).all()


def test_an_intersection_is_smaller_than_its_operands_and_between_their_axes() -> None:
    model = model_of("cone")
    axes = torch.tensor([[[-1.0]], [[0.5]]], dtype=torch.float64).expand(2, 4, 5)
    halves = torch.rand(2, 4, 5, dtype=torch.float64)
    found = model.intersection.combine([Cones(*pair) for pair in zip(axes, halves, strict=True)])
    assert ((found.axis_BD > -1) & (found.axis_BD < 0.5)).all()
    assert (found.half_BD < halves.amin(0)).all()


def test_the_mean_of_axes_goes_round_the_circle() -> None:
    """Between 3 and -3 is pi, not 0, as a mean of numbers would have it."""
    model = model_of("cone")
    with torch.no_grad():
        model.intersection.axis_outer.weight.zero_()  # equal weights
    axes = [Cones(torch.full((1, 5), angle, dtype=torch.float64), torch.zeros(1, 5).double()) for angle in (3.0, -3.0)]
    torch.testing.assert_close(model.intersection.combine(axes).axis_BD.abs(), torch.full((1, 5), pi).double())


def test_opposite_axes_have_a_finite_gradient() -> None:
    model = model_of("cone")
    with torch.no_grad():
        model.intersection.axis_outer.weight.zero_()
    axis = torch.zeros(1, 5, dtype=torch.float64, requires_grad=True)
    pair = [Cones(axis, torch.ones(1, 5).double()), Cones(axis + pi, torch.ones(1, 5).double())]
    model.intersection.combine(pair).axis_BD.sum().backward()
    assert axis.grad is not None
    assert axis.grad.isfinite().all()


def test_projections_begin_near_the_identity_of_axes_with_narrow_cones() -> None:
    """Of 40 axes; the random part of the weights is noise around it."""
    model = model_of("cone near the identity", dimension=40, hidden=80)
    with torch.no_grad():
        model.relations.zero_()
    axes = (torch.rand(50, 40, dtype=torch.float64) * 2 - 1) * pi / 2
    found = model.project(Cones(axes, torch.zeros_like(axes)), torch.zeros(50, dtype=torch.int64))
    assert torch.corrcoef(torch.stack([found.axis_BD.flatten(), axes.flatten()]))[0, 1] > 0.9
    assert found.half_BD.median() < 0.5


def test_of_a_union_the_nearest_cone_counts() -> None:
    model, ids = model_of("cone"), rows_of(SHAPES["up"])
    branches = [model.score(SHAPES["2p"], ids[:, columns], EVERYONE) for columns in ([0, 1, 2], [0, 3, 4])]
    torch.testing.assert_close(model.score(SHAPES["up"], ids, EVERYONE), torch.maximum(*branches))
