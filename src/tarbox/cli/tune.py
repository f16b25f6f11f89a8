"""`tarbox tune`: a search over settings; the paper's grid unless told otherwise."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tarbox.core.errors import MissingDependency

if TYPE_CHECKING:
    from tarbox.training.search import Trial


def tune(
    source: Annotated[Path, typer.Argument(metavar="BENCH", help="A benchmark: its valid queries choose.")],
    *,
    output: Annotated[Path, typer.Option("-o", "--output", help="The folder of the search; resumable.")],
    trials: Annotated[int, typer.Option(min=1, help="How many trials in all.")] = 36,
    model: Annotated[str, typer.Option(help="A registered name or package.module:Class.")] = "tar",
    recipe: Annotated[str | None, typer.Option(help="Settings that tarbox ships.")] = None,
    config: Annotated[Path | None, typer.Option(help="Settings as TOML, for what is not searched.")] = None,
    set_: Annotated[list[str] | None, typer.Option("--set", help="A fixed setting, as key=value.")] = None,
    search: Annotated[
        list[str] | None, typer.Option(help="What to search, as key=a,b,c; the paper's grid if not given.")
    ] = None,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the search.")] = 0,
) -> None:
    """Search for the settings with the best validation MRR."""
    try:
        import optuna  # noqa: F401
    except ImportError:
        raise MissingDependency("tarbox tune needs optuna: pip install 'tarbox[tune]'") from None
    from tarbox.training.search import GRID, Search, read_choices, run_search
    from tarbox.training.settings import read_assignments, read_file, read_recipe

    tables = [read_recipe(recipe)] if recipe is not None else []
    tables += [read_file(config)] if config is not None else []
    tables.append(read_assignments(set_ or [], model))
    choices = read_choices(search, model) if search else GRID
    best = run_search(Search(source, output, model, tuple(tables), choices, seed), trials, _report)
    if best is None or best.mrr is None:
        typer.echo(f"{output}: no trial has ended well", err=True)
        raise typer.Exit(1)
    typer.echo(f"{output}: best validation MRR {100 * best.mrr:.1f} with {best.text()}; settings in {best.run}")


def _report(trial: Trial) -> None:
    mrr = "failed" if trial.mrr is None else f"MRR {100 * trial.mrr:.1f}"
    typer.echo(f"trial {trial.number}: {mrr} with {trial.text()}", err=True)
