"""Are the baselines as good as their authors'? On FB15k-237 with its own split, against the published averages.

    tarbox kb build ../shared/data/fb15k-237 -o scratch/kb-fb15k
    PYTHONPATH=src python3 benchmarks/calibration.py --minutes 6
    PYTHONPATH=src python3 benchmarks/calibration.py --sequential --models gqe@3 --trials beta,beta+model.start=random

As BetaE's queries: 1p asks every (entity, relation, direction) that has a test fact; the other eight templates are
sampled by the honest protocol, `--test` of each; training has every assertion both ways and `--train` queries each of
2p, 3p, 2i, 3i, sampled on the spot. Entity level alone, as published.

`--models` names what is trained, each as NAME[@MINUTES][+key=value...]; a model may come several times. `--trials` are
more of them, which come first and are ranked on validation facts: settings are chosen there. All train at once,
each in a process of its own, so that minutes of the clock are that many divided by the number of models of a GPU's time
for each; with `--sequential` one trains after the other, and is evaluated while the next one trains. `--folder-cache`
keeps the queries for the next call. Rows are printed, and $OUT/calibration.json written, as models are evaluated.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
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
from tarbox.training.events import EpochEnded, Event, Started, Ticked
from tarbox.training.session import Listeners, start
from tarbox.training.settings import read_assignments, read_recipe, resolve

ONE_HOP = "one-hop-{}.npz"
"""All 1p queries of a part's facts; that of 'test' is written last."""
EVERY = 10.0
"""Seconds between two lines about a model that trains."""
EPFO = ("1p", "2p", "3p", "2i", "3i", "pi", "ip", "2u", "up")
PUBLISHED = {
    "gqe": (35.0, 16.3),
    "q2b": (40.6, 20.1),
    "beta": (39.0, 20.9),
    "fuzzqe": (42.8, 24.0),
    "cqd": (46.7, 22.3),
}
"""MRR x 100 of 1p and of the average of nine templates, on BetaE's queries (their papers)."""


@dataclass(frozen=True, slots=True)
class Entry:
    """What one worker trains; `label` is how it was named."""

    label: str
    model: str
    minutes: float
    part: str
    settings: tuple[str, ...] = ()

    @classmethod
    def read(cls, text: str, part: str, minutes: float, given: Sequence[str]) -> Entry:
        """NAME[@MINUTES][+key=value...]; `given` are settings of all, or of MODEL:key=value, which come first."""
        named, *own = text.split("+")
        model, _, length = named.partition("@")
        parts = [one.rpartition(":") for one in given]
        shared = [rest for owner, _, rest in parts if owner in ("", model)]
        return cls(text, model, float(length or minutes), part, (*shared, *own))


def cached_benchmark(options: argparse.Namespace, scratch: Path) -> Path:
    """The benchmark, sampled unless an earlier call kept it; the last file says that all is there."""
    store = hashlib.blake2b((options.store / "manifest.json").read_bytes(), digest_size=6).hexdigest()
    folder = (options.folder_cache or scratch) / f"{store}-{options.train}-{options.test}"
    began = time.monotonic()
    if (folder / ONE_HOP.format("test")).exists():
        say(f"benchmark of {folder} used again: {open_benchmark(folder).manifest['counts']}")
        return folder
    shutil.rmtree(folder, ignore_errors=True)
    folder.parent.mkdir(parents=True, exist_ok=True)
    build(options.store, folder, options.train, options.test)
    say(f"benchmark built in {time.monotonic() - began:.0f} s: {open_benchmark(folder).manifest['counts']}")
    return folder


def build(store: Path, folder: Path, train: int, test: int) -> None:
    """The benchmark, and beside it all 1p queries of the validation facts and of the test facts."""
    facts = open_store(store).facts
    shapes = {name: TEMPLATES[name].shape for name in EPFO}
    workers = os.cpu_count() or 1
    counts = (train, test, test)
    options = BenchmarkOptions(split=SplitBy.COLUMN, counts=counts, calibration=0, shapes=shapes, workers=workers)
    build_benchmark(facts, options, folder)
    split = split_honestly(facts, options.seed, SplitBy.COLUMN)
    graphs = {part: split.stages[part].facts for part in ("train", "valid")} | {"test": split.whole}
    for earlier, part in (("train", "valid"), ("valid", "test")):
        np.savez(folder / ONE_HOP.format(part), **ask_every_fact(graphs[earlier], graphs[part]))


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


