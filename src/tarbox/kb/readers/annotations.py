"""Annotation tables of biology: GAF (genes to GO terms), and phenotype.hpoa and genes_to_phenotype.txt of the HPO.

Human genes are named by their symbol, which is what the three files have in common. GO and HPO terms get the IRIs
that the OBO reader gives them. A term that describes a gene or a disease is its concept (`rdf:type`); the mode of
inheritance and the onset of a disease are entities that it is related to.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final, final
from urllib.parse import quote

from tarbox.kb.namespaces import LABEL, OBO, SKOS, TYPE
from tarbox.kb.sources import Source, chunks
from tarbox.kb.statements import NOTHING, Piece, ReadOptions, batch
from tarbox.kb.terms import URN, literal

SYMBOL: Final = "http://identifiers.org/hgnc.symbol/"
BIOLINK: Final = "https://w3id.org/biolink/vocab/"
SYNONYM: Final = SKOS + "altLabel"
PHYSICAL: Final = BIOLINK + "physically_interacts_with"
GENETIC: Final = BIOLINK + "genetically_interacts_with"
SIMILAR: Final = BIOLINK + "similar_to"
ORTHOLOGOUS: Final = BIOLINK + "orthologous_to"
CONDITION: Final = BIOLINK + "gene_associated_with_condition"
INHERITANCE: Final = BIOLINK + "has_mode_of_inheritance"
ONSET: Final = URN + "has_onset"  # Biolink has no such relation
EVIDENCE: Final = {"IPI": PHYSICAL, "IGI": GENETIC, "ISS": SIMILAR, "ISA": SIMILAR, "ISO": ORTHOLOGOUS}
"""What an evidence code says of the gene and of those in the with/from column."""

DISEASES: Final = {
    "OMIM": "http://identifiers.org/omim/",
    "ORPHA": "http://www.orpha.net/ORDO/Orphanet_",
    "DECIPHER": "https://www.deciphergenomics.org/syndrome/",
}
ROOTS: Final = frozenset({"GO:0003674", "GO:0005575", "GO:0008150", "HP:0000001", "HP:0000118"})
INHERITANCE_TERMS: Final = frozenset(  # HP:0000005 and below, HPO 2025-01-16
    f"HP:{number:07}"
    for number in (
        *(5, 6, 7, 1417, 1419, 1423, 1426, 1427, 1442, 1450, 1466, 1470, 1475, 3743, 3744, 3745, 3829, 3831, 10982),
        *(10983, 10984, 12274, 12275, 25352, 32113, 32382, 32383, 32384, 34335, 34338, 34339, 34340, 34341, 34343),
        *(34344, 34345, 34857, 34950, 4000158, 4000159, 4000160),
    )
)
ONSET_TERMS: Final = frozenset(  # HP:0003674 and below
    f"HP:{number:07}"
    for number in (
        *(3577, 3581, 3584, 3593, 3596, 3621, 3623, 3674, 11460, 11461, 11462, 11463, 25708, 25709, 25710, 30674),
        *(34197, 34198, 34199, 410280, 4000040, 6000314, 6000315),
    )
)
_TERM = re.compile(r"(?:GO|HP):\d{7}")
_ACCESSION = re.compile(r"UniProtKB:[A-Z0-9]+")

NEGATED: Final = "annotation with NOT"
OF_ROOT: Final = "annotation to a root term"
OF_DISEASE: Final = "inheritance or onset in the row of a gene (its disease has it)"
ELSEWHERE: Final = "related to something that is no gene of the file"
ITSELF: Final = "gene related to itself"


class _BadRow(Exception):
    """Why a row is rejected."""


@final
@dataclass(slots=True)
class _Findings:
    """What a block of rows says."""

    statements: list[tuple[str, str, str]] = field(default_factory=list)
    left_out: Counter[str] = field(default_factory=Counter)
    rejected: list[tuple[int, str]] = field(default_factory=list)

    def add(self, subject: str, predicate: str, object: str) -> None:
        self.statements.append((subject, predicate, object))

    def piece(self) -> Piece:
        rows = batch(*zip(*self.statements, strict=True)) if self.statements else NOTHING
        return Piece(rows, self.rejected, dict(self.left_out))


@final
@dataclass(slots=True)
class _Names:
    """Gives names their labels and synonyms, once a file each."""

    named: set[str] = field(default_factory=set)

    def give(self, iri: str, label: str, synonyms: Sequence[str], findings: _Findings) -> None:
        if iri in self.named:
            return
        self.named.add(iri)
        findings.add(iri, LABEL, literal(label))
        for synonym in dict.fromkeys(synonyms):
            if synonym not in ("", label):
                findings.add(iri, SYNONYM, literal(synonym))

    def relate(self, subject: str, relation: str, object: str, findings: _Findings) -> None:
        """An assertion; the relation is labelled at its first use."""
        self.give(relation, re.split("[/:]", relation)[-1].replace("_", " "), (), findings)
        findings.add(subject, relation, object)


def _read(
    source: Source, progress: Callable[[int], None], width: int, take: Callable[[list[str], _Findings], None]
) -> Iterator[Piece]:
    """Hand each row of at least `width` cells to `take`; comments and headers are passed over."""
    with source.open() as stream:
        for first_line, block in chunks(stream):
            findings = _Findings()
            for number, raw in enumerate(block.split(b"\n"), first_line):
                if not raw.strip() or raw.startswith((b"!", b"#", b"database_id\t", b"ncbi_gene_id\t")):
                    continue
                try:
                    take(_cells(raw, width), findings)
                except _BadRow as error:
                    findings.rejected.append((number, str(error)))
            progress(stream.position())
            yield findings.piece()
        if stream.failure:
            yield Piece(NOTHING, [(stream.lines + 1, stream.failure)])


def _cells(raw: bytes, width: int) -> list[str]:
    if b"\x00" in raw:
        raise _BadRow("NUL byte")
    try:
        cells = raw.decode().rstrip("\r").split("\t")
    except UnicodeDecodeError as error:
        raise _BadRow(f"invalid UTF-8: {error.reason} at byte {error.start + 1}") from None
    if len(cells) < width:
        raise _BadRow(f"{len(cells)} columns where the format has {width}")
    return cells


def term_iri(id: str) -> str:
    """The IRI of a GO or HPO term, as OBO's rules have it."""
    if not _TERM.fullmatch(id):
        raise _BadRow(f"not the id of a GO or HPO term: '{id}'")
    return OBO + id.replace(":", "_")


