"""What training queries tell beyond the facts: links without which their answers could not be.

A benchmark may have been made of more facts than there are at hand; the paper's, recovered in part, was. Then training
queries have answers that do not follow, and some of these tell a link (`tarbox.training.tellings`). What is told is not
known: it is learnt from and predicted, as far as such tellings proved right about hidden facts.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cache, reduce
from typing import Final, TypeVar, final

import numpy as np
from numpy.typing import NDArray

from tarbox.benchmark.tables import QueryTable
from tarbox.core.ids import Level
from tarbox.kb.closure import Instances
from tarbox.kb.facts import NO_SPLIT, Facts, Ids
from tarbox.models.neighbours import Leads
from tarbox.training.tellings import (
    Beside,
    Bounds,
    Chain,
    Link,
    Meeting,
    Steps,
    Why,
    chains_of,
    meetings_of,
    sides_beside,
    told_by_chain,
    told_by_meeting,
)

Keys = NDArray[np.int64]
Floats = NDArray[np.float32]
Asked = TypeVar("Asked", Chain, Meeting)

LOOKED_AT: Final = 200
"""Where so many queries, spread over all, have no answer that does not follow, none has."""
ROUNDS: Final = 3
"""What one round tells is known in the next."""
ENOUGH: Final = 30
UNSURE: Final = 0.5
"""How far tellings are predicted where fewer than `ENOUGH` could be checked."""


@final
@dataclass(frozen=True, slots=True)
class Lore:
    """The training queries that tell: chains, meetings that give concepts, and `beside` all meetings by their sides."""

    chains: Sequence[Chain]
    meetings: Sequence[Meeting]
    beside: Beside

    @classmethod
    def of(cls, train: QueryTable) -> Lore:
        meetings = list(meetings_of(train))
        described = [meeting for meeting in meetings if meeting.level is Level.CONCEPT]
        return cls(list(chains_of(train)), described, sides_beside(meetings))


@final
@dataclass(frozen=True, slots=True)
class Told:
    """The facts, the keys `(relation * E + head) * E + tail` of what is told beyond them, and how far to believe it."""

    facts: Facts
    keys: Keys
    degrees: Floats

    def whole(self, facts: Facts | None = None) -> Facts:
        """The facts, or others in their place, with all that is told."""
        return with_links(self.facts if facts is None else facts, self.keys)


def hear(facts: Facts, rest: Facts, train: QueryTable | None) -> Told:
    """What training queries tell, predicted as far as it is right where they are asked about the rest of the facts."""
    with without_collecting():
        lore = Lore.of(train) if train is not None else Lore([], [], {})
        told = tell(facts, lore)
        shares = share_right(facts, rest, lore) if told else {}
    keys = np.array(sorted(told), np.int64)
    return Told(facts, keys, np.array([shares[told[key]] for key in keys.tolist()], np.float32))


@contextmanager
def without_collecting() -> Iterator[None]:
    """Many small sets and tuples live at once, none in a cycle: looking for cycles takes a third of the time."""
    collecting = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if collecting:
            gc.enable()


def tell(facts: Facts, lore: Lore) -> dict[int, Why]:
    """The keys of what training queries tell; none where all of their answers follow from the facts."""
    chains, meetings = lore.chains, lore.meetings
    if all_follow(facts, lore):
        return {}
    concepts_of = Instances.of(facts).concepts_of
    kinds = cache(lambda entity: frozenset(concepts_of[entity].tolist()))
    steps, found = Steps.of(facts), dict[Link, Why]()
    for _ in range(ROUNDS):
        bounds, links = Bounds.of(chains, lore.beside, steps, kinds), dict[Link, Why]()
        for chain in chains:
            if not chain.answers <= steps.follow((chain.start,), chain.ways):
                links |= told_by_chain(chain, bounds)
        for meeting in meetings:
            if not steps.meet(meeting.sides):
                links |= told_by_meeting(meeting, bounds)
        for link in links:
            steps.add(link)
        found |= links
    return {key_of(link, len(facts.vocabulary.entities)): why for link, why in found.items()}


def key_of(link: Link, entities: int) -> int:
    near, way, far = link
    head, tail = (near, far) if way & 1 else (far, near)
    return ((way >> 1) * entities + head) * entities + tail


def all_follow(facts: Facts, lore: Lore) -> bool:
    """Whether a look at some queries finds none that lacks a link: no chain with an answer more, no void meeting."""
    links, entities = Leads.of_links(facts), np.int64(len(facts.vocabulary.entities))

    def lead(starts: Ids, way: int) -> Ids:
        return links.follow(way * entities + starts)

    def lacks(chain: Chain) -> bool:
        return not chain.answers <= set(reduce(lead, chain.ways, np.array([chain.start], np.int32)).tolist())

    def void(meeting: Meeting) -> bool:
        sides = [lead(np.array([start], np.int32), way) for start, way in meeting.sides]
        return not len(reduce(np.intersect1d, sides))

    return not any(map(lacks, _some(lore.chains))) and not any(map(void, _some(lore.meetings)))


def _some(queries: Sequence[Asked]) -> Sequence[Asked]:
    return queries[:: max(1, len(queries) // LOOKED_AT)]


def share_right(facts: Facts, rest: Facts, lore: Lore) -> dict[Why, float]:
    """How often the rest of the facts is told rightly what was hidden: of the links told where all that an entity has
    of a relation was hidden, the share that was."""
    width = len(facts.vocabulary.entities)
    whole, left = Steps.of(facts), Steps.of(rest)
    checked, right = dict.fromkeys(Why, 0), dict.fromkeys(Why, 0)
    for key, why in tell(rest, lore).items():
        relation, pair = divmod(key, width * width)
        head, tail = divmod(pair, width)
        for near, way, far in ((head, 2 * relation + 1, tail), (tail, 2 * relation, head)):
            hidden = whole.at((near, way))
            if hidden and not left.at((near, way)):
                checked[why] += 1
                right[why] += far in hidden
    return {why: right[why] / checked[why] if checked[why] >= ENOUGH else UNSURE for why in Why}


def with_links(facts: Facts, keys: Keys) -> Facts:
    """The facts with more assertions, by key; those that are there already stay as they are."""
    width = len(facts.vocabulary.entities)
    own = (facts.relations.astype(np.int64) * width + facts.heads) * width + facts.tails
    relation, pair = np.divmod(np.setdiff1d(keys, own), np.int64(width) * width)
    head, tail = np.divmod(pair, np.int64(width))
    heads, relations, tails = (
        np.concatenate([column, more.astype(np.int32)])
        for column, more in ((facts.heads, head), (facts.relations, relation), (facts.tails, tail))
    )
    splits = np.concatenate([facts.splits, np.full(len(head), NO_SPLIT, np.int8)])
    order = np.lexsort((tails, relations, heads))
    return replace(facts, heads=heads[order], relations=relations[order], tails=tails[order], splits=splits[order])
