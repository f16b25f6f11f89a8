"""Links as training samples: assertions and subsumptions in both directions, and typings.

A link predictor learns from them by cross entropy over all nodes that a link could lead to, so there are no negatives
to draw; where its settings limit the candidates, they are drawn once for a whole step. Of a typing an epoch takes the
asserted concept or one of its super-concepts, at random: its length depends on what is asserted, not on what follows.
"""

# ruff: noqa: N803 (shape suffixes)

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, NamedTuple, Protocol, cast, final

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from tarbox.kb.arrays import Flags
from tarbox.kb.closure import Hierarchy
from tarbox.kb.facts import Facts
from tarbox.models.base import Task
from tarbox.models.complex import NodePlaces
from tarbox.models.learning.batches import Draw, SampleSource
from tarbox.models.learning.negatives import Sampler
from tarbox.models.learning.objective import Objective
from tarbox.models.saved import sizes_of

_DENSE: Final = 50_000
"""With more nodes than this the rows that a step touches are updated alone."""


class LinkPredictor(Protocol):
    """A module that learns from links."""

    def loss(
        self,
        links_B3: Tensor,
        reached: slice,
        candidates_K: Tensor | None,
        sparse: bool = False,
        share: float = 1.0,
    ) -> Tensor:
        """The mean over links (relation, from, to) to the nodes `reached`, of which these candidates are drawn (all if
        None), and which stand for `share` times as many; with `sparse` the gradient is of the rows that take part
        alone."""
        ...


class Rivals(NamedTuple):
    """What a link is compared with: so many of the nodes `reached`, `drawn` for each step (0: all of them). They stand
    for `share` times as many."""

    reached: slice
    drawn: int
    share: float = 1.0

    @property
    def width(self) -> int:
        return int(self.reached.stop - self.reached.start)

    @property
    def limit(self) -> int:
        """How many are drawn, where these are fewer than all."""
        return self.drawn if self.drawn < self.width else 0


class Lifts(NamedTuple):
    """Links by the relation `typing` lead to a concept or to one above it: of concept c, those of `above` from
    `offsets[c]` on."""

    typing: int
    offsets: Tensor
    above: Tensor


def link_sources(
    facts: Facts,
    candidates: int,
    device: torch.device,
    chosen: Callable[[NDArray[np.int32]], Flags] | None = None,
) -> list[LinkSource]:
    """The links to entities, and those to concepts; `candidates` are drawn for each step (0: all are). Where some
    links [L, 3] are `chosen`, gradients are of the rows that take part alone."""
    places = NodePlaces(sizes_of(facts))
    first, heads, relations, tails = places.sizes.entities, facts.heads, facts.relations, facts.tails
    below, above = facts.subs + first, facts.supers + first
    to_entities = _stack((2 * relations, tails, heads), (2 * relations + 1, heads, tails))
    tree = Hierarchy.of(facts.subs, facts.supers, places.sizes.concepts)
    wider = (np.full(len(below), places.wider), below, above)
    to_concepts = _stack(
        _repeat_typings(facts, tree, places), wider, (np.full(len(below), places.narrower), above, below)
    )
    if chosen is not None:
        to_entities, to_concepts = (part[chosen(part)] for part in (to_entities, to_concepts))
    sparse = chosen is not None or places.nodes > _DENSE
    closed = (torch.from_numpy(array).to(device) for array in (tree.ancestors.offsets, tree.ancestors.columns))
    parts = (
        (Task.ENTITY, to_entities, places.entities, None),
        (Task.INSTANTIATION, to_concepts, places.concepts, Lifts(places.concepts_of, *closed)),
    )
    return [
        LinkSource(task, torch.from_numpy(part).to(device), Rivals(reached, candidates), sparse, lifts)
        for task, part, reached, lifts in parts
        if len(part)
    ]


def _repeat_typings(facts: Facts, tree: Hierarchy, places: NodePlaces) -> tuple[NDArray[Any], ...]:
    """The links to concepts; those with super-concepts to draw twice, unless typings outnumber the assertions."""
    often = 2 if len(facts.types) <= 2 * len(facts.heads) else 1
    times = np.minimum(tree.ancestors.sizes()[facts.types], often) if len(facts.types) else facts.types
    typed, types = np.repeat(facts.typed, times), np.repeat(facts.types, times)
    return np.full(len(typed), places.concepts_of), typed, types + places.sizes.entities


def _stack(*parts: tuple[NDArray[Any], ...]) -> NDArray[np.int32]:
    return np.concatenate([np.stack(part, axis=1) for part in parts]).astype(np.int32)


def lift(concepts_B: Tensor, closed: tuple[Tensor, Tensor], sampler: Sampler) -> Tensor:
    """[B] the concepts, or one above each, at random: `closed` are the offsets and columns of all ancestors."""
    offsets, above = closed
    sizes = offsets[concepts_B + 1] - offsets[concepts_B]
    place = offsets[concepts_B] + (sampler.fractions((len(concepts_B),)) * sizes).long().minimum(sizes - 1)
    return above[place].long()


@final
class LinkSource(SampleSource):
    """Links [L, 3] that lead to one kind of node, by any relation."""

    def __init__(
        self, task: Task, links_L3: Tensor, rivals: Rivals, sparse: bool = False, lifts: Lifts | None = None
    ) -> None:
        self.name, self.task = f"links: {task.value}", task
        self.links_L3, self.rivals, self.sparse, self.lifts = links_L3, rivals, sparse, lifts

    def __len__(self) -> int:
        return len(self.links_L3)

    def draw(self, rows_B: Tensor, sampler: Sampler) -> Draw:
        """`first` are the links [B, 3], `second` the candidates [K] drawn; none drawn means all."""
        candidates = sampler.integers(self.rivals.width, (self.rivals.limit,)) + self.rivals.reached.start
        return Draw(self.lift(self.links_L3[rows_B].long(), sampler), candidates, candidates)

    def lift(self, links_B3: Tensor, sampler: Sampler) -> Tensor:
        """Links as they are, and typings with the concept or one above it."""
        if self.lifts is None:
            return links_B3
        typing, offsets, above = self.lifts
        first = self.rivals.reached.start
        lifted = (lift(links_B3[:, 2].long() - first, (offsets, above), sampler) + first).to(links_B3.dtype)
        reached = torch.where(links_B3[:, 0] == typing, lifted, links_B3[:, 2])
        return torch.stack([links_B3[:, 0], links_B3[:, 1], reached], 1)

    def cells(self, negatives: int) -> int:  # noqa: ARG002
        return self.rivals.limit or self.rivals.width

    def loss(self, module: nn.Module, draw: Draw, objective: Objective | None = None) -> Tensor:  # noqa: ARG002
        """`module` is a `LinkPredictor`."""
        predictor, rivals = cast(LinkPredictor, module), self.rivals
        candidates = draw.second if rivals.limit else None
        return predictor.loss(draw.first, rivals.reached, candidates, sparse=self.sparse, share=rivals.share)
