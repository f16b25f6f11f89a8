"""Learning made quick enough to be done often: networks are fitted by few steps."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch._dynamo  # so that no child imports it for itself

from tarbox.execution.graph import Index
from tarbox.kb.facts import Facts
from tarbox.kb.store import open_store
from tarbox.models.credo import holdout, network
from tarbox.models.credo.concepts import SetModel
from tarbox.models.credo.evidence import Evidence
from tarbox.models.credo.model import Credo
from tarbox.models.credo.network import Fitting, Network
from tarbox.models.credo.probabilities import FactProbabilities
from tarbox.models.saved import sizes_of
from tarbox.query.templates import TEMPLATES
from tarbox.training.events import Event
from tarbox.training.session import Listeners, start
from tarbox.training.settings import Settings, read_assignments, read_file, resolve

NOTHING = np.empty(0, np.int64), np.empty(0, np.float32)
_fit_network = network.fit_network


def fit_by_few_steps(features: np.ndarray, true: np.ndarray, loss: Callable[..., Any], fitting: Fitting) -> Network:
    return _fit_network(features, true, loss, replace(fitting, steps=min(fitting.steps, 30)))


def few_steps(set_attribute: Callable[[Any, str, Any], None]) -> None:
    for module in (network, holdout):
        set_attribute(module, "fit_network", fit_by_few_steps)


def quick_settings(*assignments: str) -> Settings:
    short = ["stopping.epochs=3", "model.rank=8", "model.queries=10", "batches.size=64"]
    return resolve([read_assignments([*short, *assignments], "credo")], "credo")


class KillAt:
    """Ends the process at the n-th event of a kind, so that nothing can be written any more."""

    def __init__(self, kind: str, number: int) -> None:
        self.kind, self.left = kind, number

    def __call__(self, event: Event) -> None:
        self.left -= type(event).__name__ == self.kind
        if not self.left:
            os.kill(os.getpid(), signal.SIGKILL)


def _load_machine_code(facts: Facts) -> None:
    """Once for all children."""
    index = Index.of(facts)
    probabilities = FactProbabilities.of(facts, sizes_of(facts), NOTHING, NOTHING)
    Credo.of(index, probabilities, SetModel.of(index, 0)).predict(TEMPLATES["2p"].shape, np.zeros((1, 3), np.int32))
    Evidence.of(facts)


def kill_in_turn(store: Path, config: Path, points: list[str]) -> None:
    """Train into a folder for each point KIND-NUMBER, in a process of its own that is killed there."""
    torch.set_num_threads(1)
    few_steps(setattr)
    _load_machine_code(open_store(store).facts)
    for point in points:
        kind, number = point.split("-")
        child = os.fork()
        if not child:
            start(store, config.parent / point, resolve([read_file(config)]), Listeners([KillAt(kind, int(number))]))
            os._exit(0)
        _, status = os.waitpid(child, 0)
        if not os.WIFSIGNALED(status):
            sys.exit(f"{point} was not reached")


if __name__ == "__main__":
    kill_in_turn(Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3:])
