"""Where the rows of shards are, and how they get there: with processes, two each, or at home, in the leader's tables.

Home is on the device, or in the machine's memory where the tables do not fit there (ADR 61).
"""

# ruff: noqa: N803 (shape suffixes)

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple, cast, final

import torch
from torch import Tensor

from tarbox.models.complex import Complex
from tarbox.training.adagrad import SQUARES
from tarbox.training.group import ProcessGroup
from tarbox.training.sharding import HOME, NodeShards

_BLOCK: Final = 1 << 24
"""Numbers that are copied at a time."""


class WholeTables(NamedTuple):
    """The tables of nodes and relations, and of their squares: of all, or of what a process has."""

    nodes: Tensor
    squares: Tensor
    relations: Tensor
    relation_squares: Tensor

    @classmethod
    def of(cls, module: Complex, optimizer: torch.optim.Optimizer) -> WholeTables:
        nodes, relations = module.nodes.detach(), module.relations.detach()
        return cls(nodes, squares_of(optimizer, module.nodes), relations, squares_of(optimizer, module.relations))


def squares_of(optimizer: torch.optim.Optimizer, parameter: Tensor) -> Tensor:
    """Adagrad's sums, from the beginning on."""
    state = optimizer.state[parameter]
    if SQUARES not in state:
        state[SQUARES] = torch.zeros_like(parameter, requires_grad=False)
    return cast(Tensor, state[SQUARES])


