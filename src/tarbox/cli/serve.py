"""`tarbox serve`: the HTTP API and the web page."""

from __future__ import annotations

import signal
import sys
from contextlib import nullcontext, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tarbox.core.errors import ConfigError

if TYPE_CHECKING:
    from tarbox.http.settings import ServerSettings

SWITCH = 0.0005
"""Seconds after which the thread that answers lets the one that talks to clients go on; Python's own are ten times."""


def serve(
    source: Annotated[Path, typer.Argument(metavar="RUN|KB", help="A store, or a run.", show_default=False)],
    *,
    host: Annotated[str, typer.Option(help="The address to listen at; 0.0.0.0 for every one.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="The port; 0 for any that is free.")] = 8000,
    api_key: Annotated[
        str | None,
        typer.Option("--api-key", envvar="TARBOX_API_KEY", help="A key that clients must send.", show_default=False),
    ] = None,
    allow_origin: Annotated[
        list[str] | None,
        typer.Option("--allow-origin", help="Another web site whose pages may ask, such as https://yasgui.org."),
    ] = None,
    timeout: Annotated[float, typer.Option(min=0.1, help="The seconds that a reply may take.")] = 10.0,
    concurrent: Annotated[int, typer.Option(min=1, help="How many requests are worked on at a time.")] = 64,
    worker: Annotated[
        bool,
        typer.Option(
            "--apart/--together",
            help="Answer in a process of its own where there are two processors: quicker under load, twice the memory.",
        ),
    ] = True,
) -> None:
    """Serve answers over HTTP: a web page, an API, and a SPARQL endpoint."""
    from tarbox.http.settings import Bounds, ServerSettings

    if api_key is not None and len(api_key) < 8:
        raise ConfigError("the API key is too short: take 8 characters or more")
    bounds = Bounds(seconds=timeout, concurrent=concurrent)
    run(source, ServerSettings(host, port, api_key, tuple(allow_origin or ()), bounds, worker))


def run(source: Path, settings: ServerSettings) -> None:
    """Serve until the process is told to stop."""
    from tarbox.http.app import create_app
    from tarbox.http.server import bind, make_server
    from tarbox.http.worker_client import is_worthwhile, launch
    from tarbox.service.answering import open_answerer

    with launch(source, settings.bounds) if settings.worker and is_worthwhile() else nullcontext() as worker:
        answerer = open_answerer(source)
        listener = bind(settings.host, settings.port)
        server = make_server(create_app(answerer, settings, worker), settings)
        host = f"[{settings.host}]" if ":" in settings.host else settings.host
        print(f"{answerer.kb.title} is served at http://{host}:{listener.getsockname()[1]}/ (Ctrl+C stops)", flush=True)
        signal.signal(signal.SIGTERM, lambda *_: setattr(server, "should_exit", True))
        sys.setswitchinterval(SWITCH)
        with suppress(KeyboardInterrupt):
            server.run(sockets=[listener])
