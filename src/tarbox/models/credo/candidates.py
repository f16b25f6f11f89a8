"""Candidate links: facts that are not known and that a link predictor gives a noticeable share of its softmax.

Every entity is asked for each directed relation that it has or plausibly has (`tarbox.models.credo.evidence`). A fact
is a candidate once, whichever of its two directions found it, and has the features of both
(`tarbox.models.credo.features`). Facts whose ends are of kinds that exclude each other are none. Everything is made
relation by relation, and for typings some entities at a time: nothing is a table of all entities.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
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
_CELLS: Final = {"cpu": 1 << 35, "cuda": 1 << 40}
"""Scores that are computed for all questions together, about: with more, only so many nodes are scored for each as that
allows, but at least `_POOL`, namely those that the relation leads to most often."""
_MOST: Final = 64
_ALL: Final = 1 << 26
"""At most `_MOST` candidates of one question, and about `_ALL` of all."""
_KNOWN: Final = -1e9
_SCORES: Final = {"cpu": 1 << 22, "cuda": 1 << 25}
"""Scores held at a time, by each thread."""
_STREAMS: Final = 8
"""Threads that share a GPU."""


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


@torch.no_grad()
def candidate_links(predictor: Complex, evidence: Evidence) -> Iterator[Candidates]:
    """Of each relation, by `TripleKeys` over the entities."""
    codec = TripleKeys(max(evidence.sizes.entities, 1))
    most = int(np.clip(_ALL // max(2 * len(evidence.facts.heads), 1), 4, _MOST))
    for relation in range(evidence.sizes.relations):
        likely = evidence.signatures.relation(2 * relation), evidence.signatures.relation(2 * relation + 1)
        found: list[Keys] = [np.empty(0, np.int64)]
        sums = []
        for directed, probable in zip((2 * relation, 2 * relation + 1), likely, strict=True):
            rows, columns, total = _ask(predictor, evidence, directed, (probable, most))
            head, tail = (columns, rows) if directed % 2 == 0 else (rows, columns)
            found.append(pair_keys(head, tail, codec.width))
            sums.append(total)
        head, tail = np.divmod(distinct(np.concatenate(found)), codec.width)
        allowed = evidence.compatibility.allow_links(np.full(len(head), relation), head, tail)
        head, tail = head[allowed], tail[allowed]
        scores = _pair_scores(predictor, relation, head, tail)
        view = LinkView.of(evidence, (relation, head, tail), scores, (sums[0], sums[1]), likely)
        yield codec.encode(np.full(len(head), relation), head, tail), link_features(view)


def _ask(
    predictor: Complex, evidence: Evidence, directed: int, limits: tuple[Floats, int]
) -> tuple[Keys, Keys, Floats]:
    """(entities, what a directed relation may lead to from them, [E] the logarithm of the sum of each softmax over what
    is not known; NaN where none was asked for)."""
    probable, most = limits
    width = evidence.sizes.entities
    near, far = evidence.known_links(directed)
    asked = probable >= LEAST_LIKELY
    asked[near] = True
    entities = np.flatnonzero(asked).astype(np.int32)
    size = _pool_size(2 * len(evidence.facts.heads), predictor)
    pool = Pool.of(np.bincount(far, minlength=width), 0, size, needed=False)
    sums = np.full(width, np.nan, np.float32)

    def ask(block: slice) -> tuple[Keys, Keys]:
        own = entities[block]
        scores = predictor.scores(_questions(predictor, directed, own), pool.nodes(predictor.nodes)).float()
        _remove(scores, own, (near, far), pool)
        total = torch.logsumexp(scores, 1)
        sums[own] = total.cpu().numpy()
        row, column = _strongest(scores, total, most)
        return own[row].astype(np.int64), pool.names(column)

    found = [(np.empty(0, np.int64), np.empty(0, np.int64)), *_each(ask, len(entities), len(pool), predictor)]
    return np.concatenate([rows for rows, _ in found]), np.concatenate([columns for _, columns in found]), sums


def _each(ask: Callable[[slice], T], size: int, width: int, predictor: Complex) -> Iterator[T]:
    """What blocks of rows give, in their order. Processor cores each take a block: that costs a busy machine less than
    to divide every operation among them. Beside a GPU they look up features of one block while it scores another."""
    blocks = list(_blocks(size, width, predictor))
    if len(blocks) < 2:
        yield from map(ask, blocks)
        return
    cores = os.cpu_count() or 1
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        with ThreadPoolExecutor(min(cores, _STREAMS) if predictor.nodes.device.type == "cuda" else cores) as pool:
            yield from pool.map(torch.no_grad()(ask), blocks)
    finally:
        torch.set_num_threads(threads)


@torch.no_grad()
def candidate_typings(predictor: Complex, evidence: Evidence) -> Iterator[Candidates]:
    """Of some entities at a time, by `entity * C + concept`. Terms, which are what the hierarchy says (ADR 50), are not
    asked, and their concepts are no candidates for others unless others have them."""
    width = evidence.sizes.concepts
    if not width:
        return
    facts, tree = evidence.facts, ConceptTree.of(evidence)
    asked = np.ones(evidence.sizes.entities, np.bool_)
    asked[facts.typed[facts.term_typings()]] = False
    everybody = np.flatnonzero(asked).astype(np.int32)
    near, far = evidence.instances.concepts_of.coordinates()
    size = _pool_size(len(everybody), predictor)
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
        rows, columns = np.divmod(distinct(np.concatenate(keys)), max(len(pool), 1))
        raw = scores[_on(rows, scores), _on(columns, scores)]
        share = (raw - total[_on(rows, scores)]).cpu().numpy()
        concepts, own = pool.names(columns), entities[rows].astype(np.int64)
        allowed = (raw > _KNOWN / 2).cpu().numpy() & evidence.compatibility.allow_typings(own, concepts)
        by_signature = evidence.signatures.of_concepts(likely, rows, concepts)
        own, concepts = own[allowed], concepts[allowed]
        scored = (share[allowed], raw.cpu().numpy()[allowed], by_signature[allowed])
        return pair_keys(own, concepts, width), typing_features(TypingView.of(evidence, tree, (own, concepts), scored))

    yield from _each(ask, len(everybody), len(pool), predictor)


def _pool_size(questions: int, predictor: Complex) -> int:
    return max(_POOL, _CELLS[predictor.nodes.device.type] // max(questions, 1))


def _blocks(size: int, width: int, predictor: Complex) -> Iterator[slice]:
    step = max(1, _SCORES[predictor.nodes.device.type] // max(width, 1))
    return (slice(start, min(start + step, size)) for start in range(0, size, step))


def _questions(predictor: Complex, directed: int, entities: Ids) -> Tensor:
    nodes = _on(entities, predictor.nodes)
    return predictor.questions(torch.full_like(nodes, directed), nodes)


def _pair_scores(predictor: Complex, relation: int, head: Keys, tail: Keys) -> tuple[Floats, Floats]:
    """[N] each: the score of the tail seen from the head, and of the head seen from the tail."""
    to_tail, to_head = np.empty(len(head), np.float32), np.empty(len(head), np.float32)
    for rows in _blocks(len(head), 8 * predictor.nodes.shape[1], predictor):
        heads, tails = (_on(ids[rows], predictor.nodes) for ids in (head, tail))
        to_tail[rows] = predictor.pair_scores(2 * relation + 1, heads, tails).cpu().numpy()
        to_head[rows] = predictor.pair_scores(2 * relation, tails, heads).cpu().numpy()
    return to_tail, to_head


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


def _on(ids: Keys | Ids, like: Tensor) -> Tensor:
    return torch.from_numpy(np.ascontiguousarray(ids, dtype=np.int64)).to(like.device)
