"""Messages along the links of a graph, summed where they arrive and never kept, and models of queries made of them.

A node u with the state h_u sends h_u W_r along each of its links by r. There are as many messages as links, for every
query and dimension: they are made a block of links at a time, forward and again backward, so that memory grows with
the nodes alone.

A training query's own facts would give its answers away: for each query and relation, those that lead from a member of
the set so far (of a degree above 1/2) are left out of the graph with probability `dropout`: traversal dropout, by the
model's own sets where the published code keeps exact ones beside them (ADR 58).

Shape letters: N nodes, B queries, D dimension, R relations, F facts, A = 2F links, L links of a block, K candidates.
"""

# ruff: noqa: N803, N806, N815 (shape suffixes)

from __future__ import annotations

import abc
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Final, NamedTuple, final

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from tarbox.core.errors import ConfigError
from tarbox.execution.interpreter import Algebra, evaluate
from tarbox.models.base import Columns, EntityModel, Sizes, columns
from tarbox.models.fuzzy import T_NORMS, complement
from tarbox.query.algebra import Direction, Query

HELD: Final = MappingProxyType({"cpu": 1 << 24, "cuda": 1 << 27})
"""Numbers held at a time, by kind of device: small blocks cost a GPU more launches than work."""
_LEAST_DEGREE: Final = 1e-30
_LEAST_DOUBT: Final = 1e-7
"""What is left of 1 next to a degree of nearly 1, in single precision; a degree itself may be far smaller."""


def check_dropout(dropout: float) -> None:
    """Refuse what is no share of the traversed facts."""
    if not 0 <= dropout <= 1:
        raise ConfigError(f"dropout = {dropout}: it must be between 0 and 1")


def links_both_ways(facts_F3: Tensor) -> Tensor:
    """[3, 2F] the links (from, directed relation, to) of all facts (head, relation, tail), then the same backwards.

    >>> links_both_ways(torch.tensor([[5, 1, 7]])).T.tolist()
    [[5, 3, 7], [7, 2, 5]]
    """
    heads, relations, tails = facts_F3.T
    along, back = torch.stack([heads, 2 * relations + 1, tails]), torch.stack([tails, 2 * relations, heads])
    return torch.cat([along, back], 1)


def message_moments(
    state_NBD: Tensor, weights_RBD: Tensor, links_3A: Tensor, kept_AB: Tensor | None = None
) -> tuple[Tensor, Tensor]:
    """([N, B, D] the sums of all messages to each node, [N, B, D] those of their squares).

    Links are (from, relation, to); where some are `kept`, by query, the others send nothing.

    >>> links = torch.tensor([[0, 1], [0, 0], [2, 2]])
    >>> state = torch.tensor([1.0, 2.0, 0.0]).view(3, 1, 1)
    >>> [one.flatten().tolist() for one in message_moments(state, torch.full((1, 1, 1), 3.0), links)]
    [[0.0, 0.0, 9.0], [0.0, 0.0, 45.0]]
    """
    found: tuple[Tensor, Tensor] = _Sums.apply(True, state_NBD, weights_RBD, kept_AB, *links_3A)  # type: ignore[no-untyped-call]
    return found


def message_sums(state_NBD: Tensor, weights_RBD: Tensor, links_3A: Tensor, kept_AB: Tensor | None = None) -> Tensor:
    """[N, B, D] the first of the `message_moments` alone."""
    found: tuple[Tensor] = _Sums.apply(False, state_NBD, weights_RBD, kept_AB, *links_3A)  # type: ignore[no-untyped-call]
    return found[0]


class _Sums(torch.autograd.Function):
    """Of all messages, and where it is wanted of their squares."""

    @staticmethod
    def forward(ctx: Any, squares: bool, *given: Any) -> tuple[Tensor, ...]:
        ctx.save_for_backward(*given)
        found = tuple(torch.zeros_like(given[0]) for _ in range(1 + squares))
        for block in _blocks(given):
            found[0].index_add_(0, block.far, block.messages)
            if squares:
                found[1].index_add_(0, block.far, block.messages.square())
        return found

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, by_sums: Tensor, *by_squares: Tensor) -> tuple[Tensor | None, ...]:
        given = ctx.saved_tensors
        by_state, by_weights = torch.zeros_like(given[0]), torch.zeros_like(given[1])
        for block in _blocks(given):
            by_messages = by_sums[block.far]
            for by_square in by_squares:
                by_messages = by_messages + 2 * block.messages * by_square[block.far]
            by_messages = by_messages if block.kept is None else by_messages * block.kept
            by_state.index_add_(0, block.near, by_messages * given[1][block.relation])
            by_weights.index_add_(0, block.relation, by_messages * given[0][block.near])
        return None, by_state, by_weights, None, None, None, None


