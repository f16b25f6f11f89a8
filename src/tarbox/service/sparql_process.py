"""A process that puts queries to the SPARQL engine, each in a child of its own.

The engine cannot be interrupted, so a child has a time after which the system ends it, and memory that it cannot
exceed. It can open no file and no connection, so that SERVICE reaches nothing. A small knowledge base comes as
N-Triples through the standard input and is in the memory that children share; the index of a large one is on disk. The
process has one thread: only such a one can be forked safely. It ends when the server does.
"""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import sys
import time
from typing import Any, Final

from pyoxigraph import RdfFormat
from pyoxigraph import Store as Engine

from tarbox.core.errors import NoSuchFormat, QuerySyntaxError, TarboxError
from tarbox.query.sparql_results import choose_format, formats_of, is_graph, put_query, write_results

MOST_CHILDREN: Final = 4
"""Those of queries that were given up, and are about to end, among them."""
_SERVICE: Final = re.compile(r"\bservice\b", re.IGNORECASE)
_NO_SERVICE: Final = "SERVICE reaches nothing from here: ask the other endpoint by itself, and join the results"


def main(descriptor: int, index: str) -> None:
    """Answers what comes to a listening socket, over the index at a place or over the triples of the input."""
    for number in (signal.SIGINT, signal.SIGTERM):  # the server is told too, and ends this process in good time
        signal.signal(number, signal.SIG_IGN)
    parent, nowhere, engine = os.getppid(), os.open(os.devnull, os.O_WRONLY), Engine()
    if not index:
        engine.bulk_load(sys.stdin.buffer, RdfFormat.N_TRIPLES, lenient=True)
    listener = socket.socket(fileno=descriptor)
    listener.settimeout(1)
    children: set[int] = set()
    while os.getppid() == parent:
        waits = os.WNOHANG if len(children) < MOST_CHILDREN else 0
        while children and (ended := os.waitpid(-1, waits)[0]):
            children.remove(ended)
            waits = os.WNOHANG
        try:
            connection, _ = listener.accept()
        except TimeoutError:
            continue
        if child := os.fork():
            children.add(child)
            connection.close()
            continue
        try:
            os.dup2(nowhere, sys.stderr.fileno())  # where memory is short, the engine has much to say
            _reply(connection, Engine.read_only(index) if index else engine)
        finally:
            os._exit(0)


def _reply(connection: socket.socket, engine: Engine) -> None:
    """Reads a line of JSON; writes another, and the content of the reply."""
    import resource

    connection.settimeout(None)
    with connection, connection.makefile("rb") as source:
        connection.send(b"\n")  # it is taken
        asked = json.loads(source.readline())
        signal.setitimer(signal.ITIMER_REAL, max(asked["until"] - time.time(), 0.001))  # then the system ends it
        resource.setrlimit(resource.RLIMIT_DATA, (asked["memory"], asked["memory"]))
        resource.setrlimit(resource.RLIMIT_NOFILE, (0, 0))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        head, content = _answer(engine, asked)
        connection.sendall(json.dumps(head).encode() + b"\n" + content)


def _answer(engine: Engine, asked: dict[str, Any]) -> tuple[dict[str, Any], bytes]:
    """What is said of the results, and these; or what is wrong: the class of an error, and what makes it again."""
    try:
        results = put_query(engine, asked["query"])
        format = choose_format(is_graph(results), asked["accept"], asked["format"])
        if format is None:
            offered = ", ".join(each.media_type for each in formats_of(is_graph(results)))
            raise NoSuchFormat(f"Results of this query come as {offered}.")
        return {"media_type": format.media_type}, write_results(results, format, asked["bytes"])
    except QuerySyntaxError as error:
        told = [error.reason, error.text, error.position, error.candidates]
        return {"error": type(error).__name__, "told": told}, b""
    except TarboxError as error:
        elsewhere = isinstance(error.__cause__, OSError) and _SERVICE.search(asked["query"])
        return {"error": type(error).__name__, "told": [_NO_SERVICE if elsewhere else str(error)]}, b""


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2])
