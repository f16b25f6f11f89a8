"""The loop: epochs, validation, early stopping, checkpoints, resumption.

A checkpoint holds everything that decides what comes next, so a resumed run on the CPU continues bit by bit as if it
had never stopped. Losses stay on the device; they are read once an epoch, and about once a second for the progress.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, cast, final

import torch
from torch import Tensor, nn

from tarbox.models.base import Task
from tarbox.models.learning.batches import Portions, SampleSource
from tarbox.models.learning.negatives import Sampler
from tarbox.models.learning.objective import Objective
from tarbox.models.saved import WEIGHTS
from tarbox.models.scorer import Scorer
from tarbox.training.checkpoints import State, restore, snapshot
from tarbox.training.events import EpochEnded, Started, Ticked, Validated
from tarbox.training.failures import StopSignals, interrupted, not_a_number
from tarbox.training.hardware import Hardware, numerics, threads
from tarbox.training.reporting import ProgressReport
from tarbox.training.run import RunFolder, read_tensors
from tarbox.training.settings import Settings
from tarbox.training.step import Engine, Stepper, build_optimizer
from tarbox.training.stopwatch import Clock, Stopwatch
from tarbox.training.validation import Validator

TICK: Final = 1.0
"""Seconds between two looks at the clock and the losses within an epoch."""
ALL_EPOCHS: Final = "reached stopping.epochs"
ALL_MINUTES: Final = "reached stopping.minutes"


def build_engine(settings: Settings, module: nn.Module, sources: Sequence[SampleSource], hardware: Hardware) -> Engine:
    """The module, which is on the device, with its samples and a fresh optimizer."""
    portions = Portions(sources, settings.batches, hardware.device)
    objective = Objective.of(settings.objective, portions.tasks, hardware.device)
    sampler = Sampler(settings.negatives, torch.Generator(hardware.device).manual_seed(settings.seed))
    return Engine(module, portions, objective, build_optimizer(settings.optimizer, module, hardware), sampler)


@final
@dataclass(frozen=True, slots=True)
class Fit:
    """What one fit is: so many epochs, or seconds (0: no limit), written to a folder.

    `validator` is there where the module is the model itself; `left_out` are the templates that it has no meaning for.
    `part` is the name of the stage, empty for the model itself, and `span` its share of the training.
    """

    folder: RunFolder
    epochs: int
    seconds: float = 0.0
    part: str = ""
    span: tuple[float, float] = (0.0, 1.0)
    validator: Validator | None = None
    left_out: tuple[str, ...] = ()


def nothing() -> None:
    pass


@final
@dataclass(frozen=True, slots=True)
class Observers:
    """Who is told, who asks to stop, the clock, and what looks again at how much memory there is."""

    report: ProgressReport
    signals: StopSignals
    clock: Clock
    renew_limit: Callable[[], None] = nothing


@final
class Trainer:
    """One fit: `train` begins it or continues it from its last checkpoint."""

    def __init__(self, engine: Stepper, settings: Settings, hardware: Hardware, fit: Fit, observers: Observers) -> None:
        self.engine, self.settings, self.hardware, self.fit = engine, settings, hardware, fit
        self.report, self.signals, self.clock = observers.report, observers.signals, observers.clock
        self._renew_limit = observers.renew_limit
        self.state = State()
        self._watch = Stopwatch(observers.clock)

    def train(self) -> State:
        """Train to the end; raises `TrainingError` where that is impossible, with the last good checkpoint kept."""
        with numerics(self.hardware), threads(self.hardware, self.engine.operations()):
            if self.fit.folder.has_checkpoint():
                restore(self.engine, self.state, *self.fit.folder.read_last())
                self.engine.losses_T.mul_(self.state.go_on(self.engine.portions.steps))
                self.report.skip(self._done())
            reason = self._reason_to_stop()
            if reason is None:
                portions, fit = self.engine.portions, self.fit
                sizes = (self.state.epoch, fit.epochs, portions.steps, portions.samples)
                self.report.tell(Started(*sizes, fit.left_out, fit.part))
                step = self.engine.runner(self.hardware)
                self.report.start()
                while reason is None:
                    self._run_epoch(step)
                    self._validate()
                    reason = self._reason_to_stop()
                self._finish(reason)
            self.state.reason = reason
        return self.state

    def best(self) -> dict[str, Tensor]:
        """The weights of the best validation, on the CPU; where there was none, the last."""
        if self.fit.validator is None or self.state.best_epoch is None:
            return {name: tensor.detach().cpu() for name, tensor in self.engine.module.state_dict().items()}
        return read_tensors(self.fit.folder.path / WEIGHTS)[0]

    def _run_epoch(self, step: Callable[[], None]) -> None:
        """To the end of the epoch, or of the time."""
        engine, state = self.engine, self.state
        engine.set_rate(self._rate())
        engine.portions.begin(self.settings.seed, state.epoch, state.step)
        engine.module.train()
        self._watch.start(state.step)
        out_of_time = False
        while state.step < engine.portions.steps and not out_of_time:
            step()
            state.step += 1
            if self.signals.received:
                self._checkpoint()
                raise interrupted(self.fit.folder.named, self._place())
            if self._watch.since_look() > TICK:
                self._look()
                out_of_time = self._is_out_of_time()
        self._end_epoch(self._read_losses())

    def _end_epoch(self, losses: Mapping[str, float]) -> None:
        """An epoch that the time has cut off is not complete: what is said about it is said again when it is."""
        state, portions = self.state, self.engine.portions
        rate, speed = self._rate(), self._watch.steps_per_second(state.step) * portions.samples
        complete, samples = state.step == portions.steps, portions.samples * state.step
        state.seconds += self._watch.read()
        self._watch.stop()
        if complete:
            state.epoch, state.step = state.epoch + 1, 0
            self.engine.losses_T.zero_()
        told = state.epoch if complete else state.epoch + 1
        times = (round(state.seconds, 3), round(speed), self._seconds_left())
        self.report.tell(EpochEnded(told, losses, samples, *times, rate, self.fit.part))

    def _validate(self) -> None:
        """At the epochs that the settings say, and at the last one; keeps the best weights."""
        state, every, module = self.state, self.settings.validation.every, self.engine.module
        if self.fit.validator is None or (state.epoch % every and not self._spent()):
            return
        began = self.clock()
        module.eval()
        with torch.no_grad():
            levels = self.fit.validator(cast(Scorer, module))
        mrr = sum(levels.values()) / max(len(levels), 1)
        better = state.best is None or mrr > state.best
        if better:
            state.best, state.best_epoch, state.stale = mrr, state.epoch, 0
            self._write_best({"mrr": mrr, "levels": levels})
        else:
            state.stale += 1
        spent = round(self.clock() - began, 3)
        self.report.tell(Validated(state.epoch, round(state.seconds, 3), mrr, levels, better, spent))

    def _write_best(self, about: Mapping[str, Any]) -> None:
        self.fit.folder.write_best(self.engine.module.state_dict(), {"epoch": self.state.epoch, **about})

    def _finish(self, reason: str) -> None:
        self.state.reason = reason
        if not self.fit.part and self.state.best_epoch is None:  # nothing to validate on: the last weights are the best
            self._write_best({})
        self._checkpoint()

    def _reason_to_stop(self) -> str | None:
        tolerance = self.settings.validation.tolerance
        if tolerance and self.state.stale >= tolerance:
            return f"no better validation MRR {tolerance} times in a row"
        return self._spent()

    def _spent(self) -> str | None:
        if self.state.epoch >= self.fit.epochs:
            return ALL_EPOCHS
        return ALL_MINUTES if self._is_out_of_time() else None

    def _is_out_of_time(self) -> bool:
        return bool(self.fit.seconds) and self.state.seconds + self._watch.read() >= self.fit.seconds

    def _look(self) -> None:
        """Tell how far the epoch is, and write a checkpoint where it is time for one."""
        losses = self._read_losses()
        self._watch.look()
        self._renew_limit()
        speed = self._watch.steps_per_second(self.state.step) * self.engine.portions.samples
        left = self._seconds_left()
        self.report.tell(Ticked(self.state.epoch, self.state.step, losses, round(speed), left))
        if self._watch.since_save() > 60 * self.settings.checkpoints.minutes:
            self._checkpoint()

    def _read_losses(self) -> dict[str, float]:
        """The mean loss of each task in this epoch; the one place where the loop waits for the device."""
        means = (self.engine.losses_T / max(self.state.step, 1)).tolist()
        if not all(map(math.isfinite, means)):
            raise not_a_number(self.fit.folder.named, self.state.epoch + 1)
        trained = self.engine.portions.tasks
        return {task.value: mean for task, mean in zip(Task, means, strict=True) if task in trained}

    def _checkpoint(self) -> None:
        self._read_losses()  # a checkpoint that holds no numbers is worse than an old one
        seconds = self.state.seconds + self._watch.read()
        self.engine.collect()
        state = replace(self.state, seconds=seconds, steps=self.engine.portions.steps)
        self.fit.folder.write_last(*snapshot(self.engine, state), self.engine.shards)
        self._watch.save()

    def _rate(self) -> float:
        """By the share of the epochs that are done, or of the time where that will end first."""
        spent = self.state.seconds / self.fit.seconds if self.fit.seconds else 0.0
        done = min(1.0, max(self.state.epoch / self.fit.epochs, spent))
        first, last = self.fit.span
        return self.settings.optimizer.rate_at(first + done * (last - first))

    def _done(self) -> float:
        """The share of this fit that is done, by its epochs or its time."""
        epochs = (self.state.epoch + self.state.step / self.engine.portions.steps) / self.fit.epochs
        seconds = self.state.seconds + self._watch.read()
        return min(1.0, max(epochs, seconds / self.fit.seconds if self.fit.seconds else 0.0))

    def _seconds_left(self) -> float | None:
        """Of the whole training; None as long as that is not known."""
        self.report.advance(self._done())
        left = self.report.seconds_left()
        return None if left is None else round(left, 1)

    def _place(self) -> str:
        return f"epoch {self.state.epoch + 1}" + (f" of {self.fit.part}" if self.fit.part else "")
