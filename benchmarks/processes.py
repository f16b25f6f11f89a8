"""A link predictor trained by several processes of one thread each, as a ratio to one process in the same run.

    PYTHONPATH=src python3 benchmarks/processes.py                                # dbpedia77k and yago4 of scratch/
    PYTHONPATH=src python3 benchmarks/processes.py --only yago4 --processes 3 --epochs 4
    PYTHONPATH=src python3 benchmarks/processes.py --only yago4 --batch 1448      # other steps
    PYTHONPATH=src python3 benchmarks/processes.py --balance                      # how evenly links are divided

Stores are expected under scratch/kb-NAME. A tenth of the facts is held out; all arms train on the others with the same
settings, epochs and seed. Links per second are those of the fastest whole epoch after the first, the one that others
on the machine disturbed least, with what processes say to each other. MRR is of held-out
assertions in both directions among all entities, known ones filtered. The seeds of one process show what a seed is
worth. Bars: `--processes 2` at 1.7 times the rate, and the same MRR within 0.5 points.
"""

from __future__ import annotations

import argparse
import json
import os
import time
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

os.environ.setdefault("OMP_NUM_THREADS", "1")  # before torch is imported, and in every process

import torch

from tarbox.kb.facts import Facts
from tarbox.kb.splits import hold_out
from tarbox.kb.store import open_store
from tarbox.models.complex import Complex, ComplexConfig
from tarbox.models.credo.holdout import HeldOut
from tarbox.models.credo.predictor import draw, mean_reciprocal_rank
from tarbox.models.links import link_sources
from tarbox.models.saved import sizes_of
from tarbox.training.group import lead
from tarbox.training.hardware import numerics, open_hardware, threads
from tarbox.training.loop import build_engine
from tarbox.training.settings import Settings, read_recipe, resolve
from tarbox.training.sharded import LeaderOrder, ShardedEngine, follow
from tarbox.training.sharding import NodeShards, Rounds
from tarbox.training.step import Stepper

FASTER: Final = 1.7
WITHIN: Final = 0.5
MEASURED: Final = 5000
"""Held-out assertions."""


def train(facts: HeldOut, settings: Settings, config: ComplexConfig) -> tuple[Complex, float, float]:
    """(the predictor, links a second, microseconds of processors for a link)"""
    hardware = open_hardware(settings.hardware)
    torch.manual_seed(settings.seed)
    predictor = Complex(config, sizes_of(facts.whole))
    sources = link_sources(facts.kept, config.candidates, hardware.device)
    with lead(settings.hardware, follow, LeaderOrder.QUIT) as group:
        engine: Stepper = (
            build_engine(settings, predictor, sources, hardware)
            if group.size == 1 and not settings.hardware.shards
            else ShardedEngine(group, settings, predictor, sources, hardware)
        )
        with numerics(hardware), threads(hardware, engine.operations()):
            step, took = engine.runner(hardware), []
            for epoch in range(settings.stopping.epochs):
                engine.set_rate(settings.optimizer.rate_at(epoch / settings.stopping.epochs))
                start, used = time.perf_counter(), time.process_time()
                engine.portions.begin(settings.seed, epoch, 0)
                for _ in range(engine.portions.steps):
                    step()
                took.append((time.perf_counter() - start, time.process_time() - used))
            engine.collect()
        if isinstance(engine, ShardedEngine):
            engine.release()
    links, (seconds, spent) = sum(map(len, sources)), map(min, zip(*took[1:], strict=True))
    return predictor, links / seconds, 1e6 * settings.hardware.processes * spent / links


