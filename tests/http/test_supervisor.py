"""Workers and their supervisor: what becomes of requests and of the service when a process is killed or stopped."""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from http.client import HTTPConnection
from pathlib import Path
from types import ModuleType

import httpx
import pytest

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="connections are shared on Linux only")
ASKED = "/api/answer?query=Person&k=2"


@pytest.fixture(scope="module")
def served(failures: ModuleType, store: Path) -> Iterator[tuple[str, subprocess.Popen[str]]]:
    with failures.served(store, 0, "--workers", "2") as (address, process):
        until(lambda: workers(address) == 2)
        yield address, process


def until(condition: Callable[[], object], seconds: float = 60.0) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.05)


def workers(address: str) -> int:
    return int(httpx.get(f"{address}/health", timeout=30).json()["workers"]["up"])


def lost(address: str, reason: str) -> int:
    found = re.search(rf'tarbox_workers_lost_total{{reason="{reason}"}} (\d+)', httpx.get(f"{address}/metrics").text)
    return int(found[1]) if found else 0


def children(process: int) -> list[int]:
    return sorted(map(int, Path(f"/proc/{process}/task/{process}/children").read_text().split()))


@pytest.mark.parametrize(("number", "reason"), [(signal.SIGKILL, "died"), (signal.SIGSTOP, "hung")])
def test_only_requests_in_flight_fail(
    served: tuple[str, subprocess.Popen[str]], failures: ModuleType, number: signal.Signals, reason: str
) -> None:
    address, process = served
    before, heard = lost(address, reason), failures.Heard()

    async def strike() -> None:
        asking = [asyncio.create_task(failures._ask(address, time.monotonic() + 2.5, heard)) for _ in range(8)]
        await asyncio.sleep(0.5)
        os.kill(children(process.pid)[0], number)
        await asyncio.gather(*asking)

    asyncio.run(strike())
    until(lambda: lost(address, reason) == before + 1)
    until(lambda: workers(address) == 2)
    assert heard.broken == heard.silent == 0
    assert heard.statuses[200] > 0
    assert heard.statuses[503] <= 8  # as many as were in flight, perhaps none
    assert set(heard.statuses) <= {200, 503}


def test_a_reply_is_sent_as_a_whole(served: tuple[str, subprocess.Popen[str]]) -> None:
    """Whenever a worker is killed, it has sent a reply or nothing of it: a part could not be taken back."""
    address, _ = served
    host, port = address.removeprefix("http://").split(":")
    with socket.create_connection((host, int(port)), timeout=60) as connection:
        for method in ("GET", "HEAD") * 100:
            connection.sendall(f"{method} {ASKED} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
            head, _, content = connection.recv(1 << 16).partition(b"\r\n\r\n")
            length = int(re.findall(rb"content-length: (\d+)", head)[0])
            assert len(content) == (length if method == "GET" else 0)


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSTOP])
def test_who_waits_for_a_lost_worker_is_told(served: tuple[str, subprocess.Popen[str]], number: signal.Signals) -> None:
    address, process = served
    host, port = address.removeprefix("http://").split(":")
    head = b"POST /api/answer HTTP/1.1\r\nHost: localhost\r\nContent-Length: 20\r\n\r\n"
    with socket.create_connection((host, int(port)), timeout=60) as connection:
        connection.sendall(head + b"half of")  # a worker has begun to read it, and waits for the rest
        time.sleep(0.5)
        for worker in children(process.pid):
            os.kill(worker, number)
        heard = b"".join(iter(lambda: connection.recv(1 << 16), b""))
    assert heard.startswith(b"HTTP/1.1 503 ")
    assert b"retry-after: 1\r\n" in heard
    assert b'"urn:tarbox:problem:busy"' in heard
    until(lambda: workers(address) == 2)


def test_a_connection_where_nobody_waits_survives_its_worker(served: tuple[str, subprocess.Popen[str]]) -> None:
    address, process = served
    host, port = address.removeprefix("http://").split(":")

    def ask(connection: HTTPConnection) -> int:
        connection.request("GET", ASKED)
        with connection.getresponse() as reply:
            assert reply.read()
        return reply.status

    held = [HTTPConnection(host, int(port), timeout=60) for _ in range(4)]
    with contextlib.ExitStack() as closing:
        for connection in held:
            closing.callback(connection.close)
        assert {ask(connection) for connection in held} == {200}
        time.sleep(1.0)  # a worker notes that nobody waits only after the last byte of its reply
        for worker in children(process.pid):
            os.kill(worker, signal.SIGKILL)
        for connection in held:
            connection.auto_open = 0  # the same connection, or none
            assert ask(connection) == 200
    until(lambda: workers(address) == 2)


def test_workers_share_the_connections_and_the_counts(served: tuple[str, subprocess.Popen[str]]) -> None:
    address, _ = served
    host, port = address.removeprefix("http://").split(":")
    held = [socket.create_connection((host, int(port))) for _ in range(10)]
    open_ = re.compile(r'^tarbox_worker_connections\{worker="\d"\} (\d+)', re.MULTILINE)

    def shares() -> list[int]:
        return [int(number) for number in open_.findall(httpx.get(f"{address}/metrics").text)]

    until(lambda: len(shares()) == 2 and min(shares()) >= 5)
    for connection in held:
        connection.close()
    text = httpx.get(f"{address}/metrics").text
    by_worker = sum(map(int, re.findall(r"^tarbox_worker_requests_total\{.*\} (\d+)", text, re.MULTILINE)))
    by_route = sum(map(int, re.findall(r"^tarbox_requests_total\{.*\} (\d+)", text, re.MULTILINE)))
    assert by_worker == by_route > 10
    assert re.findall(r"^tarbox_worker_up\{.*\} 1", text, re.MULTILINE) == [
        'tarbox_worker_up{worker="0"} 1', 'tarbox_worker_up{worker="1"} 1'
    ]  # fmt: skip


def test_a_supervisor_that_is_stopped_is_not_missed(served: tuple[str, subprocess.Popen[str]]) -> None:
    address, process = served
    process.send_signal(signal.SIGSTOP)
    try:
        for _ in range(10):
            assert httpx.get(address + ASKED, timeout=30).status_code == 200  # new connections among them
    finally:
        process.send_signal(signal.SIGCONT)


@pytest.mark.parametrize("ending", [signal.SIGKILL, signal.SIGTERM])
def test_workers_end_with_the_supervisor(failures: ModuleType, store: Path, ending: signal.Signals) -> None:
    with failures.served(store, 0, "--workers", "2") as (address, process):
        assert httpx.get(address + ASKED, timeout=30).status_code == 200
        started = children(process.pid)
        assert len(started) == 2
        process.send_signal(ending)
        process.wait(20)
        until(lambda: not any(Path(f"/proc/{each}").exists() for each in started))
        with pytest.raises(httpx.ConnectError):
            httpx.get(address)
