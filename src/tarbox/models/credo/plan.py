"""How long the parts of training take beside each other, said before it begins: what the one estimate is made from.

Costs are seconds of a part on one core, or on a GPU beside 16 (`benchmarks/growth.py` measures the parts): their ratios
matter, since a run measures its own speed.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from tarbox.models.credo.memory import TrainingSize, rivals_of, step_size
from tarbox.models.credo.model import CredoConfig
from tarbox.models.learning.batches import BatchConfig


class _Costs(NamedTuple):
    """Seconds: of a step, of a link in it, of each rival's score in each dimension; of a fact in calibration; of a fact
    in concept scores, and of these in any case; of a fact in predictions; of a concept in subsumptions."""

    step: float
    link: float
    score: float
    calibrated: float
    ranked: float
    ranking: float
    predicted: float
    concept: float


_COSTS: Final = {
    "cpu": _Costs(0.0, 1e-5, 4e-10, 3.2e-4, 9e-5, 4.0, 1.8e-4, 1e-3),
    "cuda": _Costs(3.4e-3, 1.7e-7, 0.0, 2e-5, 2e-6, 10.0, 1.6e-5, 1e-5),
}


def epochs_of(config: CredoConfig, epochs: int) -> tuple[int, int]:
    """Of the link predictor on kept facts, and of each of the two ways in which it goes on."""
    further = max(1, round(config.continued * epochs))
    return max(1, epochs - further), further


def plan(config: CredoConfig, size: TrainingSize, batches: BatchConfig, epochs: int, device: str) -> dict[str, float]:
    """The parts of training in order, with the seconds that each takes beside the others."""
    costs, (first, further) = _COSTS[device], epochs_of(config, epochs)
    nodes = max(size.entities, size.concepts)
    rivals = min(rivals_of(config, size, batches) or nodes, nodes)
    epoch = size.links * (costs.link + costs.score * rivals * config.rank)
    epoch += costs.step * size.links / step_size(size, batches)
    facts = size.assertions + size.typings
    pairs = " of whole pairs" if config.missing == "pairs" else ""
    return {
        "training the link predictor on kept facts": first * epoch,
        "continuing it on kept facts": further * epoch,
        f"fitting calibration on held-out facts{pairs}": costs.calibrated * facts,
        "fitting concept scores": costs.ranking + costs.ranked * facts,
        "continuing the link predictor on all facts": further * epoch,
        "predicting facts": costs.predicted * facts,
        "predicting subsumptions": costs.concept * size.concepts,
    }
