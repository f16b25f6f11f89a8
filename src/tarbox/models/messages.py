"""Messages along the links of a graph, summed where they arrive and never kept.

A node u with the state h_u sends h_u W_r along each of its links by r. There are as many messages as links, for every
query and dimension: they are made a block of links at a time, forward and again backward, so that memory grows with
the nodes alone.

Shape letters: N nodes, B queries, D dimension, R relations, A links, L links of a block.
"""

# ruff: noqa: N803, N806 (shape suffixes)

from __future__ import annotations

from collections.abc import Iterator, Sequence
from types import MappingProxyType
from typing import Any, Final, NamedTuple

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

HELD: Final = MappingProxyType({"cpu": 1 << 24, "cuda": 1 << 27})
"""Numbers held at a time, by kind of device: small blocks cost a GPU more launches than work."""


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
    found: tuple[Tensor, Tensor] = _Moments.apply(state_NBD, weights_RBD, kept_AB, *links_3A)  # type: ignore[no-untyped-call]
    return found


class _Moments(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, *given: Any) -> tuple[Tensor, Tensor]:
        ctx.save_for_backward(*given)
        sums, squares = torch.zeros_like(given[0]), torch.zeros_like(given[0])
        for block in _blocks(given):
            sums.index_add_(0, block.far, block.messages)
            squares.index_add_(0, block.far, block.messages.square())
        return sums, squares

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, by_sums: Tensor, by_squares: Tensor) -> tuple[Tensor | None, ...]:
        given = ctx.saved_tensors
        by_state, by_weights = torch.zeros_like(given[0]), torch.zeros_like(given[1])
        for block in _blocks(given):
            by_messages = by_sums[block.far] + 2 * block.messages * by_squares[block.far]
            by_messages = by_messages if block.kept is None else by_messages * block.kept
            by_state.index_add_(0, block.near, by_messages * given[1][block.relation])
            by_weights.index_add_(0, block.relation, by_messages * given[0][block.near])
        return by_state, by_weights, None, None, None, None


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
