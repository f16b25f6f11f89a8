"""What speaks for a fact that is not known, in words: known facts alone, of the kinds that credo's features count.

*Paths* lead from one end to the other, with the confidence of their rule (`tarbox.models.credo.rules`). *Neighbours*
are similar entities that have the fact, with what both share (`tarbox.models.credo.neighbours`).
"""

from __future__ import annotations

from functools import cached_property, lru_cache, partial
from typing import Final, final

import numpy as np

from tarbox.kb.arrays import Flags, Floats, Ids, Keys
from tarbox.kb.rows import TripleKeys, contains
from tarbox.models.credo.neighbours import SharedLinks
from tarbox.models.credo.rules import RuleConfidences
from tarbox.query.english import say_member
from tarbox.query.phrases import RelationPhrase
from tarbox.service.collections import CACHED
from tarbox.service.knowledge_base import KnowledgeBase

SHARED: Final = 2
"""So many links that two neighbours share are named: the rarest."""
_LEAST_CONFIDENCE: Final = 0.005


@final
class EvidenceTeller:
    """Says what speaks for facts. A way is 2 r from the head of r to its tail, 2 r + 1 back, the last to a concept."""

    def __init__(self, kb: KnowledgeBase) -> None:
        self._kb, self._codec = kb, TripleKeys(max(len(kb.entities), 1))
        self._typing = 2 * len(kb.relations)
        self._nearest = lru_cache(CACHED)(self._find_nearest)
        self._rules = lru_cache(1)(partial(RuleConfidences.of, kb.facts))

    def of_link(self, relation: int, head: int, tail: int) -> tuple[str, ...]:
        """At most two paths, then neighbours of the head that have the tail, and of the tail that the head has."""
        said = [
            f"{' and '.join(self._say(way, self._name(near), far) for way, near, far in steps)} "
            f"(confidence of this rule: {confidence:.2f})"
            for confidence, steps in self._rules(relation).best_paths(relation, head, tail)
            if confidence >= _LEAST_CONFIDENCE
        ]
        for way, near, far in ((2 * relation, head, tail), (2 * relation + 1, tail, head)):
            others = self._nearest(near)[0]
            having = contains(
                self._links, self._codec.encode(np.full(len(others), way), others, np.full_like(others, far))
            )
            said += self._say_neighbours(near, having, way, far)
        return tuple(said)

    def of_typing(self, entity: int, concept: int) -> tuple[str, ...]:
        """How many of the smallest wider concept that the entity has are instances, then neighbours that are."""
        tree, members = self._kb.index.instances.hierarchy, self._kb.index.instances.entities_of
        wider = [parent for parent in tree.parents[concept].tolist() if entity in members[parent]]
        parent = min(wider, key=lambda each: len(members[each]), default=None)
        said = []
        if parent is not None:
            share = f"{len(members[concept]):,} of {len(members[parent]):,} known ones are"
            what = say_member(self._kb.concepts.at(concept).label)
            said.append(f"{self._say(self._typing, self._name(entity), parent)}, and {share} {what}")
        having = np.isin(self._nearest(entity)[0], members[concept])
        return (*said, *self._say_neighbours(entity, having, self._typing, concept))

    def _say_neighbours(self, own: int, having: Flags, way: int, far: int) -> list[str]:
        """The most similar neighbour that has a fact, with what both share, and how many more have it."""
        others, similarity = self._nearest(own)
        if not having.any():
            return []
        best = int(np.where(having, similarity, -1).argmax())
        name, keys = self._name(int(others[best])), self._shared.common(own, int(others[best]))[:SHARED].tolist()
        shared = [(key // self._codec.width, key % self._codec.width) for key in keys]
        each = "; ".join(self._say(by if by == self._typing else by ^ 1, "each", other) for by, other in shared)
        more = f"; {having.sum() - 1:,} more of the {len(others)} most similar have it, too" if having.sum() > 1 else ""
        alike = f"{name} is similar to {self._name(own)} ({similarity[best]:.2f}: {each})"
        return [f"{self._say(way, name, far)}, and {alike}{more}"]

    def _say(self, way: int, near: str, far: int) -> str:
        if way == self._typing:
            return f"{near} is {say_member(self._kb.concepts.at(far).label)}"
        phrase = RelationPhrase.of(self._kb.relations.at(way // 2).label)
        return f"{self._name(far)} {phrase.say(near)}" if way % 2 else f"{near} {phrase.say(self._name(far))}"

    def _name(self, entity: int) -> str:
        return self._kb.entities.at(entity).label

    def _find_nearest(self, entity: int) -> tuple[Ids, Floats]:
        found = self._shared.nearest(np.array([entity], np.int32))
        return found.columns, found.values

    @cached_property
    def _shared(self) -> SharedLinks:
        return SharedLinks.of_facts(self._kb.facts)

    @cached_property
    def _links(self) -> Keys:
        facts, encode = self._kb.facts, self._codec.encode
        forward = encode(2 * facts.relations, facts.heads, facts.tails)
        return np.sort(np.append(forward, encode(2 * facts.relations + 1, facts.tails, facts.heads)))
