"""Every kind of axiom in the words of a few: class inclusions, role inclusions, chains, disjoint roles.

`ObjectPropertyDomain(p C)` is `SubClassOf(ObjectSomeValuesFrom(p owl:Thing) C)`, `SameIndividual(a b)` is
`SubClassOf(ObjectOneOf(a) ObjectOneOf(b))`, and so on. Data properties are read as relations to literals.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import combinations, pairwise
from typing import Any, Final

from tarbox.kb.axioms import Axiom
from tarbox.kb.namespaces import OWL, RDFS, TOP

BOTTOM: Final = f"{OWL}Nothing"
TOP_ROLES: Final = (f"{OWL}topObjectProperty", f"{OWL}topDataProperty")
BOTTOM_ROLES: Final = (f"{OWL}bottomObjectProperty", f"{OWL}bottomDataProperty")
_LITERAL: Final = f"{RDFS}Literal"
_RDFS: Final = (
    "SubClassOf",
    "EquivalentClasses",
    "SubObjectPropertyOf",
    "EquivalentObjectProperties",
    "ObjectPropertyDomain",
    "ObjectPropertyRange",
)

Term = Any
"""A name or an expression: an argument of an axiom."""


def inverse(role: Term) -> Axiom:
    return ("ObjectInverseOf", role)


def some(role: Term, filler: Term = TOP) -> Axiom:
    return ("ObjectSomeValuesFrom", role, filler)


def sub(lower: Term, upper: Term) -> Axiom:
    return ("SubClassOf", lower, upper)


def _roles(lower: Term, upper: Term) -> Axiom:
    return ("SubObjectPropertyOf", lower, upper)


def _cycle(terms: tuple[Term, ...], include: Callable[[Term, Term], Axiom]) -> list[Axiom]:
    return [include(lower, upper) for lower, upper in zip(terms, terms[1:] + terms[:1], strict=True)]


def _disjoint(terms: tuple[Term, ...]) -> Iterator[Axiom]:
    for one, other in combinations(terms, 2):
        yield sub(("ObjectIntersectionOf", one, other), BOTTOM)


def _one(individual: Term) -> Axiom:
    return ("ObjectOneOf", individual)


def _at_most_one(role: Term) -> Axiom:
    return sub(TOP, ("ObjectMaxCardinality", "1", role))


_CORE: Final[dict[str, Callable[[tuple[Term, ...]], list[Axiom]]]] = {
    "SubClassOf": lambda a: [sub(*a)],
    "EquivalentClasses": lambda a: _cycle(a, sub),
    "DisjointClasses": lambda a: list(_disjoint(a)),
    "DisjointUnion": lambda a: [*_cycle((a[0], ("ObjectUnionOf", *a[1:])), sub), *_disjoint(a[1:])],
    "ObjectPropertyDomain": lambda a: [sub(some(a[0]), a[1])],
    "ObjectPropertyRange": lambda a: [sub(some(inverse(a[0])), a[1])],
    "SubObjectPropertyOf": lambda a: [_roles(*a)],
    "EquivalentObjectProperties": lambda a: _cycle(a, _roles),
    "InverseObjectProperties": lambda a: [_roles(a[0], inverse(a[1])), _roles(a[1], inverse(a[0]))],
    "SymmetricObjectProperty": lambda a: [_roles(a[0], inverse(a[0]))],
    "TransitiveObjectProperty": lambda a: [_roles(("ObjectPropertyChain", a[0], a[0]), a[0])],
    "DisjointObjectProperties": lambda a: [("DisjointObjectProperties", *pair) for pair in combinations(a, 2)],
    "AsymmetricObjectProperty": lambda a: [("DisjointObjectProperties", a[0], inverse(a[0]))],
    "IrreflexiveObjectProperty": lambda a: [sub(("ObjectHasSelf", a[0]), BOTTOM)],
    "FunctionalObjectProperty": lambda a: [_at_most_one(a[0])],
    "InverseFunctionalObjectProperty": lambda a: [_at_most_one(inverse(a[0]))],
    "ClassAssertion": lambda a: [sub(_one(a[1]), a[0])],
    "ObjectPropertyAssertion": lambda a: [sub(_one(a[1]), ("ObjectHasValue", a[0], a[2]))],
    "NegativeObjectPropertyAssertion": lambda a: [
        sub(("ObjectIntersectionOf", _one(a[1]), ("ObjectHasValue", a[0], a[2])), BOTTOM)
    ],
    "SameIndividual": lambda a: [sub(_one(one), _one(other)) for one, other in pairwise(a)],
    "DifferentIndividuals": lambda a: [("DifferentIndividuals", *a)],
}


def as_object_axiom(term: Term) -> Term:
    """The same with data properties as relations; a datatype stays, and no rule knows it."""
    if not isinstance(term, tuple):
        return TOP if term == _LITERAL else term
    word, *arguments = term
    word = word.replace("DataProperty", "ObjectProperty").replace("DataProperties", "ObjectProperties")
    if word.startswith("Data") and word[4:] in ("SomeValuesFrom", "HasValue", "MinCardinality", "MaxCardinality"):
        word = f"Object{word[4:]}"
    return (word, *map(as_object_axiom, arguments))


def desugar(axiom: Axiom) -> list[Axiom] | None:
    """The axiom in the few words; None for a kind that has no rule."""
    word, *arguments = as_object_axiom(axiom)
    make = _CORE.get(word)
    return None if make is None else make(tuple(arguments))


def is_rdfs(axiom: Axiom) -> bool:
    """Whether RDFS can say it: names below names, domains and ranges."""
    word, *arguments = as_object_axiom(axiom)
    return word in _RDFS and all(isinstance(argument, str) for argument in arguments)
