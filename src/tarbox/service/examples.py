"""Example questions for a knowledge base: every one has answers at both levels.

Those that a preset brings come first, wherever all their names are known: in the preset's own store, and in every
benchmark and run made from it. The others are made from the knowledge base itself: each shape of question has a maker
that proposes queries, the likeliest first, from the most frequent relations and from entities that several others
point to; the first proposal with a few answers is taken. Nothing is random, so a knowledge base always shows the same
examples.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from itertools import islice
from typing import Final, TypeAlias, final

import numpy as np

from tarbox.core.errors import QueryError
from tarbox.execution.exact import answer_query
from tarbox.kb.presets import PRESETS
from tarbox.query.algebra import And, Concept, Direction, Entity, Exists, Not, Query, lift
from tarbox.service.knowledge_base import KnowledgeBase

EXAMPLES_SHOWN: Final = 6
TRIED: Final = 60
FEW: Final = range(2, 41)
_RELATIONS: Final = 12
_ENTITIES: Final = 4


@final
@dataclass(frozen=True, slots=True)
class Example:
    """A question: its text in Manchester syntax, its English, and how many entities answer it."""

    query: str
    english: str
    entity_count: int


@final
@dataclass(frozen=True, slots=True)
class _Popular:
    """A relation, and an entity that it leads to from `size` others (forward) or that it leads from (inverse)."""

    relation: str
    direction: Direction
    entity: int
    size: int


_Maker: TypeAlias = Callable[[KnowledgeBase, list[_Popular]], Iterator[Query]]


def examples(kb: KnowledgeBase) -> list[Example]:
    """Up to six questions, one of a shape: a preset's own, then others from simple to hard."""
    found: dict[Query, Example] = {}
    for query in _given(kb):
        count = _answers(kb, query)
        if count:
            found.setdefault(lift(query)[0], _example(kb, query, count))
    popular = _popular(kb)
    for place, make in enumerate(MAKERS):
        shift = place * 2 * _ENTITIES  # each shape begins with another relation
        for query in islice(make(kb, popular[shift:] + popular[:shift]), TRIED):
            shape, count = lift(query)[0], _answers(kb, query)
            if shape in found:
                break
            if count in FEW:
                found[shape] = _example(kb, query, count)
                break
    return list(found.values())[:EXAMPLES_SHOWN]


def _given(kb: KnowledgeBase) -> Iterator[Query]:
    """The examples of all presets whose names this knowledge base knows."""
    for preset in PRESETS.values():
        for text in preset.examples:
            with suppress(QueryError):
                yield kb.parse(text)


def _answers(kb: KnowledgeBase, query: Query) -> int:
    """How many entities answer a query; none where no concept describes them."""
    answer = answer_query(query, kb.index)
    return len(answer.entities) if len(answer.concepts) else 0


def _example(kb: KnowledgeBase, query: Query, count: int) -> Example:
    return Example(kb.render(query), kb.describe(query), count)


def _popular(kb: KnowledgeBase) -> list[_Popular]:
    """For the most frequent relations, in both directions, the entities with the most neighbours."""
    facts = kb.facts
    frequency = np.bincount(facts.relations, minlength=len(facts.vocabulary.relations))
    found: list[_Popular] = []
    for relation in np.argsort(-frequency, kind="stable")[:_RELATIONS].tolist():
        chosen = facts.relations == relation
        for direction, ends in ((Direction.FORWARD, facts.tails), (Direction.INVERSE, facts.heads)):
            entities, counts = np.unique(ends[chosen], return_counts=True)
            for row in np.argsort(-counts, kind="stable")[:_ENTITIES].tolist():
                iri = facts.vocabulary.relations.iri(relation)
                found.append(_Popular(iri, direction, int(entities[row]), int(counts[row])))
    return found


def _value(kb: KnowledgeBase, start: _Popular) -> Exists:
    return Exists(start.relation, start.direction, Entity(kb.facts.vocabulary.entities.iri(start.entity)))


def _one_hop(kb: KnowledgeBase, popular: list[_Popular]) -> Iterator[Query]:
    """What one entity is related to."""
    return (_value(kb, start) for start in popular if start.size in FEW)


def _of_a_concept(kb: KnowledgeBase, popular: list[_Popular]) -> Iterator[Query]:
    """Members of a concept with a relation to one entity: a concept of some, not all, of those that have it."""
    return (And((concept, base)) for base, concept in _divided(kb, popular))


def _two_hops(kb: KnowledgeBase, popular: list[_Popular]) -> Iterator[Query]:
    """What is related to something that is related to one entity."""
    for start in popular:
        for step in popular[::_ENTITIES]:
            if step.relation != start.relation:
                yield Exists(step.relation, step.direction, _value(kb, start))


def _joined(kb: KnowledgeBase, popular: list[_Popular]) -> Iterator[Query]:
    """What two entities have in common."""
    for place, first in enumerate(popular):
        for second in popular[place + 1 :]:
            if first.entity != second.entity and first.relation != second.relation:
                yield And((_value(kb, first), _value(kb, second)))


def _through_both(kb: KnowledgeBase, popular: list[_Popular]) -> Iterator[Query]:
    """What is related to what two entities have in common: the shape of the paper's Figure 1."""
    for both in _joined(kb, popular):
        if not len(answer_query(both, kb.index).entities):
            continue
        for step in popular[:: 2 * _ENTITIES]:
            yield Exists(step.relation, step.direction, both)


def _without(kb: KnowledgeBase, popular: list[_Popular]) -> Iterator[Query]:
    """What has a relation to one entity and is not a member of a concept."""
    return (And((base, Not(concept))) for base, concept in _divided(kb, popular))


MAKERS: Final[tuple[_Maker, ...]] = (_one_hop, _of_a_concept, _two_hops, _joined, _through_both, _without)


def _divided(kb: KnowledgeBase, popular: list[_Popular]) -> Iterator[tuple[Query, Concept]]:
    """Queries of one hop, each with the concept that parts its answers most evenly, where one parts them."""
    for start in popular:
        base = _value(kb, start)
        found = answer_query(base, kb.index)
        if len(found.concepts):
            best = int(np.argmin(np.abs(2 * found.counts - len(found.entities))))
            if found.counts[best] < len(found.entities):
                yield base, Concept(kb.facts.vocabulary.concepts.iri(int(found.concepts[best])))
