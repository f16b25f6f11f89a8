"""What a busy machine costs: trains the demo's knowledge base alone, and beside a process that keeps every core busy.

    PYTHONPATH=src python3 benchmarks/busy.py                      # builds `academia`, as `tarbox demo` does
    PYTHONPATH=src python3 benchmarks/busy.py --store KB --rounds 3

Each training is a process of its own with the recipe `credo-small`; one before them is not counted: numba compiles once
for a machine. With half of the machine, twice the time is what can be had.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

BUSY = "while True: pass"


def train(store: Path, run: Path) -> None:
    """One training, in this process."""
    from tarbox.training.session import start
    from tarbox.training.settings import read_recipe, resolve

    start(store, run, resolve([read_recipe("credo-small")], "credo"))


def build_academia(store: Path) -> None:
    """The embedded knowledge base; needs duckdb."""
    from tarbox.kb.build import BuildOptions, build
    from tarbox.kb.presets import PRESETS

    preset = PRESETS["academia"]
    build(preset.sources(None), store, BuildOptions(preset.interpretation))


@contextmanager
def busy(cores: int) -> Iterator[None]:
    """Every core has another process to run meanwhile."""
    workers = [subprocess.Popen([sys.executable, "-c", BUSY]) for _ in range(cores)]
    try:
        yield
    finally:
        for worker in workers:
            worker.kill()
            worker.wait()


def time_training(store: Path) -> float:
    """The seconds of one training in a new process, imports included."""
    with tempfile.TemporaryDirectory() as scratch:
        began = time.monotonic()
        command = [sys.executable, __file__, "--store", str(store), "--worker", str(Path(scratch) / "run")]
        subprocess.run(command, check=True)
        return time.monotonic() - began


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--store", type=Path, help="another knowledge base")
    parser.add_argument("--rounds", type=int, default=1, help="the median of so many trainings")
    parser.add_argument("--worker", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.worker:
        train(options.store, options.worker)
        return
    cores = len(os.sched_getaffinity(0))
    with tempfile.TemporaryDirectory() as scratch:
        store = options.store or Path(scratch) / "academia"
        if options.store is None:
            build_academia(store)
        time_training(store)
        alone = statistics.median(time_training(store) for _ in range(options.rounds))
        print(f"alone                      {alone:6.1f} s (load {os.getloadavg()[0]:.1f})", flush=True)
        with busy(cores):
            beside = statistics.median(time_training(store) for _ in range(options.rounds))
    print(f"beside {cores} busy processes    {beside:6.1f} s, {beside / alone:.1f} times")


if __name__ == "__main__":
    main()
