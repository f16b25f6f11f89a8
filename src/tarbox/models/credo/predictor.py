"""What a run keeps of its link predictor, to follow a store that changes: all that updating needs and answering does
not."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, final

import numpy as np
import safetensors.numpy
import torch
from numpy.typing import NDArray

from tarbox.core.errors import StoreDamaged, StoreVersion
from tarbox.kb.arrays import Flags, Floats, Ids
from tarbox.kb.facts import Facts
from tarbox.kb.rows import TripleKeys, ranges
from tarbox.models.base import Sizes
from tarbox.models.complex import Complex, ComplexConfig
from tarbox.models.credo.candidates import Totals
from tarbox.models.credo.evidence import Evidence
from tarbox.models.credo.holdout import FactCalibration
from tarbox.models.credo.model import CredoConfig
from tarbox.models.credo.network import Network
from tarbox.models.saved import PREDICTOR, SavedRun

MEASURED: Final = 400
"""Assertions, at most, that an MRR is measured on."""
_RANKED_AT_ONCE: Final = 256


@final
@dataclass(frozen=True, slots=True)
class FittedPredictor:
    """Embeddings of nodes [E + C, 2 rank] and directed relations; the calibration of facts; the totals of softmaxes;
    the weights of signatures [F, F], whose columns are the directed relations and these `concepts`; which entities [E]
    were folded in; the MRR of assertions that were held out."""

    nodes: Floats
    relations: Floats
    calibration: FactCalibration
    totals: Totals
    concepts: Ids
    weights: Floats
    folded: Flags
    mrr: float

    @classmethod
    def of(
        cls, predictor: Complex, calibration: FactCalibration, evidence: Evidence, totals: Totals, mrr: float | None
    ) -> FittedPredictor:
        """As training ends."""
        nodes, relations = (table.detach().cpu().numpy() for table in (predictor.nodes, predictor.relations))
        signatures = evidence.signatures
        folded = np.zeros(evidence.sizes.entities, np.bool_)
        weights = signatures.weights.numpy()
        measured = float("nan") if mrr is None else mrr
        return cls(nodes, relations, calibration, totals, signatures.kept, weights, folded, measured)

    def arrays(self) -> dict[str, NDArray[Any]]:
        """For `of_arrays`; the tables in half precision."""
        found: dict[str, NDArray[Any]] = {
            "nodes": self.nodes.astype(np.float16),
            "relations": self.relations.astype(np.float16),
            "totals/keys": self.totals.keys,
            "totals/values": self.totals.values,
            "signatures/concepts": self.concepts,
            "signatures/weights": self.weights.astype(np.float16),
            "folded": self.folded,
            "mrr": np.array([self.mrr]),
        }
        return found | self.calibration.links.arrays("links/") | self.calibration.typings.arrays("typings/")

    @classmethod
    def of_arrays(cls, arrays: Mapping[str, NDArray[Any]]) -> FittedPredictor:
        nodes, relations, weights = (
            arrays[name].astype(np.float32) for name in ("nodes", "relations", "signatures/weights")
        )
        calibration = FactCalibration(Network.of_arrays(arrays, "links/"), Network.of_arrays(arrays, "typings/"))
        totals = Totals(arrays["totals/keys"], arrays["totals/values"])
        concepts, folded, mrr = arrays["signatures/concepts"], arrays["folded"], float(arrays["mrr"][0])
        return cls(nodes, relations, calibration, totals, concepts, weights, folded, mrr)

    def module(self, config: CredoConfig, sizes: Sizes) -> Complex:
        """The predictor, to score with or to go on with."""
        found = Complex(predictor_config(config), sizes)
        with torch.no_grad():
            found.nodes.copy_(torch.from_numpy(self.nodes))
            found.relations.copy_(torch.from_numpy(self.relations))
        return found


def open_predictor(saved: SavedRun) -> FittedPredictor:
    """What a run keeps for updates."""
    file = saved.content / PREDICTOR
    if not file.exists():
        raise StoreVersion(
            f"{saved.path} has no {PREDICTOR}: an earlier version of tarbox trained it. Train it again to update it."
        )
    try:
        return FittedPredictor.of_arrays(safetensors.numpy.load_file(file))
    except (safetensors.SafetensorError, KeyError) as error:
        raise StoreDamaged(f"{file} is damaged: {error}. Train the run again.") from None


def predictor_config(config: CredoConfig) -> ComplexConfig:
    return ComplexConfig(
        config.rank, config.regularization, config.relation_weight, config.candidates, config.initial, config.experts
    )


@torch.no_grad()
def mean_reciprocal_rank(predictor: Complex, facts: Facts, asked: Flags) -> float | None:
    """Of the asked assertions [A], of the tails seen from the heads and the reverse, by score among all entities that
    no fact has there; ties count half. None of none."""
    width, found = max(len(facts.vocabulary.entities), 1), []
    codec = TripleKeys(width)
    ways = (2 * facts.relations + 1, facts.heads, facts.tails), (2 * facts.relations, facts.tails, facts.heads)
    for way in ways:
        known = np.sort(codec.encode(*way))
        columns = [column[asked].astype(np.int64) for column in way]
        for start in range(0, len(columns[0]), _RANKED_AT_ONCE):
            own = [column[start : start + _RANKED_AT_ONCE] for column in columns]
            directed, near, goal = (torch.from_numpy(column).to(predictor.nodes.device) for column in own)
            scores = predictor.scores(predictor.questions(directed, near), predictor.places.entities).float()
            goals = scores.gather(1, goal[:, None])
            first = codec.encode(own[0], own[1], np.zeros(len(near), np.int64))
            low, high = np.searchsorted(known, first), np.searchsorted(known, first + width)
            row, places = ranges(low, high - low)
            scores[torch.from_numpy(row), torch.from_numpy(known[places] % width)] = -torch.inf
            found.append(1 / (1 + (scores > goals).sum(1) + (scores == goals).sum(1) / 2))
    return float(torch.cat(found).mean()) if found else None


def draw(flags: Flags, most: int, seed: int) -> Flags:
    """At most so many of those flagged, evenly."""
    found = np.zeros(len(flags), np.bool_)
    found[np.random.default_rng([seed, 5]).permutation(np.flatnonzero(flags))[:most]] = True
    return found
