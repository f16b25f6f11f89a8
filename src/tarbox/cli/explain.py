"""`tarbox explain`: why a statement holds."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer


def explain(
    path: Annotated[Path, typer.Argument(metavar="KB", help="A store.", show_default=False)],
    statement: Annotated[
        str,
        typer.Argument(metavar="STATEMENT", help="'X subClassOf Y', 'a type C' or 'a relation b'.", show_default=False),
    ],
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Show why a statement holds: the axioms, and the facts that they were applied to."""
    from tarbox.cli.places import check_kb
    from tarbox.kb.store import open_store
    from tarbox.service.derivations import derivation_json, derivation_lines, explain_statement

    check_kb(path)
    store = open_store(path)
    found = explain_statement(store, statement)
    if as_json:
        typer.echo(json.dumps(derivation_json(found, store), indent=2, ensure_ascii=False))
        return
    for line in derivation_lines(found, store):
        typer.echo(line)
