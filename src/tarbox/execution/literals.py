"""The literals of a knowledge base that are in a data range."""

from __future__ import annotations

from bisect import bisect_left
from typing import Final

import numpy as np

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
        names = index.facts.vocabulary.entities
        first, last = (
            bisect_left(range(len(names)), mark, key=names.iri) for mark in ('"', "#")
        )  # they stand together
        terms = names.iris.slice(first, last - first).to_pylist()
        inside = [first + place for place, term in enumerate(terms) if holds(wanted, term)]
        found = np.array(inside, np.int32)
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
