"""GNN-QE: a query is a fuzzy set of entities, and a relation is message passing over the facts (Zhu et al. 2022).

To follow relation q from a fuzzy set x is to ask a graph neural network (NBFNet, Zhu et al. 2021) which entities q
leads to, with x as the source:

    h_v = x_v q;    then in every layer, over all facts (u, r, v) in both directions, each with a weight W_r(q):
    h_v <- h_v + relu(LayerNorm(W [h_v, A({x_v q} and {h_u W_r(q)})])),    degree of v = sigmoid(MLP[h_v, q]).

W_r(q) is linear in the vector of the relation asked for. A are means and standard deviations, each as it is, times and
divided by the logarithm of how many messages there are (Corso et al. 2020; of its aggregators the greatest and the
least are left out). `and`, `or`, `not` are those of the product t-norm, without parameters; entities have none at all.

A training query's own facts would give its answers away: for each query and relation, those that lead from a member of
the set so far (of a degree above 1/2) are left out of the graph with probability `dropout`: traversal dropout, by the
model's own sets where the published code keeps exact ones beside them (ADR 58).

Shape letters: B queries, N nodes, D dimension, F facts, A = 2F links, R directed relations, K candidates.
"""

# ruff: noqa: N803, N806, N815 (shape suffixes)

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import ClassVar, Final, cast, final

import torch
from torch import Tensor, nn
from torch.nn import functional

from tarbox.core.config import check_settings
from tarbox.core.errors import ConfigError
from tarbox.execution.interpreter import Algebra, evaluate
from tarbox.models.base import Columns, EntityModel, Sizes, columns
from tarbox.models.fuzzy import T_NORMS, complement
from tarbox.models.messages import HELD, message_moments
from tarbox.models.perceptron import Perceptron
from tarbox.models.sets import widen
from tarbox.models.translation import xavier
from tarbox.query.algebra import Direction, Query

_LEAST_VARIANCE: Final = 1e-6
"""Below it a root is too steep to learn by."""
_LEAST_DEGREE: Final = 1e-30
_LEAST_DOUBT: Final = 1e-7
"""What is left of 1 next to a degree of nearly 1, in single precision; a degree itself may be far smaller."""


@final
@dataclass(frozen=True, slots=True)
class GnnQeConfig:
    """The settings of `GnnQe`; the defaults are the paper's. `dropout` is the share of the traversed facts left out."""

    dimension: int = 32
    layers: int = 4
    dropout: float = 0.25

    def __post_init__(self) -> None:
        check_settings(self, {}, ("dimension", "layers"))
        if not 0 <= self.dropout <= 1:
            raise ConfigError(f"dropout = {self.dropout}: it must be between 0 and 1")


