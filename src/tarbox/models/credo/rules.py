"""Rule confidences: how often a fact holds where a path of one or two steps leads from its head to its tail."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, final

import numpy as np

from tarbox.kb.arrays import Floats, Ids, Keys
from tarbox.kb.facts import Facts
from tarbox.models.credo.kernels import PASSED, count_bodies, count_paths, find_paths, share_out

SMOOTHING: Final = 5.0
"""Occurrences of a rule's body without its head that are added to those counted: a rule seen once counts little."""
_RULES: Final = 1 << 24
"""The most confidences of rules with two steps; the less frequent relations make none."""
_COUNTED: Final = 1 << 20
"""Facts, drawn evenly, that rules are counted on."""
_FACTS_AT_ONCE: Final = 1 << 13


@final
@dataclass(frozen=True, slots=True)
class RuleConfidences:
    """The graph by entity (`starts`, `relations`, `others`: directed relation d with d(entity, other), in order of the
    other), and confidences: `single` [2R, R], `double` [W, W, R] over `column` [2R] of the relations."""

    starts: Keys
    relations: Ids
    others: Ids
    column: Ids
    single: Floats
    double: Floats

    @classmethod
    def of(cls, facts: Facts, only: int | None = None) -> RuleConfidences:
        """Of rules for all relations, or for one: then counted on all of its facts."""
        entities, relations = len(facts.vocabulary.entities), len(facts.vocabulary.relations)
        near = np.concatenate([facts.heads, facts.tails])
        directed = np.concatenate([2 * facts.relations, 2 * facts.relations + 1])
        far = np.concatenate([facts.tails, facts.heads])
        order = np.lexsort((directed, far, near))
        starts = np.searchsorted(near[order], np.arange(entities + 1))
        graph = (starts, directed[order].astype(np.int32), far[order].astype(np.int32))
        counts = np.bincount(directed, minlength=2 * relations)
        column = np.full(2 * relations, -1, np.int32)
        width = min(2 * relations, 256, int((_RULES / max(relations, 1)) ** 0.5))
        chosen = np.sort(np.argsort(-counts, kind="stable")[:width])
        column[chosen] = np.arange(len(chosen))
        single = np.zeros((2 * relations, relations), np.float32)
        double = np.zeros((len(chosen), len(chosen), relations), np.float32)
        counted = np.stack([facts.relations, facts.heads, facts.tails], axis=1)
        step = max(1, -(-len(counted) // _COUNTED)) if only is None else 1
        counted = counted[::step] if only is None else counted[facts.relations == only]
        count_paths(graph, column, np.ascontiguousarray(counted), (single, double))
        bodies = np.zeros((len(chosen), len(chosen)), np.float32)
        count_bodies(graph[0], graph[1], column, column[chosen ^ 1], bodies)
        single *= step / (counts[:, None] + SMOOTHING)
        double *= step / (bodies[:, :, None] + SMOOTHING)
        np.minimum(double, 0.99, out=double)
        return cls(*graph, column, single, double)

    def features(self, relations: Keys, heads: Keys, tails: Keys) -> Floats:
        """[N, 4] of facts; see `tarbox.models.credo.kernels.find_paths`."""
        out = np.zeros((len(heads), 4), np.float32)
        facts = np.stack([relations, heads, tails], axis=1).astype(np.int32)
        graph, confidences = (self.starts, self.relations, self.others), (self.single, self.double)

        def work(rows: slice) -> None:
            find_paths(graph, self.column, confidences, facts[rows], out[rows])

        share_out(work, len(facts), _FACTS_AT_ONCE)
        return out

    def best_paths(self, relation: int, head: int, tail: int) -> list[tuple[float, tuple[tuple[int, int, int], ...]]]:
        """(confidence, steps (directed relation, from, to)) of the best path of one step and the best of two."""
        first = slice(self.starts[head], min(self.starts[head + 1], self.starts[head] + PASSED))
        single = [(float(self.single[way, relation]), ((way, head, tail),)) for way in self._ways(head, tail)]
        double = [
            (float(self.double[self.column[way], self.column[then], relation]), ((way, head, by), (then, by, tail)))
            for way, by in zip(self.relations[first].tolist(), self.others[first].tolist(), strict=True)
            if by not in (head, tail) and self.column[way] >= 0
            for then in self._ways(by, tail)
            if self.column[then] >= 0
        ]
        return [max(paths) for paths in (single, double) if paths]

    def _ways(self, near: int, far: int) -> list[int]:
        own = slice(self.starts[near], self.starts[near + 1])
        low, high = np.searchsorted(self.others[own], [far, far + 1])
        found: list[int] = self.relations[own][low:high].tolist()
        return found
