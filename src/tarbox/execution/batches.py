"""Compiled answers to a table of queries: the entities, and the concepts with their counts (numba)."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from tarbox.execution.compilation import compiled
from tarbox.execution.graph import Graph
from tarbox.execution.kernels import EARLIER, NEAREST, Space, clear, list_range, run, search
from tarbox.execution.program import Program
from tarbox.kb.arrays import Ids, Places


@compiled
def count_concepts(graph: Graph, space: Space, row: int, counts: Ids) -> None:
    """Adds to `counts` [C] how many of the members that a row lists each concept describes."""
    states, listed, default = space.states[row], space.listed[row], space.defaults[row]
    starts, members, entities = graph.starts, graph.members, graph.entities
    node_starts, node_relations, node_groups = graph.node_starts, graph.node_relations, graph.node_groups
    for place in range(space.sizes[row]):
        node = listed[place]
        if (states[node] ^ default) & 127:
            group = search(node_starts, node_relations, node_groups, node, graph.describing)
            if group >= 0:
                for member in range(starts[group], starts[group + 1]):
                    counts[members[member] - entities] += 1


class Sheet(NamedTuple):
    """Room for answers, one query after the other: its entities, then its concepts with their counts.

    Query i of a batch ends its entities at `ends[i, 0]` and its concepts at `ends[i, 1]` in `values` and `counts`.
    """

    ends: Places
    values: Ids
    counts: Ids


@compiled
def answer_batch(graph: Graph, program: Program, ids: Ids, first: int, space: Space, sheet: Sheet) -> int:
    """Answers the queries `ids[first:]` until the sheet is full; returns the number of the next query."""
    tally = np.zeros(len(graph.node_starts) - 1 - graph.entities, np.int32)
    values, counts, at = sheet.values, sheet.counts, 0
    for query in range(first, len(ids)):
        row = run(graph, program, ids[query], space)
        list_range(space, row, 0, graph.entities)
        if at + space.sizes[row] + len(tally) > len(values):
            clear(space, row)
            return query
        at = write_members(space, row, values, at)
        sheet.ends[query - first, 0] = at
        count_concepts(graph, space, row, tally)
        clear(space, row)
        for concept in range(len(tally)):
            if tally[concept]:
                values[at], counts[at] = concept, tally[concept]
                tally[concept] = 0
                at += 1
        sheet.ends[query - first, 1] = at
    return len(ids)


@compiled
def split_batch(graph: Graph, program: Program, ids: Ids, first: int, space: Space, sheet: Sheet) -> int:
    """As `answer_batch`: the answers on the earlier graph, then those on the larger alone with their missing links."""
    values, counts, at = sheet.values, sheet.counts, 0
    for query in range(first, len(ids)):
        row = run(graph, program, ids[query], space)
        list_range(space, row, 0, graph.entities)
        if at + space.sizes[row] > len(values):
            clear(space, row)
            return query
        states, listed, default = space.states[row], space.listed[row], space.defaults[row]
        for late in range(2):
            for place in range(space.sizes[row]):
                state = int(states[listed[place]]) ^ default
                if (state & 127 and not state & EARLIER) if late else state & EARLIER:
                    values[at], counts[at] = listed[place], NEAREST - (state & 127)
                    at += 1
            sheet.ends[query - first, late] = at
        clear(space, row)
    return len(ids)


@compiled
def write_members(space: Space, row: int, values: Ids, at: int) -> int:
    """Writes the members that a row lists from place `at`; returns where they end."""
    states, listed, default = space.states[row], space.listed[row], space.defaults[row]
    for place in range(space.sizes[row]):
        if (states[listed[place]] ^ default) & 127:
            values[at] = listed[place]
            at += 1
    return at
