"""From features to probabilities: a small network fitted by maximum likelihood, so that its degrees are frequencies.

Of the samples with degree 0.8, some 80% are true: cross entropy, a proper scoring rule, is least exactly then.
Fitting uses torch; what was fitted is plain arrays, so that answering does not.
"""

# ruff: noqa: N803 (shape suffixes, see STYLE.md)

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, final

import numpy as np
from numpy.typing import NDArray

from tarbox.models.probabilities import share_out

if TYPE_CHECKING:
    import torch

Floats = NDArray[np.float32]

HIDDEN: Final = 32
ENOUGH: Final = 200
"""With fewer true samples than this the network has no hidden layer."""
BATCH: Final = 1 << 14
RATE: Final = 1e-2
"""The learning rate at first; it falls to 0 by a cosine."""
BLOCK: Final = 1 << 14
"""Rows whose hidden units are in a processor's own memory while the next layer reads them."""
MEASURED: Final = 200_000
"""Rows, or somewhat more, that tell means and deviations."""


@final
@dataclass(frozen=True, slots=True)
class Calibrator:
    """Standardises features [N, F] and maps them to logits [N]; `layers` are weights [out, in] and biases in turn.

    >>> Calibrator(np.zeros(1, np.float32), np.ones(1, np.float32), (np.eye(1, dtype=np.float32), np.zeros(1))).degrees(
    ...     np.array([[0.0]], np.float32)).tolist()
    [0.5]
    """

    mean: Floats
    deviation: Floats
    layers: tuple[Floats, ...]

    def logits(self, features_NF: Floats) -> Floats:
        """[N], the first of the outputs."""
        return self.outputs(features_NF)[:, 0]

    def outputs(self, features_NF: Floats) -> Floats:
        """[N, O], a block at a time, on all processors where they are many."""
        out = np.empty((len(features_NF), len(self.layers[-1])), np.float32)

        def work(rows: slice) -> None:
            for start in range(rows.start, rows.stop, BLOCK):
                block = slice(start, min(start + BLOCK, rows.stop))
                out[block] = self._outputs(features_NF[block])

        share_out(work, *features_NF.shape)
        return out

    def degrees(self, features_NF: Floats) -> Floats:
        """[N] probabilities."""
        return sigmoid(self.logits(features_NF))

    def _outputs(self, features_NF: Floats) -> Floats:
        found = (features_NF - self.mean) / self.deviation
        for place in range(0, len(self.layers), 2):
            found = found @ self.layers[place].T + self.layers[place + 1]
            if place + 2 < len(self.layers):
                np.maximum(found, 0, out=found)
        return found

    def arrays(self, prefix: str) -> dict[str, NDArray[Any]]:
        """What `of_arrays` reads, with names under a prefix."""
        named = {"mean": self.mean, "deviation": self.deviation}
        named |= {f"layer{place}": layer for place, layer in enumerate(self.layers)}
        return {f"{prefix}{name}": array for name, array in named.items()}

    @classmethod
    def of_arrays(cls, arrays: Mapping[str, NDArray[Any]], prefix: str) -> Calibrator:
        count = sum(name.startswith(f"{prefix}layer") for name in arrays)
        layers = tuple(arrays[f"{prefix}layer{place}"] for place in range(count))
        return cls(arrays[f"{prefix}mean"], arrays[f"{prefix}deviation"], layers)


def sigmoid(logits: Floats) -> Floats:
    found: Floats = (0.5 * np.tanh(0.5 * logits) + 0.5).astype(np.float32)
    return found


def fit_calibrator(features_NF: Floats, true_N: NDArray[np.bool_], seed: int, device: str = "cpu") -> Calibrator:
    """By cross entropy over all samples; without any, nothing is predicted."""
    import torch
    from torch.nn import functional

    labels = torch.from_numpy(true_N.astype(np.float32)).to(device)

    def loss(logits: torch.Tensor, rows: torch.Tensor) -> torch.Tensor:
        return functional.binary_cross_entropy_with_logits(logits, labels[rows])

    count = len(features_NF)
    steps = max(300, min(3000, 6 * count // BATCH)) if count else 0
    start = (logit(float(true_N.mean()) if count else 0.0),)
    hidden = HIDDEN if int(true_N.sum()) >= ENOUGH else 0
    return fit_network(features_NF, loss, Fit(steps, min(BATCH, max(count, 1)), hidden, start, seed, device))


def logit(share: float) -> float:
    """Of a share, which may be 0 or 1."""
    held = min(max(share, 1e-6), 1 - 1e-6)
    return float(np.log(held / (1 - held)))


@final
@dataclass(frozen=True, slots=True)
class Fit:
    """How a network is fitted: `steps` of `batch` rows, `hidden` units (0: none); outputs begin at `start`."""

    steps: int
    batch: int
    hidden: int
    start: tuple[float, ...]
    seed: int
    device: str


def fit_network(
    features_NF: Floats, loss: Callable[[torch.Tensor, torch.Tensor], torch.Tensor], fit: Fit
) -> Calibrator:
    """The network with least `loss(outputs, rows [b])` over rows drawn at random; features may be [N, K, F] too.

    Outputs are [b, O], or [b] where there is one.
    """
    import torch

    from tarbox.models.recording import Recorded

    mean, deviation = _moments(features_NF.reshape(-1, features_NF.shape[-1]))
    inputs = ((torch.from_numpy(features_NF) - torch.from_numpy(mean)) / torch.from_numpy(deviation)).to(fit.device)
    network = _build(inputs.shape[-1], fit.hidden, fit.start, fit.seed).to(fit.device)
    random, on_gpu = torch.Generator(fit.device).manual_seed(fit.seed), fit.device != "cpu"
    rate = torch.tensor(RATE, device=fit.device)
    optimizer = torch.optim.Adam(network.parameters(), lr=rate, fused=on_gpu, capturable=on_gpu)

    def step() -> None:
        rows = torch.randint(len(inputs), (fit.batch,), generator=random, device=fit.device)
        found = loss(network(inputs[rows]).squeeze(-1), rows)
        optimizer.zero_grad()
        found.backward()  # type: ignore[no-untyped-call]
        optimizer.step()

    run = Recorded(step, random) if on_gpu else step
    for done in range(fit.steps):
        rate.fill_(RATE * (0.5 + 0.5 * math.cos(math.pi * done / fit.steps)))
        run()
    layers = tuple(parameter.detach().cpu().numpy() for parameter in network.parameters())
    return Calibrator(mean, deviation, layers)


def _moments(features_NF: Floats) -> tuple[Floats, Floats]:
    """[F] each: means and deviations of rows spread over all, 0 and 1 of nothing; one of 0 is no divisor."""
    if not len(features_NF):
        return np.zeros(features_NF.shape[1], np.float32), np.ones(features_NF.shape[1], np.float32)
    some = features_NF[:: max(1, len(features_NF) // MEASURED)]
    mean, deviation = some.mean(0, dtype=np.float64), some.std(0, dtype=np.float64)
    return mean.astype(np.float32), np.maximum(deviation, 1e-3).astype(np.float32)


def _build(width: int, hidden: int, start: tuple[float, ...], seed: int) -> torch.nn.Sequential:
    """Two hidden layers or none; the same for the same seed. It begins near `start` for everything."""
    import torch
    from torch import nn

    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        last = nn.Linear(hidden or width, len(start))
        first = [nn.Linear(width, hidden), nn.ReLU(), nn.Linear(hidden, hidden), nn.ReLU()] if hidden else []
    with torch.no_grad():
        last.weight.mul_(0.1)
        last.bias.copy_(torch.tensor(start))
    return nn.Sequential(*first, last)
