"""Mapped arrays are those that safetensors reads; nobody changes the file; damage is found."""

from __future__ import annotations

import tempfile
from pathlib import Path

import numpy as np
import pytest
import safetensors
import safetensors.numpy
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from tarbox.models.mapped import map_arrays

KINDS = st.sampled_from([np.bool_, np.uint8, np.int8, np.int16, np.int32, np.int64, np.float16, np.float32, np.float64])
ARRAYS = KINDS.flatmap(lambda kind: arrays.arrays(kind, arrays.array_shapes(min_dims=1, max_dims=3, min_side=0)))


@settings(deadline=None)
@given(st.dictionaries(st.text("abc/", min_size=1, max_size=4), ARRAYS, max_size=5))
def test_mapped_arrays_are_those_that_were_written(content: dict[str, np.ndarray]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "some.safetensors"
        safetensors.numpy.save_file(content, file, {"about": "a test"})
        written = file.read_bytes()
        found = map_arrays(file)
        assert found.keys() == content.keys()
        for name, array in content.items():
            assert found[name].dtype == array.dtype
            np.testing.assert_array_equal(found[name], array)
            found[name][...] = 0
        assert file.read_bytes() == written


@pytest.mark.parametrize("damage", [lambda own: own[:-1], lambda own: own[:4], lambda own: b"\xff" * 8 + own[8:]])
def test_damage_is_found(tmp_path: Path, damage: object) -> None:
    file = tmp_path / "some.safetensors"
    safetensors.numpy.save_file({"own": np.arange(5)}, file)
    assert callable(damage)
    file.write_bytes(damage(file.read_bytes()))
    with pytest.raises(safetensors.SafetensorError):
        map_arrays(file)
