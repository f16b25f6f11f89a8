"""Annotation tables of biology: GAF (genes to GO terms), and the HPO's phenotype.hpoa, genes_to_phenotype.txt and
genes_to_disease.txt; with them HGNC's table of genes.

A term describes a gene or a disease by an annotation relation (ADR 39): KCNA1 has the phenotype Seizure. Human genes
are named by their current symbol (`tarbox.kb.readers.identities`), GO and HPO terms by the IRIs that the OBO reader
gives them. Evidence codes, references and frequencies are attributes of their assertions (ADR 40).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final, final

from tarbox.kb.namespaces import LABEL, OWL, SKOS, SUBCLASS, TYPE
from tarbox.kb.readers import biology
from tarbox.kb.readers.biology import BadRow, FileRelation, disease_iri, foreign_iri, symbol_iri, term_iri
from tarbox.kb.readers.identities import HUMAN, Identities, gene_rows
from tarbox.kb.sources import Source, chunks
from tarbox.kb.statements import NOTHING, Findings, Piece, ReadOptions, in_blocks
from tarbox.kb.terms import literal

SYNONYM: Final = SKOS + "altLabel"
_NONE: Final = ("", "-")
_ACCESSION: Final = re.compile(r"UniProtKB:[A-Z0-9]+")

NEGATED: Final = "annotation with NOT"
NEVER: Final = "phenotype with a frequency of zero"
OF_ROOT: Final = "annotation to a root term"
OF_DISEASE: Final = "inheritance or onset in the row of a gene (its disease has it)"
ELSEWHERE: Final = "related to something that is no gene of the file"
ITSELF: Final = "gene related to itself"

RowAttributes = Sequence[tuple[str, str]]
"""(name, value) of what an assertion's row says beside it."""


@final
@dataclass(slots=True)
class _Names:
    """What the rows of one file name: labels, synonyms, kinds and declarations are given once."""

    identities: Identities
    known: set[str] = field(default_factory=set)

    def gene(self, id: str, symbol: str, synonyms: Iterable[str], findings: Findings) -> str:
        """A human gene by its identifier and its symbol in this file."""
        symbol = symbol.strip()
        if symbol in _NONE:
            raise BadRow(f"no gene symbol for {id}")
        current = self.identities.symbols.get(id, symbol)
        iri = symbol_iri(current)
        if id not in self.known:
            self.known.add(id)
            self.give(iri, current, (symbol, *synonyms, id), "Gene", findings)
        return iri

    def disease(self, id: str, name: str, findings: Findings) -> str:
        """A disease; one that MONDO knows is MONDO's, whatever the database whose id the file has."""
        iri, term = disease_iri(id), self.identities.diseases.get(id)
        if term is None:
            self.give(iri, name or None, (id,), "Disease", findings)
            return iri
        if "MONDO" not in self.known:
            self.known.add("MONDO")
            findings.add(biology.DISEASE_ROOT, SUBCLASS, biology.KIND_IRIS["Disease"])
        self.give(disease_iri(term), None, (name, id, term), "Disease", findings)
        return disease_iri(term)

    def give(self, iri: str, label: str | None, synonyms: Iterable[str], kind: str | None, findings: Findings) -> None:
        if label is not None and iri not in self.known:
            findings.add(iri, LABEL, literal(label))
        if kind is not None and iri not in self.known:
            findings.add(iri, TYPE, biology.KIND_IRIS[kind])
            self.give(biology.KIND_IRIS[kind], kind, (), None, findings)
        self.known.add(iri)
        for synonym in synonyms:
            if synonym not in ("", label) and (key := f"{iri}\t{synonym}") not in self.known:
                self.known.add(key)
                findings.add(iri, SYNONYM, literal(synonym))

    def relate(
        self, subject: str, relation: FileRelation, object: str, findings: Findings, said: RowAttributes = ()
    ) -> None:
        """An assertion, both ways where the relation is symmetric; at its first use the relation is introduced."""
        if relation.iri not in self.known:
            self.give(relation.iri, relation.label, (), None, findings)
            findings.add(relation.iri, TYPE, OWL + "ObjectProperty")
            findings.add(relation.iri, TYPE, relation.declared)
            if relation is biology.HAS_PHENOTYPE:
                findings.add(biology.PHENOTYPE_ROOT, SUBCLASS, biology.KIND_IRIS["Phenotype"])
                self.give(biology.KIND_IRIS["Phenotype"], "Phenotype", (), None, findings)
        findings.add(subject, relation.iri, object, said)
        if relation.symmetric:
            findings.add(object, relation.iri, subject, said)


