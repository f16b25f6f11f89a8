"""Facts that a link predictor proposes, with the features that say how far to believe them.

For every entity and every directed relation that it plausibly has (`tarbox.models.evidence`), the candidates that take
a noticeable share of the softmax over what is not known are proposed. A fact is proposed once, whichever of its two
directions found it, and has the features of both.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, final

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from tarbox.kb.closure import Hierarchy
from tarbox.kb.facts import Ids
from tarbox.models.complex import Complex, multiply
from tarbox.models.evidence import Counts, Evidence, Keys, distinct
from tarbox.models.probabilities import share_out

Floats = NDArray[np.float32]
Sizes = tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]
"""[R] each: assertions, distinct heads, distinct tails."""

LEAST_LIKELY: Final = 0.05
"""Below this prediction an entity that does not have a relation is not asked for it."""
LEAST_SHARE: Final = 2e-3
MOST: Final = 64
"""Candidates with a smaller share of the softmax, or beyond so many of one row, are not proposed."""
FLOOR: Final = -12.0
FEATURES: Final = 23
_CELLS: Final = 1 << 26


@final
@dataclass(frozen=True, slots=True)
class Sums:
    """The logarithm of the sum of the softmax over what is not known, by `relation * E + entity`; NaN elsewhere."""

    keys: Keys
    values: Floats

    def __getitem__(self, keys: Keys) -> Floats:
        if not len(self.keys):
            return np.full(len(keys), np.nan, np.float32)
        places = np.minimum(np.searchsorted(self.keys, keys), len(self.keys) - 1)
        return np.where(self.keys[places] == keys, self.values[places], np.float32(np.nan))


@torch.no_grad()
def propose_links(links: Complex, evidence: Evidence) -> tuple[Keys, Sums]:
    """(sorted keys `(relation * E + head) * E + tail` of the facts proposed, the sums of the rows asked)."""
    width = evidence.sizes.entities
    found: list[Keys] = [np.empty(0, np.int64)]
    keys: list[Keys] = [np.empty(0, np.int64)]
    sums: list[Floats] = [np.empty(0, np.float32)]
    for relation in range(evidence.sizes.directed):
        entities = evidence.plausible(relation, LEAST_LIKELY)
        near, far = evidence.links(relation)
        for block in np.array_split(entities, max(1, -(-len(entities) * width // _CELLS))):
            scores = _row_scores(links, relation, block)
            _hide(scores, block, near, far)
            total = torch.logsumexp(scores, 1)
            rows, columns = _strongest(scores, total)
            keys.append(np.int64(relation) * width + block)
            sums.append(total.cpu().numpy())
            pair = (columns, block[rows].astype(np.int64))
            head, tail = pair if relation % 2 == 0 else pair[::-1]
            found.append((np.int64(relation // 2) * width + head) * width + tail)
    return distinct(np.concatenate(found)), Sums(np.concatenate(keys), np.concatenate(sums))


@torch.no_grad()
def link_features(links: Complex, evidence: Evidence, triples: Keys, sums: Sums) -> Floats:
    """[N, 23] of facts by key: shares and scores in both directions, what is known of both ends and of the relation,
    the ways that are known between the ends, what entities like them have."""
    relation, head, tail = split_triples(triples, evidence.sizes.entities)
    scores, sizes = _pair_scores(links, relation, head, tail), _relation_sizes(evidence)
    out = np.empty((len(triples), FEATURES), np.float32)

    def work(rows: slice) -> None:
        to_tail, to_head = (column[rows] for column in scores)
        out[rows] = _link_features(evidence, (relation[rows], head[rows], tail[rows]), (to_tail, to_head), sums, sizes)

    share_out(work, len(triples), FEATURES)
    return out


def _link_features(
    evidence: Evidence, facts: tuple[Keys, Keys, Keys], scores: tuple[Floats, Floats], sums: Sums, sizes: Sizes
) -> Floats:
    """[N, 23] of facts whose scores are known: of the tail seen from the head, and of the head seen from the tail."""
    (relation, head, tail), (to_tail, to_head), width = facts, scores, evidence.sizes.entities
    forward, inverse = 2 * relation, 2 * relation + 1  # what leads to the head, what leads to the tail
    shares = [
        np.clip(np.nan_to_num(scores - sums[ways * width + ends], nan=FLOOR), FLOOR, 0.0)
        for scores, ways, ends in ((to_tail, inverse, head), (to_head, forward, tail))
    ]
    count, sources, targets = sizes
    columns = [
        *shares,
        np.logaddexp(*shares),
        to_tail,
        to_head,
        np.log1p(evidence.having[inverse * width + head]),
        np.log1p(evidence.having[forward * width + tail]),
        evidence.relations_ED[head, inverse],
        evidence.relations_ED[tail, forward],
        np.log1p(evidence.reached[inverse * width + tail]),
        np.log1p(evidence.reached[forward * width + head]),
        np.log1p(count)[relation],
        (np.log1p(count) - np.log1p(sources))[relation],
        (np.log1p(count) - np.log1p(targets))[relation],
        (evidence.having[inverse * width + head] == 0).astype(np.float32),
        *evidence.ways.features(relation, head, tail).T,
        *evidence.alike(relation, head, tail).T,
    ]
    return np.stack(columns, axis=1).astype(np.float32)


@torch.no_grad()
def propose_typings(links: Complex, evidence: Evidence) -> tuple[Keys, Floats]:
    """(sorted keys `entity * C + concept` of the typings proposed, [N, 11] their features)."""
    entities, concepts = evidence.sizes.entities, evidence.sizes.concepts
    if not concepts:
        return np.empty(0, np.int64), np.empty((0, 11), np.float32)
    near, far = evidence.instances.concepts_of.coordinates()
    shape = ConceptShape.of(evidence)
    keys: list[Keys] = [np.empty(0, np.int64)]
    features: list[Floats] = [np.empty((0, 11), np.float32)]
    for block in np.array_split(np.arange(entities, dtype=np.int32), max(1, -(-entities * concepts // _CELLS))):
        scores = _typing_scores(links, block)
        _hide(scores, block, near, far)
        total = torch.logsumexp(scores, 1)
        rows, columns = _strongest(scores, total)
        likely = np.nonzero(evidence.concepts_EC[block] >= LEAST_LIKELY)
        both = distinct(np.concatenate([rows * concepts + columns, likely[0] * np.int64(concepts) + likely[1]]))
        rows, columns = np.divmod(both, concepts)
        raw = scores[_on(rows, scores), _on(columns, scores)]
        new = (raw > -1e8).cpu().numpy()
        rows, columns = rows[new], columns[new]
        share = (raw - total[_on(np.divmod(both, concepts)[0], scores)]).cpu().numpy()[new]
        keys.append(block[rows].astype(np.int64) * concepts + columns)
        features.append(
            shape.features(evidence, block[rows], columns, np.clip(share, FLOOR, 0.0), raw.cpu().numpy()[new])
        )
    return np.concatenate(keys), np.concatenate(features)


@final
@dataclass(frozen=True, slots=True)
class ConceptShape:
    """What the hierarchy says of each concept [C]: its instances, depth, parents.

    `known` counts `entity * C + concept` of the typings, `below` those with the parents of their concepts instead.
    """

    members: NDArray[np.int64]
    depth: Ids
    hierarchy: Hierarchy
    known: Counts
    below: Counts

    @classmethod
    def of(cls, evidence: Evidence) -> ConceptShape:
        instances = evidence.instances
        typed, types = instances.concepts_of.coordinates()
        tree, width = instances.hierarchy, np.int64(evidence.sizes.concepts)
        known = Counts.of(typed.astype(np.int64) * width + types)
        origin, above = tree.parents.gather(types)
        below = Counts.of(typed[origin].astype(np.int64) * width + above)
        return cls(instances.entities_of.sizes(), tree.depth, tree, known, below)

    def features(self, evidence: Evidence, entities: Ids, concepts: Keys, share: Floats, score: Floats) -> Floats:
        """[N, 11]"""
        parents, siblings, relative = self._relatives(entities, concepts)
        types = evidence.instances.concepts_of.sizes()[entities]
        having = np.log1p(types)
        return np.stack(
            [
                share,
                score,
                evidence.concepts_EC[entities, concepts],
                np.log1p(self.members[concepts]),
                having,
                self.depth[concepts],
                parents,
                siblings,
                relative,
                (types == 0).astype(np.float32),
                np.log1p(evidence.sizes.concepts) - np.log1p(self.members[concepts]),
            ],
            axis=1,
        ).astype(np.float32)

    def _relatives(self, entities: Ids, concepts: Keys) -> tuple[Floats, Floats, Floats]:
        """[N] each: the share of its parents that an entity has (1 without parents), how many concepts it has below
        these parents, and the logarithm of the concept's share of its smallest parent."""
        width = np.int64(len(self.depth))
        parents = self.hierarchy.parents
        origin, over = parents.gather(concepts.astype(np.int32))
        has = self.known[entities[origin].astype(np.int64) * width + over] > 0
        count = np.bincount(origin, minlength=len(concepts))
        share = np.where(count > 0, np.bincount(origin, has, len(concepts)) / np.maximum(count, 1), 1.0)
        smallest = np.full(len(concepts), np.inf)
        np.minimum.at(smallest, origin, self.members[over].astype(np.float64))
        relative = np.log1p(self.members[concepts]) - np.log1p(np.where(np.isfinite(smallest), smallest, 0.0))
        siblings = np.bincount(origin, self.below[entities[origin].astype(np.int64) * width + over] > 0, len(concepts))
        return share.astype(np.float32), siblings.astype(np.float32), relative.astype(np.float32)


