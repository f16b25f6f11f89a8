"""Where and in which precision a model is trained."""

from __future__ import annotations

import platform
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from typing import Any, Final, final

import torch

from tarbox.core.config import check_settings
from tarbox.core.errors import ConfigError
from tarbox.core.memory import available
from tarbox.training.memory import resident_peak

AUTO: Final = "auto"
SMALL: Final = 1 << 27
"""Steps whose largest kernel has fewer operations (`tarbox.training.step.Engine.operations`) run on one thread: threads
wait for each other at the end of every kernel, and on a busy machine that wait is longer than a small kernel.

Measured on two cores with others at work, ms a step on one thread and on two: tar with 24 portions of 6 million
operations 400 and 3,300; q2b with 24 of 9 million 5,600 and 8,400; links, one kernel of 197 million 21 and 13, of 268
million 51 and 29."""


PRECISIONS: Final = ("float32", "tf32", "bf16")
"""`tf32`: matrix products in TensorFloat-32 where the GPU has it. `bf16`: autocast; weights stay float32."""


@final
@dataclass(frozen=True, slots=True)
class HardwareConfig:
    """`device` is `auto`, `cpu`, `cuda` or `cuda:N`. `graphs` records steps on CUDA.

    `threads` are those of a step on the CPU; 0 takes one for small steps and all for others. `processes` train one
    model, each on a GPU or with its share of the threads (ADR 55). One process keeps the tables of a link predictor in
    the machine's memory, in so many `shards`, two of which are on the device at a time; 0 does that where they do not
    fit there (ADR 61).
    """

    device: str = AUTO
    precision: str = "tf32"
    graphs: bool = True
    threads: int = 0
    processes: int = 1
    shards: int = 0

    def __post_init__(self) -> None:
        check_settings(self, {"precision": PRECISIONS}, ("processes",))
        if self.threads < 0:
            raise ConfigError(f"hardware.threads is {self.threads}; it must be at least 0")
        if self.shards and (self.shards < 2 or self.processes > 1):
            raise ConfigError(
                f"hardware.shards is {self.shards} with hardware.processes {self.processes}: it is at least 2, of one "
                "process, or 0, which leaves it to tarbox"
            )


@final
@dataclass(frozen=True, slots=True)
class Hardware:
    """An opened device."""

    config: HardwareConfig
    device: torch.device

    @property
    def cuda(self) -> bool:
        return self.device.type == "cuda"

    def autocast(self) -> AbstractContextManager[Any]:
        """The precision of a forward pass; nothing is cached, since a recorded step must cast anew each time."""
        wanted = self.config.precision == "bf16"
        return torch.autocast(self.device.type, torch.bfloat16, enabled=wanted, cache_enabled=False)

    def memory_used(self) -> tuple[int, int]:
        """(of the machine, of the device) the most bytes so far."""
        return resident_peak(), torch.cuda.max_memory_allocated(self.device) if self.cuda else 0

    def memory_left(self) -> tuple[int | None, int | None]:
        """(of the machine, of the device) the bytes that can still be had; None where it is not known."""
        if not self.cuda:
            return available(), None
        unused = torch.cuda.memory_reserved(self.device) - torch.cuda.memory_allocated(self.device)
        return available(), torch.cuda.mem_get_info(self.device)[0] + unused

    def synchronize(self) -> None:
        if self.cuda:
            torch.cuda.synchronize(self.device)

    def describe(self) -> dict[str, Any]:
        """What the provenance says of the machine."""
        found: dict[str, Any] = {
            "device": str(self.device),
            "platform": platform.platform(),
            "processor": platform.processor() or platform.machine(),
            "threads": torch.get_num_threads(),
        }
        if self.cuda:
            found |= {"gpu": torch.cuda.get_device_name(self.device), "cuda": torch.version.cuda}
        return found


def open_hardware(config: HardwareConfig) -> Hardware:
    """The device that the settings name, checked."""
    return Hardware(config, find_device(config.device))


def find_device(name: str) -> torch.device:
    """The device of this name, if it is here; `auto` is the first GPU where there is one."""
    wanted = ("cuda" if torch.cuda.is_available() else "cpu") if name == AUTO else name
    try:
        device = torch.device(wanted)
    except RuntimeError:
        raise ConfigError(f"no device {wanted!r}; there are auto, cpu, cuda and cuda:N") from None
    if device.type not in ("cpu", "cuda"):
        raise ConfigError(f"tarbox runs on cpu and cuda, not on {device.type!r}")
    if device.type == "cuda" and (device.index or 0) >= torch.cuda.device_count():
        raise ConfigError(f"no device {wanted!r} here: torch finds {torch.cuda.device_count()} GPUs. Use --device cpu.")
    return device


@contextmanager
def numerics(hardware: Hardware) -> Iterator[None]:
    """torch's switches while training: TF32 on a GPU where wanted; on the CPU sums in the same order always."""
    before = torch.get_float32_matmul_precision()
    strict, warn = torch.are_deterministic_algorithms_enabled(), torch.is_deterministic_algorithms_warn_only_enabled()
    try:
        if hardware.cuda:
            wanted = "highest" if hardware.config.precision == "float32" else "high"
            torch.set_float32_matmul_precision(wanted)
        else:
            torch.use_deterministic_algorithms(True)
        yield
    finally:
        torch.set_float32_matmul_precision(before)
        torch.use_deterministic_algorithms(strict, warn_only=warn)


@contextmanager
def threads(hardware: Hardware, operations: int) -> Iterator[None]:
    """torch's threads while such steps are made: one for small ones. Their number depends on the settings and the step
    alone, since the sums of floats depend on it."""
    before = torch.get_num_threads()
    try:
        if not hardware.cuda:
            share = 1 if operations < SMALL else max(1, before // hardware.config.processes)
            torch.set_num_threads(hardware.config.threads or share)
        yield
    finally:
        torch.set_num_threads(before)
