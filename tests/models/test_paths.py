"""Ways of one and two steps against counting them one by one."""

from __future__ import annotations

import math
from collections import defaultdict

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tarbox.kb.facts import Facts
from tarbox.kb.vocabulary import Vocabulary
from tarbox.models.paths import DOUBT, FEATURES, Ways

ENTITIES, RELATIONS = 6, 2
WORDS = Vocabulary.of([f"e{n}" for n in range(ENTITIES)], relations=[f"r{n}" for n in range(RELATIONS)])
triples = st.tuples(st.integers(0, ENTITIES - 1), st.integers(0, RELATIONS - 1), st.integers(0, ENTITIES - 1))


class Naive:
    """Confidences by the definition: d(x, y) of directed relation 2r is r(x, y), of 2r + 1 it is r(y, x)."""

    def __init__(self, facts: set[tuple[int, int, int]]) -> None:
        self.steps = sorted({(h, 2 * r, t) for h, r, t in facts} | {(t, 2 * r + 1, h) for h, r, t in facts})
        self.doubles: dict[tuple[int, int], list[tuple[int, int, int]]] = defaultdict(list)
        for x, first, between in self.steps:
            for other, second, y in self.steps:
                if other == between:
                    self.doubles[first, second].append((x, between, y))
        self.facts = facts

    def single(self, way: int, relation: int) -> float:
        """A relation says nothing about itself."""
        ends = [(x, y) for x, d, y in self.steps if d == way]
        hits = sum((x, relation, y) in self.facts for x, y in ends) if way != 2 * relation else 0
        return hits / (len(ends) + DOUBT)

    def double(self, ways: tuple[int, int], relation: int) -> float:
        found = self.doubles[ways]
        hits = sum((x, relation, y) in self.facts and between not in (x, y) for x, between, y in found)
        return min(hits / (len(found) + DOUBT), 0.99)

    def features(self, relation: int, head: int, tail: int) -> list[float]:
        ones = [self.single(d, relation) for x, d, y in self.steps if (x, y) == (head, tail)]
        twos = [
            self.double(ways, relation)
            for ways, found in self.doubles.items()
            for x, between, y in found
            if (x, y) == (head, tail) and between not in (head, tail)
        ]
        together = -math.fsum(math.log1p(-confidence) for confidence in twos)
        return [max(ones, default=0.0), max(twos, default=0.0), together, math.log1p(len(twos))]


@given(st.sets(triples, max_size=18), st.lists(triples, min_size=1, max_size=8))
@settings(deadline=None)
def test_features_follow_the_definition(known: set[tuple[int, int, int]], asked: list[tuple[int, int, int]]) -> None:
    ways, naive = Ways.of(Facts.of(WORDS, sorted(known))), Naive(known)
    heads, relations, tails = (np.array(column, np.int64) for column in zip(*asked, strict=True))
    found = ways.features(relations, heads, tails)
    assert found.shape == (len(asked), FEATURES)
    for row, (head, relation, tail) in zip(found.tolist(), asked, strict=True):
        assert row == pytest.approx(naive.features(relation, head, tail), rel=1e-4, abs=1e-6)


def test_a_graph_without_facts() -> None:
    for words in (WORDS, Vocabulary.of(["a"]), Vocabulary.of([])):
        nothing = np.empty(0, np.int64)
        assert Ways.of(Facts.of(words)).features(nothing, nothing, nothing).shape == (0, FEATURES)
