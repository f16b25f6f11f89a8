"""A model over a table: every target gets its rank, whatever the batches."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import pytest

from tarbox.benchmark.tables import Lists, QueryTable, parse_shape
from tarbox.core.ids import Level
from tarbox.evaluation.evaluator import rank_table
from tarbox.evaluation.ranks import filtered_ranks
from tarbox.kb.facts import Ids
from tarbox.query.algebra import Query, slots

SIZES = {Level.ENTITY: 9, Level.CONCEPT: 4}
SHAPES = ["?r1 value ?e1", "?r1 some (?r2 value ?e1)", "(?r1 value ?e1) and (?r2 value ?e2)"]


@dataclass
class Stub:
    """Scores that depend on the query alone; remembers what it was asked."""

    calls: list[tuple[Query, int, Level]] = field(default_factory=list)
    lacking: tuple[Query, ...] = ()

    def candidates(self, level: Level) -> int:
        return SIZES[level]

    def supports(self, shape: Query) -> bool:
        return shape not in self.lacking

    def score(self, shape: Query, ids: Ids, level: Level) -> np.ndarray:
        self.calls.append((shape, len(ids), level))
        assert ids.shape[1] == len(slots(shape))
        return np.stack([self.score_one(row, level) for row in ids.tolist()])

    def score_one(self, row: list[int], level: Level) -> np.ndarray:
        return np.random.default_rng(row).integers(0, 4, SIZES[level]).astype(float)


@pytest.fixture
def table() -> QueryTable:
    """60 queries whose levels, shapes and templates are mixed; a template's name says nothing about its shape."""
    random = np.random.default_rng(5)
    levels = [list(Level)[n] for n in random.integers(0, 2, 60)]
    shapes = [SHAPES[n] for n in random.integers(0, 3, 60)]
    widths = {SHAPES[0]: 2, SHAPES[1]: 3, SHAPES[2]: 4}

    def answers(least: int) -> list[list[int]]:
        return [random.permutation(SIZES[level])[: random.integers(least, 4)].tolist() for level in levels]

    return QueryTable.of(
        {
            "id": [str(n) for n in range(60)],
            "template": [["1p", "2p", None][n] for n in random.integers(0, 3, 60)],
            "level": [level.value for level in levels],
            "shape": shapes,
            "slots": [random.integers(0, 9, widths[shape]).tolist() for shape in shapes],
            "target": answers(1),
            "known": answers(0),
        }
    )


def rank_one_by_one(table: QueryTable, excluded: dict[Level, Ids]) -> list[float]:
    stub, found = Stub(), []
    for row in table.columns.to_pylist():
        level = Level(row["level"])
        scores = stub.score_one(row["slots"], level)[None]
        out = excluded.get(level, np.empty(0, np.int32))
        found += filtered_ranks(scores, Lists.of([row["target"]]), Lists.of([row["known"]]), out).tolist()
    return found


@pytest.mark.parametrize("cells", [1, 30, 1 << 20])
def test_batches_change_nothing(table: QueryTable, cells: int) -> None:
    excluded = {Level.CONCEPT: np.array([2], np.int32)}
    assert rank_table(Stub(), table, excluded, cells=cells).ranks.tolist() == rank_one_by_one(table, excluded)


def test_a_model_is_asked_once_per_shape_and_level(table: QueryTable) -> None:
    stub = Stub()
    rank_table(stub, table)
    assert len(stub.calls) == len({(shape, level) for shape, _, level in stub.calls}) == 6
    assert sum(size for _, size, _ in stub.calls) == len(table)


def test_progress_adds_up(table: QueryTable) -> None:
    done: list[int] = []
    rank_table(Stub(), table, progress=done.append, cells=100)
    assert sum(done) == len(table)
    assert len(done) > 6


def test_an_empty_table_has_no_ranks() -> None:
    assert len(rank_table(Stub(), QueryTable.concatenate([])).ranks) == 0


def test_queries_that_the_model_has_no_meaning_for_are_left_out(table: QueryTable) -> None:
    """And named; the others have the ranks that they have without them."""
    lacking = parse_shape(SHAPES[1])
    rows = [row for row, shape in enumerate(table.texts("shape")) if shape != SHAPES[1]]
    ranked = rank_table(Stub(lacking=(lacking,)), table)
    wanted = rank_table(Stub(), table.take(np.array(rows)))
    assert ranked.table.texts("id") == [str(row) for row in rows]
    np.testing.assert_array_equal(ranked.ranks, wanted.ranks)
    assert set(ranked.left_out) == {"1p", "2p", SHAPES[1]}
    assert wanted.left_out == ()
    nothing = rank_table(Stub(lacking=tuple(map(parse_shape, SHAPES))), table)
    assert (len(nothing.table), len(nothing.ranks)) == (0, 0)
