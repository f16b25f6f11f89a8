"""Compiling ahead: other processes leave on disk what a rehearsal calls."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tarbox.training import warming
from tarbox.training.warming import PARTS, CompileAhead, kept_code


def test_everything_that_is_looked_for_is_compiled(tmp_path: Path) -> None:
    """By a process with a cache of its own, which it fills."""
    program = (
        "from tarbox.training.warming import PARTS, kept_code\n"
        "import sys\n"
        "before = [path.exists() for path in kept_code()]\n"
        "[part() for part in PARTS.values()]\n"
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
        assert not compiling._processes


def test_the_processes_end_with_the_context(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(warming, "kept_code", lambda: [Path(__file__).with_name("missing")])
    monkeypatch.setattr(os, "cpu_count", lambda: 2)
    with CompileAhead() as compiling:
        processes = compiling._processes
        assert len(processes) == len(PARTS)
        assert all(process.poll() is None for process in processes)
    assert all(process.poll() is not None for process in processes)


def test_it_looks_for_functions_that_numba_keeps() -> None:
    assert all(path.suffix == ".nbi" for path in kept_code())
