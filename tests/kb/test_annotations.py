"""The annotation files of biology: what each row says."""

from __future__ import annotations

import gzip
from collections import Counter
from pathlib import Path

import pytest

from tarbox.kb.build import build
from tarbox.kb.namespaces import ANNOTATION_RELATION, LABEL, OBO, OWL, SUBCLASS, TYPE
from tarbox.kb.readers import READERS
from tarbox.kb.readers.annotations import SYNONYM
from tarbox.kb.readers.biology import BIOLINK, HAS_PHENOTYPE, INVOLVED_IN, ONSET, SYMBOL, SYMMETRIC
from tarbox.kb.sources import Source, detect_format, find_sources
from tarbox.kb.statements import ReadOptions


def gaf_row(
    gene: str,
    qualifier: str,
    term: str,
    evidence: str,
    rest: tuple[str, str, str] = ("", "", ""),
    aspect: str = "P",
) -> str:
    """A row of GAF from `database id symbol taxon`; `rest` is the with/from column, the name and the synonyms."""
    database, id, symbol, taxon = gene.split()
    partners, name, synonyms = rest
    reference = "PMID:1"
    cells = (database, id, symbol, qualifier, term, reference, evidence, partners, aspect, name, synonyms)
    return "\t".join((*cells, "protein", f"taxon:{taxon}", "20190101", "X", "", ""))


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
id: HP:0000005
name: Mode of inheritance
is_a: HP:0000001

[Term]
id: HP:0000007
name: Autosomal recessive inheritance
is_a: HP:0000005

[Term]
id: HP:0003674
name: Onset
is_a: HP:0000001

[Term]
id: HP:0003593
name: Infantile onset
is_a: HP:0003674

