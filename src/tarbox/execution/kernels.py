"""The compiled part: one virtual machine that runs any program over a graph (numba).

A set gives every node a byte. Its high bit says that the node is in the set on the earlier graph; the seven low bits
are 0 where it is not in the set on the whole graph, else `NEAREST` less the fewest held-out facts that a proof of it
needs. So one walk over the larger graph finds the answers on both graphs and the missing links: an intersection adds
the costs, a union and a projection take the least, a held-out fact costs one more, and a complement costs nothing.
On a graph without held-out facts the bytes are 0 and `FULL`.

A set on the stack is a row of bytes, each stored exclusive-or the set's `default`, and a list of the nodes whose
stored byte is or was not zero. A complement has the default `FULL` and is never written out. Rows return to zero
after every query, so that nothing is allocated while a batch runs. Every function is free of Python objects and
releases the interpreter lock: threads run batches at the same time.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, NamedTuple, TypeVar, cast

import numba
import numpy as np
from numpy.typing import NDArray

from tarbox.execution.graph import Graph
from tarbox.execution.program import CONCEPT, EITHER, ENTITY, EXISTS, NOT, TYPING, Program
from tarbox.execution.rows import EVERYTHING
from tarbox.kb.facts import Ids

EARLIER: Final = 128
NEAREST: Final = 127
FULL: Final = 255

F = TypeVar("F", bound=Callable[..., Any])
Bytes = NDArray[np.uint8]


def compiled(function: F) -> F:
    """The function as machine code, kept on disk: it is compiled once per machine and version of tarbox."""
    return cast(F, numba.njit(cache=True, nogil=True)(function))


class Space(NamedTuple):
    """Room for a stack of sets over N nodes, one row more than the stack is high.

    Stack place i uses row `rows[i]`. Row b holds the bytes `states[b]`, lists `listed[b, :sizes[b]]`, and has default
    `defaults[b]`.
    """

    states: Bytes
    listed: Ids
    sizes: NDArray[np.int64]
    defaults: NDArray[np.int64]
    rows: NDArray[np.int64]


def make_space(depth: int, nodes: int) -> Space:
    """Room for programs up to this depth; rows are padded to whole words."""
    height = depth + 1
    return Space(
        np.zeros((height, -(-nodes // 8) * 8), np.uint8),
        np.empty((height, nodes), np.int32),
        np.zeros(height, np.int64),
        np.zeros(height, np.int64),
        np.arange(height),
    )


@compiled
def meet(first: int, second: int) -> int:
    """The byte of a node in an intersection."""
    near, other = first & 127, second & 127
    cost = max(near + other - NEAREST, 1) if near and other else 0
    return (first & second & EARLIER) | cost


@compiled
def join(first: int, second: int) -> int:
    """The byte of a node in a union."""
    return ((first | second) & EARLIER) | max(first & 127, second & 127)


@compiled
def deny(state: int) -> int:
    """The byte of a node in a complement."""
    return ((state & EARLIER) ^ EARLIER) | (0 if state & 127 else NEAREST)


@compiled
def through_held_out(state: int) -> int:
    """The byte that a node passes on over a held-out fact."""
    near = state & 127
    return near - 1 if near > 1 else near


@compiled
def find_group(graph: Graph, node: int, relation: int) -> int:
    """The group of a node and a directed relation; -1 where there is none."""
    low, high = graph.node_starts[node], graph.node_starts[node + 1]
    end = high
    while low < high:
        middle = (low + high) >> 1
        if graph.node_relations[middle] < relation:
            low = middle + 1
        else:
            high = middle
    return int(graph.node_groups[low]) if low < end and graph.node_relations[low] == relation else -1


@compiled
def spread(members: Ids, state: int, states: Bytes, listed: Ids, size: int) -> int:
    """Joins `state` into the byte of every member; returns the new size of the list."""
    for node in members:
        old = int(states[node])
        if old == 0:
            listed[size] = node
            size += 1
            states[node] = state
        elif old != FULL:
            states[node] = join(old, state)
    return size


@compiled
def spread_group(graph: Graph, group: int, state: int, space: Space, target: int) -> None:
    """Joins what a node with this byte passes on into row `target`."""
    start, fresh, end = graph.starts[group], graph.fresh[group], graph.starts[group + 1]
    states, listed = space.states[target], space.listed[target]
    size = spread(graph.members[start:fresh], state, states, listed, space.sizes[target])
    if fresh < end:
        passed = through_held_out(state)
        if passed:
            size = spread(graph.members[fresh:end], passed, states, listed, size)
    space.sizes[target] = size


@compiled
def project(graph: Graph, relation: int, space: Space, source: int, target: int) -> None:
    """Fills the empty row `target` with what the directed relation leads to from row `source`."""
    first, last = graph.relation_groups[relation], graph.relation_groups[relation + 1]
    default, size = space.defaults[source], space.sizes[source]
    states = space.states[source]
    if default or size * 8 > last - first:  # walk the relation's groups in order rather than search for each member
        for group in range(first, last):
            state = states[graph.group_nodes[group]] ^ default
            if state:
                spread_group(graph, group, state, space, target)
        return
    for place in range(size):
        node = space.listed[source, place]
        if states[node]:
            group = find_group(graph, node, relation)
            if group >= 0:
                spread_group(graph, group, int(states[node]), space, target)


@compiled
def clear(space: Space, row: int) -> None:
    """Empties a row."""
    size = space.sizes[row]
    if size * 32 > space.states.shape[1]:
        space.states[row] = 0
    else:
        states, listed = space.states[row], space.listed[row]
        for place in range(size):
            states[listed[place]] = 0
    space.sizes[row] = 0
    space.defaults[row] = 0


@compiled
def combine(space: Space, place: int, union: bool) -> None:
    """Replaces the sets at stack places `place` and `place + 1` by their intersection or union."""
    first, second = space.rows[place], space.rows[place + 1]
    absorbing = FULL if union else 0
    shorter = space.defaults[first] != absorbing or space.sizes[second] < space.sizes[first]
    if space.defaults[second] == absorbing and shorter:
        first, second = second, first
        space.rows[place], space.rows[place + 1] = first, second
    left, right = space.defaults[first], space.defaults[second]
    states, others, listed = space.states[first], space.states[second], space.listed[first]
    size = space.sizes[first]
    if left != absorbing:  # then also what only the second lists can differ from the result's default
        for node in space.listed[second, : space.sizes[second]]:
            if states[node] == 0:
                listed[size] = node
                size += 1
    result = join(left, right) if union else meet(left, right)
    kept = 0
    for node in listed[:size]:
        one, other = int(states[node]) ^ left, int(others[node]) ^ right
        stored = (join(one, other) if union else meet(one, other)) ^ result
        states[node] = stored
        if stored:
            listed[kept] = node
            kept += 1
    space.sizes[first], space.defaults[first] = kept, result
    clear(space, second)


@compiled
def complement(space: Space, row: int) -> None:
    """Replaces a row by its complement."""
    default = space.defaults[row]
    result = default ^ FULL
    states, listed = space.states[row], space.listed[row]
    kept = 0
    for node in listed[: space.sizes[row]]:
        stored = deny(int(states[node]) ^ default) ^ result
        states[node] = stored
        if stored:
            listed[kept] = node
            kept += 1
    space.sizes[row], space.defaults[row] = kept, result


@compiled
def push(space: Space, row: int, number: int, first: int) -> None:
    """Makes an empty row the set of node `first + number`, or of everything."""
    if number == EVERYTHING:
        space.defaults[row] = FULL
        return
    space.states[row, first + number] = FULL
    space.listed[row, 0] = first + number
    space.sizes[row] = 1


@compiled
def run(graph: Graph, program: Program, ids: Ids, space: Space) -> int:
    """The number of the row that holds the set of a query; the other rows are empty."""
    top = -1
    for step in range(len(program.operations)):
        operation, slot = program.operations[step], program.slots[step]
        if operation in (ENTITY, CONCEPT):
            top += 1
            push(space, space.rows[top], ids[slot], graph.entities if operation == CONCEPT else 0)
        elif operation == TYPING and space.defaults[space.rows[top]]:
            continue  # the instances of everything are everything
        elif operation in (EXISTS, TYPING):
            source, target = space.rows[top], space.rows[top + 1]
            project(graph, ids[slot] if operation == EXISTS else graph.typing, space, source, target)
            clear(space, source)
            space.rows[top], space.rows[top + 1] = target, source
        elif operation == NOT:
            complement(space, space.rows[top])
        else:
            top -= 1
            combine(space, top, operation == EITHER)
    return int(space.rows[0])


@compiled
def list_range(space: Space, row: int, first: int, last: int) -> None:
    """Rewrites the list of a row: every node from `first` to `last` that is listed or in the set, increasing."""
    size, default = space.sizes[row], space.defaults[row]
    listed = space.listed[row]
    if default == 0 and size * 64 < last - first:
        listed[:size].sort()
        return
    states = space.states[row]
    size = 0
    for node in range(first, last):
        if states[node] or default:
            listed[size] = node
            size += 1
    space.sizes[row] = size


@compiled
def count_concepts(graph: Graph, space: Space, row: int, counts: Ids) -> None:
    """Adds to `counts` [C] how many of the members that a row lists are instances of each concept."""
    default = space.defaults[row]
    for node in space.listed[row, : space.sizes[row]]:
        if (space.states[row, node] ^ default) & 127:
            group = find_group(graph, node, graph.typing + 1)
            if group >= 0:
                for concept in graph.members[graph.starts[group] : graph.starts[group + 1]]:
                    counts[concept - graph.entities] += 1


class Sheet(NamedTuple):
    """Room for answers, one query after the other: its entities, then its concepts with their counts.

    Query i of a batch ends its entities at `ends[i, 0]` and its concepts at `ends[i, 1]` in `values` and `counts`.
    """

    ends: NDArray[np.int64]
    values: Ids
    counts: Ids


@compiled
def answer_batch(graph: Graph, program: Program, ids: Ids, first: int, space: Space, sheet: Sheet) -> int:
    """Answers the queries `ids[first:]` until the sheet is full; returns the number of the next query."""
    tally = np.zeros(len(graph.node_starts) - 1 - graph.entities, np.int32)
    at = 0
    for query in range(first, len(ids)):
        row = run(graph, program, ids[query], space)
        list_range(space, row, 0, graph.entities)
        if at + space.sizes[row] + len(tally) > len(sheet.values):
            clear(space, row)
            return query
        for node in space.listed[row, : space.sizes[row]]:
            if (space.states[row, node] ^ space.defaults[row]) & 127:
                sheet.values[at] = node
                at += 1
        sheet.ends[query - first, 0] = at
        count_concepts(graph, space, row, tally)
        clear(space, row)
        for concept in range(len(tally)):
            if tally[concept]:
                sheet.values[at], sheet.counts[at] = concept, tally[concept]
                tally[concept] = 0
                at += 1
        sheet.ends[query - first, 1] = at
    return len(ids)
