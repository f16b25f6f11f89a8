"""Calibration: a small network from features to probabilities, fitted by maximum likelihood.

Of the samples with probability 0.8, some 80% are true: cross entropy, a proper scoring rule, is least exactly then.
Fitting uses torch; what was fitted is plain arrays, so that answering does not.
"""

# ruff: noqa: N803 (shape suffixes)

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, final

import numpy as np
from numpy.typing import NDArray

from tarbox.core.errors import StoreVersion
from tarbox.kb.arrays import Flags, Floats, Places
from tarbox.models.credo.kernels import share_out
from tarbox.models.learning.progress import TellShare, unheard

if TYPE_CHECKING:
    import torch


CALIBRATION_UNITS: Final = 32
"""Of each of the two hidden layers of a calibration of facts."""
ODDS_BELIEVED: Final = 0.75
"""How much of the odds of an estimated probability is believed; 1 would be all (docs/credo.md has how it was chosen)"""
CERTAIN: Final = 0.98
"""No prediction is more probable."""
_POSITIVES: Final = 200
"""With fewer true samples than this a network has no hidden layer."""
_BATCH: Final = 1 << 14
_RATE: Final = 1e-2
"""The learning rate at first; it falls to 0 by a cosine."""
_CACHED: Final = 1 << 14
"""Rows whose hidden units are in a processor's own memory while the next layer reads them."""
_TOLD: Final = 100
"""Steps between two times that it is told how many are done."""
_MOMENTS: Final = 200_000
"""Rows, or somewhat more, that tell means and deviations."""


@final
@dataclass(frozen=True, slots=True)
class Network:
    """Standardises features [N, F] and maps them to logits [N]; `layers` are weights [out, in] and biases in turn,
    `effects` [G, 2] those of groups of samples on their odds (`adjust`).

    >>> Network(np.zeros(1, np.float32), np.ones(1, np.float32), (np.eye(1, dtype=np.float32), np.zeros(1))).apply(
    ...     np.array([[0.0]], np.float32)).tolist()
    [0.5]
    """

    mean: Floats
    deviation: Floats
    layers: tuple[Floats, ...]
    effects: Floats = field(default_factory=lambda: np.zeros((1, 2), np.float32))

    def apply(self, features_NF: Floats, group: Places | int = 0) -> Floats:
        """[N] probabilities."""
        return adjust(self.logits(features_NF), self.effects[group])

    def logits(self, features_NF: Floats) -> Floats:
        """[N], a block at a time, on all processors where they are many."""
        out = np.empty(len(features_NF), np.float32)

        def work(rows: slice) -> None:
            found = (features_NF[rows] - self.mean) / self.deviation
            for place in range(0, len(self.layers), 2):
                found = found @ self.layers[place].T + self.layers[place + 1]
                if place + 2 < len(self.layers):
                    np.maximum(found, 0, out=found)
            out[rows] = found[:, 0]

        share_out(work, len(features_NF), _CACHED)
        return out

    def arrays(self, prefix: str) -> dict[str, NDArray[Any]]:
        """What `of_arrays` reads, with names under a prefix."""
        named = {"mean": self.mean, "deviation": self.deviation, "effects": self.effects}
        named |= {f"layer{place}": layer for place, layer in enumerate(self.layers)}
        return {f"{prefix}{name}": array for name, array in named.items()}

    @classmethod
    def of_arrays(cls, arrays: Mapping[str, NDArray[Any]], prefix: str) -> Network:
        count = sum(name.startswith(f"{prefix}layer") for name in arrays)
        layers = tuple(arrays[f"{prefix}layer{place}"] for place in range(count))
        effects = arrays.get(f"{prefix}effects")
        if effects is None or effects.shape[1:] != (2,):
            raise StoreVersion("an earlier version of tarbox trained this run: train it again.")
        return cls(arrays[f"{prefix}mean"], arrays[f"{prefix}deviation"], layers, effects)


def sigmoid(logits: Floats) -> Floats:
    found: Floats = np.exp(-np.logaddexp(0.0, -logits)).astype(np.float32)
    return found


def adjust(logits: Floats, effects: Floats) -> Floats:
    """[N] probabilities with odds exp(a) p / (1 - p)^(1 + b), where p is that of a logit, effects [.., 2] a, b."""
    return sigmoid(logits + effects[..., 0] + effects[..., 1] * np.logaddexp(0, logits))


def fit_effects(logits: Floats, true: Flags, group: Places, count: int) -> Floats:
    """[count, 2] the likeliest effects of groups of samples: two parameters of beta calibration (Kull et al. 2017).

    Each kind is normal around 0 with the variance that it shows itself (empirical Bayes): few samples change little.
    """
    some = logits > -9  # what is still less likely says nothing
    logits, true, group = logits[some], true[some], group[some]
    columns = np.ones(len(logits)), np.logaddexp(0, logits).astype(np.float64)
    effects, variance = np.zeros((count, 2)), np.ones(2)
    curvature = np.empty((count, 2, 2))
    for _ in range(20 if count else 0):  # a step of Newton's method, and one for the variances
        p = adjust(logits, effects[group].astype(np.float32)).astype(np.float64)
        slope = np.stack([np.bincount(group, (p - true) * own, count) for own in columns], 1) + effects / variance
        for one, other in ((0, 0), (0, 1), (1, 0), (1, 1)):
            curvature[:, one, other] = np.bincount(group, p * (1 - p) * columns[one] * columns[other], count)
        curvature += np.diag(1 / variance)
        effects -= np.clip(np.linalg.solve(curvature, slope[..., None])[..., 0], -1, 1)
        variance = (effects**2 + np.linalg.inv(curvature).diagonal(0, 1, 2)).mean(0)
    return effects.astype(np.float32)


