"""A link predictor trained by several processes of one thread each, as a ratio to one process in the same run.

    PYTHONPATH=src python3 benchmarks/processes.py                                # dbpedia77k and yago4 of scratch/
    PYTHONPATH=src python3 benchmarks/processes.py --only yago4 --processes 3 --epochs 4
    PYTHONPATH=src python3 benchmarks/processes.py --only yago4 --batch 1448      # other steps
    PYTHONPATH=src python3 benchmarks/processes.py --balance                      # how evenly links are divided

Stores are expected under scratch/kb-NAME. A tenth of the facts is held out; all arms train on the others with the same
settings, epochs and seed. Epochs of one process and of several take turns, since a machine is not as fast at all times:
the ratio is the median of those of two epochs after each other, and links per second are those of the median epoch,
with what processes say to each other. Where others are at work, one process can go to the processor that is idle, and
two cannot: pairs of epochs in which others had more than a twentieth of a processor are left out, if enough remain.
MRR is of held-out assertions in both directions among all entities, known ones filtered. The seeds of one process show
what a seed is worth.

`--ceiling` has one process train beside as many others that train by themselves, in turns with the rest: what they do
together, times one alone, is what the machine gives to processes that have nothing to say to each other.

Bars: `--processes 2` at 1.7 times the rate, and the same MRR within 0.5 points.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import signal
import time
from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from multiprocessing.synchronize import Event
from pathlib import Path
from typing import Any, Final, cast

os.environ.setdefault("OMP_NUM_THREADS", "1")  # before torch is imported, and in every process

import numpy as np
import torch

from tarbox.kb.arrays import Doubles
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
from tarbox.training.memory import kept
from tarbox.training.settings import Settings, read_recipe, resolve
from tarbox.training.sharded import LeaderOrder, ShardedEngine, follow
from tarbox.training.sharding import NodeShards, Rounds
from tarbox.training.step import Stepper

FASTER: Final = 1.7
WITHIN: Final = 0.5
MEASURED: Final = 5000
"""Held-out assertions."""
QUIET: Final = 0.05
"""Of a processor, what others may have."""
ENOUGH: Final = 5
"""Pairs of epochs."""


def train(facts: HeldOut, settings: Settings, config: ComplexConfig) -> Generator[float, None, Complex]:
    """Gives the seconds of each epoch; then the predictor."""
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
        with numerics(hardware), threads(hardware, engine.operations()), kept():
            step = engine.runner(hardware)
            for epoch in range(settings.stopping.epochs):
                engine.set_rate(settings.optimizer.rate_at(epoch / settings.stopping.epochs))
                start = time.perf_counter()
                engine.portions.begin(settings.seed, epoch, 0)
                for _ in range(engine.portions.steps):
                    step()
                yield time.perf_counter() - start
            engine.collect()
        if isinstance(engine, ShardedEngine):
            engine.release()
    return predictor


def time_pairs(arms: Sequence[Generator[float, None, Complex]], epochs: int) -> tuple[Doubles, int]:
    """([pairs, arms] the seconds of epochs that take turns, how many had no others beside them): these alone if they
    are enough, and never the first."""
    seconds, quiet = [], []
    for _ in range(epochs):
        pair, others = [], []
        for arm in arms:
            before = spent_by_others()
            pair.append(next(arm))
            others.append(spent_by_others() - before)
        seconds.append(pair)
        quiet.append(all(spent <= QUIET * own for spent, own in zip(others, pair, strict=True)))
        print(f"{' to '.join(f'{own:.2f} s' for own in pair)}; others had {sum(others):.2f} s", flush=True)
    found, chosen = np.array(seconds[1:]), np.array(quiet[1:])
    print(f"{chosen.sum()} of {len(chosen)} pairs of epochs without others; {ENOUGH} are enough")
    return found[chosen] if chosen.sum() >= ENOUGH else found, int(chosen.sum())


def toil(facts: HeldOut, settings: Settings, config: ComplexConfig, ready: Event) -> None:
    """A process that trains by itself, without end."""
    while True:
        for _ in train(facts, settings, config):
            ready.set()


@contextmanager
def beside(
    others: int, facts: HeldOut, settings: Settings, config: ComplexConfig
) -> Iterator[Generator[float, None, Complex]]:
    """An arm of one process, during whose epochs so many others train by themselves."""
    start = multiprocessing.get_context("spawn")
    ready = [start.Event() for _ in range(others)]
    twins = [start.Process(target=toil, args=(facts, settings, config, own), daemon=True) for own in ready]

    def tell(number: signal.Signals) -> None:
        for twin in twins:
            assert twin.pid is not None
            os.kill(twin.pid, number)

    def arm() -> Generator[float, None, Complex]:
        alone = train(facts, settings, config)
        for _ in range(settings.stopping.epochs):
            tell(signal.SIGCONT)
            seconds = next(alone)
            tell(signal.SIGSTOP)
            yield seconds
        return finish(alone)

    for twin, own in zip(twins, ready, strict=True):
        twin.start()
        own.wait()
    tell(signal.SIGSTOP)
    try:
        yield arm()
    finally:
        tell(signal.SIGKILL)


def spent_by_others() -> float:
    """Seconds of processors that all but this process and its children have had; 0 where there is no /proc."""
    if not Path("/proc/stat").exists():
        return 0.0
    user, nice, system, _, _, *rest = map(int, Path("/proc/stat").read_text().splitlines()[0].split()[1:9])
    own = 0
    for process in (os.getpid(), *(child.pid for child in multiprocessing.active_children())):
        fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
        own += int(fields[11]) + int(fields[12])
    return (user + nice + system + sum(rest) - own) / os.sysconf("SC_CLK_TCK")


def finish(arm: Generator[float, None, Complex]) -> Complex:
    try:
        next(arm)
    except StopIteration as end:
        return cast(Complex, end.value)
    raise AssertionError


def ceiling(name: str, facts: HeldOut, settings: Settings, config: ComplexConfig) -> dict[str, Any]:
    """What as many processes as the settings say do, times one: together, and each by itself."""
    size, own = settings.hardware.processes, replace(settings, hardware=replace(settings.hardware, processes=1))
    with beside(size - 1, facts, own, config) as apart:
        arms = [train(facts, own, config), train(facts, settings, config), apart]
        seconds, _ = time_pairs(arms, settings.stopping.epochs)
        for arm in arms:
            finish(arm)
    one, together, by_itself = seconds.T
    ratios = {
        "speedup": one / together,
        "ceiling": size * one / by_itself,
        "of_ceiling": by_itself / (size * together),
    }
    found = {key: float(np.median(ratio)) for key, ratio in ratios.items()}
    said = "{speedup:.2f} times one; {ceiling:.2f} each by itself; {of_ceiling:.2f} of that".format(**found)
    print(f"{name:12} {size} processes: {said}", flush=True)
    return {"set": name, "compared": f"{size} to as many apart", **found}


def measure(
    name: str, facts: Facts, settings: Settings, config: ComplexConfig, arms: tuple[int, int]
) -> list[dict[str, Any]]:
    """Of so many processes, and so many seeds."""
    processes, seeds = arms
    held = HeldOut(facts, hold_out(facts, settings.seed, 0.1))
    asked, links = draw(held.lost(), MEASURED, 0), sum(map(len, link_sources(held.kept, 0, torch.device("cpu"))))
    rows: list[dict[str, Any]] = []
    ratios, quiet = list[float](), 0
    for seed in range(seeds):
        trained = {}
        for size in (1, processes):
            shards = settings.hardware.shards if size == 1 else 0
            own = replace(settings, seed=seed, hardware=replace(settings.hardware, processes=size, shards=shards))
            trained[size] = train(held, own, config)
        seconds, without_others = time_pairs(list(trained.values()), settings.stopping.epochs)
        quiet += without_others
        ratios += (seconds[:, 0] / seconds[:, 1]).tolist()
        torch.set_num_threads(os.cpu_count() or 1)
        for (size, arm), median in zip(trained.items(), np.median(seconds, 0), strict=True):
            mrr = mean_reciprocal_rank(finish(arm), facts, asked)
            rows.append({"set": name, "processes": f"{size}", "seed": seed, "mrr": mrr})
            rows[-1]["links_per_second"] = round(links / median)
            print(
                f"{name:12} {size} processes, seed {seed}: {links / median:9,.0f} links/s, MRR {100 * mrr:.2f}",
                flush=True,
            )
        torch.set_num_threads(1)
    one, many = ([row for row in rows if row["processes"] == f"{size}"] for size in (1, processes))
    ratio, (low, high) = float(np.median(ratios)), np.quantile(ratios, [0.25, 0.75])
    less = 100 * (sum(row["mrr"] for row in one) - sum(row["mrr"] for row in many)) / len(one)
    noise = 100 * abs(one[0]["mrr"] - one[-1]["mrr"])
    met = ratio >= FASTER and abs(less) <= WITHIN
    print(
        f"{name:12} {ratio:.2f} times the rate (half of the pairs of epochs {low:.2f} to {high:.2f}), "
        f"MRR less by {less:+.2f} points (two seeds of one differ by {noise:.2f})"
    )
    print(f"bars         {FASTER} times and within {WITHIN}: {'met' if met else 'MISSED'}", flush=True)
    spread = {"low": float(low), "high": float(high), "pairs": len(ratios), "pairs_without_others": quiet}
    return [*rows, {"set": name, "compared": f"{processes} to 1", "speedup": ratio, **spread, "mrr_less": less / 100}]


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
    parser.add_argument("--rank", type=int, default=64)
    parser.add_argument("--candidates", type=int, default=512)
    parser.add_argument("--epochs", type=int, default=15)
    parser.add_argument("--seeds", type=int, default=2)
    parser.add_argument("--batch", type=int, default=2048, help="batches.size")
    parser.add_argument("--shards", type=int, default=0, help="hardware.shards of the one process")
    parser.add_argument("--balance", action="store_true")
    parser.add_argument("--ceiling", action="store_true")
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
        if chosen.balance:
            rows += balance(name, facts)
        elif chosen.ceiling:
            own = replace(settings, hardware=replace(settings.hardware, processes=chosen.processes))
            rows.append(ceiling(name, HeldOut(facts, hold_out(facts, settings.seed, 0.1)), own, config))
        else:
            rows += measure(name, facts, settings, config, (chosen.processes, chosen.seeds))
    if "OUT" in os.environ:
        (Path(os.environ["OUT"]) / "processes.json").write_text(json.dumps(rows, indent=1) + "\n")


if __name__ == "__main__":
    main()
