"""Compiling ahead: another process leaves on disk what a rehearsal calls."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tarbox.training import warming
from tarbox.training.warming import CompileAhead, kept_code


def test_everything_that_is_looked_for_is_compiled(tmp_path: Path) -> None:
    """By a process with a cache of its own, which it fills."""
    program = (
        "from tarbox.training.warming import kept_code, rehearse_a_little\n"
        "import sys\n"
        "before = [path.exists() for path in kept_code()]\n"
        "rehearse_a_little()\n"
        "sys.exit(not (not any(before) and all(path.exists() for path in kept_code())))\n"
    )
    ran = subprocess.run(
        [sys.executable, "-c", program], env={**os.environ, "NUMBA_CACHE_DIR": str(tmp_path)}, timeout=300, check=False
    )
    assert ran.returncode == 0
    assert list(tmp_path.rglob("*.nbi"))


def test_no_process_is_started_for_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(warming, "kept_code", lambda: [Path(__file__)])
    with CompileAhead() as compiling:
        compiling.wait()
        assert compiling._process is None


def test_the_process_ends_with_the_context(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(warming, "kept_code", lambda: [Path(__file__).with_name("missing")])
    monkeypatch.setattr(os, "cpu_count", lambda: 2)
    with CompileAhead() as compiling:
        process = compiling._process
        assert process is not None
        assert process.poll() is None
    assert process.poll() is not None


def test_it_looks_for_functions_that_numba_keeps() -> None:
    assert all(path.suffix == ".nbi" for path in kept_code())
