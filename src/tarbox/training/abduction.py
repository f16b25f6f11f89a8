"""What training queries tell beyond the facts: links without which their answers could not be.

A benchmark may have been made of more facts than there are at hand; the paper's, recovered in part, was. Then training
queries have answers that do not follow. A *chain* (`r2 some (r1 value a)`, or one step more) with all of its answers T
says something about the links on its way:

- *Between*: nothing is known to which r1 leads from a. Whatever it is leads on into T, and nowhere else. Of the
  entities that r1 is known to lead to from anywhere, the one that reaches most of T is told, if there is one.
- *Last*: one entity is known, and r1 seldom leads to two: the chain goes on from there; at its last step what T has
  is told.

Nothing is told that would lead *any* chain beyond its answers. What is told is not known: it is learnt from and
believed, as far as such tellings proved right about hidden facts.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from enum import IntEnum
from typing import Final, NamedTuple, final

import numpy as np
from numpy.typing import NDArray

from tarbox.benchmark.tables import OUTSIDE, QueryTable
from tarbox.core.ids import Level
from tarbox.kb.facts import NO_SPLIT, Facts
from tarbox.models.neighbours import Leads
from tarbox.query.templates import TEMPLATES

Keys = NDArray[np.int64]
Floats = NDArray[np.float32]
Link = tuple[int, int, int]
"""(from, directed relation, to): relation 2r leads from a tail to its heads, 2r + 1 from a head to its tails."""

CHAINS: Final = frozenset(TEMPLATES[name].shape for name in ("2p", "3p"))
LOOKED_AT: Final = 200
"""Where so many chains, spread over all, have no answer that does not follow, none has."""
ROUNDS: Final = 3
"""What one round tells is known in the next."""
SELDOM: Final = 1.5
"""A relation that leads to no more on average is taken to lead to one."""
ENOUGH: Final = 30
UNSURE: Final = 0.5
"""How far tellings are believed where fewer than `ENOUGH` could be checked."""


class Why(IntEnum):
    """Which of the two rules tells a link."""

    BETWEEN = 0
    LAST = 1


class Chain(NamedTuple):
    """Where it starts, its directed relations from there on, and all that it leads to."""

    start: int
    ways: tuple[int, ...]
    answers: frozenset[int]


@final
@dataclass(slots=True)
class Steps:
    """The links of a graph: what each directed relation leads to, from each entity and from anywhere."""

    leads: dict[tuple[int, int], set[int]] = field(default_factory=lambda: defaultdict(set))
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

    def follow(self, starts: Iterable[int], ways: tuple[int, ...]) -> set[int]:
        now = set(starts)
        for way in ways:
            now = set().union(*(self.leads.get((entity, way), ()) for entity in now))
        return now

    def breadth(self) -> dict[int, float]:
        """How many entities each directed relation leads to, on average over those that have it."""
        sizes: dict[int, list[int]] = defaultdict(list)
        for (_, way), ends in self.leads.items():
            sizes[way].append(len(ends))
        return {way: float(np.mean(counts)) for way, counts in sizes.items()}


Onward = set[tuple[tuple[int, ...], frozenset[int]]]
"""Ways that chains go on, each with the answers that it must not lead beyond."""


@final
@dataclass(frozen=True, slots=True)
class Passages:
    """The chains that are known to pass an entity and leave it by a directed relation: `onward` has how they go on
    after that, `ends` what all those whose last step it is have in common."""

    steps: Steps
    onward: dict[tuple[int, int], Onward]
    ends: dict[tuple[int, int], frozenset[int]]

    @classmethod
    def of(cls, chains: Iterable[Chain], steps: Steps) -> Passages:
        onward: dict[tuple[int, int], Onward] = defaultdict(set)
        ends: dict[tuple[int, int], frozenset[int]] = {}
        for chain in chains:
            now = {chain.start}
            for place, way in enumerate(chain.ways[:-1], 1):
                for entity in now:
                    onward[entity, way].add((chain.ways[place:], chain.answers))
                now = steps.follow(now, (way,))
            for entity in now:
                last = entity, chain.ways[-1]
                ends[last] = ends[last] & chain.answers if last in ends else chain.answers
        return cls(steps, dict(onward), ends)

    def allow(self, link: Link) -> bool:
        """Whether no chain would lead beyond its answers by this link."""
        near, way, far = link
        return self._allow(near, way, far) and self._allow(far, way ^ 1, near)

    def _allow(self, near: int, way: int, far: int) -> bool:
        if (end := self.ends.get((near, way))) is not None and far not in end:
            return False
        passing = self.onward.get((near, way), ())
        return all(self.steps.follow((far,), ways) <= answers for ways, answers in passing)


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
    """What training queries tell, believed as far as it is right where they are asked about the rest of the facts."""
    told = tell(facts, train)
    shares = share_right(facts, rest, train) if told else {}
    keys = np.array(sorted(told), np.int64)
    return Told(facts, keys, np.array([shares[told[key]] for key in keys.tolist()], np.float32))


def tell(facts: Facts, train: QueryTable | None) -> dict[int, Why]:
    """The keys of what training queries tell; none where all of their answers follow from the facts."""
    chains = list(chains_of(train)) if train is not None else []
    open_ = unexplained(chains, facts)
    found, steps, width = dict[int, Why](), Steps.of(facts) if open_ else Steps(), len(facts.vocabulary.entities)
    for _ in range(ROUNDS if open_ else 0):
        breadth, passages = steps.breadth(), Passages.of(chains, steps)
        links = {link: why for chain in open_ for why, link in told_by(chain, passages, breadth)}
        for (near, way, far), why in sorted(links.items()):
            head, tail = (near, far) if way & 1 else (far, near)
            found[((way >> 1) * width + head) * width + tail] = why
            steps.add((near, way, far))
        open_ = [chain for chain in open_ if not chain.answers <= steps.follow((chain.start,), chain.ways)]
    return found


def chains_of(train: QueryTable) -> Iterator[Chain]:
    """The chains among training queries, with all of their answers."""
    for batch in train.batches():
        if batch.level is Level.ENTITY and batch.shape in CHAINS:
            for row, (*ways, start) in enumerate(batch.ids.tolist()):
                answers = {*batch.targets[row].tolist(), *batch.known[row].tolist()} - {OUTSIDE}
                yield Chain(start, tuple(reversed(ways)), frozenset(answers))


def unexplained(chains: list[Chain], facts: Facts) -> list[Chain]:
    """Those with an answer that does not follow."""
    links, width = Leads.of_links(facts), np.int64(len(facts.vocabulary.entities))

    def lacks(chain: Chain) -> bool:
        found = np.array([chain.start], np.int32)
        for way in chain.ways:
            found = links.follow(way * width + found)
        return not chain.answers <= set(found.tolist())

    some = chains[:: max(1, len(chains) // LOOKED_AT)]
    return [chain for chain in chains if lacks(chain)] if any(map(lacks, some)) else []


def told_by(chain: Chain, passages: Passages, breadth: dict[int, float]) -> Iterator[tuple[Why, Link]]:
    """The links that a chain tells, and why."""
    start, (first, *others), answers = chain
    steps, onward = passages.steps, tuple(others)
    known = steps.leads.get((start, first), set())
    if not known:
        if (between := _between(start, first, passages)) is not None:
            yield Why.BETWEEN, (start, first, between)
    elif len(known) == 1 and breadth[first] <= SELDOM:
        (entity,) = known
        if len(onward) > 1:
            yield from told_by(Chain(entity, onward, answers), passages, breadth)
        else:
            for answer in (answers - steps.leads.get((entity, onward[0]), set())) & steps.reached[onward[0]]:
                if passages.allow(link := (entity, onward[0], answer)):
                    yield Why.LAST, link


def _between(start: int, first: int, passages: Passages) -> int | None:
    """The entity after the first step: it alone leads to most of the answers of all chains that take that step."""
    steps, taken = passages.steps, passages.onward[start, first]
    might = set().union(*(steps.follow(answers, _back(ways)) for ways, answers in taken))
    most, found = 0, list[int]()
    for entity in might & steps.reached[first]:
        reached = sum(len(steps.follow((entity,), ways) & answers) for ways, answers in taken)
        if reached >= most and passages.allow((start, first, entity)):
            found = [entity] if reached > most else [*found, entity]
            most = reached
    return found[0] if len(found) == 1 else None


def _back(ways: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(way ^ 1 for way in reversed(ways))


def share_right(facts: Facts, rest: Facts, train: QueryTable | None) -> dict[Why, float]:
    """How often the rest of the facts is told rightly what was hidden: of the links told where all that an entity has
    of a relation was hidden, the share that was."""
    width = len(facts.vocabulary.entities)
    whole, left = Steps.of(facts), Steps.of(rest)
    checked, right = dict.fromkeys(Why, 0), dict.fromkeys(Why, 0)
    for key, why in tell(rest, train).items():
        relation, pair = divmod(key, width * width)
        head, tail = divmod(pair, width)
        for near, way, far in ((head, 2 * relation + 1, tail), (tail, 2 * relation, head)):
            hidden = whole.leads.get((near, way), set())
            if hidden and not left.leads.get((near, way)):
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
