"""Queries to check degrees with: drawn from the training graph, by nothing that was held out (docs/adr/0052).

The queries of train, valid and test are drawn to have an answer that must be predicted; among the answers predicted for
them more are true than among those that people see. Here a query has an answer in the training graph, and nothing else
is asked of it. Its targets are the answers that only the largest graph has, which may be none. Top concepts are answers
like any other here: a person sees them with a degree.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from typing import Final

import numpy as np

from tarbox.benchmark.options import CALIBRATED, CALIBRATION, BenchmarkOptions, Protocol
from tarbox.benchmark.sampling import SampledQueries, SamplingGraph, SamplingProgress, SamplingTask, sample_task
from tarbox.execution.graph import Index
from tarbox.kb.splits import Split
from tarbox.query.templates import TEMPLATES

MOST_HARD_ANSWERS: Final = 10_000
"""A query with more hard answers is left out, for the sake of memory. The bound of the other tables, 100, would leave
out up to a fifth of the queries of 2p, and those are the ones whose predictions are most often true."""


def calibration_tasks(options: BenchmarkOptions) -> list[SamplingTask]:
    """One task per template; none under the paper's protocol, whose splits hold no typing out."""
    if options.protocol is not Protocol.HONEST or not options.calibration:
        return []
    return [SamplingTask(name, TEMPLATES[name].shape, CALIBRATION, options.calibration) for name in CALIBRATED]


def sample_calibration(
    split: Split, options: BenchmarkOptions, progress: SamplingProgress | None = None
) -> list[SampledQueries]:
    """The queries of all tasks; what follows from the training graph is known."""
    tasks = calibration_tasks(options)
    if not tasks:
        return []
    never = np.zeros(len(split.whole.vocabulary.concepts), np.bool_)
    unhindered = replace(options, max_answers=MOST_HARD_ANSWERS)
    graph = SamplingGraph(Index.of(split.whole, split.train), hard=True, never=never, every=True)
    with ThreadPoolExecutor(options.workers) as pool:
        return list(pool.map(partial(sample_task, graph=graph, options=unhindered, progress=progress), tasks))
