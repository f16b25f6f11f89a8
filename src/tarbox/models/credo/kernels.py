"""The loops of the reasoner as machine code. Importing this module imports numba.

Sparse matrices come as the arrays of `tarbox.kb.rows.Rows`: offsets, columns and, where they have some, values. Every
function is free of Python objects and releases the interpreter lock, so that threads share out the work.
"""

# ruff: noqa: N803 (shape suffixes)

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final

import numpy as np

from tarbox.execution.compilation import compiled

PASSED: Final = 64
"""A path of two steps goes through so many of an entity's links at most."""


def share_out(work: Callable[[slice], object], size: int, block: int) -> None:
    """Call `work` with slices of at most `block` of `size` rows, on all processors where there are several blocks."""
    blocks = [slice(start, min(start + block, size)) for start in range(0, size, block)]
    if len(blocks) <= 1:  # to ask for the number of processors takes as long as a small block
        for rows in blocks:
            work(rows)
        return
    with ThreadPoolExecutor(min(os.cpu_count() or 1, len(blocks))) as pool:
        list(pool.map(work, blocks))


@compiled
def _find(columns: Any, low: int, high: int, wanted: int) -> int:
    """The first place from `low` to `high` with this column or a later one."""
    while low < high:
        middle = (low + high) // 2
        if columns[middle] < wanted:
            low = middle + 1
        else:
            high = middle
    return low


@compiled
def sum_rows(offsets: Any, columns: Any, weights: Any, out: Any) -> None:
    """[N] the sum of the weights of each row's columns."""
    for row in range(len(out)):
        total = 0.0
        for place in range(offsets[row], offsets[row + 1]):
            total += weights[columns[place]]
        out[row] = total


@compiled
def project_counted(links: Any, relations: Any, sets_BE: Any, count: int, out_BE: Any) -> None:
    """Row by row the probability that links lead from `count` or more members of the set to x: the tail of the Poisson
    binomial distribution, by its recurrence."""
    starts, near, far, degrees = links
    exactly = np.zeros(count, np.float64)  # that so many links lead there, for each number below the count
    for row in range(len(relations)):
        out_BE[row] = 0
        place, last = starts[relations[row] ^ 1], starts[(relations[row] ^ 1) + 1]
        while place < last:
            reached, likely, certain = near[place], 0, 0
            exactly[:] = 0
            exactly[0] = 1
            while place < last and near[place] == reached:
                strength = np.float64(sets_BE[row, far[place]]) * degrees[place]
                place += 1
                likely += strength > 0
                certain += strength >= 1
                for number in range(count - 1, 0, -1):
                    exactly[number] += (exactly[number - 1] - exactly[number]) * strength
                exactly[0] -= exactly[0] * strength
            if certain >= count:
                out_BE[row, reached] = 1
            elif likely >= count:
                out_BE[row, reached] = max(1 - np.sum(exactly), 0)


@compiled
def project(links: Any, relations: Any, sets_BE: Any, out_BE: Any) -> None:
    """Row by row the probability that a link leads from a member of the set to x: the noisy-or of its proofs."""
    starts, near, far, degrees = links
    entities = sets_BE.shape[1]
    found = np.zeros(entities, np.float64)
    members = np.empty(entities, np.int32)
    for row in range(len(relations)):
        first, last = starts[relations[row]], starts[relations[row] + 1]
        count = 0
        for entity in range(entities):
            if sets_BE[row, entity] > 0:
                members[count] = entity
                count += 1
        if count * 24 < last - first:
            for number in range(count):
                member = members[number]
                place = _find(near, first, last, member)
                while place < last and near[place] == member:
                    strength = sets_BE[row, member] * degrees[place]
                    found[far[place]] += strength * (1 - found[far[place]])
                    place += 1
        elif count:
            for place in range(first, last):
                strength = sets_BE[row, near[place]] * degrees[place]
                found[far[place]] += strength * (1 - found[far[place]])
        for entity in range(entities):
            out_BE[row, entity] = min(found[entity], 1.0)
            found[entity] = 0


@compiled
def count_pairs(rows: Any, entities: Any, having: Any, counts: Any) -> None:
    """Add to counts [R, L] how often entity i, which stands in a row, has each l."""
    offsets, columns = having
    for number in range(len(rows)):
        for place in range(offsets[entities[number]], offsets[entities[number] + 1]):
            counts[rows[number], columns[place]] += 1


