"""Concept features: what a query's answers, its known concepts and the hierarchy say of each concept with any evidence.

Evidence are the concepts that describe the answers, known or predicted, and those that the query's last relation leads
to most often. Nothing is computed for all other concepts, however many there are.
"""

# ruff: noqa: N803, N806, N815 (shape suffixes)

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Any, Final, final

import numpy as np
from numpy.typing import NDArray

from tarbox.core.ids import Level
from tarbox.execution.graph import Index
from tarbox.execution.interpreter import evaluate
from tarbox.kb.arrays import Doubles, Floats, Ids
from tarbox.kb.rows import Rows, distinct, pair_keys
from tarbox.models.credo.concept_kernels import gather_concepts
from tarbox.models.credo.evidence import fit_linear, frequent_columns
from tarbox.models.credo.features import matrix
from tarbox.models.credo.kernels import share_out
from tarbox.models.credo.probabilities import FactProbabilities
from tarbox.models.priors import Priors
from tarbox.models.scorer import LEAST_MEMBER
from tarbox.query.algebra import DataRange, Direction, Query, slots

_BY_PRIOR: Final = 512
"""Concepts that the last relation leads to most often, without regard to the answers."""
_GROUPS: Final = 50_000
_GROUPS_AT_ONCE: Final = 1 << 10
_QUERIES_AT_ONCE: Final = 16


@final
@dataclass(frozen=True, slots=True)
class QueryBatch:
    """Queries of one shape with their fuzzy sets [B, E] and what is known: entities and concepts by query, and for each
    concept how many of the entities it has."""

    shape: Query
    ids: Ids
    sets_BE: Floats
    entities: Rows
    concepts: Rows
    counts: Ids


@final
@dataclass(frozen=True, slots=True)
class ConceptEvidence:
    """The concepts with any evidence, by query, and [N] of each: whether it is known, the best single proof that it
    describes an answer, the noisy-or of all proofs, the expected number of answers described; [N, F] its features."""

    concepts: Rows
    known: NDArray[np.bool_]
    best_proof: Floats
    noisy_or: Floats
    expected: Floats
    features: Floats


@final
@dataclass(frozen=True, slots=True)
class ConceptView:
    """What the features of one query's n concepts read: `sums` [n, 7] as `gather_concepts` makes them, [n] the others;
    the last five are numbers of the query."""

    sums: Doubles
    is_known: NDArray[np.bool_]
    prior: Floats
    linear: Floats
    parents: Floats
    siblings: Floats
    size: Floats
    share: Floats
    depth: Ids
    known_answers: int
    known_concepts: int
    mass: float
    roots: float

    def total(self) -> Doubles:
        found: Doubles = np.log(1e-6 - np.expm1(-self.sums[:, :3].sum(1)))
        return found

    def behind(self) -> Doubles:
        total = self.total()
        found: Doubles = total - np.where(self.is_known, -20.0, total).max(initial=-20.0)
        return found

    def everywhere(self, value: float) -> Floats:
        return np.full(len(self.prior), value, np.float32)


CONCEPT_FEATURES: Final[Mapping[str, Callable[[ConceptView], NDArray[Any]]]] = {
    "predicted answers with known typings": lambda view: np.log(1e-6 + view.sums[:, 0]),
    "known answers with predicted typings": lambda view: np.log(1e-6 + view.sums[:, 1]),
    "predicted answers with predicted typings": lambda view: np.log(1e-6 + view.sums[:, 2]),
    "noisy-or of all proofs": lambda view: view.total(),
    "best single proof": lambda view: np.log(1e-6 + view.sums[:, 3]),
    "noisy-or behind the best concept's": lambda view: view.behind(),
    "prior": lambda view: np.log(1e-4 + view.prior),
    "linear model of sets": lambda view: view.linear,
    "parents that are known": lambda view: view.parents,
    "siblings that are known": lambda view: view.siblings,
    "instances": lambda view: view.size,
    "depth": lambda view: view.depth,
    "known answers": lambda view: view.everywhere(np.log1p(view.known_answers)),
    "known concepts": lambda view: view.everywhere(np.log1p(view.known_concepts)),
    "expected instances": lambda view: np.log(1e-6 + view.sums[:, 4]),
    "lift of the prior": lambda view: np.log(1e-4 + view.prior) - view.share,
    "answers expected in all": lambda view: view.everywhere(np.log1p(view.mass)),
    "share of what is predicted": lambda view: np.log(1e-5 + view.sums[:, 5] / max(view.roots, 1e-9)),
}


