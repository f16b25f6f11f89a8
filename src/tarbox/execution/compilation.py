"""How kernels become machine code (numba)."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, Literal, TypeVar, cast

import numba

KERNEL_SOURCES: Final = ("kernels.py", "type_kernels.py", "graph.py", "program.py", "rows.py")
"""The files of this folder whose change makes compiled code stale, as that of the kernels beside a function does."""

F = TypeVar("F", bound=Callable[..., Any])


def compiled(function: F, inline: Literal["never", "always"] = "never", fastmath: bool = False) -> F:
    """The function as machine code, kept on disk: it is compiled once per machine and version of its sources. With
    `fastmath` sums may be taken in any order.

    numba's cache looks at the function's own file alone and would keep code that calls an older version of what is
    here; so the version that it compares, before it reads anything else, covers all files of the kernels.
    """
    dispatcher = numba.njit(cache=True, nogil=True, inline=inline, fastmath=fastmath)(function)
    if not numba.config.DISABLE_JIT:
        own = Path(function.__code__.co_filename)
        sources = [own, *sorted(own.parent.glob("*kernels.py")), *map(Path(__file__).with_name, KERNEL_SOURCES)]
        stamps = [(source.stat().st_mtime, source.stat().st_size) for source in sources]
        dispatcher._cache._cache_file._version = f"{numba.__version__} {stamps}"
    return cast(F, dispatcher)


def inlined(function: F) -> F:
    """The same for functions whose call costs more than what they do."""
    return compiled(function, inline="always")
