"""Arrays of a safetensors file, mapped: a page is read when it is used, and held once for all who have it open."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

_KINDS: Final = {
    "BOOL": np.bool_,
    "U8": np.uint8,
    "I8": np.int8,
    "I16": np.int16,
    "I32": np.int32,
    "I64": np.int64,
    "F16": np.float16,
    "F32": np.float32,
    "F64": np.float64,
}


def map_arrays(file: Path) -> dict[str, NDArray[Any]]:
    """All arrays by their names. Who writes to one changes a copy of their own, never the file.

    Raises `safetensors.SafetensorError` where the file is damaged.
    """
    import safetensors

    with safetensors.safe_open(file, framework="np"):  # checks the header and that all arrays are there
        pass
    with file.open("rb") as handle:
        size = int.from_bytes(handle.read(8), "little")
        header = json.loads(handle.read(size))
    header.pop("__metadata__", None)
    content = np.asarray(np.memmap(file, np.uint8, "c", offset=0))[8 + size :]
    return {name: _array(content, **about) for name, about in header.items()}


def _array(content: NDArray[np.uint8], dtype: str, shape: list[int], data_offsets: list[int]) -> NDArray[Any]:
    first, last = data_offsets
    return content[first:last].view(_KINDS[dtype]).reshape(shape)
