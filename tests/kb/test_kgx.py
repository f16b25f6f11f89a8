"""KGX and JSON-LD in and out, and tables whose columns are named."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tarbox.core.errors import ConfigError, RejectedLine, SourceError
from tarbox.kb.build import BuildOptions, build
from tarbox.kb.export import export
from tarbox.kb.interpretation import Interpretation
from tarbox.kb.readers.kgx import KGX_PREFIXES, contract_iri, expand_curie
from tarbox.kb.readers.tables import parse_columns
from tarbox.kb.sources import detect_format, find_sources
from tarbox.kb.store import Store

from .conftest import BuildTurtle

NODES = """id\tcategory\tname\tdescription\txref\tsynonym
HGNC:6218\tbiolink:Gene|biolink:NamedThing\tKCNA1\ta channel\tENSEMBL:ENSG00000111262\tpotassium channel|MBK1
HP:0001250\tbiolink:PhenotypicFeature|biolink:OntologyClass\tSeizure\t\t\tEpilepsy
HP:0012638\tbiolink:OntologyClass\tAbnormal nervous system physiology\t\t\t
MONDO:0008047\tbiolink:Disease\tepisodic ataxia type 1\t\tOMIM:160120\t
"""
EDGES = """id\tsubject\tpredicate\tobject\tnegated\tpublications\tprimary_knowledge_source\thas_evidence
1\tHGNC:6218\tbiolink:has_phenotype\tHP:0001250\tfalse\tPMID:1|PMID:2\tinfores:hpo\tECO:0000269
2\tHGNC:6218\tbiolink:gene_associated_with_condition\tMONDO:0008047\t\t\tinfores:omim\t
3\tHP:0001250\tbiolink:subclass_of\tHP:0012638\t\t\t\t
4\tHGNC:6218\tbiolink:has_phenotype\tHP:0012638\tTrue\t\t\t
5\tLOCAL:x y\tRO:0002200\tHP:0001250\t\t\t\t
"""


def built(folder: Path, *names: str, **options: object) -> Store:
    sources, _ = find_sources([str(folder / name) for name in names])
    return build(sources, folder / "kb", BuildOptions(**options))  # type: ignore[arg-type]


@pytest.fixture
def graph(tmp_path: Path) -> Store:
    (tmp_path / "graph_nodes.tsv").write_text(NODES)
    (tmp_path / "graph_edges.tsv").write_text(EDGES)
    return built(tmp_path, "graph_nodes.tsv", "graph_edges.tsv")


def test_nodes_and_edges_mean_facts(graph: Store) -> None:
    names = graph.facts.vocabulary
    hp, biolink = "http://purl.obolibrary.org/obo/HP_", "https://w3id.org/biolink/vocab/"
    assert set(names.concepts) == {
        biolink + "Gene", biolink + "Disease", biolink + "PhenotypicFeature", hp + "0001250", hp + "0012638",
    }  # fmt: skip
    assert set(names.entities) == {
        "http://identifiers.org/hgnc/6218", hp + "0001250", "http://purl.obolibrary.org/obo/MONDO_0008047",
        "urn:tarbox:LOCAL%3Ax%20y",
    }  # fmt: skip
    assert len(graph.facts.subs) == 1
    assert len(graph.facts.heads) == 3
    phenotype = names.concepts.find(biolink + "PhenotypicFeature")
    assert phenotype is not None
    assert names.concepts.label(phenotype) == "phenotypic feature"
    relation = names.relations.find(biolink + "has_phenotype")
    assert relation is not None
    assert names.relations.label(relation) == "has phenotype"
    synonyms = {row["text"] for row in names.synonyms.to_pylist() if row["role"] == "entity"}
    assert synonyms >= {"MBK1", "potassium channel", "ENSEMBL:ENSG00000111262", "Epilepsy"}


def test_properties_of_edges_are_attributes_and_the_rest_is_counted(graph: Store) -> None:
    names = graph.facts.vocabulary
    gene = names.entities.find("http://identifiers.org/hgnc/6218")
    term = names.entities.find("http://purl.obolibrary.org/obo/HP_0001250")
    relation = names.relations.find("https://w3id.org/biolink/vocab/has_phenotype")
    assert gene is not None
    assert term is not None
    assert relation is not None
    assert graph.attributes.of(gene, relation, term) == {
        "reference": ("PMID:1", "PMID:2"),
        "primary_knowledge_source": ("infores:hpo",),
        "evidence": ("ECO:0000269",),
    }
    left_out = graph.manifest["report"]["left_out"]
    assert (left_out["negated edge"], left_out["property of a node"]) == (1, 1)


@pytest.mark.parametrize("kind", ["tsv", "jsonl"])
def test_kgx_is_read_as_it_was_written(graph: Store, tmp_path: Path, kind: str) -> None:
    written = export(graph.facts, tmp_path / "out", kgx=kind, attributes=graph.attributes)
    assert {file.name for file in written} == {f"nodes.{kind}", f"edges.{kind}"}
    again = built(tmp_path / "out", *(file.name for file in written))
    assert again.manifest["content_hash"] == graph.manifest["content_hash"]
    text = (tmp_path / "out" / f"edges.{kind}").read_text()
    assert "biolink:has_phenotype" in text
    assert "HGNC:6218" in text
    assert "publications" in text


def test_bad_lines_are_named(tmp_path: Path) -> None:
    (tmp_path / "x_edges.tsv").write_text("id\tsubject\tpredicate\tobject\n1\ta\tp\n2\ta\t\tb\n3\ta\tp\tb\n")
    store = built(tmp_path, "x_edges.tsv")
    assert [(each["line"], each["reason"]) for each in store.manifest["rejected"]] == [
        (2, "3 columns where the header has 4"),
        (3, "no values of predicate where one is needed"),
    ]
    good = json.dumps({"subject": "a", "predicate": "p", "object": "b", "score": 0.5})
    (tmp_path / "y.jsonl").write_text(f"{good}\n{{\n[1]\n" + '{"name": "x"}\n')
    store = built(tmp_path, "y.jsonl")
    reasons = {each["line"]: each["reason"] for each in store.manifest["rejected"]}
    assert reasons.keys() == {2, 3, 4}
    assert reasons[2].startswith("not JSON")
    assert reasons[3] == "not a JSON object"
    assert reasons[4] == "no values of id where one is needed"
    with pytest.raises(RejectedLine, match=r"y\.jsonl:2: not JSON"):
        built(tmp_path, "y.jsonl", strict=True)


def test_kgx_is_told_by_its_header(tmp_path: Path) -> None:
    for name, header, format in (
        ("nodes.tsv", "id\tcategory\tname", "kgx"),
        ("edges.tsv", "subject\tpredicate\tobject\tknowledge_level", "kgx"),
        ("relations.tsv", "subject\tpredicate\tobject", "tsv"),
        ("split.tsv", "subject\tpredicate\tobject\tsplit", "tsv"),
        ("labels.tsv", "id\tlabel", "tsv"),
    ):
        (tmp_path / name).write_text(header + "\n")
        assert detect_format(tmp_path / name) == format


@pytest.mark.parametrize("prefix", sorted(KGX_PREFIXES))
def test_curies_lead_back(prefix: str) -> None:
    iri = expand_curie(f"{prefix}:0001", "urn:tarbox:")
    assert iri.startswith(KGX_PREFIXES[prefix])
    assert expand_curie(contract_iri(iri), "urn:tarbox:") == iri


TEXT = """:a a :C ; :p :b , "x \\"y\\" \\\\ z"@en ; rdfs:label "A \\t tab and\\nnewline" ; skos:altLabel "other" .
:b a :D . :C rdfs:subClassOf :D . :Unused a owl:Class ; rdfs:label "é" . :q a owl:ObjectProperty .
:i a owl:NamedIndividual . :C rdfs:subClassOf [ a owl:Restriction ; owl:onProperty :p ; owl:someValuesFrom :D ] ."""


@pytest.mark.parametrize("name", ["kb.jsonld", "kb.ttl"])
def test_rdf_loses_nothing(build_turtle: BuildTurtle, tmp_path: Path, name: str) -> None:
    store = build_turtle(TEXT, keep_literals=True)
    export(store.facts, tmp_path / name, store.axioms())
    again = built(tmp_path, name, interpretation=Interpretation(keep_literals=True))
    assert store.axioms()
    assert again.manifest["content_hash"] == store.manifest["content_hash"]


def test_what_cannot_be_read_of_json_ld_is_said(tmp_path: Path) -> None:
    (tmp_path / "remote.jsonld").write_text('{"@context": "https://schema.org/", "@id": "http://x.org/a", "name": "x"}')
    with pytest.raises(RejectedLine, match=r"remote\.jsonld:1: its @context is elsewhere, and nothing is fetched"):
        built(tmp_path, "remote.jsonld", strict=True)
    (tmp_path / "cut.jsonld").write_text(
        '[{"@id": "http://x.org/a",\n "http://x.org/p": [{"@id": "http://x.org/b"}]},\n'
    )
    with pytest.raises(RejectedLine, match=r"cut\.jsonld:\d+: "):
        built(tmp_path, "cut.jsonld", strict=True)


DRUGS = """drug,note,disease,effect,pmid
aspirin,"cheap, old",headache,treats,PMID:7
aspirin,,ulcer,causes,
ibuprofen,,,treats,PMID:8
short,x
"""


def test_named_columns_of_a_table(tmp_path: Path) -> None:
    (tmp_path / "drugs.csv").write_text(DRUGS)
    store = built(
        tmp_path, "drugs.csv", columns=parse_columns("subject=drug, relation=effect,object=disease,reference=pmid")
    )
    names = store.facts.vocabulary
    facts = [
        tuple(
            kind.show(int(row))
            for kind, row in zip((names.entities, names.relations, names.entities), fact, strict=True)
        )
        for fact in zip(store.facts.heads, store.facts.relations, store.facts.tails, strict=True)
    ]
    assert sorted(facts) == [("aspirin", "causes", "ulcer"), ("aspirin", "treats", "headache")]
    ids = [names.entities.find("urn:tarbox:aspirin"), names.relations.find("urn:tarbox:treats")]
    tail = names.entities.find("urn:tarbox:headache")
    assert None not in (*ids, tail)
    assert store.attributes.of(ids[0], ids[1], tail) == {"reference": ("PMID:7",)}  # type: ignore[arg-type]
    assert [(each["line"], each["reason"]) for each in store.manifest["rejected"]] == [
        (4, "empty tail"),
        (5, "2 columns where 5 are needed"),
    ]


def test_a_relation_may_be_given_for_all_rows(tmp_path: Path) -> None:
    (tmp_path / "drugs.tsv").write_text("use\tdrug\nheadache\taspirin\n")
    store = built(tmp_path, "drugs.tsv", columns=parse_columns("head=drug,relation=<http://x.org/treats>,tail=use"))
    assert list(store.facts.vocabulary.relations) == ["http://x.org/treats"]
    assert store.facts.vocabulary.entities.show(int(store.facts.heads[0])) == "aspirin"
    store = built(tmp_path, "drugs.tsv", columns=parse_columns("entity=drug,concept=use"))
    assert (len(store.facts.typed), len(store.facts.heads)) == (1, 0)


def test_wrong_columns_are_told(tmp_path: Path) -> None:
    for text in ("subject=a,object=b", "a,b", "", "subject=,relation=r,object=o"):
        with pytest.raises(ConfigError, match=r"name the columns of a table as in subject=drug"):
            parse_columns(text)
    (tmp_path / "drugs.csv").write_text(DRUGS)
    with pytest.raises(
        SourceError, match=r"drugs\.csv:1: no column 'medicine' among drug, note, disease, effect, pmid"
    ):
        built(tmp_path, "drugs.csv", columns=parse_columns("subject=medicine,relation=effect,object=disease"))