def split_triples(triples: Keys, entities: int) -> tuple[Keys, Keys, Keys]:
    """(relations, heads, tails) of sorted keys."""
    relation, pair = np.divmod(triples, np.int64(entities) * entities)
    head, tail = np.divmod(pair, np.int64(entities))
    return relation, head, tail


def _relation_sizes(evidence: Evidence) -> Sizes:
    width, count = evidence.sizes.entities, evidence.sizes.relations
    distinct = np.bincount(evidence.having.keys // max(width, 1), minlength=2 * count)
    return np.bincount(evidence.facts.relations, minlength=count), distinct[1::2], distinct[0::2]


def _row_scores(links: Complex, relation: int, entities: Ids) -> Tensor:
    """[B, E] in single precision."""
    nodes = _on(entities, links.nodes)
    ways = torch.full_like(nodes, relation)
    return links.scores(links.questions(ways, nodes), links.places.entities).float()


def _typing_scores(links: Complex, entities: Ids) -> Tensor:
    nodes = _on(entities, links.nodes)
    ways = torch.full_like(nodes, links.places.concepts_of)
    return links.scores(links.questions(ways, nodes), links.places.concepts).float()


def _pair_scores(links: Complex, relation: Keys, head: Keys, tail: Keys) -> tuple[Floats, Floats]:
    """[N] each: the score of the tail seen from the head, and of the head seen from the tail."""
    to_tail, to_head = np.empty(len(head), np.float32), np.empty(len(head), np.float32)
    step = max(1, _CELLS // (4 * links.nodes.shape[1]))
    for start in range(0, len(head), step):
        rows = slice(start, start + step)
        ways, near, far = (_on(column[rows], links.nodes) for column in (relation, head, tail))
        heads, tails = links.nodes[near], links.nodes[far]
        to_tail[rows] = (multiply(heads, links.relations[2 * ways + 1]) * tails).sum(1).cpu().numpy()
        to_head[rows] = (multiply(tails, links.relations[2 * ways]) * heads).sum(1).cpu().numpy()
    return to_tail, to_head


def _hide(scores: Tensor, rows: Ids, near: Ids, far: Ids) -> None:
    """Take what is known, pairs sorted by the first, out of the scores of these rows."""
    low, high = np.searchsorted(near, rows), np.searchsorted(near, rows, side="right")
    sizes = high - low
    origin = np.repeat(np.arange(len(rows)), sizes)
    places = np.arange(len(origin)) + np.repeat(low - (np.cumsum(sizes) - sizes), sizes)
    scores[_on(origin, scores), _on(far[places], scores)] = -1e9


def _strongest(scores: Tensor, total: Tensor) -> tuple[Keys, Keys]:
    """(rows, columns) with at least the least share of the softmax, the strongest of each row where they are many."""
    limit = (total + float(np.log(LEAST_SHARE)))[:, None]
    on_gpu = scores.device.type == "cuda"  # there sorting is cheap, elsewhere looking once through is
    return _strongest_by_sorting(scores, limit) if on_gpu else _strongest_by_looking(scores, limit)


def _strongest_by_sorting(scores: Tensor, limit: Tensor) -> tuple[Keys, Keys]:
    values, strongest = scores.topk(min(MOST, scores.shape[1]), dim=1)
    taken = values > limit
    return taken.nonzero()[:, 0].cpu().numpy(), strongest[taken].cpu().numpy()


def _strongest_by_looking(scores: Tensor, limit: Tensor) -> tuple[Keys, Keys]:
    found = (scores > limit).nonzero()
    rows, columns = found[:, 0].numpy(), found[:, 1].numpy()
    order = np.lexsort((-scores[found[:, 0], found[:, 1]].numpy(), rows))
    sizes = np.bincount(rows, minlength=len(scores))
    place = np.arange(len(rows)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    kept = order[place < MOST]
    return rows[kept], columns[kept]


def _on(ids: NDArray[np.int64] | Ids, like: Tensor) -> Tensor:
    return torch.from_numpy(np.ascontiguousarray(ids, dtype=np.int64)).to(like.device)
