"""What a checkpoint holds: everything that decides how training goes on."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Final, final

import torch
from torch import Tensor

from tarbox.training.failures import TrainingError
from tarbox.training.step import Stepper

MODEL: Final = "model/"
OPTIMIZER: Final = "optimizer/"
GENERATOR: Final = "random/sampler"
GLOBAL: Final = "random/torch"
LOSS_SUMS: Final = "losses"


@final
@dataclass(slots=True)
class State:
    """How far training is: `epoch` epochs are complete, and `step` steps of the next one.

    `stale` counts the validations since the best; `seconds` is the time trained, without validation. `steps` is how
    many an epoch had when this was written: with another number of processes it has others.
    """

    epoch: int = 0
    step: int = 0
    best: float | None = None
    best_epoch: int | None = None
    stale: int = 0
    seconds: float = 0.0
    reason: str | None = None
    steps: int = 0

    def go_on(self, steps: int) -> float:
        """An epoch has so many steps now: go to the same share of it; returns by what the sums of losses change."""
        before, self.step = self.step, self.step * steps // max(self.steps, 1) if self.steps else self.step
        self.steps = steps
        return self.step / before if before else 1.0


def snapshot(engine: Stepper, state: State) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """(tensors, state) of a checkpoint: weights, Adam's moments, random states, the sums of losses, the place."""
    tensors = {MODEL + name: tensor for name, tensor in engine.module.state_dict().items()}
    for name, parameter in engine.module.named_parameters():
        for key, value in engine.optimizer.state.get(parameter, {}).items():
            tensors[f"{OPTIMIZER}{name}/{key}"] = value
    tensors[GENERATOR] = engine.sampler.generator.get_state()
    tensors[GLOBAL] = torch.get_rng_state()
    tensors[LOSS_SUMS] = engine.losses_T
    return tensors, asdict(state)


def restore(engine: Stepper, state: State, tensors: Mapping[str, Tensor], about: Mapping[str, Any]) -> None:
    """Bring an engine and a state to where a checkpoint was written."""
    weights = {name.removeprefix(MODEL): tensor for name, tensor in tensors.items() if name.startswith(MODEL)}
    try:
        engine.module.load_state_dict(weights)
    except RuntimeError as error:
        raise TrainingError(f"the checkpoint is of another model: {str(error).splitlines()[-1].strip()}") from None
    for name, parameter in engine.module.named_parameters():
        prefix = f"{OPTIMIZER}{name}/"
        found = {key.removeprefix(prefix): value for key, value in tensors.items() if key.startswith(prefix)}
        if found:
            engine.optimizer.state[parameter] = {key: value.to(parameter.device) for key, value in found.items()}
    _restore_random(engine, tensors)
    engine.losses_T.copy_(tensors[LOSS_SUMS])
    for name, value in about.items():
        setattr(state, name, value)


def _restore_random(engine: Stepper, tensors: Mapping[str, Tensor]) -> None:
    """A run resumed on another kind of device begins its random numbers anew: their states do not fit."""
    torch.set_rng_state(tensors[GLOBAL])
    if tensors[GENERATOR].shape == engine.sampler.generator.get_state().shape:
        engine.sampler.generator.set_state(tensors[GENERATOR])
