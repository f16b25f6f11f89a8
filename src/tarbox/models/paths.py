"""Rules of one and two steps, by counting: how often a known way from one entity to another goes with a relation.

A *way* of one step is a directed relation d with d(h, t); of two steps a pair (d1, d2) with an entity between. Its
confidence for a relation r is the share of its occurrences whose ends are related by r. What a link predictor has
learnt in its embeddings these say outright, and where it is unsure they decide.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, final

import numpy as np
from numpy.typing import NDArray

from tarbox.kb.facts import Facts

Keys = NDArray[np.int64]
Floats = NDArray[np.float32]

DOUBT: Final = 5.0
"""Occurrences added to a way that are not related: a rule seen once is not predicted."""
WIDEST: Final = 256
"""With more directed relations than this, the less frequent ones make no ways of two steps."""
FEATURES: Final = 4


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
        from tarbox.models.path_kernels import count_bodies, count_ways

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
        count_ways(graph, column, np.stack([facts.relations, facts.heads, facts.tails], axis=1), (single, double))
        bodies = np.zeros((len(chosen), len(chosen)), np.float32)
        flip = column[chosen ^ 1]
        count_bodies(graph[0], graph[1], column, flip, bodies)
        single /= counts[:, None] + DOUBT
        double /= bodies[:, :, None] + DOUBT
        np.minimum(double, 0.99, out=double)
        return cls(*graph, column, single, double)

    def features(self, relations: Keys, heads: Keys, tails: Keys) -> Floats:
        """[N, 4]: the best confidence of one step and of two, the ways of two steps taken together, how many."""
        from tarbox.models.path_kernels import describe_facts

        out = np.zeros((len(heads), FEATURES), np.float32)
        facts = np.stack([relations, heads, tails], axis=1)
        graph, confidences = (self.starts, self.relations, self.others), (self.single, self.double)
        describe_facts(graph, self.column, confidences, facts.astype(np.int64), out)
        return out
