"""What goes wrong is said clearly, and the last good checkpoint is kept."""

from __future__ import annotations

import errno
from collections.abc import Callable
from pathlib import Path

import pytest

from tarbox.core.errors import ConfigError
from tarbox.training.checkpoints import State
from tarbox.training.events import EpochEnded, Event
from tarbox.training.failures import TrainingError, explained
from tarbox.training.run import read_tensors
from tarbox.training.session import Listeners

Train = Callable[..., State]
EVERY_LOOK = "checkpoints.minutes=0"
SCORED_PER_STEP = 8
"""1p and the three trained templates, at two levels."""


@pytest.mark.parametrize(
    ("fail", "message"),
    [
        (
            "number",
            r"the loss is not a number .* in epoch \d+\. The last good checkpoint is kept\. Lower the learning rate",
        ),
        ("memory", r"out of memory\. The last good checkpoint is kept\. Try a smaller step \(--set batches\.size"),
    ],
)
def test_failures_keep_the_last_good_checkpoint(
    train: Train, tmp_path: Path, ticking: Callable[[], float], fail: str, message: str
) -> None:
    after = 30 * SCORED_PER_STEP
    with pytest.raises(TrainingError, match=message):
        train(
            tmp_path / "run",
            f"model.fail={fail}",
            f"model.after={after}",
            EVERY_LOOK,
            listeners=Listeners(clock=ticking),
        )
    tensors, state = read_tensors(tmp_path / "run" / "last.safetensors")
    assert state["epoch"] + state["step"] > 0
    assert all(bool(tensor.isfinite().all()) for tensor in tensors.values() if tensor.is_floating_point())


def test_without_a_checkpoint_the_message_says_so(train: Train, tmp_path: Path) -> None:
    with pytest.raises(TrainingError, match="There is no checkpoint yet"):
        train(tmp_path / "run", "model.fail=memory")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs a device that is always full")
def test_a_full_disk(train: Train, tmp_path: Path) -> None:
    def fill(event: Event) -> None:
        if isinstance(event, EpochEnded) and event.epoch == 2:
            file = tmp_path / "run" / "metrics.jsonl"
            file.unlink()
            file.symlink_to("/dev/full")

    with pytest.raises(TrainingError, match=r"the disk is full: cannot write to .*run.*Free some space, then run"):
        train(tmp_path / "run", listeners=Listeners([fill]))


def test_other_errors_stay_themselves(tmp_path: Path) -> None:
    with pytest.raises(PermissionError), explained(tmp_path):
        raise PermissionError(errno.EACCES, "no")
    with pytest.raises(RuntimeError, match="shapes"), explained(tmp_path):
        raise RuntimeError("shapes do not fit")


def test_a_folder_that_is_not_empty_is_left_alone(train: Train, tmp_path: Path) -> None:
    (tmp_path / "thesis.tex").write_text("years of work")
    with pytest.raises(ConfigError, match=r"exists and is not empty. Name another folder"):
        train(tmp_path)
    assert (tmp_path / "thesis.tex").read_text() == "years of work"


def test_a_gpu_that_is_not_there(train: Train, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"no device 'cuda:99' here.*--device cpu"):
        train(tmp_path / "run", "hardware.device=cuda:99")
