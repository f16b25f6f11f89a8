"""`tarbox kb` as a person meets it: what is printed where, and the exit codes."""

from __future__ import annotations

import gzip
import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from command import tarbox

TOY = Path(__file__).parents[1] / "kb" / "toy"


def test_axioms_are_counted_by_kind_and_exported(tmp_path: Path) -> None:
    built = tarbox("kb", "build", TOY / "axioms.owx", "-o", tmp_path / "kb")
    assert built.returncode == 0
    assert re.search(r"axioms +15 +SubClassOf", built.stdout)
    assert "49: AsymmetricObjectProperty 1" in tarbox("kb", "info", tmp_path / "kb").stdout
    counts = json.loads(tarbox("kb", "info", tmp_path / "kb", "--json").stdout)["axioms"]
    assert (sum(counts.values()), counts["DisjointClasses"]) == (49, 2)
    assert tarbox("kb", "export", tmp_path / "kb", "-o", tmp_path / "kb.nt").returncode == 0
    assert "owl#propertyChainAxiom" in (tmp_path / "kb.nt").read_text()
    tables = tarbox("kb", "export", tmp_path / "kb", "-o", tmp_path / "tables")
    assert "axioms are not in the tables" in tables.stderr


def test_a_file_that_ends_too_early_has_exit_code_3(tmp_path: Path) -> None:
    text = (TOY / "toy.rdf").read_text()
    (tmp_path / "cut.rdf").write_text(text[: text.rindex("<NamedIndividual")])
    built = tarbox("kb", "build", tmp_path / "cut.rdf", "-o", tmp_path / "kb")
    assert built.returncode == 3
    assert built.stderr.splitlines() == [
        f"{tmp_path}/cut.rdf:43: the file ends too early (no element found); what follows is missing"
    ]


def test_build_info_export(tmp_path: Path) -> None:
    built = tarbox("kb", "build", TOY / "toy.ttl", "-o", tmp_path / "kb")
    assert built.returncode == 0
    assert "5  assertion" in built.stdout
    assert "4 entities" in built.stdout
    info = tarbox("kb", "info", tmp_path / "kb")
    assert "assertions" in info.stdout
    assert "toy.ttl" in info.stdout
    found = json.loads(tarbox("kb", "info", tmp_path / "kb", "--json").stdout)
    assert found["counts"] == {
        "entities": 4, "concepts": 4, "relations": 2, "assertions": 5, "typings": 4, "subsumptions": 3,
    }  # fmt: skip
    assert found["rejected"] == []
    assert len(found["content_hash"]) == 32
    drawn = tarbox("kb", "info", tmp_path / "kb", "--plot", tmp_path / "kb.png")
    assert drawn.returncode == 0
    assert (tmp_path / "kb.png").read_bytes().startswith(b"\x89PNG")
    exported = tarbox("kb", "export", tmp_path / "kb", "-o", tmp_path / "out.nt")
    assert exported.returncode == 0
    assert len((tmp_path / "out.nt").read_text().splitlines()) == 32


def test_rejected_lines_are_named_and_the_exit_code_says_so(tmp_path: Path) -> None:
    (tmp_path / "a.nt").write_text("<http://e/a> <http://e/p> <http://e/b> .\nbad line\n")
    built = tarbox("kb", "build", tmp_path / "a.nt", "-o", tmp_path / "kb")
    assert built.returncode == 3
    assert built.stderr.strip().startswith(f"{tmp_path}/a.nt:2: ")
    assert json.loads(tarbox("kb", "info", tmp_path / "kb", "--json").stdout)["rejected"][0]["line"] == 2
    strict = tarbox("kb", "build", tmp_path / "a.nt", "-o", tmp_path / "strict", "--strict")
    assert strict.returncode == 1
    assert f"{tmp_path}/a.nt:2: " in strict.stderr
    assert not (tmp_path / "strict").exists()


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("empty.nt", b"", "holds no statement"),
        ("empty.nt.gz", b"", "holds no statement"),
        ("empty.tsv", b"", "holds no statement"),
        ("blank.ttl", b"# only a comment\n", "holds no statement"),
        ("cut.nt.gz", gzip.compress(b"<http://e/a> <http://e/p> <http://e/b> .\n", mtime=0)[:20], "compressed data"),
        (
            "self.ttl",
            b"<http://e/C> <http://www.w3.org/2000/01/rdf-schema#subClassOf> <http://e/C> .",
            "subsumes itself",
        ),
        ("broken.owx", b"<Ontology xmlns='http://www.w3.org/2002/07/owl#'><Class", "broken.owx"),
        ("broken.ofn", b"Ontology(<http://o> SubClassOf(", "broken.ofn"),
        ("broken.omn", b"Ontology: <http://o>\nClass: <\n", "broken.omn"),
        ("broken.obo", b"[Term]\nid\n", "broken.obo"),
        ("broken.rdf", b"<rdf:RDF", "broken.rdf"),
        ("noise.nt", bytes(range(256)) * 4, "noise.nt"),
    ],
)
def test_bad_input_gets_one_clear_message(tmp_path: Path, name: str, content: bytes, message: str) -> None:
    (tmp_path / name).write_bytes(content)
    built = tarbox("kb", "build", tmp_path / name, "-o", tmp_path / "kb")
    assert built.returncode == 1
    assert built.stderr.startswith("tarbox: ")
    assert message in built.stderr
    assert "Traceback" not in built.stderr
    assert "panicked" not in built.stderr
    assert not (tmp_path / "kb").exists()


