"""The server's end of the process that puts SPARQL queries to the engine (`tarbox.http.sparql_process`)."""

from __future__ import annotations

import asyncio
import json
import shutil
import socket
import subprocess
import sys
import tempfile
import time
import weakref
from collections.abc import Callable
from contextlib import closing, suppress
from pathlib import Path
from typing import Final, final

from tarbox.core.errors import NotAnswerable, Overloaded, QueryError, QuerySyntaxError, QueryTooLarge
from tarbox.http.problems import Refusal, problem
from tarbox.http.settings import Bounds
from tarbox.service.knowledge_base import KnowledgeBase

MODULE: Final = "tarbox.http.sparql_process"
_ERRORS: Final = {kind.__name__: kind for kind in (NotAnswerable, QueryError, QuerySyntaxError, QueryTooLarge)}
_BACKLOG: Final = 256
_PATIENCE: Final = 0.5
_LATER: Final = 0.2
"""The seconds by which a query outlives the server's patience, so that the client hears of that."""


@final
class SparqlClient:
    """Asks the engine over a knowledge base; its process starts with the first query, and again should it die."""

    def __init__(self, kb: KnowledgeBase, bounds: Bounds) -> None:
        self._kb = kb
        self._bounds = bounds
        self._started: tuple[subprocess.Popen[bytes], str] | None = None
        self._starting: asyncio.Future[None] | None = None
        self._stop: Callable[[], object] = lambda: None

    async def ask(self, query: str, accept: str, format: str) -> tuple[str, bytes]:
        """(media type, results); raises what is wrong with the query or with the formats."""
        address = await self._reach()
        asked = {
            "query": query,
            "accept": accept,
            "format": format,
            "until": time.time() + self._bounds.seconds + _LATER,
            "memory": self._bounds.memory,
            "bytes": self._bounds.result,
        }
        try:
            reader, writer = await asyncio.open_unix_connection(address)
            with closing(writer):
                writer.write(json.dumps(asked).encode() + b"\n")
                head, _, content = (await reader.read()).partition(b"\n")
        except OSError:
            raise Overloaded("The process that answers SPARQL has ended. Ask again.") from None
        if not head:
            most = f"{self._bounds.memory >> 20:,} MiB of memory, this server's limit"
            raise QueryTooLarge(
                f"the query was ended: it needs more than {most}, or is nested too deeply; ask for less"
            )
        told = json.loads(head)
        if "error" in told:
            name, *arguments = told["error"]
            raise _ERRORS[name](*arguments)
        if "formats" in told:
            raise Refusal(problem("not-acceptable", f"Results of this query come as {', '.join(told['formats'])}."))
        return told["media_type"], content

    async def _reach(self) -> str:
        """Where the process listens; it reads its data before it answers."""
        if self._started is None or self._started[0].poll() is not None:
            if self._starting is None or self._starting.done():
                self._starting = asyncio.ensure_future(asyncio.to_thread(self._start))
            await asyncio.wait({self._starting}, timeout=self._bounds.seconds * _PATIENCE)
            if not self._starting.done():
                raise Overloaded("The index for SPARQL is being built, which is done once. Ask again soon.")
            self._starting.result()
        assert self._started is not None
        return self._started[1]

    def _start(self) -> None:
        self._stop()
        index = self._kb.find_index()
        folder = tempfile.mkdtemp(prefix="tarbox-")  # its owner's alone
        address = str(Path(folder) / "socket")
        with socket.socket(socket.AF_UNIX) as listener:
            listener.bind(address)
            listener.listen(_BACKLOG)
            # -P: as for the server itself, what lies in the working folder is not imported
            command = [sys.executable, "-P", "-m", MODULE, str(listener.fileno()), str(index or "")]
            process = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, pass_fds=[listener.fileno()]
            )
        self._stop = weakref.finalize(self, _end, process, folder)
        assert process.stdin is not None
        with suppress(BrokenPipeError), process.stdin as sink:
            if index is None:
                for piece in self._kb.triples():
                    sink.write(piece)
        self._started = process, address

    def close(self) -> None:
        self._stop()


def _end(process: subprocess.Popen[bytes], folder: str) -> None:
    process.kill()  # it only reads
    process.wait()
    shutil.rmtree(folder, ignore_errors=True)
