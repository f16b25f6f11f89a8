"""`tarbox concept`: the members of a concept by degree, or the place of an expression among the classes."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from tarbox.core.errors import NameLookupError
from tarbox.service.degrees import MIN_DEGREE

if TYPE_CHECKING:
    from tarbox.service.answers import EntityAnswer
    from tarbox.service.class_expressions import ClassDescription, PlacedItem
    from tarbox.service.knowledge_base import KnowledgeBase

_LISTS: Final = {
    "equivalent": ("equivalent class", "equivalent classes"),
    "direct_superclasses": ("direct superclass", "direct superclasses"),
    "predicted_superclasses": ("predicted direct superclass", "predicted direct superclasses"),
    "superclasses": ("superclass", "superclasses"),
    "direct_subclasses": ("direct subclass", "direct subclasses"),
    "predicted_subclasses": ("predicted direct subclass", "predicted direct subclasses"),
    "subclasses": ("subclass", "subclasses"),
}
_AROUND: Final = ("direct_superclasses", "predicted_superclasses", "direct_subclasses", "predicted_subclasses")


def concept(
    source: Annotated[Path, typer.Argument(metavar="RUN|KB", help="A run, or a store.", show_default=False)],
    name: Annotated[
        str,
        typer.Argument(
            metavar="NAME|EXPRESSION", help="A concept, or a class expression in Manchester syntax.", show_default=False
        ),
    ],
    *,
    k: Annotated[
        int, typer.Option("-k", min=0, help="How many of each list; of a run, known and predicted each; 0 for all.")
    ] = 20,
    min_degree: Annotated[
        float, typer.Option("--min-degree", min=0, max=1, help="The least probability of what is predicted.")
    ] = MIN_DEGREE,
    device: Annotated[str, typer.Option(help="auto, cpu, cuda or cuda:N.")] = "cpu",
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
    as_tsv: Annotated[bool, typer.Option("--tsv", help="Print a table with tabs.")] = False,
) -> None:
    """Show the classes around an expression and its instances; of a run, the members of a concept by degree, and the
    classes that are probably missing directly above and below it."""
    if as_json and as_tsv:
        raise typer.BadParameter("give --json or --tsv, not both")
    from tarbox.cli.places import check_kb
    from tarbox.models.saved import is_run
    from tarbox.service.knowledge_base import KnowledgeBase

    form = "json" if as_json else "tsv" if as_tsv else "screen"
    if is_run(source):
        _show_members(source, name, k or None, min_degree, device, form)
    else:
        check_kb(source)
        _show_place(KnowledgeBase.load(source), name, k or None, min_degree, form)


def _show_place(kb: KnowledgeBase, expression: str, k: int | None, min_degree: float, form: str) -> None:
    from tarbox.service.class_expressions import describe_expression

    found = describe_expression(kb, expression, k, min_degree)
    if form == "json":
        typer.echo(json.dumps(asdict(found), ensure_ascii=False, indent=2))
    elif form == "tsv":
        typer.echo("list\tiri\tlabel\tdegree")
        for key in (*_LISTS, "instances"):
            for thing in getattr(found, key):
                typer.echo(f"{key}\t{thing.iri}\t{thing.label}\t{thing.degree:.6g}")
    else:
        _print_place(kb, found, k)


def _print_place(kb: KnowledgeBase, found: ClassDescription, k: int | None) -> None:
    from rich.console import Console
    from rich.text import Text

    from tarbox.service.class_expressions import is_beyond_el

    console = Console(highlight=False, markup=False)
    console.print(Text(found.expression))
    console.print(Text(kb.describe(found.expression), style="italic"))
    if not found.satisfiable:
        console.print("Nothing can be in it: that would contradict the axioms. So it is below every class.")
    _print_classes(found, k, _LISTS if found.satisfiable else dict(list(_LISTS.items())[:1]))
    _print_list(("instance", "instances"), found.instances[:k], found.instance_count)
    if not found.reasoned:
        more = "; to reason with its axioms, pip install 'tarbox[owl]'" if kb.axioms() else ""
        console.print(Text(f"By the hierarchy of {kb.title} and the links between its classes{more}.", style="dim"))
    elif not kb.seconds_per_pair and is_beyond_el(kb.parse(found.expression)):
        note = "This expression is not one of OWL EL: more classes may follow. A store built with"
        console.print(Text(f"{note} --complete SECONDS takes time to look for them.", style="dim"))


def _print_classes(found: ClassDescription, k: int | None, keys: Iterable[str]) -> None:
    """Lists of classes; a store predicts none."""
    for key in keys:
        things = getattr(found, key)
        if things or not key.startswith("predicted"):
            _print_list(_LISTS[key], things[:k], len(things))


def _print_list(titles: tuple[str, str], shown: Sequence[PlacedItem], count: int) -> None:
    from rich.console import Console
    from rich.text import Text

    from tarbox.service.answers import PREDICTED

    console = Console(highlight=False, markup=False)
    number = f"{len(shown):,} of {count:,}" if len(shown) < count else f"{count:,}" if count else "no"
    console.print(Text(f"{number} {titles[count != 1]}", style="bold"))
    for thing in shown:
        degree = f"{thing.degree:.3f}  " if thing.status == PREDICTED else ""
        console.print(f"  {degree}{_written(thing.name, thing.label)}")


def _show_members(run: Path, name: str, k: int | None, min_degree: float, device: str, form: str) -> None:
    from tarbox.cli.places import check_device
    from tarbox.service.class_expressions import describe_expression
    from tarbox.service.reasoner import Reasoner

    reasoner = Reasoner.load(run, check_device(device))
    try:
        thing = reasoner.kb.concepts[name]
    except NameLookupError:  # then it is an expression, or an error that shows where
        _show_place(reasoner.kb, name, k, min_degree, form)
        return
    members = reasoner.members(thing.iri, k, min_degree)
    place = describe_expression(reasoner.kb, thing.iri, k, min_degree)
    if form == "json":
        content = {"iri": thing.iri, "label": thing.label, "members": [asdict(member) for member in members]}
        content |= {key: value for key, value in asdict(place).items() if key in _LISTS}
        typer.echo(json.dumps(content, ensure_ascii=False, indent=2))
    elif form == "tsv":
        typer.echo("iri\tlabel\tdegree\tstatus")
        for member in members:
            typer.echo(f"{member.iri}\t{member.label}\t{member.degree:.6g}\t{member.status}")
    else:
        _print_table(reasoner.kb, thing.label, members)
        _print_classes(place, k, _AROUND)


def _written(name: str, label: str) -> str:
    """As a query says it, and the label where that says more."""
    return name if name.strip("'") == label else f"{name} ! {label}"


def _print_table(kb: KnowledgeBase, label: str, members: Sequence[EntityAnswer]) -> None:
    from rich.console import Console
    from rich.table import Table

    from tarbox.core.ids import Role
    from tarbox.kb.terms import from_ntriples

    table = Table(title=f"members of {label}", title_justify="left", title_style="bold", box=None, header_style="dim")
    for column in ("entity", "degree", "status"):
        table.add_column(column, justify="right" if column == "degree" else "left")
    for member in members:
        name = kb.resolver.write(Role.ENTITY, from_ntriples(member.iri))
        table.add_row(_written(name, member.label), f"{member.degree:.3f}", member.status)
    Console(highlight=False, markup=False).print(table)
