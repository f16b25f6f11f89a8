"""A plain embedding of classes as balls, in the manner of ELEm (Kulmanov et al., 2019): a rival in TBox completion.

A class is a ball, `A SubClassOf B` says that the ball of A lies in that of B, and `A SubClassOf p some B` that the ball
of A, moved by the vector of p, meets that of B. What is not said is drawn at random, for both kinds, and pushed out.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional


@final
@dataclass(frozen=True, slots=True)
class BallSettings:
    """`negatives` classes are drawn for each axiom of a batch."""

    dimension: int = 64
    margin: float = 0.5
    rate: float = 1e-2
    epochs: int = 20
    batch: int = 4096
    negatives: int = 8


@final
class Balls:
    """Centres [C, D] within the unit ball, radii [C] and a vector for each relation [R, D]."""

    def __init__(self, classes: int, relations: int, settings: BallSettings, seed: int) -> None:
        random = torch.Generator().manual_seed(seed)
        self.settings, self.random, self.classes = settings, random, classes
        self.centres = torch.nn.functional.normalize(torch.randn(classes, settings.dimension, generator=random))
        self.radii = 0.1 * torch.rand(classes, generator=random)
        self.vectors = 0.1 * torch.randn(max(relations, 1), settings.dimension, generator=random)

    def fit(self, subsumptions: NDArray[np.int64], links: NDArray[np.int64]) -> None:
        """Subsumptions [S, 2] of (sub, super), links [L, 3] of (class, relation, class)."""
        parameters = [self.centres, self.radii, self.vectors]
        for parameter in parameters:
            parameter.requires_grad_(True)
        optimizer = torch.optim.Adam(parameters, self.settings.rate)
        nothing = np.full(len(subsumptions), -1)
        told = np.concatenate([np.stack([subsumptions[:, 0], nothing, subsumptions[:, 1]], 1), links.reshape(-1, 3)])
        axioms = torch.from_numpy(told.astype(np.int64))
        steps = -(-len(axioms) // self.settings.batch)
        schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, steps * self.settings.epochs)
        for _ in range(self.settings.epochs):
            for rows in torch.split(torch.randperm(len(axioms), generator=self.random), self.settings.batch):
                optimizer.zero_grad()
                self._loss(axioms[rows]).backward()  # type: ignore[no-untyped-call]
                optimizer.step()
                schedule.step()
        for parameter in parameters:
            parameter.requires_grad_(False)

    def _loss(self, axioms: Tensor) -> Tensor:
        below, relation, above = axioms.unbind(1)
        drawn = torch.randint(self.classes, (len(axioms), self.settings.negatives), generator=self.random)
        linked = relation >= 0
        moved = functional.embedding(below, self.centres)
        moved = moved + linked[:, None] * functional.embedding(relation.clamp(min=0), self.vectors)
        own, margin = self.radii[below].abs(), self.settings.margin
        sign = torch.where(linked, -1.0, 1.0)  # inside for a subsumption; meeting for a link
        near = (moved - functional.embedding(above, self.centres)).norm(dim=1)
        far = (moved[:, None] - functional.embedding(drawn, self.centres)).norm(dim=2)
        said = functional.relu(near + sign * own - self.radii[above].abs()).mean()
        unsaid = functional.relu(margin - far - sign[:, None] * own[:, None] + self.radii[drawn].abs()).mean()
        outside = functional.relu(functional.embedding(below, self.centres).norm(dim=1) - 1).mean()
        return said + unsaid + outside

    def scores(self, classes: NDArray[np.int64]) -> NDArray[np.float32]:
        """[B, C] how far each class is inside every other: greater is deeper."""
        own = torch.from_numpy(classes)
        found = self.radii.abs()[None] - torch.cdist(self.centres[own], self.centres) - self.radii.abs()[own][:, None]
        return found.numpy()

    def nearness(self, classes: NDArray[np.int64]) -> NDArray[np.float32]:
        """[B, C] the negative distance of the centres."""
        return -torch.cdist(self.centres[torch.from_numpy(classes)], self.centres).numpy()
