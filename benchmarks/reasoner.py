"""Credo, measured: accuracy under both protocols, calibration, time to train, time to answer.

    PYTHONPATH=src python3 benchmarks/reasoner.py --jobs 4                       # everything that scratch/ has
    PYTHONPATH=src python3 benchmarks/reasoner.py --only codex-m --seeds 1 --set rank=64 --set candidates=2048

Stores are expected under scratch/kb-NAME (`tarbox kb build`), imported benchmarks under scratch/NAME; benchmarks of the
honest protocol are built where they are missing. Every run is a process of its own, `--jobs` at a time, so the
seconds of one that had company are longer than alone. Results: a table, and $OUT/reasoner.json.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from tarbox.benchmark.building import build_benchmark, table_of
from tarbox.benchmark.folder import Benchmark, is_benchmark, open_benchmark
from tarbox.benchmark.options import BenchmarkOptions
from tarbox.benchmark.sampling import SamplingTask, sample_task, sampling_graphs
from tarbox.benchmark.tables import QueryTable
from tarbox.core.ids import Level
from tarbox.evaluation.calibration import Predictions, predict
from tarbox.evaluation.calibration import reliability as measure_reliability
from tarbox.evaluation.evaluator import rank_table
from tarbox.kb.splits import Split, SplitBy, SplitStage
from tarbox.kb.store import open_store
from tarbox.models.counting import Counting
from tarbox.models.saved import open_run
from tarbox.models.scorer import Predictor
from tarbox.query.templates import TEMPLATES
from tarbox.training.events import Event, Finished, PartBegan, Validated
from tarbox.training.session import Listeners, start
from tarbox.training.settings import read_assignments, read_recipe, resolve

EPFO = ("1p", "2p", "3p", "2i", "3i", "pi", "ip", "2u", "up")
SCRATCH = Path("scratch")
HONEST = {"codex-m": SplitBy.RANDOM, "dbpedia77k": SplitBy.RANDOM, "fb15k": SplitBy.RANDOM}
PAPER = ("yago4", "dbpedia")
COUNTS = (10_000, 100, 300)


def options_of(name: str) -> BenchmarkOptions:
    return BenchmarkOptions(split=HONEST[name], counts=COUNTS, workers=os.cpu_count() or 1)


def ensure(name: str) -> Benchmark:
    if name in HONEST and not is_benchmark(SCRATCH / name):
        build_benchmark(open_store(SCRATCH / f"kb-{name}").facts, options_of(name), SCRATCH / name)
    return open_benchmark(SCRATCH / name)


def tenth(name: str) -> QueryTable:
    """Test queries as PROTOCOL.md's sketches had them: hard is what nine tenths of the facts do not say."""
    options = options_of(name)
    split = options.divide(open_store(SCRATCH / f"kb-{name}").facts)
    graph = sampling_graphs(Split({**split.stages, "test": SplitStage(split.whole, split.train)}), options)["test"]
    tasks = [SamplingTask(template, TEMPLATES[template].shape, "test", COUNTS[2]) for template in EPFO]
    return table_of([sample_task(task, graph, options) for task in tasks])


def work(options: argparse.Namespace) -> None:
    """One run: train, rank, look at the degrees; prints JSON."""
    name, seed = options.worker, options.seed
    benchmark = ensure(name)
    given = [f"seed={seed}", "validation.queries=1", *options.set]
    settings = resolve([read_recipe("credo"), read_assignments(given, "credo")], "credo")
    with tempfile.TemporaryDirectory() as scratch:
        run = Path(scratch) / "run"
        began = time.monotonic()
        start(SCRATCH / name, run, settings, Listeners([tell(f"{name} {seed}", began)]))
        trained = time.monotonic() - began
        size = (run / "model.safetensors").stat().st_size
        began = time.monotonic()
        scorer: Any = open_run(run).scorer()
        loaded = time.monotonic() - began
        table = chosen(benchmark.table("test" if name in HONEST else "valid"), name in HONEST)
        found: dict[str, Any] = {
            "name": name,
            "seed": seed,
            "settings": settings.table(),
            "seconds to train": trained,
            "seconds to load": loaded,
            "bytes": size,
            "ranks": per_query(scorer, table, benchmark),
            "milliseconds": latency(scorer, seed),
            "peak GB": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6,
        }
        counting = Counting.from_facts(benchmark.store.facts)
        if seed == 0:
            found["counting"] = per_query(counting, table, benchmark)
        if name in HONEST:
            found["reliability"] = reliability(scorer, benchmark)
            sketched = {"credo": scorer, "counting": counting} if seed == 0 else {"credo": scorer}
            wider = tenth(name)
            found["tenth"] = {label: per_query(one, wider, benchmark) for label, one in sketched.items()}
        if options.variants:
            found["variants"] = {
                label: {
                    "mrr": {level: average(ranks) for level, ranks in per_query(other, table, benchmark).items()},
                    "ece": {key: one["ece"] for key, one in reliability(other, benchmark).items()}
                    if name in HONEST
                    else {},
                }
                for label, other in variants_of(scorer).items()
            }
    print(json.dumps(found))


