"""Loops over entities that are alike, as machine code. Importing this module imports numba."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, TypeVar, cast

import numba
import numpy as np

F = TypeVar("F", bound=Callable[..., Any])

LITTLE: Final = 1e-3
"""What is added to a sum before its logarithm is taken."""
DOUBT: Final = 0.1
"""Likeness added to those that lead elsewhere: a share among few says little."""


def _compiled(function: F) -> F:
    return cast(F, numba.njit(cache=True, nogil=True)(function))


@_compiled
def find_alike(having: Any, groups: Any, lengths: Any, limits: Any) -> Any:
    """(starts, others, likeness) of each entity's most alike, others increasing.

    `having` are the links of each entity (starts, links), `groups` the entities that have a link (starts, entities,
    weights of links), `lengths` those of the entities' rows. `limits` are the most neighbours of an entity, and the
    most entities of a link that makes any.
    """
    firsts, links = having
    starts, entities, weights = groups
    most, widest = limits
    size = len(firsts) - 1
    sums = np.zeros(size, np.float64)
    touched = np.empty(size, np.int64)
    offsets = np.zeros(size + 1, np.int64)
    others = np.empty(size * most, np.int32)
    likeness = np.empty(size * most, np.float32)
    filled = 0
    for entity in range(size):
        count = 0
        for place in range(firsts[entity], firsts[entity + 1]):
            link = links[place]
            low, high = starts[link], starts[link + 1]
            if high - low > widest:
                continue
            weight = weights[link] * weights[link]
            for member in range(low, high):
                other = entities[member]
                if other != entity and weight > 0:
                    if sums[other] == 0:
                        touched[count] = other
                        count += 1
                    sums[other] += weight
        for place in range(count):
            sums[touched[place]] /= lengths[entity] * lengths[touched[place]]
        found = np.sort(touched[:count])
        least, room = 0.0, count
        if count > most:
            values = sums[found]
            least = np.partition(values, count - most)[count - most]
            room = most - np.sum(values > least)
        for other in found:
            value = sums[other]
            equal = count > most and value == least
            if (value > least and not equal) or (equal and room > 0):
                others[filled] = other
                likeness[filled] = value
                filled += 1
                room -= equal
            sums[other] = 0
        offsets[entity + 1] = filled
    return offsets, others[:filled].copy(), likeness[:filled].copy()


@_compiled
def weigh_alike(alike: Any, leads: Any, asked: Any, size: int, out: Any) -> None:
    """What `tarbox.models.neighbours.Neighbours.share` says; `asked` are taken in an order that keeps equal bases and
    entities together, so that what the neighbours lead to is summed once for all of them."""
    starts, others, likeness = alike
    keys, firsts, far = leads
    order, bases, nears, fars = asked
    sums = np.zeros(size, np.float64)
    leading = np.empty(len(others), np.int64)
    count, total = 0, 0.0
    base, near = np.int64(-1), np.int64(-1)
    for row in order:
        if bases[row] != base or nears[row] != near:
            for place in range(count):
                sums[far[firsts[leading[place]] : firsts[leading[place] + 1]]] = 0
            base, near, count, total = bases[row], nears[row], 0, 0.0
            for place in range(starts[near], starts[near + 1]):
                found = np.searchsorted(keys, base + others[place])
                if found < len(keys) and keys[found] == base + others[place]:
                    leading[count] = found
                    count += 1
                    total += likeness[place]
                    for reached in range(firsts[found], firsts[found + 1]):
                        sums[far[reached]] += likeness[place]
        out[row, 0] = np.log(sums[fars[row]] + LITTLE)
        out[row, 1] = sums[fars[row]] / (total + DOUBT)
