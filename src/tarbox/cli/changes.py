"""`tarbox kb add`, `kb remove` and `kb diff`."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Mapping
from enum import Enum
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from tarbox.cli.exits import WITH_REJECTED
from tarbox.core.errors import TarboxError

if TYPE_CHECKING:
    from tarbox.kb.build import BuildOptions

_LISTED: Final = ("unsatisfiable", "inconsistent", "outside")


class DiffFormat(Enum):
    """How differences are written: for a person, as JSON lines, as N-Triples."""

    TEXT = "text"
    JSON = "json"
    NT = "nt"


class DiffSide(Enum):
    """Which differences are written."""

    ADDED = "added"
    REMOVED = "removed"


def _command(what: str, help: str) -> Callable[..., None]:
    """`kb add` or `kb remove`."""

    def change(
        path: Annotated[Path, typer.Argument(metavar="KB", help="A store.")],
        sources: Annotated[list[str], typer.Argument(metavar="SOURCE...", help="Files, globs or folders.")],
        format: Annotated[str | None, typer.Option(help="The format of all sources, if not the evident one.")] = None,
        base: Annotated[str | None, typer.Option(help="IRI before the ids of tables, if not the store's.")] = None,
        columns: Annotated[str | None, typer.Option(help="What a table's header has where, as of kb build.")] = None,
        memory: Annotated[str | None, typer.Option(help="The memory to stay within, such as 1GB.")] = None,
        strict: Annotated[bool, typer.Option(help="Stop at the first bad line.")] = False,
    ) -> None:
        from tarbox.kb.build import BuildOptions
        from tarbox.kb.preparation.staging import parse_memory
        from tarbox.kb.readers.tables import parse_columns

        room = parse_memory(memory) if memory else None
        named = parse_columns(columns) if columns else {}
        _change(what, path, sources, format, BuildOptions(base=base, memory=room, strict=strict, columns=named))

    change.__doc__ = help
    return change


add_to_kb = _command("add", "Add facts to a knowledge base; they are read as its own were.")
remove_from_kb = _command("remove", "Remove facts from a knowledge base, and the names that then have none.")


def _change(what: str, path: Path, given: list[str], format: str | None, options: BuildOptions) -> None:
    from tarbox.cli.kb import findings, print_report, show_progress
    from tarbox.cli.places import check_kb
    from tarbox.kb import changing
    from tarbox.kb.sources import find_sources
    from tarbox.kb.store import read_manifest

    check_kb(path)
    before = read_manifest(path).get("inference", {})
    sources, passed = find_sources(given, format)
    with show_progress(sources) as progress:
        change = (changing.add if what == "add" else changing.remove)(path, sources, options, progress)
    result = (
        ", ".join(f"{number:+,} {kind}" for kind, number in change.counts.items())
        or "only labels, synonyms or declarations"
    )
    result = f"{result} -> {path}" if change.changed else f"nothing to {what}: {path} stays as it is"
    if change.idle:
        result += f"\n{change.idle:,} facts " + ("were there already" if what == "add" else "were not there")
    if change.rebuilt:
        result += f"\nall of the store was built again: {change.rebuilt}"
    result = "\n".join([result, *findings(_new_findings(before, change.store.manifest.get("inference", {})))])
    manifest = {
        "report": change.report,
        "sources": change.sources,
        "rejected": change.rejected,
        "counts": change.counts,
    }
    print_report(manifest, passed, result)
    if change.report["rejections"]:
        raise typer.Exit(WITH_REJECTED)


def _new_findings(before: Mapping[str, Any], after: Mapping[str, Any]) -> dict[str, Any]:
    """What inference finds after a change, without what it found before."""
    known = set(map(str, chain.from_iterable(before.get(key, ()) for key in _LISTED)))
    new = {key: [each for each in after.get(key, ()) if str(each) not in known] for key in _LISTED}
    return {
        **new,
        "consistent": after.get("consistent", True) or not before.get("consistent", True),
        "complete": after.get("complete", True) or not before.get("complete", True),
        "same_entities": max(after.get("same_entities", 0) - before.get("same_entities", 0), 0),
        "inconsistencies": len(new["inconsistent"]),
        "axioms_outside": len(new["outside"]),
    }


def compare_kbs(
    first: Annotated[Path, typer.Argument(metavar="A", help="A store.")],
    second: Annotated[Path, typer.Argument(metavar="B", help="Another.")],
    format: Annotated[DiffFormat, typer.Option(help="For a person, JSON lines or N-Triples.")] = DiffFormat.TEXT,
    only: Annotated[DiffSide | None, typer.Option(help="Write what B adds, or what it removes; no signs then.")] = None,
) -> None:
    """Show what B states and A does not, and the reverse. Exit code: 0 the same, 1 different, 2 trouble."""
    from tarbox.cli.places import check_kb
    from tarbox.kb.difference import compare_stores
    from tarbox.kb.store import open_store

    try:
        for path in (first, second):
            check_kb(path)
        removed, added = compare_stores(open_store(first), open_store(second))
    except (TarboxError, OSError) as error:
        print(f"tarbox: {error}", file=sys.stderr)
        raise typer.Exit(2) from None
    more, less = added.counts(), removed.counts()
    counts = {kind: {"added": more[kind], "removed": less[kind]} for kind in more if more[kind] or less[kind]}
    if format is DiffFormat.JSON:
        typer.echo(json.dumps({"counts": counts}))
    elif format is DiffFormat.TEXT:
        for kind, both in counts.items():
            typer.echo(f"{kind}: {both['added']:,} added, {both['removed']:,} removed")
    for side, surplus in ((DiffSide.REMOVED, removed), (DiffSide.ADDED, added)):
        sign = "" if only else "- " if surplus is removed else "+ "
        for text, triples in surplus.lines() if only in (None, side) else ():
            if format is DiffFormat.JSON:
                typer.echo(json.dumps({"change": side.value, "text": text, "statements": triples}, ensure_ascii=False))
            else:
                said = [text] if format is DiffFormat.TEXT else triples.splitlines()
                typer.echo("\n".join(sign + line for line in said))
    raise typer.Exit(int(bool(counts)))
