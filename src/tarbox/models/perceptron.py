"""The network that several models move along a relation by, and where its training begins."""

# ruff: noqa: N803 (shape suffixes)

from __future__ import annotations

from itertools import pairwise
from typing import Final, final

import torch
from torch import Tensor, nn

from tarbox.core.errors import ConfigError
from tarbox.models.sets import widen
from tarbox.models.translation import xavier

STARTS: Final = ("random", "identity")
"""What a projection may begin as; near the identity it learns sooner (docs/baselines.md)."""


def check_start(start: str, hidden: int, dimension: int, what: str) -> None:
    """Refuse a network too narrow for the identity, where it is to begin near it."""
    if start == "identity" and hidden < 2 * dimension:
        raise ConfigError(
            f"hidden = {hidden}: the identity of {dimension} {what} takes at least {2 * dimension}. "
            "Set it, or start = 'random'."
        )


@final
class Perceptron(nn.Module):
    """Some hidden layers of rectifiers of one width, and a linear layer."""

    def __init__(self, inputs: int, hidden: int, layers: int, outputs: int) -> None:
        super().__init__()
        widths = [inputs] + [hidden] * layers
        self.inner = nn.ModuleList(nn.Linear(before, after) for before, after in pairwise(widths))
        self.outer = nn.Linear(hidden, outputs)
        xavier(self)

    def forward(self, values: Tensor) -> Tensor:
        """[..., outputs], in single precision."""
        found = values
        for layer in self.inner:
            found = torch.relu(layer(found))
        return widen(self.outer(found))

    @torch.no_grad()
    def begin_near(self, into_WI: Tensor, out_OW: Tensor, bias_O: Tensor, noise: float) -> None:
        """Begin near the map x -> out relu(into x) + bias, which takes W <= `hidden` units of every layer; so much is
        left of the random weights."""
        width = len(into_WI)
        first, *others, last = weights = [part for part in self.parameters() if part.ndim > 1]
        for weight in weights:
            weight.mul_(noise)
        first[:width].add_(into_WI)
        for weight in others:
            weight[:width, :width].add_(torch.eye(width))
        last[:, :width].add_(out_OW)
        self.outer.bias.copy_(bias_O)
