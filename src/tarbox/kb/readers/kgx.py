"""KGX, in which Biolink graphs are exchanged: files of nodes and of edges, as TSV or as JSON lines.

A node's categories are its concepts, an edge's predicate is a relation. `biolink:OntologyClass` says that a node is
itself a concept, `biolink:RelationshipType` a relation, `biolink:NamedThing` nothing; `biolink:subclass_of` is
subsumption. What else an edge says is attributes of its fact. CURIEs are expanded by `KGX_PREFIXES`; an id of another
prefix becomes an IRI as in tables.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import lru_cache, partial
from typing import Any, Final
from urllib.parse import quote

from tarbox.kb.namespaces import LABEL, OBO, OWL, RDF, RDFS, SKOS, SUBCLASS, TYPE
from tarbox.kb.readers.biology import BIOLINK, DISEASES
from tarbox.kb.readers.tables import split_rows
from tarbox.kb.sources import Source, chunks
from tarbox.kb.statements import NOTHING, Findings, Piece, ReadOptions
from tarbox.kb.terms import literal, mint, valid_iri

_OBO_PREFIXES: Final = (
    "BFO BTO CHEBI CL CLO DDANAT DOID ECO ECTO ENVO FBbt FBcv FOODON FYPO GENO GO HP IAO MA MAXO MI MP NBO "
    "NCBITaxon NCIT OBI OGMS PATO PR RO SO UBERON UO UPHENO VT WBbt WBPhenotype XAO ZFA ZP"
)
_IDENTIFIERS: Final = {  # at identifiers.org
    "ClinVarVariant": "clinvar", "ENSEMBL": "ensembl", "FB": "fb", "HGNC": "hgnc", "HGNC.SYMBOL": "hgnc.symbol",
    "MESH": "mesh", "MGI": "mgi", "NCBIGene": "ncbigene", "PMID": "pubmed", "REACT": "reactome",
    "RGD": "rgd", "SGD": "sgd", "UMLS": "umls", "UniProtKB": "uniprot", "WB": "wb", "ZFIN": "zfin",
    "CHEMBL.COMPOUND": "chembl.compound", "CHEMBL.TARGET": "chembl.target", "DRUGBANK": "drugbank",
    "KEGG": "kegg", "PUBCHEM.COMPOUND": "pubchem.compound",
}  # fmt: skip
KGX_PREFIXES: Final[Mapping[str, str]] = {
    "biolink": BIOLINK,
    "rdf": RDF,
    "rdfs": RDFS,
    "owl": OWL,
    "skos": SKOS,
    "Orphanet": DISEASES["ORPHA"],
    **DISEASES,
    **{prefix: f"{OBO}{prefix}_" for prefix in _OBO_PREFIXES.split()},
    **{prefix: f"http://identifiers.org/{space}/" for prefix, space in _IDENTIFIERS.items()},
}
ONTOLOGY_CLASS: Final = BIOLINK + "OntologyClass"
NAMED_THING: Final = BIOLINK + "NamedThing"
KGX_SUBCLASS: Final = BIOLINK + "subclass_of"
RELATIONSHIP_TYPE: Final = BIOLINK + "RelationshipType"
_DECLARED: Final = {
    ONTOLOGY_CLASS: OWL + "Class",
    RELATIONSHIP_TYPE: OWL + "ObjectProperty",
    NAMED_THING: OWL + "NamedIndividual",
}
KGX_ATTRIBUTES: Final = {"publications": "reference", "has_evidence": "evidence", "frequency_qualifier": "frequency"}
"""Properties of edges, and what attributes of facts are called elsewhere."""
_SYNONYMS: Final = ("synonym", "exact_synonym", "related_synonym", "broad_synonym", "narrow_synonym", "symbol", "xref")
_NODE: Final = {"id", "category", "name", *_SYNONYMS}
_EDGE: Final = {"id", "subject", "predicate", "object", "category", "relation", "negated"}

NEGATED_EDGE: Final = "negated edge"
NODE_PROPERTY: Final = "property of a node"

Properties = Mapping[str, Sequence[str]]
"""The values of a record by their names."""


def expand_curie(text: str, base: str) -> str:
    """The IRI of an identifier."""
    prefix, _, local = text.partition(":")
    if prefix in KGX_PREFIXES and local:
        iri = KGX_PREFIXES[prefix] + local
        return iri if valid_iri(iri) else KGX_PREFIXES[prefix] + quote(local, safe="")
    return text if text.startswith(("http://", "https://", "urn:")) and valid_iri(text) else mint(text, base)


@lru_cache(1 << 16)
def contract_iri(iri: str) -> str:
    """The CURIE of an IRI, where a prefix fits and leads back to it; else the IRI."""
    spaces = [(len(space), prefix) for prefix, space in KGX_PREFIXES.items() if iri.startswith(space)]
    curie = f"{max(spaces)[1]}:{iri[max(spaces)[0] :]}" if spaces else iri
    return curie if expand_curie(curie, "") == iri else iri


def read_kgx(source: Source, options: ReadOptions, progress: Callable[[int], None]) -> Iterator[Piece]:
    lines = source.format == "kgx-jsonl"
    header: list[str] | None = None
    expand = lru_cache(1 << 16)(partial(expand_curie, base=options.table_base))
    with source.open() as stream:
        for first_line, block in chunks(stream):
            rows, rejected = split_rows(block, first_line, "\n" if lines else "\t", quoted=False)
            if not lines and header is None and rows:
                header = [cell.strip() for cell in rows.pop(0)[1]]
            findings = Findings(rejected=rejected)
            for number, cells in rows:
                try:
                    _take(_parse(cells[0]) if header is None else _split(cells, header), expand, findings)
                except _BadRecord as bad:
                    rejected.append((number, str(bad)))
            progress(stream.position())
            yield findings.piece()
        if stream.failure:
            yield Piece(NOTHING, [(stream.lines + 1, stream.failure)])


class _BadRecord(Exception):
    """Why a record is rejected."""


def _split(cells: list[str], header: list[str]) -> Properties:
    if len(cells) != len(header):
        raise _BadRecord(f"{len(cells)} columns where the header has {len(header)}")
    return {name: [part for part in cell.split("|") if part.strip()] for name, cell in zip(header, cells, strict=True)}


def _parse(line: str) -> Properties:
    try:
        record = json.loads(line)
    except ValueError as error:
        raise _BadRecord(f"not JSON: {error}") from None
    if not isinstance(record, dict):
        raise _BadRecord("not a JSON object")
    many = {name: value if isinstance(value, list) else [value] for name, value in record.items()}
    return {name: [_text(value) for value in values if value not in (None, "")] for name, values in many.items()}


def _text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _take(record: Properties, expand: Callable[[str], str], findings: Findings) -> None:
    wanted = ("subject", "predicate", "object") if "predicate" in record else ("id",)
    missing = [name for name in wanted if len(record.get(name, ())) != 1]
    if missing:
        raise _BadRecord(f"{len(record.get(missing[0], ())) or 'no'} values of {missing[0]} where one is needed")
    (_take_edge if len(wanted) == 3 else _take_node)(record, expand, findings)


def _take_node(record: Properties, expand: Callable[[str], str], findings: Findings) -> None:
    node = expand(record["id"][0])
    for category in map(expand, record.get("category", ())):
        findings.add(node, TYPE, _DECLARED.get(category, category))
    for name in record.get("name", ()):
        findings.add(node, LABEL, literal(name))
    for text in dict.fromkeys(value for name in _SYNONYMS for value in record.get(name, ())):
        findings.add(node, SKOS + "altLabel", literal(text))
    findings.left_out[NODE_PROPERTY] += sum(bool(values) for name, values in record.items() if name not in _NODE)


def _take_edge(record: Properties, expand: Callable[[str], str], findings: Findings) -> None:
    if record.get("negated", ["false"])[:1] in (["true"], ["True"]):
        findings.left_out[NEGATED_EDGE] += 1
        return
    subject, predicate, object = (expand(record[name][0]) for name in ("subject", "predicate", "object"))
    own = ((KGX_ATTRIBUTES.get(n, n), value) for n, values in record.items() if n not in _EDGE for value in values)
    findings.add(subject, SUBCLASS if predicate == KGX_SUBCLASS else predicate, object, own)
