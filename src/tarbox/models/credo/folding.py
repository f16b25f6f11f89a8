"""Folding in: embeddings of what a trained link predictor has not seen, from its own facts, with all others fixed.

The loss is the predictor's own (`tarbox.models.complex.Complex.loss`) over the links that touch a new name. For one
new node, with all others fixed, it is convex: where the steps begin does not matter, and some epochs suffice.
"""

# ruff: noqa: N803 (shape suffixes)

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final, final

import torch
from numpy.typing import NDArray
from torch import Tensor

from tarbox.kb.arrays import Flags
from tarbox.kb.facts import Facts
from tarbox.models.complex import Complex
from tarbox.models.learning.batches import BatchConfig, Portions
from tarbox.models.learning.negatives import NegativesConfig, Sampler
from tarbox.models.links import link_sources

EPOCHS: Final = 5
"""Over the links that touch a new name, at least."""
_BATCH: Final = 1024
_STEPS: Final = 60
"""The fewest steps of one folding, where the links are few."""
_RATE: Final = 0.25
"""Of Adagrad, at first; it falls to 0. More than in training: what is fixed around the new names is learnt already."""


@final
@dataclass(frozen=True, slots=True)
class Unseen:
    """The nodes [E + C] and the directed relations [2R + 3] that have no embedding yet."""

    nodes: Flags
    relations: Flags

    def touch(self, links_L3: NDArray[Any]) -> Flags:
        """[L] which links have an end or a relation among them."""
        relation, near, far = links_L3.T
        found: Flags = self.relations[relation] | self.nodes[near] | self.nodes[far]
        return found


@final
class Folding:
    """Gives what is unseen embeddings that fit its facts; those of all else stay as they are, to the bit."""

    def __init__(self, predictor: Complex, unseen: Unseen, seed: int) -> None:
        device = predictor.nodes.device
        self._predictor, self._unseen, self._seed = predictor, unseen, seed
        self._sampler = Sampler(NegativesConfig(), torch.Generator(device).manual_seed(seed))
        tables = (predictor.nodes, unseen.nodes), (predictor.relations, unseen.relations)
        self._learnt = [
            (table, torch.from_numpy(free).to(device), torch.zeros_like(table)) for table, free in tables if free.any()
        ]

    def fit(self, facts: Facts, span: tuple[float, float] = (0.0, 1.0), epochs: int = EPOCHS) -> None:
        """Epochs over the links of these facts that touch what is unseen; `span` is which share of all of them."""
        predictor = self._predictor
        sources = link_sources(facts, predictor.config.candidates, predictor.nodes.device, self._unseen.touch)
        if not sources:  # nothing is unseen
            return
        tables = [table for table, _, _ in self._learnt]
        portions = Portions(sources, BatchConfig(size=_BATCH), predictor.nodes.device)
        epochs = max(epochs, -(-_STEPS // portions.steps))
        for epoch in range(round(span[0] * epochs), round(span[1] * epochs)):
            portions.begin(self._seed, epoch, 0)
            for _ in range(portions.steps):
                drawn = zip(sources, portions.advance(), strict=True)
                losses = [source.loss(predictor, source.draw(rows, self._sampler)) for source, rows in drawn]
                gradients = torch.autograd.grad(sum(losses[1:], losses[0]), tables)
                for learnt, gradient in zip(self._learnt, gradients, strict=True):
                    _descend(*learnt, gradient, _RATE * (1 - epoch / epochs))


@torch.no_grad()
def _descend(table: Tensor, free: Tensor, square: Tensor, gradient: Tensor, rate: float) -> None:
    """Adagrad's step of the free rows."""
    if gradient.is_sparse:
        gradient = gradient.coalesce()
        rows, values = gradient.indices()[0], gradient.values()
        chosen = free[rows]
        rows, values = rows[chosen], values[chosen]
    else:
        rows = free.nonzero()[:, 0]
        values = gradient[rows]
    sums = square[rows].addcmul_(values, values)
    square[rows] = sums
    table[rows] = table[rows] - rate * values / (sums.sqrt() + 1e-10)
