"""What training shows: a live line on a terminal, sober lines elsewhere; all on stderr."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Mapping
from types import TracebackType
from typing import Any, Final, TextIO, final

from tarbox.training.events import (
    EpochEnded,
    Estimated,
    Event,
    Finished,
    PartBegan,
    PartProgressed,
    Started,
    Ticked,
    Validated,
)
from tarbox.training.memory import in_words

QUIET: Final = 25.0
"""Seconds of silence after which a line is due where there is no terminal."""
BEAT: Final = 5.0
"""Seconds between two looks whether a line is due: no event may come for long."""


@final
class ProgressPrinter:
    """A listener that tells a person how training goes."""

    def __init__(self, stream: TextIO | None = None, clock: Callable[[], float] = time.monotonic) -> None:
        self._stream = stream or sys.stderr
        self._clock = clock
        self._began = self._said = clock()
        self._live = self._stream.isatty()
        self._status: Any = None
        self._lock, self._over = threading.RLock(), threading.Event()
        self._beating: threading.Thread | None = None
        self._epochs, self._steps = 0, 1
        self._doing, self._best = "preparing", ""

    def __enter__(self) -> ProgressPrinter:
        if self._live:
            from rich.console import Console

            self._status = Console(file=self._stream, highlight=False).status(self._doing)
            self._status.start()
        else:
            self._beating = threading.Thread(target=self._beat, daemon=True)
            self._beating.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._over.set()
        if self._beating is not None:
            self._beating.join()
        if self._status is not None:
            self._status.stop()

    def __call__(self, event: Event) -> None:
        with self._lock:
            self._hear(event)

    def remind(self) -> None:
        """Say what is being done, where nothing was said for long and there is no terminal."""
        with self._lock:
            if not self._live and self._clock() - self._said > QUIET:
                self._say(f"{self._doing}: {duration(self._clock() - self._began)} so far")

    def _beat(self) -> None:
        while not self._over.wait(BEAT):
            self.remind()

    def _hear(self, event: Event) -> None:
        match event:
            case Started():
                self._start(event)
            case Ticked():
                done = f"epoch {event.epoch + 1}/{self._epochs}, {100 * event.step // self._steps}%"
                self._show(self._line(done, event.losses, event.samples_per_second, event.seconds_left))
            case EpochEnded():
                done = f"epoch {event.epoch}/{self._epochs}"
                self._show(self._line(done, event.losses, event.samples_per_second, event.seconds_left))
            case Validated():
                if event.best:
                    self._best = f"  best MRR {100 * event.mrr:.1f} (epoch {event.epoch})"
                levels = ", ".join(f"{level} {100 * mrr:.1f}" for level, mrr in event.levels.items())
                self._say(f"epoch {event.epoch}: validation MRR {levels}{'; the best so far' if event.best else ''}")
            case PartBegan(part):
                self._doing = part
                self._say(part)
            case PartProgressed():
                self._show(f"{event.part}: {event.done:.0%}{_rest(event.seconds_left)}")
            case Estimated():
                device = f" and {in_words(event.device_bytes)} on the device" if event.device_bytes else ""
                memory = f", {in_words(event.host_bytes)} of memory{device}" if event.host_bytes else ""
                self._say(f"training will take about {duration(event.seconds)} more{memory}")
            case Finished():
                self._say(f"done after {event.epoch} epochs and {duration(event.seconds)}: {event.reason}")

    def _start(self, event: Started) -> None:
        self._epochs, self._steps, self._doing = event.epochs, event.steps, event.part or "training"
        again = f"again after epoch {event.epoch}, " if event.epoch else ""
        sizes = f"{event.epochs} epochs of {event.steps:,} steps of {event.samples:,} samples"
        self._say(f"{self._doing}: {again}{sizes}")
        if event.left_out:
            self._say(f"left out, since the model does not support them: {', '.join(event.left_out)}")

    def _line(self, done: str, losses: Mapping[str, float], speed: float, left: float | None) -> str:
        shown = " ".join(f"{task} {loss:.3f}" for task, loss in losses.items())
        return f"{done}  loss: {shown}  {speed:,.0f} samples/s{_rest(left)}{self._best}"

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
            self._status.update(self._doing)
        else:
            print(line, file=self._stream, flush=True)


def _rest(seconds: float | None) -> str:
    return "" if seconds is None else f"  {duration(seconds)} left"


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
