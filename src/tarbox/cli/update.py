"""`tarbox update`: a run follows a changed store. `tarbox info`: what a run is, and how well it has followed."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from tarbox.models.saved import SavedRun


def update(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="A run of credo.", show_default=False)],
    kb: Annotated[
        Path | None,
        typer.Argument(metavar="KB", help="The store; that which it was trained on, if not named.", show_default=False),
    ] = None,
    output: Annotated[
        Path | None, typer.Option("-o", "--output", help="Write a new run instead of replacing this one.")
    ] = None,
) -> None:
    """Have a run know the facts of a changed store, or of another with the same relations, without training again."""
    from tarbox.cli.places import check_kb
    from tarbox.training.updating import update as follow

    if kb is not None:
        check_kb(kb)
    told = follow(run, kb, output)
    if told is None:
        typer.echo(f"{run} has these facts already")
        return
    entities = f"{told['new_entities']:,} new entities, {told['gone_entities']:,} gone"
    typer.echo(f"{output or run}: {told['added']:,} facts added, {told['removed']:,} removed; {entities}")
    show_run(output or run)


def show_run(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="A run.", show_default=False)],
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Show what a run was trained on, how often it was updated, and whether to train again."""
    from tarbox.models.saved import open_run

    told = _describe(open_run(run))
    typer.echo(json.dumps(told, indent=2, ensure_ascii=False) if as_json else "\n".join(_lines(told)))


def _describe(saved: SavedRun) -> dict[str, Any]:
    from tarbox.service.reasoner import title_of, trained_on

    updates = saved.description.get("updates", [])
    return {
        "model": saved.model_name,
        "title": title_of(saved),
        "trained_on": trained_on(saved.description),
        "store": saved.description["source"]["absolute"],
        "content_hash": saved.description["content_hash"],
        "counts": saved.facts.counts(),
        "updates": updates,
        "folded_in": updates[-1]["folded_in"] if updates else 0.0,
        "held_out_mrr": saved.description.get("held_out_mrr"),
        "train_again": saved.train_again(),
    }


def _lines(told: dict[str, Any]) -> Iterator[str]:
    counts = ", ".join(f"{number:,} {kind}" for kind, number in told["counts"].items())
    yield f"{told['model']}, trained on {told['trained_on']}"
    yield f"facts   {told['store']} ({told['content_hash'][:8]}): {counts}"
    updates = told["updates"]
    if not updates:
        yield "updates none"
        return
    yield f"updates {len(updates)}, the last at {updates[-1]['at']}; {told['folded_in']:.1%} of the entities folded in"
    if updates[-1]["mrr"] is not None and told["held_out_mrr"] is not None:
        last, own = updates[-1], told["held_out_mrr"]
        ranked = f"{100 * last['mrr']:.1f} of facts before they were added ({last['measured']} ranked)"
        yield f"MRR     {ranked}; {100 * own:.1f} of those held out"
    yield f"verdict {told['train_again'] or 'good enough'}"
