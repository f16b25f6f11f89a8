"""What one training query tells about the links of a graph, and which links all of them allow.

A training query comes with *all* of its answers, entities or concepts. Two kinds are understood: a *chain*
(`r2 some (r1 value a)`, or one step more) and a *meeting* (`(r1 value a) and (r2 value b)`, or one side more). Where
what they have does not follow from the graph, some links can be told (`Why`). Meetings tell by their concepts: one
whose entities are given says outright what its sides lead to, and the graph is taken to have that.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Final, NamedTuple, final

from tarbox.benchmark.tables import OUTSIDE, Batch, QueryTable
from tarbox.core.ids import Level
from tarbox.kb.facts import Facts
from tarbox.query.templates import TEMPLATES

Side = tuple[int, int]
"""(entity, directed relation): relation 2r leads from a tail to its heads, 2r + 1 from a head to its tails."""
Link = tuple[int, int, int]
"""A side and what it leads to."""
Kinds = Callable[[int], frozenset[int]]
"""The concepts of an entity."""

CHAINS: Final = frozenset(TEMPLATES[name].shape for name in ("2p", "3p"))
MEETINGS: Final = frozenset(TEMPLATES[name].shape for name in ("2i", "3i"))
SELDOM: Final = 1.5
"""A relation that leads to no more on average is taken to lead to one."""


CROWD: Final = 1000
"""A chain that passes more entities at once says nothing about them: it would take too long to hear it."""


class Why(IntEnum):
    """What tells a link.

    - BETWEEN: a chain of whose first step nothing is known. Whatever it leads to leads on into the answers, and nowhere
      else. Of the entities that the relation is known to lead to from anywhere, the one that reaches most of the
      answers of all chains with this step is told, if there is one.
    - LAST: a chain whose steps are known but for the last one, each leading to one entity by a relation that seldom
      leads to two. What the answers have is where the last step leads.
    - MET: a meeting of which no answer is known, with a side that leads to one entity by such a relation. That is the
      answer, and the other sides lead there.
    - CHOSEN: a meeting with a side of which nothing is known, and none as in MET. Of what the known sides have in
      common, the answer is the only one with no concept beyond the answers.
    """

    BETWEEN = 0
    LAST = 1
    MET = 2
    CHOSEN = 3


class Chain(NamedTuple):
    """Where it starts, its directed relations from there on, and all entities that it leads to."""

    start: int
    ways: tuple[int, ...]
    answers: frozenset[int]


class Meeting(NamedTuple):
    """Its sides, and all that is at both: entities, or the concepts of these."""

    sides: tuple[Side, ...]
    answers: frozenset[int]
    level: Level

    def allows(self, entity: int, kinds: Kinds) -> bool:
        """Whether the entity may be an answer."""
        return entity in self.answers if self.level is Level.ENTITY else kinds(entity) <= self.answers


def chains_of(train: QueryTable) -> Iterator[Chain]:
    """The chains among training queries that ask for entities."""
    for batch in train.batches():
        if batch.level is Level.ENTITY and batch.shape in CHAINS:
            for row, (*ways, start) in enumerate(batch.ids.tolist()):
                yield Chain(start, tuple(reversed(ways)), _answers(batch, row))


def meetings_of(train: QueryTable) -> Iterator[Meeting]:
    """The meetings among training queries."""
    for batch in train.batches():
        if batch.shape in MEETINGS:
            for row, ids in enumerate(batch.ids.tolist()):
                yield Meeting(tuple(zip(ids[1::2], ids[::2], strict=True)), _answers(batch, row), batch.level)


def _answers(batch: Batch, row: int) -> frozenset[int]:
    """All of a training query's answers that the vocabulary has."""
    return frozenset({*batch.targets[row].tolist(), *batch.known[row].tolist()} - {OUTSIDE})


@final
@dataclass(slots=True)
class Steps:
    """The links of a graph: what each directed relation leads to, from each entity and from anywhere."""

    leads: dict[Side, set[int]] = field(default_factory=lambda: defaultdict(set))
    reached: dict[int, set[int]] = field(default_factory=lambda: defaultdict(set))

    @classmethod
    def of(cls, facts: Facts) -> Steps:
        found = cls()
        for head, relation, tail in zip(
            facts.heads.tolist(), facts.relations.tolist(), facts.tails.tolist(), strict=True
        ):
            found.add((head, 2 * relation + 1, tail))
        return found

    def add(self, link: Link) -> None:
        near, way, far = link
        for start, directed, end in ((near, way, far), (far, way ^ 1, near)):
            self.leads[start, directed].add(end)
            self.reached[directed].add(end)

    def at(self, side: Side) -> set[int]:
        return self.leads.get(side, set())

    def follow(self, starts: Iterable[int], ways: tuple[int, ...]) -> set[int]:
        now = set(starts)
        for way in ways:
            now = set().union(*(self.leads.get((entity, way), ()) for entity in now))
        return now

    def meet(self, sides: Iterable[Side]) -> set[int]:
        return set.intersection(*map(self.at, sides))

    def narrow(self) -> set[int]:
        """The directed relations that seldom lead to two."""
        sizes: dict[int, list[int]] = defaultdict(list)
        for (_, way), ends in self.leads.items():
            sizes[way].append(len(ends))
        return {way for way, counts in sizes.items() if sum(counts) <= SELDOM * len(counts)}


