"""What training shows, event by event."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import final

from tarbox.cli.progress_line import ProgressLine, duration
from tarbox.core.memory import in_words
from tarbox.training import events
from tarbox.training.session import Listeners


@final
class ProgressPrinter:
    """A listener that tells a person how training goes, by a line that is entered."""

    def __init__(self, line: ProgressLine) -> None:
        self._line = line
        self._epochs, self._steps, self._best = 1, 1, ""

    def __call__(self, event: events.Event) -> None:
        match event:
            case events.Started():
                self._start(event)
            case events.Ticked():
                done = f"epoch {event.epoch + 1}/{self._epochs}, {100 * event.step // self._steps}%"
                words = self._words(done, event.losses, event.samples_per_second, event.seconds_left)
                self._line.show(words, (event.epoch + event.step / self._steps) / self._epochs)
            case events.EpochEnded():
                done = f"epoch {event.epoch}/{self._epochs}"
                words = self._words(done, event.losses, event.samples_per_second, event.seconds_left)
                self._line.show(words, event.epoch / self._epochs)
            case events.Validated():
                if event.best:
                    self._best = f"  best MRR {100 * event.mrr:.1f} (epoch {event.epoch})"
                levels = ", ".join(f"{level} {100 * mrr:.1f}" for level, mrr in event.levels.items())
                self._line.say(
                    f"epoch {event.epoch}: validation MRR {levels}{'; the best so far' if event.best else ''}"
                )
            case events.PartBegan(part):
                self._line.doing = part
                self._line.say(part)
            case events.PartProgressed():
                self._line.show(f"{event.part}: {event.done:.0%}{_rest(event.seconds_left)}", event.done)
            case events.TablesAtHome():
                self._line.say(
                    f"the link predictor's tables stay in the machine's memory, in {event.shards} shards, two of which "
                    f"are on {event.device} at a time; calibration and predictions are made on the processor"
                )
            case events.MemoryPlanned():
                self._line.say(f"training will take about {_memory(event)}, beside what is in use now")
            case events.Estimated():
                memory = f", {_memory(event)}" if event.host_bytes else ""
                self._line.say(f"training will take about {duration(event.seconds)} more{memory}")
            case events.Finished():
                self._line.say(f"done after {event.epoch} epochs and {duration(event.seconds)}: {event.reason}")

    def _start(self, event: events.Started) -> None:
        self._epochs, self._steps, self._line.doing = event.epochs, event.steps, event.part or "training"
        again = f"again after epoch {event.epoch}, " if event.epoch else ""
        sizes = f"{event.epochs} epochs of {event.steps:,} steps of {event.samples:,} samples"
        self._line.say(f"{self._line.doing}: {again}{sizes}")
        if event.left_out:
            self._line.say(f"left out, since the model does not support them: {', '.join(event.left_out)}")

    def _words(self, done: str, losses: Mapping[str, float], speed: float, left: float | None) -> str:
        shown = " ".join(f"{task} {loss:.3f}" for task, loss in losses.items())
        return f"{done}  loss: {shown}  {speed:,.0f} samples/s{_rest(left)}{self._best}"


@contextmanager
def told() -> Iterator[Listeners]:
    """Who tells a person how a training goes."""
    with ProgressLine() as line:
        yield Listeners([ProgressPrinter(line)])


def _memory(event: events.MemoryPlanned | events.Estimated) -> str:
    device = f" and {in_words(event.device_bytes)} on the device" if event.device_bytes else ""
    return f"{in_words(event.host_bytes)} of memory{device}"


def _rest(seconds: float | None) -> str:
    return "" if seconds is None else f"  {duration(seconds)} left"
