"""Entities that are alike, against the definition."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tarbox.kb.facts import Facts
from tarbox.kb.vocabulary import Vocabulary
from tarbox.models import neighbours
from tarbox.models.neighbour_kernels import DOUBT, LITTLE
from tarbox.models.neighbours import Leads, Neighbours

ENTITIES, RELATIONS = 9, 2
WORDS = Vocabulary.of([f"e{n}" for n in range(ENTITIES)], relations=[f"r{n}" for n in range(RELATIONS)])
Triple = tuple[int, int, int]
triples = st.tuples(st.integers(0, ENTITIES - 1), st.integers(0, RELATIONS - 1), st.integers(0, ENTITIES - 1))


class Naive:
    """By the definition: directed relation 2r leads from a tail to its heads, 2r + 1 from a head to its tails."""

    def __init__(self, facts: set[Triple]) -> None:
        self.links: dict[int, set[tuple[int, int]]] = {entity: set() for entity in range(ENTITIES)}
        for head, relation, tail in facts:
            self.links[head].add((2 * relation + 1, tail))
            self.links[tail].add((2 * relation, head))

    def weight(self, link: tuple[int, int]) -> float:
        return math.log(ENTITIES / sum(link in own for own in self.links.values()))

    def likeness(self, one: int, other: int) -> float:
        shared = math.fsum(self.weight(link) ** 2 for link in self.links[one] & self.links[other])
        lengths = [math.sqrt(math.fsum(self.weight(link) ** 2 for link in self.links[e])) for e in (one, other)]
        return shared / math.prod(lengths) if one != other and shared else 0.0

    def features(self, directed: int, near: int, far: int) -> list[float]:
        leading = {e: {x for d, x in own if d == directed} for e, own in self.links.items()}
        found = math.fsum(self.likeness(near, e) for e in leading if far in leading[e])
        total = math.fsum(self.likeness(near, e) for e in leading if leading[e])
        return [math.log(found + LITTLE), found / (total + DOUBT)]


@given(st.sets(triples, max_size=24), st.lists(triples, min_size=1, max_size=8))
@settings(deadline=None)
def test_features_follow_the_definition(known: set[Triple], asked: list[Triple]) -> None:
    found, naive = Neighbours.of(Facts.of(WORDS, sorted(known))), Naive(known)
    for entity in range(ENTITIES):
        places = slice(found.starts[entity], found.starts[entity + 1])
        listed = dict(zip(found.others[places].tolist(), found.likeness[places].tolist(), strict=True))
        wanted = {e: naive.likeness(entity, e) for e in range(ENTITIES) if naive.likeness(entity, e) > 0}
        assert listed == pytest.approx(wanted, rel=1e-5)
    near, relation, far = (np.array(column, np.int64) for column in zip(*asked, strict=True))
    for directed in (2 * relation, 2 * relation + 1):
        features = found.of_links(directed, near, far)
        for row, (d, x, y) in zip(features.tolist(), zip(directed, near, far, strict=True), strict=True):
            assert row == pytest.approx(naive.features(int(d), int(x), int(y)), rel=1e-4, abs=1e-6)


def test_an_entity_keeps_those_it_is_most_alike(monkeypatch: pytest.MonkeyPatch) -> None:
    """e0 shares three links with e1, two with e2, one with e3; all are equally frequent where it matters."""
    facts = [(0, 0, 4), (0, 0, 5), (0, 0, 6), (1, 0, 4), (1, 0, 5), (1, 0, 6), (2, 0, 4), (2, 0, 5), (3, 0, 4)]
    monkeypatch.setattr(neighbours, "MOST", 2)
    found = Neighbours.of(Facts.of(WORDS, facts))
    assert found.others[found.starts[0] : found.starts[1]].tolist() == [1, 2]
    assert np.all(np.diff(found.starts) <= 2)


def test_a_link_that_many_have_makes_no_neighbours(monkeypatch: pytest.MonkeyPatch) -> None:
    facts = Facts.of(WORDS, [(head, 0, 8) for head in range(4)])
    assert len(Neighbours.of(facts).others)
    monkeypatch.setattr(neighbours, "WIDEST", 3)
    assert not len(Neighbours.of(facts).others)


def test_keys_lead_anywhere() -> None:
    """Concepts as well: two entities that share a link, one of which has a type."""
    found = Neighbours.of(Facts.of(WORDS, [(0, 0, 8), (1, 0, 8)]))
    types = Leads.of(np.array([1], np.int64), np.array([3], np.int32))
    nothing, entity = np.zeros(2, np.int64), np.zeros(2, np.int64)
    of_type, of_another = found.share(types, nothing, entity, np.array([3, 2])).tolist()
    assert of_type == pytest.approx([math.log(1 + LITTLE), 1 / (1 + DOUBT)], rel=1e-5)
    assert of_another == pytest.approx([math.log(LITTLE), 0.0], rel=1e-5)


def test_a_graph_without_facts() -> None:
    for words in (WORDS, Vocabulary.of(["a"]), Vocabulary.of([])):
        nothing = np.empty(0, np.int64)
        assert Neighbours.of(Facts.of(words)).of_links(nothing, nothing, nothing).shape == (0, 2)
