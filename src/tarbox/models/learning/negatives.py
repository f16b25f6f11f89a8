"""Negatives, drawn on the device for whole batches and never true (Algorithm 1, filtered).

What is true is held as one sorted tensor of keys `row * width + column`, so that a batch of candidates is checked by
one binary search each. True candidates are drawn again, a few rounds; what is still true then is marked as not valid
and counts for nothing. No size depends on the data, so a step can be recorded as a CUDA graph.
"""

# ruff: noqa: N803, N815 (shape suffixes)

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple, final

import numpy as np
import torch
from torch import Tensor

from tarbox.core.errors import ConfigError
from tarbox.kb.arrays import Places


@final
@dataclass(frozen=True, slots=True)
class NegativesConfig:
    """`count` negatives (the paper's m) for every positive; true ones are drawn again up to `rounds` times."""

    count: int = 4
    rounds: int = 3

    def __post_init__(self) -> None:
        if self.count < 1 or self.rounds < 0:
            raise ConfigError(
                f"negatives.count is {self.count} and negatives.rounds is {self.rounds}; "
                "they must be at least 1 and at least 0"
            )


class Drawn(NamedTuple):
    """Candidates [B, M] and whether each is a valid negative [B, M]."""

    ids_BM: Tensor
    valid_BM: Tensor


@final
@dataclass(frozen=True, slots=True)
class Truths:
    """A set of pairs (row, column) on a device: sorted distinct keys, ended by a key that no pair has."""

    keys: Tensor
    width: int

    @classmethod
    def of_keys(cls, keys: Places, width: int, device: torch.device) -> Truths:
        """From sorted distinct `row * width + column` (see `distinct`)."""
        ended = np.append(keys, np.iinfo(np.int64).max)
        return cls(torch.from_numpy(ended).to(device), width)

    def contains(self, rows: Tensor, columns: Tensor) -> Tensor:
        """Whether each pair is in the set; rows and columns broadcast.

        >>> pairs = Truths.of_keys(np.array([0 * 5 + 3, 2 * 5 + 1]), 5, torch.device("cpu"))
        >>> pairs.contains(torch.tensor([[0], [2]]), torch.tensor([[3, 1], [3, 1]])).tolist()
        [[True, False], [False, True]]
        """
        keys = rows * self.width + columns
        return self.keys[torch.searchsorted(self.keys, keys)] == keys


def distinct(keys: Places) -> Places:
    """Sorted, each once. Ten times quicker here than numpy's `unique`, which hashes."""
    ordered = np.sort(keys)
    return ordered[np.append(True, ordered[1:] != ordered[:-1])] if len(ordered) else ordered


@final
@dataclass(frozen=True, slots=True)
class Sampler:
    """Draws on the device of its generator, by the generator alone."""

    config: NegativesConfig
    generator: torch.Generator

    def integers(self, below: int, size: tuple[int, ...]) -> Tensor:
        """Uniform numbers from 0 to `below` - 1."""
        return torch.randint(below, size, generator=self.generator, device=self.generator.device)

    def fractions(self, size: tuple[int, ...]) -> Tensor:
        """Uniform numbers in [0, 1)."""
        return torch.rand(size, generator=self.generator, device=self.generator.device)

    def coins(self, size: tuple[int, ...]) -> Tensor:
        """True or false with equal probability."""
        return self.integers(2, size).to(torch.bool)

    def avoid(self, below: int, size: tuple[int, int], is_true: Callable[[Tensor], Tensor]) -> Drawn:
        """Uniform candidates that are not true; `is_true` says which of [B, M] candidates are."""
        ids = self.integers(below, size)
        for _ in range(self.config.rounds):
            ids = torch.where(is_true(ids), self.integers(below, size), ids)
        return Drawn(ids, ~is_true(ids))


def corrupt_answers(sampler: Sampler, truths: Truths, queries_B: Tensor) -> Drawn:
    """m candidates for each query that are no answers to it; `truths` holds (query, answer)."""
    rows = queries_B[:, None]
    size = (len(queries_B), sampler.config.count)
    return sampler.avoid(truths.width, size, lambda ids: truths.contains(rows, ids))


def corrupt_subsumptions(sampler: Sampler, truths: Truths, pairs: tuple[Tensor, Tensor]) -> tuple[Drawn, Drawn]:
    """m false subsumptions for each (sub, super) [B], either side replaced by the toss of a coin.

    Both results share `valid_BM`; `truths` holds (concept, ancestor), reflexively.
    """
    subs, supers = (side[:, None] for side in pairs)
    size = (len(subs), sampler.config.count)
    below = sampler.coins(size)

    def sides(ids: Tensor) -> tuple[Tensor, Tensor]:
        return torch.where(below, ids, subs), torch.where(below, supers, ids)

    drawn = sampler.avoid(truths.width, size, lambda ids: truths.contains(*sides(ids)))
    first, second = sides(drawn.ids_BM)
    return Drawn(first, drawn.valid_BM), Drawn(second, drawn.valid_BM)


def corrupt_typings(
    sampler: Sampler, truths: Truths, pairs: tuple[Tensor, Tensor], entities: int
) -> tuple[Drawn, Drawn]:
    """m false typings for each (entity, concept) [B]: m/2 with another concept, then m/2 with another entity.

    Both results share `valid_BM`; `truths` holds the closed typings. An odd m has one entity more.
    """
    typed, types = (side[:, None] for side in pairs)
    half, batch = sampler.config.count // 2, len(typed)
    rest = sampler.config.count - half
    concepts = sampler.avoid(truths.width, (batch, half), lambda ids: truths.contains(typed, ids))
    others = sampler.avoid(entities, (batch, rest), lambda ids: truths.contains(ids, types))
    valid = torch.cat([concepts.valid_BM, others.valid_BM], 1)
    first = torch.cat([typed.expand(batch, half), others.ids_BM], 1)
    second = torch.cat([concepts.ids_BM, types.expand(batch, rest)], 1)
    return Drawn(first, valid), Drawn(second, valid)
