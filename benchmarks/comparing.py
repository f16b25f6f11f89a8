"""What `tarbox compare` does, without the libraries of the command line: one table of models for each benchmark.

    PYTHONPATH=src python3 benchmarks/comparing.py scratch/yago4 --models gqe,q2b,beta,fuzzqe --minutes 0.5 --parallel 4

and with other arguments: the systems of the field on Query2box's queries (in nine minutes, on one H200); TAR until it
no longer improves; generators of concepts (T is 1p,2p,3p,2i,3i,ip,pi,2u,up):

    scratch/q2b --train 120000 --prepare scratch/prepared
    scratch/prepared/q2b --split test --published fb15k-237-q2b --parallel 4 \
        --models counting,cone@5.5,beta@5.5,fuzzqe@4.5,gqe@3,q2b@2.5,qto@2,credo@1.5,cqd@1.2 \
        --set credo:stopping.epochs=15 --set cqd:rank=1000 --set cqd:batches.size=1000
    scratch/codex-m --split test --templates T --parallel 2 --minutes 4.5 --validate 5 --models tar,adversarial=tar \
        --recipe dbpedia77k --set adversarial:objective.loss=self-adversarial
    scratch/codex-m scratch/dbpedia77k --split test --templates T --parallel 3 --minutes 0 --seeds 3 \
        --models counting,box2el,joie,elem --set stopping.minutes=0.6
    scratch/biomed --split test --templates T --parallel 2 --minutes 0 --models counting,box2el,joie,elem,emel,tar \
        --recipe tar:biomed --set stopping.minutes=1.5 --set batches.size=16384 --set tar:batches.size=4096

Every model trains for its minutes of the clock (`NAME@MINUTES`, or `--minutes`; 0: until it ends as its recipe says),
beside `--parallel - 1` others of all benchmarks together; as one ends the next begins. It is ranked when it ends, while
others train. Unless `--validate` says how often, as it is then: nothing is selected on the queries of the table. With
it, by its best epoch on valid, and training ends early where ten validations in a row were no better. A benchmark
without training queries has them sampled from its facts: `--train` of each template that the field learns from, once
for all models, or by each model for itself, before its clock starts; `--prepare` writes them beforehand. After each
model $OUT gets results-BENCHMARK.json, with the rows so far, and ratios to counting.
"""

from __future__ import annotations

import argparse
import json
import os
import tempfile
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from tarbox.benchmark.building import training_table
from tarbox.benchmark.folder import Benchmark, open_benchmark, write_benchmark
from tarbox.benchmark.options import BenchmarkOptions
from tarbox.evaluation.comparison import Comparison, Selection
from tarbox.evaluation.comparison_tables import comparison_terminal
from tarbox.evaluation.published import Published, choose_published
from tarbox.query.templates import TEMPLATES
from tarbox.training.comparison import Began, Ended, Job, Plan, ProgressEvent, Trained, make_plan
from tarbox.training.comparison_results import Evaluation, title_of
from tarbox.training.events import Finished, Validated
from tarbox.training.model_specs import ModelSpec, Overrides, choose_models
from tarbox.training.workers import train_beside

BEGAN = time.monotonic()
TRAINED_ON = ("2p", "3p", "2i", "3i")
"""What is sampled beside the facts themselves, by `--train`: the templates that BetaE and its relatives learn from."""
TOLERANCE = 10
"""Validations in a row without a better one, after which a training with `--validate` ends."""


def say(text: str) -> None:
    print(f"{time.monotonic() - BEGAN:4.0f} s {text}", flush=True)


def with_ratios(found: dict[str, Any]) -> dict[str, Any]:
    """The results with `ratio` at each level of a model: its MRR, times counting's, where that is there."""
    levels = {one["model"]: one["levels"] for one in found["models"]}.get("counting", {})
    for one in found["models"]:
        for level in levels.keys() & one["levels"].keys():
            own, counted = (given[level]["average"]["mrr"]["mean"] for given in (one["levels"], levels))
            one["levels"][level]["ratio"] = own / counted
    return found


@dataclass(slots=True)
class Table:
    """The rows of one benchmark so far: a model's is made when all of its runs have ended."""

    plan: Plan
    selection: Selection
    published: Published | None
    ended: list[Job] = field(default_factory=list)
    failures: dict[tuple[str, int], str] = field(default_factory=dict)
    made: dict[str, Comparison] = field(default_factory=dict)

    def end(self, job: Job, failure: str | None) -> None:
        """Rank a model whose last run this is, and write what there is."""
        if failure is not None:
            self.failures[job.label, job.seed] = failure
        self.ended.append(job)
        spec = next(spec for spec in self.plan.models if spec.label == job.label)
        if sum(one.label == job.label for one in self.ended) == spec.seeds:
            self.make(spec)

    def make(self, spec: ModelSpec) -> None:
        alone = replace(self.plan, models=(spec,))
        self.made[spec.label] = Evaluation(alone, self.selection, None, lambda _: None).compare(self.failures, None)
        say(f"ranked {self.plan.benchmark.path.name}: {spec.label}")
        if out := os.environ.get("OUT"):
            file = Path(out, f"results-{self.plan.benchmark.path.name}.json")
            file.write_text(json.dumps(with_ratios(self.all().json()), indent=1), encoding="utf-8")

    def all(self) -> Comparison:
        """One table: the models' rows, in the order in which they were named, and what is published."""
        made = [self.made[spec.label] for spec in self.plan.models if spec.label in self.made]
        notes = dict.fromkeys(note for one in made for note in one.notes)
        rows = [row for one in made for row in one.rows]
        if self.published is None:
            return replace(made[0], rows=tuple(rows), notes=tuple(notes))
        more = self.published.note(self.plan.benchmark.store.facts.vocabulary)
        shown = (*rows, *self.published.rows())
        return replace(made[0], rows=shown, notes=(*notes, more), published_from=self.published.json())


