"""Requests that no honest client sends: what `benchmarks/serving.py --hostile` and the tests throw at a server.

Each is a run of bytes for one connection, made from a seed, so that a failure can be seen again. A *slow* one sends
its bytes with long pauses, or never the rest.
"""

from __future__ import annotations

import asyncio
import json
import random
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final, final
from urllib.parse import quote

PATIENCE: Final = 30.0
WORDS: Final = ("Person", "University", "worksAt", "locatedIn", "Canada", "Google", "investigates", "Agent", "Nowhere")


@final
@dataclass(frozen=True, slots=True)
class Attack:
    """What to send; a slow one pauses between its pieces."""

    kind: str
    pieces: tuple[bytes, ...]
    slow: bool = False


@final
@dataclass(slots=True)
class Outcome:
    """What came back: how often each status, by kind; `closed` where a connection ended without one."""

    statuses: Counter[tuple[str, int]] = field(default_factory=Counter)
    closed: Counter[str] = field(default_factory=Counter)

    def __str__(self) -> str:
        totals: Counter[int] = Counter()
        for (_, status), number in self.statuses.items():
            totals[status] += number
        shown = ", ".join(f"{status}: {number}" for status, number in sorted(totals.items()))
        return f"{shown}, closed: {sum(self.closed.values())}"

    def failures(self) -> int:
        """How many replies say that the server made a mistake."""
        return sum(number for (_, status), number in self.statuses.items() if status >= 500 and status != 503)


def attacks(count: int, seed: int = 0, words: tuple[str, ...] = WORDS) -> Iterator[Attack]:
    """That many attacks, all kinds in turn; `words` are names of the knowledge base, which get further than others."""
    for number in range(count):
        source = random.Random(seed * 1_000_003 + number)
        kind = list(MAKERS)[number % len(MAKERS)]
        yield MAKERS[kind](source, words)


async def launch(address: str, chosen: Iterator[Attack], together: int = 16) -> Outcome:
    """Sends attacks over as many connections at a time, and counts what comes back."""
    outcome = Outcome()
    host, _, port = address.removeprefix("http://").partition(":")

    async def work() -> None:
        for attack in chosen:
            status = await _send(host, int(port), attack)
            if status is None:
                outcome.closed[attack.kind] += 1
            else:
                outcome.statuses[attack.kind, status] += 1

    await asyncio.gather(*(work() for _ in range(together)))
    return outcome


async def _send(host: str, port: int, attack: Attack) -> int | None:
    reader, writer = await asyncio.open_connection(host, port)
    try:
        async with asyncio.timeout(PATIENCE):
            sending = asyncio.create_task(_write(writer, attack))
            heard = await reader.read(1 << 16)
            sending.cancel()
            found = re.match(rb"HTTP/1\.1 (\d{3})", heard)
            return int(found[1]) if found else None
    except (ConnectionError, TimeoutError):
        return None
    finally:
        writer.close()


async def _write(writer: asyncio.StreamWriter, attack: Attack) -> None:
    try:
        for piece in attack.pieces:
            writer.write(piece)
            await writer.drain()
            if attack.slow:
                await asyncio.sleep(0.5)
        if attack.slow:
            await asyncio.sleep(PATIENCE)
    except ConnectionError:
        return


def _get(path: str) -> tuple[bytes, ...]:
    return (f"GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n".encode(),)


def _post(path: str, body: bytes, media_type: str = "application/json") -> tuple[bytes, ...]:
    head = f"POST {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Type: {media_type}\r\n"
    return (f"{head}Content-Length: {len(body)}\r\n\r\n".encode(), body)


def _ask(query: str) -> tuple[bytes, ...]:
    return _post("/api/answer", json.dumps({"query": query, "k": 1_000}).encode())


def _nested(source: random.Random, words: tuple[str, ...]) -> Attack:
    depth = source.choice([50, 99, 101, 500, 4_000])
    opening = source.choice(["(", "not ", "not (", f"{source.choice(words)} some ", "inverse (", "{"])
    closing = source.choice([")", "", "}", "))"])
    return Attack("deep nesting", _ask(opening * depth + source.choice(words) + closing * depth))


def _huge_set(source: random.Random, words: tuple[str, ...]) -> Attack:
    size = source.choice([900, 1_100, 2_500])
    joined = source.choice([", ", " or ", " and ", ",,"]).join(source.choice(words) for _ in range(size))
    return Attack("huge sets", _ask(source.choice(["{%s}", "%s", "worksAt some {%s}", "not {%s}"]) % joined))


def _control(source: random.Random, words: tuple[str, ...]) -> Attack:
    letters = [
        chr(source.choice([0, 1, 8, 9, 10, 13, 27, 127, 0x85, 0x202E, 0x2028, 0xFEFF, 0xFFFF])) for _ in range(20)
    ]
    text = "".join(source.choice([*letters, f" {source.choice(words)} "]) for _ in range(30))
    if source.random() < 0.5:
        return Attack("control characters", _get(f"/api/answer?query={quote(text)}"))
    return Attack("control characters", _post("/api/answer", b'{"query": "Person \\ud800\\udfff\\ud83d ' + b'"}'))


