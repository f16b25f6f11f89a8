"""What a SPARQL engine is given, and its index on disk."""

from __future__ import annotations

from pathlib import Path

import pyoxigraph
import pytest

from tarbox.kb import sparql_index
from tarbox.kb.build import BuildOptions, build
from tarbox.kb.export import export
from tarbox.kb.reasoning.inference import InferenceMode
from tarbox.kb.sources import find_sources
from tarbox.kb.store import open_store
from tarbox.service.knowledge_base import KnowledgeBase

ONTOLOGY = """
@prefix : <urn:x:> . @prefix owl: <http://www.w3.org/2002/07/owl#> .
@prefix rdfs: <http://www.w3.org/2000/01/rdf-schema#> .
:Mother rdfs:subClassOf :Woman , [ a owl:Restriction ; owl:onProperty :hasChild ; owl:someValuesFrom :Person ] .
:Woman rdfs:subClassOf :Person .
:hasChild a owl:ObjectProperty ; owl:inverseOf :hasParent .
:hasParent a owl:ObjectProperty .
:ada a :Mother ; rdfs:label "Ada" ; :hasChild :bob .
:bob a :Person .
"""
CLOSE = """
PREFIX rdfs: <http://www.w3.org/2000/01/rdf-schema#>
INSERT { ?x a ?above } WHERE { ?x a/rdfs:subClassOf+ ?above FILTER(ISIRI(?above)) }"""
OPTIONS = BuildOptions(infer=InferenceMode.OWL)
ASKED = "SELECT ?x { ?x a <urn:x:Person> } ORDER BY ?x"


@pytest.fixture
def store(tmp_path: Path) -> Path:
    source = tmp_path / "family.ttl"
    source.write_text(ONTOLOGY)
    build(find_sources([str(source)])[0], tmp_path / "family", OPTIONS)
    return tmp_path / "family"


def people(kb: KnowledgeBase) -> list[str]:
    return [solution["x"].value for solution in kb.engine.query(ASKED)]


def test_known_facts_are_served_closed(store: Path, tmp_path: Path) -> None:
    """As the engine closes an export itself; blank nodes of axioms may have other names."""
    opened = open_store(store)
    export(opened.facts, tmp_path / "all.nt", opened.axioms())
    expected = pyoxigraph.Store()
    expected.load(path=str(tmp_path / "all.nt"))
    expected.update(CLOSE)
    served = KnowledgeBase.load(store).engine
    graphs = [pyoxigraph.Dataset(engine) for engine in (expected, served)]
    for graph in graphs:
        graph.canonicalize(pyoxigraph.CanonicalizationAlgorithm.UNSTABLE)
    assert graphs[0] == graphs[1]
    assert bool(served.query("ASK { <urn:x:bob> <urn:x:hasParent> <urn:x:ada> ; a <urn:x:Person> }"))
    assert bool(
        served.query(
            "ASK { <urn:x:Mother> rdfs:subClassOf [ owl:someValuesFrom <urn:x:Person> ] }",
            prefixes={"rdfs": "http://www.w3.org/2000/01/rdf-schema#", "owl": "http://www.w3.org/2002/07/owl#"},
        )
    )


def test_a_store_without_individuals_serves_its_classes(tmp_path: Path) -> None:
    source = tmp_path / "classes.ttl"
    source.write_text("\n".join(line for line in ONTOLOGY.splitlines() if ":ada" not in line and ":bob" not in line))
    build(find_sources([str(source)])[0], tmp_path / "classes", OPTIONS)
    kb = KnowledgeBase.load(tmp_path / "classes")
    assert kb.of_classes
    below = kb.engine.query("SELECT ?c { ?c <http://www.w3.org/2000/01/rdf-schema#subClassOf>+ <urn:x:Person> }")
    assert sorted(solution["c"].value for solution in below) == ["urn:x:Mother", "urn:x:Woman"]
    assert not bool(kb.engine.query("ASK { <urn:x:Mother> a <urn:x:Mother> }"))


def test_the_index_is_built_once_and_is_that_of_its_store(
    store: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sparql_index, "IN_MEMORY", 0)

    def indexes() -> list[str]:
        return [file.name for file in store.iterdir() if "sparql" in file.name]

    assert people(KnowledgeBase.load(store)) == ["urn:x:ada", "urn:x:bob"]
    first = indexes()
    assert first == [f"sparql-1-{open_store(store).manifest['content_hash']}"]
    built = (store / first[0]).stat().st_mtime_ns
    assert people(KnowledgeBase.load(store)) == ["urn:x:ada", "urn:x:bob"]
    assert (store / first[0]).stat().st_mtime_ns == built

    more = tmp_path / "more.ttl"
    more.write_text(f"{ONTOLOGY}\n:eve a :Woman .")
    build(find_sources([str(more)])[0], store, OPTIONS)
    assert indexes() == []
    assert people(KnowledgeBase.load(store)) == ["urn:x:ada", "urn:x:bob", "urn:x:eve"]
    assert indexes() != first


def test_where_no_index_can_be_written_memory_does(store: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sparql_index, "IN_MEMORY", 0)
    place = store / f"sparql-1-{open_store(store).manifest['content_hash']}"
    place.write_text("")  # what no folder can be renamed to
    assert people(KnowledgeBase.load(store)) == ["urn:x:ada", "urn:x:bob"]
    assert [file.name for file in store.iterdir() if "sparql" in file.name] == [place.name]
