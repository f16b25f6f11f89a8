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
    """Seconds: of a step, of a link in it, of each rival's score in each dimension; of a fact in calibration, in
    predictions, and in either for each dimension; of a fact in concept scores, and of these in any case; of a concept
    in subsumptions."""

    step: float
    link: float
    score: float
    calibrated: float
    predicted: float
    dimension: float
    ranked: float
    ranking: float
    concept: float


_COSTS: Final = {
    "cpu": _Costs(
        step=0.0,
        link=1e-05,
        score=4e-10,
        calibrated=0.0003,
        predicted=0.00017,
        dimension=1.1e-06,
        ranked=8e-05,
        ranking=4.0,
        concept=0.001,
    ),
    "cuda": _Costs(
        step=0.0034,
        link=1.7e-07,
        score=0.0,
        calibrated=2e-05,
        predicted=1.6e-05,
        dimension=0.0,
        ranked=2e-06,
        ranking=10.0,
        concept=1e-05,
    ),
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
    facts, dimensions = size.assertions + size.typings, costs.dimension * config.rank
    pairs = " of whole pairs" if config.missing == "pairs" else ""
    return {
        "training the link predictor on kept facts": first * epoch,
        "continuing it on kept facts": further * epoch,
        f"fitting calibration on held-out facts{pairs}": (costs.calibrated + dimensions) * facts,
        "fitting concept scores": costs.ranking + costs.ranked * facts,
        "continuing the link predictor on all facts": further * epoch,
        "predicting facts": (costs.predicted + dimensions) * facts,
        "predicting subsumptions": costs.concept * size.concepts,
    }
