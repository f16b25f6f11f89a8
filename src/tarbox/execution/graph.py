"""Facts as arrays that the kernels walk: compressed rows by node and directed relation.

The nodes are the entities and, after them, the concepts (concept c is node E + c). Typing is one more relation,
number R, closed under subsumption; thus directed relation 2R leads from a concept to its instances and 2R + 1 from an
entity to its concepts. Where annotation relations describe entities (ADR 39), directed relation 2R + 3 leads from an
entity to the concepts that describe it. A *group* holds what one directed relation d reaches from one node y: every x
with `relation(x, y)` where d is forward, `relation(y, x)` where it is inverse. Groups lie in order of relation, then
node; a second table finds them by node, then relation. There is no array of entities times relations.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final, NamedTuple, final

import numpy as np
from numpy.typing import NDArray

from tarbox.kb.arrays import Flags, Ids, Places
from tarbox.kb.closure import Hierarchy, Instances
from tarbox.kb.facts import Facts
from tarbox.kb.rows import Rows, TripleKeys, contains, offsets_of, pair_keys
from tarbox.query.algebra import DataRange

MOST_WORDS: Final = 64  # beyond, an entity's concepts are far fewer than the words
MOST_KIND_BITS: Final = 1 << 31


class Graph(NamedTuple):
    """The arrays alone, for the kernels.

    Group g belongs to node `group_nodes[g]`; its members are `members[starts[g]:starts[g + 1]]`, and those from
    `fresh[g]` on are held out: they are missing from the earlier graph. The groups of directed relation d are
    `relation_groups[d]` to `relation_groups[d + 1]`. Node y has the directed relations
    `node_relations[node_starts[y]:node_starts[y + 1]]`, increasing, whose groups are in `node_groups` at the same
    place. Node numbers below `entities` are entities; directed relations below `typing` are asserted ones, and
    `describing` leads from an entity to the concepts that describe it: `typing + 1` where nothing but types does.

    Entities with the same such concepts, held-out ones left aside, are of one kind: `kinds` [E]. `kind_bits` [K, words]
    has a bit for each of those concepts, so that the concepts of many entities are joined kind by kind, a word at a
    time; where that would take too much room it has no columns, and the groups are walked instead. `late_types` [E]
    marks the entities with a held-out description.
    """

    entities: int
    typing: int
    describing: int
    starts: Places
    fresh: Places
    group_nodes: Ids
    members: Ids
    relation_groups: Places
    node_starts: Places
    node_relations: Ids
    node_groups: Ids
    kinds: Ids
    kind_bits: NDArray[np.uint64]
    late_types: Flags


@final
@dataclass(frozen=True, slots=True)
class Index:
    """Facts, their closed typings both ways, and the graph of both; `ranges` keeps the literals of data ranges.

    `instances` are the members of concepts; `descriptions` are what the concept level of answers is about: also what
    annotation relations lead an entity to (ADR 39). Without such relations both are one object.

    >>> from tarbox.kb.vocabulary import Vocabulary
    >>> Index.of(Facts.of(Vocabulary.of(["a", "b"], relations=["p"]), [(0, 0, 1)])).graph.members
    array([0, 1], dtype=int32)
    """

    facts: Facts
    instances: Instances
    descriptions: Instances
    graph: Graph
    ranges: dict[DataRange, Ids] = field(default_factory=dict, repr=False, compare=False)

    @classmethod
    def of(
        cls, facts: Facts, earlier: Facts | None = None, at_hand: tuple[Instances, Instances] | None = None
    ) -> Index:
        """The index of `facts`; what is not in the `earlier` facts (nor follows from them) is marked as held out.
        The instances and descriptions of the facts may be `at_hand`."""
        instances, descriptions = at_hand or _closures(facts)
        late = None if earlier is None else _held_out(facts, (instances, descriptions), earlier)
        return cls(facts, instances, descriptions, _graph(facts, instances, descriptions, late))

    @property
    def entities(self) -> int:
        return len(self.facts.vocabulary.entities)

    @property
    def concepts(self) -> int:
        return len(self.facts.vocabulary.concepts)


def _closures(facts: Facts, hierarchy: Hierarchy | None = None) -> tuple[Instances, Instances]:
    instances = Instances.of(facts, hierarchy)
    return instances, instances.describe(facts)


_Late = tuple[Flags, Flags, Flags]


def _held_out(facts: Facts, closures: tuple[Instances, Instances], earlier: Facts) -> _Late:
    """Of the assertions, the closed typings and the descriptions: which are not among the earlier ones."""
    codec, width = TripleKeys(max(len(facts.vocabulary.entities), 1)), len(facts.vocabulary.concepts)
    both = [[codec.encode(each.relations, each.heads, each.tails) for each in (earlier, facts)]]
    for before, now in zip(_closures(earlier, closures[0].hierarchy), closures, strict=True):
        both.append([pair_keys(*each.concepts_of.coordinates(), width) for each in (before, now)])
    asserted, typed, described = (~contains(np.sort(before), now) for before, now in both)
    return asserted, typed, described


def _nodes(facts: Facts) -> int:
    return len(facts.vocabulary.entities) + len(facts.vocabulary.concepts)


class _Groups(NamedTuple):
    """A part of the graph: groups in order of directed relation, then node, and their members, in order but for the
    held-out ones, `late` of each group, which come last."""

    relations: Places
    nodes: Places
    sizes: Places
    late: Places
    members: Ids

    @classmethod
    def of_links(cls, directed: Places, near: Places, far: Places, late: Flags | None, nodes: int) -> _Groups:
        """Of links in any order."""
        keys = (directed * nodes + near) * 2
        order = np.sort((keys if late is None else keys + late) * nodes + far)
        keys = order // max(nodes, 1)
        members = (order - keys * nodes).astype(np.int32)
        late_before = offsets_of(keys & 1)
        keys >>= 1
        starts = np.flatnonzero(np.diff(keys, prepend=-1))
        ends = np.append(starts[1:], len(keys)) if len(keys) else starts
        relations, group_nodes = np.divmod(keys[starts], max(nodes, 1))
        return cls(relations, group_nodes, ends - starts, late_before[ends] - late_before[starts], members)

    @classmethod
    def of_rows(cls, rows: Rows, directed: int, first: int, reached: int) -> _Groups:
        """Of rows of the nodes from `first` on, with columns that are nodes from `reached` on: they are in order."""
        sizes = rows.sizes()
        some = np.flatnonzero(sizes)
        none = np.zeros(len(some), np.int64)
        return cls(none + directed, some + first, sizes[some], none, rows.columns + np.int32(reached))


def _group_links(facts: Facts, instances: Instances, descriptions: Instances, late: _Late | None) -> list[_Groups]:
    """Every link in both directions, descriptions in one. Typings and descriptions are many, and rows of them are in
    order already where none is held out: only the rest is to be sorted."""
    entities, nodes, number = len(facts.vocabulary.entities), _nodes(facts), len(facts.vocabulary.relations)
    asserted, typed, described = late or (None, None, None)
    columns = (facts.relations, facts.heads, facts.tails)
    relations, heads, tails = (column.astype(np.int64) for column in columns)

    def both(relations: Places, heads: Places, tails: Places, late: Flags | None) -> _Groups:
        directed = np.append(2 * relations, 2 * relations + 1)
        twice = None if late is None else np.append(late, late)
        return _Groups.of_links(directed, np.append(tails, heads), np.append(heads, tails), twice, nodes)

    parts = [both(relations, heads, tails, asserted)]
    if typed is not None and typed.any():
        entity, concept = (ids.astype(np.int64) for ids in instances.concepts_of.coordinates())
        parts.append(both(np.full(len(entity), number), entity, concept + entities, typed))
    else:
        parts.append(_Groups.of_rows(instances.entities_of, 2 * number, entities, 0))
        parts.append(_Groups.of_rows(instances.concepts_of, 2 * number + 1, 0, entities))
    if facts.annotations and described is not None and described.any():
        entity, concept = (ids.astype(np.int64) for ids in descriptions.concepts_of.coordinates())
        directed = np.full(len(entity), 2 * number + 3)
        parts.append(_Groups.of_links(directed, entity, concept + entities, described, nodes))
    elif facts.annotations:
        parts.append(_Groups.of_rows(descriptions.concepts_of, 2 * number + 3, 0, entities))
    return parts


def _graph(facts: Facts, instances: Instances, descriptions: Instances, late: _Late | None) -> Graph:
    parts = zip(*_group_links(facts, instances, descriptions, late), strict=True)
    relations, nodes, sizes, held_out, members = (np.concatenate(column) for column in parts)
    entities, typing = len(facts.vocabulary.entities), 2 * len(facts.vocabulary.relations)
    describing = typing + (3 if facts.annotations else 1)
    kinds, kind_bits = _kinds(descriptions.concepts_of, None if late is None else late[2], facts)
    described = descriptions.concepts_of.coordinates()[0][late[2]] if late else np.empty(0, np.int32)
    by_node = np.argsort(nodes * (describing + 1) + relations)
    starts = offsets_of(sizes)
    return Graph(
        entities=entities,
        typing=typing,
        describing=describing,
        starts=starts,
        fresh=starts[1:] - held_out,
        group_nodes=nodes.astype(np.int32),
        members=members,
        relation_groups=np.searchsorted(relations, np.arange(describing + 2)).astype(np.int64),
        node_starts=offsets_of(np.bincount(nodes, minlength=_nodes(facts))),
        node_relations=relations[by_node].astype(np.int32),
        node_groups=by_node.astype(np.int32),
        kinds=kinds,
        kind_bits=kind_bits,
        late_types=np.isin(np.arange(entities), described),
    )


def _kinds(concepts_of: Rows, late: Flags | None, facts: Facts) -> tuple[Ids, NDArray[np.uint64]]:
    """[E] the kind of each entity and [K, words] the concepts of each kind, but for late ones; both of no size where
    that takes too much.

    Two sets of concepts are told apart by the sum of 64 random bits for each member.
    """
    concepts = len(facts.vocabulary.concepts)
    words = -(-concepts // 64)
    if words > MOST_WORDS:
        return np.zeros(0, np.int32), np.zeros((0, 0), np.uint64)
    typed, types = (ids if late is None else ids[~late] for ids in concepts_of.coordinates())
    marks = np.random.default_rng(0).integers(0, 2**64, concepts, np.uint64)
    sums = np.zeros(len(facts.vocabulary.entities), np.uint64)
    np.add.at(sums, typed, marks[types])
    _, kinds = np.unique(sums, return_inverse=True)
    height = int(kinds.max(initial=-1)) + 1
    if height * words > MOST_KIND_BITS // 64:
        return np.zeros(0, np.int32), np.zeros((0, 0), np.uint64)
    bits = np.zeros((height, words), np.uint64)
    np.bitwise_or.at(bits, (kinds[typed], types // 64), np.uint64(1) << (types % 64).astype(np.uint64))
    return kinds.astype(np.int32), bits
