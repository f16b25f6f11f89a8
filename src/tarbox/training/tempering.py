"""Fitting what bends degrees into probabilities (`tarbox.models.tempering`) to queries with answers that are known.

The answers may be known in part: a validation graph has half of what a training graph lacks where test facts are the
other half. Of the answers that are true, a `share` is then labelled so, at random, and the labels are fitted by `share`
times a probability.
"""

# ruff: noqa: N803 (shape suffixes, see STYLE.md)

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields
from typing import Final, final

import numpy as np
import torch
from numpy.typing import NDArray
from torch.nn import functional

from tarbox.benchmark.tables import Batch, QueryTable
from tarbox.core.ids import Level
from tarbox.models.calibration import Fit, fit_network
from tarbox.models.credo import Credo
from tarbox.models.tempering import BASIS, Temper, basis

Floats = NDArray[np.float32]

STRONGEST: Final = 64
"""Candidates of a query that a temper is fitted to: what people see are the first of them."""
START: Final = (-1.0, 0.0, -2.0, 0.0)
"""Where the weights of the basis and the shift begin: near the degrees themselves."""
STEPS: Final = 1000
ENOUGH: Final = 50
"""With fewer true candidates degrees are left as they are."""
BLOCK: Final = 256


@final
@dataclass(frozen=True, slots=True)
class Sample:
    """Queries: their surveys [Q, F], the strongest degrees of what is not known [Q, K], and which of these are true;
    a degree of 0 is no candidate.
    """

    surveys: Floats
    degrees: Floats
    true: NDArray[np.bool_]

    @classmethod
    def join(cls, parts: Sequence[Sample]) -> Sample:
        width = min(part.degrees.shape[1] for part in parts)
        cut = [cls(part.surveys, part.degrees[:, :width], part.true[:, :width]) for part in parts]
        return cls(*(np.concatenate([getattr(part, name.name) for part in cut]) for name in fields(cls)))


def sample_strongest(surveys_BF: Floats, open_BN: Floats, true_BN: NDArray[np.bool_]) -> Sample:
    """The strongest candidates of each query, in falling order."""
    width = min(STRONGEST, open_BN.shape[1])
    chosen = np.argpartition(open_BN, -width, axis=1)[:, -width:] if width else np.empty((len(open_BN), 0), np.int64)
    chosen = np.take_along_axis(chosen, np.argsort(-np.take_along_axis(open_BN, chosen, 1), 1, kind="stable"), 1)
    return Sample(surveys_BF, np.take_along_axis(open_BN, chosen, 1), np.take_along_axis(true_BN, chosen, 1))


def fit_temper(parts: Sequence[Sample], share: float, seed: int, device: str) -> Temper | None:
    """The temper under which the labels, `share` of what is true, are likeliest; None where there is too little."""
    if sum(int((part.true & (part.degrees > 0)).sum()) for part in parts) < ENOUGH:
        return None
    sample = Sample.join(parts)
    degrees = torch.from_numpy(basis(sample.degrees).astype(np.float32)).to(device)
    true = torch.from_numpy(sample.true.astype(np.float32)).to(device)
    used = torch.from_numpy((sample.degrees > 0).astype(np.float32)).to(device)

    def loss(weights_BO: torch.Tensor, rows_B: torch.Tensor) -> torch.Tensor:
        scale = functional.softplus(weights_BO[:, None, :BASIS])
        probable = torch.sigmoid((scale * degrees[rows_B]).sum(-1) + weights_BO[:, None, BASIS])
        each = functional.binary_cross_entropy(share * probable, true[rows_B], reduction="none")
        return (each * used[rows_B]).sum() / used[rows_B].sum().clamp(min=1)

    fit = Fit(STEPS, min(256, len(sample.surveys)), 32, START, seed, device)
    return Temper(fit_network(sample.surveys, loss, fit))


def temper_on(reasoner: Credo, table: QueryTable, share: float, seed: int, device: str) -> dict[Level, Temper]:
    """The tempers of both levels by the targets of a table; a level where there is too little has none."""
    found: dict[Level, list[Sample]] = {}
    for batch in table.batches():
        for part in batch.split(BLOCK):
            found.setdefault(batch.level, []).extend(_samples(reasoner, part))
    tempers = {level: fit_temper(parts, share, seed, device) for level, parts in found.items()}
    return {level: temper for level, temper in tempers.items() if temper is not None}


def _samples(reasoner: Credo, batch: Batch) -> Iterator[Sample]:
    surveys, open_ = reasoner.consider(batch.shape, batch.ids, batch.level)
    if open_.size:
        true = np.zeros(open_.shape, np.bool_)
        true[batch.targets.owners(), batch.targets.values] = True
        yield sample_strongest(surveys, open_, true)
