"""QTO: a link predictor answers complex queries by an exact search for the best assignment (Bai et al. 2023).

Every directed relation r has a *neural adjacency matrix* M_r, made of the scores f of a trained link predictor:

    M_r[y, x] = min(n softmax_x f(r, y, x), 0.9999) where n softmax_x f(r, y, x) >= threshold, else 0;
    M_r[y, x] = 1 for a known link,    n = max(1, how many links of r lead from y).

A query is a fuzzy set of entities, computed from the leaves of its tree to the root: a projection takes the best way to
each entity, (r some S)(x) = max over y of S(y) M_r[y, x]; `and` is the product, `or` its dual, and `not` is
1 - min(1, neg_scale S(x)). So the degree of an answer is that of the best assignment of all variables, and no beam
limits the search.

Only the rows of a matrix that a query reaches are made, a block at a time, and forgotten: whole matrices, which the
published code keeps, grow with the square of the entities.

Shape letters: B queries, E entities, L rows of matrices, N nodes that can be reached, K candidates, D 2 * rank.
"""

# ruff: noqa: N803, N806 (shape suffixes)

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Final, NamedTuple, final

import numpy as np
import torch
from torch import Tensor

from tarbox.core.config import check_settings
from tarbox.core.errors import ConfigError
from tarbox.core.ids import Level
from tarbox.execution.rows import EVERYTHING
from tarbox.kb.closure import Instances
from tarbox.models.base import Columns, Sizes
from tarbox.models.complex import ComplexConfig
from tarbox.models.fuzzy import T_NORMS, complement
from tarbox.models.link_model import LinkAlgebra, LinkModel, rows_at_a_time
from tarbox.query.algebra import Query

if TYPE_CHECKING:
    from tarbox.kb.facts import Facts

_BELOW_KNOWN: Final = 0.9999
"""The most that a predicted link counts; a known one counts 1."""


@final
@dataclass(frozen=True, slots=True)
class QtoConfig:
    """The settings of `Qto`; the defaults are the paper's for FB15k-237.

    Entries of the matrices below `threshold` (epsilon) are 0; `neg_scale` (alpha) times a degree is what a complement
    takes from 1. The rest is the link predictor's (`ComplexConfig`).
    """

    threshold: float = 2e-4
    neg_scale: float = 3.0
    rank: int = 1000
    regularization: float = 5e-2
    relation_weight: float = 4.0
    candidates: int = 0
    initial: float = 1e-3

    def __post_init__(self) -> None:
        check_settings(self, {}, ("threshold", "neg_scale"))
        if self.threshold > 1:
            raise ConfigError(f"threshold = {self.threshold}: no entry of a matrix is greater than 1")

    def links(self) -> ComplexConfig:
        return ComplexConfig(self.rank, self.regularization, self.relation_weight, self.candidates, self.initial)


class Entries(NamedTuple):
    """Places of some rows of matrices and what stands there; a place may stand twice, and the greater one counts."""

    rows: Tensor
    columns: Tensor
    degrees: Tensor


