"""What the portions of one training step share: a tensor that is the same for all of them is computed once.

A step scores five to twenty portions with the same weights. A model whose entities take part in every portion by the
same expensive tensor asks for it by `shared`, and the step opens `sharing` around its portions (ADR 0030). Outside of
it, as wherever a person asks, nothing is kept. What is kept belongs to the context of one thread and is dropped when
the context ends, before the weights change.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, Final, TypeVar

import torch

T = TypeVar("T")
_KEPT: Final[ContextVar[dict[tuple[object, str, bool], Any] | None]] = ContextVar("kept", default=None)


@contextmanager
def sharing() -> Iterator[None]:
    """While this is open, `shared` makes everything once; the weights must not change meanwhile."""
    token = _KEPT.set({})
    try:
        yield
    finally:
        _KEPT.reset(token)


def shared(owner: object, name: str, make: Callable[[], T]) -> T:
    """What `make` gives; within `sharing` what it gave first for this owner and name.

    >>> made = []
    >>> with sharing():
    ...     _ = [shared("owner", "name", lambda: made.append(1)) for _ in range(3)]
    >>> _ = shared("owner", "name", lambda: made.append(1))
    >>> len(made)
    2
    """
    kept = _KEPT.get()
    if kept is None:
        return make()
    key = owner, name, torch.is_grad_enabled()
    if key not in kept:
        kept[key] = make()
    found: T = kept[key]
    return found
