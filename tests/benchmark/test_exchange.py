"""JSON lines: what is read, what is written back, and what is rejected with its line."""

from __future__ import annotations

import gzip
import json
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tarbox.benchmark.exchange import Reading, exchange_rows, read_queries, write_queries
from tarbox.benchmark.tables import OUTSIDE, QueryTable, render_shape
from tarbox.core.errors import BenchmarkError, SourceError
from tarbox.execution.rows import encode
from tarbox.kb.vocabulary import Vocabulary
from tarbox.query.manchester import parse
from tarbox.query.render import render

YEAR = '"1977"^^<http://www.w3.org/2001/XMLSchema#gYear>'
VOCABULARY = Vocabulary.of(
    ["urn:a", "urn:b", "urn:é", YEAR, '"say \\"hi\\""@en'], ["urn:C", "urn:D"], ["urn:p", "urn:q"]
)
ROW: dict[str, Any] = {
    "id": "x",
    "template": "2p",
    "level": "entity",
    "query": "inverse <urn:p> some (<urn:q> value <urn:a>)",
    "target": ["<urn:b>"],
    "known": ["<urn:é>", YEAR],
    "derivable": False,
    "missing": [2],
}


def read(tmp_path: Path, *lines: object) -> Reading:
    file = tmp_path / "queries.jsonl"
    file.write_text(
        "".join((line if isinstance(line, str) else json.dumps(line)) + "\n" for line in lines), encoding="utf-8"
    )
    return read_queries(file, VOCABULARY)


def test_a_row_becomes_ids(tmp_path: Path) -> None:
    table = read(tmp_path, ROW).table
    (batch,) = table.batches()
    query = parse(ROW["query"])
    shape, ids = encode(query, VOCABULARY)
    assert batch.shape == shape
    assert batch.ids.tolist() == [ids.tolist()]
    assert batch.targets.values.tolist() == [VOCABULARY.entities.find("urn:b")]
    assert batch.known.values.tolist() == [VOCABULARY.entities.find("urn:é"), VOCABULARY.entities.find(YEAR)]


@pytest.mark.parametrize(
    "query",
    [
        "<urn:p> value <urn:a>",
        f"inverse <urn:p> value {YEAR}",
        '<urn:q> value "say \\"hi\\""@en',
        "<urn:C> and not (<urn:p> some {<urn:a>, <urn:b>})",
        "(<urn:p> value <urn:b>) or (inverse <urn:q> some <urn:D>)",
        "inverse <urn:p> some (inverse <urn:p> some (<urn:q> value <urn:a>))",
        "{<urn:a>}",
    ],
)
def test_queries_round_trip(tmp_path: Path, query: str) -> None:
    table = read(tmp_path, ROW | {"query": query}).table
    (row,) = exchange_rows(table, VOCABULARY)
    assert row["query"] == render(parse(query))
    assert row == ROW | {"query": row["query"]}
    shape, ids = encode(parse(query), VOCABULARY)
    assert table.texts("shape") == [render_shape(shape)]
    assert table.lists("slots").values.tolist() == ids.tolist()


@pytest.mark.parametrize("name", ["out.jsonl", "out.jsonl.gz"])
def test_files_round_trip(tmp_path: Path, name: str) -> None:
    table = read(tmp_path, ROW, ROW | {"id": "y", "level": "concept", "target": ["<urn:C>"], "known": []}).table
    write_queries(tmp_path / name, table, VOCABULARY)
    assert read_queries(tmp_path / name, VOCABULARY).table.columns.equals(table.columns)
    assert (tmp_path / name).read_bytes().startswith(b"\x1f\x8b" if name.endswith("gz") else b'{"id": "x"')


@pytest.mark.parametrize("name", ["q.jsonl", "q.jsonl.gz"])
def test_a_byte_order_mark_is_no_part_of_the_first_line(tmp_path: Path, name: str) -> None:
    text = "\ufeff" + json.dumps(ROW) + "\n"
    with gzip.open(tmp_path / name, "wb") if name.endswith("gz") else (tmp_path / name).open("wb") as file:
        file.write(text.encode())
    assert len(read_queries(tmp_path / name, VOCABULARY).table) == 1


def test_optional_keys_may_be_missing(tmp_path: Path) -> None:
    bare = {key: ROW[key] for key in ("level", "query", "target")}
    reading = read(tmp_path, "", bare)
    assert reading.rejected == ()
    (row,) = exchange_rows(reading.table, VOCABULARY)
    assert row == bare | {"id": "2", "template": None, "known": []}