class _Block(NamedTuple):
    """Some links, what is sent along them [L, B, D], and whether it is [L, B, 1]."""

    near: Tensor
    relation: Tensor
    far: Tensor
    messages: Tensor
    kept: Tensor | None


def _blocks(given: Sequence[Any]) -> Iterator[_Block]:
    state_NBD, weights_RBD, kept_AB, *links = given
    size = max(1, HELD[state_NBD.device.type] // max(state_NBD[0].numel(), 1))
    for start in range(0, len(links[0]), size):
        near, relation, far = (column[start : start + size] for column in links)
        kept = None if kept_AB is None else kept_AB[start : start + size, :, None]
        messages = state_NBD[near] * weights_RBD[relation]
        yield _Block(near, relation, far, messages if kept is None else messages * kept, kept)


def sources(degrees_BN: Tensor, asked_BD: Tensor) -> Tensor:
    """[N, B, D] where messages begin: the vector of the relation asked for, as far as a node is in the set."""
    return degrees_BN.T[:, :, None] * asked_BD


def degrees(network: nn.Module, state_NBD: Tensor, asked_BD: Tensor) -> Tensor:
    """[B, N] sigmoid(network[state, relation asked for])."""
    found_NB: Tensor = network(torch.cat([state_NBD, asked_BD.expand_as(state_NBD)], -1)).squeeze(-1)
    return torch.sigmoid(found_NB).T


class MessageModel(EntityModel):
    """Queries as fuzzy sets under the product logic, in which a relation is message passing over the facts observed.

    A subclass keeps the links in `observe`, and says by `project` what a relation leads to. `dimension` is that of the
    state of a node.
    """

    links_3A: Tensor

    def __init__(self, sizes: Sizes, dimension: int, dropout: float) -> None:
        super().__init__(sizes)
        self.nodes: Final = max(sizes.entities, 1)
        self._dimension, self._dropout = dimension, dropout
        self.register_buffer("links_3A", torch.empty(3, 0, dtype=torch.int64), persistent=False)

    @abc.abstractmethod
    def project(self, degrees_BN: Tensor, relations_B: Tensor) -> Tensor:
        """[B, N] the fuzzy sets that relations lead to."""

    @final
    def score(self, shape: Query, ids_BS: Tensor, nodes: slice) -> Tensor:
        """[B, N] the logarithm of the odds of each degree, a block of queries at a time."""
        with torch.no_grad():
            block = max(1, HELD[ids_BS.device.type] // (self.nodes * self._dimension))
            parts: Sequence[Tensor] = torch.split(ids_BS, block)
            return torch.cat([self._log_odds(shape, part)[:, nodes] for part in parts])

    @final
    def score_candidates(self, shape: Query, ids_BS: Tensor, candidates_BK: Tensor) -> Tensor:
        """[B, K]"""
        return self._log_odds(shape, ids_BS).gather(1, candidates_BK)

    @final
    def indicator(self, ids_B: Tensor, size: int) -> Tensor:
        """[B, size] 1 at the id of each query, 0 elsewhere."""
        return next(self.parameters()).new_zeros(len(ids_B), size).scatter(1, ids_B[:, None], 1.0)

    @final
    def kept(self, degrees_BN: Tensor, relations_B: Tensor) -> Tensor | None:
        """[A, B] which links a query keeps while it is learnt from, all if None; a fact is left out both ways."""
        if not (self._dropout and self.training and torch.is_grad_enabled()):
            return None
        near_A, relation_A, _ = self.links_3A
        along, back = ((relation_A[:, None] == relations_B) & (degrees_BN.T > 0.5)[near_A]).chunk(2)
        dropped_FB = (along | back) & (torch.rand(along.shape, device=along.device) < self._dropout)
        return ~torch.cat([dropped_FB, dropped_FB])

    def _log_odds(self, shape: Query, ids_BS: Tensor) -> Tensor:
        degrees_BN = evaluate(shape, _Degrees(self, columns(shape, ids_BS)))
        return degrees_BN.clamp_min(_LEAST_DEGREE).log() - complement(degrees_BN).clamp_min(_LEAST_DOUBT).log()


@final
@dataclass(frozen=True, slots=True, eq=False)
class _Degrees(Algebra[Tensor]):
    """The meaning of the nodes as degrees [B, N]."""

    model: MessageModel
    columns: Columns

    def entity(self, name: str) -> Tensor:
        return self.model.indicator(self.columns[name], self.model.nodes)

    def exists(self, relation: str, direction: Direction, operand: Tensor) -> Tensor:  # noqa: ARG002
        return self.model.project(operand, self.columns[relation])

    def intersection(self, operands: Sequence[Tensor]) -> Tensor:
        return T_NORMS["product"].intersection(operands)

    def union(self, operands: Sequence[Tensor]) -> Tensor:
        return T_NORMS["product"].union(operands)

    def complement(self, operand: Tensor) -> Tensor:
        return complement(operand)
