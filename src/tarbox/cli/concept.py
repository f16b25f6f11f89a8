"""`tarbox concept`: the members of a concept by degree, the paper's case study."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tarbox.service.degrees import MIN_DEGREE

if TYPE_CHECKING:
    from tarbox.service.answers import EntityAnswer
    from tarbox.service.knowledge_base import KnowledgeBase


def concept(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="A run, made with `tarbox train`.", show_default=False)],
    name: Annotated[str, typer.Argument(metavar="NAME", help="A concept: name, label or IRI.", show_default=False)],
    *,
    k: Annotated[
        int, typer.Option("-k", min=0, help="How many members, known and predicted ones each; 0 for all.")
    ] = 20,
    min_degree: Annotated[
        float, typer.Option("--min-degree", min=0, max=1, help="The least probability of a predicted member.")
    ] = MIN_DEGREE,
    device: Annotated[str, typer.Option(help="auto, cpu, cuda or cuda:N.")] = "cpu",
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
    as_tsv: Annotated[bool, typer.Option("--tsv", help="Print a table with tabs.")] = False,
) -> None:
    """Show the members of a concept: those the facts name, and those the model predicts."""
    if as_json and as_tsv:
        raise typer.BadParameter("give --json or --tsv, not both")
    from tarbox.cli.places import check_device
    from tarbox.service.reasoner import Reasoner

    reasoner = Reasoner.load(run, check_device(device))
    thing = reasoner.kb.concepts[name]
    members = reasoner.members(thing.iri, k or None, min_degree)
    if as_json:
        content = {"iri": thing.iri, "label": thing.label, "members": [asdict(member) for member in members]}
        typer.echo(json.dumps(content, ensure_ascii=False, indent=2))
        return
    if as_tsv:
        typer.echo("iri\tlabel\tdegree\tstatus")
        for member in members:
            typer.echo(f"{member.iri}\t{member.label}\t{member.degree:.6g}\t{member.status}")
        return
    _print_table(reasoner.kb, thing.label, members)


def _print_table(kb: KnowledgeBase, label: str, members: Sequence[EntityAnswer]) -> None:
    from rich.console import Console
    from rich.table import Table

    from tarbox.core.ids import Role
    from tarbox.kb.terms import from_ntriples

    table = Table(title=f"members of {label}", title_justify="left", title_style="bold", box=None, header_style="dim")
    for column in ("entity", "degree", "status"):
        table.add_column(column, justify="right" if column == "degree" else "left")
    for member in members:
        written = kb.resolver.write(Role.ENTITY, from_ntriples(member.iri))
        named = written if written.strip("'") == member.label else f"{written} ! {member.label}"
        table.add_row(named, f"{member.degree:.3f}", member.status)
    Console(highlight=False, markup=False).print(table)
