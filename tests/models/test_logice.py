"""LogicE's own mathematics: intervals stay intervals, and the laws of their logic."""

from __future__ import annotations

import pytest
import torch
from entity_models import SHAPES, SIZES, model_of, rows_of

from tarbox.models import logice
from tarbox.models.fuzzy import T_NORMS
from tarbox.models.logice import intervals

EVERYONE = slice(0, SIZES.entities)


@pytest.mark.parametrize("name", ["1p", "3p", "3i", "2in", "pni", "nu"])
@pytest.mark.parametrize("t_norm", T_NORMS)
def test_lower_bounds_are_never_above_upper_ones(t_norm: str, name: str) -> None:
    for query in model_of("logice", t_norm=t_norm).queries(SHAPES[name], rows_of(SHAPES[name])):
        lower, upper = query.chunk(2, -1)
        assert (lower <= upper).all()
        assert ((query >= 0) & (query <= 1)).all()


def test_the_logic_of_intervals() -> None:
    """A complement undoes itself; a conjunction is below its operands, and with a complement nothing is true."""
    model = model_of("logice")
    torch.manual_seed(2)
    one, two = (intervals(torch.randn(7, 10, dtype=torch.float64)) for _ in range(2))
    algebra = logice._Intervals(model, {}, T_NORMS["lukasiewicz"])
    torch.testing.assert_close(algebra.complement(algebra.complement(one)), one)
    both = algebra.intersection([one, two])
    assert (both <= torch.minimum(one, two) + 1e-12).all()
    assert not algebra.intersection([one, algebra.complement(one)]).chunk(2, -1)[0].any()


def test_the_score_is_the_distance_of_all_bounds() -> None:
    model, ids = model_of("logice"), rows_of(SHAPES["2i"])
    (query,) = model.queries(SHAPES["2i"], ids)
    wanted = (query[:, None] - intervals(model.entities)).abs().sum(-1)
    found = model.score(SHAPES["2i"], ids, EVERYONE)
    torch.testing.assert_close(found, (24.0 - model.log_scale.exp() * wanted).detach())


@pytest.mark.parametrize(("start", "least", "most"), [("identity", 0.6, 1.0), ("random", -0.3, 0.3)])
def test_projections_begin_near_the_identity(start: str, least: float, most: float) -> None:
    model = model_of("logice", dimension=40, hidden=80, start=start)
    with torch.no_grad():
        model.relations.zero_()
    (moved,) = model.queries(SHAPES["1p"], torch.tensor([[0, entity] for entity in range(SIZES.entities)]))
    lower, given = (bounds.chunk(2, -1)[0].flatten() for bounds in (moved, intervals(model.entities)))
    assert least < torch.corrcoef(torch.stack([lower, given]))[0, 1] < most
