"""`tarbox eval`: ranks the answers of a query table and prints what a model reaches."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, final

import typer

from tarbox.cli.exits import WITH_REJECTED
from tarbox.cli.progress_line import ProgressLine
from tarbox.core.errors import BenchmarkError, ConfigError, StoreMissing
from tarbox.core.ids import Level
from tarbox.kb.arrays import Ids

if TYPE_CHECKING:
    from tarbox.benchmark.folder import Benchmark
    from tarbox.benchmark.tables import QueryTable
    from tarbox.evaluation.calibration import Calibration
    from tarbox.evaluation.evaluator import Ranked
    from tarbox.kb.facts import Facts
    from tarbox.models.saved import SavedRun
    from tarbox.models.scorer import Scorer

GIVEN = "given"
"""The protocol of a query file by itself: its known answers are filtered, and every name is a candidate."""


@final
@dataclass(frozen=True, slots=True)
class EvaluationTask:
    """Everything to be evaluated: training facts, queries, and which candidates are left out.

    `calibration` are queries to check degrees with, where the benchmark has them and its test queries are evaluated.
    """

    facts: Facts
    table: QueryTable
    protocol: str
    excluded: Mapping[Level, Ids]
    rejected: tuple[str, ...] = ()
    calibration: QueryTable | None = None


def evaluate(
    path: Annotated[
        Path, typer.Argument(metavar="RUN|BENCH|KB", help="A run, a benchmark, or a store with --queries.")
    ],
    *,
    model: Annotated[
        str | None, typer.Option(help="The model, where RUN|BENCH|KB is no run; counting, if not given.")
    ] = None,
    bench: Annotated[Path | None, typer.Option(help="Where the benchmark of a run is, if it has moved.")] = None,
    queries: Annotated[Path | None, typer.Option(help="A query table: JSON lines, plain or .gz.")] = None,
    split: Annotated[
        Literal["train", "valid", "test"] | None,
        typer.Option(help="The queries of a benchmark to evaluate; test where there are any."),
    ] = None,
    protocol: Annotated[
        Literal["honest", "paper"] | None,
        typer.Option(help="honest leaves top concepts out, paper ranks all; as the benchmark says, if not given."),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON (fractions between 0 and 1).")] = False,
    markdown: Annotated[bool, typer.Option(help="Print Markdown tables.")] = False,
    latex: Annotated[bool, typer.Option(help="Print LaTeX tables.")] = False,
    ranks: Annotated[Path | None, typer.Option(help="Write every single rank: .jsonl, or else with tabs.")] = None,
    plot: Annotated[Path | None, typer.Option(help="Draw bars per template, and degrees: .png, .svg or .pdf.")] = None,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the bootstrap intervals.")] = 0,
    device: Annotated[str, typer.Option(help="Where a run is evaluated: auto, cpu, cuda or cuda:N.")] = "cpu",
) -> None:
    """Rank answers and print MRR and Hits@k per template and level; check degrees that are probabilities."""
    from tarbox.cli.places import check_device, check_output, check_plot
    from tarbox.evaluation.evaluator import rank_table
    from tarbox.evaluation.metrics import Bootstrap, measure
    from tarbox.evaluation.reports import RENDERERS, tabulate, tabulate_calibration, to_json
    from tarbox.models.saved import is_run, open_run

    form = _choose_form({"json": as_json, "markdown": markdown, "latex": latex})
    check_output(ranks)
    check_plot(plot)
    device = check_device(device)
    run = open_run(path) if is_run(path) else None
    name = _choose_model(run, model)
    task = _open_task(_find_queries(run, path, bench, queries), queries, split, protocol)
    _report_unusable(task)
    scorer = _make_scorer(run, name, task.facts, device)
    with ProgressLine() as line:
        counter = line.counter(f"ranking with {name}", len(task.table))
        ranked = rank_table(scorer, task.table, task.excluded, counter)
    _report_left_out(ranked, name)
    results = measure(ranked, name, task.protocol, Bootstrap(seed=seed))
    calibration = _calibrate(scorer, task, name)
    if form == "json":
        typer.echo(json.dumps(to_json(results) | _calibration_json(calibration), indent=2))
    else:
        more = [] if calibration is None else [tabulate_calibration(calibration)]
        typer.echo(RENDERERS[form]([*tabulate(results), *more]), nl=False)
    if ranks is not None:
        _write_ranks(ranked, task, ranks)
    if plot is not None:
        from tarbox.evaluation.plots import draw_templates

        draw_templates(results, plot)
        _plot_calibration(calibration, plot)
    if task.rejected:
        raise typer.Exit(WITH_REJECTED)


def _choose_model(run: SavedRun | None, named: str | None) -> str:
    """The model of a run, which has no other; elsewhere the one that is named, if it needs no training."""
    from tarbox.models.registry import find_model

    if run is not None:
        if named not in (None, run.model_name):
            raise ConfigError(
                f"{run.path} is a run of {run.model_name}, and no other model can be evaluated from it. "
                f"Leave out --model {named}, or train it: `tarbox train BENCH -o RUN --model {named}`."
            )
        return run.model_name
    model = named or "counting"
    if find_model(model).trained:
        raise ConfigError(
            f"{model!r} must be trained first: `tarbox train BENCH -o RUN --model {model}`, then eval RUN"
        )
    return model


def _find_queries(run: SavedRun | None, path: Path, bench: Path | None, queries: Path | None) -> Path:
    """Where the queries come from: a run's own benchmark, or its store where a query table is named."""
    if run is None:
        if bench is not None:
            raise ConfigError(f"--bench says where the benchmark of a run is, and {path} is no run. Leave it out.")
        return path
    if bench is not None:
        from tarbox.benchmark.folder import open_benchmark

        run.check_benchmark(open_benchmark(bench))
        return bench
    return run.store.path if queries is not None else run.benchmark()


