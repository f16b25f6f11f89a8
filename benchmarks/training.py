"""Training throughput: samples per second of `tarbox.training`, as a ratio to a plain eager loop in the same run.

    PYTHONPATH=src python3 benchmarks/training.py BENCH --model dot --model fuzzy --model gqe

A sample is one positive with its negatives; the tasks are in data proportion. `dot` and `fuzzy` are TAR with either
projection; any other name is that of a model, registered or `package.module:Class`. The plain loop has the same
samples and model, but does what a first version would: one portion at a time, an optimizer step for each, and the
loss read after every step.
"""

from __future__ import annotations

import argparse
import json
import resource
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import torch

from tarbox.benchmark.folder import open_benchmark
from tarbox.models.learning.seam import TrainingData
from tarbox.training.context import engine_of
from tarbox.training.hardware import Hardware, numerics, open_hardware
from tarbox.training.session import data_of
from tarbox.training.settings import Settings, read_assignments, resolve
from tarbox.training.step import Engine

WARM_UP = 8
VARIANTS = {"dot": ("tar", "model.projection=dot"), "fuzzy": ("tar", "model.projection=fuzzy")}
"""A model with one setting of it."""


@dataclass(frozen=True, slots=True)
class Speed:
    """Samples per second of both loops, and the most memory that either held, in GB."""

    name: str
    samples_per_second: float
    plain_samples_per_second: float
    ratio: float
    step_milliseconds: float
    step_samples: int
    first_seconds: float
    memory_gb: float


def measure(name: str, settings: Settings, data: TrainingData, seconds: float) -> Speed:
    """Run both loops for about so many seconds each."""
    hardware = open_hardware(settings.hardware)
    with numerics(hardware):
        if hardware.cuda:
            torch.cuda.reset_peak_memory_stats()
        began = time.perf_counter()
        engine = engine_of(settings, data, hardware)
        engine.portions.begin(settings.seed, 0, 0)
        step = engine.runner(hardware)
        for _ in range(WARM_UP):
            step()
        hardware.synchronize()
        first = time.perf_counter() - began
        per_step = _time(step, hardware, seconds)
        memory = _memory(hardware)
        del step
        plain = _plain_rate(settings, data, hardware, seconds)
    rate = engine.portions.samples / per_step
    return Speed(
        name, rate, plain, rate / plain, 1000 * per_step, engine.portions.samples, round(first, 2), round(memory, 2)
    )


def _plain_rate(settings: Settings, data: TrainingData, hardware: Hardware, seconds: float) -> float:
    """Samples per second of the plain loop."""
    engine = engine_of(settings, data, hardware)
    engine.portions.begin(settings.seed, 0, 0)
    optimizer = torch.optim.Adam(engine.module.parameters(), lr=settings.optimizer.rate)
    per_pass = _time(lambda: _plain_pass(engine, optimizer), hardware, seconds)
    return engine.portions.samples / per_pass


def _plain_pass(engine: Engine, optimizer: torch.optim.Adam) -> None:
    """One portion after the other, each with a step of its own."""
    rows = engine.portions.advance()
    for source, own in zip(engine.portions.sources, rows, strict=True):
        draw = source.draw(own, engine.sampler)
        loss = source.loss(engine.module, draw, engine.objective)
        optimizer.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        optimizer.step()
        loss.item()


def _time(step: Callable[[], None], hardware: Hardware, seconds: float) -> float:
    """The mean time of a step, in seconds."""
    step()
    hardware.synchronize()
    began, done = time.perf_counter(), 0
    while time.perf_counter() - began < seconds:
        for _ in range(5):
            step()
        done += 5
        hardware.synchronize()
    return (time.perf_counter() - began) / done


def _memory(hardware: Hardware) -> float:
    if hardware.cuda:
        return torch.cuda.max_memory_allocated() / 1e9
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6


def choose(model: str, batch: int, dimension: int, extra: list[str]) -> Settings:
    """The settings of one measurement: the defaults, not a recipe's, with this batch and dimension."""
    name, *chosen = VARIANTS.get(model, (model,))
    given = [*chosen, f"batches.size={batch}", f"model.dimension={dimension}", "directions=tails", *extra]
    return resolve([read_assignments(given, name)], name)


def show(speed: Speed) -> str:
    return (
        f"{speed.name:24} {speed.samples_per_second:12,.0f} samples/s  {speed.ratio:5.1f} x plain eager "
        f"({speed.plain_samples_per_second:,.0f})  {speed.step_milliseconds:.2f} ms/step of {speed.step_samples:,}  "
        f"{speed.memory_gb:.2f} GB"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("benchmark", type=Path)
    parser.add_argument("--model", action="append", help="dot, fuzzy (the default: both), or the name of a model")
    parser.add_argument("--batch", type=int, default=4096)
    parser.add_argument("--dimension", type=int, default=256)
    parser.add_argument("--seconds", type=float, default=5.0, help="per measurement")
    parser.add_argument("--set", action="append", default=[], help="any setting, as for `tarbox train`")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    data = replace(data_of(open_benchmark(options.benchmark)), valid=None)
    speeds = []
    for model in options.model or sorted(VARIANTS):
        settings = choose(model, options.batch, options.dimension, options.set)
        speeds.append(measure(model, settings, data, options.seconds))
        print(show(speeds[-1]), flush=True)
    if options.json:
        options.json.write_text(json.dumps([asdict(speed) for speed in speeds], indent=1), encoding="utf-8")


if __name__ == "__main__":
    main()
