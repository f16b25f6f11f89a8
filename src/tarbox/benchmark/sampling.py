"""Drawing the queries of a benchmark with complete answers (docs/benchmarks.md).

A `SamplingTask` is one template for one part of the benchmark. Its attempts are numbered, each with its own random
numbers, and taken in order until every level has the queries wanted; so the result is the same on any number of
workers, which only share out the tasks. Workers are threads: the kernels release the interpreter lock. Attempts are
bounded in number: a graph too small or too sparse for a template yields fewer queries, and `SampledQueries` says why.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, final

import numpy as np

from tarbox.benchmark import selection
from tarbox.benchmark.options import BenchmarkOptions, Protocol
from tarbox.benchmark.selection import DrawnQueries, LevelQueries, concatenate
from tarbox.core.errors import BenchmarkError
from tarbox.core.ids import Level
from tarbox.execution.graph import Index
from tarbox.execution.program import compile_shape
from tarbox.kb.arrays import Flags, Ids, Places
from tarbox.kb.closure import Instances
from tarbox.kb.facts import SPLITS
from tarbox.kb.splits import Split, SplitStage
from tarbox.query.algebra import AtLeast, Concept, DataRange, Exists, HasSelf, Not, Or, Query, operands, walk

if TYPE_CHECKING:
    from tarbox.benchmark.kernels import Rules

ATTEMPTS_PER_QUERY: Final = 100
ATTEMPTS_AT_LEAST: Final = 200_000
DRY_ATTEMPTS: Final = 50_000  # attempts that must bring at least `DRY_YIELD` new queries, or a task gives up
DRY_YIELD: Final = 10
FIRST_CHUNK: Final = 1_024  # attempts between two looks at the result, at first
LONGEST_CHUNK: Final = 1 << 15
BUFFER_QUERIES: Final = 4_096  # queries held at a time
BUFFER_ANSWERS: Final = 1 << 22  # answers held at a time
REMEMBERED: Final = 1 << 20  # queries remembered, so that none is answered twice

REASONS: Final = (
    "the walk met an entity without a relation to go on with",
    "one branch made another idle",
    "there was no answer to ask for",
    "there were too many answers",
    "the query had been drawn before",
)
"""What the attempts that found no query came to, by the kernel's outcome."""


@final
@dataclass(frozen=True, slots=True)
class SamplingTask:
    """One template for one part of the benchmark (a name of `TABLES`), with the queries wanted per level."""

    template: str
    shape: Query
    part: str
    wanted: int


@final
@dataclass(frozen=True, slots=True)
class SampledQueries:
    """N distinct queries [N, slots] of a task, and what is asked of them at each level."""

    task: SamplingTask
    ids: Ids
    levels: Mapping[Level, LevelQueries]
    attempts: int
    outcomes: Places

    def shortfall(self) -> str | None:
        """A sentence about the queries that are lacking, if any are."""
        found = {level.value: len(asked.rows) for level, asked in self.levels.items()}
        if min(found.values()) >= self.task.wanted:
            return None
        numbers = " and ".join(f"{count:,} at {level} level" for level, count in found.items())
        why = REASONS[int(np.argmax(self.outcomes[: len(REASONS)]))]
        return (
            f"{self.task.template} {self.task.part}: {numbers} of the {self.task.wanted:,} wanted, "
            f"after {self.attempts:,} attempts (mostly, {why})"
        )


@final
@dataclass(frozen=True, slots=True)
class SamplingGraph:
    """Where a part of the benchmark draws its queries from: the indexed graph and which answers it asks for.

    Where it asks `every` query, one need not have an answer to ask for.
    """

    index: Index
    hard: bool
    never: Flags
    every: bool = False

    @classmethod
    def of(cls, stage: SplitStage, never: Flags) -> SamplingGraph:
        return cls(Index.of(stage.facts, stage.earlier), stage.earlier is not None, never)

    def levels(self) -> tuple[Level, ...]:
        """Where there is something to ask for: at concept level, if a possible target describes an entity."""
        described = self.index.descriptions.entities_of.sizes()[~self.never]
        return (Level.ENTITY, Level.CONCEPT) if described.any() else (Level.ENTITY,)


