"""A run is replaced again and again while clients ask: no request may fail, no reply may mix two versions.

    python benchmarks/reloading.py                    # 32 clients, ten times, a run (of counting) in two versions
    python benchmarks/reloading.py --store            # the same with stores
    python benchmarks/reloading.py --signal           # SIGHUP instead of POST /api/reload

Two versions of a small knowledge base are built, with different answers to the same questions. What is served is a link
to one of them, which is set to the other in one step; then the server is told. Clients keep their connections and ask
one question, or several at once; each reply, with the version that its header names, must be exactly what that
version gives when it is asked alone.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, final
from urllib.parse import quote
from urllib.request import Request, urlopen

from failures import served

KEY: Final = "reloading-key"
QUESTIONS: Final = (
    "worksAt value Lab0",
    "Person and not (worksAt value Lab1)",
    "inverse worksAt some Person",
    "Person",
)
PEOPLE: Final = 200


@final
@dataclass(slots=True)
class Tally:
    """What clients got: replies by version, and those that failed, broke off or were no version's."""

    versions: Counter[str] = field(default_factory=Counter)
    failed: Counter[str] = field(default_factory=Counter)
    mixed: int = 0


def write(folder: Path, version: int) -> Path:
    """The source of a version: in each, other persons work at other places."""
    source = folder / f"version{version}.ttl"
    lines = ["@prefix : <urn:reloading:> .", ":worksAt a <http://www.w3.org/2002/07/owl#ObjectProperty> ."]
    lines += [f":Lab{lab} a :Lab ." for lab in range(3)]
    for person in range(version, 2 * PEOPLE, 2):
        lines.append(f":Person{person} a :Person ; :worksAt :Lab{(person // 2 + version) % 3} .")
    source.write_text("\n".join(lines))
    return source


def command(*words: str) -> None:
    subprocess.run([sys.executable, "-m", "tarbox", *words], check=True, stdout=subprocess.DEVNULL)


def build(folder: Path, as_store: bool) -> list[Path]:
    """Two versions, as stores or as runs."""
    made = []
    for version in range(2):
        store, run = folder / f"store{version}", folder / f"run{version}"
        command("kb", "build", str(write(folder, version)), "-o", str(store))
        if not as_store:
            command("train", str(store), "-o", str(run), "--model", "counting")
        made.append(store if as_store else run)
    return made


def bodies() -> list[tuple[str, bytes]]:
    """Requests, each by a name: every question alone, and all at once."""
    sent = [
        (text, f"GET /api/answer?k=1000&query={quote(text)} HTTP/1.1\r\n{_HEAD}\r\n".encode()) for text in QUESTIONS
    ]
    all_ = json.dumps({"questions": [{"query": text, "k": 1000} for text in QUESTIONS]})
    head = f"POST /api/answers HTTP/1.1\r\n{_HEAD}Content-Type: application/json\r\nContent-Length: {len(all_)}\r\n\r\n"
    return [*sent, ("all at once", (head + all_).encode())]


_HEAD: Final = f"Host: localhost\r\nX-API-Key: {KEY}\r\n"


async def ask(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, sent: bytes) -> tuple[int, str, str]:
    """The status of a reply, the version that it names, and what it says, without the time that it took."""
    writer.write(sent)
    async with asyncio.timeout(30):
        head = (await reader.readuntil(b"\r\n\r\n")).decode().lower()
        length = re.search(r"content-length: (\d+)", head)
        content = (await reader.readexactly(int(length[1]) if length else 0)).decode()
    version = re.search(r"x-facts-version: (\S+)", head)
    return int(head[9:12]), version[1] if version else "", re.sub(r'"milliseconds":[\d.e-]+', "", content)


