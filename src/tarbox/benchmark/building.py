"""From the facts of a knowledge base to a benchmark folder: divide, draw, answer exactly, write."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, final

import numpy as np
import pyarrow as pa

from tarbox.benchmark.calibration import sample_calibration
from tarbox.benchmark.folder import check_place, name_of, write_benchmark
from tarbox.benchmark.options import BenchmarkOptions
from tarbox.benchmark.sampling import SampledQueries, SamplingGraph, SamplingProgress, sample_all, sampling_graphs
from tarbox.benchmark.tables import Lists, QueryTable, render_shape
from tarbox.core.errors import BenchmarkError
from tarbox.core.ids import Level
from tarbox.execution.graph import Index
from tarbox.kb.facts import SPLITS, Facts
from tarbox.kb.store import Manifest, Store

LEVELS: Final = (Level.ENTITY, Level.CONCEPT)


@final
@dataclass(frozen=True, slots=True)
class Built:
    """What was written, and a sentence for every template that yielded fewer queries than wanted."""

    manifest: Manifest
    shortfalls: tuple[str, ...]


def build_benchmark(
    facts: Facts,
    options: BenchmarkOptions,
    out: str | os.PathLike[str],
    progress: SamplingProgress | None = None,
    origin: Store | None = None,
) -> Built:
    """Write the benchmark of a knowledge base to the folder `out`, at once or not at all.

    It depends on the facts and the options alone, whatever the number of workers. `origin` is the store that the facts
    are of: the manifest says its content hash, and its name goes with the training store.
    """
    check_place(Path(out))
    if not len(facts.heads):
        raise BenchmarkError("this knowledge base has no assertions, so there is nothing to ask about")
    split = options.divide(facts)
    graphs = sampling_graphs(split, options)
    sampled = sample_all(graphs, options, progress)
    tables = {part: table_of([queries for queries in sampled if queries.task.part == part]) for part in SPLITS}
    never = np.flatnonzero(graphs["test"].never).astype(np.int32)
    del graphs  # their indexes are as large as the one that calibration makes
    calibration = sample_calibration(split, options, progress)
    for part in dict.fromkeys(queries.task.part for queries in calibration):
        tables[part] = table_of([queries for queries in calibration if queries.task.part == part])
    shortfalls = tuple(text for queries in (*sampled, *calibration) if (text := queries.shortfall()) is not None)
    details: dict[str, Any] = {
        "protocol": options.protocol.value,
        "options": options.describe(),
        "templates": {name: render_shape(shape) for name, shape in options.shapes.items()},
        "facts": {part: stage.facts.counts() for part, stage in split.stages.items()},
        "shortfalls": list(shortfalls),
    }
    if origin is not None:
        details["origin"] = {"content_hash": origin.manifest["content_hash"]}
        details["store"] = {"name": name} if (name := name_of(origin)) is not None else {}
    manifest = write_benchmark(out, split, tables, details, {Level.CONCEPT: never}, origin.axioms() if origin else ())
    return Built(manifest, shortfalls)


def sample_training_queries(facts: Facts, seed: int) -> QueryTable | None:
    """Training queries of a whole graph, nothing of which is held out: as many of each template as a benchmark has.

    None where there are no assertions to ask about. The same facts and seed give the same queries.
    """
    wanted = BenchmarkOptions().counts[SPLITS.index("train")]
    options = BenchmarkOptions(counts=(wanted, 0, 0), seed=seed, workers=os.cpu_count() or 1)
    return training_table(facts, options) if len(facts.heads) else None


def training_table(facts: Facts, options: BenchmarkOptions) -> QueryTable:
    """The training queries that the options want of a whole graph."""
    index = Index.of(facts)
    never = np.zeros(len(facts.vocabulary.concepts), np.bool_)
    never[index.descriptions.top_concepts()] = True
    return table_of(sample_all({"train": SamplingGraph(index, False, never)}, options))


def table_of(sampled: Sequence[SampledQueries]) -> QueryTable:
    """The query table of one part: by template, then level; ids such as ``2p-entity-0``."""
    return QueryTable.concatenate(_level_table(queries, level) for queries in sampled for level in LEVELS)


def _level_table(queries: SampledQueries, level: Level) -> QueryTable:
    asked = queries.levels[level]
    size, ids, template = len(asked.rows), queries.ids[asked.rows], queries.task.template
    columns: dict[str, Any] = {
        "id": [f"{template}-{level.value}-{number}" for number in range(size)],
        "template": [template] * size,
        "level": [level.value] * size,
        "shape": [render_shape(queries.task.shape)] * size,
        "slots": Lists(np.arange(size + 1, dtype=np.int64) * ids.shape[1], ids.ravel()),
        "target": asked.targets,
        "known": asked.known,
    }
    if queries.task.part != "train":
        columns["derivable"] = pa.array(asked.derivable)
        if len(asked.missing.values) == len(asked.targets.values):
            columns["missing"] = asked.missing
    return QueryTable.of(columns)
