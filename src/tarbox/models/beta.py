"""BetaE: a query is a Beta distribution in every dimension (Ren and Leskovec 2020).

Entities and queries have parameters alpha and beta, of at least 0.05. A relation is a network from one distribution to
another; an intersection is the weighted product of densities, that is a mean of parameters under learnt attention; the
complement takes the reciprocal of the parameters, which turns dense places into sparse ones. The distance of an entity
is KL(entity || query), summed over dimensions:

    KL = ln B(a', b') - ln B(a, b) + (a - a') psi(a) + (b - b') psi(b) + (a' - a + b' - b) psi(a + b)

for an entity (a, b) and a query (a', b'). It is the sum of a number of the query, a number of the entity, and a product
of a vector of each (`features`): all pairs are one product of matrices, and no logarithm is taken per pair
(ADR 0018).

Shape letters: B queries, K candidates per query, N nodes, D dimension, O operands of an intersection.
"""

# ruff: noqa: N803, N806 (shape suffixes)

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Final, final

import torch
from torch import Tensor, nn
from torch.nn import functional

from tarbox.core.config import check_settings
from tarbox.execution.interpreter import evaluate
from tarbox.models.alternatives import Alternatives, least
from tarbox.models.base import Columns, EntityModel, Sizes, columns
from tarbox.models.gqe import SLACK
from tarbox.models.pairs import dot_pairs
from tarbox.models.perceptron import STARTS, Perceptron, check_start
from tarbox.models.sets import widen
from tarbox.models.sharing import shared
from tarbox.models.translation import xavier
from tarbox.query.algebra import Direction, Query

LEAST_PARAMETER: Final = 0.05
ENTITY_BLOCK: Final = 1 << 14


@final
@dataclass(frozen=True, slots=True)
class BetaConfig:
    """The settings of `Beta`; the defaults are the paper's.

    `dimension` counts Beta distributions, of two parameters each. `hidden` and `layers` are the projection network's.
    `start` says what a projection begins as: a random network, or one near the identity, which learns sooner
    (docs/baselines.md).
    """

    dimension: int = 400
    margin: float = 60.0
    hidden: int = 1600
    layers: int = 2
    start: str = "random"

    def __post_init__(self) -> None:
        check_settings(self, {"start": STARTS}, ("dimension", "margin", "hidden", "layers"))
        check_start(self.start, self.hidden, self.dimension, "distributions")


@final
class Beta(EntityModel):
    """All queries over entities, as Beta distributions: tensors [.., 2D], the alphas before the betas.

    >>> from tarbox.query.templates import TEMPLATES
    >>> model = Beta(BetaConfig(dimension=8, hidden=4), Sizes(entities=5, concepts=0, relations=2))
    >>> model.score(TEMPLATES["2in"].shape, torch.tensor([[0, 1, 3, 2]]), slice(0, 5)).shape
    torch.Size([1, 5])
    """

    Config: ClassVar[type[BetaConfig]] = BetaConfig
    recipe: ClassVar[str | None] = "beta"

    def __init__(self, config: BetaConfig, sizes: Sizes) -> None:
        super().__init__(sizes)
        self.config = config
        # Below -1 parameters would begin at their least, where there is no gradient; it matters in few dimensions only.
        bound = min((config.margin + SLACK) / config.dimension, 1 - 2 * LEAST_PARAMETER)
        self.entities = nn.Parameter(torch.empty(max(sizes.entities, 1), 2 * config.dimension).uniform_(-bound, bound))
        self.relations = nn.Parameter(torch.empty(sizes.directed, config.dimension).uniform_(-bound, bound))
        width = 2 * config.dimension
        self.projection = Perceptron(3 * config.dimension, config.hidden, config.layers, width)
        if config.start == "identity":  # parameters are positive: rectifiers let them pass; `positive` adds 1
            into, out = torch.eye(width, 3 * config.dimension), torch.eye(width)
            self.projection.begin_near(into, out, -torch.ones(width), noise=0.3)
        self.attention = BetaAttention(config.dimension)

    def score(self, shape: Query, ids_BS: Tensor, nodes: slice) -> Tensor:
        """[B, N] gamma - KL(e || q), of the nearest alternative; the features of a block of entities at a time."""
        with torch.no_grad():
            queries = self.distributions(shape, ids_BS)
            own = [log_beta(query)[:, None] for query in queries]
            blocks: Sequence[Tensor] = torch.split(self.entities[nodes], ENTITY_BLOCK)
            near = []
            for block in blocks:
                rows_NF, own_N = features(positive(block))
                near.append(least([q_B1 + own_N - q @ rows_NF.T for q, q_B1 in zip(queries, own, strict=True)]))
            return self.config.margin - torch.cat(near, 1)

    def score_candidates(self, shape: Query, ids_BS: Tensor, candidates_BK: Tensor) -> Tensor:
        """[B, K]; few entities: the features of all, once; many: those of the candidates."""
        queries = self.distributions(shape, ids_BS)
        if candidates_BK.numel() >= len(self.entities):
            rows_NF, own_N = shared(self, "features", lambda: features(positive(self.entities)))
            own_BK = functional.embedding(candidates_BK, own_N[:, None]).squeeze(-1)
            products = [dot_pairs(query, rows_NF, candidates_BK) for query in queries]
        else:
            rows_BKF, own_BK = features(positive(functional.embedding(candidates_BK, self.entities)))
            products = [(rows_BKF * query[:, None]).sum(-1) for query in queries]
        near = [log_beta(query)[:, None] + own_BK - found for query, found in zip(queries, products, strict=True)]
        return self.config.margin - least(near)

    def distributions(self, shape: Query, ids_BS: Tensor) -> tuple[Tensor, ...]:
        """[B, 2D] the parameters of each alternative."""
        return evaluate(shape, Alternatives(_Distributions(self, columns(shape, ids_BS))))


