"""What a run offers to a model that learns (`tarbox.models.learning.seam.RunContext`), on this machine."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Final, cast, final
from weakref import WeakKeyDictionary

import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from tarbox.benchmark.options import EVALUATION_ONLY
from tarbox.evaluation.evaluator import answerable
from tarbox.models.base import Trainable
from tarbox.models.complex import Complex
from tarbox.models.learning.batches import BatchConfig, SampleSource
from tarbox.models.learning.objective import ObjectiveConfig
from tarbox.models.learning.seam import Stage, TrainingData
from tarbox.models.registry import find_model
from tarbox.models.scorer import Scorer
from tarbox.query.templates import TEMPLATES
from tarbox.training.checkpoints import State
from tarbox.training.events import MemoryPlanned, TablesAtHome, Validated
from tarbox.training.failures import StopSignals, interrupted, require_memory
from tarbox.training.group import ProcessGroup
from tarbox.training.hardware import Hardware
from tarbox.training.loop import ALL_EPOCHS, Fit, Observers, Trainer, build_engine
from tarbox.training.reporting import ProgressReport
from tarbox.training.run import RunFolder, write_tensors
from tarbox.training.settings import Settings
from tarbox.training.sharded import ShardedEngine
from tarbox.training.sharding import shards_needed
from tarbox.training.step import Engine, Stepper
from tarbox.training.validation import Validator

NOTHING_LEARNT: Final = "there is nothing to train"


@final
class TrainingContext:
    """A run in the making: fits what a model asks for, keeps it, and knows in `state` where training is. A `group` of
    processes fits a link predictor together."""

    def __init__(
        self,
        settings: Settings,
        data: TrainingData,
        hardware: Hardware,
        run: RunFolder,
        observers: Observers,
        group: ProcessGroup | None = None,
    ) -> None:
        self.settings, self.data, self.hardware, self.run = settings, data, hardware, run
        self._observers, self._group = observers, group or ProcessGroup.alone(hardware.device)
        self._shards = settings.hardware.shards
        self._began = observers.clock()
        self._optimizers: WeakKeyDictionary[nn.Module, torch.optim.Optimizer] = WeakKeyDictionary()
        self._validator = None
        if data.valid is not None and len(data.valid):
            self._validator = Validator(data.valid.thinned(settings.validation.queries), data.excluded)
        self.state: State | None = None
        """Where the fit of the model itself ended; None for a model that has none."""

    @property
    def seed(self) -> int:
        return self.settings.seed

    @property
    def device(self) -> torch.device:
        return self.hardware.device

    @property
    def batches(self) -> BatchConfig:
        return self.settings.batches

    @property
    def objective(self) -> ObjectiveConfig:
        return self.settings.objective

    @property
    def epochs(self) -> int:
        return self.settings.stopping.epochs

    def plan(self, shares: Mapping[str, float]) -> None:
        self._observers.report.plan(shares)

    def begin(self, part: str) -> None:
        self._heed(part)
        self._observers.report.begin(part)

    def progress(self, done: float) -> None:
        self._heed(self._observers.report.part)
        self._observers.report.progress(done)

    def fit(self, module: nn.Module, sources: Sequence[SampleSource], stage: Stage | None = None) -> dict[str, Tensor]:
        """See `RunContext.fit`; the arrays are on the CPU, the module stays where it is."""
        engine = self._build_engine(module, sources)
        before = module if stage is None or stage.after is None else stage.after
        if (earlier := self._optimizers.get(before)) is not None:
            for own, other in zip(module.parameters(), before.parameters(), strict=True):
                engine.optimizer.state[own] = {key: value.clone() for key, value in earlier.state[other].items()}
        self._optimizers[module] = engine.optimizer
        fit = self._fit_of_model(module) if stage is None else self._fit_of_stage(stage)
        trainer = Trainer(engine, self.settings, self.hardware, fit, self._observers)
        try:
            state = trainer.train()
        finally:
            if isinstance(engine, ShardedEngine):
                engine.release()
        if stage is None:
            self.state = state
        return trainer.best()

    def save(self, name: str, arrays: Mapping[str, NDArray[Any]]) -> None:
        tensors = {key: torch.from_numpy(array) for key, array in arrays.items()}
        write_tensors(self.run.path / name, tensors, {})

    def home_of_tables(self, resident: int, tables: int, others: int) -> torch.device:
        shards, left = self._shards, self.hardware.memory_left()[1]
        if not shards and self.settings.optimizer.kind == "adagrad":
            shards = shards_needed(resident, tables, others, left)
        if not shards:
            return self.hardware.device
        self._shards = shards if self._group.size == 1 else 0
        self._observers.report.tell(TablesAtHome(str(self.hardware.device), self._shards or 2 * self._group.size))
        return torch.device("cpu")

    def require_memory(self, host: int, device: int, advice: str) -> None:
        of_machine, of_device = self.hardware.memory_left()
        require_memory(host, of_machine, "of the machine's memory", advice)
        require_memory(device, of_device, f"of the memory of {self.hardware.device}", advice)
        self._observers.report.tell(MemoryPlanned(host, device))

    def finish(self, scorer: Callable[[], Scorer] | None) -> State:
        """Where training ended. A model that was put together from parts is validated now, once; None is one that had
        nothing to learn."""
        if scorer is None:
            return State(reason=NOTHING_LEARNT)
        if self.state is not None:
            return self.state
        clock = self._observers.clock
        state = State(self.settings.stopping.epochs, seconds=clock() - self._began, reason=ALL_EPOCHS)
        if self._validator is not None and (levels := self._validator(scorer())):
            state.best, state.best_epoch = sum(levels.values()) / len(levels), state.epoch
            seconds, spent = round(state.seconds, 3), round(clock() - self._began - state.seconds, 3)
            self._observers.report.tell(Validated(state.epoch, seconds, state.best, levels, True, spent))
        return state

    def _build_engine(self, module: nn.Module, sources: Sequence[SampleSource]) -> Stepper:
        if self._group.size == 1 and not self._shards:
            return build_engine(self.settings, module, sources, self.hardware)
        settings = replace(self.settings, hardware=replace(self.settings.hardware, shards=self._shards))
        return ShardedEngine(self._group, settings, cast(Complex, module), sources, self.hardware)

    def _fit_of_model(self, module: nn.Module) -> Fit:
        scorer = cast(Scorer, module)
        lacking = _unsupported(scorer) if self.data.valid is None else answerable(scorer, self.data.valid)[1]
        fit = Fit(self.run, self.settings.stopping.epochs, 60 * self.settings.stopping.minutes)
        return replace(fit, validator=self._validator, left_out=lacking)

    def _fit_of_stage(self, stage: Stage) -> Fit:
        """Its time is the share of the minutes that the plan gives to the part under way."""
        seconds = 60 * self.settings.stopping.minutes * (self._observers.report.share or 1.0)
        return Fit(self.run.part(stage.name), stage.epochs, seconds, stage.name, stage.span)

    def _heed(self, part: str) -> None:
        """Stop where someone has asked for it, and see how much memory there is now."""
        self._observers.renew_limit()
        if self._observers.signals.received:
            raise interrupted(self.run.named, part or "training")


def _unsupported(scorer: Scorer) -> tuple[str, ...]:
    """The templates of training queries that the model has no meaning for."""
    trained = (given for name, given in TEMPLATES.items() if name not in EVALUATION_ONLY)
    return tuple(given.name for given in trained if not scorer.supports(given.shape))


def engine_of(settings: Settings, data: TrainingData, hardware: Hardware) -> Engine:
    """What `fit` begins with for a model that learns by gradient, without a run: to look at, or to measure."""
    torch.manual_seed(settings.seed)
    observers = Observers(ProgressReport((), time.monotonic), StopSignals(), time.monotonic)
    context = TrainingContext(settings, data, hardware, RunFolder(Path()), observers)
    kind = cast(type[Trainable], find_model(settings.model_name))
    model = kind.begin(settings.model_config(), data.facts).to(hardware.device)
    return build_engine(settings, model, model.sources(data, context), hardware)