@final
@dataclass(frozen=True, slots=True)
class SetModel:
    """A linear model of which concepts go together in what one relation leads to from one entity.

    `weights` [2R + K, K] predict the concepts `kept` from the relation and from the other concepts; they are rounded to
    half precision, in which a run holds them, so that a model scores alike once saved.
    """

    kept: Ids
    weights: Floats

    @classmethod
    def of(cls, index: Index, seed: int) -> SetModel:
        graph, typing = index.graph, index.graph.typing
        last = graph.relation_groups[typing]
        groups = np.arange(last)
        if last > _GROUPS:
            groups = np.sort(np.random.default_rng(seed).choice(last, _GROUPS, replace=False))
        relations = np.searchsorted(graph.relation_groups, groups, side="right") - 1
        kept, column = frequent_columns(index.descriptions.entities_of.sizes(), typing)
        width, having = max(typing + len(kept), 1), index.descriptions.concepts_of
        inside = column[having.columns] >= 0
        having = Rows(np.append(0, np.cumsum(inside))[having.offsets], column[having.columns[inside]].astype(np.int32))
        keys = [np.empty(0, np.int64)]
        for start in range(0, len(groups), _GROUPS_AT_ONCE):
            own = np.arange(start, min(start + _GROUPS_AT_ONCE, len(groups)))
            origin, places = Rows(graph.starts, graph.members).places(groups[own])
            member, found = having.gather(graph.members[places])
            pairs = np.append(own, own[origin[member]]), np.append(relations[own], found)
            keys.append(distinct(pair_keys(*pairs, width)))
        fitted = fit_linear(Rows.of_keys(np.concatenate(keys), len(groups), width), width).numpy()
        return cls(kept, fitted[:, typing:].astype(np.float16).astype(np.float32))

    def apply(self, relations: Ids, concepts: Ids, out_C: Floats) -> None:
        """Write the predictions of all concepts kept to [C] others of which stay as they are."""
        first = len(self.weights) - len(self.kept)
        places = np.searchsorted(self.kept, concepts)
        inside = places < len(self.kept)
        inside[inside] = self.kept[places[inside]] == concepts[inside]
        given = np.concatenate([relations, first + places[inside]])
        out_C[self.kept] = self.weights[given].sum(0)


@final
@dataclass(frozen=True, slots=True)
class ConceptFeatures:
    """The facts, prepared. `children` [C] counts the concepts below each; `size` and `share` [C] are logarithms."""

    index: Index
    priors: Priors
    sets: SetModel
    children: NDArray[np.int64]
    size: Floats
    share: Floats

    @classmethod
    def of(cls, index: Index, sets: SetModel) -> ConceptFeatures:
        tree, members = index.descriptions.hierarchy, index.descriptions.entities_of.sizes()
        share = np.log(1e-4 + members / max(members.max(initial=1), 1)).astype(np.float32)
        children = np.bincount(tree.parents.columns, minlength=len(tree))
        priors = Priors.of(index, Level.CONCEPT)
        return cls(index, priors, sets, children, np.log1p(members).astype(np.float32), share)

    def describe(self, batch: QueryBatch, probabilities: FactProbabilities) -> ConceptEvidence:
        """The evidence for the concepts of each query."""
        found: dict[int, tuple[Ids, ConceptView]] = {}
        columns = {slot.name: batch.ids[:, place] for place, slot in enumerate(slots(batch.shape))}
        last = evaluate(batch.shape, LastRelations(columns, (len(batch.ids), self.index.graph.typing)))

        def work(rows: slice) -> None:
            prior = self.priors.relative(batch.shape, batch.ids[rows])
            space = np.zeros((self.index.concepts, 7))
            touched = np.empty(self.index.concepts, np.int32)
            for row in range(rows.start, rows.stop):
                found[row] = self._view(
                    batch, row, probabilities, (prior[row - rows.start], last[row]), (space, touched)
                )

        share_out(work, len(batch.ids), _QUERIES_AT_ONCE)
        views = [found[row] for row in range(len(batch.ids))]
        return _join(views)

    def _view(
        self,
        batch: QueryBatch,
        row: int,
        probabilities: FactProbabilities,
        given: tuple[Doubles, NDArray[np.bool_]],
        room: tuple[Doubles, Ids],
    ) -> tuple[Ids, ConceptView]:
        prior_C, last = given
        space, touched = room
        described = probabilities.descriptions
        set_E, known = batch.sets_BE[row], batch.entities[row]
        having = described.offsets, described.columns, described.values
        count = gather_concepts(having, set_E, known, LEAST_MEMBER, space, touched)
        frequent = np.flatnonzero(prior_C > 0)
        if len(frequent) > _BY_PRIOR:
            frequent = frequent[np.argpartition(-prior_C[frequent], _BY_PRIOR)[:_BY_PRIOR]]
        concepts = np.union1d(touched[:count], frequent).astype(np.int32)
        sums = space[concepts]
        space[touched[:count]] = 0
        linear_C = np.zeros(len(prior_C), np.float32)
        self.sets.apply(np.flatnonzero(last).astype(np.int32), batch.concepts[row], linear_C)
        roots = np.sqrt(set_E)
        roots[known] = 0
        view = ConceptView(
            sums,
            np.isin(concepts, batch.concepts[row], assume_unique=True),
            prior_C[concepts].astype(np.float32),
            linear_C[concepts],
            *self._relatives(concepts, batch.concepts[row]),
            self.size[concepts],
            self.share[concepts],
            self.index.instances.hierarchy.depth[concepts],
            len(known),
            len(batch.concepts[row]),
            float(set_E.sum(dtype=np.float64)),
            float(roots.sum(dtype=np.float64)),
        )
        return concepts, view

    def _relatives(self, concepts: Ids, known: Ids) -> tuple[Floats, Floats]:
        """[n] each: the share of its parents that are known (1 without parents), and of its parents' children."""
        parents, size = self.index.instances.hierarchy.parents, len(self.children)
        is_known = np.zeros(size, np.float32)
        is_known[known] = 1.0
        below = np.bincount(parents.gather(known)[1], minlength=size) / np.maximum(self.children, 1)
        origin, above = parents.gather(concepts)
        count = np.bincount(origin, minlength=len(concepts))
        means = [
            np.bincount(origin, values[above], len(concepts)) / np.maximum(count, 1) for values in (is_known, below)
        ]
        return np.where(count > 0, means[0], 1.0).astype(np.float32), means[1].astype(np.float32)


