"""`tarbox predict`: the most likely facts of a relation that are not known, with what speaks for each."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from tarbox.core.errors import ConfigError

if TYPE_CHECKING:
    from tarbox.service.candidates import CandidateList

ON_SCREEN: Final = 10
IN_FILE: Final = 1_000


def predict(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="A run.", show_default=False)],
    *,
    relation: Annotated[
        str | None,
        typer.Option("--relation", help="A relation; 'inverse NAME' for its objects first; 'type' for typings."),
    ] = None,
    concept: Annotated[str | None, typer.Option("--types", metavar="CONCEPT", help="New members of a concept.")] = None,
    within: Annotated[
        str | None, typer.Option("--for", metavar="QUERY", help="Only subjects that are known answers of this query.")
    ] = None,
    count: Annotated[
        int | None,
        typer.Option(
            "-n", min=1, help=f"How many; {ON_SCREEN} on a screen, {IN_FILE:,} elsewhere.", show_default=False
        ),
    ] = None,
    output: Annotated[Path | None, typer.Option("-o", "--output", help="FILE.tsv, or FILE.json.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
    as_tsv: Annotated[bool, typer.Option("--tsv", help="Print a table with tabs.")] = False,
) -> None:
    """List the most likely new facts of a relation: probability, both names, what speaks for each; and how many of the
    first n are expected to be true."""
    if relation is None and concept is None:
        raise typer.BadParameter("give --relation NAME, --relation type or --types CONCEPT")
    if as_json + as_tsv + (output is not None) > 1:
        raise typer.BadParameter("give one of -o FILE, --json and --tsv")
    from tarbox.cli.places import check_output
    from tarbox.service.reasoner import Reasoner

    check_output(output)
    if output is not None and output.suffix not in (".tsv", ".json"):
        raise ConfigError(f"cannot write {output}: the name must end in .tsv or .json")
    reasoner = Reasoner.load(run)
    on_screen = not (as_json or as_tsv or output)
    relation = "type" if relation is None else relation
    found = reasoner.candidates(relation, within, count or (ON_SCREEN if on_screen else IN_FILE), concept)
    if on_screen:
        _print(found)
        return
    in_json = as_json or (output is not None and output.suffix == ".json")
    text = json.dumps(asdict(found), ensure_ascii=False, indent=2) if in_json else "\n".join(_tsv(found))
    if output is None:
        typer.echo(text)
        return
    output.write_text(text + "\n", encoding="utf-8")
    typer.echo(f"{output}: {_summary(found)}")


def _tsv(found: CandidateList) -> Iterator[str]:
    yield "subject\tsubject_label\tobject\tobject_label\tdegree\texpected_precision\tevidence"
    for each in found.candidates:
        numbers = f"{each.degree:.4f}", "" if each.expected_precision is None else f"{each.expected_precision:.4f}"
        names = each.subject.iri, each.subject.label, each.object.iri, each.object.label
        cells = (*names, *numbers, " | ".join(each.evidence))
        yield "\t".join(" ".join(cell.split()) for cell in cells)


def _summary(found: CandidateList) -> str:
    """How many there are, and how many of them are expected to be true."""
    expected = [f"{100 * share:.0f}% of the first {int(n):,}" for n, share in found.expected_precision.items()]
    if not expected:
        return f"{len(found.candidates):,} candidates" + (" by the model's scores" if found.candidates else "")
    return f"{len(found.candidates):,} of {found.count:,} candidates; expected to be true: {', '.join(expected)}"


def _print(found: CandidateList) -> None:
    from rich.console import Console
    from rich.padding import Padding
    from rich.text import Text

    console = Console(highlight=False, markup=False)
    console.print(Text(_summary(found), style="bold"))
    for each in found.candidates:
        line = Text(f"{each.degree:.2f}  ", style="cyan").append(each.subject.label, style="bold default")
        console.print(line.append(f"  {found.relation}  ", style="dim").append(each.object.label, style="bold default"))
        for said in each.evidence or ("nothing near it in the graph: the model's score alone",):
            console.print(Padding(Text(said, style="dim"), (0, 0, 0, 6), expand=False))
