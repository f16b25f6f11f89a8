"""What training shows: a live line on a terminal, sober lines elsewhere; all on stderr."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Mapping
from types import TracebackType
from typing import Any, Final, TextIO, final

from tarbox.training.events import EpochEnded, Event, Finished, Phase, Started, Ticked, Validated

QUIET: Final = 30.0
"""Seconds between two lines about epochs where there is no terminal."""


@final
class Narrator:
    """A listener that tells a person how training goes."""

    def __init__(self, stream: TextIO | None = None, clock: Callable[[], float] = time.monotonic) -> None:
        self._stream = stream or sys.stderr
        self._clock = clock
        self._said = clock()
        self._live = self._stream.isatty()
        self._status: Any = None
        self._epochs, self._steps = 0, 1
        self._best = "none yet"

    def __enter__(self) -> Narrator:
        if self._live:
            from rich.console import Console

            self._status = Console(file=self._stream, highlight=False).status("preparing")
            self._status.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        if self._status is not None:
            self._status.stop()

    def __call__(self, event: Event) -> None:
        match event:
            case Started():
                self._epochs, self._steps = event.epochs, event.steps
                again = f"again after epoch {event.epoch}, " if event.epoch else ""
                self._say(
                    f"training: {again}{event.epochs} epochs of {event.steps:,} steps of {event.samples:,} samples"
                )
                if event.left_out:
                    self._say(f"left out, since the model has no meaning for them: {', '.join(event.left_out)}")
            case Ticked():
                done = f"epoch {event.epoch + 1}/{self._epochs}, {100 * event.step // self._steps}%"
                self._show(self._line(done, event.losses, event.samples_per_second, event.seconds_left))
            case EpochEnded():
                done = f"epoch {event.epoch}/{self._epochs}"
                self._show(self._line(done, event.losses, event.samples_per_second, event.seconds_left))
            case Validated():
                if event.best:
                    self._best = f"{100 * event.mrr:.1f} (epoch {event.epoch})"
                levels = ", ".join(f"{level} {100 * mrr:.1f}" for level, mrr in event.levels.items())
                self._say(f"epoch {event.epoch}: validation MRR {levels}{'; the best so far' if event.best else ''}")
            case Phase(name):
                self._say(name)
                if self._status is not None:
                    self._status.update(name)
            case Finished():
                self._say(f"done after {event.epoch} epochs and {duration(event.seconds)}: {event.reason}")

    def _line(self, done: str, losses: Mapping[str, float], speed: float, left: float) -> str:
        shown = " ".join(f"{task} {loss:.3f}" for task, loss in losses.items())
        return f"{done}  loss: {shown}  {speed:,.0f} samples/s  {duration(left)} left  best MRR {self._best}"

    def _show(self, line: str) -> None:
        """On a terminal the line that changes; elsewhere a line now and then."""
        if self._status is not None:
            self._status.update(line)
        elif not self._live and self._clock() - self._said > QUIET:
            self._say(line)

    def _say(self, line: str) -> None:
        self._said = self._clock()
        if self._status is not None:
            self._status.console.print(line, markup=False)
        else:
            print(line, file=self._stream, flush=True)


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
