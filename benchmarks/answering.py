"""How fast one core answers: loading, latency by template, memory.

    python benchmarks/answering.py RUN                   # a run of any model; those that believe are asked by level too
    python benchmarks/answering.py --synthetic           # 100,000 entities at random, and ten probabilities for each fact

Everything runs in one thread on one processor. Queries are made from random walks over the facts, so each has a known
answer. *entity* and *concept* are the model's scores of all candidates at that level, *answer* is what a user waits
for: `Reasoner.answer` with k = 10, both lists, names included. Memory is the greatest this process has had (ru_maxrss).
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, Final

os.environ["OMP_NUM_THREADS"] = os.environ["NUMBA_NUM_THREADS"] = "1"  # before numpy is imported

import numpy as np
import safetensors.numpy
from numpy.typing import NDArray
from tarbox.models.calibration import Calibrator
from tarbox.models.describing import FEATURES, Describer
from tarbox.models.probabilities import LEAST, FactProbabilities

from tarbox.core.ids import Level
from tarbox.execution.graph import Index
from tarbox.execution.rows import decode
from tarbox.kb.facts import Facts
from tarbox.kb.store import open_store
from tarbox.kb.vocabulary import Vocabulary
from tarbox.kb.writing import write_store
from tarbox.models.credo import Credo
from tarbox.models.saved import sizes_of
from tarbox.models.scorer import Scorer
from tarbox.query.algebra import And, Entity, Exists, Not, Or, Query
from tarbox.query.templates import TEMPLATES
from tarbox.service.answering import warm_up
from tarbox.service.reasoner import Reasoner

SHAPES: Final = ("1p", "2p", "3p", "2i", "pi", "2u", "2in")
MEASURED: Final = "3p"
SLOW: Final = 0.05
LOADED: Final = 2.0
USUAL: Final = 50_000
"""The entities of a run up to which loading has a bar: YAGO4's size."""
ROOM: Final = 8e9
Ids = NDArray[np.int32]


class Walks:
    """Random queries over the facts, each with a known answer unless a negated part takes it away."""

    def __init__(self, facts: Facts, seed: int) -> None:
        near = np.concatenate([facts.heads, facts.tails])
        order = np.argsort(near, kind="stable")
        self._directed = np.concatenate([2 * facts.relations, 2 * facts.relations + 1])[order]
        self._others = np.concatenate([facts.tails, facts.heads])[order]
        self._starts = np.searchsorted(near[order], np.arange(len(facts.vocabulary.entities) + 1))
        self._random = np.random.default_rng(seed)

    def query(self, shape: Query) -> Ids:
        """The ids of one query of a shape."""
        return np.array(list(self._slots(shape, self._anyone())), np.int32)

    def _anyone(self) -> int:
        """An entity with facts, by how many it has."""
        return int(self._others[self._random.integers(len(self._others))])

    def _slots(self, node: Query, entity: int) -> list[int]:
        match node:
            case Entity():
                return [entity]
            case Exists(operand=operand):
                place = self._random.integers(self._starts[entity], self._starts[entity + 1])
                return [int(self._directed[place]), *self._slots(operand, int(self._others[place]))]
            case And(operands=operands):
                return [slot for operand in operands for slot in self._slots(operand, entity)]
            case Or(operands=operands):
                others = [self._slots(operand, self._anyone()) for operand in operands[1:]]
                return [*self._slots(operands[0], entity), *(slot for slots in others for slot in slots)]
            case Not(operand=operand):
                return self._slots(operand, self._anyone())
            case _:
                raise SystemExit(f"no queries are made for {node}")


def times(asked: list[Any], call: Callable[[Any], object]) -> tuple[float, float]:
    """(median, 99th percentile) of the seconds of a call."""
    taken = []
    for one in asked:
        began = time.perf_counter()
        call(one)
        taken.append(time.perf_counter() - began)
    median, most = np.percentile(taken, [50, 99]).tolist()
    return median, most


def score(scorer: Scorer, shape: Query, level: Level, row: Ids) -> object:
    return scorer.score(shape, row[None], level)


def measure(run: Path, count: int) -> bool:
    """Prints the figures of a run; returns whether its bars are met."""
    began = time.perf_counter()
    reasoner = Reasoner.load(run)
    scorer: Scorer = reasoner._scorer
    loaded = time.perf_counter() - began
    warm_up(reasoner)
    warmed = time.perf_counter() - began - loaded
    kb, index = reasoner.kb, reasoner.kb.index
    print(f"{kb.title}, {reasoner.model}: {len(kb.entities):,} entities, {len(kb.concepts):,} concepts, ", end="")
    print(f"{len(kb.facts.heads):,} assertions, {len(index.instances.concepts_of.columns):,} typings under closure")
    if isinstance(scorer, Credo):
        probabilities = scorer.probabilities
        print(
            f"believes      {len(probabilities.near) // 2:,} assertions, {len(probabilities.concepts.columns):,} typings"
        )
    print(f"loading       {loaded:.2f} s after imports; first answers {warmed:.2f} s")
    print(f"{'ms: median, p99':14} {'entity':>16} {'concept':>16} {'answer':>16}")
    walks, slowest = Walks(kb.facts, 0), 0.0
    for name in SHAPES:
        shape = TEMPLATES[name].shape
        rows = [walks.query(shape) for _ in range(count)]
        queries = [decode(shape, row, kb.facts.vocabulary) for row in rows]
        scorer.score(shape, rows[0][None], Level.CONCEPT)
        found = [times(rows, partial(score, scorer, shape, level)) for level in Level]
        found.append(times(queries, reasoner.answer))
        print(f"{name:14} " + " ".join(f"{median * 1e3:7.2f} {most * 1e3:8.2f}" for median, most in found), flush=True)
        slowest = found[-1][1] if name == MEASURED else slowest
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    print(f"memory        {memory / 1e9:.2f} GB")
    bars = {f"{MEASURED} p99 {SLOW * 1e3:g} ms": slowest < SLOW, f"{ROOM / 1e9:g} GB": memory < ROOM}
    if len(kb.entities) <= USUAL:
        bars[f"loading {LOADED:g} s"] = loaded < LOADED
    print("bars          " + ", ".join(f"{name}: {'met' if met else 'MISSED'}" for name, met in bars.items()))
    return all(bars.values())


