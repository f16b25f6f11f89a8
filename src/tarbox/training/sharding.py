"""Which node and which link is with which process, and when: PyTorch-BigGraph's buckets (Lerer et al. 2019).

Nodes are in shards, of which a process has two at a time; in a round it trains on the links between the nodes it has.
Any two shards meet once in an epoch, and no row is with two processes at a time. P processes have 2 P shards and
2 P - 1 rounds, those of a tournament:

    shards  0  1 | 3  2      round 0 of two processes
            0  3 | 2  1      round 1
            0  2 | 1  3      round 2

One process may have more shards than two, the others being at home, in the machine's memory (ADR 61). It then has a
round for each pair, in an order in which one of the two stays: 0 1, 0 2, 0 3, 1 3, 1 2, 2 3.

Nodes go to shards in turn, entities and concepts each, those with most links first: so shards have about as many links,
and names that follow each other, which are often of one kind, are in different ones. Every shard has as many rows; the
last of a kind may stand for no node.
"""

# ruff: noqa: N803 (shape suffixes)

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final, final

import torch
from torch import Tensor

from tarbox.models.base import Sizes

_AT_ONCE: Final = 1 << 22
"""Links whose rounds are looked up at a time."""


_SHARE: Final = 0.9
"""Of the memory that is left, what is planned with."""
HOME: Final = -1
"""The place of a shard that is with no process."""


@final
@dataclass(frozen=True, slots=True)
class Rounds:
    """`places` [rounds, shards] is where a shard is in a round: 2 * process + slot, or `HOME`; `meetings` [shards,
    shards] is the round in which two shards are with one process (-1 on the diagonal)."""

    places: Tensor
    meetings: Tensor

    @classmethod
    def of(cls, processes: int, shards: int = 0) -> Rounds:
        """Of two shards for each process or, for one, of any number from two on.

        >>> Rounds.of(2).places.tolist()
        [[0, 1, 3, 2], [0, 3, 2, 1], [0, 2, 1, 3]]
        >>> Rounds.of(1, 3).places.tolist()
        [[0, 1, -1], [0, -1, 1], [-1, 0, 1]]
        """
        places = torch.tensor(_walk(shards) if processes == 1 and shards else _circle(processes))
        process = places.div(2, rounding_mode="floor")
        together = (process[:, :, None] == process[:, None, :]) & (process[:, :, None] >= 0)
        meetings = together.int().argmax(0).fill_diagonal_(-1)
        return cls(places, meetings)

    def __len__(self) -> int:
        return len(self.places)

    @property
    def shards(self) -> int:
        return self.places.shape[1]

    @property
    def visits(self) -> Tensor:
        """[shards, shards - 1] the rounds in which a shard is with a process."""
        return self.meetings.sort(1).values[:, 1:]

    def held(self, number: int) -> list[int]:
        """The shards by place: [2 * process + slot]."""
        places = self.places[number % len(self)]
        return places.argsort()[int((places == HOME).sum()) :].tolist()


def _circle(processes: int) -> list[list[int]]:
    """Shard 0 stays, the others move on by a place in each round."""
    ring = [2 * own + 1 for own in range(processes)] + [2 * own for own in range(processes - 1, 0, -1)]
    return [[0, *ring[turn:], *ring[:turn]] for turn in range(len(ring))]


def _walk(shards: int) -> list[list[int]]:
    """Every pair once; between two rounds one shard is exchanged."""
    pairs = [
        (first, second)
        for first in range(shards)
        for second in (range(shards)[first + 1 :] if first % 2 == 0 else range(shards - 1, first, -1))
    ]
    rounds, slots = [], [0, 1]
    for pair in pairs:
        for shard in pair:
            if shard not in slots:
                slots[slots[0] in pair] = shard
        rounds.append([slots.index(shard) if shard in slots else HOME for shard in range(shards)])
    return rounds


def shards_needed(resident: int, tables: int, others: int, left: int | None) -> int:
    """The fewest shards of `tables` bytes two of which fit the bytes that are `left` (None: not known) beside others; 0
    where `resident` bytes do, or no number helps.

    >>> shards_needed(100, 80, 10, 120), shards_needed(100, 80, 10, 60), shards_needed(100, 80, 10, 10)
    (0, 4, 0)
    """
    if left is None or resident <= left or others >= _SHARE * left:
        return 0
    return max(2, math.ceil(2 * tables / (_SHARE * left - others)))


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

    def nodes_of(self, shard: int) -> Tensor:
        """[rows] the node of each row of a shard; -1 where it stands for none."""
        nodes = (self.numbers % self.rounds.shards == shard).nonzero()[:, 0]
        found = torch.full((self.rows,), -1, device=nodes.device)
        found[self.numbers[nodes] // self.rounds.shards] = nodes
        return found

    def turns(self, links_L3: Tensor, process: int) -> Tensor:
        """[L] the round in which a process trains on each link (relation, near, far), and -1 where others do. Links
        within a shard are spread over all rounds in which it is with a process."""
        parts, first, rounds = [], 0, self.rounds
        tables = (rounds.places, rounds.meetings, rounds.visits)
        places, meetings, visits = (table.to(links_L3.device) for table in tables)
        for part in torch.split(links_L3, _AT_ONCE):
            near, far = (self.numbers[part[:, column].long()] % rounds.shards for column in (1, 2))
            spread = torch.arange(first, first + len(part), device=part.device) % visits.shape[1]
            turn = torch.where(near == far, visits[near, spread], meetings[near, far])
            mine = places[turn, near].div(2, rounding_mode="floor") == process
            parts.append(torch.where(mine, turn, -1).to(torch.int16))
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
        held = self.rounds.held(number)[2 * process : 2 * process + 2]
        return (torch.stack([self.nodes_of(shard) for shard in held], 1).flatten() < 0).nonzero()[:, 0]
