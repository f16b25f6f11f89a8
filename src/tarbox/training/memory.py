"""Memory while training on the CPU: what is freed stays with the process, and what cannot fit fails by itself.

Linux grants more memory than there is, and kills the process that then uses it. While `limited`, an allocation beyond
what is there fails instead, which `tarbox.training.failures.explained` turns into a line that says what to do.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

_TRIM_THRESHOLD: Final = -1
_MMAP_THRESHOLD: Final = -3
"""Parameters of glibc's mallopt."""
_USUAL: Final = 128 * 1024
"""What both are in a process that has just begun."""
_KEPT: Final = (1 << 30, 1 << 25)
"""From which size on a block of memory is the system's again when it is freed; older glibc takes the second alone."""
_GROUPS: Final = Path("/sys/fs/cgroup")
_MEMORY: Final = Path("/proc/meminfo")
_STATUS: Final = Path("/proc/self/status")


@contextmanager
def kept() -> Iterator[None]:
    """Memory that is freed stays with the process until this ends: the next step wants as much again.

    Else every large tensor of a step is asked of the system anew, and filled with zeros by it. Nothing happens where
    there is no glibc.
    """
    library = _glibc()
    if library is None:
        yield
        return
    any(library.mallopt(_MMAP_THRESHOLD, size) for size in _KEPT)
    library.mallopt(_TRIM_THRESHOLD, -1)
    try:
        yield
    finally:
        library.mallopt(_MMAP_THRESHOLD, _USUAL)
        library.mallopt(_TRIM_THRESHOLD, _USUAL)
        library.malloc_trim(0)


@contextmanager
def limited() -> Iterator[Callable[[], None]]:
    """The process gets no more memory than there is: an allocation beyond it fails. Nothing happens outside Linux.

    Calling what this gives looks again at how much there is: other processes come and go.
    """
    if _data() is None or available() is None:
        yield lambda: None
        return
    import resource

    before = resource.getrlimit(resource.RLIMIT_DATA)
    bounds = [bound for bound in before if bound != resource.RLIM_INFINITY]

    def renew() -> None:
        wanted = (_data() or 0) + (available() or 0)
        resource.setrlimit(resource.RLIMIT_DATA, (min([wanted, *bounds]), before[1]))

    renew()
    try:
        yield renew
    finally:
        resource.setrlimit(resource.RLIMIT_DATA, before)


def available() -> int | None:
    """Bytes that the process can still get, of the machine and of every control group it is in; None if unknown."""
    machine = _field(_MEMORY, "MemAvailable")
    if machine is None:
        return None
    return max(0, min([machine, *_left_in_groups()]))


def resident_peak() -> int:
    """The most bytes of memory that the process has had so far; 0 if unknown."""
    return _field(_STATUS, "VmHWM") or 0


def in_words(size: float) -> str:
    """A size as a person says it.

    >>> in_words(1_240_000_000), in_words(31_000_000)
    ('1.2 GB', '0.03 GB')
    """
    billions = size / 1e9
    return f"{billions:,.1f} GB" if billions >= 0.1 else f"{billions:.2f} GB"


def _data() -> int | None:
    """What RLIMIT_DATA counts: the private writable memory of the process."""
    return _field(_STATUS, "VmData")


def _left_in_groups() -> list[int]:
    """What each control group of the process leaves, in either version of control groups; caches can be given up."""
    found = []
    for folder in _groups():
        limit = _number(folder / "memory.max") or _number(folder / "memory.limit_in_bytes")
        used = _number(folder / "memory.current") or _number(folder / "memory.usage_in_bytes")
        if limit is not None and used is not None:
            found.append(limit - used + _file_cache(folder / "memory.stat"))
    return found


def _groups() -> Iterator[Path]:
    """The folders of the control groups of the process, with those above them."""
    try:
        lines = Path("/proc/self/cgroup").read_text(encoding="utf-8").splitlines()
    except OSError:
        return
    for line in lines:
        _, controllers, path = line.split(":", 2)
        if controllers in ("", "memory") or "memory" in controllers.split(","):
            root = _GROUPS / "memory" if controllers else _GROUPS
            own = root / path.lstrip("/")
            yield from (folder for folder in (own, *own.parents) if folder == root or root in folder.parents)


def _file_cache(file: Path) -> int:
    """The bytes of files that the system would give up before it fails."""
    try:
        rows = (line.split() for line in file.read_text(encoding="utf-8").splitlines())
        return next((int(row[1]) for row in rows if row[0] in ("inactive_file", "total_inactive_file")), 0)
    except (OSError, ValueError, IndexError):
        return 0


def _number(file: Path) -> int | None:
    """The number that a file holds; None where there is none, or it says "max"."""
    try:
        return int(file.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None


def _field(file: Path, name: str) -> int | None:
    """A size of /proc in bytes."""
    try:
        lines = file.read_text(encoding="utf-8").splitlines()
    except OSError:
        return None
    row = next((line.split() for line in lines if line.startswith(f"{name}:")), None)
    return None if row is None else 1024 * int(row[1])


def _glibc() -> ctypes.CDLL | None:
    """The C library of the process, where it is glibc."""
    try:
        library = ctypes.CDLL(None)
        library.gnu_get_libc_version  # noqa: B018 (raises where it is another)
    except (AttributeError, OSError, TypeError):
        return None
    return library
