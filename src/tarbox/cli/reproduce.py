"""`tarbox reproduce`: a table of the documentation again, from a folder of data."""

from __future__ import annotations

import tomllib
from importlib import resources
from pathlib import Path
from typing import Annotated, Any, Final

import typer

from tarbox.core.errors import ConfigError

NINE: Final = "1p,2p,3p,2i,3i,pi,ip,2u,up"
HOW_LONG: Final = "Some minutes each on a GPU, up to an hour on two cores; less with --queries and --set."


def reproduce(
    name: Annotated[str | None, typer.Argument(help="Which; without it, all that there are.")] = None,
    *,
    data: Annotated[Path | None, typer.Option(help="The folder that has the data.")] = None,
    output: Annotated[Path, typer.Option("-o", "--output", help="The folder to work in.")] = Path("reproduced"),
    models: Annotated[str | None, typer.Option(help="Other models than the table's, as of `tarbox compare`.")] = None,
    queries: Annotated[int, typer.Option(min=0, help="At most so many per template and level (0: all).")] = 0,
    set_: Annotated[list[str] | None, typer.Option("--set", help="A setting, as of `tarbox compare`.")] = None,
    device: Annotated[str | None, typer.Option(help="auto, cpu, cuda or cuda:N.")] = None,
) -> None:
    """Import or build a benchmark, train, evaluate, and print what is published beside it. The same command goes on."""
    from tarbox.cli.compare import compare

    known = read_reproductions()
    if name is None:
        _list(known)
        return
    if name not in known:
        raise ConfigError(f"there is no {name!r} to reproduce; there are {', '.join(known)}")
    if data is None:
        raise ConfigError(f"name the folder of the data with --data: {known[name]['data']}")
    table, place = known[name], output / name
    _prepare(table, data, place)
    for model, figures in table["documented"].items():
        levels = ", ".join(f"{level} {mrr}" for level, mrr in zip(("entity", "concept"), figures, strict=False))
        typer.echo(f"docs/results.md has for {model}: {levels} (MRR x 100, average over templates)")
    compare(
        place / "bench",
        output=place / "comparison",
        models=models or table["models"],
        seeds=1,
        templates=NINE if "build" in table else None,
        queries=queries,
        set_=set_,
        device=device,
        published=table.get("published", "none"),
    )


def read_reproductions() -> dict[str, dict[str, Any]]:
    """What can be reproduced, by name."""
    return tomllib.loads((resources.files("tarbox.evaluation") / "reproductions.toml").read_text(encoding="utf-8"))


def _list(known: dict[str, dict[str, Any]]) -> None:
    for name, table in known.items():
        files = f" ({', '.join(table['files'])})" if table["files"] else ""
        typer.echo(f"{name}\n    {table['title']}: {table['models']}\n    --data: {table['data']}{files}")
    typer.echo(HOW_LONG)


def _prepare(table: dict[str, Any], data: Path, place: Path) -> None:
    """The benchmark at `place`, unless it is there already."""
    from tarbox.benchmark.building import build_benchmark
    from tarbox.benchmark.folder import is_benchmark
    from tarbox.benchmark.importing import import_folder
    from tarbox.benchmark.options import BenchmarkOptions
    from tarbox.kb.build import BuildOptions, build
    from tarbox.kb.reasoning.inference import choose_mode
    from tarbox.kb.sources import find_sources

    if is_benchmark(place / "bench"):
        return
    lacking = [file for file in table["files"] if not (data / file).exists()]
    if lacking:
        raise ConfigError(f"{data} lacks {', '.join(lacking)}. Name the folder of {table['data']}.")
    if "build" not in table:
        for note in import_folder(data, place / "bench").notes:
            typer.echo(note, err=True)
        return
    store = build(find_sources([str(data)])[0], place / "kb", BuildOptions(infer=choose_mode(None)))
    options = BenchmarkOptions(counts=tuple(table["build"]["counts"]))
    build_benchmark(store.facts, options, place / "bench", origin=store)
