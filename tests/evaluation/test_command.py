"""`tarbox eval`, `bench import` and `bench info`, as a person runs them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner, Result

from tarbox.benchmark.folder import write_benchmark
from tarbox.benchmark.tables import QueryTable
from tarbox.cli.bench import build
from tarbox.cli.bench_tables import import_benchmark, show_benchmark
from tarbox.cli.evaluate import evaluate
from tarbox.core.errors import BenchmarkError, ConfigError, StoreMissing
from tarbox.kb.facts import Facts
from tarbox.kb.vocabulary import Vocabulary
from tarbox.kb.writing import write_store

VOCABULARY = Vocabulary.of(
    ["urn:ann", "urn:bob", "urn:cy", "urn:paris", "urn:rome"], ["urn:City", "urn:Person", "urn:Thing"], ["urn:bornIn"]
)
FACTS = Facts.of(
    VOCABULARY, [(0, 0, 3), (1, 0, 3), (2, 0, 4)], [(0, 1), (1, 1), (2, 1), (3, 0), (4, 0)], [(0, 2), (1, 2)]
)
ROWS = [
    ("1p", "entity", "inverse <urn:bornIn> value <urn:cy>", "<urn:paris>", ["<urn:rome>"]),
    ("1p", "entity", "inverse <urn:bornIn> value <urn:ann>", "<urn:rome>", []),
    ("1p", "concept", "inverse <urn:bornIn> value <urn:ann>", "<urn:City>", []),
    ("2u", "concept", "(<urn:bornIn> value <urn:rome>) or (<urn:bornIn> value <urn:paris>)", "<urn:Person>", []),
]


@pytest.fixture
def app() -> typer.Typer:
    app = typer.Typer()
    app.command("eval")(evaluate)
    app.command("import")(import_benchmark)
    app.command("info")(show_benchmark)
    app.command("build")(build)
    return app


@pytest.fixture
def store(tmp_path: Path) -> Path:
    write_store(tmp_path / "kb", FACTS)
    return tmp_path / "kb"


@pytest.fixture
def queries(tmp_path: Path) -> Path:
    keys = ("template", "level", "query", "target", "known")
    records = [dict(zip(keys, row, strict=True)) for row in ROWS]
    file = tmp_path / "queries.jsonl"
    file.write_text("".join(json.dumps(record | {"target": [record["target"]]}) + "\n" for record in records))
    return file


def run(app: typer.Typer, *arguments: object, code: int = 0) -> Result:
    result = CliRunner().invoke(app, [str(argument) for argument in arguments])
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    assert result.exit_code == code, result.output
    return result


def test_counting_on_a_store(app: typer.Typer, store: Path, queries: Path) -> None:
    found = json.loads(run(app, "eval", store, "--model", "counting", "--queries", queries, "--json").stdout)
    assert (found["model"], found["protocol"]) == ("counting", "given")
    entity = found["levels"]["entity"]["templates"]["1p"]
    # Paris is the most frequent birthplace; Rome comes after it, for Ann was born in Paris.
    assert entity["mrr"] == pytest.approx((1 + 1 / 2) / 2)
    # City and Thing have one instance each among the answers, and are equally frequent: a tie.
    assert found["levels"]["concept"]["templates"]["1p"]["mrr"] == pytest.approx(1 / 1.5)


def test_the_honest_protocol_leaves_top_concepts_out(app: typer.Typer, store: Path, queries: Path) -> None:
    options = ("--queries", queries, "--protocol", "honest", "--json")
    found = json.loads(run(app, "eval", store, *options).stdout)
    assert found["protocol"] == "honest"
    assert found["levels"]["concept"]["mrr"] == 1  # Thing was the only rival


def test_tables_ranks_and_plot(app: typer.Typer, store: Path, queries: Path, tmp_path: Path) -> None:
    ranks, plot = tmp_path / "ranks.tsv", tmp_path / "plot.png"
    result = run(app, "eval", store, "--queries", queries, "--ranks", ranks, "--plot", plot)
    assert "counting, entity level (given protocol)" in result.stdout
    assert ranks.read_text().splitlines()[1] == "1\t1p\tentity\t<urn:paris>\t1.0"
    assert plot.stat().st_size > 1000
    assert "| 2u | 1 |" in run(app, "eval", store, "--queries", queries, "--markdown").stdout
    assert r"\toprule" in run(app, "eval", store, "--queries", queries, "--latex").stdout
    records = tmp_path / "ranks.jsonl"
    run(app, "eval", store, "--queries", queries, "--ranks", records, "--json")
    assert json.loads(records.read_text().splitlines()[0])["rank"] == 1


def test_queries_may_use_local_names(app: typer.Typer, store: Path, tmp_path: Path) -> None:
    file = tmp_path / "own.jsonl"
    file.write_text('{"level": "entity", "query": "inverse bornIn value cy", "target": ["<urn:rome>"]}\n')
    assert json.loads(run(app, "eval", store, "--queries", file, "--json").stdout)["levels"]["entity"]["mrr"] == 1
    file.write_text('{"level": "entity", "query": "inverse bornIn value cyy", "target": ["<urn:rome>"]}\n')
    with pytest.raises(BenchmarkError, match=r"own\.jsonl:1: no entity 'cyy'"):
        run(app, "eval", store, "--queries", file)


def test_rejected_lines_are_shown_and_the_rest_is_evaluated(app: typer.Typer, store: Path, queries: Path) -> None:
    with queries.open("a") as file:
        file.write('{"level": "entity", "query": "<urn:bornIn> value <urn:zoe>", "target": ["<urn:ann>"]}\n')
        file.write('{"level": "entity", "query": "<urn:bornIn> value <urn:rome>", "target": ["<urn:zoe>"]}\n')
    result = run(app, "eval", store, "--queries", queries, "--json", code=3)
    assert f"{queries}:5: no entity <urn:zoe> in the knowledge base" in result.stderr
    assert "1 of the targets are not in the knowledge base's vocabulary: they score 0" in result.stderr
    assert json.loads(result.stdout)["levels"]["entity"]["templates"]["other"]["mrr"] == 0


def test_import_info_and_evaluation_of_a_benchmark(
    app: typer.Typer, store: Path, queries: Path, tmp_path: Path
) -> None:
    bench = tmp_path / "bench"
    imported = run(app, "import", "--kb", store, "--valid", queries, "-o", bench)
    assert "valid: 4 queries, 0 lines rejected" in imported.stdout
    shown = run(app, "info", bench).stdout
    assert "imported protocol" in shown
    assert "valid: queries and their answers" in shown
    assert "concept 2u" in shown
    assert json.loads(run(app, "info", bench, "--json").stdout)["counts"]["entities"] == 5
    given = json.loads(run(app, "eval", store, "--queries", queries, "--json").stdout)
    own = json.loads(run(app, "eval", bench, "--split", "valid", "--json").stdout)
    assert own["levels"] == given["levels"]
    assert own["protocol"] == "imported"
    chosen = run(app, "eval", bench, "--json")
    assert json.loads(chosen.stdout)["levels"] == given["levels"]
    assert "the valid queries: the benchmark has no test queries" in chosen.stderr
    with pytest.raises(BenchmarkError, match="has no test queries; it has: valid"):
        run(app, "eval", bench, "--split", "test")


def test_a_plot_of_no_known_kind_is_refused_before_any_work(app: typer.Typer, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"cannot plot to .*x\.foo': the name must end in \.png"):
        run(app, "eval", tmp_path / "nope", "--plot", tmp_path / "x.foo")
    with pytest.raises(ConfigError, match=r"cannot write .*x\.png: there is no folder"):
        run(app, "eval", tmp_path / "nope", "--plot", tmp_path / "no" / "x.png")


def test_a_benchmark_without_queries_is_not_evaluated(app: typer.Typer, store: Path, tmp_path: Path) -> None:
    one = QueryTable.of(
        {
            "id": ["1"],
            "level": ["entity"],
            "shape": ["?r1 value ?e1"],
            "slots": [[0, 3]],
            "target": [[1]],
            "known": [[]],
        }
    )
    empty = QueryTable.concatenate([])
    for name, tables in (("none", {"train": one, "test": empty}), ("some", {"valid": one, "test": empty})):
        write_benchmark(tmp_path / name, FACTS, tables, {"protocol": "honest"})
    with pytest.raises(BenchmarkError, match="has no test queries; it has: train"):
        run(app, "eval", tmp_path / "none")
    assert "these are the valid queries" in run(app, "eval", tmp_path / "some").stderr
    with pytest.raises(BenchmarkError, match="has no test queries; it has: valid"):
        run(app, "eval", tmp_path / "some", "--split", "test")


def test_mistakes_are_said(app: typer.Typer, store: Path, queries: Path, tmp_path: Path) -> None:
    with pytest.raises(BenchmarkError, match="name a query table with --queries"):
        run(app, "eval", store)
    with pytest.raises(ConfigError, match=r"no model 'tra'\. Did you mean 'tar'"):
        run(app, "eval", store, "--queries", queries, "--model", "tra")
    with pytest.raises(ConfigError, match="must be trained first"):
        run(app, "eval", store, "--queries", queries, "--model", "tar")
    with pytest.raises(ConfigError, match="cannot write"):
        run(app, "eval", store, "--queries", queries, "--ranks", tmp_path / "no" / "ranks.tsv")
    with pytest.raises(StoreMissing, match=r"there is nothing at .*nope\. Name a run, a benchmark, or a store"):
        run(app, "eval", tmp_path / "nope")
    with pytest.raises(StoreMissing, match="holds no run, benchmark or store"):
        run(app, "eval", tmp_path)
    assert "'--seed'" in run(app, "eval", store, "--seed", "-1", code=2).stderr
    assert "'--seed'" in run(app, "build", store, "-o", tmp_path / "bench", "--seed", "-1", code=2).stderr
    assert "choose one of --json, --latex" in run(app, "eval", store, "--json", "--latex", code=2).stderr