def test_a_target_outside_the_vocabulary_is_kept(tmp_path: Path) -> None:
    reading = read(tmp_path, ROW | {"target": ["<urn:b>", "<urn:zz>"], "known": ["<urn:y>"], "missing": [1, 1]})
    assert reading.table.lists("target").values.tolist() == [VOCABULARY.entities.find("urn:b"), OUTSIDE]
    assert reading.table.outside() == ["<urn:zz>"]
    assert reading.unknown_known == 1
    (row,) = exchange_rows(reading.table, VOCABULARY)
    assert row["target"] == ["<urn:b>", "<urn:zz>"]


def test_a_concept_is_no_entity(tmp_path: Path) -> None:
    reading = read(tmp_path, ROW | {"target": ["<urn:C>"]})
    assert reading.table.outside() == ["<urn:C>"]


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("{", "not JSON: "),
        ("[]", "not a JSON object"),
        ({"query": "x"}, "no 'level' and no 'target'"),
        (ROW | {"level": "Entity"}, "'level' is 'Entity', not 'entity' or 'concept'"),
        (ROW | {"query": 1}, "'query' is not a text"),
        (ROW | {"query": "<urn:p> value <urn:zz>"}, "no entity <urn:zz> in the knowledge base"),
        (ROW | {"query": "<urn:zz> value <urn:a>"}, "no relation <urn:zz> in the knowledge base"),
        (ROW | {"query": "<urn:p> some <urn:a>"}, "no concept <urn:a> in the knowledge base"),
        (ROW | {"query": "<urn:p> value"}, "expected an entity"),
        (ROW | {"query": '<urn:p> some xsd:string[> "a"]'}, "'xsd:string' has no order to compare by"),
        (ROW | {"query": "bornIn value <urn:a>"}, "cannot tell what 'bornIn' means without a knowledge base"),
        (ROW | {"target": []}, "'target' is empty: there is nothing to rank"),
        (ROW | {"target": ["<urn:a>", "<urn:a>"]}, "'target' names an answer twice"),
        (ROW | {"target": "<urn:a>"}, "'target' is not a list of names"),
        (ROW | {"known": [1]}, "'known' is not a list of names"),
        (ROW | {"template": 2}, "'template' is not a text"),
        (ROW | {"derivable": "no"}, "'derivable' is neither true nor false"),
        (ROW | {"missing": [1, 2]}, "'missing' has 2 numbers for 1 targets"),
        (ROW | {"missing": ["1"]}, "'missing' is not a list of small numbers"),
    ],
)
def test_a_wrong_line_is_rejected_with_its_number(tmp_path: Path, line: object, reason: str) -> None:
    reading = read(tmp_path, ROW, line, ROW)
    assert len(reading.table) == 2
    (rejected,) = reading.rejected
    assert rejected.line == 2
    assert rejected.reason.startswith(reason)
    assert str(rejected) == f"{tmp_path / 'queries.jsonl'}:2: {rejected.reason}"
    assert "\n" not in str(rejected)


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(SourceError, match=r"cannot read .*none\.jsonl: No such file"):
        read_queries(tmp_path / "none.jsonl", VOCABULARY)
    cut = gzip.compress(json.dumps(ROW).encode() * 100)[:-20]
    (tmp_path / "cut.jsonl.gz").write_bytes(cut)
    with pytest.raises(BenchmarkError, match=r"cut\.jsonl\.gz is damaged"):
        read_queries(tmp_path / "cut.jsonl.gz", VOCABULARY)


def test_many_lines_are_read_quickly(tmp_path: Path) -> None:
    size = 3000
    vocabulary = Vocabulary.of([f"urn:e{n}" for n in range(size)], relations=["urn:p", "urn:q"])
    random = np.random.default_rng(0)
    rows = [
        {
            "level": "entity",
            "query": f"inverse <urn:p> some (inverse <urn:q> value <urn:e{random.integers(size)}>)",
            "target": [f"<urn:e{random.integers(size)}>"],
            "known": [f"<urn:e{n}>" for n in random.integers(0, size, 10)],
        }
        for _ in range(8000)
    ]
    file = tmp_path / "many.jsonl"
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    start = time.perf_counter()
    table: QueryTable = read_queries(file, vocabulary).table
    assert time.perf_counter() - start < 4  # 0.2 s on an idle core
    assert len(table) == 8000
