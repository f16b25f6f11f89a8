"""`tarbox bench import` and `tarbox bench info`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tarbox.cli.evaluate import WITH_REJECTED

if TYPE_CHECKING:
    from tarbox.benchmark.summary import Summary
    from tarbox.evaluation.reports import Table


def import_benchmark(
    kb: Annotated[Path, typer.Option(help="The store of the training facts.")],
    output: Annotated[Path, typer.Option("-o", "--output", help="The benchmark folder to write.")],
    train: Annotated[Path | None, typer.Option(help="Training queries: JSON lines, plain or .gz.")] = None,
    valid: Annotated[Path | None, typer.Option(help="Validation queries.")] = None,
    test: Annotated[Path | None, typer.Option(help="Test queries.")] = None,
) -> None:
    """Make a benchmark of a store and query tables in JSON lines."""
    from tarbox.benchmark import importing

    given = {"train": train, "valid": valid, "test": test}
    done = importing.import_benchmark(kb, {split: file for split, file in given.items() if file is not None}, output)
    for line in done.rejected():
        typer.echo(line, err=True)
    for split, reading in done.readings.items():
        outside = len(reading.table.outside())
        note = f", {outside:,} targets outside the vocabulary (they score 0)" if outside else ""
        typer.echo(f"{split}: {len(reading.table):,} queries, {len(reading.rejected):,} lines rejected{note}")
    if done.rejected():
        raise typer.Exit(WITH_REJECTED)


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
    typer.echo(to_terminal([_statistics(summary), _queries(summary)]), nl=False)
    for split, share in summary.hard_concepts.items():
        typer.echo(f"hard concept targets, {split}: {100 * share:.1f}%")
    for level, size in summary.excluded.items():
        typer.echo(f"{level}s that are no candidates: {size}")
    for example in summary.examples:
        typer.echo(f"{example.template} {example.level}: {example.text}\n    answer: {example.target}")


def _statistics(summary: Summary) -> Table:
    """The columns of the paper's statistics table."""
    from tarbox.evaluation.reports import Table

    sizes = tuple(f"{summary.counts[name]:,}" for name in ("entities", "concepts", "relations"))
    rows = tuple(
        (
            part.split,
            *sizes,
            f"{part.con_1p:,}",
            _span(part.con_other),
            f"{part.ent_1p:,}",
            _span(part.ent_other),
            _count(part.sub),
            _count(part.ins),
            f"{part.nlr_1p:,}",
            _span(part.nlr_other),
        )
        for part in summary.partitions
    )
    header = ("split", "|E|", "|C|", "|R|", "Con-1p", "Con-other", "Ent-1p", "Ent-other", "Sub", "Ins")
    return Table(f"{summary.protocol} protocol", (*header, "NLR-1p", "NLR-other"), rows)


def _queries(summary: Summary) -> Table:
    from tarbox.evaluation.reports import Table

    rows = tuple(
        (
            f"{group.split} {group.level} {group.template}",
            f"{group.queries:,}",
            f"{group.targets:,}",
            f"{group.known:,}",
            f"{group.easy:,}",
            f"{group.hard:,}",
            " ".join(f"{links}:{count:,}" for links, count in group.missing.items()),
        )
        for group in summary.groups
    )
    header = ("queries of", "queries", "targets", "known", "easy", "hard", "missing links")
    return Table("queries and their answers", header, rows)


def _span(sizes: tuple[int, int]) -> str:
    """The number of queries of each other template, or the fewest and the most."""
    fewest, most = sizes
    return f"{most:,}" if fewest == most else f"{fewest:,}-{most:,}"


def _count(number: int | None) -> str:
    return "-" if number is None else f"{number:,}"
