"""GNN-QE: a query is a fuzzy set of entities, and a relation is message passing over the facts (Zhu et al. 2022).

To follow relation q from a fuzzy set x is to ask a graph neural network (NBFNet, Zhu et al. 2021) which entities q
leads to, with x as the source:

    h_v = x_v q;    then in every layer, over all facts (u, r, v) in both directions, each with a weight W_r(q):
    h_v <- h_v + relu(LayerNorm(W [h_v, A({x_v q} and {h_u W_r(q)})])),    degree of v = sigmoid(MLP[h_v, q]).

W_r(q) is linear in the vector of the relation asked for. A are means and standard deviations, each as it is, times and
divided by the logarithm of how many messages there are (Corso et al. 2020; of its aggregators the greatest and the
least are left out). `and`, `or`, `not` are those of the product t-norm, without parameters; entities have none at all.
In training the facts that a query follows are left out at random (`tarbox.models.messages`).

Shape letters: B queries, N nodes, D dimension, F facts, A = 2F links, R directed relations.
"""

# ruff: noqa: N803, N806, N815 (shape suffixes)

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import ClassVar, Final, cast, final

import torch
from torch import Tensor, nn
from torch.nn import functional

from tarbox.core.config import check_settings
from tarbox.models.base import Sizes
from tarbox.models.messages import (
    MessageModel,
    check_dropout,
    degrees,
    links_both_ways,
    message_moments,
    sources,
)
from tarbox.models.perceptron import Perceptron
from tarbox.models.sets import widen
from tarbox.models.translation import xavier

_LEAST_VARIANCE: Final = 1e-6
"""Below it a root is too steep to learn by."""


@final
@dataclass(frozen=True, slots=True)
class GnnQeConfig:
    """The settings of `GnnQe`; the defaults are the paper's. `dropout` is the share of the traversed facts left out."""

    dimension: int = 32
    layers: int = 4
    dropout: float = 0.25

    def __post_init__(self) -> None:
        check_settings(self, {}, ("dimension", "layers"))
        check_dropout(self.dropout)


@final
class GnnQe(MessageModel):
    """All queries over entities, by message passing over the facts that it has observed.

    >>> from tarbox.query.templates import TEMPLATES
    >>> model = GnnQe(GnnQeConfig(dimension=4, layers=2), Sizes(entities=5, concepts=0, relations=2))
    >>> model.observe(torch.tensor([[0, 1, 3], [3, 0, 4]]))
    >>> model.score(TEMPLATES["2in"].shape, torch.tensor([[0, 1, 3, 2]]), slice(0, 5)).shape
    torch.Size([1, 5])
    """

    Config: ClassVar[type[GnnQeConfig]] = GnnQeConfig
    recipe: ClassVar[str | None] = "gnnqe"
    messages_N: Tensor

    def __init__(self, config: GnnQeConfig, sizes: Sizes) -> None:
        super().__init__(sizes, config.dimension, config.dropout)
        self.config = config
        self.relations = nn.Parameter(torch.randn(sizes.directed, config.dimension))
        self.layers = nn.ModuleList(MessageLayer(config.dimension, sizes.directed) for _ in range(config.layers))
        self.degree = Perceptron(2 * config.dimension, 2 * config.dimension, 1, 1)
        self.register_buffer("messages_N", torch.ones(self.nodes, dtype=torch.int64), persistent=False)

    def observe(self, facts_F3: Tensor) -> None:
        """The links of all facts in both directions; how many messages a node gets."""
        self.links_3A = links_both_ways(facts_F3)
        self.messages_N = torch.bincount(self.links_3A[2], minlength=self.nodes) + 1

    def project(self, degrees_BN: Tensor, relations_B: Tensor) -> Tensor:
        kept_AB = self.kept(degrees_BN, relations_B)
        asked_BD = functional.embedding(relations_B, self.relations)
        state_NBD = source_NBD = sources(degrees_BN, asked_BD)
        for layer in cast(Iterable[MessageLayer], self.layers):
            sums = message_moments(state_NBD, layer.weigh(asked_BD), self.links_3A, kept_AB)
            state_NBD = layer(state_NBD, source_NBD, sums, self.messages_N)
        return degrees(self.degree, state_NBD, asked_BD)


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
