"""`tarbox compare`: several models on one benchmark, as the paper's tables."""

from __future__ import annotations

import json
import shutil
import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from tarbox.core.errors import BenchmarkError, ConfigError

if TYPE_CHECKING:
    from tarbox.benchmark.folder import Benchmark
    from tarbox.cli.compare_progress import Reporter
    from tarbox.evaluation.comparison import Comparison, Selection
    from tarbox.training.comparison import Plan
    from tarbox.training.model_specs import ModelSpec, Overrides

_WIDTH = 120


def compare(
    source: Annotated[Path, typer.Argument(metavar="BENCH", help="A benchmark.")],
    *,
    output: Annotated[Path, typer.Option("-o", "--output", help="The folder of the comparison; an old one goes on.")],
    models: Annotated[
        str | None,
        typer.Option(help="tar,gqe,...: registered names or package.module:Class; NAME=MODEL gives another name."),
    ] = None,
    ablations: Annotated[bool, typer.Option("--ablations", help="Add tar-no-sub and tar-no-ins.")] = False,
    seeds: Annotated[
        int | None, typer.Option(min=1, help="Runs of each trained model; 3 at first, later as before.")
    ] = None,
    split: Annotated[Literal["valid", "test"] | None, typer.Option(help="test where there is one, else valid.")] = None,
    templates: Annotated[str | None, typer.Option(help="Compare on these only: 1p,2p,...")] = None,
    queries: Annotated[int, typer.Option(min=0, help="At most so many per template and level (0: all).")] = 0,
    recipe: Annotated[list[str] | None, typer.Option(help="Settings that tarbox ships: NAME or MODEL:NAME.")] = None,
    config: Annotated[list[str] | None, typer.Option(help="Settings as TOML: FILE or MODEL:FILE.")] = None,
    set_: Annotated[
        list[str] | None, typer.Option("--set", help="A setting: key=value for all, MODEL:key=value for one.")
    ] = None,
    device: Annotated[str | None, typer.Option(help="auto, cpu, cuda or cuda:N.")] = None,
    parallel: Annotated[int, typer.Option(min=1, help="Train so many runs at a time, a process each.")] = 1,
    published: Annotated[
        Literal["auto", "yago4", "dbpedia", "fb15k-237-q2b", "none"],
        typer.Option(help="The paper's figures beside; auto: where the benchmark is of its kind."),
    ] = "auto",
    as_json: Annotated[bool, typer.Option("--json", help="Print results.json instead of tables.")] = False,
) -> None:
    """Train what is missing, evaluate everything on the same queries, and write tables, a plot and results.json."""
    from tarbox.benchmark.folder import open_benchmark
    from tarbox.cli.compare_progress import Reporter
    from tarbox.cli.places import check_device
    from tarbox.cli.progress_line import ProgressLine
    from tarbox.training.comparison import make_plan
    from tarbox.training.model_specs import Overrides

    if device is not None:
        check_device(device)
    overrides = Overrides(tuple(recipe or ()), tuple(config or ()), tuple(set_ or ()), device)
    named = _model_specs(models, ablations, overrides, seeds)
    benchmark = open_benchmark(source)
    selection = _selection(benchmark, split, templates, queries)
    plan = make_plan(output, benchmark, named, parallel)
    with ProgressLine() as line:
        reporter = Reporter(plan.jobs(), line, parallel)
        comparison = _carry_out(plan, selection, reporter, (parallel, device, published))
    _show(comparison, output, as_json)
    if comparison.failed:
        raise typer.Exit(1)


def _model_specs(models: str | None, ablations: bool, overrides: Overrides, seeds: int | None) -> list[ModelSpec]:
    from tarbox.training.model_specs import ABLATIONS, choose_models

    words = [word for word in (models or "").split(",") if word.strip()]
    if ablations:
        words += [word for word in ("tar", *(f"tar{suffix}" for suffix in ABLATIONS)) if word not in words]
    if not words and (overrides.recipes or overrides.configs or overrides.assignments):
        raise ConfigError("settings need models that they are for: name them with --models")
    return [
        spec if spec.settings is None else replace(spec, seeds=seeds or 0) for spec in choose_models(words, overrides)
    ]


def _selection(benchmark: Benchmark, split: str | None, templates: str | None, queries: int) -> Selection:
    from tarbox.evaluation.comparison import Selection

    there = [name for name in ("test", "valid") if name in benchmark.filled]
    if not there:
        raise BenchmarkError(f"{benchmark.path} has neither test nor valid queries to compare on")
    chosen = tuple(name.strip() for name in (templates or "").split(",") if name.strip())
    selection = Selection(split or there[0], chosen, queries)
    selection.of(benchmark.table(selection.split))  # a template that is not there is said before anything is trained
    return selection


def _carry_out(plan: Plan, selection: Selection, reporter: Reporter, how: tuple[int, str | None, str]) -> Comparison:
    from tarbox.evaluation.published import choose_published
    from tarbox.training.comparison import train_in_turn
    from tarbox.training.comparison_results import Evaluation, write_comparison
    from tarbox.training.failures import TrainingInterrupted
    from tarbox.training.workers import train_beside

    parallel, device, published = how
    missing = [job for job in plan.jobs() if not job.is_finished()]
    try:
        failures = train_in_turn(missing, reporter) if parallel == 1 else train_beside(missing, reporter, parallel)
    except TrainingInterrupted:
        left = sum(not job.is_finished() for job in plan.jobs())
        raise TrainingInterrupted(
            f"interrupted: {left} of {len(plan.jobs())} runs are left; the same command goes on"
        ) from None
    found = choose_published(published, plan.benchmark)
    comparison = Evaluation(plan, selection, device, reporter).compare(failures, found)
    write_comparison(comparison, plan.output)
    return comparison


def _show(comparison: Comparison, output: Path, as_json: bool) -> None:
    from tarbox.evaluation.comparison_tables import comparison_terminal
    from tarbox.training.comparison_results import title_of

    if as_json:
        typer.echo(json.dumps(comparison.json(), indent=1, ensure_ascii=False))
    else:
        width = shutil.get_terminal_size((_WIDTH, 40)).columns
        typer.echo(title_of(comparison))
        typer.echo(comparison_terminal(comparison, width, sys.stdout.isatty()), nl=False)
        typer.echo(f"{output}: tables.md, tables.tex, results.json{', mrr.png' if comparison.levels() else ''}")
    for row in comparison.failed:
        for outcome in row.failures:
            run = "" if outcome.seed is None else f", seed {outcome.seed}"
            typer.echo(f"tarbox: {row.name}{run}: failed: {outcome.failure}", err=True)
