"""What a server allows: every bound in one place."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final, final

MOST_ANSWERS: Final = 1_000
"""The greatest k: how many answers of each kind one reply may have."""


@final
@dataclass(frozen=True, slots=True)
class Bounds:
    """Limits on what one client can ask of the server.

    `query` and `sparql` are characters; `body` and `head` bytes; `rows` solutions of a SPARQL query with predictions;
    `result` and `memory` bytes of the results of any other, and of what it may need; `seconds` what a reply may take;
    `reading` the seconds a client has to send its request or to take its reply; `concurrent` requests that are worked
    on at a time; `connections` open at a time.
    """

    query: int = 20_000
    sparql: int = 8_000
    body: int = 131_072
    head: int = 65_536
    rows: int = 10_000
    result: int = 1 << 25
    memory: int = 1 << 30
    seconds: float = 10.0
    reading: float = 10.0
    concurrent: int = 64
    connections: int = 1_000


@final
@dataclass(frozen=True, slots=True)
class ServerSettings:
    """How a server runs.

    `origins` are the other web sites whose pages may ask (`*` for all). `worker`: a process of its own makes answers
    where there is more than one processor.
    """

    host: str = "127.0.0.1"
    port: int = 8000
    api_key: str | None = None
    origins: tuple[str, ...] = ()
    bounds: Bounds = field(default_factory=Bounds)
    worker: bool = True
