"""Loops over probabilities, as machine code. Importing this module imports numba."""

# ruff: noqa: N803 (shape suffixes, see STYLE.md)

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, TypeVar, cast

import numba
import numpy as np
from numpy.typing import NDArray

from tarbox.kb.facts import Ids

Floats = NDArray[np.float32]
Sums = NDArray[np.float64]
Offsets = NDArray[np.int64]
Links = tuple[Offsets, Ids, Ids, Floats]
"""`starts`, `near`, `far` and `degrees` of `tarbox.models.probabilities.FactProbabilities`."""
Typings = tuple[Offsets, Ids, Floats]
"""`offsets`, `columns` and `values` of `tarbox.kb.rows.Rows`."""
F = TypeVar("F", bound=Callable[..., Any])

FEW: Final = 32
"""With fewer members than this a set is followed member by member, with more by all edges of the relation."""


def _compiled(function: F) -> F:
    return cast(F, numba.njit(cache=True, nogil=True)(function))


@_compiled
def follow(links: Links, relations: Ids, sets_BE: Floats, noisy: bool, out_BE: Floats) -> None:
    """Row by row: out[x] = the strongest sets[y] * degree over edges y to x, or with `noisy` 1 - prod(1 - that)."""
    starts, near, far, degrees = links
    entities = sets_BE.shape[1]
    members = np.empty(FEW, np.int64)
    for row in range(len(relations)):
        first, last = starts[relations[row]], starts[relations[row] + 1]
        count = 0
        for entity in range(entities):
            if sets_BE[row, entity] > 0:
                if count < FEW:
                    members[count] = entity
                count += 1
        if count <= FEW:
            for member in members[:count]:
                place = first + np.searchsorted(near[first:last], member)
                while place < last and near[place] == member:
                    _add(out_BE, row, far[place], sets_BE[row, member] * degrees[place], noisy)
                    place += 1
        else:
            for place in range(first, last):
                strength = sets_BE[row, near[place]]
                if strength > 0:
                    _add(out_BE, row, far[place], strength * degrees[place], noisy)
        if noisy:
            for entity in range(entities):
                out_BE[row, entity] = -np.expm1(-out_BE[row, entity])


@_compiled
def _add(out_BE: Floats, row: int, entity: int, strength: float, noisy: bool) -> None:
    if not noisy:
        out_BE[row, entity] = max(out_BE[row, entity], strength)
    elif strength >= 1.0:
        out_BE[row, entity] = np.inf
    else:
        out_BE[row, entity] -= np.log1p(-strength)


@_compiled
def gather_concepts(
    typings: Typings, sets_BE: Floats, known_BE: NDArray[np.bool_], least: float, sums_BKC: Floats
) -> None:
    """What the members of each set say of each concept, by row: sums of -log(1 - p) over its witnesses, where [0] has
    predicted members with known typings, [1] known members with predicted typings, [2] both predicted; [3] the
    strongest of all these; [4] the expected number of members in the concept."""
    offsets, concepts, degrees = typings
    for row in range(len(sets_BE)):
        for entity in range(sets_BE.shape[1]):
            strength, known = sets_BE[row, entity], known_BE[row, entity]
            if strength < least and not known:
                continue
            for place in range(offsets[entity], offsets[entity + 1]):
                concept, degree = concepts[place], degrees[place]
                chance = degree if known else strength * degree
                sums_BKC[row, 4, concept] += chance
                if known and degree >= 1.0:
                    continue
                kind = 1 if known else (0 if degree >= 1.0 else 2)
                chance = min(chance, np.float32(0.999999))
                sums_BKC[row, kind, concept] -= np.log1p(-chance)
                sums_BKC[row, 3, concept] = max(sums_BKC[row, 3, concept], chance)


@_compiled
def gather_shares(typings: Typings, parts_BE: Floats, least: float, sums_BC: Floats) -> None:
    """The sum of the parts of each concept's instances, by row."""
    offsets, concepts, degrees = typings
    for row in range(len(parts_BE)):
        for entity in range(parts_BE.shape[1]):
            part = parts_BE[row, entity]
            if part >= least:
                for place in range(offsets[entity], offsets[entity + 1]):
                    sums_BC[row, concepts[place]] += part * degrees[place]
