"""`tarbox serve` as a command."""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import sys
from pathlib import Path

import httpx
import pytest

from tarbox.cli.serve import run, serve
from tarbox.core.errors import ConfigError, TarboxError
from tarbox.http.settings import ServerSettings

PROGRAM = "import typer; from tarbox.cli.serve import serve; typer.run(serve)"


@pytest.mark.parametrize("ending", [signal.SIGTERM, signal.SIGINT])
def test_it_serves_until_it_is_told_to_stop(store: Path, ending: signal.Signals) -> None:
    command = [sys.executable, "-c", PROGRAM, str(store), "--port", "0", "--workers", "1"]
    environment = {"PATH": "", "TARBOX_API_KEY": "open sesame", "PYTHONPATH": os.environ.get("PYTHONPATH", "")}
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        line = process.stdout.readline()
        found = re.fullmatch(r"academia is served at (http://127\.0\.0\.1:\d+)/ \(Ctrl\+C stops\)\n", line)
        assert found is not None, line
        assert httpx.get(f"{found[1]}/health", timeout=20).status_code == 200
        assert httpx.get(f"{found[1]}/api/kb").status_code == 401
        assert httpx.get(f"{found[1]}/api/kb", headers={"X-API-Key": "open sesame"}).status_code == 200
        process.send_signal(ending)
        assert process.wait(20) == 0
        assert process.stderr.read() == ""


def test_the_log_has_every_request_and_no_traceback_of_those_who_leave(store: Path) -> None:
    command = [sys.executable, "-c", PROGRAM, str(store), "--port", "0", "--workers", "1", "--log-level", "info"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        found = re.search(r"http://([\d.]+):(\d+)", process.stdout.readline())
        assert found is not None
        httpx.get(f"{found[0]}/api/answer?query=Persn%0A&k=2")
        for _ in range(20):  # they ask, and are gone before the answer, or in the middle of a request
            for sent in (b"GET /api/answer?query=not+Person&k=1000 HTTP/1.1\r\nHost: localhost\r\n\r\n", b"POST /x"):
                with socket.create_connection((found[1], int(found[2]))) as connection:
                    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
                    connection.sendall(sent)
        assert httpx.get(f"{found[0]}/health").status_code == 200
        process.terminate()
        assert process.wait(20) == 0
        log = process.stderr.read()
    assert re.search(r'INFO tarbox.access\[\d+\] 127.0.0.1 "GET /api/answer\?query=Persn%0A&k=2" 400 [\d.]+ ms\n', log)
    assert "Traceback" not in log
    assert "ERROR" not in log


def test_mistakes_are_told(store: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken, pytest.raises(ConfigError, match="--port"):
        run(store, ServerSettings(port=taken.getsockname()[1]))
    with pytest.raises(TarboxError, match="no store at"):
        run(store / "nothing", ServerSettings(port=0))
    for key, host in (("x", "127.0.0.1"), ("", "0.0.0.0"), ("        ", "0.0.0.0")):
        with pytest.raises(ConfigError, match="too short"):
            serve(store, api_key=key, host=host)
    for host in ("0.0.0.0", "::", "192.0.2.1"):
        with pytest.raises(ConfigError, match=r"others can reach .*--api-key"):
            serve(store, host=host)
