"""Candidate links: facts that are not known and that a link predictor gives a noticeable share of its softmax.

Every entity is asked for each directed relation that it has or plausibly has (`tarbox.models.credo.evidence`). A fact
is a candidate once, whichever of its two directions found it, and has the features of both
(`tarbox.models.credo.features`). Facts whose ends are of kinds that exclude each other are none. Everything is made
relation by relation, and for typings some entities at a time: nothing is a table of all entities.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Final, TypeVar, final

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from tarbox.kb.arrays import Floats, Ids, Keys
from tarbox.kb.rows import TripleKeys, distinct, pair_keys
from tarbox.models.complex import Complex
from tarbox.models.credo.evidence import Evidence
from tarbox.models.credo.features import ConceptTree, LinkView, TypingView, link_features, typing_features

T = TypeVar("T")
Candidates = tuple[Keys, Floats]
"""Sorted keys, and [N, F] their features."""

LEAST_LIKELY: Final = 0.05
"""Below this prediction of the signature an entity that does not have a relation is not asked for it."""
LEAST_SHARE: Final = 2e-3
"""Candidates with a smaller share of the softmax are none."""
_POOL: Final = 1 << 13
_CELLS: Final = {"cpu": (1 << 17, 1 << 35), "cuda": (1 << 22, 1 << 39)}
"""Scores that are computed for each fact, about, and for all: each directed relation has its share of them. Where its
questions would take more, only so many nodes are scored for each as that allows, but at least `_POOL`, namely those
that the relation leads to most often."""
_MOST: Final = 64
_FEWEST: Final = 4
_ALL: Final = 1 << 26
"""At most `_MOST` candidates of one question, and about `_ALL` of all; of a part of the entities, its share of them."""
_KNOWN: Final = -1e9
_SCORES: Final = {"cpu": 1 << 22, "cuda": 1 << 28}
"""Scores held at a time, by each thread."""
_STREAMS: Final = 8
"""Threads that share a GPU."""
_SHARE_OF_GPU: Final = 32
"""Bytes of a GPU's memory that each score of one thread needs, with what is made of it on the way."""


@final
@dataclass(frozen=True, slots=True)
class Pool:
    """The nodes that can be reached: those of `offset + ids`, all from `offset` on where `ids` is None."""

    offset: int
    size: int
    ids: Ids | None = None

    @classmethod
    def of(cls, counts: NDArray[np.int64], offset: int, most: int, needed: bool) -> Pool:
        """All of the nodes, or the `most` that are reached most often, of these `counts`; where it is `needed`, only
        those that are reached at all."""
        if not needed and len(counts) <= most:
            return cls(offset, len(counts))
        order = np.argsort(-counts, kind="stable")[:most]
        return cls(offset, len(counts), np.sort(order[counts[order] > 0]).astype(np.int32))

    def nodes(self, like: Tensor) -> slice | Tensor:
        if self.ids is None:
            return slice(self.offset, self.offset + self.size)
        return _on(self.ids, like) + self.offset

    def names(self, columns: Keys) -> Keys:
        """The ids of columns of scores."""
        return columns if self.ids is None else self.ids[columns].astype(np.int64)

    def columns(self, names: Ids) -> tuple[NDArray[np.bool_], Keys]:
        """(which ids are in the pool, the columns of these)"""
        if self.ids is None:
            return np.ones(len(names), np.bool_), names.astype(np.int64)
        places = np.minimum(np.searchsorted(self.ids, names), max(len(self.ids) - 1, 0))
        inside = self.ids[places] == names if len(self.ids) else np.zeros(len(names), np.bool_)
        return inside, places[inside]

    def __len__(self) -> int:
        return self.size if self.ids is None else len(self.ids)


@final
@dataclass(frozen=True, slots=True)
class Totals:
    """The logarithm of the sum of the softmax of each question, by sorted keys `directed relation * E + entity`."""

    keys: Keys
    values: Floats

    @classmethod
    def of(cls, sums: Sequence[Floats]) -> Totals:
        """From [E] of each directed relation in turn, NaN where none was asked for."""
        asked = [np.flatnonzero(~np.isnan(own)) for own in sums]
        keys = [directed * len(own) + places for directed, (own, places) in enumerate(zip(sums, asked, strict=True))]
        values = [own[places] for own, places in zip(sums, asked, strict=True)]
        return cls(np.concatenate([np.empty(0, np.int64), *keys]), np.concatenate([np.empty(0, np.float32), *values]))

    def of_relation(self, directed: int, width: int) -> Floats:
        """[E], NaN where none is known."""
        found = np.full(width, np.nan, np.float32)
        own = _within(self.keys, directed, width)
        found[self.keys[own] - directed * width] = self.values[own]
        return found


