"""Exact answers: what follows from the facts of a knowledge base, at both levels.

::

    index = Index.of(facts)                             # once per knowledge base
    answer = answer_query(query, index)                 # names of the query are terms of the vocabulary
    answer.entities, answer.concepts, answer.counts     # sorted ids; answer.coverage() = counts / entities
    answers = answer_encoded(rows, index)               # many at once, each a shape and its ids (`encode`)
    entities, concepts, counts = answer_rows(shape, ids, index)    # a batch of queries of one shape, fastest

`encode` in `tarbox.execution.rows` makes (shape, ids) of a query with names. A concept is an answer where at least one
answer entity is its instance under closure; its count is the number of those entities. A complement is taken over all
entities. All functions are pure and may run in several threads at once. The first call loads numba's machine code
from its cache (compiled on first use on a machine: some seconds).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import TypeAlias, final

import numpy as np

from tarbox.execution.graph import Index
from tarbox.execution.literals import link_program
from tarbox.execution.rows import encode
from tarbox.kb.arrays import Doubles, Ids, Places
from tarbox.kb.rows import Rows
from tarbox.query.algebra import Query

_Answered: TypeAlias = tuple[Places, Ids, Ids]
"""Some queries as `tarbox.execution.batches.Sheet` has them."""


@final
@dataclass(frozen=True, slots=True)
class Answer:
    """Entity ids [A] and concept ids [B], both increasing; `counts` [B]: how many of the entities each concept has."""

    entities: Ids
    concepts: Ids
    counts: Ids

    def coverage(self) -> Doubles:
        """[B] the share of the answer entities inside each concept."""
        return self.counts / max(len(self.entities), 1)


def answer_query(query: Query, index: Index) -> Answer:
    """The answers to one query at both levels."""
    shape, ids = encode(query, index.facts.vocabulary)
    entities, concepts, counts = answer_rows(shape, ids[None], index)
    return Answer(entities.columns, concepts.columns, counts)


def answer_encoded(rows: Sequence[tuple[Query, Ids]], index: Index) -> list[Answer]:
    """The answers to each query, in their order; those of one shape are answered together."""
    from tarbox.execution.batches import answer_batch

    groups: dict[Query, list[int]] = {}
    for place, (shape, _) in enumerate(rows):
        groups.setdefault(shape, []).append(place)
    found: dict[int, Answer] = {}
    for shape, places in groups.items():
        parts = _in_batches(answer_batch, shape, np.stack([rows[place][1] for place in places]), index)
        found |= zip(places, chain.from_iterable(_answers(*part) for part in parts), strict=True)
    return [found[place] for place in range(len(rows))]


def _answers(ends: Places, values: Ids, numbers: Ids) -> Iterator[Answer]:
    start = 0
    for middle, end in ends.tolist():
        yield Answer(values[start:middle], values[middle:end], numbers[middle:end])
        start = end


def answer_rows(shape: Query, ids: Ids, index: Index) -> tuple[Rows, Rows, Ids]:
    """Answers to the queries of one shape whose slots are the rows of `ids` [Q, slots].

    Returns the entities by query, the concepts by query, and for every concept answer its count.
    """
    from tarbox.execution.batches import answer_batch

    return _assemble(_in_batches(answer_batch, shape, ids, index))


def split_answers(shape: Query, ids: Ids, index: Index) -> tuple[Rows, Rows, Ids]:
    """The easy and the hard answer entities of such queries, over an index that marks held-out facts.

    Easy are all answers on the earlier graph, and hard those on the larger graph alone; for every hard answer the
    fewest held-out facts that a proof of it needs. Without held-out facts all answers are easy.
    """
    from tarbox.execution.batches import split_batch

    return _assemble(_in_batches(split_batch, shape, ids, index))


def _in_batches(kernel: Callable[..., int], shape: Query, ids: Ids, index: Index) -> list[_Answered]:
    """What a kernel of `tarbox.execution.batches` writes for each query: two lists, and numbers for the second."""
    from tarbox.execution.batches import Sheet
    from tarbox.execution.kernels import make_space

    program = link_program(shape, index)
    table = np.ascontiguousarray(ids, np.int32).reshape(len(ids), program.width)
    space = make_space(program.depth, index.entities + index.concepts)
    most = index.entities + index.concepts  # of one answer
    room = max(min(1 << 20, len(table) * most), most)
    sheet = Sheet(np.zeros((len(table), 2), np.int64), np.empty(room, np.int32), np.zeros(room, np.int32))
    parts: list[_Answered] = []
    done = 0
    while done < len(table):
        reached = kernel(index.graph, program, table, done, space, sheet)
        ends = sheet.ends[: reached - done].copy()
        used = int(ends[-1, 1])
        parts.append((ends, sheet.values[:used].copy(), sheet.counts[:used].copy()))
        done = reached
    return parts


def _assemble(parts: list[_Answered]) -> tuple[Rows, Rows, Ids]:
    entities, concepts, counts = [np.empty(0, np.int32)], [np.empty(0, np.int32)], [np.empty(0, np.int32)]
    sizes = [np.empty((0, 2), np.int64)]
    for ends, values, numbers in parts:
        size = np.diff(ends.ravel(), prepend=0)
        is_concept = np.repeat(np.tile([False, True], len(ends)), size)
        entities.append(values[~is_concept])
        concepts.append(values[is_concept])
        counts.append(numbers[is_concept])
        sizes.append(size.reshape(-1, 2))
    offsets = np.concatenate([np.zeros((1, 2), np.int64), np.cumsum(np.concatenate(sizes), axis=0)])
    by_query = [
        Rows(np.ascontiguousarray(offsets[:, k]), np.concatenate(v)) for k, v in enumerate((entities, concepts))
    ]
    return by_query[0], by_query[1], np.concatenate(counts)
