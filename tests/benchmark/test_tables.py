"""Query tables: batches by shape and level, and Parquet."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tarbox.benchmark.tables import SCHEMA, Lists, QueryTable, parse_shape, read_table, render_shape, write_table
from tarbox.core.errors import BenchmarkError
from tarbox.query.templates import TEMPLATES

COLUMNS: dict[str, Any] = {
    "id": ["a", "b", "c", "d"],
    "template": ["1p", None, "2p", "1p"],
    "level": ["entity", "concept", "entity", "entity"],
    "shape": ["?r1 value ?e1", "?r1 value ?e1", "?r1 some (?r2 value ?e1)", "?r1 value ?e1"],
    "slots": [[1, 7], [0, 3], [1, 2, 3], [2, 5]],
    "target": [[3], [0, 1], [4], [5, 6, 7]],
    "known": [[1, 2], [], [9], []],
    "derivable": [True, None, False, None],
    "missing": [[1], [2, 3], None, [1, 1, 2]],
}


@pytest.fixture
def table() -> QueryTable:
    return QueryTable.of(COLUMNS)


def test_batches_group_by_level_and_shape(table: QueryTable) -> None:
    batches = list(table.batches())
    assert [(batch.level.value, batch.rows.tolist()) for batch in batches] == [
        ("entity", [0, 3]),
        ("concept", [1]),
        ("entity", [2]),
    ]
    first = batches[0]
    assert first.shape == TEMPLATES["1p"].shape
    assert first.ids.tolist() == [[1, 7], [2, 5]]
    assert [first.targets[n].tolist() for n in range(2)] == [[3], [5, 6, 7]]
    assert [first.known[n].tolist() for n in range(2)] == [[1, 2], []]


def test_splitting_a_batch_keeps_every_query(table: QueryTable) -> None:
    parts = list(next(table.batches()).split(1))
    assert [part.rows.tolist() for part in parts] == [[0], [3]]
    assert [part.targets.values.tolist() for part in parts] == [[3], [5, 6, 7]]
    assert [part.known.values.tolist() for part in parts] == [[1, 2], []]


def test_columns_say_what_is_not_said(table: QueryTable) -> None:
    assert table.derivable().tolist() == [1, -1, 0, -1]
    assert table.lists("missing").sizes().tolist() == [1, 2, 0, 3]
    assert table.outside() == []


def test_parquet_round_trip(table: QueryTable, tmp_path: Path) -> None:
    write_table(tmp_path / "t.parquet", table)
    assert read_table(tmp_path / "t.parquet").columns.equals(table.columns)


def test_concatenation_of_tables_with_other_dictionaries(table: QueryTable) -> None:
    other = QueryTable.of({name: [values[n] for n in (2, 1)] for name, values in COLUMNS.items()})
    joined = QueryTable.concatenate([other, table])
    assert joined.texts("id") == ["c", "b", "a", "b", "c", "d"]
    assert sorted(row for batch in joined.batches() for row in batch.rows.tolist()) == list(range(6))
    assert {batch.ids.shape for batch in joined.batches()} == {(2, 3), (2, 2)}
    assert len(QueryTable.concatenate([])) == 0


def test_wrong_columns_are_named() -> None:
    with pytest.raises(BenchmarkError, match="lacks known"):
        QueryTable.of({name: values for name, values in COLUMNS.items() if name != "known"})
    with pytest.raises(BenchmarkError, match="has no column answers"):
        QueryTable.of({**COLUMNS, "answers": []})


def test_wrong_shapes_are_shown() -> None:
    with pytest.raises(BenchmarkError, match="'\\?r1 onyl \\?c1' is no query shape"):
        list(QueryTable.of({**COLUMNS, "shape": ["?r1 onyl ?c1"] * 4}).batches())
    with pytest.raises(BenchmarkError, match="different numbers of slots"):
        list(QueryTable.of({**COLUMNS, "slots": [[1, 2], [1], [1], [1]]}).batches())


def test_files_that_are_no_tables(tmp_path: Path) -> None:
    with pytest.raises(BenchmarkError, match="no query table at"):
        read_table(tmp_path / "none.parquet")
    (tmp_path / "text.parquet").write_text("hello")
    with pytest.raises(BenchmarkError, match="is not a Parquet file"):
        read_table(tmp_path / "text.parquet")
    pq.write_table(pa.table({"id": ["a"]}), tmp_path / "other.parquet")
    with pytest.raises(BenchmarkError, match="is no query table of this version"):
        read_table(tmp_path / "other.parquet")


@pytest.mark.parametrize("name", TEMPLATES)
def test_every_template_has_a_text(name: str) -> None:
    shape = TEMPLATES[name].shape
    assert parse_shape(render_shape(shape)) == shape


@given(st.lists(st.lists(st.integers(0, 99), max_size=4), max_size=8), st.data())
def test_lists_take(lists: list[list[int]], data: st.DataObject) -> None:
    rows = data.draw(st.lists(st.integers(0, len(lists) - 1), max_size=6)) if lists else []
    taken = Lists.of(lists).take(np.array(rows, np.int64))
    assert [taken[n].tolist() for n in range(len(taken))] == [lists[row] for row in rows]
    assert taken.owners().tolist() == [n for n, row in enumerate(rows) for _ in lists[row]]
    assert Lists.of_column(pa.chunked_array([taken.to_arrow()])).values.tolist() == taken.values.tolist()


def test_a_null_list_is_empty() -> None:
    column = pa.chunked_array([pa.array([[1], None, [2, 3]], SCHEMA.field("target").type)])
    assert Lists.of_column(column).sizes().tolist() == [1, 0, 2]
