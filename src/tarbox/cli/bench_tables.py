"""`tarbox bench import` and `tarbox bench info`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from tarbox.cli.exits import WITH_REJECTED

if TYPE_CHECKING:
    from tarbox.benchmark.summary import BenchmarkSummary
    from tarbox.evaluation.reports import Table

_SIZES: Final = {"|E|": "entities", "|C|": "concepts", "|R|": "relations"}


def import_benchmark(
    kb: Annotated[Path, typer.Option(help="The store of the training facts.")],
    output: Annotated[Path, typer.Option("-o", "--output", help="The benchmark folder to write.")],
    train: Annotated[Path | None, typer.Option(help="Training queries: JSON lines, plain or .gz.")] = None,
    valid: Annotated[Path | None, typer.Option(help="Validation queries.")] = None,
    test: Annotated[Path | None, typer.Option(help="Test queries.")] = None,
) -> None:
    """Make a benchmark of a store and query tables in JSON lines."""
    from tarbox.benchmark import importing
    from tarbox.cli.places import check_kb

    check_kb(kb)
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
    splits = dict.fromkeys(group.split for group in summary.groups)
    typer.echo(to_terminal([_statistics(summary), *(_queries(summary, split) for split in splits)]), nl=False)
    for split, share in summary.hard_concepts.items():
        typer.echo(f"hard concept targets, {split}: {100 * share:.1f}%")
    for level, size in summary.excluded.items():
        typer.echo(f"{level}s that are no candidates: {size}")
    for example in summary.examples:
        typer.echo(f"{example.template} {example.level}: {example.text}\n    answer: {example.target}")


def _statistics(summary: BenchmarkSummary) -> Table:
    """The columns of the paper's statistics table, each as a row."""
    from tarbox.evaluation.reports import Table

    parts = summary.partitions
    rows = (
        *((title, *[f"{summary.counts[name]:,}"] * len(parts)) for title, name in _SIZES.items()),
        ("Con-1p", *(f"{part.con_1p:,}" for part in parts)),
        ("Con-other, each", *(_span(part.con_other) for part in parts)),
        ("Ent-1p", *(f"{part.ent_1p:,}" for part in parts)),
        ("Ent-other, each", *(_span(part.ent_other) for part in parts)),
        ("Sub", *(_count(part.sub) for part in parts)),
        ("Ins", *(_count(part.ins) for part in parts)),
        ("NLR-1p", *(f"{part.nlr_1p:,}" for part in parts)),
        ("NLR-other, each", *(_span(part.nlr_other) for part in parts)),
    )
    header = ("as in the paper's table", *(part.split for part in parts))
    return Table(f"{summary.protocol} protocol", header, rows, rules=frozenset([len(_SIZES)]))


def _queries(summary: BenchmarkSummary, split: str) -> Table:
    from tarbox.evaluation.reports import Table

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
    return Table(f"{split}: queries and their answers", header, rows)


def _span(sizes: tuple[int, int]) -> str:
    """The number of queries of each other template, or the fewest and the most."""
    fewest, most = sizes
    return f"{most:,}" if fewest == most else f"{fewest:,}-{most:,}"


def _count(number: int | None) -> str:
    return "-" if number is None else f"{number:,}"
