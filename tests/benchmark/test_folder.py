"""Benchmark folders: written at once, verified when opened, imported from files, summed up."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from tarbox.benchmark.folder import is_benchmark, open_benchmark, write_benchmark
from tarbox.benchmark.importing import import_benchmark
from tarbox.benchmark.summary import summarise
from tarbox.benchmark.tables import QueryTable
from tarbox.core.errors import BenchmarkError, StoreMissing
from tarbox.core.ids import Level
from tarbox.kb.facts import Facts
from tarbox.kb.vocabulary import Vocabulary
from tarbox.kb.writing import write_store

VOCABULARY = Vocabulary.of(["urn:ann", "urn:bob", "urn:paris"], ["urn:City", "urn:Person", "urn:Thing"], ["urn:bornIn"])
FACTS = Facts.of(VOCABULARY, [(0, 0, 2), (1, 0, 2)], [(0, 1), (2, 0)], [(0, 2), (1, 2)])
THERE_AND_BACK = "<urn:bornIn> some (inverse <urn:bornIn> value {})"
LINES = [
    {
        "id": "1",
        "template": "1p",
        "level": "entity",
        "query": "<urn:bornIn> value <urn:paris>",
        "target": ["<urn:bob>"],
        "known": ["<urn:ann>"],
        "derivable": False,
        "missing": [1],
    },
    {
        "id": "2",
        "template": "2p",
        "level": "concept",
        "query": THERE_AND_BACK.format("<urn:ann>"),
        "target": ["<urn:Person>", "<urn:Ghost>"],
        "known": [],
        "derivable": True,
    },
    {
        "id": "3",
        "template": "2p",
        "level": "concept",
        "query": THERE_AND_BACK.format("<urn:bob>"),
        "target": ["<urn:City>"],
        "known": [],
        "derivable": False,
    },
]


@pytest.fixture
def store(tmp_path: Path) -> Path:
    write_store(tmp_path / "kb", FACTS)
    return tmp_path / "kb"


@pytest.fixture
def queries(tmp_path: Path) -> Path:
    file = tmp_path / "test.jsonl"
    file.write_text("".join(json.dumps(line) + "\n" for line in LINES))
    return file


def table_of(size: int) -> QueryTable:
    columns = {"level": "entity", "shape": "?r1 value ?e1", "slots": [0, 2], "target": [1], "known": [0]}
    return QueryTable.of(
        {"id": [str(n) for n in range(size)], **{name: [value] * size for name, value in columns.items()}}
    )


def test_what_is_written_is_read(tmp_path: Path) -> None:
    tables = {"train": table_of(3), "test": table_of(2)}
    excluded = {Level.CONCEPT: np.array([2], np.int32)}
    write_benchmark(tmp_path / "bench", FACTS, tables, {"protocol": "honest", "options": {"seed": 4}}, excluded)
    benchmark = open_benchmark(tmp_path / "bench")
    assert benchmark.splits == ("train", "test")
    assert benchmark.protocol == "honest"
    assert benchmark.manifest["options"] == {"seed": 4}
    assert {level: ids.tolist() for level, ids in benchmark.excluded().items()} == {Level.CONCEPT: [2]}
    assert benchmark.table("test").columns.equals(tables["test"].columns)
    assert benchmark.store.facts.counts() == FACTS.counts()
    with pytest.raises(BenchmarkError, match="has no valid queries; it has: train, test"):
        benchmark.table("valid")


def test_a_benchmark_is_replaced_and_nothing_else_is(tmp_path: Path) -> None:
    place = tmp_path / "bench"
    for size in (1, 2):
        write_benchmark(place, FACTS, {"test": table_of(size)}, {"protocol": "honest"})
        assert len(open_benchmark(place).table("test")) == size
    assert [file.name for file in tmp_path.iterdir()] == ["bench"]  # no scratch folder is left
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "notes.txt").write_text("keep me")
    with pytest.raises(BenchmarkError, match="is not empty and holds no benchmark"):
        write_benchmark(tmp_path / "mine", FACTS, {}, {"protocol": "honest"})
    assert (tmp_path / "mine" / "notes.txt").read_text() == "keep me"
    with pytest.raises(BenchmarkError, match=r"notes\.txt is a file"):
        write_benchmark(tmp_path / "mine" / "notes.txt", FACTS, {}, {"protocol": "honest"})


def test_what_is_no_part_of_a_benchmark_is_not_lost_with_it(tmp_path: Path) -> None:
    place = tmp_path / "bench"
    write_benchmark(place, FACTS, {"test": table_of(1)}, {"protocol": "honest"})
    (place / "run").mkdir()
    with pytest.raises(BenchmarkError, match="and run, which would be lost"):
        write_benchmark(place, FACTS, {"test": table_of(2)}, {"protocol": "honest"})
    assert (place / "run").is_dir()
    assert len(open_benchmark(place).table("test")) == 1


def test_damage_is_named(tmp_path: Path) -> None:
    place = tmp_path / "bench"
    write_benchmark(place, FACTS, {"test": table_of(2)}, {"protocol": "honest"})
    (place / "test.parquet").write_bytes((place / "test.parquet").read_bytes()[:-1])
    with pytest.raises(BenchmarkError, match=r"test\.parquet is damaged or missing"):
        open_benchmark(place).table("test")
    manifest = place / "manifest.json"
    manifest.write_text(manifest.read_text().replace("honest", "paper"))
    with pytest.raises(BenchmarkError, match=r"manifest\.json is damaged"):
        open_benchmark(place)


def test_a_store_is_no_benchmark(store: Path, tmp_path: Path) -> None:
    assert not is_benchmark(store)
    assert not is_benchmark(tmp_path / "nowhere")
    with pytest.raises(BenchmarkError, match=r"no benchmark at .*tarbox bench build"):
        open_benchmark(store)


def test_another_store_is_noticed(tmp_path: Path) -> None:
    write_benchmark(tmp_path / "bench", FACTS, {"test": table_of(1)}, {"protocol": "honest"})
    write_store(tmp_path / "bench" / "store", Facts.of(Vocabulary.of(["urn:x"])))
    with pytest.raises(BenchmarkError, match="is not the store of this benchmark"):
        open_benchmark(tmp_path / "bench")


def test_import(store: Path, queries: Path, tmp_path: Path) -> None:
    with queries.open("a") as file:
        file.write('{"level": "entity"}\n')
    imported = import_benchmark(store, {"test": queries}, tmp_path / "bench")
    assert imported.rejected() == [f"{queries}:4: no 'query' and no 'target'"]
    benchmark = open_benchmark(tmp_path / "bench")
    assert benchmark.protocol == "imported"
    assert benchmark.manifest["counts"] == {"test": 3}
    assert benchmark.manifest["outside"] == {"test": 1}
    assert benchmark.table("test").texts("id") == ["1", "2", "3"]


def test_import_of_nothing(store: Path, tmp_path: Path) -> None:
    with pytest.raises(BenchmarkError, match="nothing to import"):
        import_benchmark(store, {}, tmp_path / "bench")
    (tmp_path / "bad.jsonl").write_text("{}\n")
    with pytest.raises(BenchmarkError, match=r"holds no query of this knowledge base; .*bad\.jsonl:1: no 'level'"):
        import_benchmark(store, {"test": tmp_path / "bad.jsonl"}, tmp_path / "bench")
    with pytest.raises(StoreMissing):
        import_benchmark(tmp_path / "nowhere", {"test": tmp_path / "bad.jsonl"}, tmp_path / "bench")
    assert not (tmp_path / "bench").exists()


def test_summary(store: Path, queries: Path, tmp_path: Path) -> None:
    import_benchmark(store, {"train": queries, "test": queries}, tmp_path / "bench")
    summary = summarise(open_benchmark(tmp_path / "bench"))
    assert summary.counts["entities"] == 3
    assert summary.hard_concepts == {"train": 1 / 3, "test": 1 / 3}  # by targets: one of three
    entity, concept = [group for group in summary.groups if group.split == "test"]
    assert (entity.level, entity.template, entity.known, entity.hard, entity.missing) == (
        "entity",
        "1p",
        1,
        1,
        {"1": 1},
    )
    assert (concept.queries, concept.targets, concept.easy, concept.hard, concept.outside) == (2, 3, 2, 1, 1)
    assert [(example.template, example.level, example.target) for example in summary.examples] == [
        ("1p", "entity", "bob"),
        ("2p", "concept", "Person"),
    ]
    assert "paris" in summary.examples[0].text
    assert json.loads(json.dumps(summary.to_json()))["groups"][0]["queries"] == 1
