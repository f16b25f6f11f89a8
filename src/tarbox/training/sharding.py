"""Which node and which link is with which process, and when: PyTorch-BigGraph's buckets (Lerer et al. 2019).

P processes have 2 P shards of the nodes, two each at a time. An epoch has 2 P - 1 rounds, those of a tournament: in
each of them the shards meet in other pairs, so that any two meet once, and a process trains on the links between the
nodes it has. No row is with two processes at a time.

    shards  0  1 | 3  2      round 0 of two processes
            0  3 | 2  1      round 1
            0  2 | 1  3      round 2

Nodes go to shards in turn, entities and concepts each, those with most links first: so shards have about as many links,
and names that follow each other, which are often of one kind, are in different ones. Every shard has as many rows; the
last of a kind may stand for no node.
"""

# ruff: noqa: N803 (shape suffixes)

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, final

import torch
from torch import Tensor

from tarbox.models.base import Sizes

_AT_ONCE: Final = 1 << 22
"""Links whose rounds are looked up at a time."""


@final
@dataclass(frozen=True, slots=True)
class Rounds:
    """`places` [rounds, shards] is where a shard is in a round: 2 * process + slot; `meetings` [shards, shards] is the
    round in which two shards are with one process (-1 on the diagonal)."""

    places: Tensor
    meetings: Tensor

    @classmethod
    def of(cls, processes: int) -> Rounds:
        """By the circle method: shard 0 stays, the others move on by a place in each round.

        >>> Rounds.of(2).places.tolist()
        [[0, 1, 3, 2], [0, 3, 2, 1], [0, 2, 1, 3]]
        """
        ring = [2 * own + 1 for own in range(processes)] + [2 * own for own in range(processes - 1, 0, -1)]
        turns = torch.arange(len(ring))
        moved = torch.tensor(ring)[(turns[:, None] + turns) % len(ring)]
        places = torch.cat([torch.zeros(len(ring), 1, dtype=torch.int64), moved], 1)
        together = places[:, :, None] // 2 == places[:, None, :] // 2
        meetings = together.int().argmax(0).fill_diagonal_(-1)
        return cls(places, meetings)

    def __len__(self) -> int:
        return len(self.places)

    @property
    def shards(self) -> int:
        return self.places.shape[1]

    def held(self, number: int) -> list[int]:
        """The shards by place: [2 * process + slot]."""
        return self.places[number % len(self)].argsort().tolist()


@final
@dataclass(frozen=True, slots=True)
class NodeShards:
    """Where nodes are: `numbers` [nodes] is row * shards + shard of each, entities before concepts; the first
    `entity_rows` of the `rows` of a shard are of entities.

    A process has two shards row by row in turn: the row of `slot` is 2 * row + slot, so entities still come first.
    """

    sizes: Sizes
    rounds: Rounds
    numbers: Tensor
    entity_rows: int
    rows: int

    @classmethod
    def of(cls, sizes: Sizes, rounds: Rounds, links_N: Tensor) -> NodeShards:
        """`links_N` [nodes] are the links of each, by which they are dealt: back and forth, as cards are."""
        parts, first = [], 0
        for degrees in (links_N[: sizes.entities], links_N[sizes.entities :]):
            turns = torch.arange(len(degrees), device=links_N.device)
            row, shard = turns // rounds.shards, turns % rounds.shards
            dealt = row * rounds.shards + torch.where(row % 2 == 0, shard, rounds.shards - 1 - shard)
            numbers = torch.empty_like(dealt)
            numbers[degrees.argsort(descending=True, stable=True)] = dealt
            parts.append(numbers + first * rounds.shards)
            first += -(-len(degrees) // rounds.shards)
        return cls(sizes, rounds, torch.cat(parts), -(-sizes.entities // rounds.shards), first)

    @property
    def local_sizes(self) -> Sizes:
        """Of what a process has: as many entities and concepts as two shards have rows for."""
        return Sizes(2 * self.entity_rows, 2 * (self.rows - self.entity_rows), self.sizes.relations)

    def nodes_of(self, shard: int) -> tuple[Tensor, Tensor]:
        """(rows of a shard, the nodes that they are of)"""
        nodes = (self.numbers % self.rounds.shards == shard).nonzero()[:, 0]
        return self.numbers[nodes] // self.rounds.shards, nodes

    def turns(self, links_L3: Tensor, process: int) -> Tensor:
        """[L] the round in which a process trains on each link (relation, near, far), and -1 where others do. Links
        within a shard are spread over all rounds: it always is with some process."""
        parts, first, rounds = [], 0, self.rounds
        places, meetings = (table.to(links_L3.device) for table in (rounds.places, rounds.meetings))
        for part in torch.split(links_L3, _AT_ONCE):
            near, far = (self.numbers[part[:, column].long()] % rounds.shards for column in (1, 2))
            spread = torch.arange(first, first + len(part), device=part.device) % len(rounds)
            turn = torch.where(near == far, spread, meetings[near, far])
            parts.append(torch.where(places[turn, near] // 2 == process, turn, -1).to(torch.int16))
            first += len(part)
        return torch.cat(parts) if parts else torch.empty(0, dtype=torch.int16, device=links_L3.device)

    def localize(self, links_L3: Tensor, number: int) -> Tensor:
        """[L, 3] links of a round with the rows that the process has for their nodes."""
        slots = (self.rounds.places[number] % 2).to(links_L3.device)
        columns = [links_L3[:, 0].long()]
        for column in (1, 2):
            numbers = self.numbers[links_L3[:, column].long()]
            columns.append(2 * (numbers // self.rounds.shards) + slots[numbers % self.rounds.shards])
        return torch.stack(columns, 1).int()

    def nobody(self, number: int, process: int) -> Tensor:
        """The rows of a process that stand for no node in a round."""
        empty = torch.ones(2 * self.rows, dtype=torch.bool, device=self.numbers.device)
        held = self.rounds.held(number)
        for slot in (0, 1):
            empty[2 * self.nodes_of(held[2 * process + slot])[0] + slot] = False
        return empty.nonzero()[:, 0]
