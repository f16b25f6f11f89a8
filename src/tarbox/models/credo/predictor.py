"""What a run keeps of its link predictor, to follow a store that changes; answering never reads it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, final

import numpy as np
import safetensors.numpy
import torch
from numpy.typing import NDArray

from tarbox.core.errors import StoreDamaged, StoreVersion
from tarbox.kb.arrays import Flags, Floats
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
    """Arrays: the embeddings of `nodes` [E + C, 2 rank] and directed `relations`, the `weights` of signatures [F, F],
    all in half precision, and the `concepts` that are columns of these; which entities [E] were `folded` in; the MRR of
    assertions that were held out; the networks of the calibration and the totals of softmaxes."""

    arrays: Mapping[str, NDArray[Any]]

    @classmethod
    def of(
        cls,
        predictor: Complex,
        calibration: FactCalibration,
        evidence: Evidence,
        totals: Totals,
        told: tuple[float, Flags],
    ) -> FittedPredictor:
        tables = {"nodes": predictor.nodes, "relations": predictor.relations, "weights": evidence.signatures.weights}
        return cls(
            {name: table.detach().cpu().numpy().astype(np.float16) for name, table in tables.items()}
            | {"concepts": evidence.signatures.kept, "mrr": np.array([told[0]]), "folded": told[1]}
            | {"totals/keys": totals.keys, "totals/values": totals.values}
            | calibration.links.arrays("links/")
            | calibration.typings.arrays("typings/")
        )

    def floats(self, name: str) -> Floats:
        return self.arrays[name].astype(np.float32)

    @property
    def mrr(self) -> float:
        """NaN where nothing was held out."""
        return float(self.arrays["mrr"][0])

    @property
    def totals(self) -> Totals:
        return Totals(self.arrays["totals/keys"], self.arrays["totals/values"])

    @property
    def calibration(self) -> FactCalibration:
        return FactCalibration(*(Network.of_arrays(self.arrays, prefix) for prefix in ("links/", "typings/")))


def open_predictor(saved: SavedRun) -> FittedPredictor:
    """What a run keeps for updates."""
    file = saved.content / PREDICTOR
    if not file.exists():
        raise StoreVersion(
            f"{saved.path} has no {PREDICTOR}: an earlier version of tarbox trained it. Train it again to update it."
        )
    try:
        return FittedPredictor(safetensors.numpy.load_file(file))
    except safetensors.SafetensorError as error:
        raise StoreDamaged(f"{file} is damaged: {error}. Train the run again.") from None


def build_predictor(config: CredoConfig, sizes: Sizes, tables: Mapping[str, Floats] | None = None) -> Complex:
    """A new predictor, or one with these embeddings."""
    own = (config.rank, config.regularization, config.relation_weight, config.candidates, config.initial)
    found = Complex(ComplexConfig(*own, config.experts), sizes)
    found.load_state_dict({name: torch.from_numpy(table) for name, table in (tables or {}).items()}, strict=False)
    return found


@torch.no_grad()
def mean_reciprocal_rank(predictor: Complex, facts: Facts, asked: Flags) -> float:
    """Of the asked assertions [A], of the tails seen from the heads and the reverse, by score among all entities that
    no fact has there; ties count half. NaN of none."""
    codec, found = TripleKeys(max(len(facts.vocabulary.entities), 1)), [torch.empty(0)]
    ways = (2 * facts.relations + 1, facts.heads, facts.tails), (2 * facts.relations, facts.tails, facts.heads)
    for way in ways:
        known = np.sort(codec.encode(*way))
        columns = np.stack(way, axis=1)[asked].astype(np.int64)
        for start in range(0, len(columns), _RANKED_AT_ONCE):
            own = columns[start : start + _RANKED_AT_ONCE]
            directed, near, goal = torch.from_numpy(own).to(predictor.nodes.device).T
            scores = predictor.scores(predictor.questions(directed, near), predictor.places.entities).float()
            goals = scores.gather(1, goal[:, None])
            first = codec.encode(own[:, 0], own[:, 1], np.zeros(len(own), np.int64))
            low, high = np.searchsorted(known, first), np.searchsorted(known, first + codec.width)
            row, places = ranges(low, high - low)
            scores[torch.from_numpy(row), torch.from_numpy(known[places] % codec.width)] = -torch.inf
            found.append(1 / (1 + (scores > goals).sum(1) + (scores == goals).sum(1) / 2).cpu())
    return float(torch.cat(found).mean())


def draw(flags: Flags, most: int, seed: int) -> Flags:
    """At most so many of those flagged, evenly."""
    found = np.zeros(len(flags), np.bool_)
    found[np.random.default_rng([seed, 5]).permutation(np.flatnonzero(flags))[:most]] = True
    return found