@final
class GnnQe(EntityModel):
    """All queries over entities, by message passing over the facts that it has observed.

    >>> from tarbox.query.templates import TEMPLATES
    >>> model = GnnQe(GnnQeConfig(dimension=4, layers=2), Sizes(entities=5, concepts=0, relations=2))
    >>> model.observe(torch.tensor([[0, 1, 3], [3, 0, 4]]))
    >>> model.score(TEMPLATES["2in"].shape, torch.tensor([[0, 1, 3, 2]]), slice(0, 5)).shape
    torch.Size([1, 5])
    """

    Config: ClassVar[type[GnnQeConfig]] = GnnQeConfig
    recipe: ClassVar[str | None] = "gnnqe"
    links_3A: Tensor
    messages_N: Tensor

    def __init__(self, config: GnnQeConfig, sizes: Sizes) -> None:
        super().__init__(sizes)
        self.config = config
        self.nodes: Final = max(sizes.entities, 1)
        self.relations = nn.Parameter(torch.randn(sizes.directed, config.dimension))
        self.layers = nn.ModuleList(MessageLayer(config.dimension, sizes.directed) for _ in range(config.layers))
        self.degree = Perceptron(2 * config.dimension, 2 * config.dimension, 1, 1)
        self.register_buffer("links_3A", torch.empty(3, 0, dtype=torch.int64), persistent=False)
        self.register_buffer("messages_N", torch.ones(self.nodes, dtype=torch.int64), persistent=False)

    def observe(self, facts_F3: Tensor) -> None:
        """The links (from, relation, to) of all facts, then the same backwards; how many messages a node gets."""
        heads, relations, tails = facts_F3.T
        along, back = torch.stack([heads, 2 * relations + 1, tails]), torch.stack([tails, 2 * relations, heads])
        self.links_3A = torch.cat([along, back], 1)
        self.messages_N = torch.bincount(self.links_3A[2], minlength=self.nodes) + 1

    def score(self, shape: Query, ids_BS: Tensor, nodes: slice) -> Tensor:
        """[B, N] the logarithm of the odds of each degree, a block of queries at a time."""
        with torch.no_grad():
            block = max(1, HELD[ids_BS.device.type] // (self.nodes * self.config.dimension))
            parts: Sequence[Tensor] = torch.split(ids_BS, block)
            return torch.cat([self._log_odds(shape, part)[:, nodes] for part in parts])

    def score_candidates(self, shape: Query, ids_BS: Tensor, candidates_BK: Tensor) -> Tensor:
        """[B, K]"""
        return self._log_odds(shape, ids_BS).gather(1, candidates_BK)

    def project(self, degrees_BN: Tensor, relations_B: Tensor) -> Tensor:
        """[B, N] the fuzzy sets that relations lead to."""
        kept_AB = self._keep(degrees_BN, relations_B) if self.training and torch.is_grad_enabled() else None
        asked_BD = functional.embedding(relations_B, self.relations)
        state_NBD = source_NBD = degrees_BN.T[:, :, None] * asked_BD
        for layer in cast(Iterable[MessageLayer], self.layers):
            sums = message_moments(state_NBD, layer.weigh(asked_BD), self.links_3A, kept_AB)
            state_NBD = layer(state_NBD, source_NBD, sums, self.messages_N)
        found_NB = self.degree(torch.cat([state_NBD, asked_BD.expand_as(state_NBD)], -1)).squeeze(-1)
        return torch.sigmoid(found_NB).T

    def _keep(self, degrees_BN: Tensor, relations_B: Tensor) -> Tensor | None:
        """[A, B] which links a query keeps; a fact is left out in both directions."""
        if not self.config.dropout:
            return None
        near_A, relation_A, _ = self.links_3A
        along, back = ((relation_A[:, None] == relations_B) & (degrees_BN.T > 0.5)[near_A]).chunk(2)
        dropped_FB = (along | back) & (torch.rand(along.shape, device=along.device) < self.config.dropout)
        return ~torch.cat([dropped_FB, dropped_FB])

    def _log_odds(self, shape: Query, ids_BS: Tensor) -> Tensor:
        degrees_BN = evaluate(shape, _FuzzySets(self, columns(shape, ids_BS)))
        return degrees_BN.clamp_min(_LEAST_DEGREE).log() - complement(degrees_BN).clamp_min(_LEAST_DOUBT).log()


@final
class MessageLayer(nn.Module):
    """One round of messages: what links weigh by the relation asked for, and what a node makes of its messages."""

    def __init__(self, dimension: int, relations: int) -> None:
        super().__init__()
        self.width: Final = (relations, dimension)
        self.weights = nn.Linear(dimension, relations * dimension)
        self.update = nn.Linear(7 * dimension, dimension)
        self.norm = nn.LayerNorm(dimension)
        xavier(self.update)

    def weigh(self, asked_BD: Tensor) -> Tensor:
        """[R, B, D] the weights of the links of each relation, for each query."""
        return widen(self.weights(asked_BD)).reshape(-1, *self.width).transpose(0, 1).contiguous()

    def forward(self, state_NBD: Tensor, source_NBD: Tensor, sums: tuple[Tensor, Tensor], messages_N: Tensor) -> Tensor:
        """[N, B, D]; the source is a message to every node."""
        count = messages_N[:, None, None].to(state_NBD.dtype)
        mean, square = (sums[0] + source_NBD) / count, (sums[1] + source_NBD.square()) / count
        spread = (square - mean.square()).clamp_min(_LEAST_VARIANCE).sqrt()
        scale = (count + 1).log() / (count + 1).log().mean()
        moments = torch.cat([mean, spread], -1)
        found = widen(self.update(torch.cat([state_NBD, moments, moments * scale, moments / scale], -1)))
        return state_NBD + torch.relu(self.norm(found))


@final
@dataclass(frozen=True, slots=True, eq=False)
class _FuzzySets(Algebra[Tensor]):
    """The meaning of the nodes as degrees [B, N]."""

    model: GnnQe
    columns: Columns

    def entity(self, name: str) -> Tensor:
        ids_B = self.columns[name]
        return self.model.relations.new_zeros(len(ids_B), self.model.nodes).scatter(1, ids_B[:, None], 1.0)

    def exists(self, relation: str, direction: Direction, operand: Tensor) -> Tensor:  # noqa: ARG002
        return self.model.project(operand, self.columns[relation])

    def intersection(self, operands: Sequence[Tensor]) -> Tensor:
        return T_NORMS["product"].intersection(operands)

    def union(self, operands: Sequence[Tensor]) -> Tensor:
        return T_NORMS["product"].union(operands)

    def complement(self, operand: Tensor) -> Tensor:
        return complement(operand)
