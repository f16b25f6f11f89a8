"""A server in a process of its own, questions for it, and clients that ask them: what `serving.py` measures with."""

from __future__ import annotations

import asyncio
import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from itertools import cycle
from pathlib import Path
from typing import IO, Final, final
from urllib.parse import quote

import numpy as np

from tarbox.query.algebra import And, Concept, Direction, Entity, Exists, Query
from tarbox.service.knowledge_base import KnowledgeBase

PROGRAM: Final = "import typer; from tarbox.cli.serve import serve; typer.run(serve)"
THREADS: Final = "OMP_NUM_THREADS"
K: Final = 10


@final
@dataclass(frozen=True, slots=True)
class Load:
    """What so many clients measured."""

    clients: int
    requests: int
    seconds: float
    latencies: tuple[float, ...]
    failures: int
    processor: float = 0.0

    @property
    def rate(self) -> float:
        return self.requests / self.seconds

    def __str__(self) -> str:
        p50, p99 = np.percentile(self.latencies, [50, 99]) * 1_000
        return (
            f"{self.clients:3} clients   {self.rate:8,.0f} answers/s   p50 {p50:7.2f} ms   p99 {p99:7.2f} ms   "
            f"{self.processor * 1e6:5.0f} us CPU each   {self.failures} of {self.requests:,} failed"
        )


def questions(kb: KnowledgeBase, count: int, seed: int = 0) -> list[str]:
    """Distinct queries with answers, of four shapes, made from assertions picked at random."""
    random = np.random.default_rng(seed)
    facts, names = kb.facts, kb.facts.vocabulary
    typed = kb.index.instances.concepts_of
    found: dict[str, None] = {}
    for row in random.permutation(len(facts.heads)).tolist():
        head, relation = int(facts.heads[row]), names.relations.iri(int(facts.relations[row]))
        base = Exists(relation, Direction.FORWARD, Entity(names.entities.iri(int(facts.tails[row]))))
        shapes: list[Query] = [base, Exists(relation, Direction.INVERSE, Entity(names.entities.iri(head)))]
        if len(typed[head]):
            shapes.append(And((Concept(names.concepts.iri(int(random.choice(typed[head])))), base)))
        shapes.append(Exists(relation, Direction.INVERSE, base))
        found[kb.render(shapes[len(found) % len(shapes)])] = None
        if len(found) >= count:
            break
    return list(found)


def server(
    path: Path, port: int = 0, log: IO[str] | None = None, source: Path | None = None
) -> AbstractContextManager[tuple[str, subprocess.Popen[str]]]:
    """A server in a process of its own, and its address; what it says of mistakes goes to `log`. `source` is the folder
    of another version of tarbox."""
    return started(PROGRAM, str(path), "--port", str(port), log=log, source=source)


@contextmanager
def started(
    program: str, *arguments: str, log: IO[str] | None = None, source: Path | None = None
) -> Iterator[tuple[str, subprocess.Popen[str]]]:
    command = [sys.executable, "-c", program, *arguments]
    usual = {name: value for name, value in os.environ.items() if name != THREADS}
    usual |= {"PYTHONPATH": str(source)} if source else {}
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log, text=True, env=usual) as process:
        assert process.stdout is not None
        found = re.search(r"http://[\d.:]+", process.stdout.readline())
        if found is None:
            raise SystemExit("the server did not start")
        try:
            yield found[0], process
        finally:
            process.terminate()
            process.wait()


Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]


async def _ask(streams: Streams, queries: Iterator[str], until: float, latencies: list[float]) -> int:
    """One client: asks over a connection that it keeps, as long as there is time; returns how often it failed."""
    reader, writer = streams
    failures = 0
    try:
        while time.perf_counter() < until:
            began = time.perf_counter()
            asked = f"GET /api/answer?k={K}&query={quote(next(queries))} HTTP/1.1\r\nHost: localhost\r\n\r\n"
            writer.write(asked.encode())
            head = await reader.readuntil(b"\r\n\r\n")
            length = re.search(rb"content-length: (\d+)", head)
            await reader.readexactly(int(length[1]) if length else 0)
            failures += not head.startswith(b"HTTP/1.1 200")
            latencies.append(time.perf_counter() - began)
    except (ConnectionError, asyncio.IncompleteReadError):
        failures += 1
    finally:
        writer.close()
    return failures


async def load(address: str, texts: list[str], clients: int, seconds: float) -> Load:
    """What so many clients get in so many seconds, once all are connected."""
    latencies: list[float] = []
    host, _, port = address.removeprefix("http://").partition(":")
    opened = await asyncio.gather(*(asyncio.open_connection(host, int(port)) for _ in range(clients)))
    starts = [cycle([*texts[at:], *texts[:at]]) for at in range(0, clients * 7, 7)]
    began = time.perf_counter()
    asking = zip(opened, starts, strict=True)
    failed = await asyncio.gather(*(_ask(streams, start, began + seconds, latencies) for streams, start in asking))
    return Load(clients, len(latencies), time.perf_counter() - began, tuple(latencies), sum(failed))