def symbol_iri(symbol: str) -> str:
    """The IRI of a human gene."""
    if not symbol.strip():
        raise _BadRow("empty gene symbol")
    return SYMBOL + quote(symbol.strip(), safe="")


def disease_iri(id: str) -> str:
    database, _, number = id.partition(":")
    if database not in DISEASES or not number:
        raise _BadRow(f"not the id of a disease: '{id}'. Known databases: {', '.join(DISEASES)}")
    return DISEASES[database] + quote(number, safe="")


def read_gaf(source: Source, options: ReadOptions, progress: Callable[[int], None]) -> Iterator[Piece]:
    """Typings as the file goes by; relations between genes at its end, when all genes are known."""
    del options
    annotations = _Annotations()
    yield from _read(source, progress, 15, annotations.take)
    yield annotations.relations()


@final
@dataclass(slots=True)
class _Annotations:
    """The state of reading a GAF: genes by accession, and who is related to which accession."""

    genes: dict[str, str] = field(default_factory=dict)
    related: list[tuple[str, str, str]] = field(default_factory=list)
    names: _Names = field(default_factory=_Names)

    def take(self, row: list[str], findings: _Findings) -> None:
        database, id, symbol, qualifier, term, _, evidence, partners, _, name, synonyms = row[:11]
        concept = term_iri(term)
        gene = symbol_iri(symbol) if row[12].split("|")[0] == "taxon:9606" else _foreign_iri(database, id)
        self.genes[f"{database}:{id}"] = gene
        if "NOT" in qualifier.split("|"):
            findings.left_out[NEGATED] += 1
            return
        self.names.give(gene, symbol.strip(), (name, *synonyms.split("|"), f"{database}:{id}"), findings)
        if term in ROOTS:
            findings.left_out[OF_ROOT] += 1
        else:
            findings.add(gene, TYPE, concept)
        relation = EVIDENCE.get(evidence)
        if relation and partners:
            self.related += ((gene, relation, partner) for partner in re.split("[|,]", partners))

    def relations(self) -> Piece:
        """The with/from column, resolved: isoforms and processed chains stand for their gene."""
        findings = _Findings()
        for gene, relation, partner in self.related:
            accession = _ACCESSION.match(partner)
            other = self.genes.get(accession.group() if accession else partner)
            if other is None:
                findings.left_out[ELSEWHERE] += 1
            elif other == gene:
                findings.left_out[ITSELF] += 1
            else:
                self.names.relate(gene, relation, other, findings)
        return findings.piece()


def _foreign_iri(database: str, id: str) -> str:
    """The IRI of a gene of another species: symbols are unique within one species only."""
    if not id.strip():
        raise _BadRow("empty id of a gene")
    return f"http://identifiers.org/{quote(database.lower())}/{quote(id)}"


def read_hpoa(source: Source, options: ReadOptions, progress: Callable[[int], None]) -> Iterator[Piece]:
    """Diseases: their phenotypes as typings, their inheritance and onset as assertions."""
    del options
    names = _Names()

    def take(row: list[str], findings: _Findings) -> None:
        disease, term, qualifier = disease_iri(row[0]), term_iri(row[3]), row[2]
        if qualifier == "NOT":
            findings.left_out[NEGATED] += 1
            return
        names.give(disease, row[1].strip() or row[0], (row[0],), findings)
        if row[3] in ROOTS:
            findings.left_out[OF_ROOT] += 1
        elif row[3] in INHERITANCE_TERMS or row[10] == "I":
            names.relate(disease, INHERITANCE, term, findings)
        elif row[3] in ONSET_TERMS:
            names.relate(disease, ONSET, term, findings)
        else:
            findings.add(disease, TYPE, term)

    yield from _read(source, progress, 12, take)


def read_genes_to_phenotype(source: Source, options: ReadOptions, progress: Callable[[int], None]) -> Iterator[Piece]:
    """Genes: their phenotypes as typings, their diseases as assertions."""
    del options
    names = _Names()
    known: set[tuple[str, str]] = set()

    def take(row: list[str], findings: _Findings) -> None:
        gene, term, disease = symbol_iri(row[1]), term_iri(row[2]), disease_iri(row[5])
        names.give(gene, row[1].strip(), (f"NCBIGene:{row[0]}",), findings)
        if (gene, disease) not in known:  # a row for each phenotype repeats it
            known.add((gene, disease))
            names.relate(gene, CONDITION, disease, findings)
        if row[2] in ROOTS:
            findings.left_out[OF_ROOT] += 1
        elif row[2] in INHERITANCE_TERMS or row[2] in ONSET_TERMS:
            findings.left_out[OF_DISEASE] += 1
        else:
            findings.add(gene, TYPE, term)

    yield from _read(source, progress, 6, take)
