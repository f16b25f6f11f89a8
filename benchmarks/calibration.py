"""Are the baselines as good as their authors'? On FB15k-237 with its own split, against the published averages.

    tarbox kb build ../shared/data/fb15k-237 -o scratch/kb-fb15k
    PYTHONPATH=src python3 benchmarks/calibration.py --minutes 6

As BetaE's queries: 1p asks every (entity, relation, direction) that has a test fact; the other eight templates are
sampled by the honest protocol, `--test` of each; training has every assertion both ways and `--train` queries each of
2p, 3p, 2i, 3i, sampled on the spot. Entity level alone, as published. All models train at the same time, each in a
process of its own, so `--minutes` of the clock are that many divided by the number of models of a GPU's time for each.
Results are printed as a table and written to $OUT/calibration.json.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch

from tarbox.benchmark.building import build_benchmark
from tarbox.benchmark.folder import open_benchmark
from tarbox.benchmark.options import BenchmarkOptions
from tarbox.benchmark.tables import Lists, QueryTable, render_shape
from tarbox.core.ids import Level
from tarbox.evaluation.evaluator import rank_table
from tarbox.kb.facts import Facts
from tarbox.kb.splits import SplitBy, split_honestly
from tarbox.kb.store import open_store
from tarbox.models.registry import find_model
from tarbox.models.saved import open_run
from tarbox.query.templates import TEMPLATES
from tarbox.training.events import EpochEnded, Event
from tarbox.training.session import Surroundings, start
from tarbox.training.settings import read_assignments, read_recipe, resolve

EPFO = ("1p", "2p", "3p", "2i", "3i", "pi", "ip", "2u", "up")
PUBLISHED = {
    "gqe": (35.0, 16.3),
    "q2b": (40.6, 20.1),
    "beta": (39.0, 20.9),
    "fuzzqe": (42.8, 24.0),
    "cqd": (46.7, 22.3),
}
"""MRR x 100 of 1p and of the average of nine templates, on BetaE's queries (their papers)."""


def build(store: Path, folder: Path, train: int, test: int) -> None:
    """The benchmark, and beside it all 1p queries of the test facts."""
    facts = open_store(store).facts
    shapes = {name: TEMPLATES[name].shape for name in EPFO}
    workers = os.cpu_count() or 1
    options = BenchmarkOptions(split=SplitBy.COLUMN, counts=(train, 20, test), shapes=shapes, workers=workers)
    build_benchmark(facts, options, folder)
    split = split_honestly(facts, options.seed, SplitBy.COLUMN)
    one_hop = ask_every_fact(split.stages["valid"].facts, split.whole)
    np.savez(folder / "one-hop.npz", **one_hop)


def ask_every_fact(earlier: Facts, later: Facts) -> dict[str, Any]:
    """Columns of the 1p queries that have an answer in `later` alone: slots, targets, other true answers."""
    entities = len(later.vocabulary.entities)

    def both(facts: Facts) -> Any:
        heads, relations, tails = (column.astype(np.int64) for column in (facts.heads, facts.relations, facts.tails))
        forward = (2 * relations * entities + tails) * entities + heads
        return np.sort(np.concatenate([forward, ((2 * relations + 1) * entities + heads) * entities + tails]))

    links = both(later)
    hard = ~np.isin(links, both(earlier))
    ways, answers = np.divmod(links, entities)
    asked = np.unique(ways[hard])
    inside = np.isin(ways, asked)
    place = np.asarray(np.searchsorted(asked, ways))
    found: dict[str, Any] = {"slots": np.stack(np.divmod(asked, entities), axis=1).astype(np.int32)}
    for name, chosen in (("target", inside & hard), ("known", inside & ~hard)):
        found[f"{name}_offsets"] = np.searchsorted(place[chosen], np.arange(len(asked) + 1))
        found[f"{name}_values"] = answers[chosen].astype(np.int32)
    return found


def one_hop_table(folder: Path) -> QueryTable:
    columns = np.load(folder / "one-hop.npz")
    size = len(columns["slots"])
    lists = {
        name: Lists(columns[f"{name}_offsets"].astype(np.int64), columns[f"{name}_values"])
        for name in ("target", "known")
    }
    return QueryTable.of(
        {
            "id": [f"1p-{number}" for number in range(size)],
            "template": ["1p"] * size,
            "level": [Level.ENTITY.value] * size,
            "shape": [render_shape(TEMPLATES["1p"].shape)] * size,
            "slots": Lists(np.arange(size + 1, dtype=np.int64) * 2, columns["slots"].ravel()),
            **lists,
        }
    )


