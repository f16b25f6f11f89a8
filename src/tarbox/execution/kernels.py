"""The compiled part: one virtual machine that runs any program over a graph (numba).

A set gives every node a byte. Its high bit says that the node is in the set on the earlier graph; the seven low bits
are 0 where it is not in the set on the whole graph, else `NEAREST` less the fewest held-out facts that a proof of it
needs. So one walk over the larger graph finds the answers on both graphs and the missing links: an intersection adds
the costs, a union and a projection take the least, a count of n adds the n least, a held-out fact costs one more, and a
complement costs nothing.
On a graph without held-out facts the bytes are 0 and `FULL`.

A set on the stack is a row of bytes, each stored exclusive-or the set's `default`, and a list of the nodes whose
stored byte is or was not zero. A complement has the default `FULL` and is never written out. Rows return to zero
after every query, so that nothing is allocated while a batch runs. Every function is free of Python objects and
releases the interpreter lock: threads run batches at the same time.

For speed, arrays are taken out of their tuples before a loop (within it numba counts references, which costs more
than the loop), and inner functions get the few arrays they need.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tarbox.execution.compilation import compiled, inlined
from tarbox.execution.graph import Graph
from tarbox.execution.program import AT_LEAST, CONCEPT, EITHER, ENTITY, EXISTS, LITERALS, NOT, SELF, TYPING, Program
from tarbox.execution.rows import EVERYTHING
from tarbox.kb.arrays import Ids, Places

EARLIER: Final = 128
NEAREST: Final = 127
FULL: Final = 255

Bytes = NDArray[np.uint8]


class Space(NamedTuple):
    """Room for a stack of sets over N nodes, one row more than the stack is high.

    Stack place i uses row `rows[i]`. Row b holds the bytes `states[b]`, lists `listed[b, :sizes[b]]`, and has default
    `defaults[b]`.
    """

    states: Bytes
    listed: Ids
    sizes: Places
    defaults: Places
    rows: Places


class GraphGroups(NamedTuple):
    """The groups of a graph: a part of it, since calls copy what they pass."""

    starts: Places
    fresh: Places
    members: Ids


class SpaceRow(NamedTuple):
    """One row of a space."""

    states: Bytes
    listed: Ids


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


@inlined
def search(starts: Places, relations: Ids, groups: Ids, node: int, relation: int) -> int:
    """The group of a node and a directed relation, or -1; takes arrays, since passing the graph costs more than it."""
    low, high = starts[node], starts[node + 1]
    end = high
    if low < high and relations[high - 1] <= relation:  # typing is a node's last relation
        low = high - 1
    while low < high:
        middle = (low + high) >> 1
        if relations[middle] < relation:
            low = middle + 1
        else:
            high = middle
    return int(groups[low]) if low < end and relations[low] == relation else -1


@compiled
def spread(members: Ids, first: int, last: int, state: int, row: SpaceRow, size: int) -> int:
    """Joins `state` into the byte of the members from `first` to `last`; returns the new size of the row's list."""
    states, listed = row.states, row.listed
    for place in range(first, last):
        node = members[place]
        old = int(states[node])
        if old == 0:
            listed[size] = node
            size += 1
            states[node] = state
        elif old != FULL:
            states[node] = join(old, state)
    return size


@inlined
def spread_group(facts: GraphGroups, group: int, state: int, row: SpaceRow, size: int) -> int:
    """Joins what a node with this byte passes on into a row; returns the new size of its list."""
    starts, members = facts.starts, facts.members
    fresh, end = facts.fresh[group], starts[group + 1]
    size = spread(members, starts[group], fresh, state, row, size)
    passed = through_held_out(state)
    return spread(members, fresh, end, passed, row, size) if fresh < end and passed else size


@inlined
def copy_group(facts: GraphGroups, group: int, state: int, row: SpaceRow) -> int:
    """`spread_group` into an empty row: no member comes twice."""
    members, states, listed = facts.members, row.states, row.listed
    start, fresh = facts.starts[group], facts.fresh[group]
    passed = through_held_out(state)
    last = facts.starts[group + 1] if passed else fresh
    for place in range(start, last):
        node = members[place]
        listed[place - start] = node
        states[node] = state if place < fresh else passed
    return int(last - start)


@inlined
def project(graph: Graph, relation: int, space: Space, source: int, target: int) -> None:
    """Fills the empty row `target` with what the directed relation leads to from row `source`."""
    facts = GraphGroups(graph.starts, graph.fresh, graph.members)
    row = SpaceRow(space.states[target], space.listed[target])
    first, last = graph.relation_groups[relation], graph.relation_groups[relation + 1]
    default, states, listed = space.defaults[source], space.states[source], space.listed[source]
    known, size = space.sizes[source], 0
    if default or known * 8 > last - first:  # walk the relation's groups in order rather than search for each member
        group_nodes = graph.group_nodes
        for group in range(first, last):
            state = int(states[group_nodes[group]]) ^ default
            if state:
                size = spread_group(facts, group, state, row, size)
    else:
        node_starts, node_relations, node_groups = graph.node_starts, graph.node_relations, graph.node_groups
        for place in range(known):
            node = listed[place]
            group = search(node_starts, node_relations, node_groups, node, relation)
            if group >= 0 and known == 1:
                size = copy_group(facts, group, int(states[node]), row)
            elif group >= 0:
                size = spread_group(facts, group, int(states[node]), row, size)
    space.sizes[target] = size


