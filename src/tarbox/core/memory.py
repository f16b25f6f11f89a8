"""How much memory there is still, as Linux says."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Final

_GROUPS: Final = Path("/sys/fs/cgroup")
_MEMORY: Final = Path("/proc/meminfo")


def available() -> int | None:
    """Bytes that the process can still get, of the machine and of every control group it is in; None if unknown."""
    machine = field_of(_MEMORY, "MemAvailable")
    if machine is None:
        return None
    return max(0, min([machine, *_left_in_groups()]))


def in_words(size: float) -> str:
    """A size as a person says it.

    >>> in_words(1_240_000_000), in_words(31_000_000)
    ('1.2 GB', '0.03 GB')
    """
    billions = size / 1e9
    return f"{billions:,.1f} GB" if billions >= 0.1 else f"{billions:.2f} GB"


def field_of(file: Path, name: str) -> int | None:
    """A size of /proc in bytes."""
    try:
        lines = file.read_text(encoding="utf-8").splitlines()
    except OSError:
        return None
    row = next((line.split() for line in lines if line.startswith(f"{name}:")), None)
    return None if row is None else 1024 * int(row[1])


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
