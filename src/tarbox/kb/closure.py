"""What follows from the transitivity of subsumption.

A cycle of subsumptions makes its concepts equivalent: each is then an ancestor of each other. `Hierarchy` holds the
reflexive and transitive closure of the subsumptions; `Instances` the typings closed under it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, final

import numpy as np

from tarbox.kb.arrays import Doubles, Flags, Ids, Places
from tarbox.kb.facts import Facts
from tarbox.kb.rows import Rows, offsets_of, pair_keys, ranges
from tarbox.kb.vocabulary import Names


@final
@dataclass(frozen=True, slots=True)
class Hierarchy:
    """The closure of the subsumptions over C concepts.

    `ancestors[c]` and `descendants[c]` include c itself and its equivalents. `parents[c]` are the asserted direct
    super-concepts. `group[c]` is the least id among c's equivalents. `depth[c]` is the length of the longest chain
    from c up to a root (0 for a root), equivalents counted as one.
    """

    parents: Rows
    ancestors: Rows
    descendants: Rows
    group: Ids
    depth: Ids

    @classmethod
    def of(cls, subs: Ids, supers: Ids, size: int) -> Hierarchy:
        parents = Rows.of(subs, supers, size, size)
        group = np.arange(size, dtype=np.int32)
        over = _between(group, parents)
        depth = _depths(over)
        if depth is None:  # there is a cycle
            group = _components(parents)
            over = _between(group, parents)
            depth = _depths(over)
            assert depth is not None
        ancestors = _ancestors(group, over, depth)
        return cls(parents, ancestors, ancestors.transpose(size), group, depth[group])

    def __len__(self) -> int:
        return len(self.group)

    def describe(self, names: Names, sizes: Places, typed: int) -> dict[str, list[Any]]:
        """The equivalent and the top concepts, by IRI, for a manifest; `sizes` and `typed` as of `top_concepts`."""
        groups: dict[int, list[str]] = {}
        for concept in np.flatnonzero(self.group != np.arange(len(self))).tolist():
            least = int(self.group[concept])
            groups.setdefault(least, [names.iri(least)]).append(names.iri(concept))
        top = [names.iri(int(concept)) for concept in top_concepts(sizes, typed)]
        return {"equivalent_concepts": list(groups.values()), "top_concepts": top}

    def equivalents(self, concept: int) -> Ids:
        """The concepts equivalent to this one, itself among them."""
        return np.flatnonzero(self.group == self.group[concept]).astype(np.int32)

    def close(self, typed: Ids, types: Ids, entities: int) -> Rows:
        """The typings with everything that follows: row e holds every concept that e is an instance of."""
        origin, columns = self.ancestors.gather(types)
        return Rows.of(typed[origin], columns, entities, len(self))

    def most_specific(self, typed: Ids, types: Ids) -> Flags:
        """[T] true where no other typing of the same entity implies this one (equivalents imply neither other)."""
        origin, columns = self.ancestors.gather(types)
        strict = self.group[columns] != self.group[types[origin]]
        implied = pair_keys(typed[origin][strict], columns[strict], len(self))
        return ~np.isin(pair_keys(typed, types, len(self)), implied)


@final
@dataclass(frozen=True, slots=True)
class Instances:
    """Closed typings over E entities and C concepts, both ways."""

    hierarchy: Hierarchy
    concepts_of: Rows
    entities_of: Rows

    @classmethod
    def of(cls, facts: Facts, hierarchy: Hierarchy | None = None) -> Instances:
        size = len(facts.vocabulary.concepts)
        tree = hierarchy or Hierarchy.of(facts.subs, facts.supers, size)
        concepts_of = tree.close(facts.typed, facts.types, len(facts.vocabulary.entities))
        return cls(tree, concepts_of, concepts_of.transpose(size))

    def describe(self, facts: Facts) -> Instances:
        """The descriptions: an entity has, beside its own concepts, those of what annotation relations lead it to.

        Without annotation relations among the facts, whose instances these are, they are the instances themselves.
        """
        if not facts.annotations:
            return self
        concepts_of = self.hierarchy.close(*facts.descriptions(), len(self.concepts_of))
        return Instances(self.hierarchy, concepts_of, concepts_of.transpose(len(self.hierarchy)))

    def typed_entities(self) -> int:
        """How many entities have at least one concept."""
        return int(np.count_nonzero(self.concepts_of.sizes()))

    def top_concepts(self) -> Ids:
        """The concepts of more than half of the typed entities (docs/benchmarks.md: neither targets nor candidates)."""
        return top_concepts(self.entities_of.sizes(), self.typed_entities())

    def information(self) -> Doubles:
        """[C] information content in bits: -log2 of the share of typed entities that are instances.

        A concept without instances counts as if it had one, so that it is as specific as can be, not infinite.
        """
        return np.log2(max(self.typed_entities(), 1) / np.maximum(self.entities_of.sizes(), 1))

    def specificity(self) -> Doubles:
        """[C] information content as a share of the greatest possible: 0 for a concept of all, 1 for one of one."""
        most = np.log2(max(self.typed_entities(), 1))
        return self.information() / most if most > 0 else np.zeros(len(self.hierarchy))


def close_typings(facts: Facts) -> Facts:
    """The same facts with every typing that follows from subsumption; which were inferred is no longer told."""
    size = len(facts.vocabulary.concepts)
    hierarchy = Hierarchy.of(facts.subs, facts.supers, size)
    typed, types = hierarchy.close(facts.typed, facts.types, len(facts.vocabulary.entities)).coordinates()
    return replace(facts, typed=typed, types=types, inferred=None)


def top_concepts(sizes: Places, typed: int) -> Ids:
    """The concepts with more than half of the typed entities among their `sizes` [C] instances."""
    return np.flatnonzero(sizes * 2 > typed).astype(np.int32)


def _between(group: Ids, parents: Rows) -> Rows:
    """The direct super-groups of each group, at its least member."""
    below, above = (group[ids] for ids in parents.coordinates())
    outer = below != above
    return Rows.of(below[outer], above[outer], len(parents), len(parents))


def _depths(over: Rows) -> Ids | None:
    """[C] the longest chain upwards from each concept, from the roots down, a level at a time; None where there is a
    cycle."""
    left, depth, under = over.sizes(), np.zeros(len(over), np.int32), over.transpose(len(over))
    level, reached, number = np.flatnonzero(left == 0), 0, 0
    while len(level):
        depth[level], reached, number = number, reached + len(level), number + 1
        lower, times = np.unique(under.gather(level)[1], return_counts=True)
        left[lower] -= times
        level = lower[left[lower] == 0]
    return depth if reached == len(over) else None


def _ancestors(group: Ids, over: Rows, depth: Ids) -> Rows:
    """The reflexive and transitive closure, level by level: the groups of one depth at a time, together."""
    size = len(group)
    concepts = np.arange(size, dtype=np.int32)
    members = Rows.of(group, concepts, size, size)
    heads = concepts[group == concepts]
    heads = heads[np.argsort(depth[heads], kind="stable")]
    levels = np.split(heads, np.flatnonzero(np.diff(depth[heads])) + 1)
    found = np.empty(8 * size, np.int32)  # the ancestors of the groups done, at start[g] : start[g] + length[g]
    start, length, filled = np.zeros(size, np.int64), np.zeros(size, np.int64), 0
    for level in levels:
        itself, own = members.gather(level)
        child, direct = over.gather(level)
        through, places = ranges(start[direct], length[direct])
        rows, columns = np.append(itself, child[through]), np.append(own, found[places])
        reached = Rows.of(rows.astype(np.int32), columns, len(level), size)
        more = len(reached.columns)
        if filled + more > len(found):
            found = np.append(found, np.empty(max(more, len(found)), np.int32))
        found[filled : filled + more] = reached.columns
        start[level], length[level] = filled + reached.offsets[:-1], reached.sizes()
        filled += more
    _, places = ranges(start[group], length[group])
    return Rows(offsets_of(length[group]), found[places])


def _components(edges: Rows) -> Ids:
    """[C] the least member of each node's strongly connected component, by Tarjan's algorithm, without recursion."""
    size = len(edges)
    offsets, columns = edges.offsets.tolist(), edges.columns.tolist()
    index, low = [-1] * size, [0] * size
    on_stack, stack = [False] * size, []
    group = np.arange(size, dtype=np.int32)
    counter = 0
    for root in range(size):
        if index[root] >= 0:
            continue
        walk = [(root, offsets[root])]
        while walk:
            node, edge = walk.pop()
            if index[node] < 0:
                index[node] = low[node] = counter
                counter += 1
                stack.append(node)
                on_stack[node] = True
            pushed = False
            while edge < offsets[node + 1]:
                target = columns[edge]
                edge += 1
                if index[target] < 0:
                    walk += [(node, edge), (target, offsets[target])]
                    pushed = True
                    break
                if on_stack[target]:
                    low[node] = min(low[node], index[target])
            if pushed:
                continue
            if low[node] == index[node]:
                at = stack.index(node) if stack[-1] != node else len(stack) - 1
                component = stack[at:]
                del stack[at:]
                for member in component:
                    on_stack[member] = False
                group[component] = min(component)
            if walk:
                low[walk[-1][0]] = min(low[walk[-1][0]], low[node])
    return group
