"""Rules of one and two steps, by counting: how often a known way from one entity to another goes with a relation.

A *way* of one step is a directed relation d with d(h, t); of two steps a pair (d1, d2) with an entity between. Its
confidence for a relation r is the share of its occurrences whose ends are related by r. What a link predictor has learnt
in its embeddings these say outright, and where it is unsure they decide.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, TypeVar, cast, final

import numba
import numpy as np
from numpy.typing import NDArray

from tarbox.kb.facts import Facts

Keys = NDArray[np.int64]
Floats = NDArray[np.float32]
F = TypeVar("F", bound=Callable[..., Any])

NEIGHBOURS: Final = 64
"""An entity with more neighbours is passed through by this many of them alone."""
DOUBT: Final = 5.0
"""Occurrences added to a way that are not related: a rule seen once is not believed."""
WIDEST: Final = 256
"""With more directed relations than this, the less frequent ones make no ways of two steps."""
FEATURES: Final = 4


def _compiled(function: F) -> F:
    return cast(F, numba.njit(cache=True, nogil=True)(function))


@final
@dataclass(frozen=True, slots=True)
class Ways:
    """The graph by entity (`starts`, `relations`, `others`: directed relation d with d(entity, other), in order of the
    other), and the confidences of ways: `single` [2R, R] and `double` [W, W, R] over `column` [2R] of the relations."""

    starts: Keys
    relations: NDArray[np.int32]
    others: NDArray[np.int32]
    column: NDArray[np.int32]
    single: Floats
    double: Floats

    @classmethod
    def of(cls, facts: Facts) -> Ways:
        entities, relations = len(facts.vocabulary.entities), len(facts.vocabulary.relations)
        near = np.concatenate([facts.heads, facts.tails])
        directed = np.concatenate([2 * facts.relations, 2 * facts.relations + 1])
        far = np.concatenate([facts.tails, facts.heads])
        order = np.lexsort((directed, far, near))
        starts = np.searchsorted(near[order], np.arange(entities + 1))
        graph = (starts, directed[order].astype(np.int32), far[order].astype(np.int32))
        counts = np.bincount(directed, minlength=2 * relations)
        column = np.full(2 * relations, -1, np.int32)
        chosen = np.sort(np.argsort(-counts, kind="stable")[:WIDEST])
        column[chosen] = np.arange(len(chosen))
        single = np.zeros((2 * relations, relations), np.float32)
        double = np.zeros((len(chosen), len(chosen), relations), np.float32)
        _count(*graph, column, facts.heads, facts.relations, facts.tails, single, double)
        bodies = np.zeros((len(chosen), len(chosen)), np.float32)
        flip = column[chosen ^ 1]
        _count_bodies(*graph, column, flip, bodies)
        single /= counts[:, None] + DOUBT
        double /= bodies[:, :, None] + DOUBT
        np.minimum(double, 0.99, out=double)
        return cls(*graph, column, single, double)

    def features(self, relations: Keys, heads: Keys, tails: Keys) -> Floats:
        """[N, 4]: the best confidence of one step and of two, the ways of two steps taken together, how many."""
        out = np.zeros((len(heads), FEATURES), np.float32)
        facts = np.stack([relations, heads, tails], axis=1)
        _describe(self.starts, self.relations, self.others, self.column, self.single, self.double, facts, out)
        return out


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
def _count(
    starts: Any, ways: Any, others: Any, column: Any, heads: Any, relations: Any, tails: Any, single: Any, double: Any
) -> None:
    """How often each way goes with each relation."""
    for fact in range(len(heads)):
        head, relation, tail = heads[fact], relations[fact], tails[fact]
        place = _find(others, starts[head], starts[head + 1], tail)
        while place < starts[head + 1] and others[place] == tail:
            if ways[place] != 2 * relation:
                single[ways[place], relation] += 1
            place += 1
        last = min(starts[head + 1], starts[head] + NEIGHBOURS)
        for first in range(starts[head], last):
            between = others[first]
            if between == tail or between == head or column[ways[first]] < 0:
                continue
            second = _find(others, starts[between], starts[between + 1], tail)
            while second < starts[between + 1] and others[second] == tail:
                if column[ways[second]] >= 0:
                    double[column[ways[first]], column[ways[second]], relation] += 1
                second += 1


@_compiled
def _count_bodies(starts: Any, ways: Any, others: Any, column: Any, flip: Any, bodies: Any) -> None:
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
def _describe(
    starts: Any,
    ways: Any,
    others: Any,
    column: Any,
    single: Any,
    double: Any,
    facts: Any,
    out: Any,
) -> None:
    for fact in range(len(facts)):
        relation, head, tail = facts[fact]
        place = _find(others, starts[head], starts[head + 1], tail)
        while place < starts[head + 1] and others[place] == tail:
            out[fact, 0] = max(out[fact, 0], single[ways[place], relation])
            place += 1
        last = min(starts[head + 1], starts[head] + NEIGHBOURS)
        for first in range(starts[head], last):
            between = others[first]
            if between == tail or between == head or column[ways[first]] < 0:
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
