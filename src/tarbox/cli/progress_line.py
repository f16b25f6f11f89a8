"""What long work shows: a bar with a line that changes on a terminal and in a notebook; elsewhere sober lines on
stderr, and no long silence."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable
from html import escape
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
        self._screen: _Terminal | _Notebook | None = None
        self._lock, self._over = threading.RLock(), threading.Event()
        self._beating = threading.Thread(target=self._beat, daemon=True)
        self._unsaid = ""
        self.doing = "preparing"

    def __enter__(self) -> ProgressLine:
        if self._stream.isatty():
            self._screen = _Terminal(self._stream, self.doing)
        elif self._stream is sys.stderr and _in_notebook():
            self._screen = _Notebook(self.doing)
        else:
            self._beating.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._over.set()
        if self._screen is not None:
            self._screen.stop()
        elif self._beating.is_alive():
            self._beating.join()

    def show(self, line: str, done: float | None = None) -> None:
        """The line that changes, with a bar for the share that is done, where that is told; elsewhere a line now and
        then."""
        if self._screen is not None:
            self._screen.update(line, done)
        elif self._is_due():
            self.say(line)
        else:
            self._unsaid = line

    def counter(self, title: str, total: int) -> Callable[[int], None]:
        """What is told how many more of `total` are done, which is what is being done now."""
        done, self.doing = 0, title

        def advance(number: int) -> None:
            nonlocal done
            done += number
            self.show(f"{title}: {done:,} of {total:,}", done / max(total, 1))

        return advance

    def say(self, line: str) -> None:
        """A line that stays; in a notebook until the next."""
        with self._lock:
            self._said, self._unsaid = self._clock(), ""
            if self._screen is not None:
                self._screen.say(line, self.doing)
            else:
                print(line, file=self._stream, flush=True)

    def remind(self) -> None:
        """Say what was shown last, or else what is being done, where nothing was said for long and there is no
        terminal."""
        with self._lock:
            if self._screen is None and self._is_due():
                self.say(self._unsaid or f"{self.doing}, {duration(self._clock() - self._began)} after the start")

    def _is_due(self) -> bool:
        return self._clock() - self._said > QUIET

    def _beat(self) -> None:
        while not self._over.wait(BEAT):
            self.remind()


@final
class _Terminal:
    def __init__(self, stream: TextIO, line: str) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeRemainingColumn

        columns = SpinnerColumn(), BarColumn(20), TimeRemainingColumn(), TextColumn("{task.description}", markup=False)
        self._bar = Progress(*columns, console=Console(file=stream, highlight=False), transient=True)
        self._task = self._bar.add_task(line, total=None)
        self._bar.start()

    def update(self, line: str, done: float | None) -> None:
        self._bar.update(self._task, description=line, completed=done or 0, total=None if done is None else 1)

    def say(self, line: str, doing: str) -> None:
        self._bar.console.print(line, markup=False)
        self.update(doing, None)

    def stop(self) -> None:
        self._bar.stop()


@final
class _Notebook:
    """One output that changes. (What rich has for notebooks are widgets of another package, which a saved notebook
    does not show.)"""

    def __init__(self, line: str) -> None:
        from IPython.display import display

        self._shown: Any = display(_notebook_line(line, None), raw=True, display_id=True)
        self._said = ""

    def update(self, line: str, done: float | None) -> None:
        self._shown.update(_notebook_line(line, done), raw=True)

    def say(self, line: str, _: str) -> None:
        self._said = line
        self.update(line, None)

    def stop(self) -> None:
        """What was said last stays."""
        self.update(self._said, None)


def _notebook_line(line: str, done: float | None) -> dict[str, str]:
    bar = "" if done is None else f'<progress max="1" value="{done:.4f}"></progress> '
    return {"text/plain": line, "text/html": bar + escape(line)}


def _in_notebook() -> bool:
    """Whether a kernel runs this, which shows what it is told to display."""
    if "IPython" not in sys.modules:
        return False
    from IPython import get_ipython

    return hasattr(get_ipython(), "kernel")


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