@compiled
def find_excluded(exclusions: Any, rows: Any, entities: Any, having: Any, out: Any) -> None:
    """[N] whether entity i has anything that its row excludes."""
    offsets, columns = having
    for number in range(len(rows)):
        for place in range(offsets[entities[number]], offsets[entities[number] + 1]):
            if exclusions[rows[number], columns[place]]:
                out[number] = True
                break


@compiled
def count_paths(graph: Any, column: Any, facts: Any, counts: Any) -> None:
    """How often each path of one and two steps goes with each relation, over facts [N, 3]: relation, head, tail."""
    starts, relations, others = graph
    single, double = counts
    for fact in range(len(facts)):
        relation, head, tail = facts[fact, 0], facts[fact, 1], facts[fact, 2]
        place = _find(others, starts[head], starts[head + 1], tail)
        while place < starts[head + 1] and others[place] == tail:
            if relations[place] != 2 * relation:
                single[relations[place], relation] += 1
            place += 1
        last = min(starts[head + 1], starts[head] + PASSED)
        for first in range(starts[head], last):
            between = others[first]
            if between in (tail, head) or column[relations[first]] < 0:
                continue
            second = _find(others, starts[between], starts[between + 1], tail)
            while second < starts[between + 1] and others[second] == tail:
                if column[relations[second]] >= 0:
                    double[column[relations[first]], column[relations[second]], relation] += 1
                second += 1


@compiled
def count_bodies(starts: Any, relations: Any, column: Any, inverse: Any, bodies: Any) -> None:
    """How often each path of two steps occurs at all: the links in times the links out, for each entity between.

    `inverse` is the column of a relation's inverse: what leads out of an entity leads into it when read backwards.
    """
    width = len(bodies)
    out = np.zeros(width, np.float32)
    present = np.empty(width, np.int64)
    for entity in range(len(starts) - 1):
        count = 0
        for place in range(starts[entity], starts[entity + 1]):
            own = column[relations[place]]
            if own >= 0:
                if out[own] == 0:
                    present[count] = own
                    count += 1
                out[own] += 1
        for into in present[:count]:
            if inverse[into] >= 0:
                for further in present[:count]:
                    bodies[inverse[into], further] += out[into] * out[further]
        for own in present[:count]:
            out[own] = 0


@compiled
def find_paths(graph: Any, column: Any, confidences: Any, facts: Any, out: Any) -> None:
    """[N, 4] of facts [N, 3]: the best confidence of a path of one step and of two, the noisy-or of all paths of two
    as a sum of -log(1 - confidence), and how many of these there are, as a logarithm."""
    starts, relations, others = graph
    single, double = confidences
    for fact in range(len(facts)):
        relation, head, tail = facts[fact, 0], facts[fact, 1], facts[fact, 2]
        place = _find(others, starts[head], starts[head + 1], tail)
        while place < starts[head + 1] and others[place] == tail:
            out[fact, 0] = max(out[fact, 0], single[relations[place], relation])
            place += 1
        last = min(starts[head + 1], starts[head] + PASSED)
        for first in range(starts[head], last):
            between = others[first]
            if between in (tail, head) or column[relations[first]] < 0:
                continue
            second = _find(others, starts[between], starts[between + 1], tail)
            while second < starts[between + 1] and others[second] == tail:
                if column[relations[second]] >= 0:
                    confidence = double[column[relations[first]], column[relations[second]], relation]
                    out[fact, 1] = max(out[fact, 1], confidence)
                    out[fact, 2] -= np.log1p(-confidence)
                    out[fact, 3] += 1
                second += 1
        out[fact, 3] = np.log1p(out[fact, 3])


