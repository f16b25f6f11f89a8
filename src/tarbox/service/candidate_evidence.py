"""What speaks for a fact that is not known, in words: known facts alone, of the kinds that credo's features count.

*Paths* are rules that lead from one end to the other, with their confidence (`tarbox.models.credo.rules`).
*Neighbours* are the similar entities that have the fact, with what they share (`tarbox.models.credo.neighbours`).
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property, lru_cache
from typing import Final, final

import numpy as np

from tarbox.kb.arrays import Floats, Ids, Keys
from tarbox.kb.rows import TripleKeys, contains
from tarbox.models.credo.neighbours import SharedLinks
from tarbox.models.credo.rules import RuleConfidences
from tarbox.query.english import say_member
from tarbox.query.phrases import RelationPhrase
from tarbox.service.collections import CACHED
from tarbox.service.knowledge_base import KnowledgeBase

SHARED: Final = 2
"""So many links that two neighbours share are named: the rarest."""


@final
class EvidenceTeller:
    """Says what speaks for facts. The first call counts the rules of the knowledge base."""

    def __init__(self, kb: KnowledgeBase) -> None:
        self._kb, self._codec = kb, TripleKeys(max(len(kb.entities), 1))
        self._nearest = lru_cache(CACHED)(self._find_nearest)

    def of_link(self, relation: int, head: int, tail: int) -> tuple[str, ...]:
        """At most two paths, then neighbours of the head that have the tail, and of the tail that the head has."""
        said = []
        for confidence, steps in self._rules.best_paths(relation, head, tail):
            path = " and ".join(self._say_link(*step) for step in steps)
            said.append(f"{path} (confidence of this rule: {confidence:.2f})")
        for own, is_head in ((head, True), (tail, False)):
            others, similarity = self._nearest(own)
            ends = (others, np.full_like(others, tail)) if is_head else (np.full_like(others, head), others)
            having = contains(self._links, self._codec.encode(np.full_like(others, relation), *ends))
            said.extend(self._say_neighbour(own, others[having], similarity[having], (relation, head, tail)))
        return tuple(said)

    def of_typing(self, entity: int, concept: int) -> tuple[str, ...]:
        """How many of the closest wider concept that the entity has, then neighbours that are instances."""
        instances = self._kb.index.instances
        members, parents = instances.entities_of, instances.hierarchy.parents[concept]
        wider = [parent for parent in parents.tolist() if entity in members[parent]]
        said = []
        for parent in sorted(wider, key=lambda each: len(members[each]))[:1]:
            count = f"{len(members[concept]):,} of {len(members[parent]):,} such entities are"
            said.append(
                f"{self._say_typing(entity, parent)}: {count} {say_member(self._kb.concepts.at(concept).label)}"
            )
        others, similarity = self._nearest(entity)
        having = np.isin(others, members[concept])
        said.extend(self._say_neighbour(entity, others[having], similarity[having], (entity, concept)))
        return tuple(said)

    def _say_neighbour(self, own: int, others: Ids, similarity: Floats, fact: tuple[int, ...]) -> Iterator[str]:
        """The most similar of those that have the fact in the place of `own`, what both share, and how many more."""
        if not len(others):
            return
        best = int(others[similarity.argmax()])
        instead = [best if place == own else place for place in fact[-2:]]
        said = self._say_link(fact[0], *instead) if len(fact) == 3 else self._say_typing(*instead)
        name, other = (self._kb.entities.at(entity).label for entity in (own, best))
        shared = "; ".join(self._say_shared(int(key)) for key in self._shared.common(own, best)[:SHARED])
        more = len(others) - 1
        rest = f", and so for {more:,} more of the {len(self._nearest(own)[0])} most similar" if more else ""
        yield f"{said}, and {other} is similar to {name} ({similarity.max():.2f}: {shared}){rest}"

    def _say_shared(self, key: int) -> str:
        way, other = divmod(key, self._codec.width)
        if way == 2 * len(self._kb.relations):
            return f"each is {say_member(self._kb.concepts.at(other).label)}"
        phrase, label = RelationPhrase.of(self._kb.relations.at(way // 2).label), self._kb.entities.at(other).label
        return f"each {phrase.say(label)}" if way % 2 else f"{label} {phrase.say('each')}"

    def _say_link(self, relation: int, head: int, tail: int) -> str:
        phrase = RelationPhrase.of(self._kb.relations.at(relation).label)
        return f"{self._kb.entities.at(head).label} {phrase.say(self._kb.entities.at(tail).label)}"

    def _say_typing(self, entity: int, concept: int) -> str:
        return f"{self._kb.entities.at(entity).label} is {say_member(self._kb.concepts.at(concept).label)}"

    def _find_nearest(self, entity: int) -> tuple[Ids, Floats]:
        found = self._shared.nearest(np.array([entity], np.int32))
        return found.columns, found.values

    @cached_property
    def _rules(self) -> RuleConfidences:
        return RuleConfidences.of(self._kb.facts)

    @cached_property
    def _shared(self) -> SharedLinks:
        return SharedLinks.of_facts(self._kb.facts)

    @cached_property
    def _links(self) -> Keys:
        facts = self._kb.facts
        return np.sort(self._codec.encode(facts.relations, facts.heads, facts.tails))
