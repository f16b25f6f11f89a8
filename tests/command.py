"""The `tarbox` command in this process: what it prints and its exit code, without starting Python for each."""

from __future__ import annotations

import io
import subprocess
import sys
from contextlib import redirect_stderr, redirect_stdout
from unittest.mock import patch

from tarbox.cli.main import run


def tarbox(*arguments: object) -> subprocess.CompletedProcess[str]:
    """With neither of its outputs a terminal."""
    command = ["tarbox", *map(str, arguments)]
    out, errors = (io.TextIOWrapper(io.BytesIO(), encoding="utf-8") for _ in range(2))
    code = 0
    with patch.object(sys, "argv", command), redirect_stdout(out), redirect_stderr(errors):
        try:
            run()
        except SystemExit as exit:
            code = exit.code if isinstance(exit.code, int) else int(exit.code is not None)
    return subprocess.CompletedProcess(command, code, *(_written(stream) for stream in (out, errors)))


def _written(stream: io.TextIOWrapper) -> str:
    stream.flush()
    stream.seek(0)
    return stream.read()
