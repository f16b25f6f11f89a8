"""Memory that the supervisor and its workers share: a row for each worker, with its pulse and its connections.

It tells without a word who is alive, who has how much to do, and which requests would be lost with a worker.
"""

from __future__ import annotations

import mmap
import struct
from typing import Final, final

IDLE: Final = 0
WAITING: Final = 1
"""The client waits for a reply, of which nothing was sent."""
SENDING: Final = 2
"""A part of a reply may be on its way."""
_HEAD: Final = struct.Struct("<II")


@final
class Board:
    """Rows of (beats, connections) and the state of each connection, over a file of the size that `size` says.

    >>> import tempfile
    >>> file = tempfile.TemporaryFile()
    >>> _ = file.truncate(Board.size(2, 10))
    >>> board = Board(file.fileno(), 2, 10)
    >>> board.beat(1), board.mark(1, 9, WAITING), board.connect(1, 1)
    (None, None, None)
    >>> board.beats(1), board.state(1, 9), board.connections(), board.ready()
    (1, 1, [0, 1], [1])
    """

    def __init__(self, descriptor: int, workers: int, slots: int) -> None:
        self.workers, self.slots = workers, slots
        self._width = _HEAD.size + slots
        self._memory = mmap.mmap(descriptor, self.size(workers, slots))

    @staticmethod
    def size(workers: int, slots: int) -> int:
        return workers * (_HEAD.size + slots)

    def clear(self, row: int) -> None:
        self._memory[row * self._width : (row + 1) * self._width] = bytes(self._width)

    def beat(self, row: int) -> None:
        """A sign of life; the first says that the worker is ready."""
        self._write(row, beats=self.beats(row) % 0xFFFFFFFF + 1)

    def beats(self, row: int) -> int:
        return self._read(row)[0]

    def connect(self, row: int, number: int) -> None:
        """Adds so many to the open connections."""
        self._write(row, connections=self._read(row)[1] + number)

    def connections(self) -> list[int]:
        return [self._read(row)[1] for row in range(self.workers)]

    def ready(self) -> list[int]:
        """The rows of workers that have begun to serve."""
        return [row for row in range(self.workers) if self.beats(row)]

    def mark(self, row: int, slot: int, state: int) -> None:
        self._memory[row * self._width + _HEAD.size + slot] = state

    def state(self, row: int, slot: int) -> int:
        return self._memory[row * self._width + _HEAD.size + slot]

    def _read(self, row: int) -> tuple[int, int]:
        beats, connections = _HEAD.unpack_from(self._memory, row * self._width)
        return beats, connections

    def _write(self, row: int, beats: int | None = None, connections: int | None = None) -> None:
        before = self._read(row)
        new = before[0] if beats is None else beats, before[1] if connections is None else connections
        _HEAD.pack_into(self._memory, row * self._width, *new)