def one_hop_table(folder: Path, part: str) -> QueryTable:
    columns = np.load(folder / ONE_HOP.format(part))
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


@dataclass(slots=True)
class Progress:
    """Listens to a training: says how long its start took, and every few seconds how it goes."""

    label: str
    began: float
    speeds: list[float] = field(default_factory=list)
    said: float = 0.0

    def __call__(self, event: Event) -> None:
        now = time.monotonic()
        if isinstance(event, Started):
            self.note(f"loaded in {now - self.began:.1f} s; {event.steps} steps of {event.samples} samples an epoch")
            self.began = now
        elif isinstance(event, Ticked | EpochEnded):
            if isinstance(event, EpochEnded):
                self.speeds.append(event.samples_per_second)
            if not self.said:
                self.note(f"first steps within {now - self.began:.1f} s")
            elif now - self.said < EVERY:
                return
            self.said = now
            loss = " ".join(f"{task} {value:.4f}" for task, value in event.losses.items())
            self.note(f"{now - self.began:.0f} s, epoch {event.epoch}: {loss} {event.samples_per_second:,.0f}/s")

    def note(self, text: str) -> None:
        print(f"  {self.label}: {text}", file=sys.stderr, flush=True)


def work(options: argparse.Namespace) -> None:
    """Wait for a line on stdin, train one model, and tell on stdout when it is trained and what it is worth."""
    entry, folder = Entry(**json.loads(options.worker)), Path(options.folder)
    kind = find_model(entry.model)
    given = [f"stopping.minutes={entry.minutes}", "stopping.epochs=100000", "validation.every=100000"]
    if entry.model != "cqd":
        given.append('objective.without=["concept", "instantiation", "subsumption"]')
    else:
        given[1] = f"stopping.epochs={options.cqd_epochs}"
    assert kind.recipe is not None
    tables = [read_recipe(kind.recipe), read_assignments([*given, *entry.settings], entry.model)]
    settings = resolve(tables, entry.model)
    imported = time.time() - options.launched
    sys.stdin.readline()
    progress = Progress(entry.label, time.monotonic())
    progress.note(f"imports took {imported:.1f} s; {entry.minutes:g} minutes, {dict(settings.model)}")
    with tempfile.TemporaryDirectory() as scratch:
        run = Path(scratch) / "run"
        state = start(folder, run, settings, Listeners([progress]))
        say(json.dumps({"trained": state.epoch}))
        began = time.monotonic()
        scorer = open_run(run).scorer("cuda" if torch.cuda.is_available() else "cpu")
        sampled = open_benchmark(folder).table(entry.part)
        entity = np.flatnonzero(np.array(sampled.texts("level")) == Level.ENTITY.value)
        asked = {"sampled": sampled.take(entity), "every 1p": one_hop_table(folder, entry.part)}
        templates = {label: measure(scorer, table) for label, table in asked.items()}
    figures = {**templates["sampled"], "1p": templates["every 1p"]["1p"]}
    found = {
        "label": entry.label,
        "model": entry.model,
        "part": entry.part,
        "templates": figures,
        "1p sampled": templates["sampled"].get("1p"),
        "average": float(np.mean([figures[template] for template in EPFO])),
        "epochs": state.epoch,
        "seconds": state.seconds,
        "evaluation seconds": time.monotonic() - began,
        "samples_per_second": float(np.median(progress.speeds)) if progress.speeds else None,
        "settings": settings.table(),
    }
    say(json.dumps({"found": found}))


def measure(scorer: Any, table: QueryTable) -> dict[str, float]:
    """The MRR of each template."""
    with torch.no_grad():
        ranked = rank_table(scorer, table)
    rows = ranked.rows()
    counts = np.bincount(rows, minlength=len(ranked.table))
    per_query = np.bincount(rows, 1.0 / ranked.ranks, len(ranked.table)) / np.maximum(counts, 1)
    names = np.array(ranked.table.texts("template"))
    return {str(name): float(per_query[names == name].mean()) for name in dict.fromkeys(names.tolist())}


