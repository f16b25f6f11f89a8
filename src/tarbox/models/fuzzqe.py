"""FuzzQE: a query is a fuzzy set of blocks of entities (Chen, Hu and Sun 2022).

Dimension i stands for a block of the universe. A query S is the degree, in [0, 1], to which it holds each block; an
entity p is a distribution over blocks. The degree of an entity in a query is what is expected of its block, phi = S p.
Conjunction, disjunction and negation are those of fuzzy logic, without parameters; only a relation is learnt:

    S' = g(LayerNorm(W_r S + b_r)),    W_r = sum over j of a_rj M_j,    b_r = sum over j of a_rj v_j,

with one set of bases for all relations (Schlichtkrull et al. 2018) and g a function into [0, 1]. The authors' code has
the cosine of query and entity for phi and a pairwise loss over 20 times of it; so have the defaults here.

Shape letters: B queries, K candidates per query, N nodes, D dimension, J bases.
"""

# ruff: noqa: N803, N806 (shape suffixes)

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import ClassVar, Final, NamedTuple, final

import torch
from torch import Tensor, nn
from torch.nn import functional

from tarbox.core.config import check_settings
from tarbox.execution.interpreter import Algebra, evaluate
from tarbox.models.base import Columns, EntityModel, Sizes, columns
from tarbox.models.fuzzy import T_NORMS, Logic, complement
from tarbox.models.pairs import dot_pairs
from tarbox.models.sets import widen
from tarbox.models.sharing import shared
from tarbox.query.algebra import Direction, Query


class Regulator(NamedTuple):
    """What brings values into [0, 1], and the range in which entities begin before it."""

    regulate: Callable[[Tensor], Tensor]
    initial: tuple[float, float]


# A clamped value outside of [0, 1] has no gradient, and stays there until the decay of weights or the momentum of the
# optimizer brings it back; a sigmoid has a gradient everywhere.
REGULATORS: Final[Mapping[str, Regulator]] = MappingProxyType(
    {
        "clamp": Regulator(lambda values: functional.hardtanh(values, 0.0, 1.0), (0.0, 1.0)),
        "sigmoid": Regulator(torch.sigmoid, (-2.0, 2.0)),
        "steep": Regulator(lambda values: torch.sigmoid(8 * values - 4), (0.0, 1.0)),
    }
)
"""By name; clamp, the bounded rectifier, and steep, a sigmoid of 8 x - 4, are in the authors' code."""

TINY: Final = 1e-12
"""Added to the square of a length: an empty set has none to divide by."""


@final
@dataclass(frozen=True, slots=True)
class FuzzQeConfig:
    """The settings of `FuzzQe`.

    `t_norm` is product, godel or lukasiewicz; `regulator` clamp, sigmoid or steep; `bases` are those of the relations'
    matrices. Scores are `scale` phi / Z less `margin`, which counts in the margin loss alone. `norm` is 1 (entities are
    distributions, Z is 1) or 2 (entities have the length 1, Z is the length of the query: phi / Z is their cosine).
    """

    dimension: int = 1000
    bases: int = 50
    t_norm: str = "product"
    regulator: str = "clamp"
    norm: int = 2
    scale: float = 20.0
    margin: float = 14.0

    def __post_init__(self) -> None:
        choices: Mapping[str, Iterable[object]] = {"t_norm": T_NORMS, "regulator": REGULATORS, "norm": (1, 2)}
        check_settings(self, choices, ("dimension", "bases", "scale"))


