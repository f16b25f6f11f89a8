"""A second look at the entities that a query's fuzzy set puts first.

The t-norm takes the facts of a proof as independent, and the strongest way to an entity as the only one; taking them
together, with what else is known of the query, corrects both. The network that does so has rehearsed it, so that the
degrees of answers to longer queries are probabilities, too.
"""

# ruff: noqa: N803, N815 (shape suffixes, see STYLE.md)

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, final

import numpy as np
from numpy.typing import NDArray

from tarbox.execution.graph import Index
from tarbox.execution.interpreter import evaluate
from tarbox.models.calibration import Calibrator, sigmoid
from tarbox.models.counting import PriorAlgebra, Priors
from tarbox.models.describing import Asked
from tarbox.query.algebra import slots

Floats = NDArray[np.float32]

SHORTLIST: Final = 64
"""How many entities of a query are looked at again."""
FEATURES: Final = 9


@final
@dataclass(frozen=True, slots=True)
class Shortlist:
    """Entities [B, K] that are not known answers, strongest first, with features [B, K, F]; `valid` where one is."""

    entities_BK: NDArray[np.int64]
    features_BKF: Floats
    valid_BK: NDArray[np.bool_]


@final
@dataclass(frozen=True, slots=True)
class Elector:
    """The facts, prepared: how often entities end relations, and how many facts they have."""

    index: Index
    priors: Priors
    facts: Floats

    @classmethod
    def of(cls, index: Index, priors: Priors) -> Elector:
        ends = np.concatenate([index.facts.heads, index.facts.tails])
        return cls(index, priors, np.log1p(np.bincount(ends, minlength=index.entities)).astype(np.float32))

    def shortlist(self, asked: Asked, together_BE: Floats) -> Shortlist:
        """From the queries' sets by the strongest way, and by all ways together."""
        open_ = asked.sets_BE.copy()
        open_[asked.entities.coordinates()] = -1.0
        width = min(SHORTLIST, open_.shape[1])
        rows = np.arange(len(open_))[:, None]
        chosen = np.argpartition(open_, -width, axis=1)[:, -width:]
        chosen = np.take_along_axis(chosen, np.argsort(-open_[rows, chosen], axis=1, kind="stable"), 1)
        strength = open_[rows, chosen]
        first, count = np.log(1e-9 + np.maximum(strength, 0.0)), np.log1p(asked.entities.sizes())[:, None]
        features = np.empty((*chosen.shape, FEATURES), np.float32)
        features[:, :, 0] = first
        features[:, :, 1] = np.log(1e-9 + together_BE[rows, chosen])
        features[:, :, 2] = first - first[:, :1]
        features[:, :, 3] = np.log(1e-6 + self._prior(asked)[rows, chosen])
        features[:, :, 4] = count
        features[:, :, 5] = np.log1p(np.maximum(open_, 0.0).sum(1))[:, None]
        features[:, :, 6] = np.log1p(np.arange(width))
        features[:, :, 7] = self.facts[chosen]
        features[:, :, 8] = self._likeness(asked, chosen)
        return Shortlist(chosen, features, strength > 0)

    def _prior(self, asked: Asked) -> NDArray[np.float64]:
        """[B, E] how often each entity ends the last relation; the greatest is 1."""
        columns = {slot.name: asked.ids[:, place] for place, slot in enumerate(slots(asked.shape))}
        prior = evaluate(asked.shape, PriorAlgebra(self.priors, columns))
        if prior is None:
            return np.zeros(asked.sets_BE.shape)
        found = prior()
        relative: NDArray[np.float64] = found / np.maximum(found.max(1, initial=0.0, keepdims=True), 1e-12)
        return relative

    def _likeness(self, asked: Asked, chosen: NDArray[np.int64]) -> Floats:
        """[B, K] the mean share of the known answers that have a concept, over the concepts of each entity."""
        coverage = np.zeros((len(chosen), self.index.concepts), np.float32)
        coverage[asked.concepts.coordinates()] = asked.counts
        coverage /= np.maximum(asked.entities.sizes(), 1)[:, None]
        origin, concepts = self.index.instances.concepts_of.gather(chosen.ravel().astype(np.int32))
        sums = np.bincount(origin, coverage[origin // chosen.shape[1], concepts], chosen.size)
        counts = np.bincount(origin, minlength=chosen.size)
        return (sums / np.maximum(counts, 1)).reshape(chosen.shape).astype(np.float32)


def elect(asked: Asked, listed: Shortlist, network: Calibrator) -> Floats:
    """[B, E] the sets with the degrees of the network for the shortlist; what is behind it stays behind."""
    shape = listed.features_BKF.shape
    degrees = sigmoid(network.logits(listed.features_BKF.reshape(-1, shape[2]))).reshape(shape[:2])
    rows = np.arange(shape[0])[:, None]
    least = np.where(listed.valid_BK, degrees, 1.0).min(1, initial=1.0)
    edge = np.maximum(asked.sets_BE[rows, listed.entities_BK[:, -1:]], 1e-9)
    found = asked.sets_BE * (least[:, None] / np.maximum(edge, least[:, None]))
    found[rows, listed.entities_BK] = np.where(listed.valid_BK, degrees, found[rows, listed.entities_BK])
    found[asked.entities.coordinates()] = asked.sets_BE[asked.entities.coordinates()]
    result: Floats = found.astype(np.float32)
    return result