Onward = set[tuple[tuple[int, ...], frozenset[int]]]
"""Ways that chains go on, each with the answers that it must not lead beyond."""
Beside = dict[Side, list[tuple[tuple[Side, ...], Meeting]]]
"""The meetings that a side takes part in, each with its other sides."""


def sides_beside(meetings: Iterable[Meeting]) -> Beside:
    found: Beside = defaultdict(list)
    for meeting in meetings:
        for place, side in enumerate(meeting.sides):
            found[side].append((meeting.sides[:place] + meeting.sides[place + 1 :], meeting))
    return dict(found)


@final
@dataclass(frozen=True, slots=True)
class Bounds:
    """What training queries say about the links of a graph: none may lead a query beyond its answers.

    By side: `onward` has how the chains that are known to pass it go on, `ends` what those whose last step it is have
    in common, and `beside` the other sides of meetings. `narrow` are the relations that seldom lead to two.
    """

    steps: Steps
    kinds: Kinds
    narrow: set[int]
    onward: dict[Side, Onward]
    ends: dict[Side, frozenset[int]]
    beside: Beside

    @classmethod
    def of(cls, chains: Iterable[Chain], beside: Beside, steps: Steps, kinds: Kinds) -> Bounds:
        onward: dict[Side, Onward] = defaultdict(set)
        ends: dict[Side, frozenset[int]] = {}
        for chain in chains:
            now = {chain.start}
            for place, way in enumerate(chain.ways[:-1], 1):
                for entity in now:
                    onward[entity, way].add((chain.ways[place:], chain.answers))
                now = steps.follow(now, (way,))
                if len(now) > CROWD:
                    break
            else:
                for entity in now:
                    last = entity, chain.ways[-1]
                    ends[last] = ends[last] & chain.answers if last in ends else chain.answers
        return cls(steps, kinds, steps.narrow(), dict(onward), ends, beside)

    def allow(self, link: Link) -> bool:
        """Whether no query would have more than its answers by this link."""
        near, way, far = link
        return self._allow((near, way), far) and self._allow((far, way ^ 1), near)

    def _allow(self, side: Side, far: int) -> bool:
        if (end := self.ends.get(side)) is not None and far not in end:
            return False
        at = self.steps.at
        return all(
            meeting.allows(far, self.kinds)
            for others, meeting in self.beside.get(side, ())
            if all(far in at(other) for other in others)
        ) and all(self.steps.follow((far,), ways) <= answers for ways, answers in self.onward.get(side, ()))

    def one(self, side: Side) -> bool:
        """Whether the side is known to lead to one entity, and seldom leads to two."""
        return side[1] in self.narrow and len(self.steps.at(side)) == 1


def told_by_chain(chain: Chain, bounds: Bounds) -> Iterator[tuple[Link, Why]]:
    """The links that a chain tells, and why."""
    start, (first, *others), answers = chain
    steps, side, onward = bounds.steps, (start, first), tuple(others)
    if not steps.at(side):
        if (between := _between(side, bounds)) is not None:
            yield (*side, between), Why.BETWEEN
    elif bounds.one(side):
        (entity,) = steps.at(side)
        if len(onward) > 1:
            yield from told_by_chain(Chain(entity, onward, answers), bounds)
        else:
            for answer in (answers - steps.at((entity, onward[0]))) & steps.reached[onward[0]]:
                if bounds.allow(link := (entity, onward[0], answer)):
                    yield link, Why.LAST


def _between(side: Side, bounds: Bounds) -> int | None:
    """The entity after the first step: it alone leads to most of the answers of all chains that take that step."""
    steps, taken = bounds.steps, bounds.onward[side]
    might = set().union(*(steps.follow(answers, _back(ways)) for ways, answers in taken))
    most, found = 0, list[int]()
    for entity in might & steps.reached[side[1]]:
        reached = sum(len(steps.follow((entity,), ways) & answers) for ways, answers in taken)
        if reached >= most and bounds.allow((*side, entity)):
            found = [entity] if reached > most else [*found, entity]
            most = reached
    return found[0] if len(found) == 1 else None


def _back(ways: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(way ^ 1 for way in reversed(ways))


def told_by_meeting(meeting: Meeting, bounds: Bounds) -> Iterator[tuple[Link, Why]]:
    """The links that a meeting of which no answer is known tells, and why."""
    steps, sides = bounds.steps, meeting.sides
    sure, known = [side for side in sides if bounds.one(side)], [side for side in sides if steps.at(side)]
    if not sure and len(known) in (0, len(sides)):
        return
    fitting = [
        [(*side, entity) for side in sides if entity not in steps.at(side)]
        for entity in steps.meet(sure or known)
        if meeting.allows(entity, bounds.kinds)
    ]
    told = [
        links for links in fitting if all(link[2] in steps.reached[link[1]] and bounds.allow(link) for link in links)
    ]
    if len(told) == 1:
        yield from ((link, Why.MET if sure else Why.CHOSEN) for link in told[0])
