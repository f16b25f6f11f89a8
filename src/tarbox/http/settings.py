"""What a server allows: every bound in one place."""

from __future__ import annotations

import ipaddress
import secrets
from dataclasses import dataclass, field
from typing import Final, final

LOOPBACK_NAMES: Final = ("localhost", "127.0.0.1", "[::1]")


@final
@dataclass(frozen=True, slots=True)
class Bounds:
    """Limits on what one client can ask of the server.

    `query` and `sparql` are characters; `body` and `head` bytes; `rows` solutions of a SPARQL query with predictions;
    `result` and `memory` bytes of the results of any other, and of what it may need; `seconds` what a reply may take;
    `reading` the seconds a client has to send its request or to take its reply. Of one worker: `concurrent` requests
    are worked on at a time, `waiting` more wait for `patience` seconds; `connections` are open at a time.
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
    waiting: int = 256
    patience: float = 3.0
    connections: int = 1_000


@final
@dataclass(frozen=True, slots=True)
class ServerSettings:
    """How a server runs.

    `origins` are the other web sites whose pages may ask (`*` for all), `hosts` the names that clients may call this
    server by, besides its address; without any, a server on loopback has those of loopback, another one every name.
    `tag` tells this server's replies from those that a client remembers of another.
    """

    host: str = "127.0.0.1"
    port: int = 8000
    api_key: str | None = None
    origins: tuple[str, ...] = ()
    bounds: Bounds = field(default_factory=Bounds)
    workers: int = 1
    hosts: tuple[str, ...] = ()
    log_level: str = "warning"
    tag: str = field(default_factory=lambda: secrets.token_hex(4))

    def accepted_hosts(self) -> frozenset[str] | None:
        """The names that `Host` may say, without a port; None where any will do."""
        if not self.hosts and not is_loopback(self.host):
            return None
        own = f"[{self.host}]" if ":" in self.host else self.host
        return frozenset(name.lower() for name in (*self.hosts, *LOOPBACK_NAMES, own))


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach an address.

    >>> [is_loopback(host) for host in ("127.0.0.1", "localhost", "::1", "0.0.0.0", "example.org")]
    [True, True, True, False, False]
    """
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
