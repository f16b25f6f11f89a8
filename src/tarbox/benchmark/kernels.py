"""The compiled sampler: reads a program backwards to draw a query, forwards to answer it (numba).

Drawing starts from an entity: at `EXISTS` it moves on over a relation of that entity, drawn uniformly from those it
has, to a neighbour over it, drawn uniformly; at `BOTH` and `EITHER` it goes into both branches from where it stands.
So every branch holds the entity it was drawn from, none is void, and a negated branch removes one from its siblings.
It never goes straight back over the relation it came by, and two branches never begin with the same move.
Every attempt has its own random numbers, so that a block of attempts does not depend on where others stopped.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tarbox.execution.compilation import compiled
from tarbox.execution.graph import Graph
from tarbox.execution.kernels import Space, clear, list_range, run
from tarbox.execution.program import CONCEPT, ENTITY, EXISTS, NOT, TYPING, Program
from tarbox.execution.type_kernels import project_types
from tarbox.kb.arrays import Flags, Ids, Places

NO_PATH: Final = 0  # the entity has no relation to go on with
DEGENERATE: Final = 1  # a branch that its sibling makes idle
NO_TARGET: Final = 2  # nothing to rank
TOO_MANY: Final = 3  # more targets than allowed
REPEATED: Final = 4  # drawn before
ACCEPTED: Final = 5
OUTCOMES: Final = 6
PROBES: Final = 32  # how far a key may lie from its place among the keys of queries drawn before
TRIES: Final = 8  # how often a relation is drawn anew when it would lead straight back

Random = NDArray[np.uint64]
Hashes = NDArray[np.uint64]


class Rules(NamedTuple):
    """What is drawn and kept: only answers missing from the earlier graph are targets where `hard`; relations in both
    directions or only `h -r->`; at most `most` targets; `never` [C] marks concepts that are no targets; `every` query
    is kept, those without a target too, and no move goes over a held-out fact; `late`: every other move goes over one,
    where there is one."""

    hard: bool
    both_directions: bool
    most: int
    never: Flags
    every: bool
    late: bool


class SampleBuffer(NamedTuple):
    """Room for accepted queries: `ids` [Q, slots] and, one query after the other in `values`, four segments that end
    at `ends[q]`: entity targets, other entity answers, concept targets, other concept answers. `missing` counts the
    held-out facts that the value at the same place needs. `drawn` holds the keys of queries judged before, by hashing;
    its length is a power of two."""

    ids: Ids
    ends: Places
    values: Ids
    missing: NDArray[np.int8]
    drawn: Hashes


@compiled
def below(random: Random, bound: int) -> int:
    """A number from 0 to bound - 1 (SplitMix64, the same on every machine)."""
    random[0] += np.uint64(0x9E3779B97F4A7C15)
    bits = random[0]
    bits = (bits ^ (bits >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    bits = (bits ^ (bits >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    bits = bits ^ (bits >> np.uint64(31))
    return int(np.int64(((bits >> np.uint64(32)) * np.uint64(bound)) >> np.uint64(32)))


@compiled
def start_random(random: Random, seed: int, attempt: int) -> None:
    """Sets the random numbers of one attempt."""
    random[0] = np.uint64(seed) ^ (np.uint64(attempt + 1) * np.uint64(0xD1342543DE82EF95))
    below(random, 2)


@compiled
def end_of_relations(graph: Graph, node: int) -> int:
    """The place in `node_relations` after the relations of the node: that of its typings, if it has any."""
    last = graph.node_starts[node + 1]
    while last > graph.node_starts[node] and graph.node_relations[last - 1] >= graph.typing:
        last -= 1
    return int(last)


@compiled
def draw_relation(graph: Graph, node: int, back: int, rules: Rules, late: bool, random: Random) -> int:
    """The place in `node_relations` of a relation of the node other than `back`; -1 for none.

    Where `late`, it is one with a held-out fact, if the draws meet any; of `every` query, one with another fact."""
    first, last = graph.node_starts[node], end_of_relations(graph, node)
    if last <= first:
        return -1
    fallback = -1
    for _ in range(TRIES):
        place = first + below(random, last - first)
        relation, group = graph.node_relations[place], graph.node_groups[place]
        if relation != back and (rules.both_directions or relation % 2 == 0):
            if rules.every and graph.fresh[group] == graph.starts[group]:
                continue
            if not late or graph.fresh[group] < graph.starts[group + 1]:
                return int(place)
            fallback = int(place)
    return fallback


@compiled
def draw(graph: Graph, program: Program, rules: Rules, ids: Ids, random: Random) -> int:
    """Fills the slots of one query; returns `ACCEPTED`, or why there is none.

    The stack holds nodes to go on from, each with the relation that would lead straight back and with the step at
    which its branch left its siblings (-1 in a negated branch, and after the branch's first relation).
    """
    stack = np.empty((len(program.operations) + 1, 3), np.int64)
    first_moves = np.full((len(program.operations), 3), -1, np.int64)
    stack[0, 0], stack[0, 1], stack[0, 2] = below(random, graph.entities), -1, -1
    top = 0
    for step in range(len(program.operations) - 1, -1, -1):
        operation, slot = program.operations[step], program.slots[step]
        node, back, fork = stack[top, 0], stack[top, 1], stack[top, 2]
        if operation in (ENTITY, CONCEPT):
            ids[slot] = node if operation == ENTITY else node - graph.entities
            top -= 1
        elif operation in (EXISTS, TYPING):
            late = rules.late and below(random, 2) == 1
            if operation == EXISTS:
                place = draw_relation(graph, node, back, rules, late, random)
            else:
                place = end_of_relations(graph, node)
                typed = place < graph.node_starts[node + 1] and graph.node_relations[place] == graph.typing + 1
                place = place if typed else -1
            if place < 0:
                return NO_PATH
            neighbour = draw_member(graph, graph.node_groups[place], late, rules.every, random)
            if neighbour < 0:
                return NO_PATH
            if operation == EXISTS:
                ids[slot] = graph.node_relations[place] ^ 1
            if fork >= 0 and repeats(first_moves, step, fork, place, neighbour):
                return DEGENERATE
            stack[top, 0], stack[top, 1], stack[top, 2] = neighbour, graph.node_relations[place] ^ 1, -1
        elif operation == NOT:
            stack[top, 2] = -1
        else:
            stack[top, 2] = fork if fork >= 0 else step
            top += 1
            stack[top] = stack[top - 1]
    return ACCEPTED


@compiled
def repeats(first_moves: Places, step: int, fork: int, place: int, neighbour: int) -> bool:
    """Notes the first move of a branch; true where a sibling began with the same, which makes one of them idle."""
    for other in range(step + 1, len(first_moves)):
        if first_moves[other, 0] == fork and first_moves[other, 1] == place and first_moves[other, 2] == neighbour:
            return True
    first_moves[step, 0], first_moves[step, 1], first_moves[step, 2] = fork, place, neighbour
    return False


@compiled
def draw_member(graph: Graph, group: int, late: bool, early: bool, random: Random) -> int:
    """A member of a group, by a held-out fact if there is one where `late`, by another where `early`; -1 for none."""
    end = graph.fresh[group] if early else graph.starts[group + 1]
    if end == graph.starts[group]:
        return -1
    start = graph.fresh[group] if late and graph.fresh[group] < end else graph.starts[group]
    return int(graph.members[start + below(random, end - start)])


@compiled
def compare(ids: Ids, first: Ids, second: Ids) -> int:
    """-1, 0 or 1: how the ids in some slots compare with those in others."""
    for place in range(len(first)):
        difference = ids[first[place]] - ids[second[place]]
        if difference:
            return -1 if difference < 0 else 1
    return 0


@compiled
def arrange_siblings(program: Program, ids: Ids) -> bool:
    """Sorts branches of one structure by their ids, so that equal queries have equal rows; false if two are equal."""
    siblings = program.siblings
    at = 0
    while at < len(siblings):
        count, width = siblings[at], siblings[at + 1]
        at += 2
        branches = siblings[at : at + count * width].reshape((count, width))
        at += count * width
        for end in range(count - 1, 0, -1):
            for branch in range(end):
                order = compare(ids, branches[branch], branches[branch + 1])
                if order == 0:
                    return False
                if order > 0:
                    for place in range(width):
                        one, other = branches[branch, place], branches[branch + 1, place]
                        ids[one], ids[other] = ids[other], ids[one]
    return True


@compiled
def key_of(ids: Ids) -> np.uint64:
    """A number other than zero that two different queries share once in 2**63."""
    key = np.uint64(len(ids))
    for value in ids:
        key = (key ^ np.uint64(value)) * np.uint64(0x9E3779B97F4A7C15)
        key ^= key >> np.uint64(29)
    return key | np.uint64(1)


@compiled
def place_of(drawn: Hashes, key: np.uint64) -> int:
    """Where the key stands or can be put; -1 where there is no room near its place."""
    mask = len(drawn) - 1
    start = np.int64(key >> np.uint64(1)) & mask
    for step in range(PROBES):
        place = (start + step) & mask
        if drawn[place] == 0 or drawn[place] == key:
            return int(place)
    return -1


@compiled
def is_target(state: int, hard: bool) -> bool:
    """Whether an answer with this byte is to be ranked."""
    return state & 127 != 0 and not (hard and state & 128)


@compiled
def count_targets(space: Space, row: int, rules: Rules, first: int) -> int:
    """How many of the answers that a row lists are targets; concepts count from node `first`."""
    states, listed, default, never = space.states[row], space.listed[row], space.defaults[row], rules.never
    found = 0
    for place in range(space.sizes[row]):
        node = listed[place]
        if is_target(int(states[node]) ^ default, rules.hard):
            found += 1 if first == 0 or not never[node - first] else 0
    return found


@compiled
def has_late_types(graph: Graph, space: Space, row: int) -> bool:
    """Whether a node that a row lists has a held-out description: without one, easy entities have easy concepts."""
    late, listed = graph.late_types, space.listed[row]
    found = False
    for place in range(space.sizes[row]):
        found |= late[listed[place]]
    return found


@compiled
def write_level(space: Space, row: int, rules: Rules, first: int, buffer: SampleBuffer, at: int) -> tuple[int, int]:
    """Writes the targets of a row, then its other answers, from place `at`; returns where each part ends."""
    states, listed, default, never = space.states[row], space.listed[row], space.defaults[row], rules.never
    values, missing, targets = buffer.values, buffer.missing, at
    for wanted in (True, False):
        for place in range(space.sizes[row]):
            node = listed[place]
            state = int(states[node]) ^ default
            if state & 127:
                target = is_target(state, rules.hard) and (first == 0 or not never[node - first])
                if target == wanted:
                    values[at], missing[at] = node - first, 127 - (state & 127)
                    at += 1
        if wanted:
            targets = at
    return targets, at


@compiled
def keep(graph: Graph, space: Space, rules: Rules, row: int, buffer: SampleBuffer, query: int) -> int:
    """Judges the answers in a row and, where they are accepted, writes them as number `query` of the buffer.

    Returns the outcome, or -1 where the buffer has no room for them. Leaves every row empty.
    """
    nodes = len(graph.node_starts) - 1
    if space.defaults[row]:
        list_range(space, row, 0, graph.entities)
    entities = count_targets(space, row, rules, 0)
    hopeless = entities == 0 and not rules.every and not (rules.hard and has_late_types(graph, space, row))
    if entities > rules.most or hopeless:
        clear(space, row)
        return TOO_MANY if entities else NO_TARGET
    concept_row = space.rows[1]
    project_types(graph, space, row, concept_row)
    concepts = count_targets(space, concept_row, rules, graph.entities)
    outcome = ACCEPTED if entities or concepts or rules.every else NO_TARGET
    if rules.hard and concepts > rules.most:
        outcome = TOO_MANY
    if outcome == ACCEPTED:
        at = buffer.ends[query - 1, 3] if query else 0
        list_range(space, row, 0, graph.entities)
        list_range(space, concept_row, graph.entities, nodes)
        if at + space.sizes[row] + space.sizes[concept_row] > len(buffer.values):
            outcome = -1
        else:
            buffer.ends[query, 0], buffer.ends[query, 1] = write_level(space, row, rules, 0, buffer, at)
            end = buffer.ends[query, 1]
            ends = write_level(space, concept_row, rules, graph.entities, buffer, end)
            buffer.ends[query, 2], buffer.ends[query, 3] = ends
    clear(space, row)
    clear(space, concept_row)
    return outcome


@compiled
def sample_block(
    graph: Graph, program: Program, rules: Rules, span: tuple[int, int, int], space: Space, buffer: SampleBuffer
) -> tuple[int, int, Places]:
    """Makes the attempts from `span[1]` to `span[2]` with seed `span[0]` until the buffer is full.

    Returns the next attempt, the number of accepted queries, and how many attempts had each outcome.
    """
    seed, first, last = span
    random = np.empty(1, np.uint64)
    outcomes = np.zeros(OUTCOMES, np.int64)
    drawn, accepted = buffer.drawn, 0
    for attempt in range(first, last):
        if accepted == len(buffer.ids):
            return attempt, accepted, outcomes
        start_random(random, seed, attempt)
        ids = buffer.ids[accepted]
        outcome = draw(graph, program, rules, ids, random)
        if outcome == ACCEPTED and not arrange_siblings(program, ids):
            outcome = DEGENERATE
        if outcome == ACCEPTED:
            key = key_of(ids)
            place = place_of(drawn, key)
            if place >= 0 and drawn[place] == key:
                outcome = REPEATED
            else:
                outcome = keep(graph, space, rules, run(graph, program, ids, space), buffer, accepted)
                if place >= 0 and outcome >= 0:
                    drawn[place] = key
        if outcome < 0:
            return attempt, accepted, outcomes
        outcomes[outcome] += 1
        if outcome == ACCEPTED:
            accepted += 1
    return last, accepted, outcomes