@final
class FuzzQe(EntityModel):
    """All queries over entities, as fuzzy sets of D blocks.

    >>> from tarbox.query.templates import TEMPLATES
    >>> model = FuzzQe(FuzzQeConfig(dimension=8, bases=2), Sizes(entities=5, concepts=0, relations=2))
    >>> model.score(TEMPLATES["2in"].shape, torch.tensor([[0, 1, 3, 2]]), slice(0, 5)).shape
    torch.Size([1, 5])
    """

    Config: ClassVar[type[FuzzQeConfig]] = FuzzQeConfig
    recipe: ClassVar[str | None] = "fuzzqe"

    def __init__(self, config: FuzzQeConfig, sizes: Sizes) -> None:
        super().__init__(sizes)
        self.config = config
        self._regulator = REGULATORS[config.regulator]
        size = max(sizes.entities, 1), config.dimension
        self.entities = nn.Parameter(torch.empty(size).uniform_(*self._regulator.initial))
        self.projection = FuzzyProjection(config, sizes.directed)

    def score(self, shape: Query, ids_BS: Tensor, nodes: slice) -> Tensor:
        """[B, N]"""
        with torch.no_grad():
            sets_BD = self.sets(shape, ids_BS)
            return self._logits(sets_BD @ self.blocks(self.entities[nodes]).T, sets_BD)

    def score_candidates(self, shape: Query, ids_BS: Tensor, candidates_BK: Tensor) -> Tensor:
        """[B, K]; few entities: the blocks of all, once; many: those of the candidates."""
        sets_BD = self.sets(shape, ids_BS)
        if candidates_BK.numel() >= len(self.entities):
            blocks_ND = shared(self, "blocks", lambda: self.blocks(self.entities))
            return self._logits(dot_pairs(sets_BD, blocks_ND, candidates_BK), sets_BD)
        blocks_BKD = self.blocks(functional.embedding(candidates_BK, self.entities))
        return self._logits((blocks_BKD * sets_BD[:, None]).sum(-1), sets_BD)

    def sets(self, shape: Query, ids_BS: Tensor) -> Tensor:
        """[B, D] the degrees of blocks in each query."""
        return evaluate(shape, _Sets(self, columns(shape, ids_BS), T_NORMS[self.config.t_norm]))

    def blocks(self, entities: Tensor) -> Tensor:
        """[..., D] how much of each entity is in each block."""
        return functional.normalize(self.regulate(entities), p=self.config.norm, dim=-1, eps=1e-6)

    def regulate(self, values: Tensor) -> Tensor:
        """[..., D] in [0, 1]."""
        return self._regulator.regulate(values)

    def _logits(self, products_BN: Tensor, sets_BD: Tensor) -> Tensor:
        """Of the products of queries and entities."""
        degrees_BN = widen(products_BN)
        if self.config.norm == 2:
            degrees_BN = degrees_BN / sets_BD.square().sum(-1, keepdim=True).add(TINY).sqrt()
        return self.config.scale * degrees_BN - self.config.margin


@final
class FuzzyProjection(nn.Module):
    """The fuzzy set that a relation leads to."""

    def __init__(self, config: FuzzQeConfig, relations: int) -> None:
        super().__init__()
        self.regulate = REGULATORS[config.regulator].regulate
        self.weights = nn.Parameter(torch.empty(relations, config.bases))
        self.bases = nn.Parameter(torch.empty(config.bases, config.dimension, config.dimension))
        self.shifts = nn.Parameter(torch.empty(config.bases, config.dimension))
        self.norm = nn.LayerNorm(config.dimension, elementwise_affine=False)
        nn.init.xavier_uniform_(self.weights)
        nn.init.xavier_uniform_(self.shifts)
        for basis in self.bases.data:
            nn.init.orthogonal_(basis)

    def forward(self, sets_BD: Tensor, relations_B: Tensor) -> Tensor:
        """[B, D]; the sum over bases is taken within one product of matrices, nearly all the time that a step takes.

        Its factors are made in the precision of `torch.autocast`, the bases once a step. Their gradients, a sum over
        portions, are rounded to it as well; everything after the product is in single precision.
        """
        weights_BJ = functional.embedding(relations_B, self.weights)
        dtype = _product_dtype(sets_BD)
        bases_FD = shared(self, "bases", lambda: self.bases.flatten(0, 1).to(dtype))
        spread_BF = (weights_BJ.to(dtype)[:, :, None] * sets_BD.to(dtype)[:, None]).flatten(1)
        moved_BD = widen(spread_BF @ bases_FD) + widen(weights_BJ @ self.shifts)
        found: Tensor = self.regulate(self.norm(moved_BD))
        return found


def _product_dtype(values: Tensor) -> torch.dtype:
    """What `torch.autocast` makes of the factors of a product."""
    kind = values.device.type
    return torch.get_autocast_dtype(kind) if torch.is_autocast_enabled(kind) else values.dtype


@final
@dataclass(frozen=True, slots=True, eq=False)
class _Sets(Algebra[Tensor]):
    """The meaning of the nodes as degrees [B, D]."""

    model: FuzzQe
    columns: Columns
    logic: Logic

    def entity(self, name: str) -> Tensor:
        return self.model.regulate(functional.embedding(self.columns[name], self.model.entities))

    def exists(self, relation: str, direction: Direction, operand: Tensor) -> Tensor:  # noqa: ARG002
        found: Tensor = self.model.projection(operand, self.columns[relation])
        return found

    def intersection(self, operands: Sequence[Tensor]) -> Tensor:
        return self.logic.intersection(operands)

    def union(self, operands: Sequence[Tensor]) -> Tensor:
        return self.logic.union(operands)

    def complement(self, operand: Tensor) -> Tensor:
        return complement(operand)