def measure(
    name: str, facts: Facts, settings: Settings, config: ComplexConfig, arms: tuple[int, int]
) -> list[dict[str, Any]]:
    """Of so many processes, and so many seeds."""
    processes, seeds = arms
    held = HeldOut(facts, hold_out(facts, settings.seed, 0.1))
    asked = draw(held.lost(), MEASURED, 0)
    rows: list[dict[str, Any]] = []
    for size, seed in ((size, seed) for seed in range(seeds) for size in (1, processes)):
        shards = settings.hardware.shards if size == 1 else 0
        own = replace(settings, seed=seed, hardware=replace(settings.hardware, processes=size, shards=shards))
        predictor, rate, spent = train(held, own, config)
        torch.set_num_threads(os.cpu_count() or 1)
        mrr = mean_reciprocal_rank(predictor, facts, asked)
        torch.set_num_threads(1)
        row: dict[str, Any] = {"set": name, "processes": f"{size}", "seed": seed, "mrr": mrr}
        row |= {"links_per_second": round(rate), "processor_us": spent}
        rows.append(row | {"ratio": rate / rows[0]["links_per_second"] if rows else 1.0})
        print(
            f"{name:12} {size} processes, seed {seed}: {rate:9,.0f} links/s, {rows[-1]['ratio']:.2f} times one, "
            f"{spent:.1f} us of processors a link, MRR {100 * mrr:.2f}",
            flush=True,
        )
    one, many = ([row for row in rows if row["processes"] == f"{size}"] for size in (1, processes))
    ratio = sum(row["links_per_second"] for row in many) / sum(row["links_per_second"] for row in one)
    less = 100 * (sum(row["mrr"] for row in one) - sum(row["mrr"] for row in many)) / len(one)
    noise = 100 * abs(one[0]["mrr"] - one[-1]["mrr"])
    met = ratio >= FASTER and less <= WITHIN
    print(
        f"{name:12} {ratio:.2f} times the rate, MRR less by {less:+.2f} points (two seeds of one differ by {noise:.2f})"
    )
    print(f"bars         {FASTER} times and within {WITHIN}: {'met' if met else 'MISSED'}", flush=True)
    return [*rows, {"set": name, "compared": f"{processes} to 1", "speedup": ratio, "mrr_less": less / 100}]


def balance(name: str, facts: Facts) -> list[dict[str, Any]]:
    """The links of the mean process as a share of those of the one with most, in the mean round."""
    sources, sizes = link_sources(facts, 0, torch.device("cpu")), sizes_of(facts)
    ends = torch.cat([own.links_L3[:, 1:].flatten() for own in sources])
    degrees = torch.bincount(ends, minlength=sizes.entities + sizes.concepts)
    rows = []
    for processes in (2, 4, 8, 16):
        shards = NodeShards.of(sizes, Rounds.of(processes), degrees)
        counts = torch.zeros(processes, len(shards.rounds))
        for own in sources:
            for process in range(processes):
                turns = shards.turns(own.links_L3, process).long()
                counts[process] += torch.bincount(turns[turns >= 0], minlength=len(shards.rounds))
        share = float(counts.mean() / counts.amax(0).mean())
        rows.append({"set": name, "processes": f"{processes}", "balance": share})
        print(f"{name:12} {processes:2} processes: {share:.3f}", flush=True)
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--scratch", type=Path, default=Path("scratch"))
    parser.add_argument("--only", action="append", help="a set; may be repeated")
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--rank", type=int, default=32)
    parser.add_argument("--candidates", type=int, default=512)
    parser.add_argument("--epochs", type=int, default=6)
    parser.add_argument("--seeds", type=int, default=2)
    parser.add_argument("--batch", type=int, default=2048, help="batches.size")
    parser.add_argument("--shards", type=int, default=0, help="hardware.shards of the one process")
    parser.add_argument("--balance", action="store_true")
    chosen = parser.parse_args()
    settings = resolve([read_recipe("credo")], "credo")
    settings = replace(
        settings,
        batches=replace(settings.batches, size=chosen.batch),
        hardware=replace(settings.hardware, device="cpu", threads=1, shards=chosen.shards),
        stopping=replace(settings.stopping, epochs=chosen.epochs),
    )
    config = ComplexConfig(chosen.rank, candidates=chosen.candidates, experts=2)
    rows = []
    for name in chosen.only or ("dbpedia77k", "yago4"):
        facts = open_store(chosen.scratch / f"kb-{name}").facts
        arms = (chosen.processes, chosen.seeds)
        rows += balance(name, facts) if chosen.balance else measure(name, facts, settings, config, arms)
    if "OUT" in os.environ:
        (Path(os.environ["OUT"]) / "processes.json").write_text(json.dumps(rows, indent=1) + "\n")


if __name__ == "__main__":
    main()
