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

from tarbox.core.memory import available, field_of

_TRIM_THRESHOLD: Final = -1
_MMAP_THRESHOLD: Final = -3
"""Parameters of glibc's mallopt."""
_USUAL: Final = 128 * 1024
"""What both are in a process that has just begun."""
_KEPT: Final = (1 << 30, 1 << 25)
"""From which size on a block of memory is the system's again when it is freed; older glibc takes the second alone."""
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


def resident_peak() -> int:
    """The most bytes of memory that the process has had so far; 0 if unknown."""
    return field_of(_STATUS, "VmHWM") or 0


def _data() -> int | None:
    """What RLIMIT_DATA counts: the private writable memory of the process."""
    return field_of(_STATUS, "VmData")


def _glibc() -> ctypes.CDLL | None:
    """The C library of the process, where it is glibc."""
    try:
        library = ctypes.CDLL(None)
        library.gnu_get_libc_version  # noqa: B018 (raises where it is another)
    except (AttributeError, OSError, TypeError):
        return None
    return library
