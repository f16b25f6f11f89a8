"""A link predictor of a large generated graph on one GPU: links per second, bytes moved, memory, the time of an epoch.

    PYTHONPATH=src python3 benchmarks/scale.py                                    # 20M entities, 100M facts, rank 64
    PYTHONPATH=src python3 benchmarks/scale.py --entities 20000 --facts 100000 --batch 2048 --rivals 256 --device cpu

Needs torch, numpy and safetensors alone, and no store: the graph is made on the device. Entities are in groups; a
relation leads from a group to one group, and there to some entities far more often than to others, so there is
something to learn, and there are hubs. What is trained and timed are the steps of `tarbox.training.step.Engine` on
links in both directions, as `tarbox train` makes them: sampled rivals, row-sparse gradients, Adagrad on the rows that a
step touches.

*bytes a link* adds up, over one step, what every operation reads and writes; of a table only the rows that it touches.
*least* is what any program must move: both rows read, and both with their sums read and written back. Shares are of
`--bandwidth`. Bars: 2 million links per second, and memory within 15% of what is computed before anything is allocated.
Results: a table, and $OUT/scale.json.
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
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from tarbox.models.base import Sizes, Task
from tarbox.models.complex import Complex, ComplexConfig
from tarbox.models.links import LinkSource, Rivals
from tarbox.training.hardware import Hardware, numerics, open_hardware, threads
from tarbox.training.loop import build_engine
from tarbox.training.settings import Settings, read_recipe, resolve
from tarbox.training.step import Engine

WANTED: Final = 2e6
"""Links per second."""
GROUPS: Final = 64
AT_ONCE: Final = 10_000_000
"""Facts that are made at a time."""
NEAR: Final = 0.15
"""How far measured memory may be from what was computed."""
LINK: Final = 12 + 8
"""Bytes of a link: its ids, and its place in the order of an epoch."""
SHUFFLED: Final = 32
"""Bytes of a link while that order is made, which is not while a step is."""
ROW_PASSES: Final = 14
"""Rows, about, that a step holds at a time for each of its links: embeddings, products, gradients, sums."""
SCORE_PASSES: Final = 4
"""The same of scores."""


class Traffic(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Adds up the bytes that operations read and write. A tensor with more than `most` rows is a table, and counts as
    the largest other tensor of the operation does: the rows that it touches."""

    def __init__(self, most: int) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.bytes, self._most = 0, most

    def __torch_dispatch__(self, function: Any, types: Any, arguments: Any = (), named: Any = None) -> Any:
        found = function(*arguments, **(named or {}))
        if not function.is_view:
            leaves = [own for own in tree_leaves((arguments, named, found)) if isinstance(own, Tensor)]
            dense = [own for own in leaves if not own.is_sparse]
            sizes = [own.numel() * own.element_size() for own in dense if own.ndim == 0 or len(own) <= self._most]
            self.bytes += sum(sizes) + (len(dense) - len(sizes)) * max(sizes, default=0)
        return found


