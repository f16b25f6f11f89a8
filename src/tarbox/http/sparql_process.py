"""A process that puts queries to the SPARQL engine, each in a child of its own.

The engine cannot be interrupted, so a child has a time after which the system ends it, and memory that it cannot
exceed. It can open no file and no connection, so that SERVICE reaches nothing. A small knowledge base comes as
N-Triples through the standard input and is in the memory that children share; the index of a large one is on disk. The
process imports little and has one thread: only such a one can be forked safely. It ends when the server does.
"""

from __future__ import annotations

import json
import os
import resource
import signal
import socket
import socketserver
import sys
import time
from contextlib import suppress
from typing import Any, final

from pyoxigraph import RdfFormat
from pyoxigraph import Store as Engine

from tarbox.core.errors import QuerySyntaxError, TarboxError
from tarbox.query.sparql_results import choose_format, formats_of, is_graph, put_query, write_results


def main(descriptor: int, index: str) -> None:
    """Answers what comes to a listening socket, over the index at a place or over the triples of the input."""
    for number in (signal.SIGINT, signal.SIGTERM):  # the server is told too, and ends this process in good time
        signal.signal(number, signal.SIG_IGN)
    engine = None
    if not index:
        engine = Engine()
        engine.bulk_load(sys.stdin.buffer, RdfFormat.N_TRIPLES, lenient=True)
    with _Forking(socket.socket(fileno=descriptor), index, engine) as server:
        server.serve_forever(poll_interval=1)


@final
class _Forking(socketserver.ForkingMixIn, socketserver.UnixStreamServer):
    """Forks a child for each connection, as many at a time as there are processors, and two at least."""

    max_children = max(2, os.cpu_count() or 2)

    def __init__(self, listener: socket.socket, index: str, engine: Engine | None) -> None:
        super().__init__("", _Child, bind_and_activate=False)
        self.socket.close()
        self.socket, self.index, self.engine = listener, index, engine
        self.nowhere = os.open(os.devnull, os.O_WRONLY)
        self._parent = os.getppid()

    def service_actions(self) -> None:
        super().service_actions()
        if os.getppid() != self._parent:
            os._exit(0)


@final
class _Child(socketserver.StreamRequestHandler):
    """Reads a line of JSON; writes another, and where there are results, these."""

    server: _Forking

    def handle(self) -> None:
        asked = json.loads(self.rfile.readline())
        signal.setitimer(signal.ITIMER_REAL, max(asked["until"] - time.time(), 0.001))  # then the system ends it
        engine = self.server.engine or Engine.read_only(self.server.index)
        os.dup2(self.server.nowhere, sys.stderr.fileno())  # where memory is short, the engine has much to say
        resource.setrlimit(resource.RLIMIT_DATA, (asked["memory"], asked["memory"]))
        resource.setrlimit(resource.RLIMIT_NOFILE, (0, 0))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        head, content = _answer(engine, asked)
        with suppress(OSError):  # nobody waits any more
            self.wfile.write(json.dumps(head).encode() + b"\n" + content)


def _answer(engine: Engine, asked: dict[str, Any]) -> tuple[dict[str, Any], bytes]:
    try:
        results = put_query(engine, asked["query"])
        graph = is_graph(results)
        format = choose_format(graph, asked["accept"], asked["format"])
        if format is None:
            return {"formats": [each.media_type for each in formats_of(graph)]}, b""
        return {"media_type": format.media_type}, write_results(results, format, asked["bytes"])
    except QuerySyntaxError as error:
        return {"error": [type(error).__name__, error.reason, error.text, error.position]}, b""
    except TarboxError as error:
        return {"error": [type(error).__name__, str(error)]}, b""


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2])
