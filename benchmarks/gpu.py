"""Every measurement that wants a GPU, in one call of at most nine minutes.

    PYTHONPATH=src python3 benchmarks/gpu.py                              # everything
    PYTHONPATH=src python3 benchmarks/gpu.py --only throughput,yago4 --set rate=3e-4
    PYTHONPATH=src python3 benchmarks/gpu.py --only sweep --variant "rate=1e-3 similarity_scale=20" --variant ...

Sections: throughput, ranking, yago4 (paper protocol, valid), ablations, honest (three seeds, test), sweep (variants on
yago4). Benchmarks are expected under scratch/. Nothing begins that would not end in time. Results are printed as a
table at the end and written to $OUT/gpu.json after every section.
"""

from __future__ import annotations

import argparse
import gc
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import torch

import training as throughput
from tarbox.benchmark.folder import Benchmark, open_benchmark
from tarbox.benchmark.tables import QueryTable
from tarbox.core.errors import TarboxError
from tarbox.evaluation.evaluator import rank_table
from tarbox.evaluation.metrics import Bootstrap, Results, measure
from tarbox.models.counting import Counting
from tarbox.models.saved import open_run
from tarbox.training.events import EpochEnded, Event, Validated
from tarbox.training.session import Listeners, data_of, start
from tarbox.training.settings import Settings, read_assignments, read_recipe, resolve

PUBLISHED = {"entity": 0.196, "concept": 0.524}
"""What the paper's published code reaches on yago4-recovered after 25 epochs (docs/benchmarks.md)."""

EPFO = ("1p", "2p", "3p", "2i", "3i", "pi", "ip", "2u", "up")
SCRATCH = Path("scratch")
Row = tuple[str, str]


@dataclass(slots=True)
class Report:
    """What was found so far: rows for the table, and everything as JSON."""

    deadline: float
    found: dict[str, Any] = field(default_factory=dict)
    rows: list[Row] = field(default_factory=list)

    def left(self) -> float:
        return self.deadline - time.monotonic()

    def add(self, section: str, name: str, text: str, content: Any) -> None:
        self.found.setdefault(section, {})[name] = content
        self.rows.append((f"{section}: {name}", text))
        print(f"[{self.left():4.0f} s left] {section}: {name}: {text}", flush=True)
        self.write()

    def write(self) -> None:
        folder = os.environ.get("OUT")
        if folder:
            (Path(folder) / "gpu.json").write_text(json.dumps(self.found, indent=1), encoding="utf-8")


def run_throughput(options: argparse.Namespace, report: Report) -> None:
    """Dot products and fuzzy sets, d = 256, m = 4: at least 1,000,000 and 600,000 samples/s are wanted."""
    data = replace(data_of(open_benchmark(SCRATCH / "yago4")), valid=None)
    for batch in options.batches:
        for model in ("dot", "fuzzy"):
            settings = throughput.choose(model, batch, 256, options.throughput_set)
            speed = throughput.measure(f"{model} {batch}", settings, data, options.throughput_seconds)
            report.add("throughput", speed.name, throughput.show(speed), asdict(speed))
            release()


def run_ranking(options: argparse.Namespace, report: Report) -> None:
    """The main measurements of benchmarks/concept_ranking.py, in a process of its own."""
    script = Path(__file__).with_name("concept_ranking.py")
    limit = max(10.0, min(options.ranking_seconds, report.left() - 5))
    try:
        command = [sys.executable, str(script), *options.ranking_option]
        done = subprocess.run(command, capture_output=True, text=True, timeout=limit, check=False)
        text = done.stdout if done.returncode == 0 else done.stdout + done.stderr[-2000:]
    except subprocess.TimeoutExpired as error:
        text = f"no end within {limit:.0f} s\n{(error.stdout or b'').decode() if error.stdout else ''}"
    print(text)
    report.add("ranking", "concept_ranking.py", text.strip().splitlines()[-1] if text.strip() else "silent", text)


def run_yago4(options: argparse.Namespace, report: Report) -> None:
    """TAR on yago4-recovered, evaluated on valid by the paper's protocol."""
    settings = choose("yago4", [*options.set, f"stopping.minutes={options.yago4_seconds / 60}"])
    train_and_report("yago4", "tar", SCRATCH / "yago4", settings, report)


