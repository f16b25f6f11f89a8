"""As far as Linux can tell: nothing that only POSIX systems have is imported, and locks hold by both ways."""

from __future__ import annotations

import importlib
import subprocess
import sys
import types
from collections.abc import Iterator
from pathlib import Path

import pytest

from tarbox.core import locks

ABSENT = """
import importlib, os, pkgutil, signal, socket, sys, types
import asyncio, fastapi, httptools, matplotlib.figure, multiprocessing, numba, pyarrow.parquet, rich.progress, torch
import typer, uvicorn.protocols.http.httptools_impl, safetensors.torch, prompt_toolkit.shortcuts, duckdb
import tarbox
for name in ("fcntl", "resource", "termios", "tty", "pwd", "grp"):
    sys.modules[name] = None
sys.modules["msvcrt"] = types.ModuleType("msvcrt")
for module, names in {os: ("fork", "waitpid", "WNOHANG", "sched_getaffinity", "getuid", "sysconf"),
                      signal: ("SIGHUP", "SIGKILL", "SIGSTOP", "setitimer", "ITIMER_REAL"),
                      socket: ("AF_UNIX", "SOCK_SEQPACKET", "socketpair")}.items():
    for name in names:
        if hasattr(module, name):
            delattr(module, name)
sys.platform = "win32"
found = 0
for module in pkgutil.walk_packages(tarbox.__path__, "tarbox."):
    if module.name != "tarbox.__main__":
        try:
            importlib.import_module(module.name)
        except ModuleNotFoundError as error:
            assert error.name == "triton", error  # of CUDA alone, and imported where it is there
        found += 1
print(found)
"""


def test_every_module_imports_without_what_windows_lacks() -> None:
    done = subprocess.run([sys.executable, "-W", "ignore", "-c", ABSENT], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) > 250


@pytest.fixture
def windows(monkeypatch: pytest.MonkeyPatch) -> Iterator[dict[int, str]]:
    """The lock module as Windows would have it, over a stand-in for `msvcrt` that knows who holds a byte."""
    held: dict[int, str] = {}

    def locking(descriptor: int, _: int, size: int) -> None:
        assert size == 1
        file = Path(f"/proc/self/fd/{descriptor}").resolve()
        if str(file) in held.values():
            raise PermissionError(13, "Permission denied")
        held[descriptor] = str(file)

    fake = types.ModuleType("msvcrt")
    fake.locking, fake.LK_NBLCK = locking, 2  # type: ignore[attr-defined]
    with monkeypatch.context() as patch:
        patch.setitem(sys.modules, "msvcrt", fake)
        patch.setitem(sys.modules, "fcntl", None)
        patch.setattr(sys, "platform", "win32")
        importlib.reload(locks)
    yield held
    importlib.reload(locks)


def check_locks(folder: Path) -> None:
    (folder / "lock").write_text("content")
    with (
        (folder / "lock").open("r+") as one,
        (folder / "lock").open("r+") as two,
        (folder / "other").open("w") as three,
    ):
        assert locks.take_lock(one)
        assert not locks.take_lock(two)
        assert locks.take_lock(three)
        assert one.read() == "content"  # its place in the file is as it was


def test_a_lock_is_taken_once(tmp_path: Path) -> None:
    check_locks(tmp_path)
    with (tmp_path / "lock").open("r+") as again:
        assert locks.take_lock(again)


def test_a_lock_is_taken_once_on_windows(tmp_path: Path, windows: dict[int, str]) -> None:
    check_locks(tmp_path)
    assert len(windows) == 2