def choose(options: argparse.Namespace) -> list[ModelSpec]:
    """The models, each with its settings and its time."""
    words = [word.partition("@") for word in options.models.split(",")]
    every, queries = options.validate or 100_000, 100 if options.validate else 1
    limits = [f"stopping.minutes={options.minutes}", "stopping.epochs=100000", f"validation.every={every}"]
    limits += [f"validation.queries={queries}", f"validation.tolerance={TOLERANCE}"]
    limits = limits if options.minutes else []
    limits += [f"{word.partition('=')[0]}:stopping.minutes={minutes}" for word, _, minutes in words if minutes]
    overrides = Overrides(tuple(options.recipe), (), (*limits, *options.set), None)
    named = choose_models([word for word, _, _ in words], overrides)
    return [one if one.settings is None else replace(one, seeds=options.seeds) for one in named]


def with_training_queries(benchmark: Benchmark, each: int, folder: Path) -> Benchmark:
    """With so many training queries of each template of the field, sampled from its facts once for all models."""
    if not each or "train" in benchmark.filled:
        return benchmark
    facts, shapes = benchmark.store.facts, {name: TEMPLATES[name].shape for name in TRAINED_ON}
    wanted = BenchmarkOptions(counts=(each, 0, 0), shapes=shapes, workers=os.cpu_count() or 1)
    own = {split: benchmark.table(split) for split in benchmark.filled}
    tables = {**own, "train": training_table(facts, wanted)}
    write_benchmark(folder, facts, tables, {"protocol": benchmark.protocol}, benchmark.excluded())
    say(f"sampled {len(tables['train']):,} training queries of {benchmark.path.name}")
    return open_benchmark(folder)


def make_tables(options: argparse.Namespace, scratch: Path) -> Iterator[Table]:
    named, templates = choose(options), tuple(filter(None, options.templates.split(",")))
    for folder in options.benchmarks:
        benchmark = with_training_queries(open_benchmark(folder), options.train, scratch / "sampled" / folder.name)
        plan = make_plan(scratch / benchmark.path.name, benchmark, named, options.parallel)
        published = choose_published(options.published, benchmark)
        yield Table(plan, Selection(options.split, templates, options.queries), published)


def train(made: Sequence[Table], parallel: int) -> None:
    """All runs of all tables, so many at a time; those that have ended are ranked meanwhile, one after the other."""
    owner = {job: table for table in made for job in table.plan.jobs()}

    def listen(event: ProgressEvent) -> None:
        if not isinstance(event, Began | Ended | Trained):
            return
        name = f"{event.job.benchmark.name}: {event.job.name}"
        if isinstance(event, Ended):
            say(f"trained {name}" + (f": {event.failure}" if event.failure else ""))
            ended.append(ranking.submit(owner[event.job].end, event.job, event.failure))
        elif isinstance(event, Began):
            say(f"begins {name}")
        elif isinstance(event.event, Validated | Finished):
            say(f"{name}: {event.event}")

    with ThreadPoolExecutor(1) as ranking:
        ended: list[Future[None]] = []
        train_beside(list(owner), listen, parallel)
        for one in ended:
            one.result()


def read_options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("benchmarks", type=Path, nargs="+")
    parser.add_argument("--models", default="gqe,q2b,beta,fuzzqe", help="NAME[@MINUTES], NAME=MODEL[@MINUTES], ...")
    parser.add_argument("--minutes", type=float, default=1.0)
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--split", default="valid")
    parser.add_argument("--templates", default="", help="names, separated by commas; all of them unless given")
    parser.add_argument("--queries", type=int, default=0, help="at most so many of each template and level (0: all)")
    parser.add_argument("--published", default="auto", help="a dataset of evaluation/published.toml, auto or none")
    parser.add_argument("--parallel", type=int, default=1)
    parser.add_argument("--recipe", action="append", default=[], help="NAME, or MODEL:NAME")
    parser.add_argument("--set", action="append", default=[], help="key=value, or MODEL:key=value")
    parser.add_argument("--train", type=int, default=0, help="queries of each template to sample, where there are none")
    parser.add_argument("--prepare", type=Path, help="only sample them, and write FOLDER/NAME with them")
    parser.add_argument("--validate", type=int, default=0, help="epochs between validations (0: none)")
    return parser.parse_args()


def main() -> None:
    options = read_options()
    if options.prepare is not None:
        for folder in options.benchmarks:
            with_training_queries(open_benchmark(folder), options.train, options.prepare / folder.name)
        return
    with tempfile.TemporaryDirectory() as scratch:
        made = list(make_tables(options, Path(scratch)))
        for table in made:
            for spec in (spec for spec in table.plan.models if spec.settings is None):
                table.make(spec)
        train(made, options.parallel)
        for table in made:
            comparison = table.all()
            print(title_of(comparison))
            print(comparison_terminal(comparison, 160, False))
        say("in all")
    for table in made:
        for name, why in table.failures.items():
            print(f"{table.plan.benchmark.path.name}: {name}: {why}")


if __name__ == "__main__":
    main()
