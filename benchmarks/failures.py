"""kill -9 and kill -STOP of every process of a server, one after the other, while clients ask.

    python benchmarks/failures.py demo/academia                # 32 clients, two workers or more

For each process: which replies the clients got, how long until every worker serves again, and what `/metrics` says. A
request may fail only as 503 with Retry-After, and only where it was in flight at the process. The outermost process is
what a service manager looks after: killed, its workers finish what they have begun and end, and the program starts the
server again at the same port, as a service manager does; stopped, its workers go on. $OUT gets failures.json.
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
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, final
from urllib.parse import quote
from urllib.request import urlopen

PROGRAM: Final = "import typer; from tarbox.cli.serve import serve; typer.run(serve)"
QUESTIONS: Final = ("owl:Thing", "not owl:Nothing", "{}")
WHOLE: Final = 5.0


@final
@dataclass(slots=True)
class Heard:
    """What clients got: replies by status, broken connections, and refusals that do not say when to come back."""

    statuses: Counter[int] = field(default_factory=Counter)
    broken: int = 0
    silent: int = 0

    def row(self, process: str, number: signal.Signals, took: float) -> dict[str, object]:
        """The figures of one strike."""
        refused = sum(count for status, count in self.statuses.items() if status != 200)
        told = {"answers": self.statuses[200], "refused": refused, "broken": self.broken, "seconds": took}
        return {"process": process, "signal": number.name, **told}

    def __str__(self) -> str:
        shown = ", ".join(f"{status}: {number:,}" for status, number in sorted(self.statuses.items()))
        return f"{shown}; {self.broken} broken connections, {self.silent} refusals without Retry-After"


async def _ask(address: str, until: float, heard: Heard) -> None:
    """One client, over a connection that it keeps as long as the server does."""
    host, _, port = address.removeprefix("http://").partition(":")
    sent = f"GET /api/answer?k=5&query={quote(QUESTIONS[0])} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode()
    writer: asyncio.StreamWriter | None = None
    while time.monotonic() < until:
        try:
            if writer is None:
                reader, writer = await asyncio.open_connection(host, int(port))
            writer.write(sent)
            async with asyncio.timeout(30):
                head = (await reader.readuntil(b"\r\n\r\n")).lower()
                length = re.search(rb"content-length: (\d+)", head)
                await reader.readexactly(int(length[1]) if length else 0)
        except (OSError, asyncio.IncompleteReadError, TimeoutError):
            heard.broken += 1
            if writer is not None:
                writer.close()
            writer = None
            await asyncio.sleep(0.05)
            continue
        heard.statuses[int(head[9:12])] += 1
        heard.silent += head[9:12] == b"503" and b"retry-after" not in head
        if b"connection: close" in head:
            writer.close()
            writer = None
    if writer is not None:
        writer.close()


def processes(root: int) -> list[int]:
    """A process and all below it."""
    found = [root]
    for each in found:
        for children in Path("/proc").glob(f"{each}/task/*/children"):
            found += map(int, children.read_text().split())
    return found


def role(process: int) -> str:
    words = Path(f"/proc/{process}/cmdline").read_bytes().split(b"\0") if Path(f"/proc/{process}").exists() else []
    return next((word.decode().rpartition(".")[2] for word in words if word.startswith(b"tarbox.")), "ended already")


@contextmanager
def served(path: Path, port: int = 0, *options: str) -> Iterator[tuple[str, subprocess.Popen[str]]]:
    command = [sys.executable, "-c", PROGRAM, str(path), "--port", str(port), *options]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        found = re.search(r"http://[\d.:]+", process.stdout.readline())
        if found is None:
            raise SystemExit("the server did not start")
        try:
            yield found[0], process
        finally:
            process.send_signal(signal.SIGCONT)
            process.terminate()
            process.wait()


def is_whole(address: str) -> bool:
    """Whether every worker serves, and a question is answered, also one in SPARQL."""
    with suppress(OSError, ValueError):
        asked = f"{address}/sparql?query={quote('ASK {}')}"
        is_ok: bool = json.load(urlopen(f"{address}/ready", timeout=1))["status"] == "ok"
        return is_ok and bool(urlopen(asked, timeout=5).status == 200)
    return False


async def strike(address: str, process: int, number: signal.Signals, clients: int) -> tuple[Heard, float]:
    """What the clients heard, and the seconds until the server was whole."""
    heard = Heard()
    asking = [asyncio.create_task(_ask(address, time.monotonic() + 8, heard)) for _ in range(clients)]
    await asyncio.sleep(1)
    with suppress(ProcessLookupError):
        os.kill(process, number)
    struck = time.monotonic()
    await asyncio.sleep(1.5 if number is signal.SIGSTOP else 0.3)  # it takes a moment until it is noticed
    while not await asyncio.to_thread(is_whole, address) and time.monotonic() - struck < 3 * WHOLE:
        await asyncio.sleep(0.05)
    took = time.monotonic() - struck
    await asyncio.gather(*asking)
    return heard, took


def lost(address: str) -> str:
    text = urlopen(f"{address}/metrics").read().decode()
    return ", ".join(re.findall(r'tarbox_workers_lost_total\{reason="(\w+"\} \d+)', text)).replace('"}', "")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("path", type=Path, help="a store or a run")
    parser.add_argument("--clients", type=int, default=32)
    parser.add_argument("--workers", type=int, default=max(2, len(os.sched_getaffinity(0))))
    chosen = parser.parse_args()
    passed, rows = True, list[dict[str, object]]()
    with served(chosen.path, 0, "--workers", str(chosen.workers)) as (address, outermost):
        while not is_whole(address):
            time.sleep(0.1)
        for number in (signal.SIGKILL, signal.SIGSTOP):
            for name, place in [("sparql_process", 0), *(("worker", row) for row in range(chosen.workers))]:
                process = [each for each in processes(outermost.pid) if role(each) == name][place]
                heard, took = asyncio.run(strike(address, process, number, chosen.clients))
                fine = not heard.broken and not heard.silent and set(heard.statuses) <= {200, 503} and took <= WHOLE
                passed &= fine
                rows.append(heard.row(name, number, took))
                print(f"{number.name:8}{name:16} whole after {took:.1f} s; {heard}; lost: {lost(address)}", flush=True)
        heard, took = asyncio.run(strike(address, outermost.pid, signal.SIGSTOP, chosen.clients))
        passed &= not heard.broken and set(heard.statuses) == {200}
        rows.append(heard.row("supervisor", signal.SIGSTOP, took))
        print(f"SIGSTOP supervisor      whole after {took:.1f} s; {heard}", flush=True)
    with served(chosen.path, 0, "--workers", str(chosen.workers)) as (address, outermost):
        began = time.monotonic()
        outermost.kill()
        outermost.wait()
        time.sleep(0.3)
        with served(chosen.path, int(address.rpartition(":")[2]), "--workers", str(chosen.workers)) as (again, _):
            while not is_whole(again):
                time.sleep(0.05)
            took = time.monotonic() - began
            passed &= took <= WHOLE
            rows.append({"process": "supervisor", "signal": "SIGKILL", "seconds": took})
            print(f"SIGKILL supervisor      whole after {took:.1f} s, started again", flush=True)
    if out := os.environ.get("OUT"):
        (Path(out) / "failures.json").write_text(json.dumps(rows, indent=1))
    print("only requests in flight failed, as 503" if passed else "NOT AS IT SHOULD BE")
    sys.exit(0 if passed else 1)


if __name__ == "__main__":
    main()
