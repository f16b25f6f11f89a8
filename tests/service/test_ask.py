"""`tarbox ask` on a store."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner, Result

from tarbox.cli.ask import ask
from tarbox.core.errors import TarboxError
from tarbox.core.ids import Role
from tarbox.kb.facts import Facts
from tarbox.kb.vocabulary import SYNONYMS, Names, Vocabulary
from tarbox.service.knowledge_base import KnowledgeBase

NS = "https://tarbox.example/academia#"


@pytest.fixture
def run(kb: KnowledgeBase, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Result]:
    monkeypatch.setattr(KnowledgeBase, "load", lambda *_: kb)
    app = typer.Typer()
    app.command()(ask)

    def call(*arguments: str, width: int = 200) -> Result:
        return CliRunner().invoke(app, ["KB", *arguments], env={"COLUMNS": str(width)})

    return call


def test_both_tables_stand_side_by_side(run: Callable[..., Result]) -> None:
    result = run("inverse uses value Google")
    assert result.exit_code == 0
    assert "everything that Google uses" in result.stdout
    assert any("2 entities" in line and "1 concept" in line for line in result.stdout.splitlines())
    narrow = run("inverse uses value Google", width=60)
    assert not any("entities" in line and "concepts" in line for line in narrow.stdout.splitlines())


def test_a_long_name_hides_no_names(monkeypatch: pytest.MonkeyPatch) -> None:
    words = "positive regulation of transcription from an RNA polymerase II promoter in response to stress"
    people = ["Ada Lovelace", "Charles Babbage and his sons"]
    vocabulary = Vocabulary(
        Names.of(Role.ENTITY, ["urn:Q1", "urn:Q2"], people),
        Names.of(Role.CONCEPT, ["urn:Q3", "urn:Q4"], [words, "process"]),
        Names.of(Role.RELATION, []),
        SYNONYMS.empty_table(),
    )
    long = KnowledgeBase(Facts.of(vocabulary, typings=[(0, 0), (1, 0), (0, 1)]))
    monkeypatch.setattr(KnowledgeBase, "load", lambda *_: long)
    app = typer.Typer()
    app.command()(ask)
    for width in (60, 80, 120, 160, 200):
        shown = CliRunner().invoke(app, ["KB", "owl:Thing"], env={"COLUMNS": str(width)}).stdout
        assert "specificity" in shown, width
        assert {"process", "positive", "stress"} <= set(shown.replace("'", " ").split()), width


def test_json_and_k(run: Callable[..., Result]) -> None:
    content = json.loads(run("Agent", "--json", "-k", "2").stdout)
    assert [entity["iri"] for entity in content["entities"]] == [f"<{NS}GeoffreyHinton>", f"<{NS}Google>"]
    assert (content["known_count"], content["predicted_count"]) == (5, 0)
    assert content["counts"] == {
        "entities": 5,
        "concepts": 4,
        "known": {"entities": 5, "concepts": 4},
        "predicted": {"entities": 0, "concepts": 0},
        "less_likely": {"entities": 0, "concepts": 0},
    }
    assert "trained_on" not in content
    assert len(json.loads(run("Agent", "--json", "-k", "0").stdout)["entities"]) == 5


def test_tsv(run: Callable[..., Result]) -> None:
    lines = run("inverse uses value Google", "--tsv").stdout.splitlines()
    assert lines[0].split("\t")[:3] == ["level", "iri", "label"]
    assert lines[1].split("\t")[:5] == ["entity", f"<{NS}NeuralNetworks>", "NeuralNetworks", "1", "known"]
    assert len(lines) == 4


def test_sparql_and_explanation(run: Callable[..., Result]) -> None:
    result = run(f"SELECT ?x {{ <{NS}Google> <{NS}uses>/^<{NS}interestedIn> ?x }}", "--sparql", "--explain")
    assert result.exit_code == 0
    assert "interestedIn some (inverse uses value Google)" in result.stdout
    assert "2: NeuralNetworks, Search" in result.stdout


def test_a_file_of_queries(run: Callable[..., Result], tmp_path: Path) -> None:
    file = tmp_path / "queries.txt"
    file.write_text("# two of these are right\nPerson\n\nworksAt value Gogle\nPerson onyl\nUniversity\n")
    result = run("--file", str(file), "--json")
    assert result.exit_code == 3
    assert [json.loads(line)["query"] for line in result.stdout.splitlines()] == ["Person", "University"]
    rejected = result.stderr.splitlines()
    assert rejected[0] == f"{file}:4: no entity 'Gogle' in academia. Did you mean 'Google'? (column 15)"
    assert rejected[1].startswith(f"{file}:5: expected 'and'")
    shown = run("--file", str(file))
    assert "Person" in shown.stdout


def test_a_set_of_entities(run: Callable[..., Result], tmp_path: Path) -> None:
    file = tmp_path / "set.txt"
    file.write_text("MIT\nToronto\nNowhere\n")
    result = run("--set", str(file), "--json")
    assert result.exit_code == 3
    assert result.stderr == f"{file}:3: no entity 'Nowhere' in academia\n"
    first = json.loads(result.stdout)["concepts"][0]
    assert first["label"] == "University"
    assert first["p_value"] == pytest.approx(1 / 21)
    assert "University" in run("--set", str(file)).stdout


@pytest.mark.parametrize(
    "arguments",
    [
        (),
        ("Person", "--set", "x"),
        ("Person", "--json", "--tsv"),
        ("Person", "-k", "-1"),
        ("Person", "--min-degree", "2"),
    ],
)
def test_wrong_usage(run: Callable[..., Result], arguments: tuple[str, ...]) -> None:
    assert run(*arguments).exit_code == 2


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("Person", "--explain", "--tsv"), "give --explain with --json"),
        (("--set", "x", "--explain"), "--explain is for queries"),
    ],
)
def test_explanations_are_not_dropped(run: Callable[..., Result], arguments: tuple[str, ...], message: str) -> None:
    result = run(*arguments)
    assert result.exit_code == 2
    assert result.stdout == ""
    assert message in " ".join(result.stderr.split())


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("worksAt value Gogle",), "Did you mean"),
        (("--file", "/no/such"), "cannot read"),
        (("Person and",), "expected"),
    ],
)
def test_mistakes_are_tarbox_errors(run: Callable[..., Result], arguments: tuple[str, ...], message: str) -> None:
    result = run(*arguments)
    assert isinstance(result.exception, TarboxError)
    assert message in str(result.exception)