def make_links(entities: int, facts: int, relations: int, device: torch.device) -> Tensor:
    """[2 * facts, 3] int32: (directed relation, near, far) of random facts, each in both directions."""
    links = torch.empty(2 * facts, 3, dtype=torch.int32, device=device)
    random = torch.Generator(device).manual_seed(0)
    members = max(1, entities // GROUPS)
    for start in range(0, facts, AT_ONCE):
        size = min(AT_ONCE, facts - start)
        heads = torch.randint(entities, (size,), generator=random, device=device)
        relation = torch.randint(relations, (size,), generator=random, device=device)
        place = (torch.rand(size, generator=random, device=device) ** 3 * members).long()
        tails = (place * GROUPS + (heads * 3 + relation * 5) % GROUPS).clamp_(max=entities - 1)
        own = links[2 * start : 2 * (start + size)].view(size, 2, 3)
        own[:, 0] = torch.stack([2 * relation + 1, heads, tails], 1).int()
        own[:, 1] = torch.stack([2 * relation, tails, heads], 1).int()
    return links


def memory_of(chosen: Any, batch: int) -> float:
    """Bytes, computed beforehand: tables with Adagrad's sums, links, and a step."""
    row = 8 * chosen.rank
    tables = 2 * row * (chosen.entities + 2 * chosen.relations + 3)
    step = batch * (ROW_PASSES * row + 4 * SCORE_PASSES * max(chosen.rivals, 2 * chosen.relations + 3))
    return float(tables + LINK * 2 * chosen.facts + max(step, SHUFFLED * 2 * chosen.facts))


def settings_of(chosen: argparse.Namespace, batch: int) -> Settings:
    settings = resolve([read_recipe("credo")], "credo")
    return replace(
        settings,
        batches=replace(settings.batches, size=batch, most_steps=0),
        hardware=replace(settings.hardware, device=chosen.device),
    )


def run(step: Any, hardware: Hardware, steps: int, seconds: float) -> tuple[int, float]:
    """(steps made, seconds) of so many steps, or those that fit into the time."""
    hardware.synchronize()
    began, made = time.perf_counter(), 0
    while made < steps and (made % 8 or time.perf_counter() - began < seconds):
        step()
        made += 1
        if made % 64 == 0:
            hardware.synchronize()  # else the host runs ahead of the clock
    hardware.synchronize()
    return made, time.perf_counter() - began


def measure(
    chosen: argparse.Namespace, batch: int, links: Tensor, module: Complex, hardware: Hardware
) -> tuple[dict[str, Any], Engine]:
    """A few steps of one size of batch."""
    source = LinkSource(Task.ENTITY, links, Rivals(slice(0, chosen.entities), chosen.rivals), sparse=True)
    engine = build_engine(settings_of(chosen, batch), module, [source], hardware)
    engine.set_rate(0.15)
    engine.portions.begin(0, 0, 0)
    step = engine.runner(hardware)
    for _ in range(3):
        step()
    with Traffic(4 * engine.portions.samples) as traffic:
        step()
    made, seconds = run(step, hardware, 10_000, chosen.seconds)
    samples, row = engine.portions.samples, 8 * chosen.rank
    rate, moved, least = made * samples / seconds, traffic.bytes / samples, 10 * row
    shares = {"share": rate * moved / chosen.bandwidth, "least_share": rate * least / chosen.bandwidth}
    print(
        f"batch {samples:9,}: {rate:13,.0f} links/s, {1000 * seconds / made:8.2f} ms a step, {moved / 1e3:7.1f} kB a "
        f"link ({shares['share']:.1%} of the bandwidth), least {least / 1e3:.1f} kB ({shares['least_share']:.2%})",
        flush=True,
    )
    found = {"links_per_second": rate, "bytes_per_link": moved, "least_bytes_per_link": least, **shares}
    return {"batch": f"{samples:,}", **found}, engine


def train_epoch(engine: Engine, hardware: Hardware, seconds: float) -> dict[str, Any]:
    """One epoch, or as much of it as there is time for; the loss of its first and its last steps."""
    engine.portions.begin(0, 1, 0)
    step, total = engine.runner(hardware), engine.portions.steps
    few = max(1, total // 50)
    losses, done, spent = [], 0, 0.0
    for part in (few, max(1, total - 2 * few), few):
        engine.losses_T.zero_()
        made, took = run(step, hardware, part, max(1.0, seconds - spent))
        done, spent = done + made, spent + took
        losses.append(float(engine.losses_T.sum()) / max(made, 1))
    epoch = spent / done * total
    print(f"epoch         {done:,} of {total:,} steps in {spent:.1f} s: {epoch:.1f} s an epoch; ", end="")
    print(f"loss {losses[0]:.2f} at its beginning, {losses[-1]:.2f} at its end", flush=True)
    return {"epoch_seconds": epoch, "done": done / total, "first_loss": losses[0], "last_loss": losses[-1]}


def report(chosen: argparse.Namespace, rows: list[dict[str, Any]], used: int, wanted: float) -> bool:
    """The short table; returns whether the bars are met."""
    rate = max(row.get("links_per_second", 0.0) for row in rows)
    near = abs(used / wanted - 1) <= NEAR if used else True
    print(
        f"\n{chosen.entities:,} entities, {chosen.facts:,} facts, rank {chosen.rank}, {chosen.rivals:,} rivals a step"
    )
    print(f"links per second  {rate:14,.0f}   bar {WANTED:,.0f}: {'met' if rate >= WANTED else 'MISSED'}")
    print(f"memory, computed  {wanted / 1e9:11.1f} GB")
    if used:
        print(f"memory, measured  {used / 1e9:11.1f} GB   bar within {NEAR:.0%}: {'met' if near else 'MISSED'}")
    larger = argparse.Namespace(**{**vars(chosen), "entities": 5 * chosen.entities, "facts": 5 * chosen.facts})
    print(f"five times the graph, computed {memory_of(larger, max(chosen.batch)) / 1e9:.1f} GB")
    return rate >= WANTED and near


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--entities", type=int, default=20_000_000)
    parser.add_argument("--facts", type=int, default=100_000_000)
    parser.add_argument("--relations", type=int, default=200)
    parser.add_argument("--rank", type=int, default=64)
    parser.add_argument("--rivals", type=int, default=2048)
    parser.add_argument("--batch", type=int, action="append", help="links of a step; may be repeated")
    parser.add_argument("--seconds", type=float, default=8.0, help="for each size of batch")
    parser.add_argument("--epoch", type=float, default=90.0, help="at most so many seconds of an epoch")
    parser.add_argument("--bandwidth", type=float, default=4.3e12, help="bytes per second")
    parser.add_argument("--device", default="auto")
    chosen = parser.parse_args()
    chosen.batch = chosen.batch or [32_768, 131_072, 262_144]
    hardware = open_hardware(settings_of(chosen, chosen.batch[0]).hardware)
    wanted = memory_of(chosen, max(chosen.batch))
    print(f"computed before: {wanted / 1e9:.1f} GB on {hardware.device}", flush=True)
    began = time.perf_counter()
    torch.manual_seed(0)
    with torch.device(hardware.device):
        module = Complex(
            ComplexConfig(chosen.rank, candidates=chosen.rivals), Sizes(chosen.entities, 0, chosen.relations)
        )
    links = make_links(chosen.entities, chosen.facts, chosen.relations, hardware.device)
    hardware.synchronize()
    print(f"graph and tables made in {time.perf_counter() - began:.1f} s", flush=True)
    if hardware.cuda:
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats(hardware.device)
    rows, best = [], None
    with numerics(hardware), threads(hardware, 1 << 30):
        for batch in chosen.batch:
            row, engine = measure(chosen, batch, links, module, hardware)
            rows.append(row)
            if best is None or row["links_per_second"] >= best[0]["links_per_second"]:
                best = row, engine.portions.samples
            del engine
        assert best is not None
        rows.append({"part": "epoch", "batch": best[0]["batch"], **_epoch(chosen, best[1], (links, module), hardware)})
    used = torch.cuda.max_memory_allocated(hardware.device) if hardware.cuda else 0
    rows.append({"part": "memory", "computed_gb": wanted / 1e9, "measured_gb": used / 1e9})
    rows.append({"part": "whole program", "seconds": time.perf_counter() - began})
    if "OUT" in os.environ:
        (Path(os.environ["OUT"]) / "scale.json").write_text(json.dumps(rows, indent=1) + "\n")
    sys.exit(0 if report(chosen, rows, used, wanted) else 1)


def _epoch(chosen: argparse.Namespace, batch: int, made: tuple[Tensor, Complex], hardware: Hardware) -> dict[str, Any]:
    """With the tables as they are, but sums from the beginning."""
    links, module = made
    source = LinkSource(Task.ENTITY, links, Rivals(slice(0, chosen.entities), chosen.rivals), sparse=True)
    engine = build_engine(settings_of(chosen, batch), module, [source], hardware)
    engine.set_rate(0.15)
    return train_epoch(engine, hardware, chosen.epoch)


if __name__ == "__main__":
    main()