def _read(
    source: Source, progress: Callable[[int], None], width: int, take: Callable[[list[str], Findings], None]
) -> Iterator[Piece]:
    """Hand each row of at least `width` cells to `take`; comments and headers are passed over."""
    with source.open() as stream:
        for first_line, block in chunks(stream):
            findings = Findings()
            for number, raw in enumerate(block.split(b"\n"), first_line):
                if not raw.strip() or raw.startswith((b"!", b"#", b"database_id\t", b"ncbi_gene_id\t")):
                    continue
                try:
                    take(_cells(raw, width), findings)
                except BadRow as error:
                    findings.rejected.append((number, str(error)))
            progress(stream.position())
            yield findings.piece()
        if stream.failure:
            yield Piece(NOTHING, [(stream.lines + 1, stream.failure)])


def _cells(raw: bytes, width: int) -> list[str]:
    if b"\x00" in raw:
        raise BadRow("NUL byte")
    try:
        cells = raw.decode().rstrip("\r").split("\t")
    except UnicodeDecodeError as error:
        raise BadRow(f"invalid UTF-8: {error.reason} at byte {error.start + 1}") from None
    if len(cells) < width:
        raise BadRow(f"{len(cells)} columns where the format has {width}")
    return cells


def _given(name: str, values: str, separator: str = "|") -> RowAttributes:
    return [(name, value.strip()) for value in values.split(separator) if value.strip() not in _NONE]


def read_gaf(source: Source, options: ReadOptions, progress: Callable[[int], None]) -> Iterator[Piece]:
    """Annotations as the file goes by; relations between genes at its end, when all genes are known."""
    annotations = _Annotations(_Names(Identities.of(options)))
    yield Piece(NOTHING, notes=annotations.names.identities.notes)
    yield from _read(source, progress, 15, annotations.take)
    yield annotations.relations()


@final
@dataclass(slots=True)
class _Annotations:
    """The state of reading a GAF: genes by accession, and who is related to which accession."""

    names: _Names
    genes: dict[str, str] = field(default_factory=dict)
    related: list[tuple[str, FileRelation, str, RowAttributes]] = field(default_factory=list)

    def take(self, row: list[str], findings: Findings) -> None:
        database, id, symbol, qualifier, term, references, evidence, partners, aspect, name, synonyms = row[:11]
        iri, marks, key = term_iri(term), qualifier.split("|"), f"{database}:{id}"
        called = (name, *synonyms.split("|"))
        if row[12].startswith(HUMAN):
            gene = self.names.gene(key, symbol, called, findings)
        else:
            gene = foreign_iri(database, id)
            self.names.give(gene, symbol.strip() or key, (*called, key), "Gene", findings)
        self.genes[key] = gene
        if "NOT" in marks:
            findings.left_out[NEGATED] += 1
            return
        relation = biology.QUALIFIERS.get(marks[0]) if marks[0] else biology.BY_ASPECT.get(aspect)
        if relation is None:
            raise BadRow(f"neither a qualifier nor an aspect of GAF: '{marks[0] or aspect}'")
        said = [*_given("evidence", evidence), *_given("reference", references)]
        if term in biology.ROOTS:
            findings.left_out[OF_ROOT] += 1
        else:
            kept = [("qualifier", marks[0])] if marks[0] and marks[0] != relation.label.replace(" ", "_") else []
            self.names.relate(gene, relation, iri, findings, [*said, *kept])
        partner_of = biology.PARTNERS.get(evidence)
        if partner_of and partners:
            self.related += ((gene, partner_of, partner, said) for partner in re.split("[|,]", partners))

    def relations(self) -> Piece:
        """The with/from column, resolved: isoforms and processed chains stand for their gene."""
        findings = Findings()
        for gene, relation, partner, said in self.related:
            accession = _ACCESSION.match(partner)
            other = self.genes.get(accession.group() if accession else partner)
            if other is None:
                findings.left_out[ELSEWHERE] += 1
            elif other == gene:
                findings.left_out[ITSELF] += 1
            else:
                self.names.relate(gene, relation, other, findings, said)
        return findings.piece()