def _make_scorer(run: SavedRun | None, model: str, facts: Facts, device: str) -> Scorer:
    from tarbox.models.registry import find_model

    kind = find_model(model)
    return run.scorer(device) if run is not None else kind.of_arrays(facts, {}, kind.Config(), device)


def _choose_form(asked: Mapping[str, bool]) -> str:
    chosen = [form for form, wanted in asked.items() if wanted]
    if len(chosen) > 1:
        raise typer.BadParameter(f"choose one of {', '.join(f'--{form}' for form in chosen)}")
    return chosen[0] if chosen else "terminal"


def _open_task(path: Path, queries: Path | None, split: str | None, protocol: str | None) -> EvaluationTask:
    from tarbox.benchmark.folder import is_benchmark, open_benchmark
    from tarbox.kb.store import MANIFEST, open_store
    from tarbox.models.saved import what_is_at

    if is_benchmark(path):
        benchmark = open_benchmark(path)
        facts, own = benchmark.store.facts, benchmark.excluded()
        label, excluded = _candidates(protocol, facts, benchmark.protocol, own)
        if queries is None:
            chosen = _choose_split(benchmark, split)
            # the truth of these queries is the test graph, which nobody should see who evaluates another split
            calibration = benchmark.calibration() if chosen == "test" else None
            return EvaluationTask(facts, benchmark.table(chosen), label, excluded, calibration=calibration)
        return _with_queries(facts, queries, label, excluded)
    if not (path / MANIFEST).exists():
        raise StoreMissing(f"{what_is_at(path)}. Name a run, a benchmark, or a store with --queries FILE.")
    facts = open_store(path).facts
    if queries is None:
        raise BenchmarkError(f"{path} is a store and has no queries of its own: name a query table with --queries FILE")
    return _with_queries(facts, queries, *_candidates(protocol, facts, GIVEN, {}))


def _choose_split(benchmark: Benchmark, asked: str | None) -> str:
    """The split that is asked for, else test, else valid; it must have queries."""
    there = benchmark.filled
    if asked is None and "test" not in there and "valid" in there:
        typer.echo("these are the valid queries: the benchmark has no test queries", err=True)
        return "valid"
    split = asked or "test"
    if split not in there:
        raise BenchmarkError(f"{benchmark.path} has no {split} queries; it has: {', '.join(there) or 'none'}")
    return split


def _candidates(
    asked: str | None, facts: Facts, protocol: str, own: Mapping[Level, Ids]
) -> tuple[str, Mapping[Level, Ids]]:
    """The protocol's name and who is no candidate: as the benchmark says, unless another protocol is asked for."""
    if asked is None:
        return protocol, own
    if asked == "paper":
        return asked, {}
    from tarbox.kb.closure import Instances

    top = {Level.CONCEPT: Instances.of(facts).top_concepts()}
    return asked, own if any(map(len, own.values())) else top


def _with_queries(facts: Facts, queries: Path, protocol: str, excluded: Mapping[Level, Ids]) -> EvaluationTask:
    from tarbox.benchmark.exchange import read_queries
    from tarbox.execution.binding import VocabularyResolver

    reading = read_queries(queries, facts.vocabulary, VocabularyResolver(facts.vocabulary))
    rejected = tuple(str(line) for line in reading.rejected)
    if len(reading.table) == 0:
        first = f": {rejected[0]}" if rejected else ""
        raise BenchmarkError(f"{queries} holds no query of this knowledge base{first}")
    return EvaluationTask(facts, reading.table, protocol, excluded, rejected)


def _report_unusable(task: EvaluationTask) -> None:
    for line in task.rejected:
        typer.echo(line, err=True)
    outside = len(task.table.outside())
    if outside:
        typer.echo(f"{outside} of the targets are not in the knowledge base's vocabulary: they score 0", err=True)


def _report_left_out(ranked: Ranked, model: str) -> None:
    if not ranked.left_out:
        return
    names = ", ".join(ranked.left_out)
    if len(ranked.table) == 0:
        raise BenchmarkError(f"{model} does not support any of these queries: {names}")
    typer.echo(f"left out, since {model} does not support them: {names}", err=True)


def _calibrate(scorer: Scorer, task: EvaluationTask, model: str) -> Calibration | None:
    """None where there is nothing to check degrees with, or the model's scores are no probabilities."""
    from tarbox.evaluation.calibration import measure_calibration
    from tarbox.models.scorer import Predictor

    if task.calibration is None or not isinstance(scorer, Predictor):
        return None
    with ProgressLine() as line:
        counter = line.counter("checking degrees", len(task.calibration))
        return measure_calibration(scorer, task.calibration, model, counter)


def _calibration_json(calibration: Calibration | None) -> dict[str, Any]:
    from tarbox.evaluation.calibration import to_json

    return {} if calibration is None else {"calibration": to_json(calibration)}


def _plot_calibration(calibration: Calibration | None, plot: Path) -> None:
    if calibration is None or not calibration.overall.n:
        return
    from tarbox.evaluation.calibration_plots import beside, draw_reliability

    draw_reliability(calibration, beside(plot))
    typer.echo(f"reliability diagrams: {beside(plot)}", err=True)


def _write_ranks(ranked: Ranked, task: EvaluationTask, path: Path) -> None:
    from tarbox.evaluation.reports import ranks_text

    try:
        path.write_text(ranks_text(ranked, task.facts.vocabulary, path.suffix == ".jsonl"), encoding="utf-8")
    except OSError as error:
        raise ConfigError(f"cannot write {path}: {error.strerror}") from None
