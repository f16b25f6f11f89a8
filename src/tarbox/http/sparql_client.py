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

from starlette.responses import Response

from tarbox.core.errors import Overloaded, QueryTooLarge
from tarbox.http.settings import Bounds
from tarbox.service.knowledge_base import KnowledgeBase

SPARQL_MODULE: Final = "tarbox.http.sparql_process"
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
        self.close: Callable[[], object] = lambda: None

    async def ask(self, query: str, accept: str, format: str) -> Response:
        """The results in a format that is accepted, or what is wrong with the query."""
        bounds, address = self._bounds, await self._reach()
        limits = {"until": time.time() + bounds.seconds + _LATER, "memory": bounds.memory, "bytes": bounds.result}
        asked = {"query": query, "accept": accept, "format": format, **limits}
        try:
            reader, writer = await asyncio.open_unix_connection(address)
            with closing(writer):
                writer.write(json.dumps(asked).encode() + b"\n")
                head, _, content = (await reader.read()).partition(b"\n")
        except OSError:
            raise Overloaded("The process that answers SPARQL has ended. Ask again.") from None
        if not head:
            most = f"{bounds.memory >> 20:,} MiB of memory, this server's limit"
            raise QueryTooLarge(f"the query was ended: it needs more than {most}, or is nested too deeply")
        told = json.loads(head)
        return Response(content, told["status"], media_type=told["media_type"])

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
        self.close()
        source = self._kb.sparql_source()
        index = str(source) if isinstance(source, Path) else ""
        folder = tempfile.mkdtemp(prefix="tarbox-")  # its owner's alone
        address = str(Path(folder) / "socket")
        with socket.socket(socket.AF_UNIX) as listener:
            listener.bind(address)
            listener.listen(_BACKLOG)
            # -P: as for the server itself, what lies in the working folder is not imported
            process = subprocess.Popen(
                [sys.executable, "-P", "-m", SPARQL_MODULE, str(listener.fileno()), index],
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                pass_fds=[listener.fileno()],
            )
        self.close = weakref.finalize(self, _end, process, folder)
        assert process.stdin is not None
        with suppress(BrokenPipeError), process.stdin as sink:
            sink.writelines(() if isinstance(source, Path) else source)
        self._started = process, address


def _end(process: subprocess.Popen[bytes], folder: str) -> None:
    process.kill()  # it only reads
    process.wait()
    shutil.rmtree(folder, ignore_errors=True)
