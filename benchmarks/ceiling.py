"""How high can concepts score under the paper's protocol, for one who knows the answer but not which concept was drawn?

    PYTHONPATH=src python3 benchmarks/ceiling.py scratch/yago4 --run RUN     # after `tarbox bench import`

The protocol's concept target is one random concept of one answer, and only concepts of training answers are filtered.
Whoever knows the k concepts of the answer that are not filtered, and puts them first in whatever order, has an expected
reciprocal rank of (1 + 1/2 + ... + 1/k) / k. Which answers there are is known from the entity queries of the same
table, drawn in the same way: their targets, where the knowledge base has concepts of them. Three kinds of concept
queries: the target follows from the whole training graph (`derivable`; it counts 1, since all others are filtered); it
does not, and there are training answers (`some known`); there are none (`none known`). The column `run` is what a run
has on these queries.

That the draw is even, so that no order of an answer's concepts is better than another, is counted on the training
queries with exactly one known answer: how often the target is the widest of its k concepts, the second, and so on.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tarbox.benchmark.folder import Benchmark, open_benchmark
from tarbox.benchmark.tables import OUTSIDE, QueryTable
from tarbox.core.ids import Level
from tarbox.evaluation.evaluator import rank_table
from tarbox.execution.exact import answer_rows
from tarbox.execution.graph import Index
from tarbox.kb.closure import Instances
from tarbox.models.saved import open_run

Floats = NDArray[np.float64]
KINDS = ("derivable", "some known", "none known")


def kinds(table: QueryTable) -> NDArray[np.int64]:
    """The place in KINDS of each query."""
    known = np.diff(table.lists("known").offsets) > 0
    return np.where(table.derivable() > 0, 0, np.where(known, 1, 2))


def of_level(table: QueryTable, level: Level) -> QueryTable:
    return table.take(np.flatnonzero(np.array(table.texts("level")) == level.value))


def knowing(table: QueryTable, instances: Instances) -> Floats:
    """For entity queries: what whoever knows the target's concepts expects; nan where none are left."""
    targets, known = table.lists("target"), table.lists("known")
    found = np.full(len(table), np.nan)
    for row in range(len(table)):
        target = int(targets.values[targets.offsets[row]])
        if target == OUTSIDE:
            continue
        others = known.values[known.offsets[row] : known.offsets[row + 1]]
        filtered = instances.concepts_of.gather(others[others != OUTSIDE])[1]
        left = len(np.setdiff1d(instances.concepts_of[target], filtered))
        if left:
            found[row] = np.mean(1.0 / np.arange(1, left + 1))
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("benchmark", type=Path)
    parser.add_argument("--run", type=Path)
    options = parser.parse_args()
    benchmark = open_benchmark(options.benchmark)
    table = benchmark.table("valid")
    concepts, entities = (of_level(table, level) for level in (Level.CONCEPT, Level.ENTITY))
    best = knowing(entities, Instances.of(benchmark.store.facts))
    report(concepts, entities, best, ranked(options.run, concepts, benchmark))
    draws(of_level(benchmark.table("train"), Level.CONCEPT), Index.of(benchmark.store.facts))


def ranked(run: Path | None, concepts: QueryTable, benchmark: Benchmark) -> Floats:
    """Reciprocal ranks of a run, by query; nan without one."""
    if run is None:
        return np.full(len(concepts), np.nan)
    scorer: Any = open_run(run).scorer()
    found = rank_table(scorer, concepts, benchmark.excluded())
    return np.bincount(found.rows(), 1.0 / found.ranks, len(concepts)).astype(np.float64)


def report(concepts: QueryTable, entities: QueryTable, best: Floats, ours: Floats) -> None:
    print(f"{'':10}" + "".join(f"{kind:>26}" for kind in (*KINDS, "all")))
    print(f"{'':10}" + f"{'queries  knowing     run':>26}" * len(KINDS) + f"{'knowing     run':>26}")
    of_concepts, of_entities = (np.array(table.texts("template")) for table in (concepts, entities))
    totals = []
    for template in dict.fromkeys(of_concepts.tolist()):
        mine, line, total = of_concepts == template, f"{template:10}", 0.0
        for place in range(len(KINDS)):
            asked = mine & (kinds(concepts) == place)
            like = best[(of_entities == template) & (kinds(entities) == place) & ~np.isnan(best)]
            # Where the table has no such entity query, the answer is taken to have as many concepts as elsewhere.
            expected = 1.0 if not place else float(np.mean(like if len(like) else best[~np.isnan(best)]))
            total += expected * asked.sum()
            line += f"{asked.sum():>10}{100 * expected:>9.1f}{100 * ours[asked].sum() / max(asked.sum(), 1):>7.1f}"
        totals.append((total / mine.sum(), ours[mine].mean()))
        print(f"{line}{100 * totals[-1][0]:>19.1f}{100 * totals[-1][1]:>7.1f}")
    knowing_, run = np.mean(totals, axis=0)
    print(f"{'average':10}{'':>{26 * len(KINDS)}}{100 * knowing_:>19.1f}{100 * run:>7.1f}")


def draws(train: QueryTable, index: Index) -> None:
    """Where targets are among the concepts of the one answer, from the widest to the narrowest."""
    targets, width = train.lists("target"), index.instances.entities_of.sizes()
    places: dict[int, list[int]] = {}
    for batch in train.batches():
        entities, concepts, _ = answer_rows(batch.shape, batch.ids, index)
        for place, row in enumerate(batch.rows):
            drawn = targets.values[targets.offsets[row] : targets.offsets[row + 1]]
            kinds_of = sorted(concepts[place].tolist(), key=lambda one: -width[one])
            if len(entities[place]) == 1 and len(drawn) == 1 and drawn[0] in kinds_of:
                places.setdefault(len(kinds_of), []).append(kinds_of.index(int(drawn[0])))
    for size, found in sorted(places.items()):
        if size > 1 and 20 * size <= len(found):
            shares = " ".join(f"{share:.2f}" for share in np.bincount(found, minlength=size) / len(found))
            print(f"{len(found):6,} training queries, answers of {size:2} concepts; targets, widest first: {shares}")


if __name__ == "__main__":
    main()