class Worker:
    """The process of one entry: imports at once, trains when told to; `trained` is set then, or when it failed."""

    def __init__(self, entry: Entry, options: argparse.Namespace, folder: Path) -> None:
        self.entry, self.trained = entry, threading.Event()
        self.found: dict[str, Any] | None = None
        command = [sys.executable, __file__, "--worker", json.dumps(asdict(entry)), "--folder", str(folder)]
        command += ["--cqd-epochs", str(options.cqd_epochs), "--launched", str(time.time())]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def go(self, report: Report) -> threading.Thread:
        """Let it train; the thread ends when its row is in the report."""
        thread = threading.Thread(target=self._follow, args=(report,))
        thread.start()
        return thread

    def _follow(self, report: Report) -> None:
        output, given = self._process.stdout, self._process.stdin
        assert output is not None
        assert given is not None
        try:
            given.write("go\n")
            given.close()
        except BrokenPipeError:
            pass  # it failed while it was imported: its code says so below
        for line in output:
            told = json.loads(line) if line.startswith("{") else {}
            self.found = told.get("found")
            self.trained.set()
        code = self._process.wait()
        self.trained.set()
        report.add(self.entry, self.found, code)


class Report:
    """The rows so far: printed as they come, and all of them in $OUT/calibration.json."""

    def __init__(self) -> None:
        self._found: list[dict[str, Any]] = []
        self._lock = threading.Lock()

    def add(self, entry: Entry, found: dict[str, Any] | None, code: int) -> None:
        with self._lock:
            if found is None:
                say(f"{entry.label}: failed with {code}")
                return
            if not self._found:
                templates = "".join(f"{name:>6}" for name in EPFO)
                say(f"{'':8}{templates}   avg | published 1p, avg: ratios | samples/s, epochs, seconds | model")
            self._found.append(found)
            say(row(found))
            if out := os.environ.get("OUT"):
                (Path(out) / "calibration.json").write_text(json.dumps(self._found, indent=1), encoding="utf-8")


def row(one: dict[str, Any]) -> str:
    figures = "".join(f"{100 * one['templates'][name]:6.1f}" for name in EPFO)
    first, mean = PUBLISHED.get(one["model"], (float("nan"), float("nan")))
    ratios = f"{100 * one['templates']['1p'] / first:.2f}, {100 * one['average'] / mean:.2f}"
    speed = f"{one['samples_per_second'] or 0:,.0f}, {one['epochs']}, {one['seconds']:.0f}"
    mrr = f"{one['model']:8}{figures}{100 * one['average']:6.1f}"
    return f"{mrr} | {first} {mean}: {ratios} | {speed} | {one['part']} {one['label']}"


def train_all(entries: Sequence[Entry], options: argparse.Namespace, folder: Path) -> None:
    """All at once; or one after the other, the next one being imported while one trains."""
    report, threads = Report(), []
    waiting = [Worker(entry, options, folder) for entry in (entries[:1] if options.sequential else entries)]
    for place in range(len(entries)):
        worker = waiting[place]
        threads.append(worker.go(report))
        if options.sequential:
            waiting += [Worker(entry, options, folder) for entry in entries[place + 1 : place + 2]]
            worker.trained.wait()
    for thread in threads:
        thread.join()


def read_options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--store", type=Path, default=Path("scratch/kb-fb15k"))
    parser.add_argument("--models", default=",".join(PUBLISHED), help="NAME[@MINUTES][+key=value...], with commas")
    parser.add_argument("--trials", default="", help="the same, ranked on validation facts; these come first")
    parser.add_argument("--minutes", type=float, default=6.0, help="of training, where a model names none")
    parser.add_argument("--sequential", action="store_true", help="one after the other, each alone on the GPU")
    parser.add_argument("--train", type=int, default=150_000, help="queries per template")
    parser.add_argument("--test", type=int, default=1000, help="queries per template")
    parser.add_argument("--folder-cache", type=Path, help="where sampled queries are kept for the next call")
    parser.add_argument("--cqd-epochs", type=int, default=15)
    parser.add_argument("--set", action="append", default=[], help="a setting of all models, or MODEL:key=value")
    parser.add_argument("--worker", help=argparse.SUPPRESS)
    parser.add_argument("--folder", help=argparse.SUPPRESS)
    parser.add_argument("--launched", type=float, help=argparse.SUPPRESS)
    return parser.parse_args()


def say(text: str) -> None:
    print(text, flush=True)


def main() -> None:
    options = read_options()
    if options.worker:
        work(options)
        return
    asked = {"valid": options.trials, "test": options.models}
    entries = [
        Entry.read(text, part, options.minutes, options.set)
        for part, texts in asked.items()
        for text in filter(None, texts.split(","))
    ]
    with tempfile.TemporaryDirectory() as scratch:
        train_all(entries, options, cached_benchmark(options, Path(scratch)))


if __name__ == "__main__":
    main()
