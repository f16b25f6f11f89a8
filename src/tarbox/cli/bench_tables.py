"""`tarbox bench import`, `tarbox bench export` and `tarbox bench info`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from tarbox.cli.exits import WITH_REJECTED

if TYPE_CHECKING:
    from tarbox.benchmark.summary import BenchmarkSummary
    from tarbox.evaluation.reports import ReportTable


def import_benchmark(
    folder: Annotated[
        Path | None,
        typer.Argument(
            metavar="[FOLDER]", help="BetaE's or Query2box's pickles, or JSON lines beside a knowledge base."
        ),
    ] = None,
    *,
    output: Annotated[Path, typer.Option("-o", "--output", help="The benchmark folder to write.")],
    answers: Annotated[
        Literal["exact", "given"],
        typer.Option(help="Of pickles: as the facts have it, or as given, where a set asks for some answers only."),
    ] = "exact",
    kb: Annotated[Path | None, typer.Option(help="Instead of a folder: the store of the training facts.")] = None,
    train: Annotated[Path | None, typer.Option(help="Training queries: JSON lines, plain or .gz.")] = None,
    valid: Annotated[Path | None, typer.Option(help="Validation queries.")] = None,
    test: Annotated[Path | None, typer.Option(help="Test queries.")] = None,
) -> None:
    """Make a benchmark of a folder of published queries, or of a store and query tables in JSON lines."""
    from tarbox.benchmark import importing
    from tarbox.cli.places import check_kb

    given = {name: file for name, file in (("train", train), ("valid", valid), ("test", test)) if file is not None}
    if (folder is None) == (kb is None) or (folder is not None and given):
        raise typer.BadParameter("name either a FOLDER alone, or --kb with --train, --valid and --test")
    if folder is not None:
        done = importing.import_folder(folder, output, answers == "given")
    elif kb is not None:
        check_kb(kb)
        done = importing.import_benchmark(kb, given, output)
    for line in (*done.rejected(), *done.notes):
        typer.echo(line, err=True)
    for split, reading in done.readings.items():
        outside = len(reading.table.outside())
        note = f", {outside:,} targets outside the vocabulary (they score 0)" if outside else ""
        typer.echo(f"{split}: {len(reading.table):,} queries, {len(reading.rejected):,} lines rejected{note}")
    if done.rejected():
        raise typer.Exit(WITH_REJECTED)


def export_benchmark(
    path: Annotated[Path, typer.Argument(metavar="BENCH", help="A benchmark folder.")],
    output: Annotated[Path, typer.Option("-o", "--output", help="The folder to write.")],
    format: Annotated[Literal["betae", "jsonl"], typer.Option(help="KGReasoning's pickles, or JSON lines.")] = "jsonl",
) -> None:
    """Write a benchmark as a folder that other programs read, and `tarbox bench import` too."""
    from tarbox.benchmark import exporting
    from tarbox.benchmark.folder import open_benchmark

    for note in exporting.export_benchmark(open_benchmark(path), output, format):
        typer.echo(note, err=True)
    typer.echo(f"{output}: {', '.join(sorted(file.name for file in output.iterdir()))}")


def show_benchmark(
    path: Annotated[Path, typer.Argument(metavar="BENCH", help="A benchmark folder.")],
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Show what a benchmark holds: sizes, templates, easy and hard answers, missing links, examples."""
    from tarbox.benchmark.folder import open_benchmark
    from tarbox.benchmark.summary import summarise
    from tarbox.evaluation.reports import to_terminal

    summary = summarise(open_benchmark(path))
    if as_json:
        typer.echo(json.dumps(summary.to_json(), indent=2, ensure_ascii=False))
        return
    splits = dict.fromkeys(group.split for group in summary.groups)
    sizes = ", ".join(f"{count:,} {kind}" for kind, count in summary.counts.items())
    typer.echo(f"{summary.protocol} protocol; to train on: {sizes}")
    typer.echo(to_terminal([_queries(summary, split) for split in splits]), nl=False)
    for split, share in summary.hard_concepts.items():
        typer.echo(f"hard concept targets, {split}: {100 * share:.1f}%")
    for level, size in summary.excluded.items():
        typer.echo(f"{level}s that are no candidates: {size}")
    for example in summary.examples:
        typer.echo(f"{example.template} {example.level}: {example.text}\n    answer: {example.target}")


def _queries(summary: BenchmarkSummary, split: str) -> ReportTable:
    from tarbox.evaluation.reports import ReportTable

    rows = tuple(
        (
            f"{group.level} {group.template}",
            f"{group.queries:,}",
            f"{group.targets:,}",
            f"{group.known:,}",
            f"{group.easy:,}",
            f"{group.hard:,}",
            "  ".join(f"{links}: {count:,}" for links, count in group.missing.items()),
        )
        for group in summary.groups
        if group.split == split
    )
    header = ("template", "queries", "targets", "known", "easy", "hard", "missing links")
    return ReportTable(f"{split}: queries and their answers", header, rows)
