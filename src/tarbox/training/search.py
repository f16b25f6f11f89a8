"""The search behind `tarbox tune` (optuna): every trial is a run folder; a search that stopped goes on where it was."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final, final

from tarbox.benchmark.folder import open_benchmark
from tarbox.core.config import Table
from tarbox.core.errors import ConfigError
from tarbox.training.failures import TrainingError, TrainingInterrupted
from tarbox.training.session import start
from tarbox.training.settings import read_assignments, resolve

JOURNAL: Final = "journal.log"
GRID: Final[Mapping[str, tuple[Any, ...]]] = MappingProxyType(
    {
        "optimizer.rate": (1e-2, 1e-3, 1e-4, 1e-5),
        "model.dimension": (128, 256, 512),
        "batches.size": (256, 512, 1024),
    }
)
"""The paper's grid, Section 4.1."""


@final
@dataclass(frozen=True, slots=True)
class Search:
    """What is searched: `choices` maps a setting to its values; `tables` fix the others."""

    source: Path
    output: Path
    model: str
    tables: tuple[Table, ...]
    choices: Mapping[str, tuple[Any, ...]]
    seed: int


@final
@dataclass(frozen=True, slots=True)
class Trial:
    """One point of the search; `mrr` is None where training failed."""

    number: int
    values: Mapping[str, Any]
    mrr: float | None
    run: Path

    def text(self) -> str:
        return ", ".join(f"{key}={value}" for key, value in self.values.items())


def read_choices(texts: Sequence[str], model: str) -> Mapping[str, tuple[Any, ...]]:
    """What options such as ``optimizer.rate=1e-2,1e-3`` ask to search."""
    found: dict[str, tuple[Any, ...]] = {}
    for text in texts:
        key, equals, values = text.partition("=")
        if not equals or not values:
            raise ConfigError(f"--search needs key=a,b,c, such as optimizer.rate=1e-2,1e-3, not {text!r}")
        for value in values.split(","):
            resolve([read_assignments([f"{key}={value}"], model)], model)  # an unknown key or value fails here
        found[key.strip()] = tuple(value.strip() for value in values.split(","))
    return found


def run_search(search: Search, trials: int, report: Callable[[Trial], None]) -> Trial | None:
    """Make trials until there are so many; returns the best."""
    import optuna
    from optuna.storages import JournalStorage
    from optuna.storages.journal import JournalFileBackend

    optuna.logging.set_verbosity(optuna.logging.WARNING)
    benchmark = open_benchmark(search.source).path
    search.output.mkdir(parents=True, exist_ok=True)
    study = optuna.create_study(
        study_name="tarbox",
        storage=JournalStorage(JournalFileBackend(str(search.output / JOURNAL))),
        sampler=optuna.samplers.TPESampler(seed=search.seed),
        direction="maximize",
        load_if_exists=True,
    )
    ended = (optuna.trial.TrialState.COMPLETE, optuna.trial.TrialState.FAIL)
    while len(study.get_trials(deepcopy=False, states=ended)) < trials:
        asked = study.ask()
        values = {key: asked.suggest_categorical(key, list(options)) for key, options in search.choices.items()}
        trial = _try(search, benchmark, asked.number, values)
        if trial.mrr is None:
            study.tell(asked, state=optuna.trial.TrialState.FAIL)
        else:
            study.tell(asked, trial.mrr)
        report(trial)
    done = study.get_trials(deepcopy=False, states=ended[:1])
    if not done:
        return None
    found = study.best_trial
    return Trial(found.number, found.params, float(found.value or 0.0), _run_of(search, found.number))


def _try(search: Search, benchmark: Path, number: int, values: Mapping[str, Any]) -> Trial:
    given = read_assignments([f"{key}={value}" for key, value in values.items()], search.model)
    folder = _run_of(search, number)
    shutil.rmtree(folder, ignore_errors=True)
    try:
        state = start(benchmark, folder, resolve([*search.tables, given], search.model))
    except TrainingInterrupted:
        raise
    except TrainingError:
        return Trial(number, values, None, folder)
    return Trial(number, values, state.best, folder)


def _run_of(search: Search, number: int) -> Path:
    return search.output / f"trial-{number}"
