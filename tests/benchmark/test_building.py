"""`tarbox bench build`: the folder it writes, and that only facts and options decide what is in it."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest
from typer.testing import CliRunner

from tarbox.benchmark.building import build_benchmark
from tarbox.benchmark.folder import open_benchmark
from tarbox.benchmark.options import BenchmarkOptions, default_shapes
from tarbox.cli.main import bench_app as app
from tarbox.core.errors import BenchmarkError
from tarbox.core.ids import Level
from tarbox.kb.closure import Instances
from tarbox.kb.facts import Facts
from tarbox.kb.vocabulary import Vocabulary
from tarbox.kb.writing import write_store

SMALL = ["--train", "30", "--valid", "10", "--test", "10"]


@pytest.fixture(scope="module")
def facts() -> Facts:
    random = np.random.default_rng(0)
    vocabulary = Vocabulary.of(
        [f"urn:e{i:02}" for i in range(40)], [f"urn:c{i}" for i in range(8)], [f"urn:r{i}" for i in range(3)]
    )
    triples = [tuple(map(int, row)) for row in random.integers(0, [40, 3, 40], (400, 3))]
    typings = [(e, int(c)) for e in range(40) for c in random.integers(1, 8, 3)]
    return Facts.of(vocabulary, triples, typings, [(i, 0) for i in range(1, 8)])


@pytest.fixture(scope="module")
def store(facts, tmp_path_factory):
    path = tmp_path_factory.mktemp("kb") / "store"
    write_store(path, facts)
    return path


def test_a_benchmark_keeps_the_annotation_relations(facts, tmp_path):
    options = BenchmarkOptions(counts=(5, 5, 5))
    build_benchmark(replace(facts, annotations=(1,)), options, tmp_path / "bench")
    benchmark = open_benchmark(tmp_path / "bench")
    assert benchmark.store.facts.annotations == (1,)
    known = Instances.of(benchmark.store.facts).describe(benchmark.store.facts)
    assert set(benchmark.excluded()[Level.CONCEPT].tolist()) >= set(np.flatnonzero(known.entities_of.sizes() > 30))


def test_the_command_writes_a_benchmark(store, tmp_path):
    out = tmp_path / "bench"
    result = CliRunner().invoke(app, ["build", str(store), "-o", str(out), *SMALL], catch_exceptions=False)
    assert result.exit_code == 0
    assert "queries (honest protocol)" in result.output
    benchmark = open_benchmark(out)
    assert benchmark.splits == ("train", "valid", "test")
    assert benchmark.manifest["options"]["seed"] == 0
    assert benchmark.excluded()[Level.CONCEPT].tolist() == [0]
    train, test = benchmark.table("train"), benchmark.table("test")
    assert len(set(train.texts("id"))) == len(train)
    assert set(test.texts("template")) == set(default_shapes())
    assert test.lists("missing").sizes().tolist() == test.lists("target").sizes().tolist()
    assert (test.derivable() == 0).all()
    assert (train.derivable() == -1).all()
    assert not np.isin(0, np.concatenate([b.targets.values for b in test.batches() if b.level is Level.CONCEPT]))
    assert len(benchmark.store.facts.heads) < 400


def test_the_same_seed_writes_the_same_bytes_on_any_number_of_workers(facts, tmp_path):
    options = [BenchmarkOptions(counts=(20, 10, 10), workers=workers) for workers in (1, 4)]
    for number, option in enumerate(options):
        build_benchmark(facts, option, tmp_path / str(number))
    first, second = ({f.name: f.read_bytes() for f in (tmp_path / n).glob("*.*")} for n in ("0", "1"))
    assert first == second
    tables = [f"{name}.parquet" for name in ("calibration", "held_out", "test", "train", "valid")]
    assert sorted(first) == sorted(["manifest.json", *tables])


def test_own_templates_and_the_paper_protocol(store, tmp_path):
    out = tmp_path / "bench"
    own = ["--templates", "1p", "--template", "ci=?c1 and (?r1 value ?e1)"]
    result = CliRunner().invoke(app, ["build", str(store), "-o", str(out), *SMALL, *own], catch_exceptions=False)
    assert result.exit_code == 0
    assert set(open_benchmark(out).table("test").texts("template")) == {"1p", "ci"}
    paper = ["build", str(store), "-o", str(out), *SMALL, "--protocol", "paper"]
    assert CliRunner().invoke(app, paper, catch_exceptions=False).exit_code == 0
    benchmark = open_benchmark(out)
    assert benchmark.protocol == "paper"
    assert benchmark.excluded()[Level.CONCEPT].tolist() == []
    assert set(benchmark.table("test").lists("target").sizes().tolist()) == {1}


def test_what_is_lacking_is_said(tmp_path):
    vocabulary = Vocabulary.of(["a", "b", "c"], ["C"], ["p"])
    facts = Facts.of(vocabulary, [(0, 0, 1), (1, 0, 2)], [(0, 0)])
    built = build_benchmark(facts, BenchmarkOptions(counts=(5, 5, 5)), tmp_path / "bench")
    assert any(text.startswith("3i train: 0 at entity level") for text in built.shortfalls)
    assert json.loads((tmp_path / "bench" / "manifest.json").read_text())["shortfalls"] == list(built.shortfalls)


def test_a_knowledge_base_without_assertions_is_refused(tmp_path):
    with pytest.raises(BenchmarkError, match="no assertions"):
        build_benchmark(Facts.of(Vocabulary.of(["a"])), BenchmarkOptions(), tmp_path / "bench")
