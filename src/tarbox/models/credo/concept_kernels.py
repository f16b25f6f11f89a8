"""The loops over concepts as machine code: what describes an entity, and what a set of entities says of concepts.

As in `tarbox.models.credo.kernels`, sparse matrices come as arrays.
"""

# ruff: noqa: N803 (shape suffixes)

from __future__ import annotations

from typing import Any

import numpy as np

from tarbox.execution.compilation import compiled
from tarbox.models.credo.kernels import _find


@compiled
def _join_typings(typings: Any, entity: int, strength: float, absent: Any, met: Any) -> None:
    """Join the concepts of an entity that a proof of some strength leads to into [C] the probability that nothing leads
    to each, and mark the eights of concepts that are met."""
    offsets, concepts, values = typings
    for place in range(offsets[entity], offsets[entity + 1]):
        concept, chance = concepts[place], strength * values[place]
        met[concept >> 3] = 1
        if chance >= 1.0:
            absent[concept] = 0.0
        elif absent[concept] > 0:
            absent[concept] = max(absent[concept] * (1.0 - chance), 1e-300)


@compiled
def describe(links: Any, ways: Any, typings: Any, block: Any, limits: Any) -> Any:
    """(sizes, concepts, probabilities) of the entities `block[0]` to `block[1]`: the noisy-or of their own typings and
    of those of what the directed relations `ways` lead them to. `limits` are how many concepts there are, and the least
    probability kept. A proof that is certain makes 1, others make less."""
    starts, near, far, degrees = links
    width, least = limits
    absent, met = np.ones(-(-width // 8) * 8, np.float64), np.zeros(-(-width // 64) * 8, np.uint8)
    words = met.view(np.uint64)
    sizes = np.zeros(block[1] - block[0], np.int64)
    found, likely = np.empty(width, np.int32), np.empty(width, np.float32)
    filled = 0
    for entity in range(block[0], block[1]):
        _join_typings(typings, entity, 1.0, absent, met)
        for way in ways:
            place = _find(near, starts[way], starts[way + 1], entity)
            while place < starts[way + 1] and near[place] == entity:
                _join_typings(typings, far[place], np.float64(degrees[place]), absent, met)
                place += 1
        if filled + width > len(found):
            found = np.concatenate((found, np.empty(len(found) + width, np.int32)))
            likely = np.concatenate((likely, np.empty(len(likely) + width, np.float32)))
        before = filled
        for word in range(len(words)):  # eight times eight concepts at a time, since most are not met
            for eight in range(8 * word, 8 * word + 8 if words[word] else 0):
                for concept in range(8 * eight, 8 * eight + 8 if met[eight] else 0):
                    if 1.0 - absent[concept] >= least:
                        found[filled] = concept
                        likely[filled] = 1.0 if absent[concept] == 0 else min(1.0 - absent[concept], 0.9999999)
                        filled += 1
                    absent[concept] = 1.0
            words[word] = 0
        sizes[entity - block[0]] = filled - before
    return sizes, found[:filled].copy(), likely[:filled].copy()


@compiled
def gather_concepts(typings: Any, set_E: Any, known: Any, least: float, space: Any, touched: Any) -> int:
    """What the members of one set say of concepts; returns how many concepts are `touched`.

    `space` [C, 7] is filled for these: sums of -log(1 - p) over witnesses, where [0] has predicted members with known
    typings, [1] known members with predicted typings, [2] both predicted; [3] the strongest of all these; [4] the
    expected number of members in the concept; [5] the same with the roots of the predicted members' degrees; [6] the
    strongest of all, known members with known typings among them. `known` are the known members, increasing.
    """
    offsets, concepts, degrees = typings
    count, next_known = 0, 0
    for entity in range(len(set_E)):
        strength = set_E[entity]
        is_known = next_known < len(known) and known[next_known] == entity
        next_known += is_known
        if strength < least:
            continue
        root = np.sqrt(strength)
        for place in range(offsets[entity], offsets[entity + 1]):
            concept, degree = concepts[place], degrees[place]
            if space[concept, 4] == 0:
                touched[count] = concept
                count += 1
            chance = strength * degree
            space[concept, 4] += chance
            space[concept, 6] = max(space[concept, 6], chance)
            if is_known and degree >= 1.0:
                continue
            kind = 1 if is_known else (0 if degree >= 1.0 else 2)
            if not is_known:
                space[concept, 5] += root * degree
            if chance < 0.1:  # the series of -log(1 - chance)
                space[concept, kind] += chance * (1 + chance * (0.5 + chance * (1 / 3 + chance * 0.25)))
            else:
                space[concept, kind] -= np.log1p(-min(chance, 0.999999))
            space[concept, 3] = max(space[concept, 3], min(chance, 0.999999))
    return count


@compiled
def raise_to_narrower(ancestors: Any, concepts: Any, values: Any, space: Any) -> None:
    """Each of the values of these concepts raised to the greatest of the sub-concepts among them."""
    offsets, above = ancestors
    for number in range(len(concepts)):
        space[concepts[number]] = values[number]
    for number in range(len(concepts)):
        own = values[number]
        for place in range(offsets[concepts[number]], offsets[concepts[number] + 1]):
            space[above[place]] = max(space[above[place]], own)
    for number in range(len(concepts)):
        values[number] = space[concepts[number]]
    for number in range(len(concepts)):
        for place in range(offsets[concepts[number]], offsets[concepts[number] + 1]):
            space[above[place]] = 0