def measure_alone(run: Path, count: int) -> bool:
    """The same, on one processor."""
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:1])
    return measure(run, count)


def write_synthetic(folder: Path, entities: int, seed: int = 0) -> None:
    """A run of credo over a random graph: 3 assertions and 1.5 typings for each entity, ten probabilities for each fact.

    A few entities and concepts have most of the facts, as everywhere: ids are drawn as squares of uniform numbers.
    """
    random = np.random.default_rng(seed)
    concepts, relations = max(entities // 100, 10), 50
    names = [
        [f"urn:x:{kind}{row:07}" for row in range(size)]
        for kind, size in zip("ecr", (entities, concepts, relations), strict=True)
    ]
    links = _draw(random, (relations, entities, entities), 33 * entities)
    typings = _draw(random, (entities, concepts), 33 * entities // 2)
    known, typed = (np.zeros(len(part), np.bool_) for part in (links, typings))
    known[random.choice(len(links), 3 * entities, replace=False)] = True
    typed[random.choice(len(typings), 3 * entities // 2, replace=False)] = True
    relation, head, tail = np.unravel_index(links[known], (relations, entities, entities))
    instance, concept = np.unravel_index(typings[typed], (entities, concepts))
    tree = [(row, int(random.integers(0, row))) for row in range(1, concepts)]
    vocabulary = Vocabulary.of(*names)
    facts = Facts.of(
        vocabulary,
        zip(head.tolist(), relation.tolist(), tail.tolist(), strict=True),
        zip(instance.tolist(), concept.tolist(), strict=True),
        tree,
    )
    guesses = [
        (keys[~taken], random.uniform(LEAST, 0.9, int((~taken).sum())).astype(np.float32) ** 2 + LEAST)
        for keys, taken in ((links, known), (typings, typed))
    ]
    index = Index.of(facts)
    weights = random.normal(0, 0.01, (2 * relations + concepts, concepts)).astype(np.float32)
    shapes = ((32, FEATURES), (32,), (32, 32), (32,), (1, 32), (1,))
    layers = tuple((0.2 * random.normal(size=shape)).astype(np.float32) for shape in shapes)
    ranking = Calibrator(np.zeros(FEATURES, np.float32), np.ones(FEATURES, np.float32), layers)
    probabilities = FactProbabilities.of(facts, sizes_of(facts), guesses[0], guesses[1])
    credo = Credo.of(index, probabilities, Describer.of(index, weights), ranking, "strongest")
    write_store(folder / "store", facts)
    safetensors.numpy.save_file(
        {name: np.ascontiguousarray(part) for name, part in credo.arrays().items()}, folder / "model.safetensors"
    )
    description = {
        "format": "tarbox-run",
        "version": 1,
        "model": "credo",
        "benchmark": {"relative": ".", "absolute": str(folder)},
    }
    description["vocabulary_hash"] = open_store(folder / "store").vocabulary_hash
    (folder / "run.json").write_text(json.dumps(description))
    (folder / "config.toml").write_text('[model]\nname = "credo"\n')


def _draw(random: np.random.Generator, sizes: tuple[int, ...], count: int) -> NDArray[np.int64]:
    """Sorted distinct keys of so many tuples of ids, small ids oftener than large ones."""
    columns = [np.minimum((random.random(count) ** 2 * size).astype(np.int64), size - 1) for size in sizes]
    return np.unique(np.ravel_multi_index(columns, sizes))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run", type=Path, nargs="?", help="a run")
    parser.add_argument("--queries", type=int, default=200, help="how many of each template")
    parser.add_argument("--synthetic", type=int, nargs="?", const=100_000, metavar="ENTITIES", help="make a run first")
    chosen = parser.parse_args()
    if chosen.run is None:
        if chosen.synthetic is None:
            parser.error("name a RUN, or give --synthetic")
        with tempfile.TemporaryDirectory() as folder:  # made by another process, whose memory is not measured
            command = [sys.executable, __file__, str(Path(folder) / "synthetic"), "--synthetic", str(chosen.synthetic)]
            subprocess.run(command, check=True)
            sys.exit(0 if measure_alone(Path(folder) / "synthetic", chosen.queries) else 1)
    if chosen.synthetic is not None:
        chosen.run.mkdir()
        write_synthetic(chosen.run, chosen.synthetic)
        return
    sys.exit(0 if measure_alone(chosen.run, chosen.queries) else 1)


if __name__ == "__main__":
    main()
