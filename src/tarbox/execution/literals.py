"""The literals of a knowledge base that are in a data range."""

from __future__ import annotations

from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tarbox.execution.graph import Index
from tarbox.execution.program import Program, compile_shape, data_ranges
from tarbox.kb.arrays import Ids
from tarbox.query.algebra import DataRange, Query
from tarbox.query.ranges import holds

_KEPT: Final = 64
"""Data ranges whose literals an index keeps."""


def find_literals(wanted: DataRange, index: Index) -> Ids:
    """The ids of the literals in a data range, increasing."""
    found = index.ranges.get(wanted)
    if found is None:
        iris = index.facts.vocabulary.entities.iris
        places = np.flatnonzero(pc.starts_with(iris, '"').to_numpy(zero_copy_only=False))
        terms = iris.take(pa.array(places)).to_pylist()
        found = places[np.array([holds(wanted, term) for term in terms], np.bool_)].astype(np.int32)
        if len(index.ranges) < _KEPT:
            index.ranges[wanted] = found
    return found


def link_program(shape: Query, index: Index) -> Program:
    """The program of a shape with the literals of its data ranges."""
    program, ranges = compile_shape(shape), data_ranges(shape)
    if not ranges:
        return program
    found = [find_literals(wanted, index) for wanted in ranges]
    starts = np.append(0, np.cumsum([len(ids) for ids in found])).astype(np.int32)
    return program._replace(literals=np.concatenate(found), literal_starts=starts)
