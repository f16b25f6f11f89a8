"""What long work shows on stderr: a line that changes on a terminal, sober lines elsewhere, no long silence."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable
from types import TracebackType
from typing import Any, Final, TextIO, final

QUIET: Final = 25.0
"""Seconds of silence after which a line is due where there is no terminal."""
BEAT: Final = 5.0
"""Seconds between two looks whether a line is due: no event may come for long."""


@final
class ProgressLine:
    """The line, while entered; `doing` is what it says where there is nothing newer."""

    def __init__(self, stream: TextIO | None = None, clock: Callable[[], float] = time.monotonic) -> None:
        self._stream, self._clock = stream or sys.stderr, clock
        self._began = self._said = clock()
        self._status: Any = None
        self._lock, self._over = threading.RLock(), threading.Event()
        self._beating = threading.Thread(target=self._beat, daemon=True)
        self.doing = "preparing"

    def __enter__(self) -> ProgressLine:
        if self._stream.isatty():
            from rich.console import Console

            self._status = Console(file=self._stream, highlight=False).status(self.doing)
            self._status.start()
        else:
            self._beating.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._over.set()
        if self._status is not None:
            self._status.stop()
        elif self._beating.is_alive():
            self._beating.join()

    def show(self, line: str) -> None:
        """On a terminal the line that changes; elsewhere a line now and then."""
        if self._status is not None:
            self._status.update(line)
        elif self._is_due():
            self.say(line)

    def say(self, line: str) -> None:
        """A line that stays."""
        with self._lock:
            self._said = self._clock()
            if self._status is not None:
                self._status.console.print(line, markup=False)
                self._status.update(self.doing)
            else:
                print(line, file=self._stream, flush=True)

    def remind(self) -> None:
        """Say what is being done, where nothing was said for long and there is no terminal."""
        with self._lock:
            if self._status is None and self._is_due():
                self.say(f"{self.doing}: {duration(self._clock() - self._began)} so far")

    def _is_due(self) -> bool:
        return self._clock() - self._said > QUIET

    def _beat(self) -> None:
        while not self._over.wait(BEAT):
            self.remind()


def duration(seconds: float) -> str:
    """A time as a person says it.

    >>> duration(3.2), duration(75), duration(7260)
    ('3 s', '1 min 15 s', '2 h 1 min')
    """
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    minutes, rest = divmod(whole, 60)
    return f"{minutes} min {rest} s" if minutes < 60 else f"{minutes // 60} h {minutes % 60} min"
