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
from tarbox.core.errors import ConfigError, StoreMissing
from tarbox.kb.store import MANIFEST, open_store
from tarbox.models.saved import is_run, open_run, trainable_class, what_is_at
from tarbox.models.scorer import Rehearsed
from tarbox.training.checkpoints import State
from tarbox.training.curves import draw_curves
from tarbox.training.events import Listener, MetricsFile, TensorBoard
from tarbox.training.failures import TrainingError
from tarbox.training.hardware import Hardware, open_hardware
from tarbox.training.loop import Lessons, Trainer
from tarbox.training.reasoning import PREDICTOR, Audience, read_finished, train_reasoner
from tarbox.training.run import RunFolder, check_place
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
    check_place(Path(output))
    hardware = open_hardware(settings.hardware)
    benchmark = open_source(source, Path(output), settings.seed)
    run = RunFolder.create(output, settings, benchmark)
    with run.locked():
        try:
            if trainable_class(settings.model_name) is None:
                run.write_provenance(settings, {}, surroundings.now or datetime.now().astimezone())
                return State(reason="there is nothing to train")
            return _train(run, benchmark, settings, hardware, surroundings)
        except ConfigError:  # settings that no one can train with: the place is free for better ones
            run.discard()
            raise


def resume(
    output: str | os.PathLike[str], changes: Table, surroundings: Surroundings = ALONE, source: Path | None = None
) -> State:
    """Continue a run from its last checkpoint; `changes` may touch the components of `RESUMABLE` alone.

    `source` is where its benchmark is now, or the store that was divided for it; as the run says, where None.
    """
    saved = open_run(output)
    for key in changes:
        if key not in RESUMABLE:
            raise ConfigError(f"{key} cannot change when a run is resumed; only {', '.join(RESUMABLE)} can")
    settings = resolve([merge(saved.settings, changes)])
    hardware = open_hardware(settings.hardware)
    run = RunFolder(saved.path)
    with run.locked():
        benchmark = open_source(source or saved.benchmark(), saved.path, settings.seed, build=False)
        saved.check_benchmark(benchmark)
        saved.check_queries(benchmark)
        run.write_settings(settings)
        if trainable_class(settings.model_name) is None:
            return State(reason="there is nothing to train")
        if _is_rehearsed(settings) and to_table(settings.stopping) == saved.settings["stopping"]:
            finished = read_finished(run)
            if finished is not None:
                return finished
        return _train(run, benchmark, settings, hardware, surroundings)


def lessons_of(benchmark: Benchmark) -> Lessons:
    """What a benchmark offers to learn from."""
    tables: dict[str, Any] = {
        split: benchmark.table(split) for split in ("train", "valid") if split in benchmark.splits
    }
    train, valid = tables.get("train"), tables.get("valid")
    return Lessons(benchmark.store.facts, train, valid, benchmark.excluded(), benchmark.tuning())


def open_source(source: str | os.PathLike[str], output: Path, seed: int, build: bool = True) -> Benchmark:
    """The benchmark at `source`; a store is divided and its queries sampled, into a folder beside the run.

    What is in that folder already is taken where it is the same benchmark, and never replaced. Without `build` it must
    be there.
    """
    if is_benchmark(source):
        return open_benchmark(source)
    if is_run(source):
        raise ConfigError(f"{source} is a run. To continue it: `tarbox train --resume -o {source}`.")
    if not (Path(source) / MANIFEST).exists():
        raise StoreMissing(f"{what_is_at(source)}. Name a benchmark or a store.")
    from tarbox.benchmark.building import build_benchmark, find_difference
    from tarbox.benchmark.options import BenchmarkOptions

    store = open_store(source)
    options = BenchmarkOptions(seed=seed, workers=os.cpu_count() or 1)
    folder = output.with_name(f"{output.name}-{BENCHMARK}")
    if not is_benchmark(folder):
        if not build:
            raise StoreMissing(f"{source} is a store, and the benchmark made of it is not at {folder}. Name its place.")
        build_benchmark(store.facts, options, folder, origin=store)
    benchmark = open_benchmark(folder)
    difference = find_difference(benchmark, store, options)
    if difference is not None:
        raise ConfigError(
            f"{folder} is not the benchmark that would be made of {source} for this run: {difference}. "
            f"Name another folder with -o, remove {folder}, or give it as the benchmark, instead of {source}."
        )
    return benchmark


def _train(
    run: RunFolder, benchmark: Benchmark, settings: Settings, hardware: Hardware, surroundings: Surroundings
) -> State:
    """From the last checkpoint, if there is one."""
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
