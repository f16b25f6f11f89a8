"""Links as training samples: assertions and subsumptions in both directions, and typings under closure.

A link predictor learns from them by cross entropy over all nodes that a link could lead to, so there are no negatives
to draw; where its settings limit the rivals, they are drawn once for a whole step.
"""

# ruff: noqa: N803 (shape suffixes, see STYLE.md)

from __future__ import annotations

from typing import Protocol, cast, final

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from tarbox.kb.closure import Instances
from tarbox.kb.facts import Facts
from tarbox.models.base import Task
from tarbox.models.complex import Places
from tarbox.models.learning.batches import Draw, Source
from tarbox.models.learning.negatives import Sampler
from tarbox.models.learning.objective import Objective
from tarbox.models.saved import sizes_of

Links = NDArray[np.int32]


class LinkPredictor(Protocol):
    """A module that learns from links."""

    def loss(self, links_B3: Tensor, reached: slice, rivals_K: Tensor | None) -> Tensor:
        """The mean over links (relation, from, to) to the nodes `reached`; `rivals_K` are those drawn, all if None."""
        ...


def links_of(facts: Facts) -> Links:
    """[L, 3] all links (directed relation, from, to) over nodes; see `tarbox.models.complex.Places`."""
    places = Places(sizes_of(facts))
    heads, relations, tails = facts.heads, facts.relations, facts.tails
    typed, types = Instances.of(facts).concepts_of.coordinates()
    asserted = [(2 * relations, tails, heads), (2 * relations + 1, heads, tails)]
    typings = (np.full(len(typed), places.concepts_of), typed, types + places.sizes.entities)
    below, above = facts.subs + places.sizes.entities, facts.supers + places.sizes.entities
    wider = (np.full(len(below), places.wider), below, above)
    narrower = (np.full(len(below), places.narrower), above, below)
    return np.concatenate([np.stack(part, axis=1) for part in (*asserted, typings, wider, narrower)]).astype(np.int32)


def link_sources(facts: Facts, rivals: int, device: torch.device) -> list[Source]:
    """The links to entities, and those to concepts; `rivals` of them are drawn for each step (0: all are)."""
    links, places = links_of(facts), Places(sizes_of(facts))
    to_concept = links[:, 0] >= places.concepts_of
    parts = (
        (Task.ENTITY, links[~to_concept], places.entities),
        (Task.INSTANTIATION, links[to_concept], places.concepts),
    )
    return [
        LinkSource(task, torch.from_numpy(part).to(device), reached, rivals)
        for task, part, reached in parts
        if len(part)
    ]


@final
class LinkSource(Source):
    """Links [L, 3] that lead to one kind of node."""

    def __init__(self, task: Task, links_L3: Tensor, reached: slice, rivals: int) -> None:
        self.name, self.task = f"links: {task.value}", task
        self._links_L3, self._reached = links_L3, reached
        width = reached.stop - reached.start
        self._rivals = rivals if rivals < width else 0

    def __len__(self) -> int:
        return len(self._links_L3)

    def draw(self, rows_B: Tensor, sampler: Sampler) -> Draw:
        """`first` are the links [B, 3], `second` the rivals [K] drawn; none drawn means all."""
        width = self._reached.stop - self._reached.start
        rivals = sampler.integers(width, (self._rivals,)) + self._reached.start
        return Draw(self._links_L3[rows_B].long(), rivals, rivals)

    def cells(self, negatives: int) -> int:  # noqa: ARG002
        return self._rivals or self._reached.stop - self._reached.start

    def loss(self, module: nn.Module, draw: Draw, objective: Objective) -> Tensor:  # noqa: ARG002
        """`module` is a `LinkPredictor`."""
        predictor = cast(LinkPredictor, module)
        return predictor.loss(draw.first, self._reached, draw.second if self._rivals else None)
