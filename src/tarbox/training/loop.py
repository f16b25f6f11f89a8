"""The loop: epochs, validation, early stopping, checkpoints, resumption.

A checkpoint holds everything that decides what comes next, so a resumed run on the CPU continues bit by bit as if it
had never stopped. Losses stay on the device; they are read once an epoch, and about once a second for the progress.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final, final

import torch

from tarbox.benchmark.tables import QueryTable
from tarbox.core.ids import Level
from tarbox.kb.facts import Facts, Ids
from tarbox.models.base import Model, Task
from tarbox.models.complex import Complex
from tarbox.models.registry import find_model
from tarbox.models.saved import build_model, sizes_of
from tarbox.training.batches import Portions
from tarbox.training.checkpoints import State, restore, snapshot
from tarbox.training.events import EpochEnded, Finished, Listener, Started, Ticked, Validated, tell
from tarbox.training.failures import StopSignals, explained, interrupted, not_a_number
from tarbox.training.hardware import Hardware, numerics
from tarbox.training.links import link_sources
from tarbox.training.negatives import Sampler
from tarbox.training.objective import Objective
from tarbox.training.run import RunFolder
from tarbox.training.settings import Settings
from tarbox.training.sources import build_sources
from tarbox.training.step import Engine, build_optimizer
from tarbox.training.stopwatch import Clock, Stopwatch
from tarbox.training.validation import Validator, left_out

TICK: Final = 1.0
"""Seconds between two looks at the losses within an epoch."""


@final
@dataclass(frozen=True, slots=True)
class Lessons:
    """What is learnt from, and what is validated on.

    `tuning` are queries to fit degrees to, with the share of the true answers that they have as targets.
    """

    facts: Facts
    train: QueryTable | None = None
    valid: QueryTable | None = None
    excluded: Mapping[Level, Ids] = field(default_factory=dict)
    tuning: tuple[QueryTable, float] | None = None


def build_engine(settings: Settings, lessons: Lessons, hardware: Hardware) -> Engine:
    """The model with fresh weights, its samples on the device, its optimizer; everything random is from the seed."""
    torch.manual_seed(settings.seed)
    kind: type[Model] = find_model(settings.model_name)
    model = build_model(kind, settings.model, sizes_of(lessons.facts)).to(hardware.device)
    tasks = settings.objective.tasks(kind.tasks)
    links = getattr(model, "links", None)
    if isinstance(links, Complex):
        sources = link_sources(lessons.facts, links.config.candidates, hardware.device)
    else:
        sources = build_sources(lessons.facts, lessons.train, settings.batches, tasks, hardware.device, model)
    portions = Portions(sources, settings.batches, hardware.device)
    objective = Objective.of(settings.objective, portions.describe(), hardware.device)
    sampler = Sampler(settings.negatives, torch.Generator(hardware.device).manual_seed(settings.seed))
    return Engine(model, portions, objective, build_optimizer(settings.optimizer, model, hardware), sampler)


@final
class Trainer:
    """One run: `train` begins it or continues it from its last checkpoint."""

    def __init__(
        self,
        settings: Settings,
        lessons: Lessons,
        hardware: Hardware,
        run: RunFolder,
        listeners: Sequence[Listener] = (),
        clock: Clock = time.monotonic,
    ) -> None:
        self.settings, self.hardware, self.run = settings, hardware, run
        self.listeners, self.clock = listeners, clock
        self.state = State()
        with explained(run.named):
            self.engine = build_engine(settings, lessons, hardware)
        self._left_out = left_out(self.engine.model, (lessons.train, lessons.valid))
        self.validator = None
        if lessons.valid is not None and len(lessons.valid):
            self.validator = Validator.of(lessons.valid, lessons.excluded, settings.validation.queries)
        self._watch = Stopwatch(clock)

    def train(self, resume: bool = False) -> State:
        """Train to the end; raises `TrainingError` where that is impossible, with the last good checkpoint kept."""
        with explained(self.run.named), numerics(self.hardware), StopSignals() as signals:
            if resume:
                restore(self.engine, self.state, *self.run.read_last())
            steps, samples = self.engine.portions.steps, self.engine.portions.samples
            began, epochs = self.state.epoch, self.settings.stopping.epochs
            tell(self.listeners, Started(began, epochs, steps, samples, self._left_out))
            step = self.engine.runner(self.hardware)
            while (reason := self._reason_to_stop()) is None:
                self._run_epoch(step, signals)
                self._validate()
            self._finish(reason)
        return self.state

    def _run_epoch(self, step: Callable[[], None], signals: StopSignals) -> None:
        engine, state = self.engine, self.state
        engine.set_rate(self._rate())
        engine.portions.begin(self.settings.seed, state.epoch, state.step)
        self.engine.model.train()
        self._watch.start(state.step)
        while state.step < engine.portions.steps:
            step()
            state.step += 1
            if signals.received:
                self._checkpoint()
                raise interrupted(self.run.named, state.epoch + 1)
            if self._watch.since_look() > TICK:
                self._look()
        self._end_epoch(self._read_losses())

    def _end_epoch(self, losses: Mapping[str, float]) -> None:
        state, portions = self.state, self.engine.portions
        rate, speed = self._rate(), self._watch.steps_per_second(state.step) * portions.samples
        state.epoch, state.step, state.seconds = state.epoch + 1, 0, state.seconds + self._watch.read()
        self._watch.stop()
        self.engine.losses_T.zero_()
        samples, seconds, left = portions.samples * portions.steps, round(state.seconds, 3), self._seconds_left()
        tell(self.listeners, EpochEnded(state.epoch, losses, samples, seconds, round(speed), left, rate))

    def _validate(self) -> None:
        """At the epochs that the settings say, and at the last one; keeps the best weights."""
        state, every = self.state, self.settings.validation.every
        if self.validator is None or (state.epoch % every and not self._spent()):
            return
        began = self.clock()
        self.engine.model.eval()
        with torch.no_grad():
            levels = self.validator(self.engine.model)
        mrr = sum(levels.values()) / max(len(levels), 1)
        better = state.best is None or mrr > state.best
        if better:
            state.best, state.best_epoch, state.stale = mrr, state.epoch, 0
            self.run.write_best(self.engine.model.state_dict(), {"epoch": state.epoch, "mrr": mrr, "levels": levels})
        else:
            state.stale += 1
        spent = round(self.clock() - began, 3)
        tell(self.listeners, Validated(state.epoch, round(state.seconds, 3), mrr, levels, better, spent))

    def _finish(self, reason: str) -> None:
        state = self.state
        state.reason = reason
        if state.best_epoch is None:  # nothing to validate on: the last weights are the best known
            self.run.write_best(self.engine.model.state_dict(), {"epoch": state.epoch})
        self._checkpoint()
        tell(self.listeners, Finished(state.epoch, round(state.seconds, 3), reason, state.best_epoch, state.best))

    def _reason_to_stop(self) -> str | None:
        tolerance = self.settings.validation.tolerance
        if tolerance and self.state.stale >= tolerance:
            return f"no better validation MRR {tolerance} times in a row"
        return self._spent()

    def _spent(self) -> str | None:
        stopping = self.settings.stopping
        if self.state.epoch >= stopping.epochs:
            return "all that were asked for"
        if stopping.minutes and self.state.seconds >= 60 * stopping.minutes:
            return f"{stopping.minutes:g} minutes of training"
        return None

    def _look(self) -> None:
        """Tell how far the epoch is, and write a checkpoint where it is time for one."""
        losses = self._read_losses()
        self._watch.look()
        speed = self._watch.steps_per_second(self.state.step) * self.engine.portions.samples
        tell(self.listeners, Ticked(self.state.epoch, self.state.step, losses, round(speed), self._seconds_left()))
        if self._watch.since_save() > 60 * self.settings.checkpoints.minutes:
            self._checkpoint()

    def _read_losses(self) -> dict[str, float]:
        """The mean loss of each task in this epoch; the one place where the loop waits for the device."""
        means = (self.engine.losses_T / max(self.state.step, 1)).tolist()
        if not all(map(math.isfinite, means)):
            raise not_a_number(self.run.named, self.state.epoch + 1)
        trained = {task for task, _ in self.engine.portions.describe()}
        return {task.value: mean for task, mean in zip(Task, means, strict=True) if task in trained}

    def _checkpoint(self) -> None:
        self._read_losses()  # a checkpoint that holds no numbers is worse than an old one
        seconds = self.state.seconds + self._watch.read()
        self.run.write_last(*snapshot(self.engine, replace(self.state, seconds=seconds)))
        self._watch.save()

    def _rate(self) -> float:
        """By the share of the epochs that are done, or of the minutes where these will end first."""
        stopping = self.settings.stopping
        spent = self.state.seconds / (60 * stopping.minutes) if stopping.minutes else 0.0
        return self.settings.optimizer.rate_at(min(1.0, max(self.state.epoch / stopping.epochs, spent)))

    def _seconds_left(self) -> float:
        """Of training to the last epoch, by the mean time of an epoch so far."""
        done = self.state.epoch + self.state.step / self.engine.portions.steps
        spent = self.state.seconds + self._watch.read()
        return round(spent / max(done, 1e-9) * (self.settings.stopping.epochs - done), 1)
