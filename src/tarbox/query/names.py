"""How a query names things, and who says what a name stands for.

The surfaces (Manchester, SPARQL) know the forms of names only; a `Resolver` turns a form into a term. `FULL_IRIS`
needs no knowledge base; `tarbox.execution.binding` has one that knows local names, labels and synonyms.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import Enum
from typing import Final, Protocol, final

from tarbox.core.errors import UnknownName
from tarbox.core.ids import Role
from tarbox.query.algebra import PREFIXES

XSD: Final = "http://www.w3.org/2001/XMLSchema#"
OWL_THING: Final = "http://www.w3.org/2002/07/owl#Thing"
ANYTHING: Final = "https://tarbox.example/vocabulary#Anything"
"""A concept that every knowledge base has: all its entities, typed or not. SPARQL's unrestricted variables mean it."""
RDF_TYPE: Final = "http://www.w3.org/1999/02/22-rdf-syntax-ns#type"
SUBCLASS_OF: Final = "http://www.w3.org/2000/01/rdf-schema#subClassOf"

WELL_KNOWN: Final = {
    "owl": "http://www.w3.org/2002/07/owl#",
    "rdf": "http://www.w3.org/1999/02/22-rdf-syntax-ns#",
    "rdfs": "http://www.w3.org/2000/01/rdf-schema#",
    "xsd": XSD,
    "skos": "http://www.w3.org/2004/02/skos/core#",
    "foaf": "http://xmlns.com/foaf/0.1/",
    "dcterms": "http://purl.org/dc/terms/",
    "schema": "http://schema.org/",
    "obo": "http://purl.obolibrary.org/obo/",
    "dbr": "http://dbpedia.org/resource/",
    "dbo": "http://dbpedia.org/ontology/",
    "dbp": "http://dbpedia.org/property/",
    "yago": "http://yago-knowledge.org/resource/",
    "wd": "http://www.wikidata.org/entity/",
    "wdt": "http://www.wikidata.org/prop/direct/",
}
"""Prefixes that need no declaration."""

_ESCAPES = {'"': '\\"', "\\": "\\\\", "\n": "\\n", "\r": "\\r"}
_UNESCAPES = {"n": "\n", "r": "\r", "t": "\t", "b": "\b", "f": "\f"}
_ESCAPE = re.compile(r"\\(u[0-9A-Fa-f]{4}|U[0-9A-Fa-f]{8}|.)", re.DOTALL)


class NameForm(Enum):
    """How a name is written: a full IRI, a CURIE or a local name, a quoted label, and so on."""

    IRI = "iri"
    WORD = "word"
    LABEL = "label"
    LITERAL = "literal"
    PLACEHOLDER = "placeholder"


@final
@dataclass(frozen=True, slots=True)
class Name:
    """A name as a query writes it, without its quotation marks: `text` of a literal is its N-Triples form."""

    form: NameForm
    text: str


class Resolver(Protocol):
    """Finds the term that a name stands for."""

    def resolve(self, role: Role, name: Name) -> str:
        """The one term of this role with this name.

        Raises `UnknownName` or `AmbiguousName`, with the candidates.
        """
        ...


@final
@dataclass(frozen=True, slots=True)
class FullIris:
    """Names that need no knowledge base: full IRIs, literals, blank nodes, and CURIEs of the given prefixes."""

    prefixes: tuple[tuple[str, str], ...] = tuple(WELL_KNOWN.items())

    def resolve(self, role: Role, name: Name) -> str:
        match name.form:
            case NameForm.IRI | NameForm.LITERAL:
                return name.text
            case NameForm.WORD if name.text.startswith("_:"):
                return name.text
            case NameForm.WORD:
                expanded = expand(name.text, dict(self.prefixes))
                if expanded is not None:
                    return expanded
        advice = f"write the {role.value} as a full IRI in angle brackets, <http://...>"
        if name.form is NameForm.PLACEHOLDER:
            advice = "placeholders stand in templates only"
        raise UnknownName(f"cannot tell what {name.text!r} means without a knowledge base: {advice}")


@final
@dataclass(frozen=True, slots=True)
class Placeholders:
    """The names of a template: `?e1`, `?c1`, `?r1` and so on, by role."""

    def resolve(self, role: Role, name: Name) -> str:
        prefix = PREFIXES[role]
        if name.form is not NameForm.PLACEHOLDER:
            raise UnknownName(f"a template names nothing: write a placeholder such as {prefix}1 for {name.text!r}")
        if not name.text.startswith(prefix):
            raise UnknownName(f"{name.text} cannot stand for {role.with_article} here: write {prefix}1, {prefix}2, ...")
        return name.text


FULL_IRIS: Final = FullIris()


def expand(curie: str, prefixes: dict[str, str]) -> str | None:
    """The IRI of a CURIE; none where `curie` has no prefix that is known."""
    prefix, colon, local = curie.partition(":")
    return prefixes[prefix] + local if colon and prefix in prefixes else None


def literal_term(quoted: str, suffix: str = "") -> str:
    """A literal's one N-Triples form, however its inside was escaped; `suffix` is ``@tag`` or ``^^<datatype>``."""
    shown = quote(unescape(quoted[1:-1]))
    return shown if suffix == f"^^<{XSD}string>" else shown + suffix


def quote(value: str) -> str:
    """A string between quotation marks, escaped as N-Triples needs it."""
    return '"' + re.sub(r'["\\\n\r]', lambda found: _ESCAPES[found.group()], value) + '"'


def unescape(text: str) -> str:
    """`text` with its backslash escapes resolved; an unknown escape stands for its character."""
    return _ESCAPE.sub(_unescape, text) if "\\" in text else text


def _unescape(found: re.Match[str]) -> str:
    code = found.group(1)
    if len(code) == 1:
        return _UNESCAPES.get(code, code)
    point = int(code[1:], 16)
    return chr(point) if point <= 0x10FFFF else "\ufffd"
