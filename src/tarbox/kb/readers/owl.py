"""OWL in functional, XML and Manchester syntax, and OBO, by py-horned-owl; fastobo finds the bad lines of OBO.

Both libraries load a file whole. They are native code that may panic; `isolated` turns a panic into an error of ours
and keeps its stack trace off the user's terminal.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any, Final

from tarbox.core.errors import SourceError
from tarbox.kb.axioms import Axiom, axiom_names
from tarbox.kb.namespaces import DATA_DECLARATIONS, OIO, OWL, RDF, RDFS, TYPE, XML_SCHEMA
from tarbox.kb.native import LibraryFailure, isolated
from tarbox.kb.owl_statements import StatementMaker
from tarbox.kb.readers.markup import BadMarkup, plain_xml
from tarbox.kb.sources import Source
from tarbox.kb.statements import NOTHING, Piece, ReadOptions, in_blocks
from tarbox.kb.terms import literal

_SERIALIZATIONS: Final = {"functional": "ofn", "owlxml": "owx", "manchester": "omn", "obo": "obo"}
_DECLARATIONS: Final = {
    "DeclareClass": OWL + "Class",
    "DeclareNamedIndividual": OWL + "NamedIndividual",
    "DeclareObjectProperty": OWL + "ObjectProperty",
    "DeclareDataProperty": OWL + "DatatypeProperty",
    "DeclareAnnotationProperty": OWL + "AnnotationProperty",
    "DeclareDatatype": RDFS + "Datatype",
}
_TITLES: Final = ("DocIRI", "OntologyID")  # one statement says which ontology it is
_OUTSIDE: Final = {
    "OntologyAnnotation": "annotation",
    "SubAnnotationPropertyOf": "annotation",
    "AnnotationPropertyDomain": "annotation",
    "AnnotationPropertyRange": "annotation",
    "Rule": "rule (SWRL)",
}
_WORDS: Final = {"InverseObjectProperty": "ObjectInverseOf"}
_FIELDS: Final = {"from": "source", "to": "target"}
_NAMES: Final = ("Class", "ObjectProperty", "DataProperty", "Datatype", "NamedIndividual", "AnonymousIndividual")
_TERMS: Final = frozenset({*_NAMES, "SimpleLiteral", "LanguageLiteral", "DatatypeLiteral", "IRI", "str", "int"})
_INVALID = re.compile(r'ValidityError\("([^"]*)", ByteSpan\((\d+)\.\.(\d+)\)\)')
_TRIMMED: Final = ("functional", "manchester")
_STANZA = re.compile(r"^\[", re.M)
_CLAUSE = re.compile(r"^(id|holds_over_chain|transitive_over):[ \t]*([^!{\n]*?)[ \t\r]*(?:[!{].*)?$", re.M)

Statement = tuple[str, str, str]


def read_owl(source: Source, options: ReadOptions, progress: Callable[[int], None]) -> Iterator[Piece]:
    del options
    with source.open() as stream:
        content = stream.readall()
        progress(stream.position())
        if stream.failure:
            yield Piece(NOTHING, [(stream.lines + 1, f"{stream.failure}; nothing of this file is read")])
            return
    try:
        text = (plain_xml(content) if source.format == "owlxml" else content).decode()
    except BadMarkup as bad:
        yield Piece(NOTHING, [(bad.line, f"{bad}; nothing of this file is read")])
        return
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        yield Piece(NOTHING, [(line, "invalid UTF-8; nothing of this file is read")])
        return
    try:
        yield from _ontology(text, source.format)
    except LibraryFailure as failure:
        if source.format != "obo":
            yield Piece(NOTHING, [(failure.line, f"{failure}; nothing of this file is read")])
            return
        kept, rejected = _sound_stanzas(text)
        if not rejected:
            rejected = [(failure.line, f"{failure}; nothing of this file is read")]
            kept = ""
        yield Piece(NOTHING, rejected)
        if kept:
            yield from _sound_ontology(kept, source)


def _sound_ontology(text: str, source: Source) -> Iterator[Piece]:
    try:
        yield from _ontology(text, source.format)
    except LibraryFailure as failure:
        raise SourceError(f"{source.name}: {failure}, even without its bad stanzas") from None


def _sound_stanzas(text: str) -> tuple[str, list[tuple[int, str]]]:
    """An OBO text without the stanzas that fastobo or py-horned-owl refuse, and where those are."""
    import fastobo

    starts = [0, *(match.start() for match in _STANZA.finditer(text))]
    stanzas = [text[a:b] for a, b in zip(starts, [*starts[1:], len(text)], strict=True)]
    header, kept, rejected = stanzas[0], [stanzas[0]], []
    line = 1 + header.count("\n")
    for stanza in stanzas[1:]:
        try:
            with isolated("py-horned-owl"):
                _load(header + stanza, "obo")
        except LibraryFailure as failure:
            at, reason = 0, str(failure)
            try:
                with isolated("fastobo"):
                    fastobo.loads(stanza)
            except LibraryFailure as better:
                at, reason = better.line - 1, str(better)
            rejected.append((line + at, f"{reason}; the stanza is not read"))
        else:
            kept.append(stanza)
        line += stanza.count("\n")
    return "".join(kept), rejected


def _load(text: str, serialization: Any) -> Any:
    import pyhornedowl

    return pyhornedowl.open_ontology_from_string(text, serialization)


def _ontology(text: str, format: str) -> Iterator[Piece]:
    try:
        with isolated("py-horned-owl"):
            ontology = _load(text, _SERIALIZATIONS[format])
    except LibraryFailure as failure:
        raise _placed(failure, text, format) from None
    with isolated("py-horned-owl"):
        parts = [one for one in ontology.get_components() if type(one.component).__name__ not in _TITLES]
        iri = str(ontology.get_iri() or "_:ontology")
    left_out: Counter[str] = Counter()

    def statements() -> Iterator[Statement]:
        maker = StatementMaker()
        kinds = set[tuple[str, str]]()
        yield iri, TYPE, OWL + "Ontology"
        for annotated in parts:
            axiom = annotated.component
            kind = type(axiom).__name__
            left_out["annotation"] += len(annotated.ann)
            if kind in _DECLARATIONS:
                yield _term(axiom.first), TYPE, _DECLARATIONS[kind]
            elif kind == "AnnotationAssertion":
                yield _term(axiom.subject), _term(axiom.ann.ap), _term(axiom.ann.av)
            elif kind == "Import":
                yield iri, OWL + "imports", _term(axiom.first)
            elif kind in _OUTSIDE:
                left_out[_OUTSIDE[kind]] += 1
            else:
                made = axiom_of(axiom)
                kinds.update(axiom_names(made))
                yield from maker.statements(made)
        for chain in _chains(text, parts) if format == "obo" else ():
            yield from maker.statements(chain)
        for kind, name in sorted(kinds):  # RDF tells data from objects by declarations alone
            if kind in DATA_DECLARATIONS:
                yield name, TYPE, DATA_DECLARATIONS[kind]

    for block in in_blocks(statements()):
        yield Piece(block)
    yield Piece(NOTHING, left_out=dict(+left_out))


def _placed(failure: LibraryFailure, text: str, format: str) -> LibraryFailure:
    """The failure with its line in the file, and the words that it gives by their place.

    In functional and Manchester syntax py-horned-owl counts from the first character that is no white space.
    """
    content = (text.lstrip() if format in _TRIMMED else text).encode()
    before = text.count("\n") - content.count(b"\n") if format in _TRIMMED else 0
    found = _INVALID.search(str(failure))
    if found is None:
        return LibraryFailure(str(failure), failure.line + before)
    first, last = int(found[2]), int(found[3])
    line = 1 + before + content.count(b"\n", 0, first)
    return LibraryFailure(f"{found[1]}: {content[first:last].decode(errors='replace')}", line)


def _chains(text: str, parts: Any) -> Iterator[Axiom]:
    """The chains of OBO's relations, which py-horned-owl passes over; it says which IRI it gave to which id."""
    said = [one.component for one in parts if type(one.component).__name__ == "AnnotationAssertion"]
    iris = {one.ann.av.literal: _term(one.subject) for one in said if _term(one.ann.ap) == OIO + "id"}
    for stanza in _STANZA.split(text)[1:]:
        found = _CLAUSE.findall(stanza) if stanza.startswith("Typedef]") else []
        ids = [value for tag, value in found if tag == "id"]
        for tag, value in found:
            chain = value.split() if tag == "holds_over_chain" else [*ids, value]
            if tag != "id" and len(chain) == 2 and all(id in iris for id in [*ids, *chain]):
                links = ("ObjectPropertyChain", *(iris[id] for id in chain))
                yield ("SubObjectPropertyOf", links, iris[ids[0]])


