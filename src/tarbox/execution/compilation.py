"""How the kernels of this folder and of `tarbox.benchmark` become machine code (numba)."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, TypeVar, cast

import numba

KERNEL_SOURCES: Final = ("kernels.py", "type_kernels.py", "graph.py", "program.py", "rows.py")
"""The files of this folder whose change makes compiled code stale."""

F = TypeVar("F", bound=Callable[..., Any])


def compiled(function: F, inline: str = "never") -> F:
    """The function as machine code, kept on disk: it is compiled once per machine and version of its sources.

    numba's cache looks at the function's own file alone and would keep code that calls an older version of what is
    here; so the version that it compares, before it reads anything else, covers all files of the kernels.
    """
    dispatcher = numba.njit(cache=True, nogil=True, inline=inline)(function)
    if not numba.config.DISABLE_JIT:
        sources = [Path(function.__code__.co_filename), *(Path(__file__).with_name(name) for name in KERNEL_SOURCES)]
        stamps = [(source.stat().st_mtime, source.stat().st_size) for source in sources]
        dispatcher._cache._cache_file._version = f"{numba.__version__} {stamps}"
    return cast(F, dispatcher)


def inlined(function: F) -> F:
    """The same for functions whose call costs more than what they do."""
    return compiled(function, inline="always")
