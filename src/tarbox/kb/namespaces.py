"""The names that RDF, OWL and OBO give a meaning, as data: one line each (ADR 3).

`MEANINGS` says what a statement with such a predicate is; a predicate that is not here is a relation, unless it is
declared an annotation property. `METACLASSES` says what `rdf:type` such a class declares; any other class is a
concept. `BUILT_IN` namespaces hold the languages' own words: what is in neither table there is left out as schema.
"""

from __future__ import annotations

from enum import Enum
from typing import Final

RDF: Final = "http://www.w3.org/1999/02/22-rdf-syntax-ns#"
RDFS: Final = "http://www.w3.org/2000/01/rdf-schema#"
OWL: Final = "http://www.w3.org/2002/07/owl#"
XML_SCHEMA: Final = "http://www.w3.org/2001/XMLSchema#"
SKOS: Final = "http://www.w3.org/2004/02/skos/core#"
OIO: Final = "http://www.geneontology.org/formats/oboInOwl#"
OBO: Final = "http://purl.obolibrary.org/obo/"

TYPE: Final = RDF + "type"
SUBCLASS: Final = RDFS + "subClassOf"
LABEL: Final = RDFS + "label"
ANNOTATION_RELATION: Final = "urn:x-tarbox:AnnotationRelation"  # ADR 39; as an export declares it
BUILT_IN: Final = (RDF, RDFS, OWL, OIO, "http://www.w3.org/ns/shacl#", "http://www.w3.org/2003/11/swrl")


class Meaning(Enum):
    """What a statement says, by its predicate."""

    TYPE = "type"
    SUBCLASS = "subclass"
    EQUIVALENT = "equivalent"
    LABEL = "label"
    SYNONYM = "synonym"
    DEPRECATED = "deprecated"
    IMPORT = "import"
    INVERSE = "inverse"
    SUBPROPERTY = "subproperty"
    SAME = "same"
    ANNOTATION = "annotation"
    SCHEMA = "schema"
    RELATION = "relation"


class Declaration(Enum):
    """What `rdf:type` one of the languages' own classes declares."""

    CONCEPT = "concept"
    ENTITY = "entity"
    RELATION = "relation"
    ANNOTATION_RELATION = "annotation relation"
    DATA_PROPERTY = "data property"
    ANNOTATION_PROPERTY = "annotation property"
    ONTOLOGY = "ontology"
    DEPRECATED = "deprecated"
    OTHER = "other"


MEANINGS: Final[dict[str, Meaning]] = {
    TYPE: Meaning.TYPE,
    SUBCLASS: Meaning.SUBCLASS,
    OWL + "equivalentClass": Meaning.EQUIVALENT,
    LABEL: Meaning.LABEL,
    SKOS + "prefLabel": Meaning.LABEL,
    SKOS + "altLabel": Meaning.SYNONYM,
    OIO + "hasExactSynonym": Meaning.SYNONYM,
    OIO + "hasRelatedSynonym": Meaning.SYNONYM,
    OIO + "hasNarrowSynonym": Meaning.SYNONYM,
    OIO + "hasBroadSynonym": Meaning.SYNONYM,
    OIO + "hasAlternativeId": Meaning.SYNONYM,
    OBO + "IAO_0000118": Meaning.SYNONYM,  # alternative label
    OWL + "deprecated": Meaning.DEPRECATED,
    OWL + "imports": Meaning.IMPORT,
    OWL + "inverseOf": Meaning.INVERSE,
    RDFS + "subPropertyOf": Meaning.SUBPROPERTY,
    OWL + "equivalentProperty": Meaning.SUBPROPERTY,
    OWL + "sameAs": Meaning.SAME,
    RDFS + "comment": Meaning.ANNOTATION,
    RDFS + "seeAlso": Meaning.ANNOTATION,
    RDFS + "isDefinedBy": Meaning.ANNOTATION,
    OWL + "versionInfo": Meaning.ANNOTATION,
    SKOS + "definition": Meaning.ANNOTATION,
    SKOS + "note": Meaning.ANNOTATION,
    SKOS + "example": Meaning.ANNOTATION,
    SKOS + "editorialNote": Meaning.ANNOTATION,
    SKOS + "changeNote": Meaning.ANNOTATION,
    SKOS + "historyNote": Meaning.ANNOTATION,
    SKOS + "scopeNote": Meaning.ANNOTATION,
    OBO + "IAO_0000115": Meaning.ANNOTATION,  # definition
    OBO + "IAO_0100001": Meaning.ANNOTATION,  # term replaced by
    OBO + "IAO_0000231": Meaning.ANNOTATION,  # has obsolescence reason
}
LABEL_ORDER: Final = (LABEL, SKOS + "prefLabel")

METACLASSES: Final[dict[str, Declaration]] = {
    OWL + "Class": Declaration.CONCEPT,
    RDFS + "Class": Declaration.CONCEPT,
    OWL + "NamedIndividual": Declaration.ENTITY,
    OWL + "ObjectProperty": Declaration.RELATION,
    OWL + "TransitiveProperty": Declaration.RELATION,
    OWL + "SymmetricProperty": Declaration.RELATION,
    OWL + "AsymmetricProperty": Declaration.RELATION,
    OWL + "ReflexiveProperty": Declaration.RELATION,
    OWL + "IrreflexiveProperty": Declaration.RELATION,
    OWL + "InverseFunctionalProperty": Declaration.RELATION,
    ANNOTATION_RELATION: Declaration.ANNOTATION_RELATION,
    OWL + "DatatypeProperty": Declaration.DATA_PROPERTY,
    OWL + "AnnotationProperty": Declaration.ANNOTATION_PROPERTY,
    OWL + "OntologyProperty": Declaration.ANNOTATION_PROPERTY,
    OWL + "Ontology": Declaration.ONTOLOGY,
    OWL + "DeprecatedClass": Declaration.DEPRECATED,
    OWL + "DeprecatedProperty": Declaration.DEPRECATED,
}
DECLARING: Final = {  # what says nothing but that a name is there
    type: METACLASSES[type] for type in (OWL + "Class", RDFS + "Class", OWL + "NamedIndividual", OWL + "ObjectProperty")
}
DATA_DECLARATIONS: Final = {"data property": OWL + "DatatypeProperty", "datatype": RDFS + "Datatype"}
TOP: Final = OWL + "Thing"  # an ordinary concept where the data use it as one


def meaning_of(predicate: str) -> Meaning:
    """What statements with this predicate say, before any declaration is known."""
    known = MEANINGS.get(predicate)
    if known is not None:
        return known
    return Meaning.SCHEMA if predicate.startswith(BUILT_IN) else Meaning.RELATION


def declaration_of(type: str) -> Declaration | None:
    """What `rdf:type` this class declares; None for a concept."""
    known = METACLASSES.get(type)
    if known is not None or type == TOP:
        return known
    return Declaration.OTHER if type.startswith(BUILT_IN) else None