[Term]
id: HP:0003676
name: Progressive
is_a: HP:0000001
"""
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
HPOA = """#version: 2025-01-16
database_id\tdisease_name\tqualifier\thpo_id\treference\tevidence\tonset\tfrequency\tsex\tmodifier\taspect\tbiocuration
OMIM:1\tFirst "great" disease\t\tHP:0001250\tPMID:1\tPCS\tHP:0003577\t1/2\t\t\tP\tx
OMIM:1\tFirst "great" disease\tNOT\tHP:0001251\tPMID:1\tPCS\t\t\t\t\tP\tx
OMIM:1\tFirst "great" disease\t\tHP:0000007\tPMID:1\tPCS\t\t\t\t\tI\tx
ORPHA:2\tSecond\t\tHP:0003593\tPMID:1\tTAS\t\t\t\t\tC\tx
ORPHA:2\tSecond\t\tHP:0003676\tPMID:1;PMID:2\tTAS\t\tHP:0040283\t\t\tC\tx
ORPHA:2\tSecond\t\tHP:0001250\tPMID:1\tTAS\t\t0/7\t\t\tP\tx
ICD:3\tThird\t\tHP:0003676\tPMID:1\tTAS\t\t\t\t\tC\tx
DECIPHER:4\tFourth\t\tHP:0000118\tPMID:1\tTAS\t\t\t\t\tP\tx
"""
GENES = """ncbi_gene_id\tgene_symbol\thpo_id\thpo_name\tfrequency\tdisease_id
7157\tTP53\tHP:0001250\tSeizure\t-\tOMIM:1
7157\tTP53\tHP:0000007\tAutosomal recessive inheritance\t-\tOMIM:1
7157\t\tHP:0001250\tSeizure\t-\tOMIM:1
4193\tMDM2\tHP:0001250\tSeizure\t3/5\tORPHA:2
7467\t-\tHP:0001250\tSeizure\t-\tOMIM:1
"""


def read(
    path: Path, format: str, *beside: Path
) -> tuple[list[tuple[str, str, str]], dict[str, int], list[tuple[int, str]]]:
    """Statements in order, what was left out, what was rejected; OBO files `beside` it are known to the reader."""
    source = Source(path, path.name, format)
    options = ReadOptions(sources=[source, *(Source(other, other.name, "obo") for other in beside)])
    statements: list[tuple[str, str, str]] = []
    left_out: Counter[str] = Counter()
    rejected: list[tuple[int, str]] = []
    for piece in READERS[format](source, options, lambda _: None):
        rows = piece.statements.to_pylist()
        statements += [(row["subject"], row["predicate"], row["object"]) for row in rows]
        left_out.update(piece.left_out)
        rejected += piece.rejected
    return statements, dict(left_out), rejected


NAMES = {
    SYMBOL: "gene:",
    "http://identifiers.org/mgi/": "mgi:",
    BIOLINK: "",
    HAS_PHENOTYPE.iri: "has_phenotype",
    INVOLVED_IN.iri: "involved_in",
    ONSET.iri: "has_onset",
    OBO: "",
    TYPE: "a",
    LABEL: "label",
    SYNONYM: "synonym",
    SUBCLASS: "below",
    SYMMETRIC: "symmetric",
    ANNOTATION_RELATION: "annotation",
    OWL + "ObjectProperty": "relation",
}


def short(statements: list[tuple[str, str, str]], about: str = "") -> list[str]:
    """Statements with the well-known beginnings of IRIs cut off: those whose subject begins so."""
    result = [" ".join(row) for row in statements]
    for iri, name in sorted(NAMES.items(), key=lambda pair: -len(pair[0])):
        result = [row.replace(iri, name) for row in result]
    return [row for row in result if row.startswith(about)]


def test_gaf_gives_annotations_and_relations_between_genes(tmp_path: Path) -> None:
    path = tmp_path / "few.gaf"
    path.write_text(GAF)
    statements, left_out, rejected = read(path, "gaf")
    assert short(statements, about="gene:") == [
        'gene:TP53 label "TP53"',
        "gene:TP53 a Gene",
        'gene:TP53 synonym "Tumor antigen"',
        'gene:TP53 synonym "p53"',
        'gene:TP53 synonym "UniProtKB:P1"',
        "gene:TP53 involved_in GO_0006915",
        'gene:MDM2 label "MDM2"',
        "gene:MDM2 a Gene",
        'gene:MDM2 synonym "Ligase"',
        'gene:MDM2 synonym "UniProtKB:P2"',
        'gene:A%2FB label "A/B"',
        "gene:A%2FB a Gene",
        'gene:A%2FB synonym "UniProtKB:P3"',
        'gene:MDM2 synonym "UniProtKB:P4"',
        "gene:MDM2 involved_in GO_0016567",
        "gene:TP53 physically_interacts_with gene:MDM2",
        "gene:MDM2 physically_interacts_with gene:TP53",
        "gene:MDM2 genetically_interacts_with gene:TP53",
        "gene:TP53 genetically_interacts_with gene:MDM2",
        "gene:MDM2 similar_to gene:TP53",
        "gene:TP53 similar_to gene:MDM2",
        "gene:TP53 orthologous_to mgi:MGI%3A98834",
    ]
    assert short(statements, about="mgi:") == [
        'mgi:MGI%3A98834 label "Trp53"',
        "mgi:MGI%3A98834 a Gene",
        'mgi:MGI%3A98834 synonym "MGI:MGI:98834"',
        "mgi:MGI%3A98834 involved_in GO_0006915",
        "mgi:MGI%3A98834 orthologous_to gene:TP53",
    ]
    assert short(statements, about="involved_in") == [
        'involved_in label "involved in"',
        'involved_in synonym "involved_in"',
        "involved_in a relation",
        "involved_in a annotation",
    ]
    assert "physically_interacts_with a symmetric" in short(statements)
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


@pytest.mark.parametrize(
    ("qualifier", "aspect", "relation", "kept"),
    [
        ("", "P", "RO_0002331", None),
        ("", "F", "RO_0002327", None),
        ("", "C", "RO_0001025", None),
        ("involved_in", "P", "RO_0002331", None),
        ("is_active_in", "C", "RO_0001025", "is_active_in"),
        ("part_of", "C", "BFO_0000050", None),
        ("contributes_to", "F", "RO_0002326", None),
        ("colocalizes_with", "C", "RO_0002325", None),
        ("acts_upstream_of_or_within_positive_effect", "P", "RO_0002264", "acts_upstream_of_or_within_positive_effect"),
    ],
)
def test_a_qualifier_or_else_the_aspect_says_the_relation(
    tmp_path: Path, qualifier: str, aspect: str, relation: str, kept: str | None
) -> None:
    path = tmp_path / "one.gaf"
    path.write_text(
        "!gaf-version: 2.2\n" + gaf_row("UniProtKB P1 X 9606", qualifier, "GO:0000001", "IDA", aspect=aspect)
    )
    store = build([Source(path, path.name, "gaf")], tmp_path / "kb")
    ((head, found, tail),) = zip(store.facts.heads, store.facts.relations, store.facts.tails, strict=True)
    assert store.facts.vocabulary.relations.iri(int(found)) == OBO + relation
    expected = {"evidence": ("IDA",), "reference": ("PMID:1",)} | ({} if kept is None else {"qualifier": (kept,)})
    assert store.attributes.of(int(head), int(found), int(tail)) == expected


def test_an_unknown_qualifier_is_rejected(tmp_path: Path) -> None:
    path = tmp_path / "one.gaf"
    path.write_text(gaf_row("UniProtKB P1 X 9606", "enabels", "GO:0000001", "IDA"))
    assert read(path, "gaf")[2] == [(1, "neither a qualifier nor an aspect of GAF: 'enabels'")]


def test_hpoa_gives_phenotypes_inheritance_and_onset(tmp_path: Path) -> None:
    path = tmp_path / "phenotype.hpoa"
    path.write_text(HPOA)
    (tmp_path / "hp.obo").write_text(HP)
    statements, left_out, rejected = read(path, "hpoa", tmp_path / "hp.obo")
    first, second, fourth = (
        "http://identifiers.org/omim/1",
        "ORDO/Orphanet_2",
        "https://www.deciphergenomics.org/syndrome/4",
    )
    assert [row for row in short(statements) if first in row or second in row or fourth in row] == [
        rf'{first} label "First \"great\" disease"',
        f"{first} a Disease",
        f'{first} synonym "OMIM:1"',
        f"{first} has_phenotype HP_0001250",
        f"{first} has_mode_of_inheritance HP_0000007",
        f'http://www.orpha.net/{second} label "Second"',
        f"http://www.orpha.net/{second} a Disease",
        f'http://www.orpha.net/{second} synonym "ORPHA:2"',
        f"http://www.orpha.net/{second} has_onset HP_0003593",
        f"http://www.orpha.net/{second} has_phenotype HP_0003676",
        f'{fourth} label "Fourth"',
        f"{fourth} a Disease",
        f'{fourth} synonym "DECIPHER:4"',
    ]
    assert left_out == {
        "annotation with NOT": 1,
        "annotation to a root term": 1,
        "phenotype with a frequency of zero": 1,
    }
    assert rejected == [(9, "not the id of a disease: 'ICD:3'. Known databases: OMIM, ORPHA, DECIPHER, MONDO")]


def test_genes_to_phenotype_gives_phenotypes_and_diseases(tmp_path: Path) -> None:
    path = tmp_path / "genes_to_phenotype.txt"
    path.write_text(GENES)
    (tmp_path / "hp.obo").write_text(HP)
    statements, left_out, rejected = read(path, "hpo-genes", tmp_path / "hp.obo")
    assert short(statements, about="gene:") == [
        'gene:TP53 label "TP53"',
        "gene:TP53 a Gene",
        'gene:TP53 synonym "NCBIGene:7157"',
        "gene:TP53 gene_associated_with_condition http://identifiers.org/omim/1",
        "gene:TP53 has_phenotype HP_0001250",
        'gene:MDM2 label "MDM2"',
        "gene:MDM2 a Gene",
        'gene:MDM2 synonym "NCBIGene:4193"',
        "gene:MDM2 gene_associated_with_condition http://www.orpha.net/ORDO/Orphanet_2",
        "gene:MDM2 has_phenotype HP_0001250",
    ]
    assert "HP_0000118 below PhenotypicFeature" in short(statements)
    assert left_out == {"inheritance or onset in the row of a gene (its disease has it)": 1}
    assert rejected == [(4, "no gene symbol for NCBIGene:7157"), (6, "no gene symbol for NCBIGene:7467")]


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
    assert any(predicate in (HAS_PHENOTYPE.iri, INVOLVED_IN.iri) for _, predicate, _ in statements)


def test_a_truncated_gzip_says_so(tmp_path: Path) -> None:
    path = tmp_path / "few.gaf.gz"
    path.write_bytes(gzip.compress(GAF.encode() * 100)[:-20])
    assert "compressed data" in read(path, "gaf")[2][-1][1]


def test_annotation_files_are_told_by_suffix_and_content(tmp_path: Path) -> None:
    diseases = "ncbi_gene_id\tgene_symbol\tassociation_type\tdisease_id\tsource\n"
    genes = "hgnc_id\tsymbol\tname\talias_symbol\tprev_symbol\tentrez_id\tuniprot_ids\n"
    files = {
        "a.gaf": GAF,
        "b.hpoa": HPOA,
        "genes_to_disease.txt": diseases,
        "genes_to_phenotype.txt": GENES,
        "goa_human.txt": GAF,
        "hgnc_complete_set.txt": genes,
    }
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    formats = {name: detect_format(tmp_path / name) for name in files}
    expected = ("gaf", "hpoa", "hpo-diseases", "hpo-genes", "gaf", "hgnc")
    assert formats == dict(zip(files, expected, strict=True))
    assert [source.format for source in find_sources([str(tmp_path)])[0]] == ["gaf", "hpoa", *expected[2:]]
