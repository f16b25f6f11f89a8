"""A Spark Connect server in Rust, without Java (pysail), as a process of its own: it can be killed."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

_SERVE = """
import sys
from pysail.spark import SparkConnectServer
server = SparkConnectServer("127.0.0.1", 0)
server.start(background=True)
print(server.listening_address[1], flush=True)
sys.stdin.read()  # until the process that started this one is gone
"""


@contextmanager
def spark_server(folder: Path) -> Iterator[tuple[str, subprocess.Popen[str]]]:
    """The address of a server whose tables are in `folder`, and its process."""
    with subprocess.Popen(
        [sys.executable, "-c", _SERVE],
        cwd=folder,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    ) as process:
        assert process.stdout is not None
        try:
            yield f"sc://127.0.0.1:{process.stdout.readline().strip()}", process
        finally:
            process.kill()
