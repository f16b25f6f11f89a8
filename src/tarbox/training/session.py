"""From a benchmark or a store to a finished run: what `tarbox train` does, callable from Python.

>>> from tarbox.training.session import start                                          # doctest: +SKIP
>>> state = start("bench", "run", resolve([], "tar"))                                  # doctest: +SKIP
"""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any, Final, final

from tarbox.benchmark.folder import Benchmark, is_benchmark, open_benchmark
from tarbox.core.config import Table, merge, to_table
from tarbox.core.errors import ConfigError
from tarbox.kb.store import open_store
from tarbox.models.saved import check_vocabulary, is_run, open_run, trainable_class
from tarbox.models.scorer import Rehearsed
from tarbox.training.checkpoints import State
from tarbox.training.curves import draw_curves
from tarbox.training.events import Listener, MetricsFile, TensorBoard
from tarbox.training.failures import TrainingError
from tarbox.training.hardware import open_hardware
from tarbox.training.loop import Lessons, Trainer
from tarbox.training.reasoning import PREDICTOR, Audience, read_finished, train_reasoner
from tarbox.training.run import RunFolder
from tarbox.training.settings import RESUMABLE, Settings, resolve
from tarbox.training.stopwatch import Clock

BENCHMARK: Final = "benchmark"
"""The folder of a benchmark that was made inside a run."""


@final
@dataclass(frozen=True, slots=True)
class Surroundings:
    """Who listens, and the clocks."""

    listeners: Sequence[Listener] = ()
    clock: Clock = time.monotonic
    now: datetime | None = None


ALONE: Final = Surroundings()


def start(
    source: str | os.PathLike[str],
    output: str | os.PathLike[str],
    settings: Settings,
    surroundings: Surroundings = ALONE,
) -> State:
    """Train on a benchmark, or on a store, which is then divided inside the run; returns where training ended."""
    benchmark = open_source(source, Path(output), settings.seed)
    run = RunFolder.create(output, settings, benchmark.path, benchmark.store)
    if trainable_class(settings.model_name) is None:
        run.write_provenance(settings, {}, surroundings.now or datetime.now().astimezone())
        return State(reason="there is nothing to train")
    return _train(run, benchmark, settings, surroundings)


def resume(
    output: str | os.PathLike[str], changes: Table, surroundings: Surroundings = ALONE, source: Path | None = None
) -> State:
    """Continue a run from its last checkpoint; `changes` may touch the components of `RESUMABLE` alone."""
    saved = open_run(output)
    for key in changes:
        if key not in RESUMABLE:
            raise ConfigError(f"{key} cannot change when a run is resumed; only {', '.join(RESUMABLE)} can")
    settings = resolve([merge(saved.settings, changes)])
    benchmark = open_benchmark(source or saved.benchmark())
    check_vocabulary(saved.path, saved.description["vocabulary_hash"], benchmark.store)
    run = RunFolder(saved.path)
    run.write_settings(settings)
    if trainable_class(settings.model_name) is None:
        return State(reason="there is nothing to train")
    if _is_rehearsed(settings) and to_table(settings.stopping) == saved.settings["stopping"]:
        finished = read_finished(run)
        if finished is not None:
            return finished
    return _train(run, benchmark, settings, surroundings)


def lessons_of(benchmark: Benchmark) -> Lessons:
    """What a benchmark offers to learn from."""
    tables: dict[str, Any] = {
        split: benchmark.table(split) for split in ("train", "valid") if split in benchmark.splits
    }
    train, valid = tables.get("train"), tables.get("valid")
    return Lessons(benchmark.store.facts, train, valid, benchmark.excluded(), benchmark.tuning())


def open_source(source: str | os.PathLike[str], output: Path, seed: int) -> Benchmark:
    """The benchmark at `source`; a store is divided and its queries sampled, into a folder beside the run."""
    if is_benchmark(source):
        return open_benchmark(source)
    if is_run(source):
        raise ConfigError(f"{source} is a run. To continue it: `tarbox train --resume -o {source}`.")
    from tarbox.benchmark.building import build_benchmark
    from tarbox.benchmark.options import BenchmarkOptions

    facts = open_store(source).facts
    folder = output.with_name(f"{output.name}-{BENCHMARK}")
    if not is_benchmark(folder):
        build_benchmark(facts, BenchmarkOptions(seed=seed, workers=os.cpu_count() or 1), folder)
    return open_benchmark(folder)


def _train(run: RunFolder, benchmark: Benchmark, settings: Settings, surroundings: Surroundings) -> State:
    """From the last checkpoint, if there is one."""
    hardware = open_hardware(settings.hardware)
    run.write_provenance(settings, hardware.describe(), surroundings.now or datetime.now().astimezone())
    rehearsed = _is_rehearsed(settings)
    recorded = run.part(PREDICTOR) if rehearsed else run  # whose epochs the metrics are about
    finished = int(recorded.read_last()[1]["epoch"]) if recorded.has_checkpoint() else 0
    with TensorBoard(run.path) as board:
        listeners: list[Listener] = [MetricsFile(run.path, finished), board, *surroundings.listeners]
        if rehearsed:
            audience = Audience(surroundings.listeners, listeners[:2], surroundings.clock)
            state = train_reasoner(settings, lessons_of(benchmark), hardware, run, audience)
        else:
            trainer = Trainer(settings, lessons_of(benchmark), hardware, run, listeners, surroundings.clock)
            state = trainer.train(run.has_checkpoint())
    try:
        draw_curves(run.path)
    except OSError as error:
        raise TrainingError(f"training is done, but {run.path / 'curves.png'} cannot be written: {error}") from error
    return state


def _is_rehearsed(settings: Settings) -> bool:
    kind = trainable_class(settings.model_name)
    return kind is not None and issubclass(kind, Rehearsed)
