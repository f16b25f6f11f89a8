"""How fast one core answers: loading, latency by template, memory.

    python benchmarks/answering.py RUN                   # a run of any model

Everything runs in one thread on one processor. Queries are made from random walks over the facts, so each has a known
answer. *entity* and *concept* are the model's scores of all candidates at that level, *answer* is what a user waits
for: `Reasoner.answer` with k = 10, both lists, names included. Memory is the greatest this process has had (ru_maxrss).
`benchmarks/growth.py --answer` measures how this grows with a knowledge base.
"""

from __future__ import annotations

import argparse
import os
import resource
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, Final

os.environ["OMP_NUM_THREADS"] = os.environ["NUMBA_NUM_THREADS"] = "1"  # before numpy is imported

import numpy as np
from numpy.typing import NDArray

from tarbox.core.ids import Level
from tarbox.execution.rows import decode
from tarbox.kb.facts import Facts
from tarbox.models.scorer import Predictor, Scorer
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
    if isinstance(scorer, Predictor):
        held = scorer.probabilities
        print(f"probabilities {len(held.near) // 2:,} assertions, {len(held.concepts.columns):,} typings")
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


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run", type=Path, help="a run")
    parser.add_argument("--queries", type=int, default=200, help="how many of each template")
    chosen = parser.parse_args()
    sys.exit(0 if measure_alone(chosen.run, chosen.queries) else 1)


if __name__ == "__main__":
    main()
