"""The tables of calibration and tuning: their truth against the oracle on both graphs; they change nothing else."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
from typer.testing import CliRunner

from oracle import Oracle
from tarbox.benchmark.building import build_benchmark, table_of
from tarbox.benchmark.calibration import calibration_tasks, sample_calibration
from tarbox.benchmark.exchange import exchange_rows, write_queries
from tarbox.benchmark.folder import open_benchmark, write_benchmark
from tarbox.benchmark.options import (
    CALIBRATION,
    EVALUATION_ONLY,
    TUNING,
    BenchmarkOptions,
    Protocol,
    choose_shapes,
    default_shapes,
)
from tarbox.benchmark.summary import summarise
from tarbox.benchmark.tables import parse_shape
from tarbox.cli.main import bench_app as app
from tarbox.core.errors import ConfigError
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


def tables_of(split, options):
    """The tables of both parts."""
    sampled = sample_calibration(split, options)
    return {part: table_of([one for one in sampled if one.task.part == part]) for part in (CALIBRATION, TUNING)}


@pytest.fixture(scope="module")
def tables(split):
    return tables_of(split, OPTIONS)


@pytest.fixture(scope="module")
def table(tables):
    return tables[CALIBRATION]


@pytest.fixture(scope="module")
def folder(facts, tmp_path_factory):
    path = tmp_path_factory.mktemp("calibration") / "bench"
    build_benchmark(facts, OPTIONS, path)
    return path


@pytest.mark.parametrize("part", [CALIBRATION, TUNING])
def test_targets_are_what_training_does_not_know(tables, split, facts, part):
    larger = {CALIBRATION: split.whole, TUNING: split.stages["valid"].facts}[part]
    table, train, whole = tables[part], Oracle.of(split.train), Oracle.of(larger)
    empty = 0
    slots, targets, known = table.lists("slots"), table.lists("target"), table.lists("known")
    for row, (level, shape) in enumerate(zip(table.texts("level"), table.texts("shape"), strict=True)):
        query = decode(parse_shape(shape), slots[row], facts.vocabulary)
        before, after = (
            set(oracle.entities(query) if level == "entity" else oracle.concepts(query)) for oracle in (train, whole)
        )
        assert set(known[row].tolist()) == before
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
    assert without.tuning() is None
    assert not {"calibration.parquet", "tuning.parquet"} & {file.name for file in (tmp_path / "without").iterdir()}


def test_the_folder_says_that_it_has_one(folder, table, tmp_path):
    benchmark = open_benchmark(folder)
    assert benchmark.splits == SPLITS
    assert benchmark.manifest["counts"][CALIBRATION] == 320
    assert benchmark.manifest["options"][CALIBRATION] == 80
    assert benchmark.calibration().columns.equals(table.columns)
    summary = summarise(benchmark)
    assert [part.split for part in summary.partitions] == list(SPLITS)
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
    assert "28 calibration, 28 tuning queries" in few.stdout
    many = CliRunner().invoke(app, [*build, "--calibration", "5000"], catch_exceptions=False)
    assert many.exit_code == 0
    assert "1p calibration: " in many.stderr
    assert "of the 5,000 wanted" in many.stderr
    paper = CliRunner().invoke(app, [*build, "--protocol", "paper"], catch_exceptions=False)
    assert "calibration" not in paper.stdout
    assert "tuning" not in paper.stdout
    assert open_benchmark(tmp_path / "bench").tuning() is None
    manifest = json.loads((tmp_path / "bench" / "manifest.json").read_text())
    assert CALIBRATION not in manifest["options"]


def test_without_typings_there_are_entity_queries_alone(facts):
    untyped = facts.with_typings(facts.typed < 0)
    found = tables_of(OPTIONS.divide(untyped), OPTIONS)
    assert all(set(table.texts("level")) == {"entity"} for table in found.values())
    assert len(found[CALIBRATION]) == 160


def test_older_folders_open_without_one(facts, table, tmp_path):
    write_benchmark(tmp_path / "old", facts, {"test": table}, {"protocol": "honest", "options": {}})
    assert open_benchmark(tmp_path / "old").calibration() is None
    assert open_benchmark(tmp_path / "old").tuning() is None


@pytest.mark.parametrize("part", [CALIBRATION, TUNING])
def test_the_seed_decides(split, tables, part):
    again, many, other = (
        tables_of(split, replace(OPTIONS, **given))[part] for given in ({"workers": 1}, {"workers": 5}, {"seed": 1})
    )
    assert again.columns.equals(tables[part].columns)
    assert many.columns.equals(tables[part].columns)
    assert not other.columns.equals(tables[part].columns)


def test_what_tuning_asks(tables):
    """As many queries of 1p and 2p as calibration, others than those, and a fifth of the other training templates."""
    counts = Counter(zip(tables[TUNING].texts("template"), tables[TUNING].texts("level"), strict=True))
    assert counts == {(name, level.value): n for name, n in (("1p", 80), ("2p", 80), ("2i", 16)) for level in Level}
    queries = [set(zip(one.texts("shape"), map(bytes, one.lists("slots")), strict=True)) for one in tables.values()]
    assert queries[0] != queries[1]
    asked = [
        task.template for task in calibration_tasks(replace(OPTIONS, shapes=default_shapes())) if task.part == TUNING
    ]
    assert sorted(asked) == sorted(default_shapes().keys() - EVALUATION_ONLY)
    own = replace(OPTIONS, shapes=choose_shapes("2u", ["ci=?c1 and (?r1 value ?e1)"], Protocol.HONEST), calibration=4)
    assert {(task.template, task.part) for task in calibration_tasks(own)} == {
        (name, part) for name in ("1p", "2p") for part in (CALIBRATION, TUNING)
    }  # four are too few for a fifth of them
    names = {task.template for task in calibration_tasks(replace(own, calibration=5)) if task.part == TUNING}
    assert names == {"1p", "2p", "ci"}


def test_the_share_of_tuning(folder, split, tables):
    """What the validation graph has of the facts that training lacks."""
    found, share = open_benchmark(folder).tuning()
    assert found.columns.equals(tables[TUNING].columns)
    train, valid, whole = (
        len(one.heads) + len(one.typed) for one in (split.train, split.stages["valid"].facts, split.whole)
    )
    assert share == pytest.approx((valid - train) / (whole - train))
    assert 0.4 < share < 0.6


def test_no_tasks_without_a_number_or_under_the_paper_s_protocol():
    assert calibration_tasks(replace(OPTIONS, calibration=0)) == []
    assert calibration_tasks(replace(OPTIONS, protocol=Protocol.PAPER)) == []
    with pytest.raises(ConfigError, match="calibration is -1; it must be at least 0"):
        replace(OPTIONS, calibration=-1)