def test_a_wrong_base_gets_one_clear_message(tmp_path: Path) -> None:
    built = tarbox("kb", "build", TOY / "toy.ttl", "--base", "not iri", "-o", tmp_path / "kb")
    assert built.returncode == 1
    assert built.stderr.startswith("tarbox: --base 'not iri' is no base: ")
    assert "Traceback" not in built.stderr


def test_a_file_name_that_is_no_text(tmp_path: Path) -> None:
    file = tmp_path / "b\udcff.nt"
    file.write_text("<http://e/a> <http://e/p> <http://e/b> .\n")
    assert tarbox("kb", "build", file, "-o", tmp_path / "kb").returncode == 0
    assert "b?.nt" in tarbox("kb", "info", tmp_path / "kb").stdout


def test_ragged_tables_reject_their_rows(tmp_path: Path) -> None:
    (tmp_path / "relations.tsv").write_bytes(b"a\tp\tb\na\tp\nc\t\td\nx\ty\tz\tw\n\xff\tp\tb\ne\tp\tf\n")
    built = tarbox("kb", "build", tmp_path / "relations.tsv", "-o", tmp_path / "kb")
    assert built.returncode == 3
    assert [line.split(":")[1] for line in built.stderr.strip().splitlines()] == ["2", "3", "4", "5"]
    assert "2 columns where the table has 3" in built.stderr


def test_cyclic_classes_are_equivalent(tmp_path: Path) -> None:
    sub = "<http://www.w3.org/2000/01/rdf-schema#subClassOf>"
    (tmp_path / "a.nt").write_text(f"<http://e/C> {sub} <http://e/D> .\n<http://e/D> {sub} <http://e/C> .\n")
    built = tarbox("kb", "build", tmp_path / "a.nt", "-o", tmp_path / "kb")
    assert built.returncode == 0
    assert "equivalent concepts: http://e/C, http://e/D" in built.stdout


def test_usage(tmp_path: Path) -> None:
    assert tarbox("kb", "build").returncode == 1
    assert "SOURCE" in tarbox("kb", "build").stderr
    assert tarbox("kb", "bild").returncode == 2
    assert tarbox("kb", "info", tmp_path / "none").returncode == 1
    unknown = tarbox("kb", "build", "--preset", "acadmia", "-o", tmp_path / "kb")
    assert unknown.returncode == 1
    assert "academia" in unknown.stderr
    assert "at least" in tarbox("kb", "build", TOY / "toy.nt", "-o", tmp_path / "kb", "--memory", "1MB").stderr
    assert tarbox("--version").stdout.startswith("tarbox ")


def test_help_is_quick_and_imports_nothing_heavy() -> None:
    code = "import sys, tarbox.cli.main; print(sorted({'torch', 'pyarrow', 'numba', 'duckdb'} & set(sys.modules)))"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "[]\n"


def test_add_remove_and_diff(tmp_path: Path) -> None:
    (tmp_path / "first.nt").write_text("<urn:a> <urn:p> <urn:b> .\n")
    (tmp_path / "more.nt").write_text('<urn:b> <urn:p> <urn:c> .\n<urn:c> <http://x#y> "1" .\nbad\n')
    tarbox("kb", "build", tmp_path / "first.nt", "-o", tmp_path / "kb")
    shutil.copytree(tmp_path / "kb", tmp_path / "old")
    added = tarbox("kb", "add", tmp_path / "kb", tmp_path / "more.nt")
    assert added.returncode == 3
    assert re.search(r"left out +1 +literal value", added.stdout)
    assert f"+1 entities, +1 assertions -> {tmp_path}/kb" in added.stdout
    assert added.stderr.startswith(f"{tmp_path}/more.nt:3: ")
    again = tarbox("kb", "add", tmp_path / "kb", tmp_path / "more.nt")
    assert "nothing to add" in again.stdout
    assert "1 facts were there already" in again.stdout
    shown = tarbox("kb", "diff", tmp_path / "old", tmp_path / "kb")
    assert shown.returncode == 1
    assert shown.stdout.splitlines()[:2] == ["entities: 1 added, 0 removed", "assertions: 1 added, 0 removed"]
    assert "+ <urn:b> <urn:p> <urn:c>" in shown.stdout
    triples = tarbox("kb", "diff", tmp_path / "old", tmp_path / "kb", "--format", "nt", "--only", "added").stdout
    (tmp_path / "difference.nt").write_text(triples)
    assert tarbox("kb", "remove", tmp_path / "kb", tmp_path / "difference.nt").returncode == 0
    same = tarbox("kb", "diff", tmp_path / "old", tmp_path / "kb", "--format", "json")
    assert (same.returncode, json.loads(same.stdout)) == (0, {"counts": {}})
    assert tarbox("kb", "diff", tmp_path / "old", tmp_path / "nowhere").returncode == 2
