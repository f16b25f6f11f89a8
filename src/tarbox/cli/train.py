"""`tarbox train`: a model of all facts of a store, or of the training split of a benchmark."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final, Literal

import typer

from tarbox.core.errors import ConfigError

if TYPE_CHECKING:
    from tarbox.core.config import Table
    from tarbox.training.checkpoints import State


DEFAULT: Final = "credo"
"""The model that is trained where none is named."""


def train(
    source: Annotated[
        Path | None, typer.Argument(metavar="KB|BENCH", help="A store, all facts of which are learnt, or a benchmark.")
    ] = None,
    *,
    output: Annotated[Path, typer.Option("-o", "--output", help="The run folder to write.")],
    model: Annotated[
        str | None, typer.Option(help="A registered name or package.module:Class; credo if nothing says otherwise.")
    ] = None,
    recipe: Annotated[str | None, typer.Option(help="Settings that tarbox ships: academia, biomed, yago4, ...")] = None,
    config: Annotated[Path | None, typer.Option(help="Settings as TOML.")] = None,
    set_: Annotated[list[str] | None, typer.Option("--set", help="A setting, as key=value; may be repeated.")] = None,
    without: Annotated[
        list[str] | None,
        typer.Option(help="Leave a task out: subsumption, instantiation, entity or concept; may be repeated."),
    ] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Continue from the last checkpoint.")] = False,
    device: Annotated[str | None, typer.Option(help="auto, cpu, cuda or cuda:N.")] = None,
    precision: Annotated[Literal["float32", "tf32", "bf16"] | None, typer.Option(help="tf32 if not given.")] = None,
    seed: Annotated[int | None, typer.Option(min=0, help="Everything random comes from it.")] = None,
    seeds: Annotated[int, typer.Option(min=1, help="Train so many runs, into folders seed-0, seed-1, ...")] = 1,
    processes: Annotated[
        int | None, typer.Option(min=1, help="Train one model in so many processes of this machine (credo).")
    ] = None,
) -> None:
    """Train a model on all facts of a store, or on a benchmark: its training split, with validation."""
    if int(os.environ.get("WORLD_SIZE", "1")) > 1:
        if seeds > 1:
            raise typer.BadParameter("torchrun trains one run at a time: leave out --seeds")
        processes = int(os.environ["WORLD_SIZE"])
        if os.environ.get("RANK", "0") != "0":  # the first process trains, the others do as it says
            _follow(device or "auto")
            return
    given = {"device": device, "precision": precision, "processes": processes}
    hardware = {key: value for key, value in given.items() if value is not None}
    options: dict[str, object] = {"hardware": hardware} if hardware else {}
    if resume:
        if [model, recipe, config, without, seed] != [None] * 5:
            raise typer.BadParameter("a resumed run keeps its settings; --set may change stopping, validation, ...")
        _resume(output, source, set_ or [], options)
        return
    if source is None:
        raise typer.BadParameter("name a store or a benchmark to train on, or --resume")
    if [model, recipe, config] == [None] * 3:
        model = DEFAULT
    if without:
        options["objective"] = {"without": without}
    if seed is not None:
        options["seed"] = seed
    tables = setting_tables(recipe, config, set_ or [], model)
    _start(source, output, [*tables, options], model, seeds)


def setting_tables(recipe: str | None, config: Path | None, assignments: list[str], model: str | None) -> list[Table]:
    """The settings of all sources but the command's own options, in their order."""
    from tarbox.training.settings import default_tables, read_assignments, read_file, read_recipe

    tables = default_tables(model) if model is not None and recipe is None and config is None else []
    if recipe is not None:
        tables.append(read_recipe(recipe))
    if config is not None:
        tables.append(read_file(config))
    name = model or next((t["model"]["name"] for t in reversed(tables) if "name" in t.get("model", {})), "tar")
    if model is not None:
        if tables and any(t.get("model", {}).get("name", model) != model for t in tables):
            tables = [{key: value for key, value in table.items() if key != "model"} for table in tables]
        tables.append({"model": {"name": model}})
    return [*tables, read_assignments(assignments, name)]


def _start(source: Path, output: Path, tables: list[Table], model: str | None, seeds: int) -> None:
    from dataclasses import replace

    from tarbox.cli.training_progress import told
    from tarbox.training.session import start
    from tarbox.training.settings import check_ablations, resolve

    settings = resolve(tables, model or "tar")
    check_ablations(settings)
    ended: dict[int, State] = {}
    for number in range(settings.seed, settings.seed + seeds):
        folder = output if seeds == 1 else output / f"seed-{number}"
        with told() as listeners:
            ended[number] = start(source, folder, replace(settings, seed=number), listeners)
        _report(folder, ended[number])
    if seeds > 1:
        _summarise(output, ended)


def _follow(device: str) -> None:
    from tarbox.training.group import follow_torchrun
    from tarbox.training.sharded import follow

    follow_torchrun(follow, device)


def _resume(output: Path, source: Path | None, assignments: list[str], options: Table) -> None:
    from tarbox.cli.training_progress import told
    from tarbox.core.config import merge
    from tarbox.models.saved import open_run
    from tarbox.training.session import resume
    from tarbox.training.settings import read_assignments

    if not output.exists():
        raise ConfigError(f"there is no run at {output} to resume")
    changes = merge(read_assignments(assignments, open_run(output).model_name), options)
    with told() as listeners:
        state = resume(output, changes, listeners, source)
    _report(output, state)


def _report(folder: Path, state: State) -> None:
    best = f"; best validation MRR {100 * state.best:.1f} in epoch {state.best_epoch}" if state.best is not None else ""
    typer.echo(f"{folder}: {state.epoch} epochs, {state.reason}{best}")


def _summarise(output: Path, ended: dict[int, State]) -> None:
    """The best validation MRR of all seeds, with mean and deviation, on the screen and in seeds.json."""
    import statistics

    best = {f"seed-{number}": state.best for number, state in ended.items()}
    found = [value for value in best.values() if value is not None]
    if not found:
        return
    mean, deviation = statistics.mean(found), statistics.stdev(found) if len(found) > 1 else 0.0
    content = {"best_mrr": best, "mean": mean, "deviation": deviation}
    (output / "seeds.json").write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")
    typer.echo(f"{output}: best validation MRR {100 * mean:.1f} ± {100 * deviation:.1f} over {len(found)} seeds")
