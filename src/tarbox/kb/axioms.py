"""An axiom is data: a nested tuple in the words of OWL 2 functional syntax, and that syntax as its text.

`SubClassOf(A ObjectSomeValuesFrom(p B))` is `("SubClassOf", A, ("ObjectSomeValuesFrom", p, B))`. Names are terms as the
knowledge base writes them: an IRI stands bare, a literal in its quoted N-Triples form, a blank node with `_:`.
Cardinalities are digits. A list of arguments without a word, as in `HasKey`, is a tuple that begins with "".
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Final, TypeAlias

from tarbox.core.errors import SourceError
from tarbox.kb.namespaces import BUILT_IN, XML_SCHEMA

Axiom: TypeAlias = "tuple[str | Axiom, ...]"

_TOKEN: Final = re.compile(
    r"""\s*(?:(?P<iri><[^<>"{}|^`\\\s]*>)
        |(?P<literal>"(?:[^"\\]|\\.)*+"(?:@[A-Za-z0-9-]+|\^\^<[^<>\s]*>)?)
        |(?P<word>[A-Za-z]*)\(|(?P<close>\))
        |(?P<blank>_:[^\s()]+)|(?P<digits>\d+))""",
    re.X | re.S,
)

_ARGUMENTS: Final[dict[str, str]] = {  # what stands in each place; the last letter is for all places from there on
    "C": """SubClassOf EquivalentClasses DisjointClasses DisjointUnion ObjectIntersectionOf ObjectUnionOf
            ObjectComplementOf""",
    "R": """ObjectInverseOf ObjectPropertyChain SubObjectPropertyOf EquivalentObjectProperties DisjointObjectProperties
            InverseObjectProperties ObjectHasSelf FunctionalObjectProperty InverseFunctionalObjectProperty
            ReflexiveObjectProperty IrreflexiveObjectProperty SymmetricObjectProperty AsymmetricObjectProperty
            TransitiveObjectProperty""",
    "RC": "ObjectSomeValuesFrom ObjectAllValuesFrom ObjectPropertyDomain ObjectPropertyRange",
    "-RC": "ObjectMinCardinality ObjectMaxCardinality ObjectExactCardinality",
    "RI": "ObjectHasValue ObjectPropertyAssertion NegativeObjectPropertyAssertion",
    "I": "ObjectOneOf SameIndividual DifferentIndividuals",
    "CI": "ClassAssertion",
    "D": "SubDataPropertyOf EquivalentDataProperties DisjointDataProperties FunctionalDataProperty",
    "DT": "DataSomeValuesFrom DataAllValuesFrom DataPropertyRange",
    "-DT": "DataMinCardinality DataMaxCardinality DataExactCardinality",
    "DC": "DataPropertyDomain",
    "D-": "DataHasValue",
    "DI-": "DataPropertyAssertion NegativeDataPropertyAssertion",
    "T": "DataIntersectionOf DataUnionOf DataComplementOf DatatypeDefinition",
    "T-": "DatatypeRestriction",
    "-": "DataOneOf",
}
_PLACES: Final = {word: places for places, words in _ARGUMENTS.items() for word in words.split()}
_KINDS: Final = {"C": "concept", "R": "relation", "I": "entity", "D": "data property", "T": "datatype"}
_UNORDERED: Final = re.compile(  # words whose arguments are a set
    "(Equivalent|Disjoint|Same|Different).*|InverseObjectProperties|.*(Intersection|Union|One)Of|"
)


def canonical(axiom: Axiom) -> Axiom:
    """The same axiom with its sets in order, so that equal axioms are equal tuples."""
    parts = [canonical(part) if isinstance(part, tuple) else part for part in axiom]
    if parts[0] == "DatatypeRestriction":
        facets = sorted(zip(parts[2::2], parts[3::2], strict=True), key=str)
        return (*parts[:2], *(term for facet in facets for term in facet))
    if not _UNORDERED.fullmatch(str(parts[0])):
        return tuple(parts)
    fixed = 2 if parts[0] == "DisjointUnion" else 1
    return (*parts[:fixed], *sorted(parts[fixed:], key=_argument))


def axiom_names(axiom: Axiom) -> Iterator[tuple[str, str]]:
    """(kind, IRI) of the names in an axiom, but for those of OWL itself; kinds are in the words of `Declaration`."""
    word, *parts = axiom
    if word == "HasKey":
        cls, relations, values = parts
        parts = [
            ("ObjectIntersectionOf", cls),
            ("ObjectPropertyChain", *relations[1:]),
            ("SubDataPropertyOf", *values[1:]),
        ]
    places = _PLACES.get(str(word), "-")
    for number, part in enumerate(parts):
        place = places[min(number, len(places) - 1)]
        if isinstance(part, tuple):
            yield from axiom_names(part)
        elif place != "-" and not part.startswith(("_:", XML_SCHEMA, *BUILT_IN)):
            yield _KINDS[place], part


def class_links(axioms: Iterable[Axiom]) -> list[tuple[str, str, str]]:
    """(class, relation, class) for what is said of all members of a class: that each has the relation to some member.

    They are the `ObjectSomeValuesFrom` among the superclasses of a name, and among the conjuncts of these and of its
    definitions: `part_of some nucleus` of the Gene Ontology.
    """
    found: list[tuple[str, str, str]] = []
    for word, *parts in axioms:
        if word == "SubClassOf":
            pairs = [(parts[0], parts[1])]
        elif word == "EquivalentClasses":
            pairs = [(a, b) for a in parts for b in parts if a is not b]
        else:
            continue
        for below, above in pairs:
            if isinstance(below, str):
                found += [(below, relation, filler) for relation, filler in _links(above)]
    return sorted(set(found))


def _links(expression: str | Axiom) -> Iterator[tuple[str, str]]:
    """(relation, filler) of an expression that is an existential restriction between names, or of its conjuncts."""
    match expression:
        case ("ObjectSomeValuesFrom", str(relation), str(filler)):
            yield relation, filler
        case ("ObjectIntersectionOf", *parts):
            for part in parts:
                yield from _links(part)


def write_axiom(axiom: Axiom) -> str:
    """The axiom in functional syntax, with full IRIs, on one line."""
    word, *arguments = axiom
    return f"{word}({' '.join(_argument(argument) for argument in arguments)})"


def _argument(argument: str | Axiom) -> str:
    if isinstance(argument, tuple):
        return write_axiom(argument)
    plain = argument.startswith(('"', "_:")) or argument.isdigit()
    return argument if plain else f"<{argument}>"


def write_axioms(axioms: Iterable[Axiom]) -> str:
    """One axiom a line."""
    return "".join(write_axiom(axiom) + "\n" for axiom in axioms)


def read_axioms(text: str) -> Iterator[Axiom]:
    """The axioms of a text with full IRIs, as `write_axioms` makes it."""
    place, end = 0, len(text.rstrip())
    stack: list[list[str | Axiom]] = []
    while place < end:
        found = _TOKEN.match(text, place)
        if found is None:
            line = text.count("\n", 0, place) + 1
            raise SourceError(f"axioms, line {line}: {text[place : place + 40].strip()!r} is not functional syntax")
        place = found.end()
        kind, token = found.lastgroup, found[found.lastgroup or 0]
        if kind == "word":
            stack.append([token])
        elif kind == "close" and stack:
            done = tuple(stack.pop())
            if stack:
                stack[-1].append(done)
            else:
                yield done
        elif stack:
            stack[-1].append(token[1:-1] if kind == "iri" else token)
        else:
            raise SourceError(f"axioms: {token!r} stands outside of an axiom")
    if stack:
        raise SourceError(f"axioms: {stack[-1][0]}( is not closed; the text ends too early")