def variants_of(scorer: Any) -> dict[str, Any]:
    """The same probabilities, answered from in other ways."""
    return {
        "no tempering": replace(scorer, tempers={}),
        "members as they are": replace(scorer, weighing=None),
        "independent ways": replace(scorer, noisy=True),
        "no ranking of concepts": replace(scorer, ranking=None),
    }


def tell(name: str, began: float) -> Callable[[Event], None]:
    """A listener that says on stderr which part of training begins, and after how many seconds."""

    def listen(event: Event) -> None:
        if isinstance(event, PartBegan | Validated | Finished):
            about = event.part if isinstance(event, PartBegan) else type(event).__name__
            print(f"    {name}: {time.monotonic() - began:.0f} s: {about}", file=sys.stderr, flush=True)

    return listen


def chosen(table: QueryTable, honest: bool) -> QueryTable:
    """The nine templates under the honest protocol; everything under the paper's."""
    if not honest:
        return table
    return table.take(np.flatnonzero(np.isin(np.array(table.texts("template")), EPFO)))


def per_query(scorer: Any, table: QueryTable, benchmark: Benchmark) -> dict[str, dict[str, list[float]]]:
    """The mean reciprocal rank of each query's answers, by level and template."""
    ranked = rank_table(scorer, table, benchmark.excluded())
    rows = ranked.rows()
    counts = np.bincount(rows, minlength=len(table))
    means = np.bincount(rows, 1.0 / ranked.ranks, len(table)) / np.maximum(counts, 1)
    found: dict[str, dict[str, list[float]]] = {}
    for level, template, mean in zip(table.texts("level"), table.texts("template"), means.tolist(), strict=True):
        found.setdefault(str(level), {}).setdefault(str(template), []).append(mean)
    return found


def latency(scorer: Any, seed: int) -> dict[str, float]:
    """The median milliseconds of one query at both levels, on one thread."""
    random = np.random.default_rng(seed)
    entities, directed = scorer.index.entities, scorer.index.graph.typing
    found = {}
    for name in ("1p", "2p", "3p"):
        shape = TEMPLATES[name].shape
        times = []
        for _ in range(30):
            ids = np.array([[*random.integers(0, directed, int(name[0])), random.integers(entities)]], np.int32)
            began = time.perf_counter()
            for level in Level:
                scorer.score(shape, ids, level)
            times.append(time.perf_counter() - began)
        found[name] = 1000 * float(np.median(times))
    return found


def reliability(scorer: Predictor, benchmark: Benchmark) -> dict[str, Any]:
    """The degrees of the ten best predictions of queries drawn from the whole graph, against its truth."""
    table = benchmark.calibration()
    assert table is not None
    return {f"{template} {level.value}": summary(one) for (level, template), one in predict(scorer, table).items()}


def summary(found: Predictions) -> dict[str, Any]:
    """Expected calibration error over bins of equal mass, and the Brier score."""
    figures = measure_reliability(found)
    points = [(one.degree, one.true, one.n) for one in figures.bins]
    return {"ece": figures.ece, "brier": figures.brier, "rate": figures.true, "n": figures.n, "bins": points}


def average(ranks: dict[str, list[float]]) -> float:
    return float(np.mean([np.mean(values) for values in ranks.values()]))


def ratio_interval(ours: list[dict[str, list[float]]], theirs: dict[str, list[float]]) -> tuple[float, float]:
    """95% of the ratio of averages over queries drawn again, the same for all; seeds are averaged first."""
    random = np.random.default_rng(0)
    mean = {name: np.mean([one[name] for one in ours], axis=0) for name in theirs}
    found = []
    for _ in range(1000):
        above = below = 0.0
        for name, values in theirs.items():
            rows = random.integers(0, len(values), len(values))
            above += mean[name][rows].mean()
            below += np.array(values)[rows].mean()
        found.append(above / max(below, 1e-9))
    return float(np.quantile(found, 0.025)), float(np.quantile(found, 0.975))


