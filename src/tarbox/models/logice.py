"""LogicE: a query is an interval of truth values in every dimension (Luus et al. 2021).

Dimension i stands for a predicate without a name. Entities and queries say of each how true it is at least and at most,
0 <= l <= u <= 1. A relation is a network from one array of intervals to another; conjunction is a t-norm of the lower
and of the upper bounds, and the complement of [l, u] is [1 - u, 1 - l]. Both keep l <= u, without parameters. The
distance of an entity is the L1 distance of all bounds; the score is gamma less a learnt number times their mean.

Shape letters: B queries, K candidates per query, N nodes, D dimension, F 2D: the lower bounds before the upper ones.
"""

# ruff: noqa: N803, N806 (shape suffixes)

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar, Final, final

import torch
from torch import Tensor, nn
from torch.nn import functional

from tarbox.core.config import check_settings
from tarbox.execution.interpreter import evaluate
from tarbox.models.alternatives import Alternatives, least
from tarbox.models.base import Columns, EntityModel, Sizes, columns
from tarbox.models.fuzzy import T_NORMS, Logic, complement
from tarbox.models.pairs import l1_pairs
from tarbox.models.perceptron import STARTS, Perceptron, check_start
from tarbox.models.sharing import shared
from tarbox.query.algebra import Direction, Query

_SPREAD: Final = 2.0
"""Initial values are uniform in +- this, before the sigmoid."""
_APART: Final = 0.25
"""About the mean difference of two random bounds: by it the distance of a random entity begins at gamma."""


@final
@dataclass(frozen=True, slots=True)
class LogicEConfig:
    """The settings of `LogicE`.

    `margin` is gamma. `t_norm` is product, godel or lukasiewicz. `hidden` and `layers` are the projection network's,
    as BetaE's; `start` says what it begins as: a random network, or one near the identity (docs/baselines.md).
    """

    dimension: int = 400
    margin: float = 24.0
    t_norm: str = "product"
    hidden: int = 1600
    layers: int = 2
    start: str = "random"

    def __post_init__(self) -> None:
        choices: Mapping[str, Iterable[object]] = {"t_norm": T_NORMS, "start": STARTS}
        check_settings(self, choices, ("dimension", "margin", "hidden", "layers"))
        check_start(self.start, self.hidden, self.dimension, "intervals")


@final
class LogicE(EntityModel):
    """All queries over entities, as arrays of intervals [.., 2D]; unions are alternatives (DNF).

    >>> from tarbox.query.templates import TEMPLATES
    >>> model = LogicE(LogicEConfig(dimension=8, hidden=4), Sizes(entities=5, concepts=0, relations=2))
    >>> model.score(TEMPLATES["2in"].shape, torch.tensor([[0, 1, 3, 2]]), slice(0, 5)).shape
    torch.Size([1, 5])
    """

    Config: ClassVar[type[LogicEConfig]] = LogicEConfig
    recipe: ClassVar[str | None] = "logice"

    def __init__(self, config: LogicEConfig, sizes: Sizes) -> None:
        super().__init__(sizes)
        self.config = config
        width = 2 * config.dimension
        self.entities = nn.Parameter(torch.empty(max(sizes.entities, 1), width).uniform_(-_SPREAD, _SPREAD))
        self.relations = nn.Parameter(torch.empty(sizes.directed, config.dimension).uniform_(-1, 1))
        self.log_scale = nn.Parameter(torch.tensor([config.margin / (_APART * width)]).log())
        self.projection = Perceptron(3 * config.dimension, config.hidden, config.layers, width)
        if config.start == "identity":
            self._begin_near_identity()

    def score(self, shape: Query, ids_BS: Tensor, nodes: slice) -> Tensor:
        """[B, N] of the nearest alternative; `cdist` holds nothing greater than its result."""
        with torch.no_grad():
            bounds_NF = intervals(self.entities[nodes])
            near = [torch.cdist(query_BF, bounds_NF, p=1) for query_BF in self.queries(shape, ids_BS)]
            return self._scores(near)

    def score_candidates(self, shape: Query, ids_BS: Tensor, candidates_BK: Tensor) -> Tensor:
        """[B, K]"""
        bounds_NF = shared(self, "bounds", lambda: intervals(self.entities))
        return self._scores([l1_pairs(query_BF, bounds_NF, candidates_BK) for query_BF in self.queries(shape, ids_BS)])

    def queries(self, shape: Query, ids_BS: Tensor) -> tuple[Tensor, ...]:
        """[B, 2D] the bounds of each alternative."""
        return evaluate(shape, Alternatives(_Intervals(self, columns(shape, ids_BS), T_NORMS[self.config.t_norm])))

    def _begin_near_identity(self) -> None:
        """Bounds are positive, so that rectifiers let them pass; 4 x - 2 is near the logit of x."""
        size = self.config.dimension
        eye, nothing = 4 * torch.eye(size), torch.zeros(size, size)
        out = torch.cat([torch.cat([eye, nothing], 1), torch.cat([-eye, eye], 1)])
        bias = torch.cat([torch.full((size,), -2.0), torch.full((size,), -1.0)])
        self.projection.begin_near(torch.eye(2 * size, 3 * size), out, bias, noise=0.1)

    def _scores(self, distances: Sequence[Tensor]) -> Tensor:
        return self.config.margin - self.log_scale.exp() * least(distances)


def intervals(values_NF: Tensor) -> Tensor:
    """[N, 2D] bounds from values without limits: l = sigmoid(a), u = l + (1 - l) sigmoid(b).

    >>> intervals(torch.tensor([[0.0, 0.0]]))
    tensor([[0.5000, 0.7500]])
    """
    lower, share = torch.sigmoid(values_NF).chunk(2, -1)
    return torch.cat([lower, lower + (1 - lower) * share], -1)


@final
@dataclass(frozen=True, slots=True, eq=False)
class _Intervals:
    """The meaning of the nodes as bounds [B, 2D]."""

    model: LogicE
    columns: Columns
    logic: Logic

    def entity(self, name: str) -> Tensor:
        return intervals(functional.embedding(self.columns[name], self.model.entities))

    def exists(self, relation: str, direction: Direction, operand: Tensor) -> Tensor:  # noqa: ARG002
        relations_BD = functional.embedding(self.columns[relation], self.model.relations)
        return intervals(self.model.projection(torch.cat([operand, relations_BD], -1)))

    def intersection(self, operands: Sequence[Tensor]) -> Tensor:
        return self.logic.intersection(operands)

    def complement(self, operand: Tensor) -> Tensor:
        lower, upper = operand.chunk(2, -1)
        return torch.cat([complement(upper), complement(lower)], -1)
