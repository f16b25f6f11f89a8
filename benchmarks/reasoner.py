"""Credo, measured: ranks by template, ratio to counting, calibration of all templates, time and memory.

    PYTHONPATH=src python3 benchmarks/reasoner.py --jobs 4                       # everything that scratch/ has
    PYTHONPATH=src python3 benchmarks/reasoner.py --only codex-m --seeds 1 --set rank=64 --set candidates=2048
    PYTHONPATH=src python3 benchmarks/reasoner.py --only q2b                     # Query2box's FB15k-237, beside CQD

Benchmarks are expected under scratch/NAME, and the store that one of the honest protocol is built from under
scratch/kb-NAME or scratch/NAME-kb; where only the store is there, the benchmark is built. Ranks are of the test
queries, on the two imported sets of the paper's protocol of the valid ones. The calibration error is of the ten best
predictions of queries drawn from the training graph (docs/evaluation.md): `--ece` of each of nine templates, where the
store of an honest benchmark is there, and of the benchmark's own templates without it. Beside it stand probabilities of
single links and what is true of them.

Every run is a process of its own, `--jobs` at a time, so the seconds of one that had company are longer than alone.
Results: a table, and $OUT/reasoner.json.
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
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path
from typing import Any, Final

import numpy as np
import torch

from tarbox.benchmark.building import build_benchmark, table_of
from tarbox.benchmark.calibration import MOST_HARD_ANSWERS
from tarbox.benchmark.folder import Benchmark, is_benchmark, open_benchmark
from tarbox.benchmark.options import CALIBRATION, BenchmarkOptions
from tarbox.benchmark.sampling import SamplingGraph, SamplingTask, sample_task
from tarbox.benchmark.tables import QueryTable
from tarbox.core.ids import Level
from tarbox.evaluation.calibration import predict, reliability
from tarbox.evaluation.evaluator import rank_table
from tarbox.execution.graph import Index
from tarbox.kb.rows import TripleKeys, contains
from tarbox.kb.splits import Split, SplitBy, split_honestly
from tarbox.kb.store import open_store
from tarbox.models.counting import Counting
from tarbox.models.credo.model import Credo
from tarbox.models.credo.network import CERTAIN, complete
from tarbox.models.credo.queries import QueryGraph, draw_queries
from tarbox.models.saved import open_run
from tarbox.models.scorer import Scorer
from tarbox.query.templates import TEMPLATES
from tarbox.training.events import Event, Finished, PartBegan, Validated
from tarbox.training.session import Listeners, start
from tarbox.training.settings import read_assignments, read_recipe, resolve

EPFO: Final = ("1p", "2p", "3p", "2i", "3i", "ip", "pi", "2u", "up")
HONEST: Final = ("codex-m", "dbpedia77k", "fb15k", "biomed")
PAPER: Final = ("yago4", "dbpedia")
"""Imported, with queries to validate on alone."""
COUNTS: Final = (10_000, 100, 300)
PUBLISHED: Final = {
    "q2b": (
        "CQD-Beam, published",
        dict(zip(EPFO, (46.6, 26.2, 20.8, 30.6, 41.2, 12.3, 23.0, 25.3, 12.1), strict=True)),
    )
}
"""MRR x 100 of a row that others published on the same queries."""

Ranks = dict[str, dict[str, list[float]]]
"""By level and template, the mean reciprocal rank of each query's answers."""


def store_of(scratch: Path, name: str) -> Path | None:
    """The knowledge base that a benchmark was, or is to be, built from."""
    places = (scratch / f"kb-{name}", scratch / f"{name}-kb")
    return next((place for place in places if (place / "manifest.json").exists()), None)


def ensure(scratch: Path, name: str) -> Benchmark:
    store = store_of(scratch, name)
    if not is_benchmark(scratch / name) and name in HONEST and store is not None:
        options = BenchmarkOptions(split=SplitBy.RANDOM, counts=COUNTS, workers=os.cpu_count() or 1)
        build_benchmark(open_store(store).facts, options, scratch / name)
    return open_benchmark(scratch / name)