def run_ablations(options: argparse.Namespace, report: Report) -> None:
    """The same without subsumption, and without instantiation."""
    for task in ("subsumption", "instantiation"):
        given = [f'objective.without=["{task}"]', f"stopping.minutes={options.ablation_seconds / 60}"]
        settings = choose("yago4", [*options.set, *given])
        train_and_report("ablations", f"without {task}", SCRATCH / "yago4", settings, report)


def run_sweep(options: argparse.Namespace, report: Report) -> None:
    """Variants on yago4, each `key=value key=value`."""
    for variant in options.variant:
        given = [*options.set, *variant.split(), f"stopping.minutes={options.variant_seconds / 60}"]
        train_and_report("sweep", variant, SCRATCH / "yago4", choose("yago4", given), report)


def run_honest(options: argparse.Namespace, report: Report) -> None:
    """The honest protocol on test, nine templates, three seeds, counting beside them."""
    for name in options.honest.split(","):
        benchmark = open_benchmark(SCRATCH / name)
        table = thin(benchmark.table("test"), EPFO, options.honest_queries)
        counting = summarise(rank(Counting.from_facts(benchmark.store.facts), table, benchmark))
        report.add(name, "counting", show_levels(counting), counting)
        levels = []
        for seed in range(options.seeds):
            given = [*options.honest_set, f"seed={seed}", f"stopping.minutes={options.honest_seconds / 60}"]
            found = train_and_report(
                name, f"tar seed {seed}", SCRATCH / name, choose("dbpedia77k", given), report, table
            )
            levels += [found] if found else []
        if levels:
            spread = {level: deviation([one[level]["mrr"] for one in levels]) for level in levels[0]}
            text = ", ".join(f"{level} {100 * mean:.1f} ± {100 * sd:.1f}" for level, (mean, sd) in spread.items())
            report.add(name, f"tar, {len(levels)} seeds", text, spread)


def train_and_report(
    section: str, name: str, folder: Path, settings: Settings, report: Report, table: QueryTable | None = None
) -> dict[str, Any] | None:
    """Train, evaluate on the table (valid where none is given), report; none where the time is too short."""
    if report.left() < 60 * settings.stopping.minutes + 15:
        report.add(section, name, "skipped: too little time is left", None)
        return None
    began, curve = time.monotonic(), list[Validated]()
    speeds: list[float] = []
    benchmark = open_benchmark(folder)
    with tempfile.TemporaryDirectory() as scratch:
        run = Path(scratch) / "run"
        try:
            state = start(folder, run, settings, Listeners([collect(curve, speeds)]))
        except TarboxError as error:
            report.add(section, name, f"failed: {error}", None)
            return None
        device = "cuda" if torch.cuda.is_available() else "cpu"
        scorer = open_run(run).scorer(device)
        levels = summarise(rank(scorer, table if table is not None else benchmark.table("valid"), benchmark))
    passed = next((event.seconds for event in curve if passes(event)), None)
    content = {
        "levels": levels,
        "settings": settings.table(),
        "epochs": state.epoch,
        "best_epoch": state.best_epoch,
        "seconds": state.seconds,
        "wall": time.monotonic() - began,
        "samples_per_second": statistics.median(speeds) if speeds else None,
        "published_passed_after": passed,
        "curve": [(event.epoch, event.seconds, dict(event.levels)) for event in curve],
    }
    reached = f", published passed after {passed:.1f} s" if passed is not None else ""
    text = f"{show_levels(levels)} ({state.epoch} epochs, best {state.best_epoch}, {state.seconds:.0f} s{reached})"
    report.add(section, name, text, content)
    release()
    return levels


def collect(curve: list[Validated], speeds: list[float]) -> Callable[[Event], None]:
    def listen(event: Event) -> None:
        if isinstance(event, Validated):
            curve.append(event)
            loss = " ".join(f"{level} {100 * mrr:.1f}" for level, mrr in event.levels.items())
            print(f"    epoch {event.epoch:4} {event.seconds:6.1f} s  {loss}", flush=True)
        elif isinstance(event, EpochEnded):
            speeds.append(event.samples_per_second)

    return listen


def passes(event: Validated) -> bool:
    return all(event.levels.get(level, 0.0) >= mrr for level, mrr in PUBLISHED.items())


def rank(scorer: Any, table: QueryTable, benchmark: Benchmark) -> Results:
    with torch.no_grad():
        ranked = rank_table(scorer, table, benchmark.excluded())
    return measure(ranked, "model", benchmark.protocol, Bootstrap(draws=200))


