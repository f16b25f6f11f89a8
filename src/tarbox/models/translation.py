"""Entity retrieval's f(q; Omega): a query as one vector, or as several of which the nearest counts (Eq. 14, appendix).

Projection adds the relation's vector. Intersection is attention over the operands' vectors. The text's attention is
binary and depends on the order of its operands, so they are ordered by what they are: first by size, then by a hash of
their names, never by the place where they stand in the query.

Shape letters: B queries, D dimension, U alternatives of a union, N operands of an intersection.
"""

# ruff: noqa: N803, N806 (shape suffixes)

from __future__ import annotations

import abc
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from math import prod
from types import MappingProxyType
from typing import Final, TypeAlias, final

import torch
from torch import Tensor, nn

from tarbox.execution.interpreter import Algebra
from tarbox.models.alternatives import limit_alternatives
from tarbox.models.base import Columns
from tarbox.models.sets import Embeddings
from tarbox.query.algebra import Direction

_SIZE_PLACE: Final = 1 << 40  # a key is size * 2^40 + a hash of 40 bits
_MIX: Final = 0x9E3779B97F4A7C15 - (1 << 64)  # an odd number without pattern, as a signed integer
_SALTS: Final = MappingProxyType({"entity": 11, "concept": 23, "exists": 37, "and": 41, "or": 59})


@final
@dataclass(frozen=True, slots=True, eq=False)
class Vectors:
    """`alternatives` [U, B, D]: a query is near an entity if one of them is. `key` [B] says what the query is."""

    alternatives: Tensor
    key: Tensor
    size: int


class Attention(nn.Module, abc.ABC):
    """Makes one vector of several."""

    @abc.abstractmethod
    def combine(self, vectors_NBD: Tensor) -> Tensor:
        """[B, D] of N operands in canonical order."""


@final
class OrderedAttention(Attention):
    """The appendix: q = a(q1, q2)_1 * q1 + a(q1, q2)_2 * q2, folded from the left; a is a two-layer ReLU network.

    With `normalised`, the two weights of a dimension are a softmax; the text has the network's output itself.
    """

    def __init__(self, dimension: int, *, normalised: bool) -> None:
        super().__init__()
        self.normalised = normalised
        self.inner = nn.Linear(2 * dimension, 2 * dimension)
        self.outer = nn.Linear(2 * dimension, 2 * dimension)
        xavier(self)
        if not normalised:
            nn.init.constant_(self.outer.bias, 0.5)  # begin near the mean of both, not near 0

    def combine(self, vectors_NBD: Tensor) -> Tensor:
        combined_BD = vectors_NBD[0]
        for next_BD in vectors_NBD[1:]:
            pair_B2D = torch.stack([combined_BD, next_BD], dim=1)
            weights_B2D = self.outer(torch.relu(self.inner(pair_B2D.flatten(1)))).view_as(pair_B2D)
            weights_B2D = weights_B2D.softmax(1) if self.normalised else weights_B2D
            combined_BD = (weights_B2D * pair_B2D).sum(1)
        return combined_BD


@final
class InvariantAttention(Attention):
    """As published in KGReasoning: the weights of a dimension are a softmax over all operands of a(q_i)."""

    def __init__(self, dimension: int) -> None:
        super().__init__()
        self.inner = nn.Linear(dimension, dimension)
        self.outer = nn.Linear(dimension, dimension, bias=False)  # a bias would cancel in the softmax
        xavier(self)

    def combine(self, vectors_NBD: Tensor) -> Tensor:
        weights_NBD: Tensor = self.outer(torch.relu(self.inner(vectors_NBD))).softmax(0)
        return (weights_NBD * vectors_NBD).sum(0)


ATTENTIONS: Final[Mapping[str, Callable[[int], Attention]]] = MappingProxyType(
    {
        "ordered": lambda dimension: OrderedAttention(dimension, normalised=False),
        "softmax": lambda dimension: OrderedAttention(dimension, normalised=True),
        "invariant": InvariantAttention,
    }
)
"""Intersections by name (ADR 0010)."""

Union: TypeAlias = Callable[[Tensor], Tensor]
UNIONS: Final[Mapping[str, Union]] = MappingProxyType(
    {"score": lambda alternatives: alternatives, "vector": lambda alternatives: alternatives.amax(0, keepdim=True)}
)
"""`score`: the best score of the alternatives; `vector`: the greatest value per dimension (ADR 0011)."""


@final
@dataclass(frozen=True, slots=True, eq=False)
class TranslationAlgebra(Algebra[Vectors]):
    """The meaning of a query without negation as vectors, for a batch whose ids `columns` holds by placeholder."""

    columns: Columns
    embeddings: Embeddings
    attention: Attention
    join: Union

    def entity(self, name: str) -> Vectors:
        ids_B = self.columns[name]
        return Vectors(self.embeddings.entity(ids_B)[None], _mix(ids_B, "entity"), 1)

    def concept(self, name: str) -> Vectors:
        ids_B = self.columns[name]
        return Vectors(self.embeddings.concept(ids_B)[None], _mix(ids_B, "concept"), 1)

    def exists(self, relation: str, direction: Direction, operand: Vectors) -> Vectors:  # noqa: ARG002
        ids_B = self.columns[relation]
        moved_UBD = operand.alternatives + self.embeddings.relation(ids_B)
        return Vectors(moved_UBD, _mix(operand.key + _mix(ids_B, "exists"), "exists"), operand.size + 1)

    def intersection(self, operands: Sequence[Vectors]) -> Vectors:
        limit_alternatives(prod(len(operand.alternatives) for operand in operands))
        keys_NB = torch.stack([_ordering(operand) for operand in operands])
        order_NB1 = keys_NB.argsort(0)[..., None]
        chosen = product(*(range(len(operand.alternatives)) for operand in operands))
        combined = [
            self.attention.combine(
                torch.stack(
                    [operand.alternatives[u] for operand, u in zip(operands, choice, strict=True)]
                ).take_along_dim(order_NB1, 0)
            )
            for choice in chosen
        ]
        return _together(torch.stack(combined), operands, "and")

    def union(self, operands: Sequence[Vectors]) -> Vectors:
        limit_alternatives(sum(len(operand.alternatives) for operand in operands))
        return _together(self.join(torch.cat([operand.alternatives for operand in operands])), operands, "or")


def xavier(network: nn.Module) -> None:
    """Xavier's uniform initial weights for every linear layer, and no bias."""
    for part in network.modules():
        if isinstance(part, nn.Linear):
            nn.init.xavier_uniform_(part.weight)
            if part.bias is not None:
                nn.init.zeros_(part.bias)


def _together(alternatives_UBD: Tensor, operands: Sequence[Vectors], kind: str) -> Vectors:
    """The sum of the operands' keys does not depend on their order."""
    keys_B = torch.stack([_mix(operand.key, kind) for operand in operands]).sum(0)
    return Vectors(alternatives_UBD, keys_B, sum(operand.size for operand in operands))


def _mix(numbers_B: Tensor, kind: str) -> Tensor:
    """A hash, modulo 2^64: the same for the same numbers and kind."""
    scrambled = (numbers_B + _SALTS[kind]) * _MIX
    return (scrambled ^ (scrambled >> 29)) * _MIX


def _ordering(operand: Vectors) -> Tensor:
    """[B] greater for larger operands; among those of one size by hash, that is by what they name."""
    return operand.size * _SIZE_PLACE + (operand.key & (_SIZE_PLACE - 1))
