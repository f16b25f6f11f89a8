"""The table of calibration: its truth against the oracle on both graphs; it changes nothing else."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest
from typer.testing import CliRunner

from oracle import Oracle
from tarbox.benchmark.building import build_benchmark, table_of
from tarbox.benchmark.calibration import sample_calibration
from tarbox.benchmark.exchange import exchange_rows, write_queries
from tarbox.benchmark.folder import open_benchmark, write_benchmark
from tarbox.benchmark.options import (
    CALIBRATION,
    BenchmarkOptions,
    Protocol,
    choose_shapes,
)
from tarbox.benchmark.summary import summarise
from tarbox.benchmark.tables import parse_shape
from tarbox.cli.main import bench_app as app
from tarbox.core.ids import Level
from tarbox.execution.rows import decode
from tarbox.kb.facts import SPLITS, Facts
from tarbox.kb.vocabulary import Vocabulary
from tarbox.kb.writing import write_store

SHAPES = choose_shapes("2p,2i", [], Protocol.HONEST)
OPTIONS = BenchmarkOptions(counts=(20, 10, 10), max_answers=3, shapes=SHAPES, calibration=80)


@pytest.fixture(scope="module")
def facts() -> Facts:
    random = np.random.default_rng(0)
    vocabulary = Vocabulary.of(
        [f"urn:e{i:02}" for i in range(50)], [f"urn:c{i}" for i in range(10)], [f"urn:r{i}" for i in range(4)]
    )
    heavy = (50 * random.random((400, 2)) ** 2).astype(int)
    triples = [(int(h), int(r), int(t)) for (h, t), r in zip(heavy, random.integers(0, 4, 400), strict=True)]
    typings = [(e, int(c)) for e in range(0, 50, 2) for c in random.integers(1, 10, 2)]
    return Facts.of(vocabulary, triples, typings, [(i, i // 2) for i in range(1, 10)])


@pytest.fixture(scope="module")
def split(facts):
    return OPTIONS.divide(facts)


@pytest.fixture(scope="module")
def table(split):
    return table_of(sample_calibration(split, OPTIONS))


@pytest.fixture(scope="module")
def folder(facts, tmp_path_factory):
    path = tmp_path_factory.mktemp("calibration") / "bench"
    build_benchmark(facts, OPTIONS, path)
    return path


def test_targets_are_what_training_does_not_know(table, split, facts):
    train, whole = Oracle.of(split.train), Oracle.of(split.whole)
    empty = 0
    slots, targets, known = table.lists("slots"), table.lists("target"), table.lists("known")
    for row, (level, shape) in enumerate(zip(table.texts("level"), table.texts("shape"), strict=True)):
        query = decode(parse_shape(shape), slots[row], facts.vocabulary)
        before, after = (
            set(oracle.entities(query) if level == "entity" else oracle.concepts(query)) for oracle in (train, whole)
        )
        assert set(known[row].tolist()) == before
        assert before or level == "concept"  # drawn from what is known alone
        assert set(targets[row].tolist()) == after - before
        empty += after == before
    assert 0.1 * len(table) < empty < 0.9 * len(table)


def test_what_is_asked(table):
    assert len(table) == 4 * 80
    assert set(table.texts("template")) == {"1p", "2p"}  # whatever templates the benchmark has
    batches = list(table.batches())
    for level in Level:
        for width in (2, 3):
            (batch,) = (one for one in batches if one.level is level and one.ids.shape[1] == width)
            assert len(np.unique(batch.ids, axis=0)) == 80
    by_width = {(one.level, one.ids.shape[1]): one.ids for one in batches}
    assert all((by_width[Level.ENTITY, width] == by_width[Level.CONCEPT, width]).all() for width in (2, 3))
    sizes = table.lists("target").sizes()
    assert sizes.max() > OPTIONS.max_answers  # that bound would leave out the queries that are easiest to predict for
    assert (table.lists("missing").sizes() == sizes).all()
    assert (table.lists("missing").values > 0).all()
    tops = [one.known.values.tolist() + one.targets.values.tolist() for one in batches if one.level is Level.CONCEPT]
    assert all(0 in answers for answers in tops)  # a top concept is an answer too


def test_the_other_tables_are_the_same_bytes_without_it(facts, folder, tmp_path):
    build_benchmark(facts, replace(OPTIONS, calibration=0), tmp_path / "without")
    for part in SPLITS:
        name = f"{part}.parquet"
        assert (folder / name).read_bytes() == (tmp_path / "without" / name).read_bytes()
    without = open_benchmark(tmp_path / "without")
    assert without.calibration() is None
    assert "calibration.parquet" not in {file.name for file in (tmp_path / "without").iterdir()}


def test_the_folder_says_that_it_has_one(folder, table, tmp_path):
    benchmark = open_benchmark(folder)
    assert benchmark.splits == SPLITS
    assert benchmark.manifest["counts"][CALIBRATION] == 320
    assert benchmark.manifest["options"][CALIBRATION] == 80
    assert benchmark.calibration().columns.equals(table.columns)
    summary = summarise(benchmark)
    assert list(dict.fromkeys(group.split for group in summary.groups)) == [*SPLITS, CALIBRATION]
    groups = {(group.level, group.template): group for group in summary.groups if group.split == CALIBRATION}
    assert set(groups) == {(level.value, name) for level in Level for name in ("1p", "2p")}
    assert sum(group.hard for group in groups.values()) == len(table.lists("target").values)
    assert CALIBRATION not in summary.hard_concepts
    shown = CliRunner().invoke(app, ["info", str(folder)], catch_exceptions=False).stdout
    assert "calibration: queries and their answers" in shown
    rows = list(exchange_rows(table, benchmark.store.facts.vocabulary))
    assert any(not row["target"] for row in rows)
    write_queries(tmp_path / "calibration.jsonl.gz", table, benchmark.store.facts.vocabulary)
    assert (tmp_path / "calibration.jsonl.gz").stat().st_size > 0


def test_the_command(facts, tmp_path):
    write_store(tmp_path / "kb", facts)
    counts = ["--train", "5", "--valid", "5", "--test", "5", "--templates", "1p"]
    build = ["build", str(tmp_path / "kb"), "-o", str(tmp_path / "bench"), *counts]
    few = CliRunner().invoke(app, [*build, "--calibration", "7"], catch_exceptions=False)
    assert "28 calibration queries" in few.stdout
    many = CliRunner().invoke(app, [*build, "--calibration", "5000"], catch_exceptions=False)
    assert many.exit_code == 0
    assert "1p calibration: " in many.stderr
    assert "of the 5,000 wanted" in many.stderr
    paper = CliRunner().invoke(app, [*build, "--protocol", "paper"], catch_exceptions=False)
    assert "calibration" not in paper.stdout
    manifest = json.loads((tmp_path / "bench" / "manifest.json").read_text())
    assert CALIBRATION not in manifest["options"]


def test_without_typings_there_are_entity_queries_alone(facts):
    untyped = facts.with_typings(facts.typed < 0)
    found = table_of(sample_calibration(OPTIONS.divide(untyped), OPTIONS))
    assert set(found.texts("level")) == {"entity"}
    assert len(found) == 160


def test_older_folders_open_without_one(facts, table, tmp_path):
    write_benchmark(tmp_path / "old", facts, {"test": table}, {"protocol": "honest", "options": {}})
    assert open_benchmark(tmp_path / "old").calibration() is None


def test_the_seed_decides(split, table):
    again, many, other = (
        table_of(sample_calibration(split, replace(OPTIONS, **given)))
        for given in ({"workers": 1}, {"workers": 5}, {"seed": 1})
    )
    assert again.columns.equals(table.columns)
    assert many.columns.equals(table.columns)
    assert not other.columns.equals(table.columns)
