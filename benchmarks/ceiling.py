"""How high can concepts score under the paper's protocol, for one who knows the answer but not which concept was drawn?

    PYTHONPATH=src python3 benchmarks/ceiling.py scratch/yago4 --run RUN     # after `tarbox bench import`

The protocol's concept target is one random concept of one answer, and only concepts of training answers are filtered.
Whoever knows the k concepts of the answer that are not filtered, and puts them first in whatever order, has an expected
reciprocal rank of (1 + 1/2 + ... + 1/k) / k. Which answers there are is known from the entity queries of the same
table, drawn in the same way: their targets, where the knowledge base has concepts of them. A concept drawn from such an
answer is not filtered with probability k / n, if it has n in all, so that much does an answer count. Three kinds of
concept queries: the target follows from the whole training graph (`derivable`; it counts 1, since all others are
filtered); it does not, and concepts of training answers are known (`some known`); none are (`none known`). The column
`run` is what a run has on these queries.

That the draw is even, so that no order of an answer's concepts is better than another, is counted on the training
queries with exactly one known answer: how often the target is the widest of its k concepts, the second, and so on.

Then two things about the tables themselves. What equal scores are worth: counting, with ties that count half, and put
in order at random. And where the missing link of a union is: in which alternatives the target of an entity query stands
elsewhere at the end of the relation, and what a run has that looks for answers in one alternative only.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from tarbox.benchmark.folder import Benchmark, open_benchmark
from tarbox.benchmark.tables import OUTSIDE, QueryTable
from tarbox.core.ids import Level
from tarbox.evaluation.evaluator import rank_table
from tarbox.execution.exact import answer_rows
from tarbox.execution.graph import Index
from tarbox.kb.closure import Instances
from tarbox.kb.facts import Facts, Ids
from tarbox.models.counting import Counting
from tarbox.models.credo import alternatives
from tarbox.models.saved import open_run
from tarbox.models.scorer import Scorer
from tarbox.query.algebra import Or, Query, slots

Floats = NDArray[np.float64]
KINDS = ("derivable", "some known", "none known")


def kinds(table: QueryTable) -> NDArray[np.int64]:
    """The place in KINDS of each concept query."""
    known = np.diff(table.lists("known").offsets) > 0
    return np.where(table.derivable() > 0, 0, np.where(known, 1, 2))


def of_level(table: QueryTable, level: Level) -> QueryTable:
    return table.take(np.flatnonzero(np.array(table.texts("level")) == level.value))


@dataclass(frozen=True, slots=True)
class Knowing:
    """By entity query: what whoever knows the target's concepts `expects`, how much such a query `counts` among those
    whose concept is not filtered, and the place in KINDS of these."""

    expects: Floats
    counts: Floats
    kinds: NDArray[np.int64]

    def mean(self, chosen: NDArray[np.bool_]) -> float:
        """Over the queries chosen; where there are none, an answer is taken to have as many concepts as elsewhere."""
        weights = self.counts * chosen
        return float(np.average(self.expects, weights=weights if weights.any() else self.counts))


def knowing(table: QueryTable, instances: Instances) -> Knowing:
    """Of entity queries whose target has concepts; others count nothing."""
    targets, known = table.lists("target"), table.lists("known")
    expects, counts, kind = np.zeros(len(table)), np.zeros(len(table)), np.full(len(table), 2)
    for row in range(len(table)):
        target = int(targets.values[targets.offsets[row]])
        others = known.values[known.offsets[row] : known.offsets[row + 1]]
        filtered = instances.concepts_of.gather(others[others != OUTSIDE])[1]
        concepts = instances.concepts_of[target] if target != OUTSIDE else filtered[:0]
        left = len(np.setdiff1d(concepts, filtered))
        kind[row] = 1 if len(filtered) else 2
        if left:
            expects[row], counts[row] = np.mean(1.0 / np.arange(1, left + 1)), left / len(concepts)
    return Knowing(expects, counts, kind)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("benchmark", type=Path)
    parser.add_argument("--run", type=Path)
    options = parser.parse_args()
    benchmark = open_benchmark(options.benchmark)
    table = benchmark.table("valid")
    concepts, entities = (of_level(table, level) for level in (Level.CONCEPT, Level.ENTITY))
    best = knowing(entities, Instances.of(benchmark.store.facts))
    run: Scorer | None = open_run(options.run).scorer() if options.run else None
    ours = reciprocal(run, concepts, benchmark) if run else np.full(len(concepts), np.nan)
    report(concepts, entities, best, ours)
    draws(of_level(benchmark.table("train"), Level.CONCEPT), Index.of(benchmark.store.facts))
    counting = Counting.from_facts(benchmark.store.facts)
    show("counting, ties half", counting, concepts, benchmark)
    show("counting, ties at random", Changed(counting, shuffled), concepts, benchmark)
    place_unions(entities, benchmark.store.facts)
    if run is None:
        return
    for asked in (one.take(unions(one)) for one in (entities, concepts)):
        show("unions, all alternatives", run, asked, benchmark)
        show("unions, the first alone", Changed(run, partial(of_alternative, 0)), asked, benchmark)
        show("unions, the last alone", Changed(run, partial(of_alternative, -1)), asked, benchmark)


def reciprocal(scorer: Scorer, table: QueryTable, benchmark: Benchmark) -> Floats:
    """By query."""
    found = rank_table(scorer, table, benchmark.excluded())
    return np.bincount(found.rows(), 1.0 / found.ranks, len(table)).astype(np.float64)


def show(label: str, scorer: Scorer, table: QueryTable, benchmark: Benchmark) -> None:
    """The average over templates, and each."""
    values, templates = reciprocal(scorer, table, benchmark), np.array(table.texts("template"))
    means = {one: 100 * values[templates == one].mean() for one in dict.fromkeys(templates.tolist())}
    each = ", ".join(f"{one} {mean:.1f}" for one, mean in means.items())
    print(f"{label}, {table.texts('level')[0]}: {np.mean(list(means.values())):.1f} ({each})")


def report(concepts: QueryTable, entities: QueryTable, best: Knowing, ours: Floats) -> None:
    print(f"{'':10}" + "".join(f"{kind:>26}" for kind in (*KINDS, "all")))
    print(f"{'':10}" + f"{'queries  knowing     run':>26}" * len(KINDS) + f"{'knowing     run':>26}")
    of_concepts, of_entities = (np.array(table.texts("template")) for table in (concepts, entities))
    totals = []
    for template in dict.fromkeys(of_concepts.tolist()):
        mine, line, total = of_concepts == template, f"{template:10}", 0.0
        for place in range(len(KINDS)):
            asked = mine & (kinds(concepts) == place)
            expected = best.mean((of_entities == template) & (best.kinds == place)) if place else 1.0
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


@dataclass(frozen=True, slots=True)
class Changed:
    """A model whose scores are made in another way."""

    scorer: Scorer
    way: Callable[[Scorer, Query, Ids, Level], Floats]

    def candidates(self, level: Level) -> int:
        return self.scorer.candidates(level)

    def supports(self, shape: Query) -> bool:
        return self.scorer.supports(shape)

    def score(self, shape: Query, ids: Ids, level: Level) -> Floats:
        return self.way(self.scorer, shape, ids, level)


def shuffled(scorer: Scorer, shape: Query, ids: Ids, level: Level) -> Floats:
    """Equals in a random order."""
    scores: Floats = np.asarray(scorer.score(shape, ids, level), np.float64)
    return scores + 1e-9 * np.random.default_rng(0).random(scores.shape)


def of_alternative(place: int, scorer: Scorer, shape: Query, ids: Ids, level: Level) -> Floats:
    """What is not known of a union is looked for in one of its alternatives."""
    whole: Floats = scorer.score(shape, ids, level)
    parts = alternatives(shape)
    if not parts:
        return whole
    part, columns = parts[place]
    return np.where(whole >= 1, 1 + whole, np.minimum(scorer.score(part, ids[:, columns], level), 1.0))


def unions(table: QueryTable) -> NDArray[np.int64]:
    """The rows of unions."""
    return np.concatenate([batch.rows for batch in table.batches() if alternatives(batch.shape)])


def place_unions(entities: QueryTable, facts: Facts) -> None:
    """In which alternatives of a union of single links the target is elsewhere at the end of the relation."""
    relations, size = facts.relations.astype(np.int64), len(facts.vocabulary.entities)
    ends = np.unique(np.concatenate([2 * relations * size + facts.heads, (2 * relations + 1) * size + facts.tails]))
    targets, found = entities.lists("target"), np.zeros((2, 2), np.int64)
    for batch in entities.batches():
        if not isinstance(batch.shape, Or) or len(slots(batch.shape)) != 4:
            continue
        rows = np.asarray(batch.rows)[entities.derivable()[batch.rows] == 0]
        own = batch.ids[entities.derivable()[batch.rows] == 0].astype(np.int64)
        target = targets.values[targets.offsets[rows]]
        first, second = (np.isin(own[:, place] * size + target, ends) for place in (0, 2))
        np.add.at(found, (first.astype(int), second.astype(int)), 1)
    places = {"first only": found[1, 0], "second only": found[0, 1], "both": found[1, 1], "neither": found[0, 0]}
    counts = ", ".join(f"{place} {count}" for place, count in places.items())
    print(f"2u, relations that lead to the target elsewhere: {counts}")


if __name__ == "__main__":
    main()
