"""How many answers are listed, and how likely predictions must be. Light: commands show these numbers in their help."""

from __future__ import annotations

from typing import Final

from tarbox.core.errors import QueryError

MIN_DEGREE: Final = 0.1
"""The least degree of a prediction that is listed, unless one asks for another. Of those at this edge one in ten turns
out true: a rare disease's best candidate at 0.14 is worth reading, the 82nd at 0.02 is not."""
COUNTED: Final = 0.01
"""The least degree of a prediction that is counted at all; what is less likely is no answer."""


def check_degree(degree: float) -> float:
    """A least degree that someone asks for, where it is one.

    >>> check_degree(0.5)
    0.5
    """
    if not 0 <= degree <= 1:
        raise QueryError(f"min_degree = {degree:g}: it must lie between 0 and 1")
    return degree


def check_count(k: int | None) -> int | None:
    """How many answers someone asks for; None for all.

    >>> check_count(10)
    10
    """
    if k is not None and k < 0:
        raise QueryError(f"k = {k}: it must be 0 or more, or None for all answers")
    return k