@final
class RowCopies:
    """Copies rows of tables at home to a device and back, by blocks: while one is on its way, the next is put together
    or the last one put away. A GPU copies pinned memory by itself."""

    def __init__(self, home: torch.device, device: torch.device, width: int, rows: int = 0) -> None:
        self._rows, pinned = rows or max(1, _BLOCK // width), (home.type, device.type) == ("cpu", "cuda")
        self._blocks = [torch.empty(self._rows, width, device=home, pin_memory=pinned) for _ in range(2)]
        self._copied = [torch.cuda.Event() for _ in self._blocks] if device.type == "cuda" else []  # type: ignore[no-untyped-call]

    def read(self, table: Tensor, nodes_R: Tensor, target_RD: Tensor) -> None:
        """What the table has of these nodes; 0 where one is -1."""
        parts = (torch.split(rows, self._rows) for rows in (nodes_R, target_RD))
        for number, (nodes, target) in enumerate(zip(*parts, strict=True)):
            self._wait(number)
            block = self._blocks[number % 2][: len(nodes)]
            torch.index_select(table, 0, nodes.clamp(min=0), out=block)
            block[nodes < 0] = 0.0
            target.copy_(block, non_blocking=True)
            self._mark(number)

    def write(self, table: Tensor, nodes_R: Tensor, source_RD: Tensor) -> None:
        """To the rows of these nodes, but for those that are -1."""
        every, sources = (torch.split(rows, self._rows) for rows in (nodes_R, source_RD))
        for number in range(len(every) + 1):
            if number < len(every):
                self._blocks[number % 2][: len(every[number])].copy_(sources[number], non_blocking=True)
                self._mark(number)
            if number:
                self._wait(number - 1)
                nodes = every[number - 1]
                block = self._blocks[(number - 1) % 2][: len(nodes)]
                if not bool((there := nodes >= 0).all()):
                    nodes, block = nodes[there], block[there]
                table[nodes] = block

    def _mark(self, number: int) -> None:
        if self._copied:
            self._copied[number % 2].record()

    def _wait(self, number: int) -> None:
        """Until what was last copied from or to this block is there."""
        if self._copied:
            self._copied[number % 2].synchronize()


@final
class ShardTables:
    """The tables `here`, two shards of the nodes and all relations, and the leader's, which are everybody's home."""

    def __init__(self, group: ProcessGroup, shards: NodeShards, here: WholeTables) -> None:
        self._group, self._shards, self._here = group, shards, here
        self._places = [HOME] * shards.rounds.shards
        self._home: WholeTables | None = None
        self._copies: RowCopies | None = None

    def lead(self, home: WholeTables) -> None:
        """These are home."""
        self._home = home
        self._copies = RowCopies(home.nodes.device, self._here.nodes.device, home.nodes.shape[1])

    @torch.no_grad()
    def place(self, number: int) -> None:
        """What is at home becomes everybody's, as a round wants it."""
        for own, of_all in zip(self._here[2:], (self._home or self._here)[2:], strict=True):
            own.copy_(of_all)
            self._group.broadcast(own)
        self._places = [HOME] * len(self._places)
        self.move(number)

    @torch.no_grad()
    def move(self, number: int) -> None:
        """Into a round: the shards go where it wants them."""
        rounds = self._shards.rounds
        before, after = self._places, rounds.places[number % len(rounds)].tolist()
        moved = [shard for shard, place in enumerate(after) if before[shard] != place]
        for shard in moved:
            if after[shard] == HOME:
                self._bring_home(shard)
        between = [shard for shard in moved if HOME not in (before[shard], after[shard])]
        self._exchange({shard: (before[shard] // 2, after[shard] // 2) for shard in between}, after)
        for shard in moved:
            if before[shard] == HOME:
                self._fetch(shard)

    @torch.no_grad()
    def collect(self) -> None:
        """Everything is at home too, as of now."""
        for shard, place in enumerate(self._places):
            if place != HOME:
                self._bring_home(shard)
        for own, of_all in zip(self._here[2:], self._home[2:] if self._home else (), strict=False):
            of_all.copy_(own)

    def _exchange(self, ways: Mapping[int, tuple[int, int]], places: list[int]) -> None:
        """Shards from one process to another each; all are read before any has its new place and is written."""
        rank, sent, received = self._group.rank, list[tuple[Tensor, int]](), list[tuple[Tensor, int]]()
        packed: dict[int, Tensor] = {}
        for shard, way in ways.items():
            if rank in way:
                packed[shard] = self._pack(shard) if way[0] == rank else self._buffer()
            if rank in way and way[0] != way[1]:
                (sent if way[0] == rank else received).append((packed[shard], way[way[0] == rank]))
        self._group.exchange(sent, received)
        self._places = places
        for shard, own in packed.items():
            if ways[shard][1] == rank:
                self._unpack(shard, own)

    def _bring_home(self, shard: int) -> None:
        holder, rank = self._places[shard] // 2, self._group.rank
        if holder == rank == 0:
            self._write(shard, self._slot(shard))
        elif rank == holder:
            self._group.exchange([(self._pack(shard), 0)], [])
        elif rank == 0:
            packed = self._buffer()
            self._group.exchange([], [(packed, holder)])
            self._write(shard, packed)

    def _fetch(self, shard: int) -> None:
        """From home, to its place."""
        holder, rank = self._places[shard] // 2, self._group.rank
        if holder == rank == 0:
            self._read(shard, self._slot(shard))
        elif rank in (0, holder):
            packed = self._buffer()
            if rank == 0:
                self._read(shard, packed)
                self._group.exchange([(packed, holder)], [])
            else:
                self._group.exchange([], [(packed, 0)])
                self._unpack(shard, packed)

    def _slot(self, shard: int) -> list[Tensor]:
        """[rows, width] each: where its nodes and their squares are here."""
        return [table.view(self._shards.rows, 2, -1)[:, self._places[shard] % 2] for table in self._here[:2]]

    def _buffer(self) -> Tensor:
        return self._here.nodes.new_empty(2, self._shards.rows, self._here.nodes.shape[1])

    def _pack(self, shard: int) -> Tensor:
        return torch.stack(self._slot(shard))

    def _unpack(self, shard: int, packed: Tensor) -> None:
        for own, table in zip(packed, self._slot(shard), strict=True):
            table.copy_(own)

    def _read(self, shard: int, target: Iterable[Tensor]) -> None:
        home, copies, nodes = self._at_home(shard)
        for own, table in zip(target, home, strict=True):
            copies.read(table, nodes, own)

    def _write(self, shard: int, source: Iterable[Tensor]) -> None:
        home, copies, nodes = self._at_home(shard)
        for own, table in zip(source, home, strict=True):
            copies.write(table, nodes, own)

    def _at_home(self, shard: int) -> tuple[tuple[Tensor, Tensor], RowCopies, Tensor]:
        """(the tables of nodes and squares, what copies their rows, those of this shard)"""
        assert self._home is not None
        assert self._copies is not None
        nodes = self._home.nodes
        return (nodes, self._home.squares), self._copies, self._shards.nodes_of(shard).to(nodes.device)
