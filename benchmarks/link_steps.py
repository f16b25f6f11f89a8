"""A step of the link predictor on a GPU: milliseconds when recorded, and what its kernels take.

    PYTHONPATH=src python3 benchmarks/link_steps.py scratch/kb-biomed
    PYTHONPATH=src python3 benchmarks/link_steps.py --entities 1000000 --facts 2000000 --set batches.size=21500

Of a store, or of a generated knowledge base (benchmarks/growth.py), with the settings that training would have.
Results: the mean of recorded steps, and a table of kernels by time.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path

import torch

import growth
from tarbox.kb.store import open_store
from tarbox.models.credo.memory import TrainingSize, rivals_of
from tarbox.models.credo.predictor import build_predictor
from tarbox.models.learning.seam import TrainingData
from tarbox.models.links import link_sources
from tarbox.models.saved import sizes_of
from tarbox.training.hardware import numerics, open_hardware
from tarbox.training.loop import build_engine
from tarbox.training.settings import read_assignments, read_recipe, resolve


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("store", type=Path, nargs="?")
    parser.add_argument("--entities", type=int, default=100_000, help="generated, without a store (%(default)s)")
    parser.add_argument("--facts", type=int, default=1_000_000)
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--kernels", type=int, default=16, help="how many are listed")
    parser.add_argument("--set", action="append", default=[], help="a setting of training")
    options = parser.parse_args()
    size = growth.Size(options.facts, options.entities)
    facts = open_store(options.store).facts if options.store else growth.generate(size)
    settings = resolve([read_recipe("credo"), read_assignments(options.set, "credo")], "credo")
    hardware = open_hardware(settings.hardware)
    settings = settings.resolved(TrainingData(facts), hardware.device)
    config = settings.model_config()
    with hardware.device:
        predictor = build_predictor(config, sizes_of(facts))
    rivals = rivals_of(config, TrainingSize.of(facts), settings.batches)
    engine = build_engine(settings, predictor, link_sources(facts, rivals, hardware.device), hardware)
    engine.portions.begin(0, 0, 0)
    print(f"rank {config.rank}, {engine.portions.sizes} links a step, {rivals} rivals, {hardware.describe()}")
    with numerics(hardware):
        run = engine.runner(hardware)
        for _ in range(10):
            run()
        hardware.synchronize()
        began = time.perf_counter()
        for _ in range(options.steps):
            run()
        hardware.synchronize()
        print(f"{1000 * (time.perf_counter() - began) / options.steps:.2f} ms a step")
        activities = [torch.profiler.ProfilerActivity.CUDA, torch.profiler.ProfilerActivity.CPU]
        with torch.profiler.profile(activities=activities[: 1 if hardware.cuda else 2]) as profiler:
            for _ in range(5):
                run()
            hardware.synchronize()
    column = "self_cuda_time_total" if hardware.cuda else "self_cpu_time_total"
    print(profiler.key_averages().table(sort_by=column, row_limit=options.kernels, max_name_column_width=90))


if __name__ == "__main__":
    main()
