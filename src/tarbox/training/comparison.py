"""The training side of `tarbox compare`: which runs there must be, which are missing, and what each reached.

::

    DIR/
      comparison.json           the benchmark, and every model with its settings and number of seeds
      runs/LABEL/seed-N/        a run folder each, with evaluation-SPLIT.json: what it reached on which queries
      results.json tables.md tables.tex mrr.png

A folder belongs to one benchmark, and a label in it to one choice of settings: anything else is refused, since a row
that mixes two things means nothing. A finished run is never trained again; an unfinished one goes on from its last
checkpoint. What an earlier call named stays in the tables.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final, final

from tarbox.benchmark.folder import Benchmark
from tarbox.core.errors import ConfigError
from tarbox.kb.writing import replace_file
from tarbox.models.saved import CONFIG, is_run, open_run
from tarbox.training.events import METRICS_FILE, Event, read_metrics
from tarbox.training.failures import TrainingInterrupted
from tarbox.training.hardware import open_hardware
from tarbox.training.model_specs import ModelSpec, differences
from tarbox.training.session import Listeners, data_of, resume, start
from tarbox.training.settings import Settings, read_file, resolve

COMPARISON: Final = "comparison.json"
RUNS: Final = "runs"
COMPARISON_FORMAT: Final = "tarbox-comparison"
COMPARISON_VERSION: Final = 1
SEEDS: Final = 3
"""As many runs as the paper averages; one run cannot tell a difference from chance."""
COUNTING: Final = ModelSpec("counting", "counting", None, None, "counting")
"""Stands beside every comparison: it costs nothing and is hard to beat."""


@final
@dataclass(frozen=True, slots=True, eq=False)
class Job:
    """One run that must be there; a job is equal to itself only, so that what is known of it can be kept by it."""

    label: str
    seed: int
    folder: Path
    benchmark: Path
    settings: Settings

    @property
    def name(self) -> str:
        return f"{self.label}, seed {self.seed}"

    def is_finished(self) -> bool:
        return end_of(self.folder) is not None

    def is_begun(self) -> bool:
        return is_run(self.folder)


@final
@dataclass(frozen=True, slots=True)
class Plan:
    """A comparison on disk: its benchmark and its models, counting first."""

    output: Path
    benchmark: Benchmark
    models: tuple[ModelSpec, ...]
    most_at_a_time: int = 1

    def jobs(self) -> list[Job]:
        """All runs, the first seed of every model before the second of any."""
        found = [job for spec in self.models for job in self.jobs_of(spec)]
        return sorted(found, key=lambda job: job.seed)

    def jobs_of(self, spec: ModelSpec) -> Iterator[Job]:
        if spec.settings is not None:
            for seed in range(spec.seeds):
                settings = replace(spec.settings, seed=seed)
                yield Job(spec.label, seed, self.run(spec, seed), self.benchmark.path, settings)

    def run(self, spec: ModelSpec, seed: int) -> Path:
        return self.output / RUNS / spec.folder / f"seed-{seed}"


@final
@dataclass(frozen=True, slots=True)
class Began:
    """A run begins, or goes on from its checkpoint."""

    job: Job
    again: bool


@final
@dataclass(frozen=True, slots=True)
class Trained:
    """What training said about a run."""

    job: Job
    event: Event


@final
@dataclass(frozen=True, slots=True)
class Ended:
    """A run is finished, or has failed for the reason given."""

    job: Job
    failure: str | None


@final
@dataclass(frozen=True, slots=True)
class Ranking:
    """So many queries were ranked for this row, of so many."""

    name: str
    done: int
    total: int


ProgressEvent = Began | Trained | Ended | Ranking
Tell = Callable[[ProgressEvent], None]


def make_plan(output: Path, benchmark: Benchmark, named: Sequence[ModelSpec], parallel: int = 1) -> Plan:
    """Join what is named now with what an earlier call named; refuse what would mix two things; write it down.

    A model with 0 seeds has as many as before, or as the others, or `SEEDS`.
    """
    before = read_plan(output, benchmark)
    if not named and before is None:
        raise ConfigError(f"there is no comparison at {output} yet: name models, such as --models tar,gqe")
    kept = {spec.label: spec for spec in (before.models if before else ())}
    seeds = max((spec.seeds for spec in kept.values() if spec.settings is not None), default=SEEDS)
    for spec in (COUNTING, *named):
        kept[spec.label] = _join(kept.get(spec.label), spec, seeds)
    most = max(parallel, before.most_at_a_time if before else 1)
    plan = Plan(output, benchmark, tuple(kept.values()), most)
    for job in plan.jobs():
        if job.is_begun():
            _check_run(job, benchmark)
    _write_plan(plan)
    return plan


def read_plan(output: Path, benchmark: Benchmark) -> Plan | None:
    """The plan that an earlier call wrote; a folder of another benchmark or of something else is refused."""
    if not output.exists():
        return None
    file = output / COMPARISON
    if not output.is_dir() or (not file.exists() and any(output.iterdir())):
        raise ConfigError(f"{output} is not empty and holds no comparison. Name another folder.")
    if not file.exists():
        return None
    record = json.loads(file.read_bytes())
    if record.get("format") != COMPARISON_FORMAT or record.get("version") != COMPARISON_VERSION:
        raise ConfigError(f"{file} was not written by this version of tarbox compare. Name another folder.")
    if record["benchmark"] != _identity(benchmark):
        raise ConfigError(
            f"{output} compares on another benchmark than {benchmark.path} (its facts or queries differ). "
            "Figures of two benchmarks do not belong in one table: name another folder."
        )
    specs = tuple(ModelSpec.from_record(entry) for entry in record["models"])
    return Plan(output, benchmark, specs, int(record["most_at_a_time"]))


def train_in_turn(jobs: Sequence[Job], tell: Tell) -> dict[tuple[str, int], str]:
    """Train what is not finished, one run after the other; returns why runs failed, by label and seed."""
    failures = {}
    for job in jobs:
        tell(Began(job, job.is_begun()))
        failure = try_job(job, tell)
        tell(Ended(job, failure))
        if failure is not None:
            failures[job.label, job.seed] = failure
        _release()
    return failures


def try_job(job: Job, tell: Tell) -> str | None:
    """Train one run to its end; returns why that failed. An interruption is no failure: it goes through."""
    try:
        train_job(job, tell)
    except (TrainingInterrupted, KeyboardInterrupt):
        raise
    except Exception as error:  # noqa: BLE001 (a model of anyone's may raise anything; the other runs must not be lost)
        return explain(error)
    return None


def train_job(job: Job, tell: Tell) -> None:
    """Begin the run, or continue it."""
    listeners = Listeners([lambda event: tell(Trained(job, event))])
    if job.is_begun():
        table = job.settings.table()
        resume(job.folder, {key: table[key] for key in ("hardware", "checkpoints")}, listeners, job.benchmark)
        return
    shutil.rmtree(job.folder, ignore_errors=True)  # what a killed process left before it had written run.json
    start(job.benchmark, job.folder, job.settings, listeners)


def explain(error: BaseException) -> str:
    """One line about an error, with its kind where it is none of ours."""
    from tarbox.core.errors import TarboxError

    text = " ".join(str(error).split())
    return text if isinstance(error, TarboxError) else f"{type(error).__name__}: {text or 'no message'}"


def end_of(run: Path) -> Mapping[str, Any] | None:
    """What metrics.jsonl says about the end of a run; none where it has not ended."""
    if not (run / METRICS_FILE).exists():
        return None
    return next((line for line in reversed(read_metrics(run)) if line["event"] == "end"), None)


def _join(before: ModelSpec | None, now: ModelSpec, seeds: int) -> ModelSpec:
    """The same model with the greater number of seeds (`seeds` where none is said); other settings are refused."""
    if before is None:
        return replace(now, seeds=now.seeds or seeds)
    if (before.model, before.ablation_of) != (now.model, now.ablation_of):
        raise ConfigError(f"{now.label!r} is {before.model} here already. Write another name, NAME={now.model}.")
    if before.settings is not None and now.settings is not None:
        _refuse(f"{now.label!r} is in this comparison", now.model, differences(before.settings, now.settings))
    return replace(now, seeds=max(before.seeds, now.seeds))


def _check_run(job: Job, benchmark: Benchmark) -> None:
    """A run that is there must be the run that is wanted."""
    found = resolve([read_file(job.folder / CONFIG)])
    wanted = job.settings.resolved(data_of(benchmark), open_hardware(job.settings.hardware).device)
    _refuse(f"{job.folder} was trained", job.settings.model_name, differences(found, wanted))
    if open_run(job.folder).description["content_hash"] != benchmark.store.manifest["content_hash"]:
        raise ConfigError(f"{job.folder} was trained on other facts than {benchmark.path} has. Name another folder.")


def _refuse(what: str, model: str, differing: Sequence[tuple[str, Any, Any]]) -> None:
    if differing:
        shown = ", ".join(f"{key} = {was!r} (now {now!r})" for key, was, now in differing[:5])
        more = f" and {len(differing) - 5} more" if len(differing) > 5 else ""
        raise ConfigError(
            f"{what} with other settings: {shown}{more}. Give the same settings, or compare both under two names: "
            f"--models NAME={model} --set NAME:key=value."
        )


def _identity(benchmark: Benchmark) -> dict[str, Any]:
    """What makes it the same benchmark, wherever it lies."""
    return {
        "protocol": benchmark.protocol,
        "content_hash": benchmark.store.manifest["content_hash"],
        "vocabulary_hash": benchmark.store.vocabulary_hash,
        "tables": {split: benchmark.manifest["files"][split]["checksum"] for split in benchmark.splits},
    }


def _write_plan(plan: Plan) -> None:
    record = {
        "format": COMPARISON_FORMAT,
        "version": COMPARISON_VERSION,
        "benchmark": _identity(plan.benchmark),
        "most_at_a_time": plan.most_at_a_time,
        "models": [spec.record() for spec in plan.models],
    }
    plan.output.mkdir(parents=True, exist_ok=True)
    replace_file(plan.output / COMPARISON, (json.dumps(record, indent=1, ensure_ascii=False) + "\n").encode())


def _release() -> None:
    """Give memory of the device back before the next run needs it."""
    import gc

    import torch

    gc.collect()
    if torch.cuda.is_available():
        torch.cuda.empty_cache()