def _join(views: Sequence[tuple[Ids, ConceptView]]) -> ConceptEvidence:
    sizes = [len(concepts) for concepts, _ in views]
    columns = np.concatenate([np.empty(0, np.int32), *(concepts for concepts, _ in views)])
    sums = np.concatenate([np.empty((0, 7)), *(view.sums for _, view in views)])
    features = [
        np.empty((0, len(CONCEPT_FEATURES)), np.float32),
        *(matrix(CONCEPT_FEATURES, view) for _, view in views),
    ]
    return ConceptEvidence(
        Rows(np.append(0, np.cumsum(sizes)).astype(np.int64), columns),
        np.concatenate([np.empty(0, np.bool_), *(view.is_known for _, view in views)]),
        sums[:, 6].astype(np.float32),
        (-np.expm1(-sums[:, :3].sum(1))).astype(np.float32),
        sums[:, 4].astype(np.float32),
        np.concatenate(features),
    )


@final
@dataclass(frozen=True, slots=True)
class LastRelations:
    """[B, 2R] the directed relations that lead to the answers."""

    columns: dict[str, Ids]
    shape: tuple[int, int]

    def entity(self, name: str) -> NDArray[np.bool_]:  # noqa: ARG002
        return np.zeros(self.shape, np.bool_)

    def concept(self, name: str) -> NDArray[np.bool_]:
        return self.entity(name)

    def literals(self, wanted: DataRange) -> NDArray[np.bool_]:  # noqa: ARG002
        return np.zeros(self.shape, np.bool_)

    def exists(self, relation: str, direction: Direction, operand: NDArray[np.bool_]) -> NDArray[np.bool_]:  # noqa: ARG002
        return self.has_self(relation)

    def at_least(
        self,
        count: int,  # noqa: ARG002
        relation: str,
        direction: Direction,  # noqa: ARG002
        operand: NDArray[np.bool_],  # noqa: ARG002
    ) -> NDArray[np.bool_]:
        return self.has_self(relation)

    def has_self(self, relation: str) -> NDArray[np.bool_]:
        found = np.zeros(self.shape, np.bool_)
        found[np.arange(self.shape[0]), self.columns[relation]] = True
        return found

    def intersection(self, operands: Sequence[NDArray[np.bool_]]) -> NDArray[np.bool_]:
        return reduce(np.logical_or, operands)

    def union(self, operands: Sequence[NDArray[np.bool_]]) -> NDArray[np.bool_]:
        return reduce(np.logical_or, operands)

    def complement(self, operand: NDArray[np.bool_]) -> NDArray[np.bool_]:
        return np.zeros_like(operand)
