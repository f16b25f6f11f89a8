"""`tarbox serve`: the HTTP API and the web page."""

from __future__ import annotations

import logging
import os
import socket
import sys
from contextlib import suppress
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tarbox.core.errors import ConfigError

if TYPE_CHECKING:
    from tarbox.http.settings import ServerSettings

_SHORTEST_KEY = 8


class LogLevel(StrEnum):
    """How much the log says; `info` has a line for each request."""

    ERROR = "error"
    WARNING = "warning"
    INFO = "info"
    DEBUG = "debug"


def serve(
    source: Annotated[Path, typer.Argument(metavar="RUN|KB", help="A store, or a run.", show_default=False)],
    *,
    host: Annotated[str, typer.Option(help="The address to listen at; 0.0.0.0 for every one.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="The port; 0 for any that is free.")] = 8000,
    api_key: Annotated[
        str | None,
        typer.Option("--api-key", envvar="TARBOX_API_KEY", help="A key that clients must send.", show_default=False),
    ] = None,
    no_key: Annotated[bool, typer.Option("--no-key", help="Let everyone ask who can reach the address.")] = False,
    allow_host: Annotated[
        list[str] | None, typer.Option("--allow-host", help="A name that clients may call this server by.")
    ] = None,
    allow_origin: Annotated[
        list[str] | None,
        typer.Option("--allow-origin", help="Another web site whose pages may ask, such as https://yasgui.org."),
    ] = None,
    timeout: Annotated[float, typer.Option(min=0.1, help="The seconds that a reply may take.")] = 10.0,
    concurrent: Annotated[int, typer.Option(min=1, help="How many requests a worker works on at a time.")] = 64,
    workers: Annotated[
        int, typer.Option(min=0, help="Processes that answer, each with the facts in memory; 0: one a processor.")
    ] = 0,
    log_level: Annotated[LogLevel, typer.Option(help="info: a line for each request.")] = LogLevel.WARNING,
) -> None:
    """Serve answers over HTTP: a web page, an API, and a SPARQL endpoint."""
    from tarbox.http.settings import Bounds, ServerSettings

    check_key(api_key, host, no_key)
    bounds = Bounds(seconds=timeout, concurrent=concurrent)
    shares = tuple(allow_origin or ()), bounds, workers or usable_processors(), tuple(allow_host or ())
    run(source, ServerSettings(host, port, api_key, *shares, log_level.value))


def check_key(key: str | None, host: str, without: bool) -> None:
    """Refuses a key that can be guessed, and a server that everyone could ask unless that is meant."""
    from tarbox.http.settings import is_loopback

    if key is not None and len(key.strip()) < _SHORTEST_KEY:
        raise ConfigError(f"the API key is too short: take {_SHORTEST_KEY} characters or more")
    if key is None and not without and not is_loopback(host):
        raise ConfigError(
            f"others can reach {host}: give a key with --api-key or TARBOX_API_KEY, or --no-key to let everyone ask"
        )


def bind(host: str, port: int, backlog: int = 1024) -> socket.socket:
    """A socket that listens already: clients that come while the server starts wait instead of failing."""
    try:
        family = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0][0]
        return socket.create_server((host, port), family=family, backlog=backlog)
    except OSError as error:
        advice = "Take another port with --port, or 0 for any that is free."
        raise ConfigError(f"cannot listen at {host}:{port}: {error.strerror or error}. {advice}") from error


def usable_processors() -> int:
    return len(os.sched_getaffinity(0)) if sys.platform == "linux" else os.cpu_count() or 1


def run(source: Path, settings: ServerSettings) -> None:
    """Serve until the process is told to stop."""
    from tarbox.http.supervisor import LOG_FORMAT, Supervisor

    logging.basicConfig(level=settings.log_level.upper(), format=LOG_FORMAT)
    listener = bind(settings.host, settings.port)
    host = f"[{settings.host}]" if ":" in settings.host else settings.host
    address = f"http://{host}:{listener.getsockname()[1]}/"

    def report(title: str) -> None:
        print(f"{title} is served at {address} (Ctrl+C stops)", flush=True)

    with listener:
        if sys.platform == "linux":
            Supervisor(source, settings, listener, report).run()
        else:  # connections cannot be shared: one process, which nobody watches
            from tarbox.http.app import create_app
            from tarbox.http.worker import Server
            from tarbox.service.answering import open_answerer

            server = Server(create_app(answerer := open_answerer(source), settings), listener)
            report(answerer.kb.title)
            with suppress(KeyboardInterrupt):
                server.run()
