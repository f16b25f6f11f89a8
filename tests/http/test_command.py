"""`tarbox serve` as a command."""

from __future__ import annotations

import re
import signal
import socket
import subprocess
import sys
from pathlib import Path

import httpx
import pytest

from tarbox.cli.serve import run, serve
from tarbox.core.errors import ConfigError, StoreMissing
from tarbox.http.settings import ServerSettings

PROGRAM = "import typer; from tarbox.cli.serve import serve; typer.run(serve)"


@pytest.mark.parametrize("ending", [signal.SIGTERM, signal.SIGINT])
def test_it_serves_until_it_is_told_to_stop(store: Path, ending: signal.Signals) -> None:
    command = [sys.executable, "-c", PROGRAM, str(store), "--port", "0"]
    environment = {"PATH": "", "TARBOX_API_KEY": "open sesame"}
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


def test_mistakes_are_told(store: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken, pytest.raises(ConfigError, match="--port"):
        run(store, ServerSettings(port=taken.getsockname()[1]))
    with pytest.raises(StoreMissing, match="no store at"):
        run(store / "nothing", ServerSettings())
    with pytest.raises(ConfigError, match="too short"):
        serve(store, api_key="x")
