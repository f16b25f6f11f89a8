"""Time, as the training loop counts it."""

from __future__ import annotations

from collections.abc import Callable
from typing import final

Clock = Callable[[], float]


@final
class Stopwatch:
    """Runs while steps are made; also knows how long ago the losses were looked at and a checkpoint was written."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._began: float | None = None
        self._first = 0
        self._looked = self._saved = clock()

    def start(self, step: int) -> None:
        """Begin to count, from this step of the epoch on."""
        self._began, self._first = self._clock(), step

    def stop(self) -> None:
        self._began = None

    def read(self) -> float:
        """Seconds since the start; 0 when stopped."""
        return 0.0 if self._began is None else self._clock() - self._began

    def steps_per_second(self, step: int) -> float:
        return (step - self._first) / max(self.read(), 1e-9)

    def look(self) -> None:
        self._looked = self._clock()

    def save(self) -> None:
        self._saved = self._clock()

    def since_look(self) -> float:
        return self._clock() - self._looked

    def since_save(self) -> float:
        return self._clock() - self._saved
