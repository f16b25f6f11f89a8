"""Query2box's own mathematics: the distance from a box by hand, and what operations do to boxes."""

from __future__ import annotations

import pytest
import torch
from entity_models import SHAPES, SIZES, model_of, rows_of
from hypothesis import given, settings
from hypothesis import strategies as st

from tarbox.models.pairs import box_distances, box_pairs

NUMBERS = st.floats(-5, 5, allow_nan=False, width=32)
PLACES = st.lists(st.tuples(NUMBERS, st.floats(0, 3, width=32), NUMBERS), min_size=1, max_size=6)


def slow_distance(centre: float, offset: float, place: float, inside: float) -> float:
    """Outside: how far from the nearest corner, and all of the half width counts as inside."""
    apart = abs(place - centre)
    return (apart - offset) + inside * offset if apart > offset else inside * apart


@settings(deadline=None, max_examples=60)
@given(PLACES, st.floats(0, 1))
def test_the_distance_from_a_box(places: list[tuple[float, float, float]], inside: float) -> None:
    wanted = sum(slow_distance(*place, inside) for place in places)
    columns = torch.tensor(places, dtype=torch.float64).T
    box, table = (columns[None, 0], columns[None, 1]), columns[None, 2]
    assert box_pairs(box, table, torch.tensor([[0]]), inside).item() == pytest.approx(wanted, abs=1e-9)
    assert box_distances(box, table, inside).item() == pytest.approx(wanted, abs=1e-9)


def test_a_relation_moves_and_widens() -> None:
    model, ids = model_of("q2b"), rows_of(SHAPES["2p"])
    (box,) = model.boxes(SHAPES["2p"], ids)
    centre = model.entities[ids[:, 2]] + model.relations[ids[:, 1]] + model.relations[ids[:, 0]]
    torch.testing.assert_close(box.centre_BD, centre)
    torch.testing.assert_close(box.offset_BD, model.widths[ids[:, 1]].abs() + model.widths[ids[:, 0]].abs())


def test_an_intersection_is_smaller_than_its_operands_and_between_their_centres() -> None:
    model, ids = model_of("q2b"), rows_of(SHAPES["3i"])
    (box,) = model.boxes(SHAPES["3i"], ids)
    parts = [model.boxes(SHAPES["1p"], ids[:, [place, place + 1]])[0] for place in (0, 2, 4)]
    centres, offsets = (torch.stack([part[side] for part in parts]) for side in (0, 1))
    assert (box.offset_BD < offsets.amin(0)).all()
    assert ((box.centre_BD >= centres.amin(0)) & (box.centre_BD <= centres.amax(0))).all()


def test_of_a_union_the_nearest_box_counts() -> None:
    model, ids, everyone = model_of("q2b"), rows_of(SHAPES["up"]), slice(0, SIZES.entities)
    branches = [model.score(SHAPES["2p"], ids[:, columns], everyone) for columns in ([0, 1, 2], [0, 3, 4])]
    torch.testing.assert_close(model.score(SHAPES["up"], ids, everyone), torch.maximum(*branches))


def test_whoever_is_at_the_centre_scores_the_whole_margin() -> None:
    model = model_of("q2b", inside=0.5)
    shape, ids = SHAPES["1p"], torch.tensor([[1, 2]])
    with torch.no_grad():
        model.entities[7] = model.entities[2] + model.relations[1]
    assert model.score(shape, ids, slice(7, 8)).item() == pytest.approx(24.0)
