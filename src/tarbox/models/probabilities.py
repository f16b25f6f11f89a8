"""FactProbabilities: facts with degrees, known ones at 1, and fuzzy sets that follow them.

A fact below `LEAST` is not held. Where the strongest way counts, a degree that follows from any number of hops is short
of the exact one by less than LEAST, since a way with a step left out is itself below it; the degrees of a query with m
leaves differ by at most m * LEAST (ADR 26).
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import reduce
from typing import TYPE_CHECKING, Final, final

import numpy as np
from numpy.typing import NDArray

from tarbox.execution.rows import EVERYTHING
from tarbox.kb.closure import Instances
from tarbox.kb.facts import Facts, Ids
from tarbox.kb.rows import Rows
from tarbox.query.algebra import Direction

if TYPE_CHECKING:
    from tarbox.models.base import Sizes

Floats = NDArray[np.float32]
Offsets = NDArray[np.int64]
Keys = NDArray[np.int64]

LEAST: Final = 1e-3
"""The least degree of a fact that is held."""
ENOUGH: Final = 1 << 21
"""With fewer cells for each, threads cost more than they save."""
BACKGROUND: Final = 1e-6
"""What an entity that one operand of `and` does not reach counts there: the others still order such entities."""


@final
@dataclass(frozen=True, slots=True)
class FactProbabilities:
    """The edges of directed relation d are `starts[d]` to `starts[d + 1]`: from `near`, increasing, to `far`.

    `concepts` are the concepts of each entity (closed under subsumption), `members` the same by concept.
    """

    starts: Offsets
    near: Ids
    far: Ids
    degrees: Floats
    concepts: Rows
    members: Rows

    @classmethod
    def of(
        cls, facts: Facts, sizes: Sizes, links: tuple[Keys, Floats], typings: tuple[Keys, Floats]
    ) -> FactProbabilities:
        """From facts, and what is predicted beyond them: triples by key `(r * E + head) * E + tail`, typings by
        `entity * C + concept`, with degrees."""
        width = np.int64(max(sizes.entities, 1))
        relation, pair = np.divmod(links[0], width * width)
        head, tail = np.divmod(pair, width)
        relations = np.concatenate([facts.relations, relation]).astype(np.int64)
        heads, tails = (np.concatenate(both).astype(np.int64) for both in ((facts.heads, head), (facts.tails, tail)))
        degrees = np.concatenate([np.ones(len(facts.heads), np.float32), links[1]])
        keys = np.concatenate([2 * relations * width + tails, (2 * relations + 1) * width + heads]) * width
        keys += np.concatenate([heads, tails])
        order = np.argsort(keys)
        way, far = np.divmod(keys[order], width)
        directed, near = np.divmod(way, width)
        starts = np.searchsorted(directed, np.arange(sizes.directed + 1)).astype(np.int64)
        concepts = _typings(facts, sizes, typings)
        strength = np.concatenate([degrees, degrees])[order].astype(np.float32)
        return cls(
            starts, near.astype(np.int32), far.astype(np.int32), strength, concepts, concepts.transpose(sizes.concepts)
        )


def _typings(facts: Facts, sizes: Sizes, typings: tuple[Keys, Floats]) -> Rows:
    """Known and predicted, such that no concept of an entity has a lesser degree than a sub-concept."""
    instances = Instances.of(facts)
    width = np.int64(max(sizes.concepts, 1))
    typed, types = instances.concepts_of.coordinates()
    origin, above = instances.hierarchy.ancestors.gather((typings[0] % width).astype(np.int32))
    implied = (typings[0] // width)[origin] * width + above
    keys = np.concatenate([typed.astype(np.int64) * width + types, implied])
    degrees = np.concatenate([np.ones(len(typed), np.float32), typings[1][origin]])
    return Rows.of_values(keys, degrees, sizes.entities, sizes.concepts)


@final
@dataclass(frozen=True, slots=True)
class ProbabilityAlgebra:
    """Fuzzy sets [B, E] over probabilities: the product as `and`, its dual as `or`.

    An entity is reached as strongly as the strongest way to it, or with `noisy` as by independent ways.
    """

    probabilities: FactProbabilities
    columns: dict[str, Ids]
    shape: tuple[int, int]
    noisy: bool = False

    def entity(self, name: str) -> Floats:
        found = np.zeros(self.shape, np.float32)
        found[np.arange(self.shape[0]), self.columns[name]] = 1.0
        return found

    def concept(self, name: str) -> Floats:
        ids, members = self.columns[name], self.probabilities.members
        found = np.zeros(self.shape, np.float32)
        for row, concept in enumerate(ids.tolist()):
            if concept == EVERYTHING:
                found[row] = 1.0
            else:
                own = slice(members.offsets[concept], members.offsets[concept + 1])
                found[row, members.columns[own]] = members.values[own]
        return found

    def exists(self, relation: str, direction: Direction, operand: Floats) -> Floats:  # noqa: ARG002
        from tarbox.models.probability_kernels import follow

        found = np.zeros(self.shape, np.float32)
        relations = np.ascontiguousarray(self.columns[relation], np.int32)
        probabilities = self.probabilities
        edges = (probabilities.starts, probabilities.near, probabilities.far, probabilities.degrees)

        def work(rows: slice) -> None:
            follow(edges, relations[rows], operand[rows], self.noisy, found[rows])

        share_out(work, len(relations), self.shape[1])
        return found

    def intersection(self, operands: Sequence[Floats]) -> Floats:
        return reduce(np.multiply, [np.maximum(operand, BACKGROUND) for operand in operands])

    def union(self, operands: Sequence[Floats]) -> Floats:
        found: Floats = 1 - reduce(np.multiply, [1 - operand for operand in operands])
        return found

    def complement(self, operand: Floats) -> Floats:
        found: Floats = 1 - operand
        return found


def share_out(work: object, size: int, width: int = ENOUGH) -> None:
    """Call `work` with slices of `size` rows of `width` cells, on all processors where there is enough to do."""
    assert callable(work)
    useful = min(size // 4, size * width // ENOUGH)
    threads = min(os.cpu_count() or 1, useful) if useful > 1 else 1
    if threads == 1:
        work(slice(0, size))
        return
    step = -(-size // (4 * threads))
    with ThreadPoolExecutor(threads) as pool:
        list(pool.map(work, [slice(start, min(start + step, size)) for start in range(0, size, step)]))
