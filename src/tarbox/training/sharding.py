"""Which node and which link is with which process, and when: PyTorch-BigGraph's buckets (Lerer et al. 2019).

P processes have 2 P shards of the nodes, two each at a time. An epoch has 2 P - 1 rounds, those of a tournament: in
each of them the shards meet in other pairs, so that any two meet once, and a process trains on the links between the
nodes it has. No row is with two processes at a time.

    shards  0  1 | 3  2      round 0 of two processes
            0  3 | 2  1      round 1
            0  2 | 1  3      round 2

Nodes go to shards in turn, entities and concepts each: names that follow each other, which are often of one kind, are
in different shards. Every shard has as many rows; the last may stand for no node.
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
    """The rows of nodes: node n, entities before concepts, is in row `row(n)` of shard `shard(n)`.

    A process has two shards row by row in turn: the row of `slot` is 2 * row + slot, so entities still come first.
    """

    sizes: Sizes
    rounds: Rounds

    @property
    def entity_rows(self) -> int:
        return -(-self.sizes.entities // self.rounds.shards)

    @property
    def rows(self) -> int:
        """Of a shard."""
        return self.entity_rows - (-self.sizes.concepts // self.rounds.shards)

    @property
    def local_sizes(self) -> Sizes:
        """Of what a process has: as many entities and concepts as two shards have rows for."""
        return Sizes(2 * self.entity_rows, 2 * (self.rows - self.entity_rows), self.sizes.relations)

    def nodes_of(self, shard: int) -> tuple[Tensor, Tensor]:
        """(rows of a shard, the nodes that they are of)"""
        numbers = torch.arange(self.rows) * self.rounds.shards + shard
        nodes = torch.where(numbers < self._first_concept, numbers, numbers - self._first_concept + self.sizes.entities)
        real = (numbers < self.sizes.entities) | (numbers >= self._first_concept)
        real &= nodes < self.sizes.entities + self.sizes.concepts
        return real.nonzero()[:, 0], nodes[real]

    def turns(self, links_L3: Tensor, process: int) -> Tensor:
        """[L] the round in which a process trains on each link (relation, near, far), and -1 where others do. Links
        within a shard are spread over all rounds: it always is with some process."""
        parts, first, rounds = [], 0, self.rounds
        places, meetings = (table.to(links_L3.device) for table in (rounds.places, rounds.meetings))
        for part in torch.split(links_L3, _AT_ONCE):
            near, far = (self._number(part[:, column]) % rounds.shards for column in (1, 2))
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
            numbers = self._number(links_L3[:, column])
            columns.append(2 * (numbers // self.rounds.shards) + slots[numbers % self.rounds.shards])
        return torch.stack(columns, 1).int()

    @property
    def _first_concept(self) -> int:
        return self.entity_rows * self.rounds.shards

    def _number(self, nodes: Tensor) -> Tensor:
        """Nodes in turn over the shards, concepts from the beginning of a row on."""
        wide = nodes.long()
        return torch.where(wide < self.sizes.entities, wide, wide - self.sizes.entities + self._first_concept)
