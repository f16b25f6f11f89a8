"""Folders of BetaE's and Query2box's pickles: exactly the right answers, whatever relations are called; and back."""

from __future__ import annotations

import copy
import json
import os
import random
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

from published_folder import ENTITIES, RELATIONS, Folder, names_of
from tarbox.benchmark.building import build_benchmark
from tarbox.benchmark.exporting import export_benchmark
from tarbox.benchmark.folder import Benchmark, open_benchmark
from tarbox.benchmark.importing import import_folder
from tarbox.benchmark.options import BenchmarkOptions
from tarbox.benchmark.query_folders import load_plain
from tarbox.benchmark.tables import QueryTable, parse_shape
from tarbox.cli.main import app
from tarbox.core.errors import BenchmarkError, SourceError
from tarbox.execution.rows import decode
from tarbox.kb.facts import SPLITS, Facts
from tarbox.kb.terms import mint
from tarbox.kb.vocabulary import Vocabulary
from tarbox.query.algebra import Direction, Entity
from tarbox.query.betae import STRUCTURES, UNION_FORMS
from tarbox.query.templates import TEMPLATES


@pytest.fixture(scope="module", params=["signs", "reverse"])
def made(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Folder:
    place = tmp_path_factory.mktemp(request.param) / "published"
    folder = Folder(place, seed=len(request.param), convention=request.param)
    folder.fill()
    return folder


@pytest.fixture
def folder(made: Folder, tmp_path: Path) -> Folder:
    """A copy, to be changed."""
    own = copy.copy(made)
    own.path = Path(shutil.copytree(made.path, tmp_path / "published"))
    return own


def found_in(benchmark: Benchmark, split: str) -> dict[Any, tuple[set[int], set[int]]]:
    """(known, target) by query."""
    table = benchmark.table(split)
    queries = zip(table.texts("shape"), table.lists("slots"), strict=True)
    decoded = [decode(parse_shape(str(shape)), row, benchmark.store.facts.vocabulary) for shape, row in queries]
    known, target = table.lists("known"), table.lists("target")
    return {query: (set(known[at].tolist()), set(target[at].tolist())) for at, query in enumerate(decoded)}


def check(folder: Folder, benchmark: Benchmark) -> None:
    for split in SPLITS:
        expected = {
            folder.query(structure, grounding): folder.answers(split, structure, grounding)
            for structure, groundings in folder.written[split].items()
            for grounding in groundings
        }
        assert len(expected) > 70
        assert found_in(benchmark, split) == expected


def test_all_structures_have_the_right_answers(folder: Folder, tmp_path: Path) -> None:
    imported = import_folder(folder.path, tmp_path / "bench")
    assert imported.notes == ()
    benchmark = open_benchmark(tmp_path / "bench")
    check(folder, benchmark)
    table = benchmark.table("test")
    assert set(table.texts("template")) == set(TEMPLATES)
    missing = table.lists("missing")
    assert (missing.sizes() == table.lists("target").sizes()).all()
    assert missing.values.min() == 1
    assert missing.values.max() > 1
    assert sorted(benchmark.store.facts.vocabulary.relations) == sorted(mint(name) for name in RELATIONS)


def test_a_union_in_both_forms_is_one_query(folder: Folder, tmp_path: Path) -> None:
    """BetaE's folders have every union twice; other structures without a template share one name, and no id."""
    chain, ring = ("e", ("r",) * 4), (*(("e", ("r",)),) * 4,)
    queries = {STRUCTURES["2u"]: {((e, (0,)), (e + 1, (2,)), (-1,)) for e in range(6)}}
    forms = {whole: form for form, whole in UNION_FORMS.items()}
    queries[forms[STRUCTURES["2u"]]] = {(((e, (0, -2)), (e + 1, (2, -2))), (-2,)) for e in range(4, 9)}
    queries |= {chain: {(e, (0, 1, 2, 3)) for e in range(3)}, ring: {((e, (0,)),) * 4 for e in range(12)}}
    for file in folder.path.glob("*-*.pkl"):
        file.unlink()
    folder.dump("train-queries", queries)
    imported = import_folder(folder.path, tmp_path / "bench")
    assert "train: 2 queries are there twice, and are kept once" in imported.notes
    table = open_benchmark(tmp_path / "bench").table("train")
    pairs = list(zip(table.texts("shape"), map(tuple, table.lists("slots")), strict=True))
    assert len(set(pairs)) == len(pairs) == len(set(table.texts("id")))
    assert table.texts("template").count("2u") == 9
    assert table.texts("template").count(None) > 3


def test_answers_are_computed_where_none_are_given(folder: Folder, tmp_path: Path) -> None:
    for file in folder.path.glob("*-answers.pkl"):
        file.unlink()
    for kind in ("ent", "rel"):
        content = load_plain(folder.path / f"id2{kind}.pkl")
        (folder.path / f"id2{kind}.pkl").unlink()
        folder.dump(f"{kind}2ind", {name: number for number, name in content.items()})
    import_folder(folder.path, tmp_path / "bench")
    check(folder, open_benchmark(tmp_path / "bench"))


def test_given_answers_that_are_wrong_are_told(folder: Folder, tmp_path: Path) -> None:
    hard = load_plain(folder.path / "test-hard-answers.pkl")
    grounding = min(folder.written["test"][STRUCTURES["2i"]])
    hard[grounding] = set(hard[grounding]) ^ {3}
    folder.dump("test-hard-answers", hard)
    done = CliRunner().invoke(app, ["bench", "import", str(folder.path), "-o", str(tmp_path / "bench")])
    assert done.exit_code == 0, done.output
    assert "test 2i: of 1 of 6 queries the hard answers that are given are not those of the facts" in done.stderr
    check(folder, open_benchmark(tmp_path / "bench"))


def test_training_answers_beyond_memory_are_not_read(
    folder: Folder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tarbox.benchmark.query_folders.available", lambda: 5_000)
    (folder.path / "train-answers.pkl").write_bytes(bytes(1_000))  # to read it would fail
    imported = import_folder(folder.path, tmp_path / "bench")
    assert imported.notes == (
        "train-answers.pkl is not compared: its sets may take 0.00 GB of memory, and 0.00 GB are there. "
        "The answers are computed from train.txt",
    )
    check(folder, open_benchmark(tmp_path / "bench"))
    with pytest.raises(SourceError, match="train-answers"):
        import_folder(folder.path, tmp_path / "given", as_given=True)


def test_given_answers_can_be_kept(folder: Folder, tmp_path: Path) -> None:
    """Of a set that asks for one hard answer of each query, and knows the others; with their missing links."""
    hard, easy = (_read(folder.path / f"test-{kind}-answers.pkl") for kind in ("hard", "easy"))
    folder.dump("test-hard-answers", {key: {min(own)} for key, own in hard.items()})
    folder.dump("test-easy-answers", {key: easy[key] | (hard[key] - {min(hard[key])}) for key in hard})
    import_folder(folder.path, tmp_path / "exact")
    import_folder(folder.path, tmp_path / "given", as_given=True)
    exact, given = (open_benchmark(tmp_path / name) for name in ("exact", "given"))
    assert rows_of(given.table("train")) == rows_of(exact.table("train"))
    table, whole = given.table("test"), exact.table("test")
    assert set(table.lists("target").sizes().tolist()) == {1}
    for row, target in enumerate(table.lists("target").values.tolist()):
        every = whole.lists("target")[row].tolist()
        assert table.lists("missing")[row][0] == whole.lists("missing")[row][every.index(target)]
        known = set(table.lists("known")[row].tolist())
        assert known | {target} == set(whole.lists("known")[row].tolist()) | set(every)


def test_without_its_facts_a_folder_is_taken_at_its_word(folder: Folder, tmp_path: Path) -> None:
    """Then training facts come from the answers of 1p, which here are all of the training graph."""
    links = {(h, (2 * r,)): set() for h, r, _ in folder.parts["train"]}
    for head, relation, tail in folder.parts["train"]:
        links[head, (2 * relation,)].add(tail)
    folder.dump("train-queries", {STRUCTURES["1p"]: set(links)})
    folder.dump("train-answers", links)
    for split in SPLITS:
        (folder.path / f"{split}.txt").unlink()
    imported = import_folder(folder.path, tmp_path / "bench")
    assert len(imported.notes) == 2
    benchmark = open_benchmark(tmp_path / "bench")
    assert len(benchmark.store.facts.heads) == 80
    assert found_in(benchmark, "test") == {
        folder.query(structure, grounding): folder.answers("test", structure, grounding)
        for structure, groundings in folder.written["test"].items()
        for grounding in groundings
    }
    (folder.path / "test-easy-answers.pkl").unlink()
    with pytest.raises(BenchmarkError, match=r"easy answers are not there, nor test\.txt"):
        import_folder(folder.path, tmp_path / "other")


def test_query2box_has_the_same_queries(folder: Folder, tmp_path: Path) -> None:
    names = {"1c": "1p", "2c": "2p", "3c": "3p", "2i": "2i", "3i": "3i", "ci": "pi", "ic": "ip"}
    names |= {"2u": "2u", "uc": "up"}
    for file in ("id2ent", "id2rel"):
        (folder.path / f"{file}.pkl").rename(folder.path / f"{file.replace('id2', 'ind2')}.pkl")
    for split in SPLITS:
        easy, hard = (_read(folder.path / f"{split}-{kind}.pkl") for kind in ("easy-answers", "hard-answers"))
        hard = hard or _read(folder.path / "train-answers.pkl")
        for name, structure in names.items():
            keys = {key: _query2box(name, key) for key in folder.written[split][STRUCTURES[structure]]}
            if name == "2c":  # no answers: a triple has one, and the name
                triples = [(((*key[0], 0), "2-chain")) for key in keys.values()]
                folder.dump(f"{split}_triples_{name}", triples)
                continue
            folder.dump(f"{split}_ans_{name}", {new: hard[key] | easy.get(key, set()) for key, new in keys.items()})
            if split != "train":
                folder.dump(f"{split}_ans_{name}_hard", {new: hard[key] for key, new in keys.items()})
    for file in folder.path.glob("*-*.pkl"):
        file.unlink()
    imported = import_folder(folder.path, tmp_path / "bench")
    assert imported.notes == ()
    benchmark = open_benchmark(tmp_path / "bench")
    for split in SPLITS:
        assert found_in(benchmark, split) == {
            folder.query(STRUCTURES[name], grounding): folder.answers(split, STRUCTURES[name], grounding)
            for name in names.values()
            for grounding in folder.written[split][STRUCTURES[name]]
        }


def _read(file: Path) -> dict[Any, set[int]]:
    return dict(load_plain(file)) if file.exists() else {}


def _query2box(name: str, key: Any) -> Any:
    match name:
        case "1c" | "2c" | "3c":
            return (key,)
        case "2u":
            return key[:2]
        case "ic" | "uc":
            return (*key[0][:2], *key[1])
        case _:
            return key


def test_betae_there_and_back_is_the_same(folder: Folder, tmp_path: Path) -> None:
    import_folder(folder.path, tmp_path / "bench")
    benchmark = open_benchmark(tmp_path / "bench")
    assert export_benchmark(benchmark, tmp_path / "out", "betae") == ()
    imported = import_folder(tmp_path / "out", tmp_path / "again")
    assert imported.notes == ()
    again = open_benchmark(tmp_path / "again")
    assert again.store.manifest["content_hash"] == benchmark.store.manifest["content_hash"]
    for split in SPLITS:
        assert rows_of(again.table(split)) == rows_of(benchmark.table(split))
    with pytest.raises(BenchmarkError, match="there already"):
        export_benchmark(benchmark, tmp_path / "out", "betae")


def rows_of(table: QueryTable) -> list[dict[str, Any]]:
    """Without ids, which say no more than the order."""
    rows = [{name: value for name, value in row.items() if name != "id"} for row in table.columns.to_pylist()]
    return sorted(rows, key=str)


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Benchmark:
    """A benchmark with concepts, an IRI that is no urn, and a literal among its entities."""
    random_ = random.Random(1)
    entities = ['"1977"', "http://example.org/a", *(mint(f"e {number}") for number in range(30))]
    vocabulary = Vocabulary.of(entities, ["urn:C", "urn:D"], ["http://example.org/p", "urn:q"])
    triples = {(random_.randrange(1, 32), random_.randrange(2), random_.randrange(32)) for _ in range(260)}
    facts = Facts.of(vocabulary, triples, [(entity, entity % 2) for entity in range(1, 32)])
    options = BenchmarkOptions(counts=(30, 20, 20), calibration=0, workers=1)
    place = tmp_path_factory.mktemp("built") / "bench"
    build_benchmark(facts, options, place)
    return open_benchmark(place)


def test_json_lines_there_and_back_are_the_same(built: Benchmark, tmp_path: Path) -> None:
    assert export_benchmark(built, tmp_path / "out", "jsonl") == ()
    import_folder(tmp_path / "out", tmp_path / "again")
    again = open_benchmark(tmp_path / "again")
    assert again.protocol == "honest"
    assert again.manifest["excluded"] == built.manifest["excluded"]
    assert again.store.manifest["vocabulary_hash"] == built.store.manifest["vocabulary_hash"]
    for name in ("heads", "relations", "tails", "typed", "types"):
        assert (getattr(again.store.facts, name) == getattr(built.store.facts, name)).all()
    for split in SPLITS:
        assert again.table(split).columns.equals(built.table(split).columns)


def test_a_built_benchmark_in_betae_s_layout(built: Benchmark, tmp_path: Path) -> None:
    """Queries about concepts have no form there; of the others facts, targets and missing links are the same."""
    done = CliRunner().invoke(
        app, ["bench", "export", str(built.path), "-o", str(tmp_path / "out"), "--format", "betae"]
    )
    assert done.exit_code == 0, done.output
    assert "queries with or about concepts have no form" in done.stderr
    imported = import_folder(tmp_path / "out", tmp_path / "again")
    assert [note for note in imported.notes if "hard" in note] == []
    again = open_benchmark(tmp_path / "again")
    assert list(again.store.facts.vocabulary.entities) == list(built.store.facts.vocabulary.entities)
    for split in SPLITS[1:]:
        rows = [row for row in rows_of(built.table(split)) if row["level"] == "entity"]
        keys = ("template", "shape", "slots", "missing")
        assert {str([row[key] for key in keys] + [sorted(row["target"])]) for row in rows} == {
            str([row[key] for key in keys] + [row["target"]]) for row in rows_of(again.table(split))
        }


class _Evil:
    def __reduce__(self) -> tuple[Any, ...]:
        return (os.system, ("echo code ran",))


@pytest.mark.parametrize("content", [_Evil(), {("e", ("r",)): {_Evil()}}, {0: Entity("a")}, {0: Direction.FORWARD}])
@pytest.mark.parametrize("file", ["test-queries", "id2ent", "test-hard-answers"])
def test_a_malicious_pickle_is_refused_by_name(
    content: object, file: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    folder = Folder(tmp_path / "published", 1, "signs")
    folder.fill(wanted=1)
    folder.dump(file, content)
    done = CliRunner().invoke(app, ["bench", "import", str(folder.path), "-o", str(tmp_path / "bench")])
    assert isinstance(done.exception, SourceError)
    assert f"{file}.pkl" in str(done.exception)
    assert any(
        name in str(done.exception)
        for name in ("posix.system", "tarbox.query.algebra.Entity", "tarbox.query.algebra.Dir")
    )
    assert "is not let in from a pickle" in str(done.exception)
    assert "code ran" not in capfd.readouterr().out
    assert not (tmp_path / "bench").exists()


@pytest.mark.parametrize(
    ("file", "content", "message"),
    [
        ("test-queries", [1], "expected a dictionary of sets"),
        ("test-queries", {("e", ("x",)): {(0, (0,))}}, "no structure"),
        ("test-queries", {("e", ("r",)): {(0, (0, 1))}}, "are not the 2 numbers"),
        ("test-queries", {("e", ("r",)): {(0, (99,))}}, "no relation 99"),
        ("test-queries", {("e", ("r", "n")): {(0, (1, -1))}}, "does not have -2"),
        ("test-queries", {("e", ("r",)): {(0, ("a",))}}, "are not the 2 numbers"),
        ("test-queries", {("e", ("r",)): [[0, [0]]]}, "one here has a list"),
        ("test-queries", {("e", ("r",)): {(np.int64(0), (0,))}}, "and Python's own numbers are"),
        ("test-hard-answers", {(0, (0,)): {99}}, "99 is given as an answer"),
        ("test-hard-answers", {(0, (0,)): {-3, 3}}, "-3 is given as an answer"),
        ("test-hard-answers", {(0, (0,)): {"a"}}, r"test-queries\.pkl: .* no number of an entity"),
        ("test-hard-answers", {(0, (0,)): {1.5}}, r"test-queries\.pkl: .* no number of an entity"),
        ("id2ent", dict(enumerate([*ENTITIES[1:], ENTITIES[4]])), "entities 3 and 11 have the same name"),
        ("id2rel", dict(enumerate([*names_of("signs")[:5], "-concept:knows"])), "relations 1 and 5 have the same name"),
        ("id2ent", {1: "a"}, "expected a dictionary from 0, 1, 2"),
    ],
)
def test_what_is_wrong_is_said(file: str, content: object, message: str, tmp_path: Path) -> None:
    folder = Folder(tmp_path / "published", 1, "signs")
    folder.dump("test-queries", {("e", ("r",)): {(0, (0,))}})
    folder.dump(file, content)
    with pytest.raises((SourceError, BenchmarkError), match=message):
        import_folder(folder.path, tmp_path / "bench")


@pytest.mark.parametrize(
    ("file", "content", "message"),
    [
        ("test.txt", b"0\t0\t1\n0\t2\n", r"expected head, relation and tail with tabs between them: \('0', '2'\)"),
        ("test-queries.pkl", b"\x80\x04\x8e\xff\xff\xff\xff\xff\0\0\0abc.", "damaged, or too large for the memory"),
        ("test-queries.pkl", b"\x80\x04\x95" + b"\xff" * 8 + b"}.", "not a pickle, or a damaged one"),
    ],
)
def test_a_damaged_file_is_said(file: str, content: bytes, message: str, tmp_path: Path) -> None:
    folder = Folder(tmp_path / "published", 1, "signs")
    folder.dump("test-queries", {("e", ("r",)): {(0, (0,))}})
    (folder.path / file).write_bytes(content)
    with pytest.raises(SourceError, match=message):
        import_folder(folder.path, tmp_path / "bench")


def test_a_folder_of_nothing_known(tmp_path: Path) -> None:
    with pytest.raises(BenchmarkError, match="no folder of queries that tarbox knows"):
        import_folder(tmp_path, tmp_path / "bench")
    (tmp_path / "test.jsonl").write_text(json.dumps({"level": "entity", "query": "x", "target": ["<urn:a>"]}) + "\n")
    with pytest.raises(BenchmarkError, match="no file of a knowledge base"):
        import_folder(tmp_path, tmp_path / "bench")