def summarise(results: Results) -> dict[str, Any]:
    """MRR, its interval and the templates' MRR, by level."""
    return {
        level.value: {
            "mrr": found.overall.average.values["mrr"],
            "hits@3": found.overall.average.values["hits@3"],
            "ci": found.overall.average.ci,
            "templates": {name: summary.values["mrr"] for name, summary in found.overall.templates.items()},
        }
        for level, found in results.levels.items()
    }


def show_levels(levels: dict[str, Any]) -> str:
    return ", ".join(f"{level} {100 * found['mrr']:.1f}" for level, found in levels.items())


def deviation(values: Sequence[float]) -> tuple[float, float]:
    return statistics.mean(values), statistics.stdev(values) if len(values) > 1 else 0.0


def thin(table: QueryTable, templates: Sequence[str], queries: int) -> QueryTable:
    """The first `queries` of each of these templates and each level."""
    import numpy as np

    counts: dict[tuple[str | None, str | None], int] = {}
    kept = []
    for place, key in enumerate(zip(table.texts("level"), table.texts("template"), strict=True)):
        counts[key] = counts.get(key, 0) + 1
        if key[1] in templates and counts[key] <= queries:
            kept.append(place)
    return table.take(np.array(kept, np.int64))


def choose(recipe: str, given: Sequence[str]) -> Settings:
    return resolve([read_recipe(recipe), read_assignments(list(given), "tar")], "tar")


def release() -> None:
    gc.collect()
    if torch.cuda.is_available():
        torch.cuda.empty_cache()


SECTIONS: dict[str, Callable[[argparse.Namespace, Report], None]] = {
    "throughput": run_throughput,
    "ranking": run_ranking,
    "yago4": run_yago4,
    "ablations": run_ablations,
    "honest": run_honest,
    "sweep": run_sweep,
}


def read_options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--only", default=",".join(SECTIONS), help=f"of {', '.join(SECTIONS)}")
    parser.add_argument("--seconds", type=float, default=520.0, help="for everything")
    parser.add_argument("--set", action="append", default=[], help="a setting of the yago4 runs")
    parser.add_argument("--batches", type=lambda text: list(map(int, text.split(","))), default=[8192])
    parser.add_argument("--throughput-set", action="append", default=[], help="a setting of the throughput runs")
    parser.add_argument("--throughput-seconds", type=float, default=3.0)
    parser.add_argument("--ranking-seconds", type=float, default=75.0)
    parser.add_argument("--ranking-option", action="append", default=[], help="an argument of concept_ranking.py")
    parser.add_argument("--yago4-seconds", type=float, default=75.0)
    parser.add_argument("--ablation-seconds", type=float, default=30.0)
    parser.add_argument("--honest", default="dbpedia77k,codex-m")
    parser.add_argument("--honest-set", action="append", default=[], help="a setting of the honest runs")
    parser.add_argument("--honest-seconds", type=float, default=25.0)
    parser.add_argument("--honest-queries", type=int, default=300, help="per template and level")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--variant", action="append", default=[], help="'key=value key=value', for sweep")
    parser.add_argument("--variant-seconds", type=float, default=40.0)
    return parser.parse_args()


def chosen(only: str) -> Iterator[tuple[str, Callable[[argparse.Namespace, Report], None]]]:
    for name in only.split(","):
        if name not in SECTIONS:
            sys.exit(f"no section {name!r}; there are {', '.join(SECTIONS)}")
        yield name, SECTIONS[name]


def main() -> None:
    options = read_options()
    sections = list(chosen(options.only))
    report = Report(time.monotonic() + options.seconds)
    print(torch.__version__, torch.cuda.get_device_name() if torch.cuda.is_available() else "CPU", flush=True)
    for name, section in sections:
        if report.left() < 10:
            report.rows.append((name, "skipped: no time is left"))
            continue
        try:
            section(options, report)
        except Exception as error:  # noqa: BLE001 (one broken section must not cost the others)
            traceback.print_exc()
            report.add(
                name, "error", f"{type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''}", None
            )
        release()
    print()
    width = max((len(name) for name, _ in report.rows), default=0)
    for name, text in report.rows:
        print(f"{name:{width}}  {text}")


if __name__ == "__main__":
    main()