def work(options: argparse.Namespace) -> None:
    """One run: train, rank, look at the degrees; prints JSON."""
    name, seed = options.worker, options.seed
    benchmark = ensure(options.scratch, name)
    given = [f"seed={seed}", "validation.queries=1", *options.set]
    settings = resolve([read_recipe("credo"), read_assignments(given, "credo")], "credo")
    with tempfile.TemporaryDirectory() as scratch:
        run = Path(scratch) / "run"
        began = time.monotonic()
        start(options.scratch / name, run, settings, Listeners([tell(f"{name} {seed}", began)]))
        trained = time.monotonic() - began
        size = (run / "model.safetensors").stat().st_size
        began = time.monotonic()
        scorer = open_run(run).scorer()
        loaded = time.monotonic() - began
    assert isinstance(scorer, Credo)
    table = chosen(benchmark.table("valid" if name in PAPER else "test"), name not in PAPER)
    found: dict[str, Any] = {
        "name": name,
        "seed": seed,
        "settings": settings.table(),
        "seconds to train": trained,
        "seconds to load": loaded,
        "bytes": size,
        "milliseconds": latency(scorer, seed),
        "ranks": per_query(scorer, table, benchmark),
    }
    found["levels"] = {level: {"mrr": average(own)} for level, own in found["ranks"].items()}
    averages = {level: round(100 * one["mrr"], 1) for level, one in found["levels"].items()}
    print(
        f"    {name} {seed}: {time.monotonic() - began:.0f} s after training: {averages}", file=sys.stderr, flush=True
    )
    if seed == options.first:
        found["counting"] = per_query(Counting.from_facts(benchmark.store.facts), table, benchmark)
        found["levels"] = against_counting(found["ranks"], found["counting"])
    split = split_of(options.scratch, name, benchmark)
    if split is not None:
        found["facts"] = fact_reliability(scorer, split)
    asked = calibration_table(options, split, benchmark)
    if asked is not None:
        found["reliability"] = {
            f"{template} {level.value}": summary(one) for (level, template), one in predict(scorer, asked).items()
        }
    found["peak GB"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6
    found["device GB"] = torch.cuda.max_memory_allocated() / 1e9 if torch.cuda.is_available() else 0.0
    print(json.dumps(found))


def tell(name: str, began: float) -> Callable[[Event], None]:
    """A listener that says on stderr which part of training begins, and after how many seconds."""

    def listen(event: Event) -> None:
        if isinstance(event, PartBegan | Validated | Finished):
            about = event.part if isinstance(event, PartBegan) else type(event).__name__
            print(f"    {name}: {time.monotonic() - began:.0f} s: {about}", file=sys.stderr, flush=True)

    return listen


def chosen(table: QueryTable, nine: bool) -> QueryTable:
    """The nine templates without negation, or everything."""
    if not nine:
        return table
    return table.take(np.flatnonzero(np.isin(np.array(table.texts("template")), EPFO)))


def per_query(scorer: Scorer, table: QueryTable, benchmark: Benchmark) -> Ranks:
    ranked = rank_table(scorer, table, benchmark.excluded())
    rows = ranked.rows()
    counts = np.bincount(rows, minlength=len(table))
    means = np.bincount(rows, 1.0 / ranked.ranks, len(table)) / np.maximum(counts, 1)
    found: Ranks = {}
    for level, template, mean in zip(table.texts("level"), table.texts("template"), means.tolist(), strict=True):
        found.setdefault(str(level), {}).setdefault(str(template), []).append(mean)
    return found


def against_counting(ranks: Ranks, counting: Ranks) -> dict[str, dict[str, float]]:
    """Of each level the MRR, and how many times as much it is as counting's."""
    mrr, base = ({level: average(own) for level, own in one.items()} for one in (ranks, counting))
    return {level: {"mrr": mrr[level], "ratio": mrr[level] / max(base[level], 1e-9)} for level in mrr}


def latency(credo: Credo, seed: int) -> dict[str, float]:
    """The median milliseconds of one query at both levels."""
    random, graph = np.random.default_rng(seed), QueryGraph.of(credo.index.graph)
    found = {}
    for name in ("1p", "2p", "3p"):
        shape = TEMPLATES[name].shape
        times = []
        for ids in draw_queries(shape, graph, 30, random):
            began = time.perf_counter()
            credo.predict(shape, ids[None])
            times.append(time.perf_counter() - began)
        found[name] = 1000 * float(np.median(times))
    return found


def split_of(scratch: Path, name: str, benchmark: Benchmark) -> Split | None:
    """The graphs that an honest benchmark was built from, where its store is there."""
    store = store_of(scratch, name)
    if name not in HONEST or store is None:
        return None
    made = benchmark.manifest["options"]
    split = split_honestly(open_store(store).facts, int(made["seed"]), SplitBy(made["split"]))
    if not np.array_equal(split.train.heads, benchmark.store.facts.heads):
        sys.exit(f"{benchmark.path} was not built from {store}")
    return split


def fact_reliability(credo: Credo, split: Split) -> dict[str, Any]:
    """Of predicted links: tenths of the probability with the share that is true in the whole graph, and the log loss
    (x 1,000) on the validation graph alone that other powers of the odds in `complete` would have."""
    starts, near, far, degrees = credo.probabilities.links()
    directed = np.repeat(np.arange(len(starts) - 1), np.diff(starts))
    chosen = (directed % 2 == 0) & (degrees < 1)
    codec = TripleKeys(credo.index.entities)
    keys = codec.encode(directed[chosen] // 2, far[chosen], near[chosen])
    found = degrees[chosen].astype(np.float64)
    in_valid, in_whole = (
        contains(np.sort(codec.encode(part.relations, part.heads, part.tails)), keys)
        for part in (split.stages["valid"].facts, split.whole)
    )
    grid = np.linspace(0, 1, 100_001)
    before = np.interp(found, complete(grid.astype(np.float32)), grid)
    usable = ~(in_whole & ~in_valid)
    losses = {}
    for power in (0.0, 0.25, 0.5, 0.75, 1.0):
        after = np.minimum(before / np.maximum(1 - before, 1e-6) ** power, CERTAIN)
        half = after / (2 - after)  # half of what is missing is in the validation graph; the other half is left out
        losses[str(power)] = -1000 * float(np.where(in_valid, np.log(half), np.log1p(-half))[usable].mean())
    tenths = np.minimum((10 * found).astype(int), 9)
    bins = [(found[own].mean(), in_whole[own].mean(), int(own.sum())) for own in (tenths == n for n in range(10))]
    return {"bins": bins, "log loss by power": losses}


def calibration_table(options: argparse.Namespace, split: Split | None, benchmark: Benchmark) -> QueryTable | None:
    """Queries of nine templates, drawn from the training graph of the benchmark."""
    if split is None or not options.ece:
        return benchmark.calibration()
    later = Index.of(split.whole, benchmark.store.facts)
    graph = SamplingGraph(later, hard=True, never=np.zeros(later.concepts, np.bool_), every=True)
    sampling = BenchmarkOptions(seed=1, max_answers=MOST_HARD_ANSWERS)
    tasks = (SamplingTask(template, TEMPLATES[template].shape, CALIBRATION, options.ece) for template in EPFO)
    return table_of([sample_task(task, graph, sampling) for task in tasks])


def summary(found: Any) -> dict[str, Any]:
    """Expected calibration error over bins of equal mass, and the Brier score."""
    figures = reliability(found)
    points = [(one.degree, one.true, one.n) for one in figures.bins]
    return {
        "ece": figures.ece,
        "brier": figures.brier,
        "degree": figures.degree,
        "true": figures.true,
        "n": figures.n,
        "bins": points,
    }


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
        for level in runs[0]["ranks"]:
            report_level(name, level, runs)
        first = runs[0]
        if "facts" in first:
            shown_bins = "  ".join(f"{said:.2f}: {true:.2f} ({n})" for said, true, n in first["facts"]["bins"] if n)
            print(f"    links said: true     {shown_bins}")
            print("    log loss by power   " + shown(first["facts"]["log loss by power"], ".2f"))
        times = ", ".join(f"{one['seconds to train']:.0f}" for one in runs)
        answers = " ".join(f"{template} {value:.1f}" for template, value in first["milliseconds"].items())
        print(
            f"    trained in {times} s, loaded in {first['seconds to load']:.1f} s, {first['bytes'] / 1e6:.0f} MB",
            end="",
        )
        print(f"; peak {first['peak GB']:.1f} GB, device {first['device GB']:.1f} GB; ms of a query: {answers}")


def report_level(name: str, level: str, runs: list[dict[str, Any]]) -> None:
    """Average, ratio to counting, templates, and how far degrees are from frequencies."""
    ranks = [one["ranks"][level] for one in runs]
    means = [100 * average(one) for one in ranks]
    spread = f" ± {np.std(means, ddof=1):.1f}" if len(means) > 1 else ""
    text = f"{name:11} {level:8} {np.mean(means):5.1f}{spread}"
    counting = next((one["counting"][level] for one in runs if "counting" in one), None)
    if counting is not None:
        low, high = ratio_interval(ranks, counting)
        base = 100 * average(counting)
        text += f"  counting {base:.1f}, ratio {np.mean(means) / max(base, 1e-9):.2f} ({low:.2f} to {high:.2f})"
    print(text)
    names = [template for template in EPFO if template in ranks[0]]
    names += [template for template in ranks[0] if template not in EPFO]
    templates = {one: float(np.mean([100 * np.mean(own[one]) for own in ranks])) for one in names}
    print(f"    {'MRR':20}" + shown(templates, ".1f"))
    if level == Level.ENTITY.value and name in PUBLISHED:
        label, row = PUBLISHED[name]
        print(f"    {label:20}" + shown(row, ".1f") + f", average {np.mean(list(row.values())):.1f}")
    report_reliability([one["reliability"] for one in runs if "reliability" in one], level)


def report_reliability(errors: list[dict[str, Any]], level: str) -> None:
    keys = [key for key in (errors[0] if errors else {}) if key.endswith(f" {level}")]
    if keys:
        means = {
            key.split()[0]: (
                np.mean([one[key]["ece"] for one in errors]),
                np.mean([one[key]["true"] - one[key]["degree"] for one in errors]),
            )
            for key in keys
        }
        print(f"    {'ECE':20}" + shown({name: error for name, (error, _) in means.items()}, ".3f"))
        print(f"    {'share true - degree':20}" + shown({name: bias for name, (_, bias) in means.items()}, "+.3f"))


def shown(figures: dict[str, Any], form: str) -> str:
    return "  ".join(f"{name} {value:{form}}" for name, value in figures.items())


def read_options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", help="names, separated by commas; else everything that is there")
    parser.add_argument("--scratch", type=Path, default=Path("scratch"), help="where benchmarks and stores are")
    parser.add_argument("--seeds", type=int, default=3, help="of each benchmark")
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--ece", type=int, default=500, help="queries of each template for calibration")
    parser.add_argument("--set", action="append", default=[], help="a setting")
    parser.add_argument("--worker", help=argparse.SUPPRESS)
    parser.add_argument("--seed", type=int, default=0, help=argparse.SUPPRESS)
    return parser.parse_args()


def present(scratch: Path) -> Iterable[str]:
    """The names of what can be measured here."""
    for name in (*PAPER, *HONEST, *PUBLISHED):
        if is_benchmark(scratch / name) or (name in HONEST and store_of(scratch, name) is not None):
            yield name


def main() -> None:
    options = read_options()
    if options.worker:
        work(options)
        return
    names = options.only.split(",") if options.only else list(present(options.scratch))
    with ThreadPoolExecutor(max(len(names), 1)) as pool:
        list(pool.map(lambda name: ensure(options.scratch, name), names))
    print("benchmarks are ready", flush=True)
    seeds = range(options.first, options.first + options.seeds)
    waiting = [(name, seed) for seed in seeds for name in names]
    found: list[dict[str, Any]] = []
    with ThreadPoolExecutor(options.jobs) as pool:
        for done in as_completed([pool.submit(run_worker, options, name, seed) for name, seed in waiting]):
            try:
                found.append(done.result())
            except subprocess.CalledProcessError as error:
                print(f"failed: {' '.join(error.cmd)}", flush=True)
                continue
            if out := os.environ.get("OUT"):
                Path(out).mkdir(parents=True, exist_ok=True)
                (Path(out) / "reasoner.json").write_text(json.dumps(found), encoding="utf-8")
    report(sorted(found, key=lambda one: (names.index(one["name"]), one["seed"])))


def run_worker(options: argparse.Namespace, name: str, seed: int) -> Any:
    """What `work` finds, in a process of its own with its share of the processors."""
    command = [sys.executable, __file__, "--worker", name, "--seed", str(seed), "--ece", str(options.ece)]
    command += [
        "--first",
        str(options.first),
        "--scratch",
        str(options.scratch),
        *(f"--set={text}" for text in options.set),
    ]
    share = str(max((os.cpu_count() or 1) // options.jobs, 1))
    environment = os.environ | dict.fromkeys(("OMP_NUM_THREADS", "NUMBA_NUM_THREADS"), share)
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, env=environment, check=True)
    return json.loads(done.stdout.strip().splitlines()[-1])


if __name__ == "__main__":
    main()