def work(options: argparse.Namespace) -> None:
    """Train one model and print its figures as JSON."""
    folder, name = Path(options.folder), options.worker
    kind = find_model(name)
    given = [f"stopping.minutes={options.minutes}", "stopping.epochs=100000", "validation.every=100000"]
    if name != "cqd":
        given.append('objective.without=["concept", "instantiation", "subsumption"]')
    else:
        given[1] = f"stopping.epochs={options.cqd_epochs}"
    settings = resolve([read_recipe(kind.recipe), read_assignments([*given, *options.set], name)], name)
    speeds: list[float] = []

    def listen(event: Event) -> None:
        if isinstance(event, EpochEnded):
            speeds.append(event.samples_per_second)
            loss = " ".join(f"{task} {value:.4f}" for task, value in event.losses.items())
            print(
                f"{name} epoch {event.epoch} {event.seconds:.0f} s {loss} {event.samples_per_second:,.0f}/s",
                file=sys.stderr,
            )

    with tempfile.TemporaryDirectory() as scratch:
        run = Path(scratch) / "run"
        state = start(folder, run, settings, Surroundings([listen]))
        scorer = open_run(run).scorer("cuda" if torch.cuda.is_available() else "cpu")
        benchmark = open_benchmark(folder)
        sampled = benchmark.table("test")
        entity = np.flatnonzero(np.array(sampled.texts("level")) == Level.ENTITY.value)
        tables = {"sampled": sampled.take(entity), "every 1p": one_hop_table(folder)}
        templates = {label: measure(scorer, table) for label, table in tables.items()}
    figures = {**templates["sampled"], "1p": templates["every 1p"]["1p"]}
    print(
        json.dumps(
            {
                "model": name,
                "templates": figures,
                "1p sampled": templates["sampled"].get("1p"),
                "average": float(np.mean([figures[template] for template in EPFO])),
                "epochs": state.epoch,
                "seconds": state.seconds,
                "samples_per_second": float(np.median(speeds)) if speeds else None,
                "settings": settings.table(),
            }
        )
    )


def measure(scorer: Any, table: QueryTable) -> dict[str, float]:
    """The MRR of each template."""
    with torch.no_grad():
        ranked = rank_table(scorer, table)
    rows = ranked.rows()
    counts = np.bincount(rows, minlength=len(ranked.table))
    per_query = np.bincount(rows, 1.0 / ranked.ranks, len(ranked.table)) / np.maximum(counts, 1)
    names = np.array(ranked.table.texts("template"))
    return {str(name): float(per_query[names == name].mean()) for name in dict.fromkeys(names.tolist())}


def read_options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--store", type=Path, default=Path("scratch/kb-fb15k"))
    parser.add_argument("--models", default=",".join(PUBLISHED))
    parser.add_argument("--minutes", type=float, default=6.0, help="of training, for all models side by side")
    parser.add_argument("--train", type=int, default=150_000, help="queries per template")
    parser.add_argument("--test", type=int, default=1000, help="queries per template")
    parser.add_argument("--cqd-epochs", type=int, default=15)
    parser.add_argument("--set", action="append", default=[], help="a setting of all models, or MODEL:key=value")
    parser.add_argument("--worker", help=argparse.SUPPRESS)
    parser.add_argument("--folder", help=argparse.SUPPRESS)
    return parser.parse_args()


def launch(options: argparse.Namespace, folder: Path, model: str) -> subprocess.Popen[str]:
    given = [text.removeprefix(f"{model}:") for text in options.set if ":" not in text or text.startswith(f"{model}:")]
    command = [sys.executable, __file__, "--worker", model, "--folder", str(folder), "--minutes", str(options.minutes)]
    command += ["--cqd-epochs", str(options.cqd_epochs), *(f"--set={text}" for text in given)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)


def report(found: list[dict[str, Any]]) -> None:
    print(
        f"{'model':8}"
        + "".join(f"{name:>7}" for name in EPFO)
        + "    avg | published 1p, avg: ratio | samples/s, epochs"
    )
    for one in found:
        figures = "".join(f"{100 * one['templates'][name]:7.1f}" for name in EPFO)
        first, mean = PUBLISHED.get(one["model"], (float("nan"), float("nan")))
        ratios = f"{100 * one['templates']['1p'] / first:.2f}, {100 * one['average'] / mean:.2f}"
        speed = f"{one['samples_per_second'] or 0:,.0f}, {one['epochs']}"
        print(f"{one['model']:8}{figures}{100 * one['average']:7.1f} | {first} {mean}: {ratios} | {speed}")


def main() -> None:
    options = read_options()
    if options.worker:
        work(options)
        return
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch) / "bench"
        began = time.monotonic()
        build(options.store, folder, options.train, options.test)
        print(
            f"benchmark built in {time.monotonic() - began:.0f} s: {open_benchmark(folder).manifest['counts']}",
            flush=True,
        )
        workers = {model: launch(options, folder, model) for model in options.models.split(",")}
        found = []
        for model, worker in workers.items():
            output, _ = worker.communicate()
            if worker.returncode == 0:
                found.append(json.loads(output.strip().splitlines()[-1]))
            else:
                print(f"{model}: failed with {worker.returncode}", flush=True)
        report(found)
        if out := os.environ.get("OUT"):
            (Path(out) / "calibration.json").write_text(json.dumps(found, indent=1), encoding="utf-8")


if __name__ == "__main__":
    main()
