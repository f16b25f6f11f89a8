"""T-norms and t-conorms against their definitions (Eq. 9-11)."""

from __future__ import annotations

from itertools import product

import pytest
import torch

from tarbox.models.fuzzy import T_NORMS, complement

DEFINITIONS = {
    "product": lambda x, y: x * y,
    "godel": min,
    "lukasiewicz": lambda x, y: max(0.0, x + y - 1),
}
GRID = [0.0, 0.1, 0.25, 0.5, 0.75, 0.9, 1.0]
X, Y = (torch.tensor(column, dtype=torch.float64) for column in zip(*product(GRID, GRID), strict=True))


def test_every_t_norm_has_a_definition_here() -> None:
    assert set(T_NORMS) == set(DEFINITIONS)


@pytest.mark.parametrize("name", T_NORMS)
def test_the_t_norm_follows_its_definition(name: str) -> None:
    wanted = [DEFINITIONS[name](x, y) for x, y in product(GRID, GRID)]
    assert T_NORMS[name].meet(X, Y).tolist() == pytest.approx(wanted)


@pytest.mark.parametrize("name", T_NORMS)
def test_the_t_conorm_is_its_dual(name: str) -> None:
    dual = complement(T_NORMS[name].meet(complement(X), complement(Y)))
    torch.testing.assert_close(T_NORMS[name].join(X, Y), dual)


@pytest.mark.parametrize("name", T_NORMS)
@pytest.mark.parametrize("operation", ["meet", "join"])
def test_they_are_commutative_associative_monotone_and_stay_in_the_unit_interval(name: str, operation: str) -> None:
    operate = getattr(T_NORMS[name], operation)
    z = Y.flip(0)
    torch.testing.assert_close(operate(X, Y), operate(Y, X))
    torch.testing.assert_close(operate(operate(X, Y), z), operate(X, operate(Y, z)))
    assert (operate(X, Y) <= operate(X, (Y + 0.1).clamp_max(1)) + 1e-12).all()
    assert ((operate(X, Y) >= 0) & (operate(X, Y) <= 1)).all()


@pytest.mark.parametrize("name", T_NORMS)
def test_full_and_empty_sets_are_neutral(name: str) -> None:
    logic = T_NORMS[name]
    torch.testing.assert_close(logic.meet(X, torch.ones_like(X)), X)
    torch.testing.assert_close(logic.join(X, torch.zeros_like(X)), X)


@pytest.mark.parametrize("name", T_NORMS)
def test_three_operands_are_folded(name: str) -> None:
    logic = T_NORMS[name]
    torch.testing.assert_close(logic.intersection([X, Y, X]), logic.meet(logic.meet(X, Y), X))
    torch.testing.assert_close(logic.union([X, Y, X]), logic.join(logic.join(X, Y), X))
