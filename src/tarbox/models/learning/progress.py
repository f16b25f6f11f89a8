"""How far a piece of work is, told by whoever does it to whoever asked."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any, TypeAlias, TypeVar

from tarbox.kb.arrays import Keys

T = TypeVar("T", bound=tuple[Keys, Any])
TellShare: TypeAlias = Callable[[float], object]
"""Told which share of some work is done."""


def unheard(done: float) -> None:
    """Nobody asked."""


def within(tell: TellShare, start: float, end: float) -> TellShare:
    """What is told of a piece of the work that lasts from one share of it to another."""
    return lambda done: tell(start + (end - start) * done)


def watched(found: Iterable[T], done: Callable[[int], float], tell: TellShare) -> Iterator[T]:
    """The same; which share of it is done follows from the last of a part's sorted keys."""
    for part in found:
        yield part
        if len(part[0]):
            tell(done(int(part[0][-1])))