def most_links(shape: Query) -> int:
    """The most held-out facts that the cheapest proof of an answer can need (docs/benchmarks.md)."""
    if isinstance(shape, Not):
        return 0
    below = [0, *map(most_links, operands(shape))]
    return (max if isinstance(shape, Or) else sum)(below) + isinstance(shape, Exists | Concept)


SamplingProgress = Callable[[SamplingTask, int], None]
"""Called with a task and the number of queries it has at the level where it has fewest."""


def tasks_of(options: BenchmarkOptions) -> list[SamplingTask]:
    """The tasks of a benchmark, by part, then template."""
    shapes = options.shapes.items()
    every = (SamplingTask(name, shape, part, options.wanted(name, part)) for part in SPLITS for name, shape in shapes)
    return [task for task in every if task.wanted]


def sampling_graphs(split: Split, options: BenchmarkOptions) -> dict[str, SamplingGraph]:
    """The graph of every part; top concepts (of the whole graph) are no targets of the honest protocol."""
    never = np.zeros(len(split.whole.vocabulary.concepts), np.bool_)
    if options.protocol is Protocol.HONEST:
        never[Instances.of(split.whole).describe(split.whole).top_concepts()] = True
    return {part: SamplingGraph.of(stage, never) for part, stage in split.stages.items()}


def sample_all(
    graphs: Mapping[str, SamplingGraph], options: BenchmarkOptions, progress: SamplingProgress | None = None
) -> list[SampledQueries]:
    """The queries of all tasks, in the order of `tasks_of`."""
    tasks = tasks_of(options)
    with ThreadPoolExecutor(options.workers) as pool:
        return list(pool.map(lambda task: sample_task(task, graphs[task.part], options, progress), tasks))


def sample_task(
    task: SamplingTask, graph: SamplingGraph, options: BenchmarkOptions, progress: SamplingProgress | None = None
) -> SampledQueries:
    """The queries of one task."""
    collector = Collector(task, graph, options)
    while collector.unfinished():
        collector.advance()
        if progress is not None:
            progress(task, collector.count())
    return collector.result()


