"""Memory that the supervisor and its workers share: who is alive, who has how much to do, and which requests would be
lost with a worker."""

from __future__ import annotations

import mmap
from typing import Final, final

IDLE: Final = 0
WAITING: Final = 1
"""The client waits for a reply, of which nothing was sent."""
SENDING: Final = 2
"""A part of a reply may be on its way."""


@final
class Board:
    """`beats` and `open` connections of each worker, and `states` of its connections, by slot; over a file.

    >>> import tempfile
    >>> file = tempfile.TemporaryFile()
    >>> _ = file.truncate(Board.size(2, 10))
    >>> board = Board(file.fileno(), 2, 10)
    >>> board.beats[1] += 1
    >>> board.states[1, 9] = WAITING
    >>> board.ready(), board.states[1, 9]
    ([1], 1)
    """

    def __init__(self, descriptor: int, workers: int, slots: int) -> None:
        self.workers, self.slots = workers, slots
        whole = memoryview(mmap.mmap(descriptor, self.size(workers, slots)))
        self.beats, self.open = whole[: 4 * workers].cast("I"), whole[4 * workers : 8 * workers].cast("I")
        self.states = whole[8 * workers :].cast("B", (workers, slots))

    @staticmethod
    def size(workers: int, slots: int) -> int:
        return workers * (8 + slots)

    def ready(self) -> list[int]:
        """The workers that have begun to serve."""
        return [row for row in range(self.workers) if self.beats[row]]