def complete(degrees: Floats) -> Floats:
    """From the probability of having been held out to that of being true, once nothing is held out any more.

    Let as many facts be missing from the knowledge base as were held out. Of what was a candidate and is true, with
    probability t, half was held out: p = t / 2. What was held out is known now, which leaves (t - p) / (1 - p), that
    is p / (1 - p), of the candidates. For p that are estimated this is too much where p is great: what is chosen for a
    great estimate has, on average, a smaller p. `ODDS_BELIEVED` makes up for it.
    """
    left = np.maximum(1 - degrees, 1e-6) ** np.float32(ODDS_BELIEVED)
    found: Floats = np.minimum(degrees / left, np.float32(CERTAIN))
    return found


@final
@dataclass(frozen=True, slots=True)
class Fitting:
    """How a network is fitted: `steps` of `batch` rows, with `units` in a hidden layer where enough rows are true;
    `tell` is told which share of the steps is done."""

    steps: int
    batch: int
    units: int
    seed: int
    device: torch.device
    tell: TellShare = unheard


def fit_probabilities(
    features_NF: Floats, true_N: NDArray[np.bool_], seed: int, device: torch.device, tell: TellShare = unheard
) -> Network:
    """By cross entropy over all samples; without samples everything has 0."""
    import torch
    from torch.nn import functional

    labels = torch.from_numpy(true_N.astype(np.float32)).to(device)

    def loss(logits: torch.Tensor, rows: torch.Tensor) -> torch.Tensor:
        return functional.binary_cross_entropy_with_logits(logits, labels[rows])

    count = len(features_NF)
    steps = max(300, min(3000, 6 * count // _BATCH)) if count else 0
    fitting = Fitting(steps, min(_BATCH, max(count, 1)), CALIBRATION_UNITS, seed, device, tell)
    return fit_network(features_NF, true_N, loss, fitting)


def fit_network(
    features: Floats,
    true: NDArray[np.bool_],
    loss: Callable[[torch.Tensor, torch.Tensor], torch.Tensor],
    fitting: Fitting,
) -> Network:
    """The network with least `loss(logits, rows [b])` over rows drawn at random; features are [N, F] or [N, K, F]."""
    import torch

    from tarbox.models.recording import Recorded

    share = float(true.mean()) if true.size else 0.0
    device, on_gpu = fitting.device, fitting.device.type == "cuda"
    mean, deviation = _moments(features.reshape(-1, features.shape[-1]))
    inputs = (torch.from_numpy(features) - torch.from_numpy(mean)).div_(torch.from_numpy(deviation)).to(device)
    units = fitting.units if int(true.sum()) >= _POSITIVES else 0
    network = _build(inputs.shape[-1], units, share, fitting.seed).to(device)
    random = torch.Generator(device).manual_seed(fitting.seed)
    rate = torch.tensor(_RATE, device=device)
    optimizer = torch.optim.Adam(network.parameters(), lr=rate, fused=on_gpu, capturable=on_gpu)

    def step() -> None:
        rows = torch.randint(len(inputs), (fitting.batch,), generator=random, device=device)
        found = loss(network(inputs[rows]).squeeze(-1), rows)
        optimizer.zero_grad()
        found.backward()  # type: ignore[no-untyped-call]
        optimizer.step()

    run = Recorded(step, random) if on_gpu else step
    with _one_thread():
        for done in range(fitting.steps):
            rate.fill_(_RATE * (0.5 + 0.5 * math.cos(math.pi * done / fitting.steps)))
            run()
            if done % _TOLD == 0:
                fitting.tell(done / fitting.steps)
    layers = tuple(parameter.detach().cpu().numpy() for parameter in network.parameters())
    return Network(mean, deviation, layers)


@contextmanager
def _one_thread() -> Iterator[None]:
    """Of torch: the kernels of a step are small, and on a busy machine threads wait for each other far longer than they
    take. The sums, too, are then the same on every machine."""
    import torch

    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def _moments(features_NF: Floats) -> tuple[Floats, Floats]:
    """[F] each: means and deviations of rows spread over all, 0 and 1 of nothing; one of 0 is no divisor."""
    if not len(features_NF):
        return np.zeros(features_NF.shape[1], np.float32), np.ones(features_NF.shape[1], np.float32)
    some = features_NF[:: max(1, len(features_NF) // _MOMENTS)]
    mean, deviation = some.mean(0, dtype=np.float64), some.std(0, dtype=np.float64)
    return mean.astype(np.float32), np.maximum(deviation, 1e-3).astype(np.float32)


def _build(width: int, units: int, share: float, seed: int) -> torch.nn.Sequential:
    """Two hidden layers or none; the same for the same seed. It begins near the share of what is true."""
    import torch
    from torch import nn

    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(seed)  # a GPU's, too, would be torch.manual_seed
        last = nn.Linear(units or width, 1)
        first = [nn.Linear(width, units), nn.ReLU(), nn.Linear(units, units), nn.ReLU()] if units else []
    held = min(max(share, 1e-6), 1 - 1e-6)
    with torch.no_grad():
        last.weight.mul_(0.1)
        last.bias.fill_(math.log(held / (1 - held)))
    return nn.Sequential(*first, last)