def positive(values: Tensor) -> Tensor:
    """Parameters of a distribution from values without bounds: x + 1, but no less than 0.05."""
    # as `clamp`, whose gradient takes five kernels to its one
    return functional.threshold(values + 1, LEAST_PARAMETER, LEAST_PARAMETER)


def features(entities_NF: Tensor) -> tuple[Tensor, Tensor]:
    """([N, 2D], [N]): what an entity's parameters give to the distance.

    The product of the first with a query's parameters is taken from the distance, the second is added to it:
    psi(a) - psi(a + b) beside psi(b) - psi(a + b), and the sum over dimensions of
    a psi(a) + b psi(b) - (a + b) psi(a + b) - ln B(a, b).
    """
    a, b = entities_NF.chunk(2, -1)
    at_a, at_b, at_whole = torch.digamma(a), torch.digamma(b), torch.digamma(a + b)
    own_ND = a * at_a + b * at_b - (a + b) * at_whole - _log_beta(a, b)
    return torch.cat([at_a - at_whole, at_b - at_whole], -1), own_ND.sum(-1)


def log_beta(parameters_NF: Tensor) -> Tensor:
    """[N] the sum over dimensions of ln B(a, b).

    >>> log_beta(torch.tensor([[1.0, 2.0, 1.0, 3.0]])).exp()
    tensor([0.0833])
    """
    return _log_beta(*parameters_NF.chunk(2, -1)).sum(-1)


def _log_beta(a: Tensor, b: Tensor) -> Tensor:
    return torch.lgamma(a) + torch.lgamma(b) - torch.lgamma(a + b)


@final
class BetaAttention(nn.Module):
    """The weighted product of densities: one weight for both parameters of a dimension, a softmax over operands."""

    def __init__(self, dimension: int) -> None:
        super().__init__()
        self.inner = nn.Linear(2 * dimension, 2 * dimension)
        self.outer = nn.Linear(2 * dimension, dimension, bias=False)  # a bias would cancel in the softmax
        xavier(self)

    def combine(self, operands_OBF: Tensor) -> Tensor:
        """[B, 2D]"""
        weights_OBD = widen(self.outer(torch.relu(self.inner(operands_OBF)))).softmax(0)
        return (torch.cat([weights_OBD, weights_OBD], -1) * operands_OBF).sum(0)


@final
@dataclass(frozen=True, slots=True, eq=False)
class _Distributions:
    """The meaning of the nodes as parameters [B, 2D]."""

    model: Beta
    columns: Columns

    def entity(self, name: str) -> Tensor:
        return positive(functional.embedding(self.columns[name], self.model.entities))

    def exists(self, relation: str, direction: Direction, operand: Tensor) -> Tensor:  # noqa: ARG002
        relations_BD = functional.embedding(self.columns[relation], self.model.relations)
        return positive(self.model.projection(torch.cat([operand, relations_BD], -1)))

    def intersection(self, operands: Sequence[Tensor]) -> Tensor:
        return self.model.attention.combine(torch.stack(list(operands)))

    def complement(self, operand: Tensor) -> Tensor:
        return operand.reciprocal()
