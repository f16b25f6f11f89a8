"""What the portions of a step share is made once, and changes neither scores nor gradients."""

from __future__ import annotations

import threading

import pytest
import torch
from entity_models import SHAPES, SIZES, VARIANTS, model_of, rows_of

from tarbox.models.sharing import shared, sharing


def gradients(variant: str, *, together: bool) -> list[torch.Tensor]:
    """The scores of portions of five shapes, and the gradient of every parameter."""
    model = model_of(variant)
    shapes = [shape for name, shape in SHAPES.items() if model.supports(shape) and name in ("1p", "2p", "2i", "up")]

    def score() -> list[torch.Tensor]:
        candidates = torch.randint(SIZES.entities, (6, 9), generator=torch.Generator().manual_seed(1))
        return [model.score_candidates(shape, rows_of(shape), candidates) for shape in shapes]

    if together:
        with sharing():
            scores = score()
    else:
        scores = score()
    sum(one.square().sum() for one in scores).backward()  # type: ignore[union-attr]
    return [*(one.detach() for one in scores), *(parameter.grad for parameter in model.parameters())]  # type: ignore[misc]


@pytest.mark.parametrize("variant", VARIANTS)
def test_scores_and_gradients_are_the_same(variant: str) -> None:
    alone, together = gradients(variant, together=False), gradients(variant, together=True)
    for one, other in zip(alone, together, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize(("variant", "name"), [("beta", "features"), ("fuzzqe", "blocks")])
def test_a_table_is_made_once_a_step(variant: str, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[str] = []

    def count(owner: object, asked: str, make: object) -> object:
        def noted() -> object:
            made.append(asked)
            return make()  # type: ignore[operator]

        return shared(owner, asked, noted)

    monkeypatch.setattr(f"tarbox.models.{variant}.shared", count)
    gradients(variant, together=True)
    assert made.count(name) == 1
    made.clear()
    gradients(variant, together=False)
    assert made.count(name) == 4


def test_nothing_is_kept_outside() -> None:
    made: list[int] = []
    for _ in range(2):
        with sharing():
            for _ in range(3):
                shared("owner", "one", lambda: made.append(1))
    assert len(made) == 2
    shared("owner", "one", lambda: made.append(1))
    assert len(made) == 3


def test_gradients_are_not_shared_with_those_who_want_none() -> None:
    weight = torch.ones(2, requires_grad=True)
    with sharing():
        with torch.no_grad():
            assert not shared(weight, "twice", lambda: weight * 2).requires_grad
        assert shared(weight, "twice", lambda: weight * 2).requires_grad


def test_another_thread_shares_nothing() -> None:
    made: list[int] = []
    with sharing():
        shared("owner", "one", lambda: made.append(1))
        other = threading.Thread(target=lambda: shared("owner", "one", lambda: made.append(2)))
        other.start()
        other.join()
    assert made == [1, 2]
