"""The compiled way from entities to their concepts, kind by kind (numba)."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from tarbox.execution.compilation import compiled
from tarbox.execution.graph import Graph
from tarbox.execution.kernels import EARLIER, FULL, GraphGroups, Space, SpaceRow, project, search, spread, spread_group


@compiled
def project_types(graph: Graph, space: Space, source: int, target: int) -> None:
    """Fills the empty row `target` with the concepts that describe the entities in row `source`."""
    kinds, bits, late = graph.kinds, graph.kind_bits, graph.late_types
    if bits.shape[1] == 0:
        project(graph, graph.describing, space, source, target)
        return
    facts = GraphGroups(graph.starts, graph.fresh, graph.members)
    starts, fresh, members = facts
    node_starts, node_relations, node_groups = graph.node_starts, graph.node_relations, graph.node_groups
    states, listed, default = space.states[source], space.listed[source], space.defaults[source]
    row = SpaceRow(space.states[target], space.listed[target])
    words, met = np.zeros(bits.shape[1], np.uint64), np.zeros(len(bits), np.bool_)
    size, relation = 0, graph.describing
    for place in range(graph.entities if default else space.sizes[source]):
        node = place if default else int(listed[place])
        state = int(states[node]) ^ default
        if state == FULL:
            kind = kinds[node]
            if not met[kind]:
                met[kind] = True
                for word in range(len(words)):
                    words[word] |= bits[kind, word]
            if late[node]:
                group = search(node_starts, node_relations, node_groups, node, relation)
                size = spread(members, fresh[group], starts[group + 1], FULL - EARLIER - 1, row, size)
        elif state:
            group = search(node_starts, node_relations, node_groups, node, relation)
            if group >= 0:
                size = spread_group(facts, group, state, row, size)
    space.sizes[target] = size
    spread_words(words, graph.entities, space, target)


@compiled
def spread_words(words: NDArray[np.uint64], first: int, space: Space, target: int) -> None:
    """Makes every concept whose bit is set a member on both graphs, at no cost."""
    one = np.uint64(1)
    states, listed, size = space.states[target], space.listed[target], space.sizes[target]
    for word in range(len(words)):
        rest, node = words[word], first + 64 * word
        while rest:
            if rest & one:
                if states[node] == 0:
                    listed[size] = node
                    size += 1
                states[node] = FULL
            rest >>= one
            node += 1
    space.sizes[target] = size
