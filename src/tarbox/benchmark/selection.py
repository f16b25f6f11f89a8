"""From drawn queries with all their answers to what is asked: targets and known answers, by protocol.

The honest protocol asks for every hard answer and knows all others. The paper's asks for one answer, and for one
concept of it, and knows only the answers on the training graph. Calibration asks every query, even one without a hard
answer.
"""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, final

import numpy as np

from tarbox.benchmark.tables import Lists
from tarbox.core.ids import Level
from tarbox.kb.arrays import Flags, Ids, Places
from tarbox.kb.rows import Rows, offsets_of

if TYPE_CHECKING:
    from tarbox.benchmark.kernels import SampleBuffer


@final
@dataclass(frozen=True, slots=True)
class Found:
    """The answers to Q queries at one level: possible targets, the held-out facts each needs, all other answers."""

    targets: Lists
    missing: Lists
    others: Lists


@final
@dataclass(frozen=True, slots=True)
class DrawnQueries:
    """Q drawn queries [Q, slots] and their answers. `hard`: the targets do not follow from the earlier graph."""

    ids: Ids
    found: Mapping[Level, Found]
    hard: bool

    @classmethod
    def of(cls, buffer: SampleBuffer, queries: int, hard: bool) -> DrawnQueries:
        """A copy of what the kernel wrote."""
        ends = np.concatenate([np.zeros(1, np.int64), buffer.ends[:queries].ravel()])
        values, missing = Lists(ends, buffer.values), Lists(ends, buffer.missing)
        first = 4 * np.arange(queries)
        found = {
            level: Found(values.take(first + at), missing.take(first + at), values.take(first + at + 1))
            for level, at in ((Level.ENTITY, 0), (Level.CONCEPT, 2))
        }
        return cls(buffer.ids[:queries].copy(), found, hard)


@final
@dataclass(frozen=True, slots=True)
class LevelQueries:
    """What is asked at one level: of queries `rows` [M], increasing, the targets and the known answers.

    `missing` has a number per target and `derivable` [M] says whether the target follows from the earlier graph; both
    mean nothing for training queries.
    """

    rows: Places
    targets: Lists
    known: Lists
    missing: Lists
    derivable: Flags

    def take(self, places: Places, rows: Places) -> LevelQueries:
        """The questions at some places, under new row numbers."""
        targets, known, missing = (part.take(places) for part in (self.targets, self.known, self.missing))
        return LevelQueries(rows, targets, known, missing, self.derivable[places])


def ask_all(drawn: DrawnQueries) -> dict[Level, LevelQueries]:
    """Every target of every query that has one (the honest protocol)."""
    asked = {}
    for level, found in drawn.found.items():
        rows = np.flatnonzero(found.targets.sizes())
        targets, known, missing = (part.take(rows) for part in (found.targets, found.others, found.missing))
        asked[level] = LevelQueries(rows, targets, known, missing, np.full(len(rows), not drawn.hard))
    return asked


def ask_in_turn(drawn: DrawnQueries, random: np.random.Generator) -> dict[Level, LevelQueries]:
    """One target of every query for each number of missing links that a target of it has; its others are known."""
    asked = {}
    for level, found in drawn.found.items():
        owners, order = found.targets.owners(), random.permutation(len(found.targets.values))
        keys = owners.astype(np.int64) * 128 + found.missing.values
        place = order[np.unique(keys[order], return_index=True)[1]]
        rows, targets = owners[place], found.targets.values[place]
        rest = _without(found.targets.take(rows), targets)
        known = _chain([found.others.take(rows), rest], np.int32)
        known = known.take(np.arange(2 * len(rows)).reshape(2, -1).T.ravel())
        missing = Lists(np.arange(len(rows) + 1), found.missing.values[place])
        pairs = Lists(known.offsets[::2], known.values)
        asked[level] = LevelQueries(rows, _single(targets), pairs, missing, np.zeros(len(rows), np.bool_))
    return asked


def ask_every(drawn: DrawnQueries, levels: Container[Level]) -> dict[Level, LevelQueries]:
    """Every query at every one of these levels, whether or not it has a target (calibration)."""
    asked = {}
    for level, found in drawn.found.items():
        rows = np.arange(len(drawn.ids) if level in levels else 0)
        targets, known, missing = (part.take(rows) for part in (found.targets, found.others, found.missing))
        asked[level] = LevelQueries(rows, targets, known, missing, np.zeros(len(rows), np.bool_))
    return asked


def ask_one(drawn: DrawnQueries, concepts_of: Rows, random: np.random.Generator) -> dict[Level, LevelQueries]:
    """One target entity of every query that has one, and one concept of that entity (the paper's protocol)."""
    found, concepts = drawn.found[Level.ENTITY], drawn.found[Level.CONCEPT]
    rows = np.flatnonzero(found.targets.sizes())
    place, entities = _one_each(found.targets.take(rows), random)
    typed = np.flatnonzero(concepts_of.sizes()[entities])
    typings = Lists(concepts_of.offsets, concepts_of.columns)
    _, types = _one_each(typings.take(entities[typed].astype(np.int64)), random)
    missing = Lists(np.arange(len(rows) + 1), found.missing.take(rows).values[place])
    known = (found.others if drawn.hard else found.targets).take(rows)
    known_types = (concepts.others if drawn.hard else concepts.targets).take(rows[typed])
    derivable = np.zeros(len(typed), np.bool_)
    derivable[known_types.owners()[known_types.values == np.repeat(types, known_types.sizes())]] = True
    unknown = Lists(np.zeros(len(typed) + 1, np.int64), np.empty(0, np.int8))
    entity = LevelQueries(
        rows, _single(entities), _without(known, entities), missing, np.full(len(rows), not drawn.hard)
    )
    concept = LevelQueries(rows[typed], _single(types), _without(known_types, types), unknown, derivable)
    return {Level.ENTITY: entity, Level.CONCEPT: concept}


def concatenate(parts: Sequence[LevelQueries]) -> LevelQueries:
    """The questions of all parts, whose rows are already counted through."""
    return LevelQueries(
        np.concatenate([np.empty(0, np.int64), *(part.rows for part in parts)]),
        _chain([part.targets for part in parts], np.int32),
        _chain([part.known for part in parts], np.int32),
        _chain([part.missing for part in parts], np.int8),
        np.concatenate([np.empty(0, np.bool_), *(part.derivable for part in parts)]),
    )


def _one_each(lists: Lists, random: np.random.Generator) -> tuple[Places, Ids]:
    """A place drawn from each list, none of which is empty, and the value there."""
    places = lists.offsets[:-1] + (random.random(len(lists)) * lists.sizes()).astype(np.int64)
    return places, lists.values[places]


def _single(values: Ids) -> Lists:
    return Lists(np.arange(len(values) + 1), values)


def _without(lists: Lists, values: Ids) -> Lists:
    """The lists without one value each."""
    keep = lists.values != np.repeat(values, lists.sizes())
    sizes = np.bincount(lists.owners()[keep], minlength=len(lists))
    return Lists(offsets_of(sizes), lists.values[keep])


def _chain(parts: Sequence[Lists], kind: type[np.int32 | np.int8]) -> Lists:
    sizes = np.concatenate([np.empty(0, np.int64), *(part.sizes() for part in parts)])
    values = np.concatenate([np.empty(0, kind), *(part.values for part in parts)])
    return Lists(offsets_of(sizes), values)
