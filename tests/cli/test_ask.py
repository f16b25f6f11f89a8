"""`tarbox ask` as a person meets it: texts in odd encodings, and names that nothing has."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from command import tarbox

NS = "https://tarbox.example/academia#"
COMMAND = (sys.executable, "-m", "tarbox")


@pytest.fixture(scope="module")
def academia(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("ask") / "academia"
    assert tarbox("kb", "build", "--preset", "academia", "-o", folder).returncode == 0
    return folder


def ask(kb: Path, *arguments: str | bytes | Path, **environment: str) -> subprocess.CompletedProcess[str]:
    command = [*COMMAND, "ask", kb, *arguments, "-k", "1", "--tsv"]
    return subprocess.run(
        command,
        capture_output=True,
        encoding="utf-8",
        errors="replace",
        check=False,
        timeout=120,
        env=os.environ | environment,
    )


@pytest.mark.parametrize("query", [b"\xff\xfe", b"'Caf\xe9'", b"worksAt value \xff", f"<{NS}Person\udcff>"])
def test_bytes_that_are_no_text(academia: Path, query: bytes | str) -> None:
    asked = ask(academia, query)
    assert asked.returncode == 1
    assert asked.stderr.startswith("tarbox: the name has bytes that are no text")
    assert "LC_ALL=C.UTF-8" in asked.stderr


@pytest.mark.parametrize("arguments", [["{Café}"], ["--sparql", f"SELECT ?x {{ ?x a <{NS}Café> }}"]])
def test_a_terminal_without_utf8(academia: Path, arguments: list[str]) -> None:
    given = [argument.encode() for argument in arguments]
    asked = ask(academia, *given, LC_ALL="C", PYTHONUTF8="0", PYTHONCOERCECLOCALE="0")
    assert asked.returncode == 1
    assert asked.stderr.startswith("tarbox: the name has bytes that are no text")


@pytest.mark.parametrize(("option", "first"), [("--set", "Google"), ("--file", "{Google}")])
def test_a_list_may_begin_with_a_byte_order_mark(academia: Path, tmp_path: Path, option: str, first: str) -> None:
    file = tmp_path / "list.txt"
    file.write_text(f"{first}\n", encoding="utf-8-sig")
    asked = ask(academia, option, file)
    assert (asked.returncode, asked.stderr) == (0, "")
    assert f"<{NS}Google>" in asked.stdout


def test_sparql_names_that_nothing_has(academia: Path, tmp_path: Path) -> None:
    wrong, right = (f"SELECT ?x {{ ?x a <{NS}{name}> }}" for name in ("Persn", "Person"))
    asked = tarbox("ask", academia, "--sparql", wrong, "-k", 1, "--tsv")
    assert asked.returncode == 1
    assert asked.stderr == f"tarbox: no concept '{NS}Persn' in academia. Did you mean 'Person'?\n"
    (tmp_path / "queries.rq").write_text(f"{wrong}\n{right}\n")
    listed = tarbox("ask", academia, "--sparql", "--file", tmp_path / "queries.rq", "-k", 1, "--tsv")
    assert listed.returncode == 3
    assert listed.stderr.startswith(f"{tmp_path}/queries.rq:1: no concept")
    assert right in listed.stdout


def test_everything_is_explained_as_it_is_asked(academia: Path) -> None:
    asked = tarbox("ask", academia, "worksAt some owl:Thing", "--explain")
    assert asked.returncode == 0
    assert "worksAt some owl:Thing" in asked.stdout
    assert "vocabulary#" not in asked.stdout


CYCLE = f"SELECT ?x ?y {{ ?x <{NS}uses> ?y ; <{NS}interestedIn> ?y }} ORDER BY ?x"


def test_any_sparql_is_answered_by_a_store(academia: Path, tmp_path: Path) -> None:
    """What is no tree, as SPARQL results; a file may have both kinds."""

    def put(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
        return tarbox("ask", academia, "--sparql", *arguments)

    lines = put(CYCLE).stdout.splitlines()
    assert lines[:2] == ["?x\t?y", f"<{NS}Cohere>\t<{NS}RetrievalAugmentedGeneration>"]
    assert json.loads(put("--json", CYCLE).stdout)["head"]["vars"] == ["x", "y"]
    assert put('ASK { ?x rdfs:label "Google" }').stdout == "true\n"
    assert put('SELECT ?x { ?x rdfs:label "Google" }').stdout == f"?x\n<{NS}Google>\n"
    assert f"<{NS}Google>" in put(f"DESCRIBE <{NS}Google>").stdout
    (tmp_path / "queries.rq").write_text(f"ASK {{}}\nSELECT ?x {{ ?x a <{NS}Country> }}\n{CYCLE}\nnonsense\n")
    listed = put("--json", "--file", tmp_path / "queries.rq")
    assert [sorted(json.loads(line))[:2] for line in listed.stdout.splitlines()] == [
        ["boolean", "head"],
        ["canonical", "concept_count"],
        ["head", "results"],
    ]
    assert listed.returncode == 3
    assert "queries.rq:4: not SPARQL" in listed.stderr
