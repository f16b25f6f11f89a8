"""The SPARQL engine over a knowledge base, within limits: queries go to a process of its own
(`tarbox.service.sparql_process`)."""

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
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, final

from tarbox.core import errors
from tarbox.core.errors import MissingDependency, Overloaded, QueryTooLarge
from tarbox.service.knowledge_base import KnowledgeBase

SPARQL_MODULE: Final = "tarbox.service.sparql_process"
AT_ONCE: Final = 2
"""Queries that the engine works on at a time."""
_PATIENCE: Final = 0.5
_PROMPT: Final = 2.5
"""Seconds in which the process takes a query, however long the answer takes; else it is stopped or stuck."""
_LATER: Final = 0.2
"""The seconds by which a query outlives the caller's patience, so that the client hears of that."""


@final
@dataclass(frozen=True, slots=True)
class EngineLimits:
    """What one query may take: seconds, bytes of memory, and bytes of results."""

    seconds: float = 10.0
    memory: int = 1 << 30
    result: int = 1 << 25


@final
class BoundedEngine:
    """Asks the engine over a knowledge base; its process starts with the first query, and again should it die."""

    def __init__(self, kb: KnowledgeBase, limits: EngineLimits) -> None:
        self._kb = kb
        self._limits = limits
        self._turns = asyncio.Semaphore(AT_ONCE)
        self._started: tuple[subprocess.Popen[bytes], str] | None = None
        self._starting: asyncio.Future[None] | None = None
        self.close: Callable[[], object] = lambda: None

    async def ask(self, query: str, accept: str, format: str) -> tuple[bytes, str]:
        """The results in a format that is accepted, and its media type; raises what is wrong with the query."""
        limits, asked = self._limits, {"query": query, "accept": accept, "format": format}
        async with self._turns:
            address = await self._reach()
            told = {"until": time.time() + limits.seconds + _LATER, "memory": limits.memory, "bytes": limits.result}
            try:
                reader, writer = await asyncio.open_unix_connection(address)
                with closing(writer):
                    writer.write(json.dumps(asked | told).encode() + b"\n")
                    await self._await_taken(reader)
                    head, _, content = (await reader.read()).partition(b"\n")
            except (OSError, asyncio.IncompleteReadError):
                raise Overloaded("The process that answers SPARQL has ended. Ask again.") from None
        if not head:
            most = f"{limits.memory >> 20:,} MiB of memory, this server's limit"
            raise QueryTooLarge(f"the query was ended: it needs more than {most}, or is nested too deeply")
        said = json.loads(head)
        if "error" in said:
            kind: Any = getattr(errors, said["error"])
            raise kind(*said["told"])
        return content, said["media_type"]

    async def _await_taken(self, reader: asyncio.StreamReader) -> None:
        """Ends the process where it does not take a query: the next one starts it again."""
        try:
            async with asyncio.timeout(_PROMPT):
                await reader.readexactly(1)
        except TimeoutError:
            self.close()
            raise Overloaded("The process that answers SPARQL was stuck, and is replaced. Ask again.") from None

    async def _reach(self) -> str:
        """Where the process listens; it reads its data before it answers."""
        if self._started is None or self._started[0].poll() is not None:
            if self._starting is None or self._starting.done():
                self._starting = asyncio.ensure_future(asyncio.to_thread(self._start))
            await asyncio.wait({self._starting}, timeout=self._limits.seconds * _PATIENCE)
            if not self._starting.done():
                raise Overloaded("The index for SPARQL is being built, which is done once. Ask again soon.")
            self._starting.result()
        assert self._started is not None
        return self._started[1]

    def _start(self) -> None:
        if sys.platform == "win32":
            raise MissingDependency(
                "A server answers SPARQL in processes that are forked, which Windows cannot. Use Linux, macOS or WSL."
            )
        self.close()
        source = self._kb.sparql_source()
        index = str(source) if isinstance(source, Path) else ""
        folder = tempfile.mkdtemp(prefix="tarbox-")  # its owner's alone
        address = str(Path(folder) / "socket")
        with socket.socket(socket.AF_UNIX) as listener:
            listener.bind(address)
            listener.listen(AT_ONCE * 8)
            # -P: what lies in the working folder is not imported
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