def _frequency(text: str) -> RowAttributes:
    return _given("frequency", biology.FREQUENCIES.get(text, text), "\t")


def read_hpoa(source: Source, options: ReadOptions, progress: Callable[[int], None]) -> Iterator[Piece]:
    """Diseases: their phenotypes, their inheritance and their onset."""
    identities = Identities.of(options)
    names = _Names(identities)

    def take(row: list[str], findings: Findings) -> None:
        id, name, qualifier, term, references, evidence, _, frequency, *_ = row
        object = term_iri(term)
        disease = names.disease(id, name.strip() or id, findings)
        if qualifier == "NOT" or biology.NEVER_SEEN.fullmatch(frequency) or term in biology.ROOTS:
            findings.left_out[NEGATED if qualifier == "NOT" else OF_ROOT if term in biology.ROOTS else NEVER] += 1
            return
        inherited = term in identities.inheritance or row[10] == "I"
        relation = (
            biology.INHERITANCE if inherited else biology.ONSET if term in identities.onset else biology.HAS_PHENOTYPE
        )
        said = [*_given("evidence", evidence), *_given("reference", references, ";"), *_frequency(frequency)]
        names.relate(disease, relation, object, findings, said)

    yield from _read(source, progress, 12, take)


def read_genes_to_phenotype(source: Source, options: ReadOptions, progress: Callable[[int], None]) -> Iterator[Piece]:
    """Genes: their phenotypes, each with the disease that has it, and these diseases."""
    identities = Identities.of(options)
    names = _Names(identities)
    known: set[tuple[str, str]] = set()

    def take(row: list[str], findings: Findings) -> None:
        number, symbol, term, _, frequency, disease = row[:6]
        object, key = term_iri(term), disease_iri(disease)
        gene = names.gene(f"NCBIGene:{number.removeprefix('NCBIGene:')}", symbol, (), findings)
        if (gene, key) not in known:  # a row for each phenotype repeats it
            known.add((gene, key))
            names.relate(gene, biology.CONDITION, names.disease(disease, "", findings), findings)
        if term in biology.ROOTS:
            findings.left_out[OF_ROOT] += 1
        elif term in identities.inheritance or term in identities.onset:
            findings.left_out[OF_DISEASE] += 1
        elif biology.NEVER_SEEN.fullmatch(frequency):
            findings.left_out[NEVER] += 1
        else:
            names.relate(gene, biology.HAS_PHENOTYPE, object, findings, [("disease", disease), *_frequency(frequency)])

    yield from _read(source, progress, 6, take)


def read_genes_to_disease(source: Source, options: ReadOptions, progress: Callable[[int], None]) -> Iterator[Piece]:
    """Genes and the diseases that they are associated with, and how."""
    names = _Names(Identities.of(options))

    def take(row: list[str], findings: Findings) -> None:
        number, symbol, association, disease, origin = row[:5]
        object = names.disease(disease, "", findings)
        gene = names.gene(f"NCBIGene:{number.removeprefix('NCBIGene:')}", symbol, (), findings)
        said = [*_given("association", association.lower()), *_given("reference", origin, "\t")]
        names.relate(gene, biology.CONDITION, object, findings, said)

    yield from _read(source, progress, 5, take)


def read_gene_table(source: Source, options: ReadOptions, progress: Callable[[int], None]) -> Iterator[Piece]:
    """What genes are called: former symbols, aliases and identifiers. Which genes there are, other files say."""
    del options
    statements = (
        (symbol_iri(row.symbol), SYNONYM if name != row.symbol else LABEL, literal(name))
        for row in gene_rows(source)
        for name in (row.symbol, *row.former, *row.aliases, *row.ids)
    )
    for block in in_blocks(statements):
        yield Piece(block)
    progress(source.path.stat().st_size)
