"""What is said of a candidate fact, as tables of named functions: one line for each feature of a link and of a typing.

A *view* holds what the functions read, for many candidates at once. A new feature is a new line.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final, TypeVar, final

import numpy as np
from numpy.typing import NDArray

from tarbox.kb.arrays import Floats, Ids, Keys
from tarbox.kb.closure import Hierarchy
from tarbox.kb.rows import pair_keys
from tarbox.models.credo.evidence import Evidence, KeyCounts

V = TypeVar("V")

_FLOOR: Final = -12.0
"""The least logarithm of a share."""


def matrix(table: Mapping[str, Callable[[V], NDArray[Any]]], view: V) -> Floats:
    """[N, F] the features of a view, in the order of the table."""
    return np.stack([function(view) for function in table.values()], axis=1).astype(np.float32)


@final
@dataclass(frozen=True, slots=True)
class LinkView:
    """Candidate facts of one relation, [N] each but for rules [N, 4] and neighbours [N, 2].

    `tail_share` is the logarithm of the tail's share in the softmax seen from the head, `head_share` the reverse;
    `head_likely` says how likely the head has the relation at all. `sizes` are the assertions, distinct heads and
    distinct tails of the relation.
    """

    tail_share: Floats
    head_share: Floats
    tail_score: Floats
    head_score: Floats
    head_likely: Floats
    tail_likely: Floats
    head_has: NDArray[np.int64]
    tail_has: NDArray[np.int64]
    tail_reached: NDArray[np.int64]
    head_reached: NDArray[np.int64]
    sizes: NDArray[np.int64]
    rules: Floats
    like_head: Floats
    like_tail: Floats

    @classmethod
    def of(
        cls,
        evidence: Evidence,
        facts: tuple[int, Keys, Keys],
        scores: tuple[Floats, Floats],
        sums: tuple[Floats, Floats],
        likely: tuple[Floats, Floats],
    ) -> LinkView:
        """Of facts (relation, heads, tails): their scores of the tail and of the head, the sums of softmaxes over heads
        [E] and over tails [E], and how likely [E] each entity is a tail, and a head."""
        relation, head, tail = facts
        width = evidence.sizes.entities
        forward, inverse = 2 * relation * width, (2 * relation + 1) * width
        ways = np.full(len(head), 2 * relation, np.int64)
        return cls(
            _share(scores[0], sums[1][head]),
            _share(scores[1], sums[0][tail]),
            *scores,
            likely[1][head],
            likely[0][tail],
            evidence.having[inverse + head],
            evidence.having[forward + tail],
            evidence.reached[inverse + tail],
            evidence.reached[forward + head],
            evidence.relation_sizes[relation],
            evidence.rules.features(ways // 2, head, tail),
            evidence.neighbours.of_links(ways + 1, head, tail),
            evidence.neighbours.of_links(ways, tail, head),
        )

    def of_relation(self, value: float) -> Floats:
        return np.full(len(self.tail_share), value, np.float32)


def _share(scores: Floats, sums: Floats) -> Floats:
    found: Floats = np.clip(np.nan_to_num(scores - sums, nan=_FLOOR), _FLOOR, 0.0)
    return found


LINK_FEATURES: Final[Mapping[str, Callable[[LinkView], NDArray[Any]]]] = {
    "share of the tail": lambda view: view.tail_share,
    "share of the head": lambda view: view.head_share,
    "both shares": lambda view: np.logaddexp(view.tail_share, view.head_share),
    "score of the tail": lambda view: view.tail_score,
    "score of the head": lambda view: view.head_score,
    "tails of the head": lambda view: np.log1p(view.head_has),
    "heads of the tail": lambda view: np.log1p(view.tail_has),
    "likelihood that the head has any": lambda view: view.head_likely,
    "likelihood that the tail has any": lambda view: view.tail_likely,
    "frequency of the tail": lambda view: np.log1p(view.tail_reached),
    "frequency of the head": lambda view: np.log1p(view.head_reached),
    "assertions of the relation": lambda view: view.of_relation(np.log1p(view.sizes[0])),
    "tails for each head": lambda view: view.of_relation(np.log1p(view.sizes[0]) - np.log1p(view.sizes[1])),
    "heads for each tail": lambda view: view.of_relation(np.log1p(view.sizes[0]) - np.log1p(view.sizes[2])),
    "the head has none": lambda view: view.head_has == 0,
    "best rule of one step": lambda view: view.rules[:, 0],
    "best rule of two steps": lambda view: view.rules[:, 1],
    "all rules of two steps": lambda view: view.rules[:, 2],
    "paths of two steps": lambda view: view.rules[:, 3],
    "neighbours of the head that have it": lambda view: view.like_head[:, 0],
    "their share of those that have any": lambda view: view.like_head[:, 1],
    "neighbours of the tail that have it": lambda view: view.like_tail[:, 0],
    "their share of those that have one": lambda view: view.like_tail[:, 1],
}


def link_features(view: LinkView) -> Floats:
    return matrix(LINK_FEATURES, view)


@final
@dataclass(frozen=True, slots=True)
class ConceptTree:
    """What the hierarchy says of each concept [C]: its instances, its place.

    `known` counts `entity * C + concept` of the typings, `below` those with the parents of their concepts instead.
    """

    members: NDArray[np.int64]
    hierarchy: Hierarchy
    known: KeyCounts
    below: KeyCounts

    @classmethod
    def of(cls, evidence: Evidence) -> ConceptTree:
        instances, width = evidence.instances, evidence.sizes.concepts
        typed, types = instances.concepts_of.coordinates()
        tree = instances.hierarchy
        origin, above = tree.parents.gather(types)
        known = KeyCounts.of(pair_keys(typed, types, width))
        return cls(instances.entities_of.sizes(), tree, known, KeyCounts.of(pair_keys(typed[origin], above, width)))


@final
@dataclass(frozen=True, slots=True)
class TypingView:
    """Candidate typings, [N] each but for neighbours [N, 2].

    `parents` is the share of the concept's parents that the entity has (1 without parents), `siblings` how many
    concepts it has below these, `members` the instances of the concept, `parent_members` those of its smallest parent.
    """

    share: Floats
    score: Floats
    likely: Floats
    members: NDArray[np.int64]
    concepts_of: NDArray[np.int64]
    depth: Ids
    parents: Floats
    siblings: Floats
    parent_members: Floats
    every: int
    like_entity: Floats

    @classmethod
    def of(
        cls, evidence: Evidence, tree: ConceptTree, pairs: tuple[Keys, Keys], scored: tuple[Floats, Floats, Floats]
    ) -> TypingView:
        """Of pairs (entities, concepts): the logarithms of their shares, their scores, the likelihoods by signature."""
        (entities, concepts), (share, score, likely) = pairs, scored
        width, count = len(tree.members), len(concepts)
        origin, over = tree.hierarchy.parents.gather(concepts)
        above = pair_keys(entities[origin], over, width)
        parents = np.bincount(origin, minlength=count)
        has = np.bincount(origin, tree.known[above] > 0, count)
        smallest = np.full(count, np.inf)
        np.minimum.at(smallest, origin, tree.members[over].astype(np.float64))
        return cls(
            np.clip(share, _FLOOR, 0.0),
            score,
            likely,
            tree.members[concepts],
            evidence.instances.concepts_of.sizes()[entities],
            tree.hierarchy.depth[concepts],
            np.where(parents > 0, has / np.maximum(parents, 1), 1.0).astype(np.float32),
            np.bincount(origin, tree.below[above] > 0, count).astype(np.float32),
            np.where(np.isfinite(smallest), smallest, 0.0).astype(np.float32),
            width,
            evidence.neighbours.of_typings(entities, concepts),
        )


TYPING_FEATURES: Final[Mapping[str, Callable[[TypingView], NDArray[Any]]]] = {
    "share of the concept": lambda view: view.share,
    "score of the concept": lambda view: view.score,
    "likelihood by signature": lambda view: view.likely,
    "instances of the concept": lambda view: np.log1p(view.members),
    "concepts of the entity": lambda view: np.log1p(view.concepts_of),
    "depth of the concept": lambda view: view.depth,
    "parents that the entity has": lambda view: view.parents,
    "siblings that the entity has": lambda view: view.siblings,
    "share of the smallest parent": lambda view: np.log1p(view.members) - np.log1p(view.parent_members),
    "the entity has none": lambda view: view.concepts_of == 0,
    "rarity of the concept": lambda view: np.log1p(view.every) - np.log1p(view.members),
    "neighbours that have it": lambda view: view.like_entity[:, 0],
    "their share of those that have any": lambda view: view.like_entity[:, 1],
}


def typing_features(view: TypingView) -> Floats:
    return matrix(TYPING_FEATURES, view)
