"""`tarbox bench build`: a benchmark from a knowledge base."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from tarbox.cli.progress_line import ProgressLine

if TYPE_CHECKING:
    from tarbox.benchmark.building import Built
    from tarbox.benchmark.options import BenchmarkOptions
    from tarbox.benchmark.sampling import SamplingTask


def build(
    kb: Annotated[Path, typer.Argument(metavar="KB", help="A store, made with `tarbox kb build`.")],
    *,
    output: Annotated[Path, typer.Option("-o", "--output", help="The benchmark folder to write.")],
    protocol: Annotated[Literal["honest", "paper"], typer.Option(help="honest, or as in the paper.")] = "honest",
    split: Annotated[
        Literal["random", "column"],
        typer.Option(help="Hold out assertions at random, or as the table's fourth column says."),
    ] = "random",
    train: Annotated[int, typer.Option(help="Training queries per template and level.")] = 10_000,
    valid: Annotated[int, typer.Option(help="Validation queries per template and level.")] = 1_000,
    test: Annotated[int, typer.Option(help="Test queries per template and level.")] = 1_000,
    max_answers: Annotated[int, typer.Option(help="Leave out queries with more answers to rank.")] = 100,
    templates: Annotated[str | None, typer.Option(help="Names, separated by commas; all by default.")] = None,
    template: Annotated[
        list[str] | None, typer.Option(help="Your own, as NAME=EXPRESSION: 'ci=?c1 and (?r1 value ?e1)'.")
    ] = None,
    calibration: Annotated[
        int,
        typer.Option(
            help="Queries of 1p and 2p and each level to check degrees with, and as many to fit them to; 0 for none. "
            "Honest protocol."
        ),
    ] = 2_000,
    balance: Annotated[
        Literal["missing"] | None,
        typer.Option(help="Ask as often for an answer with each number of missing links; one at a time."),
    ] = None,
    min_degree: Annotated[int, typer.Option(min=0, help="Leave out entities with fewer assertions.")] = 0,
    seed: Annotated[int, typer.Option(min=0, help="The same seed gives the same benchmark.")] = 0,
    workers: Annotated[int | None, typer.Option(help="Threads; one per processor by default.")] = None,
) -> None:
    """Split the facts, sample queries, answer them exactly."""
    from tarbox.benchmark.building import build_benchmark
    from tarbox.benchmark.options import BenchmarkOptions, Protocol, choose_shapes
    from tarbox.cli.places import check_kb
    from tarbox.kb.splits import SplitBy
    from tarbox.kb.store import open_store

    check_kb(kb)
    chosen = Protocol(protocol)
    options = BenchmarkOptions(
        protocol=chosen,
        split=SplitBy(split),
        counts=(train, valid, test),
        max_answers=max_answers,
        seed=seed,
        shapes=choose_shapes(templates, template or [], chosen),
        workers=workers if workers is not None else os.cpu_count() or 1,
        calibration=calibration,
        min_degree=min_degree,
        balanced=balance is not None,
    )
    store = open_store(kb)
    with ProgressLine() as line:
        built = build_benchmark(store.facts, options, output, _progress(line, options), store)
    _report(built, output)


def _progress(line: ProgressLine, options: BenchmarkOptions) -> Callable[[SamplingTask, int], None]:
    """What is told how far each task is: a share of all queries wanted."""
    from tarbox.benchmark.calibration import calibration_tasks
    from tarbox.benchmark.sampling import tasks_of

    wanted = sum(task.wanted for task in (*tasks_of(options), *calibration_tasks(options)))
    done: dict[SamplingTask, int] = {}

    def advance(task: SamplingTask, count: int) -> None:
        done[task] = count
        line.show(f"{task.template} {task.part}", sum(list(done.values())) / max(wanted, 1))

    return advance


def _report(built: Built, output: Path) -> None:
    """What was built, on standard output; what is lacking, on standard error."""
    for sentence in built.shortfalls:
        typer.echo(sentence, err=True)
    counts = ", ".join(f"{count:,} {part}" for part, count in built.manifest["counts"].items())
    typer.echo(f"{output}: {counts} queries ({built.manifest['protocol']} protocol)")
