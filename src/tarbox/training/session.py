"""From a store or a benchmark to a complete run: what `tarbox train` does, callable from Python.

>>> from tarbox.training.session import start                                          # doctest: +SKIP
>>> state = start("kb", "run", resolve([], "credo"))                                   # doctest: +SKIP

Every model is trained through the one seam `tarbox.models.learning.seam`.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Any, Final, final

import torch
from numpy.typing import NDArray
from torch import Tensor

from tarbox.benchmark.building import sample_training_queries
from tarbox.benchmark.folder import Benchmark, is_benchmark, open_benchmark
from tarbox.benchmark.tables import QueryTable
from tarbox.core.config import Table, merge, to_table
from tarbox.core.errors import ConfigError, StoreMissing
from tarbox.kb.store import MANIFEST, Store, open_store
from tarbox.models.learning.seam import TrainingData
from tarbox.models.registry import find_model
from tarbox.models.saved import SavedRun, is_run, open_run, what_is_at
from tarbox.models.scorer import Scorer
from tarbox.training import memory
from tarbox.training.checkpoints import State
from tarbox.training.context import TrainingContext
from tarbox.training.curves import draw_curves
from tarbox.training.events import METRICS_FILE, Finished, Listener, MetricsFile, TensorBoard, read_metrics
from tarbox.training.failures import MemoryShortage, StopSignals, TrainingError, explained
from tarbox.training.group import lead
from tarbox.training.hardware import Hardware, open_hardware
from tarbox.training.loop import Observers, nothing
from tarbox.training.reporting import ProgressReport
from tarbox.training.run import RunFolder, check_place
from tarbox.training.settings import RESUMABLE, Settings, resolve
from tarbox.training.sharded import LeaderOrder, check_processes, follow
from tarbox.training.stopwatch import Clock


@final
@dataclass(frozen=True, slots=True)
class Listeners:
    """Who is told how training goes, and the clocks."""

    each: Sequence[Listener] = ()
    clock: Clock = time.monotonic
    now: datetime | None = None


ALONE: Final = Listeners()


@final
@dataclass(frozen=True, slots=True)
class TrainingSource:
    """What a run is told to train on: a store, or a benchmark, whose training store this is."""

    store: Store
    benchmark: Benchmark | None = None

    def data(self, seed: int) -> TrainingData:
        """The facts, and what is to be learnt from them: a benchmark's own queries, or such as are sampled where they
        are wanted, of a store and of a benchmark that has none to train on."""
        facts, benchmark, axioms = self.store.facts, self.benchmark, self.store.axioms

        def sample() -> QueryTable | None:
            return sample_training_queries(facts, seed)

        if benchmark is None:
            return TrainingData(facts, queries=sample, axioms=axioms)
        own = {split: partial(benchmark.table, split) for split in benchmark.filled}
        valid = own["valid"]() if "valid" in own else None
        return TrainingData(facts, valid, benchmark.excluded(), own.get("train", sample), axioms)


def start(
    source: str | os.PathLike[str], output: str | os.PathLike[str], settings: Settings, listeners: Listeners = ALONE
) -> State:
    """Train on all facts of a store, or on the training split of a benchmark; returns where training ended."""
    check_place(Path(output))
    check_processes(settings)
    hardware = open_hardware(settings.hardware)
    opened = open_source(source)
    data = opened.data(settings.seed)
    settings = settings.resolved(data, hardware.device)
    run = RunFolder.create(output, settings, opened.store, opened.benchmark)
    with run.locked():
        try:
            return _train(run, data, settings, hardware, listeners)
        except (ConfigError, MemoryShortage):  # no one can train with these settings: the place is free for better ones
            run.discard()
            raise


def resume(
    output: str | os.PathLike[str], changes: Table, listeners: Listeners = ALONE, source: Path | None = None
) -> State:
    """Continue a run from its last checkpoint; `changes` may touch the components of `RESUMABLE` alone.

    `source` is where its benchmark or its store is now; as the run says, where None.
    """
    saved = open_run(output)
    for key in changes:
        if key not in RESUMABLE:
            raise ConfigError(f"{key} cannot change when a run is resumed; only {', '.join(RESUMABLE)} can")
    settings = resolve([merge(saved.settings, changes)])
    check_processes(settings)
    hardware = open_hardware(settings.hardware)
    run = RunFolder(saved.path)
    with run.locked():
        saved = open_run(output)  # another process may have updated it meanwhile
        if "updates" in saved.description:
            raise ConfigError(f"{saved.path} was updated: its training cannot go on. Train again on the store.")
        data = _source_of(saved, source).data(settings.seed)
        settings = settings.resolved(data, hardware.device)
        run.write_settings(settings)
        if run.is_complete():
            if to_table(settings.stopping) == saved.settings["stopping"]:
                return _ended(run)
            run.reopen()
        return _train(run, data, settings, hardware, listeners)


def open_source(source: str | os.PathLike[str]) -> TrainingSource:
    """The benchmark or the store at `source`."""
    if is_benchmark(source):
        benchmark = open_benchmark(source)
        return TrainingSource(benchmark.store, benchmark)
    if is_run(source):
        raise ConfigError(f"{source} is a run. To continue it: `tarbox train --resume -o {source}`.")
    if not (Path(source) / MANIFEST).exists():
        raise StoreMissing(f"{what_is_at(source)}. Name a benchmark or a store.")
    return TrainingSource(open_store(source))


def data_of(benchmark: Benchmark) -> TrainingData:
    """What a benchmark offers to learn from."""
    return TrainingSource(benchmark.store, benchmark).data(seed=0)


def _source_of(saved: SavedRun, named: Path | None) -> TrainingSource:
    """What the run learns from, wherever it is now; a run on a store has all of it in its own store."""
    if saved.on_store:
        if named is not None:
            saved.check_facts(open_source(named).store, named)
        return TrainingSource(saved.store)
    opened = open_source(named or saved.benchmark())
    if opened.benchmark is None:
        raise ConfigError(f"{saved.path} was trained on a benchmark, and {named} is a store. Name the benchmark.")
    saved.check_benchmark(opened.benchmark)
    saved.check_queries(opened.benchmark)
    return opened


def _train(run: RunFolder, data: TrainingData, settings: Settings, hardware: Hardware, listeners: Listeners) -> State:
    """From the last checkpoint, if there is one."""
    run.write_provenance(settings, hardware.describe(), listeners.now or datetime.now().astimezone())
    with TensorBoard(run.path) as board:
        told: list[Listener] = [MetricsFile(run.path), board, *listeners.each]
        report = ProgressReport(told, listeners.clock, hardware.memory_used)
        with explained(run.path, _smaller(settings)), _bounded(hardware) as renew, StopSignals() as signals:
            observers = Observers(report, signals, listeners.clock, renew)
            with lead(settings.hardware, follow, LeaderOrder.QUIT) as group:
                context = TrainingContext(settings, data, hardware, run, observers, group)
                state = _learn(context)
            best = (state.best_epoch, state.best)
            report.tell(Finished(state.epoch, round(state.seconds, 3), str(state.reason), *best))
    run.complete()
    try:
        draw_curves(run.path)
    except OSError as error:
        raise TrainingError(f"training is done, but {run.path / 'curves.png'} cannot be written: {error}") from error
    return state


def _learn(context: TrainingContext) -> State:
    """The one seam: the model learns, its arrays are written."""
    settings, hardware, facts = context.settings, context.hardware, context.data.facts
    kind, config = find_model(settings.model_name), settings.model_config()
    torch.manual_seed(settings.seed)
    arrays = kind.learn(config, context.data, context)

    def scorer() -> Scorer:
        return kind.of_arrays(facts, _as_numpy(arrays), config, str(hardware.device))

    state = context.finish(scorer if arrays else None)
    if context.state is None:  # what `fit` has not written already
        context.run.write_best(arrays, {"epoch": state.epoch, "mrr": state.best})
    return state


def _smaller(settings: Settings) -> str:
    """A setting that makes this model smaller: half of its width, whatever it is called."""
    widths = ((key, settings.model.get(key)) for key in ("rank", "dimension"))
    found = ((key, value) for key, value in widths if isinstance(value, int))
    return next((f"model.{key}={max(1, value // 2)}" for key, value in found), "model.dimension=128")


@contextmanager
def _bounded(hardware: Hardware) -> Iterator[Callable[[], None]]:
    """Memory as training on a processor wants it; gives what looks again at how much there is."""
    if hardware.cuda:
        yield nothing
        return
    with memory.kept(), memory.limited() as renew:
        yield renew


def _as_numpy(arrays: Mapping[str, Tensor]) -> dict[str, NDArray[Any]]:
    return {name: tensor.detach().cpu().numpy() for name, tensor in arrays.items()}


def _ended(run: RunFolder) -> State:
    """Where a complete run ended, as its metrics say."""
    lines = read_metrics(run.path) if (run.path / METRICS_FILE).exists() else []
    end = next((line for line in reversed(lines) if line["event"] == "end"), None)
    if end is None:
        return State(reason="it is complete")
    return State(end["epoch"], 0, end["best_mrr"], end["best_epoch"], seconds=end["seconds"], reason=end["reason"])