def _megabyte(source: random.Random, words: tuple[str, ...]) -> Attack:
    size = source.choice([120_000, 131_073, 1_000_000, 2_000_000])
    body = source.choice(
        [
            json.dumps({"query": source.choice(words) * (size // 8)}).encode(),
            b"[" * size,
            b'{"query":' * (size // 9),
            source.randbytes(size),
            b'{"query": "Person", "k": ' + b"9" * size + b"}",
        ]
    )
    return Attack("large bodies", _post(source.choice(["/api/answer", "/sparql"]), body))


def _unknown(source: random.Random, words: tuple[str, ...]) -> Attack:
    letters = "abcdefgheionrstuvw_éßñ中文字אב🙂'\\\"<>#%/:"
    name = "".join(source.choice(letters) for _ in range(source.choice([1, 5, 12, 60, 900])))
    near = source.choice(words)
    name = source.choice([name, near[:-1], near + "x", near.upper(), f"<{name}>", f"'{near} {name}'", f"{name}:{near}"])
    path = source.choice(
        [
            "/api/answer?query=",
            "/api/drawing?query=",
            "/api/complete?prefix=",
            "/api/concepts/",
            "/api/answer?query=worksAt%20value%20",
            "/api/explain?query=Person&answer=",
            "/sparql?query=SELECT%20?x%20",
        ]
    )
    return Attack("unknown names", _get(path + quote(name, safe="")))


def _sparql(source: random.Random, words: tuple[str, ...]) -> Attack:
    term, depth = f"<urn:{source.choice(words)}>", source.choice([5, 30, 200, 900])
    text = source.choice(
        [
            "SELECT ?x " + "{" * depth + f"?x a {term}" + "}" * depth,
            "SELECT ?x { " + f"?x {term} {term} . " * depth + "}",
            "SELECT ?x { " + " UNION ".join([f"{{ ?x a {term} }}"] * depth) + " }",
            f"SELECT ?x {{ ?x {'(' * depth}{term}{')' * depth} {term} }}",
            f"SELECT ?x {{ ?x a {term} FILTER({'(' * depth}1{')' * depth}) }}",
            f"SELECT ?x {{ VALUES ?x {{ {' '.join([term] * depth)} }} }}",
            f"SELECT ?x {{ ?x {'/'.join([term] * depth)} {term} }}",
            "SELECT ?x { ?x ?p ?x } LIMIT 99999999999999999999",
            "\x00" * depth,
        ]
    )[: source.choice([7_000, 9_000])]
    return Attack("SPARQL", _post("/sparql", text.encode(), "application/sparql-query"))


def _mutated(source: random.Random, words: tuple[str, ...]) -> Attack:
    pieces = [
        *words,
        "and",
        "or",
        "not",
        "some",
        "value",
        "inverse",
        "only",
        "min",
        "(",
        ")",
        "{",
        "}",
        ",",
        "<",
        ">",
        "'",
        '"',
        "?e1",
        "that",
        "\\",
        "^^xsd:int",
        "@en",
        "_:b",
        "42",
        "owl:Thing",
    ]
    text = " ".join(source.choice(pieces) for _ in range(source.choice([3, 10, 40, 400])))
    return Attack("random words", _ask(text))


def _parameters(source: random.Random, words: tuple[str, ...]) -> Attack:
    value = source.choice(["-1", "0", "1e9", "9" * 400, "NaN", "", "null", "%00", "true", "[]", "1&k=2", "../../etc"])
    path = source.choice(
        [
            f"/api/answer?query={source.choice(words)}&k={value}",
            f"/api/complete?prefix={value}&limit={value}",
            f"/api/explain?query={source.choice(words)}&answer={value}&level={value}",
            f"/api/concepts/{value}",
            f"/{value}",
            f"/sparql?query={value}&format={value}",
            f"/api/answer?query={source.choice(words)}&offset={value}&status={value}",
            "/api/concepts/" + "%2e%2e/" * 50,
        ]
    )
    return Attack("parameters", _get(path))


def _no_http(source: random.Random, _: tuple[str, ...]) -> Attack:
    sent = source.choice(
        [
            source.randbytes(200),
            b"GET / HTTP/9.9\r\n\r\n",
            b"GET /api/kb HTTP/1.1\r\nHost: localhost\r\nContent-Length: -5\r\n\r\n",
            b"GET /api/kb HTTP/1.1\r\nContent-Length: 99999999999999999999\r\n\r\n",
            b"POST /api/answer HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\nFFFFFFFFFFFFFFFF\r\n",
            b"POST /api/answer HTTP/1.1\r\nTransfer-Encoding: chunked\r\nContent-Length: 3\r\n\r\n0\r\n\r\n",
            b"GET /" + b"a" * 70_000,
            b"GET / HTTP/1.1\r\n" + b"X: y\r\n" * 12_000,
            b"GET /\xff\xfe HTTP/1.1\r\nConnection: close\r\n\r\n",
            b"GET /api/kb HTTP/1.1\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n" * 3,
            b"OPTIONS * HTTP/1.1\r\nConnection: close\r\n\r\n",
        ]
    )
    return Attack("no HTTP", (sent, b"\r\n\r\n"))


def _slow(source: random.Random, words: tuple[str, ...]) -> Attack:
    head = (
        b"POST /api/answer HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 500\r\n\r\n"
    )
    pieces = source.choice([(b"",), (b"GET ",), (b"GET / HTTP/1.1\r\n", b"X: 1\r\n", b"Y: 1\r\n"), (head, b'{"query"')])
    return Attack("slow clients", pieces, slow=True) if source.random() < 0.2 else _mutated(source, words)


MAKERS: Final[Mapping[str, Callable[[random.Random, tuple[str, ...]], Attack]]] = {
    "deep nesting": _nested,
    "huge sets": _huge_set,
    "control characters": _control,
    "large bodies": _megabyte,
    "unknown names": _unknown,
    "SPARQL": _sparql,
    "random words": _mutated,
    "parameters": _parameters,
    "no HTTP": _no_http,
    "slow clients": _slow,
}
