"""A link predictor whose tables are in the machine's memory, beside the same one on the device: rates, memory, losses.

    PYTHONPATH=src python3 benchmarks/host_tables.py                     # 5M entities, 25M facts, rank 64, within 6 GB
    PYTHONPATH=src python3 benchmarks/host_tables.py --entities 20000 --facts 20000 --batch 512 --rivals 64 \
        --limit 0.02 --device cpu

Needs torch, numpy and safetensors alone. The graph is that of `scale.py`. The device is taken to have `--limit` GB,
less than tables, links and a step want; on a GPU torch gets no more than that in the arm *host*. Shards are as many as
`tarbox train` would take there. All arms train one epoch from the same embeddings: *plain* as one process does on a
device with room enough (as much of the epoch as `--seconds` allow), *device* in the same shards and rounds as *host*
with all of it there, *host* as asked. Links a second are those of the epoch with everything that moves. Bars: the loss
of *host* is that of *device* (on a GPU up to the order of sums), and memory stays within the limit.
Results: a table, and $OUT/host_tables.json.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import torch
from torch import Tensor

from scale import make_links, memory_of, run, settings_of
from tarbox.models.base import Sizes, Task
from tarbox.models.complex import Complex, ComplexConfig
from tarbox.models.links import LinkSource, Rivals
from tarbox.training.group import ProcessGroup
from tarbox.training.hardware import Hardware, numerics, open_hardware, threads
from tarbox.training.loop import build_engine
from tarbox.training.settings import Settings
from tarbox.training.sharded import ShardedEngine
from tarbox.training.sharding import shards_needed
from tarbox.training.step import Stepper

SAME: Final = 1e-3
"""How far two losses may differ on a GPU, as a share."""
LINK: Final = 40
"""Bytes of a link on the device where tables come in shards: as `MemoryNeeded.beside_shards` has it."""


def shards_of(chosen: argparse.Namespace) -> int:
    """As `tarbox train` takes them where the device has `--limit` GB."""
    tables, links = 16 * chosen.rank * chosen.entities, 2 * chosen.facts
    step = memory_of(argparse.Namespace(**{**vars(chosen), "entities": 0, "facts": 0}), chosen.batch)
    return shards_needed(
        int(memory_of(chosen, chosen.batch)), tables, int(step) + LINK * links, int(1e9 * chosen.limit)
    )


def engine_of(settings: Settings, module: Complex, source: LinkSource, hardware: Hardware) -> Stepper:
    if settings.hardware.shards:
        return ShardedEngine(ProcessGroup.alone(hardware.device), settings, module, [source], hardware)
    return build_engine(settings, module, [source], hardware)


def measure(
    arm: str, settings: Settings, made: tuple[Complex, LinkSource], hardware: Hardware, seconds: float
) -> dict[str, Any]:
    """One epoch, or what is possible in so many seconds."""
    if hardware.cuda:
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats(hardware.device)
    engine = engine_of(settings, *made, hardware)
    engine.set_rate(0.15)
    began = time.perf_counter()
    engine.portions.begin(0, 0, 0)
    hardware.synchronize()
    placed = time.perf_counter() - began
    steps, spent = run(engine.runner(hardware), hardware, engine.portions.steps, seconds)
    began = time.perf_counter()
    engine.collect()
    collected = time.perf_counter() - began
    used = torch.cuda.max_memory_allocated(hardware.device) / 1e9 if hardware.cuda else 0.0
    loss, rate = float(engine.losses_T.sum()) / steps, steps * engine.portions.samples / spent
    print(
        f"{arm:8} {engine.shards:3} shards {rate:13,.0f} links/s, {spent:6.1f} s for {steps:,} steps of "
        f"{engine.portions.steps:,}, placed in {placed:.1f} s, collected in {collected:.1f} s; "
        f"{used:5.2f} GB of the device; loss {loss:.6f}",
        flush=True,
    )
    return {"arm": arm, "shards": engine.shards, "links_per_second": rate, "gb": used, "loss": loss, "seconds": spent}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--entities", type=int, default=5_000_000)
    parser.add_argument("--facts", type=int, default=25_000_000)
    parser.add_argument("--relations", type=int, default=200)
    parser.add_argument("--rank", type=int, default=64)
    parser.add_argument("--rivals", type=int, default=2048)
    parser.add_argument("--batch", type=int, default=32_768)
    parser.add_argument("--limit", type=float, default=6.0, help="GB of the device")
    parser.add_argument("--seconds", type=float, default=5.0, help="for the arm that is plain")
    parser.add_argument("--device", default="auto")
    chosen = parser.parse_args()
    shards, settings = shards_of(chosen), settings_of(chosen, chosen.batch)
    if not shards:
        sys.exit(f"{chosen.limit} GB are enough for everything, or too few for anything: choose another --limit")
    hardware = open_hardware(settings.hardware)
    torch.manual_seed(0)
    config = ComplexConfig(chosen.rank, candidates=chosen.rivals)
    with torch.device(hardware.device):
        first = Complex(config, Sizes(chosen.entities, 0, chosen.relations))
    home = {name: tensor.cpu().clone() for name, tensor in first.state_dict().items()}
    links = make_links(chosen.entities, chosen.facts, chosen.relations, hardware.device)
    rows = train_arms(chosen, (settings, shards), (first, home, links), hardware)
    if "OUT" in os.environ:
        (Path(os.environ["OUT"]) / "host_tables.json").write_text(json.dumps(rows, indent=1) + "\n")
    device, host = (next(row for row in rows if row["arm"] == arm) for arm in ("device", "host"))
    apart = abs(host["loss"] / device["loss"] - 1)
    same, within = apart <= (SAME if hardware.cuda else 0.0), host["gb"] <= chosen.limit
    print(f"losses differ by {apart:.1e}: {'the same' if same else 'NOT THE SAME'}")
    print(f"memory {host['gb']:.2f} GB, limit {chosen.limit} GB: {'met' if within else 'MISSED'}; ", end="")
    print(f"{host['links_per_second'] / device['links_per_second']:.2f} times the rate of all on the device")
    sys.exit(0 if same and within else 1)


def train_arms(
    chosen: argparse.Namespace,
    ways: tuple[Settings, int],
    made: tuple[Complex, dict[str, Tensor], Tensor],
    hardware: Hardware,
) -> list[dict[str, Any]]:
    """All begin with the same embeddings."""
    (settings, shards), (module, home, links), rows = ways, made, list[dict[str, Any]]()
    source = LinkSource(Task.ENTITY, links, Rivals(slice(0, chosen.entities), chosen.rivals), sparse=True)
    sharded = replace(settings, hardware=replace(settings.hardware, shards=shards))
    with numerics(hardware), threads(hardware, 1 << 30):
        rows.append(measure("plain", settings, (module, source), hardware, chosen.seconds))
        module.load_state_dict(home)
        rows.append(measure("device", sharded, (module, source), hardware, float("inf")))
        module = module.to("cpu")
        module.load_state_dict(home)
        if hardware.cuda:
            whole = torch.cuda.get_device_properties(hardware.device).total_memory
            torch.cuda.empty_cache()
            torch.cuda.set_per_process_memory_fraction(1e9 * chosen.limit / whole, hardware.device.index or 0)
        rows.append(measure("host", sharded, (module, source), hardware, float("inf")))
    return rows


if __name__ == "__main__":
    main()
