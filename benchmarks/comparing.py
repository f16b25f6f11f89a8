"""What `tarbox compare` does, without the libraries of the command line: one table of models on one benchmark.

    PYTHONPATH=src python3 benchmarks/comparing.py scratch/yago4 --models gqe,q2b,beta,fuzzqe --minutes 0.5 --parallel 4
    PYTHONPATH=src python3 benchmarks/comparing.py scratch/q2b --split test --published fb15k-237-q2b \
        --models counting,gqe,q2b,beta,fuzzqe,cqd,qto,credo

    PYTHONPATH=src python3 benchmarks/comparing.py scratch/codex-m --split test --minutes 0 --seeds 3 \
        --templates 1p,2p,3p,2i,3i,ip,pi,2u,up --models counting,elem,emel,box2el,joie

Every model trains for `--minutes` of the clock, beside `--parallel - 1` others, and is ranked as it is then: nothing is
selected on the queries of the table. With 0 it ends as its recipe says, by validation. A benchmark without training
queries has them sampled from its facts; that takes a while before the clock starts. $OUT gets results.json, with ratios
to counting where it is among the models.
"""

from __future__ import annotations

import argparse
import json
import os
import tempfile
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

from tarbox.benchmark.folder import open_benchmark
from tarbox.evaluation.comparison import Selection
from tarbox.evaluation.comparison_tables import comparison_terminal
from tarbox.evaluation.published import choose_published
from tarbox.training.comparison import Began, Ended, ProgressEvent, make_plan
from tarbox.training.comparison_results import Evaluation, title_of
from tarbox.training.model_specs import Overrides, choose_models
from tarbox.training.workers import train_beside

BEGAN = time.monotonic()


def say(event: ProgressEvent) -> None:
    if isinstance(event, Began | Ended):
        print(f"{time.monotonic() - BEGAN:4.0f} s {type(event).__name__.lower()} {event.job.name}", flush=True)


def with_ratios(found: dict[str, Any]) -> dict[str, Any]:
    """The results with `ratio` at each level of a model: its MRR, times counting's, where that is there."""
    levels = {one["model"]: one["levels"] for one in found["models"]}.get("counting", {})
    for one in found["models"]:
        for level in levels.keys() & one["levels"].keys():
            own, counted = (given[level]["average"]["mrr"]["mean"] for given in (one["levels"], levels))
            one["levels"][level]["ratio"] = own / counted
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("benchmark", type=Path)
    parser.add_argument("--models", default="gqe,q2b,beta,fuzzqe")
    parser.add_argument("--minutes", type=float, default=1.0)
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--split", default="valid")
    parser.add_argument("--templates", default="", help="names, separated by commas; all of them unless given")
    parser.add_argument("--queries", type=int, default=0, help="at most so many of each template and level (0: all)")
    parser.add_argument("--published", default="auto", help="a dataset of evaluation/published.toml, auto or none")
    parser.add_argument("--parallel", type=int, default=1)
    parser.add_argument("--set", action="append", default=[], help="key=value, or MODEL:key=value")
    options = parser.parse_args()
    never = ("stopping.epochs=100000", "validation.every=100000", "validation.queries=1")
    limits = (f"stopping.minutes={options.minutes}", *never) if options.minutes else ()
    named = choose_models(options.models.split(","), Overrides((), (), (*limits, *options.set), None))
    named = [one if one.settings is None else replace(one, seeds=options.seeds) for one in named]
    benchmark = open_benchmark(options.benchmark)
    with tempfile.TemporaryDirectory() as scratch:
        plan = make_plan(Path(scratch), benchmark, named, options.parallel)
        failures = train_beside(plan.jobs(), say, options.parallel)
        published = choose_published(options.published, benchmark)
        templates = tuple(filter(None, options.templates.split(",")))
        selection = Selection(options.split, templates, options.queries)
        comparison = Evaluation(plan, selection, None, say).compare(failures, published)
    if out := os.environ.get("OUT"):
        found = with_ratios(comparison.json())
        Path(out, "results.json").write_text(json.dumps(found, indent=1), encoding="utf-8")
    print(title_of(comparison))
    print(comparison_terminal(comparison, 160, False))
    print(f"{time.monotonic() - BEGAN:.0f} s in all", *(f"{name}: {why}" for name, why in failures.items()))


if __name__ == "__main__":
    main()