def _within(keys: Keys, number: int, width: int) -> slice:
    """Where among sorted keys those of `number * width + ...` are."""
    low, high = np.searchsorted(keys, [number * width, (number + 1) * width])
    return slice(low, high)


@final
@dataclass(frozen=True, slots=True)
class Scope:
    """What is asked after a change. All questions of `new` entities [E], and those whose facts have `changed` (keys as
    of `Totals`, sorted), are asked as if for the first time; every other one, whose total is known, only whether it
    leads to a new entity that has the relation or may have it. `typed` [E] are asked for concepts."""

    new: NDArray[np.bool_]
    changed: Keys
    totals: Totals
    typed: NDArray[np.bool_]

    def again(self, directed: int) -> NDArray[np.bool_]:
        """[E] the entities whose question by a directed relation is asked as if for the first time."""
        found, width = self.new.copy(), len(self.new)
        found[self.changed[_within(self.changed, directed, width)] - directed * width] = True
        return found


def most_candidates(assertions: int) -> int:
    """Of one question, where there are so many facts."""
    return int(np.clip(_ALL // max(2 * assertions, 1), _FEWEST, _MOST))


@torch.no_grad()
def candidate_links(
    predictor: Complex,
    evidence: Evidence,
    share: float = 1.0,
    scope: Scope | None = None,
    totals: list[Floats] | None = None,
) -> Iterator[Candidates]:
    """Of each relation, by `TripleKeys` over the entities; about this share of them, always the same. The totals of the
    softmaxes are added to `totals`, as `Totals.of` reads them."""
    codec = TripleKeys(max(evidence.sizes.entities, 1))
    most = most_candidates(len(evidence.facts.heads))
    for relation in range(evidence.sizes.relations):
        likely = evidence.signatures.relation(2 * relation), evidence.signatures.relation(2 * relation + 1)
        found: list[Keys] = [np.empty(0, np.int64)]
        sums = []
        for directed, ends in ((2 * relation, likely), (2 * relation + 1, likely[::-1])):
            rows, columns, total = _ask(predictor, evidence, directed, (*ends, most), scope)
            head, tail = (columns, rows) if directed % 2 == 0 else (rows, columns)
            found.append(pair_keys(head, tail, codec.width))
            sums.append(total)
        if totals is not None:
            totals += sums
        head, tail = np.divmod(_drawn(distinct(np.concatenate(found)), share), codec.width)
        allowed = evidence.compatibility.allow_links(np.full(len(head), relation), head, tail)
        head, tail = head[allowed], tail[allowed]
        scores = _pair_scores(predictor, relation, head, tail)
        view = LinkView.of(evidence, (relation, head, tail), scores, (sums[0], sums[1]), likely)
        yield codec.encode(np.full(len(head), relation), head, tail), link_features(view)


def _ask(
    predictor: Complex, evidence: Evidence, directed: int, limits: tuple[Floats, Floats, int], scope: Scope | None
) -> tuple[Keys, Keys, Floats]:
    """(entities, what a directed relation may lead to from them, [E] the logarithm of the sum of each softmax over what
    is not known; NaN where none was asked for). The limits: how likely [E] it leads from, and to, each; candidates."""
    *probable, most = limits
    width = evidence.sizes.entities
    known = evidence.known_links(directed)
    asked, reachable = (_plausible(*ends) for ends in zip(probable, known, strict=True))
    share = len(known[0]) / max(2 * len(evidence.facts.heads), 1)
    size = _pool_size(len(evidence.facts.heads), share, int(asked.sum()), predictor)
    pool = Pool.of(np.bincount(known[1], minlength=width), 0, size, needed=False)
    sums = np.full(width, np.nan, np.float32)
    parts = [(asked, pool, len(pool))]
    if scope is not None:
        sums = np.where(asked, scope.totals.of_relation(directed, width), np.nan)
        again = asked & (scope.again(directed) | np.isnan(sums))
        sums[again] = np.nan
        new = Pool(0, width, np.flatnonzero(scope.new & reachable).astype(np.int32))
        parts = [(again, pool, len(pool)), (asked & ~again, new, int(scope.new.sum()))]

    def ask(everybody: Ids, pool: Pool, size: int, rows: slice) -> tuple[Keys, Keys]:
        entities = everybody[rows]
        scores = predictor.scores(_questions(predictor, directed, entities), pool.nodes(predictor.nodes)).float()
        _remove(scores, entities, known, pool)
        total = _on(sums[entities], scores)
        if np.isnan(sums[entities[0]]):
            total = torch.logsumexp(scores, 1)
            sums[entities] = total.cpu().numpy()
        row, column = _strongest(scores, total, max(_FEWEST, -(-most * size // width)))
        return entities[row].astype(np.int64), pool.names(column)

    found = [(np.empty(0, np.int64), np.empty(0, np.int64))]
    for flags, reached, size in parts:
        entities = np.flatnonzero(flags if len(reached) else flags[:0]).astype(np.int32)
        found += _each(partial(ask, entities, reached, size), len(entities), len(reached), predictor)
    return np.concatenate([rows for rows, _ in found]), np.concatenate([columns for _, columns in found]), sums


def _plausible(probable: Floats, known: Ids) -> NDArray[np.bool_]:
    """[E] the entities that have a directed relation, or are likely to."""
    found: NDArray[np.bool_] = probable >= LEAST_LIKELY
    found[known] = True
    return found


def _each(ask: Callable[[slice], T], size: int, width: int, predictor: Complex) -> Iterator[T]:
    """What blocks of rows give, in their order. Processor cores each take a block: that costs a busy machine less than
    to divide every operation among them. Beside a GPU they look up features of one block while it scores another."""
    blocks = list(_blocks(size, width, predictor))
    if len(blocks) < 2:
        yield from map(ask, blocks)
        return
    cores = os.cpu_count() or 1
    if predictor.nodes.device.type == "cuda":
        cores = min(cores, _STREAMS)
    with one_thread(), ThreadPoolExecutor(cores) as pool:
        yield from pool.map(torch.no_grad()(ask), blocks)


@contextmanager
def one_thread() -> Iterator[None]:
    """torch divides no operation among processor cores: where operations are small, waiting costs more than it wins."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


@torch.no_grad()
def candidate_typings(
    predictor: Complex, evidence: Evidence, share: float = 1.0, scope: Scope | None = None
) -> Iterator[Candidates]:
    """Of some entities at a time, by `entity * C + concept`; about this share of them, always the same.

    Terms, which are what the hierarchy says (ADR 39), are not asked, and their concepts are no candidates for others
    unless others have them."""
    width = evidence.sizes.concepts
    if not width:
        return
    facts, tree = evidence.facts, ConceptTree.of(evidence)
    asked = np.ones(evidence.sizes.entities, np.bool_)
    asked[facts.typed[facts.term_typings()]] = False
    everybody = np.flatnonzero(asked if scope is None else asked & scope.typed).astype(np.int32)
    near, far = evidence.instances.concepts_of.coordinates()
    size = _pool_size(len(near), 1.0, len(everybody), predictor)
    pool = Pool.of(np.bincount(far[asked[near]], minlength=width), evidence.sizes.entities, size, needed=True)
    places = predictor.places

    def ask(block: slice) -> Candidates:
        entities = everybody[block]
        questions = _questions(predictor, places.concepts_of, entities)
        scores = predictor.scores(questions, pool.nodes(predictor.nodes)).float()
        _remove(scores, entities, (near, far), pool)
        total = torch.logsumexp(scores, 1)
        likely = evidence.signatures.concepts(entities)
        rows, columns = _strongest(scores, total, _MOST)
        row, column = np.nonzero(likely >= LEAST_LIKELY)
        inside, signed = pool.columns(evidence.signatures.kept[column])
        keys = pair_keys(rows, columns, len(pool)), pair_keys(row[inside], signed, len(pool))
        rows, columns = np.divmod(_drawn(distinct(np.concatenate(keys)), share), max(len(pool), 1))
        raw = scores[_on(rows, scores), _on(columns, scores)]
        softmax = (raw - total[_on(rows, scores)]).cpu().numpy()
        concepts, own = pool.names(columns), entities[rows].astype(np.int64)
        allowed = (raw > _KNOWN / 2).cpu().numpy() & evidence.compatibility.allow_typings(own, concepts)
        by_signature = evidence.signatures.of_concepts(likely, rows, concepts)
        own, concepts = own[allowed], concepts[allowed]
        scored = (softmax[allowed], raw.cpu().numpy()[allowed], by_signature[allowed])
        return pair_keys(own, concepts, width), typing_features(TypingView.of(evidence, tree, (own, concepts), scored))

    yield from _each(ask, len(everybody), len(pool), predictor)


def _drawn(keys: Keys, share: float) -> Keys:
    """About this share of keys, by what they are: looking up features costs more than finding candidates."""
    if share >= 1:
        return keys
    return keys[(keys.astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15)) >> np.uint64(40) < share * (1 << 24)]


def _pool_size(facts: int, share: float, questions: int, predictor: Complex) -> int:
    """The nodes that are scored for each question, where these have a share of what is computed for so many facts."""
    each, most = _CELLS[predictor.nodes.device.type]
    return max(_POOL, int(share * min(each * facts, most) / max(questions, 1)))


def _blocks(size: int, width: int, predictor: Complex) -> Iterator[slice]:
    device = predictor.nodes.device
    scores = _SCORES[device.type]
    if device.type == "cuda":
        memory = torch.cuda.get_device_properties(device).total_memory
        scores = min(scores, memory // (_STREAMS * _SHARE_OF_GPU))
    step = max(1, scores // max(width, 1))
    return (slice(start, min(start + step, size)) for start in range(0, size, step))


def _questions(predictor: Complex, directed: int, entities: Ids) -> Tensor:
    return predictor.questions(directed, _on(entities, predictor.nodes))


def _pair_scores(predictor: Complex, relation: int, head: Keys, tail: Keys) -> tuple[Floats, Floats]:
    """[N] each: the score of the tail seen from the head, and of the head seen from the tail."""

    def score(rows: slice) -> Floats:
        heads, tails = (_on(ids[rows], predictor.nodes) for ids in (head, tail))
        found: Floats = predictor.pair_scores(relation, heads, tails).cpu().numpy()
        return found

    scores = _each(score, len(head), 8 * predictor.nodes.shape[1], predictor)
    both = np.concatenate([np.empty((0, 2), np.float32), *scores])
    return both[:, 0].copy(), both[:, 1].copy()


def _remove(scores: Tensor, rows: Ids, known: tuple[Ids, Ids], pool: Pool) -> None:
    """Take what is known, pairs sorted by the first, out of the scores of these rows, which increase."""
    near, far = known
    low, high = np.searchsorted(near, rows), np.searchsorted(near, rows, side="right")
    origin = np.repeat(np.arange(len(rows)), high - low)
    places = np.arange(len(origin)) + np.repeat(low - (np.cumsum(high - low) - (high - low)), high - low)
    inside, columns = pool.columns(far[places])
    scores[_on(origin[inside], scores), _on(columns, scores)] = _KNOWN


def _strongest(scores: Tensor, total: Tensor, most: int) -> tuple[Keys, Keys]:
    """(rows, columns) with at least the least share of the softmax, the strongest of each row where they are many."""
    limit = (total + float(np.log(LEAST_SHARE)))[:, None]
    if scores.device.type == "cuda":  # there sorting is cheap, elsewhere looking once through is
        values, strongest = scores.topk(min(most, scores.shape[1]), dim=1)
        taken = values > limit
        return taken.nonzero()[:, 0].cpu().numpy(), strongest[taken].cpu().numpy()
    found = (scores > limit).nonzero()
    rows, columns = found[:, 0].numpy(), found[:, 1].numpy()
    order = np.lexsort((-scores[found[:, 0], found[:, 1]].numpy(), rows))
    sizes = np.bincount(rows, minlength=len(scores))
    place = np.arange(len(rows)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    kept = order[place < most]
    return rows[kept], columns[kept]


def _on(numbers: Keys | Ids | Floats, like: Tensor) -> Tensor:
    """Ids as whole numbers, totals as they are."""
    kind = np.float32 if numbers.dtype == np.float32 else np.int64
    return torch.from_numpy(np.ascontiguousarray(numbers, dtype=kind)).to(like.device)