@compiled
def project_counted(graph: Graph, relation: int, count: int, space: Space, source: int, target: int) -> None:
    """Fills the empty row `target` with what the directed relation leads to from `count` or more of row `source`: each
    candidate looks back at all that lead to it."""
    starts, fresh, members, group_nodes = graph.starts, graph.fresh, graph.members, graph.group_nodes
    default, states = space.defaults[source], space.states[source]
    row = SpaceRow(space.states[target], space.listed[target])
    tally, size, back = np.zeros(NEAREST + 1, np.int64), 0, relation ^ 1
    for group in range(graph.relation_groups[back], graph.relation_groups[back + 1]):
        if starts[group + 1] - starts[group] < count:
            continue
        tally[:] = 0
        earlier = 0
        for place in range(starts[group], starts[group + 1]):
            state = int(states[members[place]]) ^ default
            if place >= fresh[group]:
                state = through_held_out(state)
            earlier += state >> 7
            tally[state & 127] += 1
        left, near, cost = count, NEAREST, 0
        while left and near:
            taken = min(left, tally[near])
            cost += taken * (NEAREST - near)
            left -= taken
            near -= 1
        found = (EARLIER if earlier >= count else 0) | (0 if left else max(NEAREST - cost, 1))
        if found:
            row.states[group_nodes[group]] = found
            row.listed[size] = group_nodes[group]
            size += 1
    space.sizes[target] = size


@compiled
def push_loops(graph: Graph, relation: int, space: Space, target: int) -> None:
    """Fills an empty row with what a relation leads from itself to."""
    starts, fresh, members, group_nodes = graph.starts, graph.fresh, graph.members, graph.group_nodes
    size = 0
    for group in range(graph.relation_groups[relation], graph.relation_groups[relation + 1]):
        node = group_nodes[group]
        for place in range(starts[group], starts[group + 1]):
            if members[place] == node:
                space.states[target, node] = FULL if place < fresh[group] else through_held_out(FULL)
                space.listed[target, size] = node
                size += 1
    space.sizes[target] = size


@compiled
def push_listed(nodes: Ids, space: Space, target: int) -> None:
    """Fills an empty row with these nodes."""
    for place in range(len(nodes)):
        space.states[target, nodes[place]] = FULL
        space.listed[target, place] = nodes[place]
    space.sizes[target] = len(nodes)


@inlined
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


@inlined
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
        second_listed = space.listed[second]
        for place_in_second in range(space.sizes[second]):
            node = second_listed[place_in_second]
            if states[node] == 0:
                listed[size] = node
                size += 1
    result = join(left, right) if union else meet(left, right)
    kept = 0
    for at in range(size):
        node = listed[at]
        one, other = int(states[node]) ^ left, int(others[node]) ^ right
        stored = (join(one, other) if union else meet(one, other)) ^ result
        states[node] = stored
        if stored:
            listed[kept] = node
            kept += 1
    space.sizes[first], space.defaults[first] = kept, result
    clear(space, second)


@inlined
def complement(space: Space, row: int) -> None:
    """Replaces a row by its complement."""
    default = space.defaults[row]
    result = default ^ FULL
    states, listed = space.states[row], space.listed[row]
    kept = 0
    for place in range(space.sizes[row]):
        node = listed[place]
        stored = deny(int(states[node]) ^ default) ^ result
        states[node] = stored
        if stored:
            listed[kept] = node
            kept += 1
    space.sizes[row], space.defaults[row] = kept, result


@inlined
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
        operation, slot, number = program.operations[step], program.slots[step], program.numbers[step]
        if operation == SELF:
            top += 1
            push_loops(graph, ids[slot], space, space.rows[top])
        elif operation == LITERALS:
            top += 1
            starts = program.literal_starts
            push_listed(program.literals[starts[number] : starts[number + 1]], space, space.rows[top])
        elif operation in (ENTITY, CONCEPT):
            top += 1
            push(space, space.rows[top], ids[slot], graph.entities if operation == CONCEPT else 0)
        elif operation == TYPING and space.defaults[space.rows[top]]:
            continue  # the instances of everything are everything
        elif operation in (EXISTS, TYPING, AT_LEAST):
            source, target = space.rows[top], space.rows[top + 1]
            if operation == AT_LEAST:
                project_counted(graph, ids[slot], number, space, source, target)
            else:
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
    states, listed = space.states[row], space.listed[row]
    if default == 0 and size * 256 < last - first:
        listed[:size].sort()
        return
    size = 0
    if default:
        for node in range(first, last):
            listed[size] = node
            size += 1
    else:  # eight bytes at a time, since most are zero
        words = states.view(np.uint64)
        for word in range(first >> 3, (last + 7) >> 3):
            if words[word]:
                for node in range(max(8 * word, first), min(8 * word + 8, last)):
                    listed[size] = node
                    size += states[node] != 0
    space.sizes[row] = size