def axiom_of(value: Any) -> Axiom:
    """An axiom or expression of py-horned-owl as a tuple."""
    kind = type(value).__name__
    fields = [getattr(value, _FIELDS.get(name, name)) for name in type(value).__match_args__]
    match kind:
        case "SubObjectPropertyOf" if isinstance(value.sub, list):
            return (kind, ("ObjectPropertyChain", *map(_part, value.sub)), _part(value.sup))
        case "HasKey":
            data = [type(key).__name__ == "DataProperty" for key in value.vpe]
            keys = [
                ("", *(_part(key) for key, d in zip(value.vpe, data, strict=True) if d is which))
                for which in (False, True)
            ]
            return (kind, _part(value.ce), *keys)
        case "DatatypeRestriction":
            facets = [part for one in value.second for part in (_facet(one.f), _part(one.l))]
            return (kind, _part(value.first), *facets)
        case _:
            parts = [part for field in fields for part in (field if isinstance(field, list) else [field])]
            return (_WORDS.get(kind, kind), *map(_part, parts))


def _part(value: Any) -> str | Axiom:
    return _term(value) if type(value).__name__ in _TERMS else axiom_of(value)


def _facet(value: Any) -> str:
    word = str(value).removeprefix("Facet.")
    return (RDF if word == "LangRange" else XML_SCHEMA) + word[0].lower() + word[1:]


def _term(value: Any) -> str:
    """A term of ours."""
    match type(value).__name__:
        case "SimpleLiteral":
            return literal(value.literal)
        case "LanguageLiteral":
            return literal(value.literal, language=value.lang.lower())
        case "DatatypeLiteral":
            return literal(value.literal, datatype=str(value.datatype_iri))
        case "AnonymousIndividual":
            return "_:" + str(value.first).removeprefix("_:")
        case "IRI" | "str" | "int":
            return str(value)
        case _:
            return str(value.first)