@final
class Qto(LinkModel):
    """The link predictor, the known links, and the search; all queries, with unions as t-conorms.

    The published code has a meaning for the negation of a projection alone, and takes it link by link, as
    max over y of S(y) (1 - min(1, neg_scale M_r[y, x])). That is the complement where S is one entity, as in all of
    BetaE's templates but pni; where S has more members it asks for one that does *not* lead to x. Here `not` is the
    complement of the set everywhere, of any operand. The members of a concept, of which the paper knows nothing, are a
    row of typing read backwards.

    >>> _ = torch.manual_seed(0)
    >>> model = Qto(QtoConfig(rank=4), Sizes(entities=5, concepts=3, relations=2))
    >>> from tarbox.query.templates import TEMPLATES
    >>> model.score(TEMPLATES["2p"].shape, torch.tensor([[0, 1, 3]]), Level.CONCEPT).shape
    torch.Size([1, 3])
    """

    Config: ClassVar[type[QtoConfig]] = QtoConfig
    recipe: ClassVar[str | None] = "qto"
    known_from: Tensor
    known_to: Tensor

    def __init__(self, config: QtoConfig, sizes: Sizes) -> None:
        super().__init__(config.links(), sizes)
        self.config = config
        for name in ("known_from", "known_to"):
            self.register_buffer(name, torch.empty(0, dtype=torch.int64), persistent=False)

    def observe(self, facts: Facts) -> None:
        """The known links, typings closed: `known_to` [A] by the row of a matrix, `known_from` [A], that has them."""
        places, parts = self.links.places, (2 * facts.relations, 2 * facts.relations + 1)
        typed, types = Instances.of(facts).concepts_of.coordinates()
        concepts = types + places.sizes.entities
        known = [
            (parts[0], facts.tails, facts.heads),
            (parts[1], facts.heads, facts.tails),
            (np.full(len(typed), places.concepts_of), typed, concepts),
            (np.full(len(typed), self._instances), concepts, typed),
        ]
        relations, near, far = (np.concatenate(column).astype(np.int64) for column in zip(*known, strict=True))
        rows = relations * places.nodes + near
        order = np.argsort(rows, kind="stable")
        device = self.links.nodes.device
        self.known_from, self.known_to = (torch.from_numpy(one[order]).to(device) for one in (rows, far))

    def algebra(self, columns: Columns, size: int) -> LinkAlgebra:
        return _TreeAlgebra(self.links, columns, size, self)

    def score_candidates(self, shape: Query, ids_BS: Tensor, level: Level, candidates_BK: Tensor) -> Tensor:
        """[B, K] the same degrees, without gradient: it learns from single links alone."""
        return self.score(shape, ids_BS, level).gather(1, candidates_BK)

    def links_from(self, relations_L: Tensor, near_L: Tensor, reached: slice) -> Entries:
        """The rows of the matrices that belong to these nodes; columns are counted from the first node reached."""
        return self._entries(self.links.questions(relations_L, near_L), relations_L, near_L, reached)

    def instances_of(self, concepts_L: Tensor) -> Entries:
        """The rows of typing read backwards, of these concept nodes."""
        relations_L = torch.full_like(concepts_L, self._instances)
        return self._entries(self.links.members(concepts_L), relations_L, concepts_L, self.links.places.entities)

    @property
    def _instances(self) -> int:
        """The number of typing read backwards: it follows those of all relations with parameters."""
        return self.links.places.directed

    def _entries(self, questions_LD: Tensor, relations_L: Tensor, near_L: Tensor, reached: slice) -> Entries:
        keys_L = relations_L * self.links.places.nodes + near_L
        first_L, last_L = (torch.searchsorted(self.known_from, keys_L, right=right) for right in (False, True))
        counts_L = last_L - first_L
        scores_LN = self.links.scores(questions_LD, reached)
        scale_L = counts_L.clamp_min(1).to(scores_LN.dtype).log() - scores_LN.logsumexp(1)
        kept_LN = scores_LN + scale_L[:, None] >= math.log(self.config.threshold)
        rows, places = kept_LN.nonzero(as_tuple=True)
        degrees = (scores_LN[rows, places] + scale_L[rows]).exp().clamp_max(_BELOW_KNOWN)
        known_rows = torch.repeat_interleave(counts_L)
        before_L = counts_L.cumsum(0) - counts_L
        known = first_L[known_rows] + torch.arange(len(known_rows), device=rows.device) - before_L[known_rows]
        return Entries(
            torch.cat([rows, known_rows]),
            torch.cat([places, self.known_to[known] - reached.start]),
            torch.cat([degrees, degrees.new_ones(len(known_rows))]),
        )


@final
@dataclass(frozen=True, slots=True, eq=False)
class _TreeAlgebra(LinkAlgebra):
    """Every way counts."""

    model: Qto

    def concept(self, name: str) -> Tensor:
        ids_B = self.columns[name]
        everything_B = ids_B == EVERYTHING
        reached = self.links.places.entities
        found = self.model.instances_of(torch.where(everything_B, 0, ids_B + reached.stop))  # any node: it is not used
        return _greatest(self.nothing(reached), found, found.degrees).masked_fill(everything_B[:, None], 1.0)

    def follow(self, relations_B: Tensor, operand_BE: Tensor, reached: slice) -> Tensor:
        queries, members = operand_BE.nonzero(as_tuple=True)
        found_BN = self.nothing(reached)
        rows = rows_at_a_time(found_BN.shape[1])
        for queries_L, members_L in zip(torch.split(queries, rows), torch.split(members, rows), strict=True):
            entries = self.model.links_from(relations_B[queries_L], members_L, reached)
            through = operand_BE[queries_L, members_L][entries.rows] * entries.degrees
            _greatest(found_BN, entries._replace(rows=queries_L[entries.rows]), through)
        return found_BN

    def intersection(self, operands: Sequence[Tensor]) -> Tensor:
        return T_NORMS["product"].intersection(operands)

    def union(self, operands: Sequence[Tensor]) -> Tensor:
        return T_NORMS["product"].union(operands)

    def complement(self, operand: Tensor) -> Tensor:
        return complement((self.model.config.neg_scale * operand).clamp_max(1.0))


def _greatest(table_BN: Tensor, entries: Entries, degrees: Tensor) -> Tensor:
    """The table with the degrees at the places of the entries where they are greater, in place."""
    places = entries.rows * table_BN.shape[1] + entries.columns
    table_BN.view(-1).scatter_reduce_(0, places, degrees, "amax")
    return table_BN
