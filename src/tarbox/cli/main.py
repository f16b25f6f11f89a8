"""The `tarbox` command: each subcommand is a function in a file of its own; heavy imports happen inside them."""

from __future__ import annotations

import io
import os
import sys
from typing import Annotated

import typer

from tarbox.cli import bench, bench_tables, changes, kb
from tarbox.cli.ask import ask
from tarbox.cli.compare import compare
from tarbox.cli.concept import concept
from tarbox.cli.demo import demo
from tarbox.cli.evaluate import evaluate
from tarbox.cli.explain import explain
from tarbox.cli.names import search, show
from tarbox.cli.predict import predict
from tarbox.cli.reproduce import reproduce
from tarbox.cli.serve import serve
from tarbox.cli.train import train
from tarbox.cli.tune import tune
from tarbox.cli.update import show_run, update
from tarbox.core.errors import TarboxError
from tarbox.version import __version__

app = typer.Typer(
    name="tarbox",
    help="Multi-hop questions over an ontology and its knowledge graph, answered with entities and with concepts.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
)
kb_app = typer.Typer(help="Build, change, compare, inspect and export knowledge bases.", no_args_is_help=True)
bench_app = typer.Typer(help="Build, import, export and inspect benchmarks.", no_args_is_help=True)
app.add_typer(kb_app, name="kb")
app.add_typer(bench_app, name="bench")

app.command()(demo)
app.command()(search)
app.command()(show)
app.command()(ask)
app.command()(train)
app.command()(update)
app.command("info")(show_run)
app.command()(tune)
app.command("eval")(evaluate)
app.command()(compare)
app.command()(reproduce)
app.command()(concept)
app.command()(explain)
app.command()(predict)
app.command()(serve)
kb_app.command("build")(kb.build_kb)
kb_app.command("info")(kb.show_kb)
kb_app.command("export")(kb.export_kb)
kb_app.command("add")(changes.add_to_kb)
kb_app.command("remove")(changes.remove_from_kb)
kb_app.command("diff")(changes.compare_kbs)
bench_app.command("build")(bench.build)
bench_app.command("import")(bench_tables.import_benchmark)
bench_app.command("export")(bench_tables.export_benchmark)
bench_app.command("info")(bench_tables.show_benchmark)


def show_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"tarbox {__version__}")
        raise typer.Exit


@app.callback()
def options(
    version: Annotated[
        bool, typer.Option("--version", help="Show the version.", is_eager=True, callback=show_version)
    ] = False,
) -> None:
    del version


def run() -> None:
    """The entry point: a user's mistake is one clear message on stderr and exit code 1, never a traceback."""
    # Threads that wait for others sleep. Where they spin, as is usual, a training step beside a busy process took 30
    # times as long (benchmarks/busy.py). The libraries read this when they are loaded, which is later.
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
    for stream in (sys.stdout, sys.stderr):  # a terminal that cannot show a character shows a question mark
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")
    try:
        app()
    except TarboxError as error:
        fail(str(error))
    except BrokenPipeError:
        sys.stderr.close()  # the reader of our output went away: nothing to say, and no complaint at exit
        sys.exit(1)
    except OSError as error:
        where = f": {error.filename}" if error.filename else ""
        fail(f"{error.strerror or error}{where}")


def fail(message: str) -> None:
    print(f"tarbox: {message}", file=sys.stderr)
    sys.exit(1)
