"""Locks on open files, which end with the process that holds them: on POSIX systems and on Windows."""

from __future__ import annotations

import os
import sys
from typing import IO, Any, Final

_BEYOND: Final = 1 << 30
"""Windows locks bytes against reading too: this one is after the end of any file that is locked here."""

if sys.platform == "win32":
    import msvcrt

    def _claim(descriptor: int) -> None:
        at = os.lseek(descriptor, 0, os.SEEK_CUR)
        os.lseek(descriptor, _BEYOND, os.SEEK_SET)
        try:
            msvcrt.locking(descriptor, msvcrt.LK_NBLCK, 1)
        finally:
            os.lseek(descriptor, at, os.SEEK_SET)
else:
    import fcntl

    def _claim(descriptor: int) -> None:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)


def take_lock(handle: IO[Any] | int) -> bool:
    """Lock an open file until it is closed or its process dies; False where another process has it."""
    try:
        _claim(handle if isinstance(handle, int) else handle.fileno())
    except (BlockingIOError, PermissionError):
        return False
    except OSError:  # a disk without locks
        pass
    return True
