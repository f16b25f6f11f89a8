"""Are degrees frequencies, whatever is asked? Nine templates, both levels: the expected calibration error of a run.

    PYTHONPATH=src python3 benchmarks/reliability.py scratch/kb-codex-m RUN

The store is the one that the benchmark of the run was built from (honest protocol, split at random). Queries are drawn
from the whole graph as those of `tarbox eval --plot` are, which has 1p and 2p: without requiring a hard answer. The ten
best predictions of each count, in 15 bins of equal mass; truth is the whole graph. Templates with negation can be
named, but what follows from a part of a graph need not be true in the whole there, and counts as a prediction of 1.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import numpy as np

from tarbox.benchmark.building import table_of
from tarbox.benchmark.calibration import MOST_HARD_ANSWERS
from tarbox.benchmark.options import CALIBRATION, BenchmarkOptions
from tarbox.benchmark.sampling import SamplingGraph, SamplingTask, sample_task
from tarbox.core.ids import Level
from tarbox.evaluation.calibration import predict, reliability
from tarbox.execution.graph import Index
from tarbox.kb.splits import SplitBy, split_honestly
from tarbox.kb.store import open_store
from tarbox.models.saved import open_run
from tarbox.query.templates import TEMPLATES


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("store", type=Path)
    parser.add_argument("run", type=Path)
    parser.add_argument("--queries", type=int, default=500, help="of each template")
    parser.add_argument("--templates", default="1p,2p,3p,2i,3i,pi,ip,2u,up")
    options = parser.parse_args()
    reasoner: Any = open_run(options.run).scorer()
    whole = split_honestly(open_store(options.store).facts, 0, SplitBy.RANDOM).whole
    later = Index.of(whole, reasoner.index.facts)
    graph = SamplingGraph(later, hard=True, never=np.zeros(later.concepts, np.bool_), every=True)
    sampling = BenchmarkOptions(seed=1, max_answers=MOST_HARD_ANSWERS)
    print(f"{'':6}" + f"{'error  Brier  degree   true':>36}" * 2)
    print(f"{'':6}" + "".join(f"{level.value:>36}" for level in (Level.ENTITY, Level.CONCEPT)))
    for name in options.templates.split(","):
        task = SamplingTask(name, TEMPLATES[name].shape, CALIBRATION, options.queries)
        found = predict(reasoner, table_of([sample_task(task, graph, sampling)]))
        line = f"{name:6}"
        for level in (Level.ENTITY, Level.CONCEPT):
            one = reliability(found[level, name])
            line += f"{one.ece:16.3f}{one.brier:7.3f}{one.degree:8.2f}{one.true:7.2f}"[2:]
        print(line, flush=True)


if __name__ == "__main__":
    main()