async def client(
    address: str, expected: dict[tuple[str, str], str], tally: Tally, going: asyncio.Event, pause: float
) -> None:
    """Asks over one connection as long as the server keeps it."""
    host, _, port = address.removeprefix("http://").partition(":")
    pair: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None
    number = 0
    while going.is_set():
        await asyncio.sleep(pause)
        name, sent = bodies()[number % (len(QUESTIONS) + 1)]
        number += 1
        try:
            pair = pair or await asyncio.open_connection(host, int(port))
            status, version, content = await ask(*pair, sent)
        except (OSError, asyncio.IncompleteReadError, TimeoutError) as error:
            tally.failed[type(error).__name__] += 1
            pair = None
            continue
        if status != 200:
            tally.failed[str(status)] += 1
        elif expected.get((version, name)) != content:
            tally.mixed += 1
        else:
            tally.versions[version] += 1
    if pair is not None:
        pair[1].close()


async def alone(address: str) -> dict[tuple[str, str], str]:
    """What a server gives that nobody else asks, by the version and the name of the request."""
    host, _, port = address.removeprefix("http://").partition(":")
    found = {}
    for name, sent in bodies():
        reader, writer = await asyncio.open_connection(host, int(port))
        status, version, content = await ask(reader, writer, sent)
        assert status == 200, content
        found[version, name] = content
        writer.close()
    return found


def replace(link: Path, target: Path) -> None:
    """What is served is the other version, in one step."""
    scratch = link.with_name("next")
    scratch.symlink_to(target)
    scratch.replace(link)


def reload(address: str) -> dict[str, Any]:
    asked = Request(f"{address}/api/reload", method="POST", headers={"X-API-Key": KEY})
    reply: dict[str, Any] = json.load(urlopen(asked, timeout=60))
    return reply


def serving(address: str) -> str:
    return str(urlopen(f"{address}/health", timeout=10).headers["X-Facts-Version"])


async def measure(link: Path, versions: list[Path], chosen: argparse.Namespace) -> Tally:
    expected: dict[tuple[str, str], str] = {}
    names = []
    for version in versions:
        replace(link, version)
        with served(link, 0, "--workers", "1") as (address, _):
            expected |= await alone(address)
            names.append(serving(address))
    assert len(set(names)) == 2
    assert len(expected) == 2 * (len(QUESTIONS) + 1)
    tally, going = Tally(), asyncio.Event()
    going.set()
    with served(link, 0, "--workers", str(chosen.workers)) as (address, process):
        clients = [
            asyncio.create_task(client(address, expected, tally, going, chosen.pause)) for _ in range(chosen.clients)
        ]
        await asyncio.sleep(1)
        for turn in range(chosen.times):
            wanted, began = turn % 2, time.monotonic()
            replace(link, versions[wanted])
            if chosen.signal:
                process.send_signal(signal.SIGHUP)
            else:
                told = await asyncio.to_thread(reload, address)
                assert told["status"] == "loading" or told["facts"]["version"] == names[wanted], told
            while await asyncio.to_thread(serving, address) != names[wanted]:
                await asyncio.sleep(0.05)
            print(f"{turn + 1:3}: version {names[wanted][:8]} after {time.monotonic() - began:.1f} s", flush=True)
            await asyncio.sleep(0.5)
        going.clear()
        await asyncio.gather(*clients)
    return tally


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--clients", type=int, default=32)
    parser.add_argument("--times", type=int, default=10)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--pause", type=float, default=0.0, help="seconds between the questions of a client")
    parser.add_argument("--store", action="store_true", help="serve stores, not runs")
    parser.add_argument("--signal", action="store_true", help="send SIGHUP, not POST /api/reload")
    chosen = parser.parse_args()
    os.environ["TARBOX_API_KEY"] = KEY
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        tally = asyncio.run(measure(place / "served", build(place, chosen.store), chosen))
    shown = ", ".join(f"{version[:8]}: {number:,}" for version, number in tally.versions.items())
    print(f"{sum(tally.versions.values()):,} replies ({shown})")
    print(f"{sum(tally.failed.values())} errors {dict(tally.failed) or ''}, {tally.mixed} replies of a mixture")
    sys.exit(1 if tally.failed or tally.mixed or len(tally.versions) != 2 else 0)


if __name__ == "__main__":
    main()
