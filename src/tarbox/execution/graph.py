"""Facts as arrays that the kernels walk: compressed rows by node and directed relation.

The nodes are the entities and, after them, the concepts (concept c is node E + c). Typing is one more relation,
number R, closed under subsumption; thus directed relation 2R leads from a concept to its instances and 2R + 1 from an
entity to its concepts. Where annotation relations describe entities (ADR 50), directed relation 2R + 3 leads from an
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
from tarbox.kb.rows import TripleKeys, contains, offsets_of
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
    annotation relations lead an entity to (ADR 50). Without such relations both are one object.

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
        triples = _triples(facts, instances, descriptions)
        held_out = np.zeros(len(triples[0]), np.bool_)
        if earlier is not None:
            keys = TripleKeys(_nodes(facts))
            before = _triples(earlier, *_closures(earlier, instances.hierarchy))
            held_out = ~contains(np.sort(keys.encode(*before)), keys.encode(*triples))
        return cls(facts, instances, descriptions, _graph(triples, held_out, facts, instances))

    @property
    def entities(self) -> int:
        return len(self.facts.vocabulary.entities)

    @property
    def concepts(self) -> int:
        return len(self.facts.vocabulary.concepts)


def _closures(facts: Facts, hierarchy: Hierarchy | None = None) -> tuple[Instances, Instances]:
    instances = Instances.of(facts, hierarchy)
    return instances, instances.describe(facts)


_Triples = tuple[Places, Places, Places]


def _triples(facts: Facts, instances: Instances, descriptions: Instances) -> _Triples:
    """(relations, heads, tails) over nodes: the assertions, the closed typings as relation R, and the descriptions as
    relation R + 1 where they differ."""
    parts = [(facts.relations, facts.heads, facts.tails)]
    for more, rows in enumerate([instances] if descriptions is instances else [instances, descriptions]):
        typed, types = rows.concepts_of.coordinates()
        relation = np.full(len(typed), len(facts.vocabulary.relations) + more, np.int32)
        parts.append((relation, typed, types + np.int32(len(facts.vocabulary.entities))))
    relations, heads, tails = (np.concatenate(column).astype(np.int64) for column in zip(*parts, strict=True))
    return relations, heads, tails


def _nodes(facts: Facts) -> int:
    return len(facts.vocabulary.entities) + len(facts.vocabulary.concepts)


def _ordered(triples: _Triples, held_out: Flags, facts: Facts, instances: Instances) -> Places:
    """Every link in both directions (descriptions in one) as a number that sorts by group, then held out or not, then
    member. The typings and descriptions come last and are in order already where none is held out: they are many, and
    only the rest is to be sorted."""
    nodes, number = _nodes(facts), len(facts.vocabulary.relations)

    def keys(directed: Places | int, near: Places, far: Places, late: Flags | int) -> Places:
        found: Places = ((directed * nodes + near) * 2 + late) * nodes + far
        return found

    def both_ways(part: slice) -> Places:
        relations, heads, tails = (column[part] for column in triples)
        late = held_out[part]
        return np.sort(
            np.concatenate([keys(2 * relations, tails, heads, late), keys(2 * relations + 1, heads, tails, late)])
        )

    ends = np.cumsum([len(facts.heads), len(instances.concepts_of.columns)])
    asserted, typed, described = slice(0, ends[0]), slice(ends[0], ends[1]), slice(ends[1], None)
    parts, late = [both_ways(asserted)], held_out[described]
    if held_out[typed].any():
        parts.append(both_ways(typed))
    else:
        concepts, members = (ids.astype(np.int64) for ids in instances.entities_of.coordinates())
        parts.append(keys(2 * number, concepts + len(facts.vocabulary.entities), members, 0))
        parts.append(keys(2 * number + 1, triples[1][typed], triples[2][typed], 0))
    more = keys(2 * number + 3, triples[1][described], triples[2][described], late)
    return np.concatenate([*parts, np.sort(more) if late.any() else more])


def _graph(triples: _Triples, held_out: Flags, facts: Facts, instances: Instances) -> Graph:
    relations, heads, tails = triples
    entities = len(facts.vocabulary.entities)
    typing = 2 * len(facts.vocabulary.relations)
    describing = typing + (3 if facts.annotations else 1)
    described = relations == describing // 2
    kept = described & ~held_out
    kinds, kind_bits = _kinds(heads[kept], tails[kept] - entities, facts)
    nodes, directed = _nodes(facts), describing + 1
    order = _ordered(triples, held_out, facts, instances)
    keys = order // max(nodes, 1)
    members = (order - keys * nodes).astype(np.int32)
    late_before = offsets_of(keys & 1)
    keys >>= 1
    starts = np.flatnonzero(np.diff(keys, prepend=-1))
    ends = np.append(starts[1:], len(keys)) if len(keys) else starts
    group_relations, group_nodes = np.divmod(keys[starts], max(nodes, 1))
    by_node = np.lexsort((group_relations, group_nodes))
    return Graph(
        entities=entities,
        typing=typing,
        describing=describing,
        starts=np.append(starts, len(keys)).astype(np.int64),
        fresh=(ends - (late_before[ends] - late_before[starts])).astype(np.int64),
        group_nodes=group_nodes.astype(np.int32),
        members=members,
        relation_groups=np.searchsorted(group_relations, np.arange(directed + 1)).astype(np.int64),
        node_starts=np.searchsorted(group_nodes[by_node], np.arange(nodes + 1)).astype(np.int64),
        node_relations=group_relations[by_node].astype(np.int32),
        node_groups=by_node.astype(np.int32),
        kinds=kinds,
        kind_bits=kind_bits,
        late_types=np.isin(np.arange(entities), heads[described & held_out]),
    )


def _kinds(typed: Places, types: Places, facts: Facts) -> tuple[Ids, NDArray[np.uint64]]:
    """[E] the kind of each entity and [K, words] the concepts of each kind; both of no size where that takes too much.

    Two sets of concepts are told apart by the sum of 64 random bits for each member.
    """
    concepts = len(facts.vocabulary.concepts)
    words = -(-concepts // 64)
    if words > MOST_WORDS:
        return np.zeros(0, np.int32), np.zeros((0, 0), np.uint64)
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
