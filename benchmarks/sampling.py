"""Queries per second of the sampler, with complete easy and hard answers at both levels, in one process.

::

    python benchmarks/sampling.py --data KB          a store (tarbox kb build), or sources to build one from
    python benchmarks/sampling.py --data DIR --seconds 2 --templates 1p,2p

Each template is measured on the validation part of the honest protocol: a query counts when it is new, has a hard
answer and comes with its easy and hard entities and concepts and their missing links. Beside it runs the sampler over
dictionaries of sets (`dict_sampler.py`): same graphs, same protocol, same random numbers; the queries and answers of
both are compared. Compile time is reported by itself. Rates are per second of processor time, which on an idle
machine is a second, and which others on a shared one change little.
"""

from __future__ import annotations

import argparse
import resource
import sys
import tempfile
import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final, final

import numpy as np

from dict_sampler import DictSampler, Found
from tarbox.benchmark.options import BenchmarkOptions, Protocol, choose_shapes
from tarbox.benchmark.sampling import SampledQueries, SamplingGraph, SamplingTask, sample_task, sampling_graphs
from tarbox.core.ids import Level
from tarbox.kb.facts import Facts
from tarbox.query.algebra import Query

PART: Final = "valid"
FIELD: Final = 200
"""Queries a second of the field's own sampler (KGReasoning) on fb15k-237, entity level only."""


@final
@dataclass(frozen=True, slots=True)
class Speed:
    """Queries per second of one template: compiled, over sets, and over sets without missing links."""

    template: str
    compiled: float
    sets: float
    plain_sets: float


def load(paths: list[str]) -> Facts:
    """The facts of a store, or of sources, which are built into one first."""
    from tarbox.kb.store import MANIFEST, open_store

    if len(paths) == 1 and (Path(paths[0]) / MANIFEST).exists():
        return open_store(paths[0]).facts
    from tarbox.kb.build import build
    from tarbox.kb.sources import find_sources

    folder = tempfile.mkdtemp(prefix="tarbox-sampling-")
    sources, _ = find_sources(paths)
    return build(sources, Path(folder) / "store").facts


def measure_compiled(
    task: SamplingTask, graph: SamplingGraph, options: BenchmarkOptions, seconds: float
) -> tuple[float, SampledQueries]:
    """Queries per second, benchmark after benchmark of the standard size over this time, and the first of them."""
    results: list[SampledQueries] = []
    start = time.process_time()
    while time.process_time() - start < seconds:
        results.append(sample_task(task, graph, replace(options, seed=len(results))))
    elapsed = time.process_time() - start
    return sum(len(result.ids) for result in results) / elapsed, results[0]


def measure_sets(
    sampler: DictSampler, shape: Query, seed: int, seconds: float, missing: bool
) -> tuple[float, list[Found]]:
    """The same for the sampler over sets."""
    found: dict[tuple[int, ...], Found] = {}
    start, attempt = time.process_time(), 0
    while time.process_time() - start < seconds:
        drawn = sampler.attempt(shape, seed, attempt, missing)
        attempt += 1
        if drawn is not None:
            found.setdefault(drawn.ids, drawn)
    return len(found) / (time.process_time() - start), list(found.values())


def check_equal(fast: SampledQueries, slow: list[Found]) -> int:
    """Compares the queries both have drawn; returns how many those are."""
    asked = {level: dict(zip(a.rows.tolist(), range(len(a.rows)), strict=True)) for level, a in fast.levels.items()}
    both = min(len(fast.levels[Level.ENTITY].rows), len(slow))  # beyond, one level may already have its queries
    for number, expected in enumerate(slow[:both]):
        assert tuple(fast.ids[number].tolist()) == expected.ids, "the samplers drew different queries"
        pairs = (
            (Level.ENTITY, expected.targets, expected.missing),
            (Level.CONCEPT, expected.concept_targets, expected.concept_missing),
        )
        for level, targets, costs in pairs:
            place = asked[level].get(number)
            given = fast.levels[level].targets[place].tolist() if place is not None else []
            assert given == sorted(targets), "the samplers found different answers"
            if place is not None:
                assert fast.levels[level].missing[place].tolist() == [costs[x] for x in given], (
                    "different missing links"
                )
    return both


def measure(shapes: dict[str, Query], facts: Facts, seconds: float) -> list[Speed]:
    """Prints a line per template and returns the figures."""
    options = BenchmarkOptions(shapes=shapes)
    split = options.divide(facts)
    start = time.perf_counter()
    graph = sampling_graphs(split, options)[PART]
    print(f"indexes of three graphs: {time.perf_counter() - start:.1f} s")
    sampler = DictSampler(split.stages[PART], set(np.flatnonzero(graph.never).tolist()), options.max_answers)
    start = time.perf_counter()
    first = next(iter(shapes))
    sample_task(SamplingTask(first, shapes[first], PART, 1), graph, options)
    print(f"machine code, compiled or from the cache: {time.perf_counter() - start:.1f} s, not counted below")
    print("template  queries/s   sets/s   ratio   sets/s without missing links   ratio  checked")
    speeds = []
    for name, shape in shapes.items():
        seed = options.derive_seed(PART, name)
        compiled, queries = measure_compiled(
            SamplingTask(name, shape, PART, options.counts[1]), graph, options, seconds
        )
        sets, found = measure_sets(sampler, shape, seed, seconds, missing=True)
        plain, _ = measure_sets(sampler, shape, seed, seconds, missing=False)
        checked = check_equal(queries, found)
        speeds.append(Speed(name, compiled, sets, plain))
        rates = f"{compiled:11,.0f}{sets:9,.0f}{compiled / sets:8.0f}{plain:31,.0f}{compiled / plain:8.0f}"
        print(f"{name:8}{rates}{checked:9,}", flush=True)
    return speeds


def summarise(speeds: list[Speed]) -> None:
    """The average of the rates, then the rate over an equal number of queries of each template."""
    rates = np.array([(speed.compiled, speed.sets, speed.plain_sets) for speed in speeds])
    for label, mean in (("average rate", rates.mean(axis=0)), ("equal numbers", len(rates) / (1 / rates).sum(axis=0))):
        compiled, sets, plain = mean.tolist()
        ratios = f"{compiled / sets:.0f}x sets, {compiled / plain:.0f}x sets without missing links"
        print(f"{label}: {compiled:,.0f} queries/s, {ratios}, {compiled / FIELD:.0f}x KGReasoning's {FIELD}")
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(f"peak memory {peak:,.0f} MB, both samplers together")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", nargs="+", required=True, help="a store, or sources to build one from")
    parser.add_argument("--templates", help="names, separated by commas")
    parser.add_argument("--seconds", type=float, default=2.0, help="per template and sampler")
    given = parser.parse_args()
    shapes = dict(choose_shapes(given.templates, [], Protocol.HONEST))
    summarise(measure(shapes, load(given.data), given.seconds))
    return 0


if __name__ == "__main__":
    sys.exit(main())
