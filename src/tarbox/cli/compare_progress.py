"""How a comparison goes, with the time left for all runs."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import final

from tarbox.cli.progress_line import ProgressLine, duration
from tarbox.training.comparison import Began, Ended, Job, ProgressEvent, Ranking, Trained
from tarbox.training.events import EpochEnded, Event, PartBegan, PartProgressed, Started, Ticked, Validated


@final
class Estimator:
    """The time left for all runs: a run that has not begun takes as long as others of its model, or as all others."""

    def __init__(self, waiting: Sequence[Job], at_a_time: int) -> None:
        self._waiting, self._at_a_time = list(waiting), at_a_time
        self._began: dict[Job, float] = {}
        self._left: dict[Job, float] = {}
        self._took: list[tuple[str, float]] = []

    def begin(self, job: Job, now: float) -> None:
        self._waiting = [other for other in self._waiting if other.folder != job.folder]
        self._began[job] = now

    def hear(self, job: Job, seconds_left: float, now: float) -> None:
        """What training estimates for a run; a limit in minutes may end it earlier."""
        minutes = job.settings.stopping.minutes
        limit = 60 * minutes - (now - self._began[job]) if minutes else seconds_left
        self._left[job] = max(0.0, min(seconds_left, limit))

    def end(self, job: Job, now: float) -> None:
        self._took.append((job.label, now - self._began.pop(job)))
        self._left.pop(job, None)

    def seconds_left(self, now: float) -> float | None:
        """None as long as nothing is known."""
        running = {job: now - began + self._left[job] for job, began in self._began.items() if job in self._left}
        known = [*self._took, *((job.label, seconds) for job, seconds in running.items())]
        if not known:
            return None
        rest = sum(self._left.get(job, _typical(job.label, known)) for job in self._began)
        return (rest + sum(_typical(job.label, known) for job in self._waiting)) / max(1, self._at_a_time)


def _typical(label: str, known: Sequence[tuple[str, float]]) -> float:
    own = [seconds for name, seconds in known if name == label]
    chosen = own or [seconds for _, seconds in known]
    return sum(chosen) / len(chosen)


@final
class Reporter:
    """Listens to a comparison and tells a person."""

    def __init__(
        self, jobs: Sequence[Job], line: ProgressLine, at_a_time: int = 1, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._line, self._clock = line, clock
        missing = [job for job in jobs if not job.is_finished()]
        self._total, self._done = len(missing), 0
        self._estimator = Estimator(missing, at_a_time)
        self._running: dict[Job, str] = {}
        self._parts: dict[Job, str] = {}
        self._epochs: dict[Job, int] = {}
        self._best: dict[Job, str] = {}
        line.doing = "comparing"
        if already := len(jobs) - len(missing):
            line.say(f"{already} {'run is' if already == 1 else 'runs are'} finished already")

    def __call__(self, event: ProgressEvent) -> None:
        match event:
            case Began():
                self._estimator.begin(event.job, self._clock())
                self._running[event.job] = "preparing"
                number = self._done + len(self._running)
                self._line.say(f"run {number} of {self._total}: {event.job.name}{', continued' if event.again else ''}")
            case Trained():
                self._hear(event.job, event.event)
            case Ended():
                self._end(event.job, event.failure)
            case Ranking():
                self._line.show(f"evaluating {event.name}: {100 * event.done // max(event.total, 1)}%")

    def _hear(self, job: Job, event: Event) -> None:
        match event:
            case Started():
                self._epochs[job] = event.epochs
            case PartBegan():
                self._parts[job] = f"{event.part}, "
                self._show(job, event.part, None)
            case PartProgressed():
                self._show(job, f"{event.part}, {event.done:.0%}", event.seconds_left)
            case Ticked() | EpochEnded():
                epoch = event.epoch + 1 if isinstance(event, Ticked) else event.epoch
                where = f"{self._parts.get(job, '')}epoch {epoch}/{self._epochs[job]}"
                self._show(job, where, event.seconds_left)
            case Validated():
                if event.best:
                    self._best[job] = f", best validation MRR {100 * event.mrr:.1f}"
            case _:
                pass

    def _show(self, job: Job, where: str, seconds_left: float | None) -> None:
        if seconds_left is not None:
            self._estimator.hear(job, seconds_left, self._clock())
        self._running[job] = where
        self._line.show(self._words())

    def _end(self, job: Job, failure: str | None) -> None:
        self._estimator.end(job, self._clock())
        reached = self._running.pop(job)
        self._done += 1
        self._line.say(
            f"{job.name}: {f'failed: {failure}' if failure else reached + self._best.get(job, '')}{self._rest()}"
        )

    def _words(self) -> str:
        runs = "; ".join(f"{job.name}: {where}{self._best.get(job, '')}" for job, where in self._running.items())
        return f"{self._done} of {self._total} runs done; {runs}{self._rest()}"

    def _rest(self) -> str:
        left = self._estimator.seconds_left(self._clock())
        return f"; about {duration(left)} left for all" if left and (self._done < self._total) else ""