@final
class Collector:
    """Makes the attempts of one task chunk by chunk and keeps new queries until it has enough."""

    def __init__(self, task: SamplingTask, graph: SamplingGraph, options: BenchmarkOptions) -> None:
        from tarbox.benchmark.kernels import OUTCOMES, Rules, SampleBuffer
        from tarbox.execution.kernels import make_space

        if any(isinstance(node, AtLeast | HasSelf | DataRange) for node in walk(task.shape)):
            raise BenchmarkError(
                f"queries of {task.template} cannot be drawn: a walk from an answer finds no counts, 'Self' or ranges "
                "of literals. Write the queries to a file and read it with `tarbox bench import`."
            )
        self._task, self._graph, self._protocol = task, graph, options.protocol
        self._program = compile_shape(task.shape)
        nodes = graph.index.entities + graph.index.concepts
        self._space = make_space(self._program.depth, nodes)
        room = max(BUFFER_ANSWERS, nodes)
        self._buffer = SampleBuffer(
            np.empty((BUFFER_QUERIES, self._program.width), np.int32),
            np.empty((BUFFER_QUERIES, 4), np.int64),
            np.empty(room, np.int32),
            np.empty(room, np.int8),
            np.zeros(REMEMBERED, np.uint64),
        )
        honest = options.protocol is Protocol.HONEST
        self._balanced = options.balanced and graph.hard and not graph.every
        self._rules: Rules = Rules(graph.hard, honest, options.max_answers, graph.never, graph.every, self._balanced)
        self._levels = graph.levels()
        self._seed = options.derive_seed(task.part, task.template)
        self._random = np.random.default_rng(self._seed)
        self._attempts, self._checked, self._found_then, self._worthwhile = 0, 0, 0, True
        self._outcomes = np.zeros(OUTCOMES, np.int64)
        # the paper's validation and test draw from one graph: each takes half of its queries
        shared = options.protocol is Protocol.PAPER and graph.hard
        self._half = int(task.part == "test") if shared else None
        self._limit = max(ATTEMPTS_AT_LEAST, ATTEMPTS_PER_QUERY * task.wanted) if graph.index.entities else 0
        self._seen: set[bytes] = set()
        self._ids: list[Ids] = []
        self._asked: dict[Level, list[LevelQueries]] = {level: [] for level in Level}
        most = max(most_links(task.shape), 1) if self._balanced else 1
        kinds = {level: most + (self._balanced and level is Level.CONCEPT) for level in Level}
        self._left = {level: [len(range(n, task.wanted, size)) for n in range(size)] for level, size in kinds.items()}
        self._queries = 0

    def count(self) -> int:
        """The queries found at the level that has fewest; without instances there is only one level."""
        return min(self._task.wanted - sum(self._left[level]) for level in self._levels)

    def unfinished(self) -> bool:
        return self._worthwhile and self.count() < self._task.wanted and self._attempts < self._limit

    def advance(self) -> None:
        """One call of the kernel: the attempts that should bring what is still wanted, within bounds."""
        from tarbox.benchmark.kernels import sample_block

        needed = (self._task.wanted - self.count()) * self._attempts // max(self.count(), 1)
        last = self._attempts + min(max(needed, FIRST_CHUNK), LONGEST_CHUNK)
        span = (self._seed, self._attempts, min(last, self._limit))
        reached, accepted, outcomes = sample_block(
            self._graph.index.graph, self._program, self._rules, span, self._space, self._buffer
        )
        self._outcomes += outcomes
        self._keep(DrawnQueries.of(self._buffer, accepted, self._graph.hard))
        self._attempts = reached
        if self._attempts - self._checked >= DRY_ATTEMPTS:
            self._worthwhile = self._queries - self._found_then >= DRY_YIELD
            self._checked, self._found_then = self._attempts, self._queries

    def _keep(self, drawn: DrawnQueries) -> None:
        """Takes from the drawn what is new and still wanted."""
        if self._graph.every:
            asked = selection.ask_every(drawn, self._levels)
        elif self._balanced:
            asked = selection.ask_in_turn(drawn, self._random)
        elif self._protocol is Protocol.HONEST:
            asked = selection.ask_all(drawn)
        else:
            asked = selection.ask_one(drawn, self._graph.index.descriptions.concepts_of, self._random)
        new = self._new(drawn.ids)
        places = {}
        used = np.zeros(len(new), np.bool_)
        for level, questions in asked.items():
            fresh = np.flatnonzero(new[questions.rows])
            kind = questions.missing.values[fresh] - 1 if self._balanced else np.zeros(len(fresh), np.int64)
            shares = [fresh[kind == number][:left] for number, left in enumerate(self._left[level])]
            self._left[level] = [left - len(own) for left, own in zip(self._left[level], shares, strict=True)]
            places[level] = np.sort(np.concatenate(shares))
            used[questions.rows[places[level]]] = True
        number = self._queries + np.cumsum(used) - 1
        for level, questions in asked.items():
            chosen = places[level]
            self._asked[level].append(questions.take(chosen, number[questions.rows[chosen]]))
        self._ids.append(drawn.ids[used])
        self._queries += int(used.sum())

    def _new(self, ids: Ids) -> Flags:
        """[Q] which of the queries were not met before."""
        new = np.zeros(len(ids), np.bool_)
        for place, row in enumerate(ids):
            key = row.tobytes()
            if key not in self._seen:
                self._seen.add(key)
                new[place] = self._half is None or zlib.crc32(key) % 2 == self._half
        return new

    def result(self) -> SampledQueries:
        ids = np.concatenate([np.empty((0, self._program.width), np.int32), *self._ids])
        asked = {level: concatenate(parts) for level, parts in self._asked.items()}
        return SampledQueries(self._task, ids, asked, self._attempts, self._outcomes)
