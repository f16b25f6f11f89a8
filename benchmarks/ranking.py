"""How large should the network be that ranks concepts? One run, its ranking fitted again in several sizes.

    PYTHONPATH=src python3 benchmarks/ranking.py scratch/yago4 --units 64,16,8 --fits 3

Trains credo once, keeps the rehearsed queries, and fits the ranking to them again with other seeds. Results, for each
number of units: the concept MRR of each fit on the valid table, their mean, and that of their mean scores.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from unittest import mock

import numpy as np
from numpy.typing import NDArray
from tarbox.models.calibration import Calibrator
from tarbox.training.rehearsal import Lists, fit_lists

from tarbox.benchmark.folder import Benchmark, open_benchmark
from tarbox.benchmark.tables import QueryTable
from tarbox.core.ids import Level
from tarbox.evaluation.evaluator import rank_table
from tarbox.models.credo import Credo
from tarbox.models.saved import open_run
from tarbox.training import rehearsal
from tarbox.training.session import Listeners, start
from tarbox.training.settings import read_assignments, read_recipe, resolve


@dataclass(frozen=True, slots=True)
class Several:
    """Networks, as one whose logits are the mean of theirs."""

    networks: Sequence[Calibrator]

    def logits(self, features: NDArray[np.float32]) -> NDArray[np.float32]:
        found: NDArray[np.float32] = np.mean([network.logits(features) for network in self.networks], axis=0)
        return found


def train(benchmark: Path, given: Sequence[str]) -> tuple[Credo, list[Lists], str]:
    """(the run's model, what its ranking was fitted to, the device)."""
    kept: list[tuple[list[Lists], str]] = []

    def keep(lists: list[Lists], seed: int, device: str) -> Calibrator | None:
        kept.append((lists, device))
        return fit_lists(lists, seed, device)

    settings = resolve([read_recipe("credo"), read_assignments(["validation.queries=1", *given], "credo")], "credo")
    with tempfile.TemporaryDirectory() as folder, mock.patch.object(rehearsal, "fit_lists", keep):
        start(benchmark, Path(folder) / "run", settings, Listeners([]))
        model = open_run(Path(folder) / "run").scorer()
    assert isinstance(model, Credo)
    return model, *kept[0]


def measure(model: Credo, ranking: Calibrator | Several, table: QueryTable, benchmark: Benchmark) -> float:
    """MRR x 100, the average over templates."""
    found = rank_table(replace(model, ranking=ranking), table, benchmark.excluded())  # type: ignore[arg-type]
    values, templates = np.bincount(found.rows(), 1.0 / found.ranks, len(table)), np.array(table.texts("template"))
    return 100 * float(np.mean([values[templates == one].mean() for one in np.unique(templates)]))


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("benchmark", type=Path)
    parser.add_argument("--units", default="64,32,16,8", help="of a layer, separated by commas")
    parser.add_argument("--fits", type=int, default=3)
    parser.add_argument("--set", action="append", default=[], help="a setting of the run")
    options = parser.parse_args()
    model, lists, device = train(options.benchmark, options.set)
    benchmark = open_benchmark(options.benchmark)
    table = benchmark.table("valid")
    table = table.take(np.flatnonzero(np.array(table.texts("level")) == Level.CONCEPT.value))
    print(f"{'units':>6}  {'fits':{8 * options.fits}}{'mean':>8}{'together':>10}")
    for units in map(int, options.units.split(",")):
        with mock.patch.object(rehearsal, "HIDDEN", units):
            fits = [
                fitted for seed in range(options.fits) if (fitted := fit_lists(lists, 1 + seed, device)) is not None
            ]
        each = [measure(model, fitted, table, benchmark) for fitted in fits]
        together = measure(model, Several(fits), table, benchmark)
        shown = "".join(f"{value:8.2f}" for value in each)
        print(f"{units:>6}  {shown}{np.mean(each):8.2f}{together:10.2f}", flush=True)


if __name__ == "__main__":
    main()