def report(found: list[dict[str, Any]]) -> None:
    for name in dict.fromkeys(one["name"] for one in found):
        runs = [one for one in found if one["name"] == name]
        counting = next((one["counting"] for one in runs if "counting" in one), None)
        for level in runs[0]["ranks"]:
            means = [100 * average(one["ranks"][level]) for one in runs]
            spread = f" ± {np.std(means, ddof=1):.1f}" if len(means) > 1 else ""
            text = f"{name:11} {level:8} {np.mean(means):5.1f}{spread}"
            if counting is not None:
                low, high = ratio_interval([one["ranks"][level] for one in runs], counting[level])
                base = 100 * average(counting[level])
                text += f"  counting {base:.1f}, ratio {np.mean(means) / base:.2f} ({low:.2f} to {high:.2f})"
            print(text)
            print(
                "   ", " ".join(f"{template} {100 * np.mean(v):.1f}" for template, v in runs[0]["ranks"][level].items())
            )
        times = ", ".join(f"{one['seconds to train']:.0f}" for one in runs)
        first = runs[0]
        answers = " ".join(f"{template} {value:.1f}" for template, value in first["milliseconds"].items())
        print(f"    trained in {times} s, loaded in {first['seconds to load']:.1f} s, {first['bytes'] / 1e6:.0f} MB")
        print(f"    one query, one thread, ms: {answers}; peak {first['peak GB']:.1f} GB")
        for level, label in ((level, label) for level in first["ranks"] for label in first.get("tenth", {})):
            means = [100 * average(one["tenth"][label][level]) for one in runs if label in one["tenth"]]
            print(f"    a tenth held out, {level}: {label} {np.mean(means):.1f}")
        for label, values in first.get("variants", {}).items():
            shown = ", ".join(f"{level} {100 * mrr:.1f}" for level, mrr in values["mrr"].items())
            errors = ", ".join(f"{key} {error:.3f}" for key, error in values["ece"].items())
            print(f"    {label}: {shown}{'; ECE ' + errors if errors else ''}")
        for label, values in first.get("reliability", {}).items():
            print(f"    {label}: ECE {values['ece']:.3f}, Brier {values['brier']:.3f}, true {values['rate']:.3f}")


def read_options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--only", default=",".join([*PAPER, *HONEST]), help="names, separated by commas")
    parser.add_argument("--seeds", type=int, default=3, help="under the honest protocol; one under the paper's")
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--set", action="append", default=[], help="a setting")
    parser.add_argument("--variants", action="store_true", help="also rank with parts left out")
    parser.add_argument("--worker", help=argparse.SUPPRESS)
    parser.add_argument("--seed", type=int, default=0, help=argparse.SUPPRESS)
    return parser.parse_args()


def main() -> None:
    options = read_options()
    if options.worker:
        work(options)
        return
    names = options.only.split(",")
    with ThreadPoolExecutor(len(names)) as pool:
        list(pool.map(ensure, names))
    print("benchmarks are ready", flush=True)
    waiting = [(name, seed) for seed in range(options.seeds) for name in names if name in HONEST or not seed]
    running: list[tuple[str, int, subprocess.Popen[str]]] = []
    found: list[dict[str, Any]] = []
    while waiting or running:
        while waiting and len(running) < options.jobs:
            name, seed = waiting.pop(0)
            command = [sys.executable, __file__, "--worker", name, "--seed", str(seed)]
            command += [f"--set={text}" for text in options.set] + ["--variants"] * options.variants
            running.append((name, seed, subprocess.Popen(command, stdout=subprocess.PIPE, text=True)))
        name, seed, process = running.pop(0)
        output, _ = process.communicate()
        if process.returncode:
            print(f"{name} seed {seed} failed", flush=True)
            continue
        found.append(json.loads(output.strip().splitlines()[-1]))
        ranks = found[-1]["ranks"]
        print(name, seed, {level: round(100 * average(ranks[level]), 1) for level in ranks}, flush=True)
        if out := os.environ.get("OUT"):
            Path(out).mkdir(parents=True, exist_ok=True)
            (Path(out) / "reasoner.json").write_text(json.dumps(found), encoding="utf-8")
    report(found)


if __name__ == "__main__":
    main()
