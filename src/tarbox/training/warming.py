"""Compiling what a rehearsal runs, while something else is running.

The loops of a rehearsal are machine code that numba makes when they are first called, which takes half a minute once
per machine. `CompileAhead` has other processes make it, one for each of `PARTS`, beside the training of the predictors,
which leaves processors idle; numba keeps what is compiled on disk, where all find it.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, Self, final

import numpy as np

from tarbox.core.ids import Level
from tarbox.execution.graph import Index
from tarbox.kb.facts import Facts
from tarbox.kb.splits import hide
from tarbox.kb.vocabulary import Vocabulary
from tarbox.models.credo import CredoConfig
from tarbox.models.evidence import Evidence
from tarbox.models.probabilities import FactProbabilities
from tarbox.models.saved import sizes_of
from tarbox.query.algebra import slots
from tarbox.training.rehearsal import (
    ONE_HOP,
    assemble,
    draw_usual,
    list_concepts,
    rehearsed_shapes,
    sample_answers,
)

PATIENCE: Final = 60.0
"""Seconds that a rehearsal waits for the other processes before it compiles by itself."""


@final
class CompileAhead:
    """While this is open other processes compile, where there is anything to compile and a processor for it."""

    def __init__(self) -> None:
        self._processes: list[subprocess.Popen[bytes]] = []

    def __enter__(self) -> Self:
        if (os.cpu_count() or 1) > 1 and not all(map(os.path.exists, kept_code())):
            quiet = subprocess.DEVNULL
            for part in PARTS:
                command = [sys.executable, "-m", __name__, part]
                self._processes.append(subprocess.Popen(command, stdin=quiet, stdout=quiet, stderr=quiet))
        return self

    def wait(self) -> None:
        """Until they are done, but not for ever: what they leave is compiled by whoever needs it."""
        end = time.monotonic() + PATIENCE
        for process in self._processes:
            try:
                process.wait(max(0.0, end - time.monotonic()))
            except subprocess.TimeoutExpired:
                process.kill()

    def __exit__(self, *_: object) -> None:
        for process in self._processes:
            process.kill()
            process.wait()


def kept_code() -> Iterator[Path]:
    """Where numba keeps the functions that a rehearsal calls; those that they call are kept with them."""
    from tarbox.benchmark.kernels import sample_block
    from tarbox.execution.kernels import run
    from tarbox.models.neighbour_kernels import weigh_alike
    from tarbox.models.path_kernels import describe_facts
    from tarbox.models.probability_kernels import follow, gather_concepts, gather_shares

    functions: Sequence[Any] = (sample_block, run, describe_facts, weigh_alike, follow, gather_concepts, gather_shares)
    for function in functions:
        yield Path(function._cache._cache_file._index_path)


def few_facts() -> tuple[Facts, Facts]:
    """A graph, and the rest of it when some is hidden."""
    size = 24
    vocabulary = Vocabulary.of(*([f"{kind}{number:02}" for number in range(size)] for kind in "ecr"))
    chain = [(head, relation, (head * 5 + relation + 1) % size) for head in range(size) for relation in range(3)]
    typings = [(entity, entity % 5) for entity in range(size)]
    facts = Facts.of(vocabulary, chain, typings, [(0, 6), (1, 6)])
    return facts, hide(facts, 0, 0.2)


def gather_evidence() -> None:
    """Call once what makes the features of proposals."""
    evidence, pair = Evidence.of(few_facts()[1]), np.zeros(1, np.int64)
    evidence.ways.features(pair, pair, pair)
    evidence.alike(pair, pair, pair)


def draw_queries() -> None:
    """Call once what draws queries."""
    draw_usual(Index.of(*few_facts()), ONE_HOP, 2, 0)


def answer_queries() -> None:
    """Call once what answers queries."""
    facts, rest = few_facts()
    nothing = np.empty(0, np.int64), np.empty(0, np.float32)
    reasoner = assemble(rest, FactProbabilities.of(rest, sizes_of(rest), nothing, nothing), None, CredoConfig(), 0)
    later, make = Index.of(facts, rest), list_concepts(reasoner, np.random.default_rng(0))
    for shape in rehearsed_shapes(None):
        ids = np.zeros((2, len(slots(shape))), np.int32)
        for level in Level:
            list(sample_answers(reasoner, later, [(shape, ids)], level))
        make(shape, ids, later)


PARTS: Final[Mapping[str, Callable[[], None]]] = {
    "evidence": gather_evidence,
    "draws": draw_queries,
    "answers": answer_queries,
}


if __name__ == "__main__":
    PARTS[sys.argv[1]]()
