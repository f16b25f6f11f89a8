"""Exports can be read again, and give the same store."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest

from tarbox.core.errors import ConfigError
from tarbox.kb.build import BuildOptions, build
from tarbox.kb.export import export
from tarbox.kb.interpretation import Interpretation
from tarbox.kb.sources import find_sources
from tarbox.kb.store import Store

from .conftest import BuildTurtle

TEXT = """:a a :C ; :p :b , "x \\"y\\" \\\\ z"@en ; rdfs:label "A \\t tab and\\nnewline" ; skos:altLabel "other" .
:b a :D . :C rdfs:subClassOf :D . :Unused a owl:Class ; rdfs:label "é" . :q a owl:ObjectProperty .
:i a owl:NamedIndividual ."""


def rebuild(source: Path, out: Path) -> Store:
    sources, _ = find_sources([str(source)])
    return build(sources, out, BuildOptions(Interpretation(keep_literals=True)))


@pytest.mark.parametrize("name", ["out.nt", "out.nt.gz"])
def test_ntriples_loses_nothing(build_turtle: BuildTurtle, tmp_path: Path, name: str) -> None:
    store = build_turtle(TEXT, keep_literals=True)
    written = export(store.facts, tmp_path / name)
    again = rebuild(tmp_path / name, tmp_path / "again")
    assert again.manifest["content_hash"] == store.manifest["content_hash"]
    content = (tmp_path / name).read_bytes()
    lines = (gzip.decompress(content) if name.endswith(".gz") else content).decode().splitlines()
    assert written == {tmp_path / name: len(lines)}


def test_ntriples_loses_no_axiom(toy: Path, tmp_path: Path) -> None:
    store = rebuild(toy / "axioms.ofn", tmp_path / "kb")
    export(store.facts, tmp_path / "out.nt", store.axioms())
    again = rebuild(tmp_path / "out.nt", tmp_path / "again")
    assert len(again.axioms()) == 49
    assert again.axioms() == store.axioms()
    assert again.manifest["content_hash"] == store.manifest["content_hash"]


def test_tables_keep_the_facts(build_turtle: BuildTurtle, tmp_path: Path) -> None:
    store = build_turtle(":a a :C ; :p :b , '1977' ; rdfs:label 'an A' . :C rdfs:subClassOf :D .", keep_literals=True)
    export(store.facts, tmp_path / "tables")
    again = rebuild(tmp_path / "tables", tmp_path / "again")
    assert again.manifest["content_hash"] == store.manifest["content_hash"]


def test_tables_keep_the_split(tmp_path: Path) -> None:
    (tmp_path / "relations.tsv").write_text("a\tp\tb\ttrain\nb\tp\tc\ttest\n")
    store = rebuild(tmp_path / "relations.tsv", tmp_path / "kb")
    assert store.facts.splits.tolist() == [0, 2]
    export(store.facts, tmp_path / "tables")
    assert rebuild(tmp_path / "tables", tmp_path / "again").manifest["content_hash"] == store.manifest["content_hash"]


def test_other_suffixes_are_refused(build_turtle: BuildTurtle, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"ends in \.nt"):
        export(build_turtle(":a :p :b .").facts, tmp_path / "kb.json")
