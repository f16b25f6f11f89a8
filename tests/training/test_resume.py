"""A run that stops and goes on is the run that never stopped, bit by bit."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from tarbox.core.errors import ConfigError, StoreError, TarboxError
from tarbox.training.checkpoints import State
from tarbox.training.events import EpochEnded, Event, Started, Ticked, read_metrics
from tarbox.training.failures import TrainingInterrupted
from tarbox.training.run import read_tensors
from tarbox.training.session import Listeners, resume, start
from tarbox.training.settings import Settings, StoppingConfig

Train = Callable[..., State]
TIMES = ("seconds", "samples_per_second", "seconds_left", "validation_seconds")


def learnt(folder: Path) -> list[dict[str, object]]:
    """The metrics without what is time."""
    return [{key: value for key, value in line.items() if key not in TIMES} for line in read_metrics(folder)]


def assert_same(first: Path, second: Path) -> None:
    one, two = (read_tensors(folder / "last.safetensors")[0] for folder in (first, second))
    assert one.keys() == two.keys()
    for name, tensor in one.items():
        assert torch.equal(tensor, two[name]), name
    assert learnt(first) == learnt(second)
    assert (first / "model.safetensors").read_bytes() == (second / "model.safetensors").read_bytes()


def test_four_epochs_are_two_and_two(train: Train, tmp_path: Path) -> None:
    train(tmp_path / "whole")
    train(tmp_path / "parts", "stopping.epochs=2")
    resume(tmp_path / "parts", {"stopping": {"epochs": 4}})
    assert_same(tmp_path / "whole", tmp_path / "parts")


def test_tar_resumes_bit_by_bit(bench: Path, settings: Callable[..., Settings], tmp_path: Path) -> None:
    whole = settings("model.dimension=8", "stopping.epochs=2", "validation.every=1", model="tar")
    start(bench, tmp_path / "whole", whole)
    start(bench, tmp_path / "parts", replace(whole, stopping=StoppingConfig(epochs=1)))
    resume(tmp_path / "parts", {"stopping": {"epochs": 2}})
    assert_same(tmp_path / "whole", tmp_path / "parts")


class Interrupter:
    """Sends this process a signal at the third look within the epoch that follows the given one."""

    def __init__(self, epoch: int, number: signal.Signals) -> None:
        self.epoch, self.number, self.sent = epoch, number, False

    def __call__(self, event: Event) -> None:
        if isinstance(event, Ticked) and event.epoch == self.epoch and event.step >= 3 and not self.sent:
            self.sent = True
            os.kill(os.getpid(), self.number)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupt_keeps_a_checkpoint_in_the_middle_of_an_epoch(
    train: Train, tmp_path: Path, number: signal.Signals, ticking: Callable[[], float]
) -> None:
    train(tmp_path / "whole")
    around = Listeners([Interrupter(1, number)], ticking)
    with pytest.raises(TrainingInterrupted, match=r"interrupted in epoch 2; to continue, run `tarbox train --resume"):
        train(tmp_path / "cut", listeners=around)
    _, state = read_tensors(tmp_path / "cut" / "last.safetensors")
    assert state["epoch"] == 1
    assert state["step"] >= 3
    began: list[Event] = []
    resume(tmp_path / "cut", {}, Listeners([began.append]))
    assert isinstance(began[0], Started)
    assert began[0].epoch == 1
    assert_same(tmp_path / "whole", tmp_path / "cut")


def test_a_checkpoint_is_written_on_the_timer(train: Train, tmp_path: Path, ticking: Callable[[], float]) -> None:
    saved: list[int] = []

    def look(event: Event) -> None:
        if isinstance(event, EpochEnded):
            file = tmp_path / "run" / "last.safetensors"
            saved.append(read_tensors(file)[1]["epoch"] if file.exists() else -1)

    train(tmp_path / "run", "checkpoints.minutes=0.05", listeners=Listeners([look], ticking))
    assert saved == [0, 1, 2, 3]


def test_the_same_seed_gives_the_same_run_and_another_does_not(train: Train, tmp_path: Path) -> None:
    for name, seed in (("one", 3), ("two", 3), ("three", 4)):
        train(tmp_path / name, f"seed={seed}", "stopping.epochs=1")
    assert_same(tmp_path / "one", tmp_path / "two")
    assert learnt(tmp_path / "one") != learnt(tmp_path / "three")


def test_what_decides_the_run_cannot_change(train: Train, tmp_path: Path) -> None:
    train(tmp_path / "run", "stopping.epochs=1")
    with pytest.raises(ConfigError, match="optimizer cannot change when a run is resumed; only stopping"):
        resume(tmp_path / "run", {"optimizer": {"rate": 1.0}})


def test_another_vocabulary_is_refused(train: Train, tmp_path: Path) -> None:
    train(tmp_path / "run", "stopping.epochs=1")
    file = tmp_path / "run" / "run.json"
    description = json.loads(file.read_text())
    file.write_text(json.dumps(description | {"vocabulary_hash": "0" * 32}))
    with pytest.raises(StoreError, match="another vocabulary"):
        resume(tmp_path / "run", {"stopping": {"epochs": 2}})


def test_a_damaged_checkpoint_is_named(train: Train, tmp_path: Path) -> None:
    train(tmp_path / "run", "stopping.epochs=1")
    (tmp_path / "run" / "last.safetensors").write_bytes(b"\0" * 100)
    with pytest.raises(TarboxError, match=r"last\.safetensors is damaged"):
        resume(tmp_path / "run", {"stopping": {"epochs": 2}})
