"""What can go wrong while training, said to the person who must act.

::

    TarboxError
    └── TrainingError            training cannot go on; the last good checkpoint is kept
        ├── TrainingInterrupted  someone asked it to stop
        └── MemoryShortage       it cannot fit, and has not begun
"""

from __future__ import annotations

import errno
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Final, final

import torch

from tarbox.core.errors import TarboxError
from tarbox.core.memory import in_words

_SURELY: Final = 1.5
"""What is estimated to take this many times the memory that is left is refused."""
_DISK: Final = {errno.ENOSPC: "the disk is full", errno.EDQUOT: "the disk quota is used up"}
_CPU_MEMORY: Final = ("DefaultCPUAllocator", "can't allocate memory", "not enough memory", "std::bad_alloc")


class TrainingError(TarboxError):
    """Training cannot go on; the message says why, what is kept, and what to do."""


class TrainingInterrupted(TrainingError):
    """Training was asked to stop; a checkpoint was written."""


class MemoryShortage(TrainingError):
    """Training cannot fit into memory; nothing has been learnt yet."""


@contextmanager
def explained(run: Path, smaller: str = "model.dimension=128") -> Iterator[None]:
    """Turns a lack of memory or of disk space into a `TrainingError`; `smaller` sets a smaller model."""
    try:
        yield
    except (torch.OutOfMemoryError, MemoryError) as error:
        raise out_of_memory(run, smaller) from error
    except RuntimeError as error:
        if any(mark in str(error) for mark in _CPU_MEMORY):
            raise out_of_memory(run, smaller) from error
        raise
    except OSError as error:
        if error.errno not in _DISK:
            raise
        message = f"{_DISK[error.errno]}: cannot write to {run}. {kept(run)} Free some space, then {advice(run)}"
        raise TrainingError(message) from error


def out_of_memory(run: Path, smaller: str) -> TrainingError:
    return TrainingError(
        f"out of memory. {kept(run)} Try a smaller step (--set batches.size=1024), a smaller model "
        f"(--set {smaller}) or, on a GPU, --precision bf16."
    )


def require_memory(wanted: int, left: int | None, where: str, advice: str) -> None:
    """Refuse what wants far more bytes than are left (None: not known): what is wanted is an estimate, and whoever runs
    out of memory on the way is told so then."""
    if left is not None and wanted > _SURELY * left:
        raise MemoryShortage(
            f"this training wants about {in_words(wanted)} more {where}, and {in_words(left)} are left. {advice}"
        )


def not_a_number(run: Path, epoch: int) -> TrainingError:
    return TrainingError(
        f"the loss is not a number (NaN or infinite) in epoch {epoch}. {kept(run)} "
        "Lower the learning rate (--set optimizer.rate=1e-4) and, if it was bf16, use --precision float32."
    )


def interrupted(run: Path, where: str) -> TrainingInterrupted:
    return TrainingInterrupted(f"interrupted in {where}; to continue, {advice(run)}")


def kept(run: Path) -> str:
    """What a user still has."""
    found = any(run.rglob("last.safetensors"))  # of the run or of a part of it
    return "The last good checkpoint is kept." if found else "There is no checkpoint yet."


def advice(run: Path) -> str:
    return f"run `tarbox train --resume -o {run}`."


@final
class StopSignals:
    """While entered, SIGINT and SIGTERM set `received` instead of killing; a second SIGINT kills as usual."""

    def __init__(self) -> None:
        self.received = False
        self._before: dict[int, object] = {}

    def __enter__(self) -> StopSignals:
        for number in (signal.SIGINT, signal.SIGTERM):
            try:
                self._before[number] = signal.signal(number, self._receive)
            except ValueError:  # not in the main thread: signals are someone else's
                break
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)  # type: ignore[arg-type]

    def _receive(self, number: int, _: FrameType | None) -> None:
        if self.received and number == signal.SIGINT:
            raise KeyboardInterrupt
        self.received = True
