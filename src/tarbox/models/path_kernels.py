"""Loops over ways of one and two steps, as machine code. Importing this module imports numba.

A graph is `starts`, `relations` and `others` of `tarbox.models.paths.Ways`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, TypeVar, cast

import numba
import numpy as np

F = TypeVar("F", bound=Callable[..., Any])

NEIGHBOURS: Final = 64
"""An entity with more neighbours is passed through by this many of them alone."""


def _compiled(function: F) -> F:
    return cast(F, numba.njit(cache=True, nogil=True)(function))


@_compiled
def _find(others: Any, low: int, high: int, entity: int) -> int:
    """The first place from `low` to `high` with this entity or a later one."""
    while low < high:
        middle = (low + high) // 2
        if others[middle] < entity:
            low = middle + 1
        else:
            high = middle
    return low


@_compiled
def count_ways(graph: Any, column: Any, facts: Any, counts: Any) -> None:
    """How often each way goes with each relation, over facts [N, 3] of relation, head and tail."""
    starts, ways, others = graph
    single, double = counts
    for fact in range(len(facts)):
        relation, head, tail = facts[fact, 0], facts[fact, 1], facts[fact, 2]
        place = _find(others, starts[head], starts[head + 1], tail)
        while place < starts[head + 1] and others[place] == tail:
            if ways[place] != 2 * relation:
                single[ways[place], relation] += 1
            place += 1
        last = min(starts[head + 1], starts[head] + NEIGHBOURS)
        for first in range(starts[head], last):
            between = others[first]
            if between in (tail, head) or column[ways[first]] < 0:
                continue
            second = _find(others, starts[between], starts[between + 1], tail)
            while second < starts[between + 1] and others[second] == tail:
                if column[ways[second]] >= 0:
                    double[column[ways[first]], column[ways[second]], relation] += 1
                second += 1


@_compiled
def count_bodies(starts: Any, ways: Any, column: Any, flip: Any, bodies: Any) -> None:
    """How often each way of two steps occurs at all: the ways in times the ways out, for each entity between.

    `flip` is the column of a relation's inverse: what leads out of an entity leads into it when read backwards.
    """
    width = len(bodies)
    out = np.zeros(width, np.float32)
    for entity in range(len(starts) - 1):
        out[:] = 0
        for place in range(starts[entity], starts[entity + 1]):
            if column[ways[place]] >= 0:
                out[column[ways[place]]] += 1
        for into in range(width):
            if out[into] > 0 and flip[into] >= 0:
                for further in range(width):
                    bodies[flip[into], further] += out[into] * out[further]


@_compiled
def describe_facts(graph: Any, column: Any, confidences: Any, facts: Any, out: Any) -> None:
    """What `tarbox.models.paths.Ways.features` says of facts [N, 3]."""
    starts, ways, others = graph
    single, double = confidences
    for fact in range(len(facts)):
        relation, head, tail = facts[fact, 0], facts[fact, 1], facts[fact, 2]
        place = _find(others, starts[head], starts[head + 1], tail)
        while place < starts[head + 1] and others[place] == tail:
            out[fact, 0] = max(out[fact, 0], single[ways[place], relation])
            place += 1
        last = min(starts[head + 1], starts[head] + NEIGHBOURS)
        for first in range(starts[head], last):
            between = others[first]
            if between in (tail, head) or column[ways[first]] < 0:
                continue
            second = _find(others, starts[between], starts[between + 1], tail)
            while second < starts[between + 1] and others[second] == tail:
                if column[ways[second]] >= 0:
                    confidence = double[column[ways[first]], column[ways[second]], relation]
                    out[fact, 1] = max(out[fact, 1], confidence)
                    out[fact, 2] -= np.log1p(-confidence)
                    out[fact, 3] += 1
                second += 1
        out[fact, 3] = np.log1p(out[fact, 3])