@compiled
def _keep_strongest(heap: Any, first: int, size: int, most: int, item: Any) -> None:
    """Add an item (value, id) to the `size` strongest from `first` on, or put it in the place of the weakest of `most`.

    They are a heap with the weakest first; of equal values that with the greater id is weaker. (numba's own sorting
    takes five seconds to compile.)
    """
    values, ids = heap
    value, number = item
    if size < most:
        place = size
        while place > 0:
            parent = (place - 1) // 2
            own, other = values[first + parent], ids[first + parent]
            if own < value or (own == value and other > number):
                break
            values[first + place], ids[first + place] = own, other
            place = parent
    else:
        if value < values[first] or (value == values[first] and number > ids[first]):
            return
        place = 0
        while 2 * place + 1 < most:
            child = 2 * place + 1
            if child + 1 < most:
                left, right = values[first + child], values[first + child + 1]
                if right < left or (right == left and ids[first + child + 1] > ids[first + child]):
                    child += 1
            own, other = values[first + child], ids[first + child]
            if own > value or (own == value and other < number):
                break
            values[first + place], ids[first + place] = own, other
            place = child
    values[first + place], ids[first + place] = value, number


@compiled
def find_similar(having: Any, sharing: Any, lengths: Any, wanted: Any, limits: Any) -> Any:
    """(sizes, others, similarity) of the entities `wanted`: the nearest of each, in any order.

    `having` are the links of each entity (offsets, links), `sharing` the entities that have a link (offsets, entities,
    weights of links), `lengths` those of the entities' rows. `limits` are the most neighbours of an entity, and the
    most entities of a link that makes any.
    """
    firsts, links = having
    starts, entities, weights = sharing
    most, widest = limits
    size = len(firsts) - 1
    sums = np.zeros(size, np.float32)
    touched = np.empty(size, np.int32)
    sizes = np.zeros(len(wanted), np.int64)
    others = np.empty(len(wanted) * most, np.int32)
    similarity = np.empty(len(others), np.float32)
    filled = 0
    for row in range(len(wanted)):
        entity = wanted[row]
        count = 0
        for place in range(firsts[entity], firsts[entity + 1]):
            link = links[place]
            low, high = starts[link], starts[link + 1]
            weight = weights[link] * weights[link]
            if high - low > widest or weight <= 0:
                continue
            for member in range(low, high):
                other = entities[member]
                if other != entity:
                    if sums[other] == 0:
                        touched[count] = other
                        count += 1
                    sums[other] += weight
        before = filled
        for place in range(count):
            other = touched[place]
            _keep_strongest((similarity, others), before, filled - before, most, (sums[other] / lengths[other], other))
            filled = min(filled + 1, before + most)
            sums[other] = 0
        similarity[before:filled] /= lengths[entity]
        sizes[row] = filled - before
    return sizes, others[:filled].copy(), similarity[:filled].copy()


@compiled
def weigh_similar(similar: Any, adjacency: Any, asked: Any, size: int, out: Any) -> None:
    """[N, 2] of pairs (row of the adjacency of `near`'s neighbours, far): the logarithm of the similarity of the
    neighbours that lead to `far`, and its share of those that lead anywhere.

    `adjacency` has sorted keys, and what each leads to; neighbour n leads by the key `base + n`. The pairs `asked`
    are taken in an order that keeps equal bases and entities together, so that sums are made once for all of them.
    """
    starts, others, similarity = similar
    keys, firsts, far = adjacency
    order, bases, nears, fars = asked
    sums = np.zeros(size, np.float64)
    leading = np.empty(len(others) + 1, np.int64)
    count, total = 0, 0.0
    base, near = np.int64(-1), np.int64(-1)
    low, high = 0, len(keys)
    for row in order:
        if bases[row] != base:  # neighbours are looked for among the keys of the base: far fewer than all
            low = _find(keys, 0, len(keys), bases[row])
            high = _find(keys, low, len(keys), bases[row] + len(starts))
        if bases[row] != base or nears[row] != near:
            for number in range(count):
                for reached in range(firsts[leading[number]], firsts[leading[number] + 1]):
                    sums[far[reached]] = 0
            base, near, count, total = bases[row], nears[row], 0, 0.0
            for place in range(starts[near], starts[near + 1]):
                found = _find(keys, low, high, base + others[place])
                if found < high and keys[found] == base + others[place]:
                    leading[count] = found
                    count += 1
                    total += similarity[place]
                    for reached in range(firsts[found], firsts[found + 1]):
                        sums[far[reached]] += similarity[place]
        out[row, 0] = np.log(sums[fars[row]] + 1e-3)
        out[row, 1] = sums[fars[row]] / (total + 0.1)  # a share among few says little
