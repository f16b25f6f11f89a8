"""The words of biology's annotation files: relations, qualifiers, frequencies, and the IRIs that ids stand for."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final, final
from urllib.parse import quote

from tarbox.kb.namespaces import ANNOTATION_RELATION, OBO, OWL
from tarbox.kb.terms import URN

SYMBOL: Final = "http://identifiers.org/hgnc.symbol/"
BIOLINK: Final = "https://w3id.org/biolink/vocab/"
KIND_IRIS: Final = {
    "Gene": BIOLINK + "Gene",
    "Disease": BIOLINK + "Disease",
    "Phenotype": BIOLINK + "PhenotypicFeature",
}
PHENOTYPE_ROOT: Final = OBO + "HP_0000118"
DISEASE_ROOT: Final = OBO + "MONDO_0000001"


@final
@dataclass(frozen=True, slots=True)
class FileRelation:
    """A relation of the annotation files: its IRI, its label, and what it is declared to be."""

    iri: str
    label: str
    declared: str

    @property
    def symmetric(self) -> bool:
        return self.declared == SYMMETRIC


SYMMETRIC: Final = OWL + "SymmetricProperty"
CONDITION: Final = FileRelation(
    BIOLINK + "gene_associated_with_condition", "is associated with condition", OWL + "ObjectProperty"
)
_INTERACTIONS: Final = {
    codes: FileRelation(BIOLINK + name, name.replace("_", " "), SYMMETRIC)
    for codes, name in {
        ("IPI",): "physically_interacts_with",
        ("IGI",): "genetically_interacts_with",
        ("ISS", "ISA"): "similar_to",
        ("ISO",): "orthologous_to",
    }.items()
}
PARTNERS: Final = {code: relation for codes, relation in _INTERACTIONS.items() for code in codes}
"""What an evidence code says of the gene and of those in the with/from column."""


def _describing(iri: str, label: str) -> FileRelation:
    return FileRelation(iri, label, ANNOTATION_RELATION)


HAS_PHENOTYPE: Final = _describing(OBO + "RO_0002200", "has phenotype")
INHERITANCE: Final = _describing(BIOLINK + "has_mode_of_inheritance", "has mode of inheritance")
ONSET: Final = _describing(URN + "has_onset", "has onset")  # Biolink has no such relation
INVOLVED_IN: Final = _describing(OBO + "RO_0002331", "involved in")
ENABLES: Final = _describing(OBO + "RO_0002327", "enables")
LOCATED_IN: Final = _describing(OBO + "RO_0001025", "located in")
PART_OF: Final = _describing(OBO + "BFO_0000050", "part of")
UPSTREAM: Final = _describing(OBO + "RO_0002264", "acts upstream of or within")
BY_ASPECT: Final = {"P": INVOLVED_IN, "F": ENABLES, "C": LOCATED_IN}
QUALIFIERS: Final = {
    "involved_in": INVOLVED_IN,
    "enables": ENABLES,
    "located_in": LOCATED_IN,
    "is_active_in": LOCATED_IN,
    "part_of": PART_OF,
    "contributes_to": _describing(OBO + "RO_0002326", "contributes to"),
    "colocalizes_with": _describing(OBO + "RO_0002325", "colocalizes with"),
    **{
        f"acts_upstream_of{within}{effect}": UPSTREAM
        for within in ("", "_or_within")
        for effect in ("", "_positive_effect", "_negative_effect")
    },
}
"""GAF's qualifiers; of those that share a relation, the more particular ones are kept as an attribute."""

DISEASES: Final = {
    "OMIM": "http://identifiers.org/omim/",
    "ORPHA": "http://www.orpha.net/ORDO/Orphanet_",
    "DECIPHER": "https://www.deciphergenomics.org/syndrome/",
    "MONDO": OBO + "MONDO_",
}
ROOTS: Final = frozenset({"GO:0003674", "GO:0005575", "GO:0008150", "HP:0000001", "HP:0000118"})
FREQUENCIES: Final = {
    "HP:0040280": "obligate (100%)",
    "HP:0040281": "very frequent (80-99%)",
    "HP:0040282": "frequent (30-79%)",
    "HP:0040283": "occasional (5-29%)",
    "HP:0040284": "very rare (1-4%)",
}
NEVER_SEEN: Final = re.compile(r"HP:0040285|0/\d+|0(?:\.0*)?%")
_TERM = re.compile(r"(?:GO|HP):\d{7}")


class BadRow(Exception):
    """Why a row is rejected."""


def term_iri(id: str) -> str:
    """The IRI of a GO or HPO term, as OBO's rules have it."""
    if not _TERM.fullmatch(id):
        raise BadRow(f"not the id of a GO or HPO term: '{id}'")
    return OBO + id.replace(":", "_")


def symbol_iri(symbol: str) -> str:
    """The IRI of a human gene."""
    return SYMBOL + quote(symbol, safe="")


def disease_iri(id: str) -> str:
    database, _, number = id.partition(":")
    if database not in DISEASES or not number:
        raise BadRow(f"not the id of a disease: '{id}'. Known databases: {', '.join(DISEASES)}")
    return DISEASES[database] + quote(number, safe="")


def foreign_iri(database: str, id: str) -> str:
    """The IRI of a gene of another species: symbols are unique within one species only."""
    if not id.strip():
        raise BadRow("empty id of a gene")
    return f"http://identifiers.org/{quote(database.lower())}/{quote(id)}"
