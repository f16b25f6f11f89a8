"""Query to SPARQL: one ``SELECT`` with the same answers on the RDF that a knowledge base exports.

Concepts are written ``rdf:type/rdfs:subClassOf*``. A complement needs something to be taken from: where nothing else
restricts its variable, a *domain pattern* says what an entity is.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import count
from typing import TypeAlias, assert_never, final

from tarbox.core.ids import Role
from tarbox.query.algebra import And, AtLeast, Concept, DataRange, Direction, Entity, Exists, HasSelf, Not, Or, Query
from tarbox.query.names import ANYTHING, OWL_THING, RDF_TYPE, SUBCLASS_OF, XSD
from tarbox.query.render import full_name, is_enumeration

Domain: TypeAlias = Callable[[str, int], str]
"""A pattern that binds a variable to every entity; the number makes its other variables its own."""


def in_facts(variable: str, number: int) -> str:
    """An entity is what stands in an assertion or has a type: right on any export, slow on large graphs."""
    subject = f"{variable} ?p{number} ?o{number} FILTER(?p{number} != <{SUBCLASS_OF}>)"
    other = f"?s{number} ?q{number} {variable} FILTER(?q{number} NOT IN (<{RDF_TYPE}>, <{SUBCLASS_OF}>))"
    return f"{{ {subject} }} UNION {{ {other} }}"


def is_thing(variable: str, _number: int) -> str:
    """Every entity is declared an ``owl:Thing``; `tarbox.query.sparql.parse_sparql` reads this back."""
    return f"{variable} a <{OWL_THING}> ."


def to_sparql(query: Query, domain: Domain = in_facts) -> str:
    """A ``SELECT DISTINCT ?x`` with the answers of the query.

    >>> to_sparql(Exists("urn:p", Direction.INVERSE, Entity("urn:a")))
    'SELECT DISTINCT ?x WHERE { <urn:a> <urn:p> ?x . }'
    """
    return f"SELECT DISTINCT ?x WHERE {{ {_Writer(domain).group(query, '?x')} }}"


@final
class _Writer:
    def __init__(self, domain: Domain) -> None:
        self._domain = domain
        self._numbers: Iterator[int] = count(1)

    def group(self, query: Query, variable: str) -> str:  # noqa: PLR0911
        """A pattern that binds `variable` to the members of the query."""
        match query:
            case Entity(name):
                return f"VALUES {variable} {{ {_term(name)} }}"
            case Concept(name):
                return self._concept(name, variable)
            case Exists():
                return self._exists(query, variable)
            case AtLeast():
                return self._at_least(query, variable)
            case HasSelf(relation):
                return f"{variable} {_term(relation)} {variable} ."
            case DataRange():
                return self._literals(query, variable)
            case And(operands):
                return self._and(operands, variable)
            case Or():
                return self._or(query, variable)
            case Not():
                return self._and((query,), variable)
            case _:
                assert_never(query)

    def _concept(self, name: str, variable: str) -> str:
        if name == ANYTHING:
            return self._domain(variable, next(self._numbers))
        return f"{variable} <{RDF_TYPE}>/<{SUBCLASS_OF}>* {_term(name)} ."

    def _exists(self, query: Exists, variable: str) -> str:
        operand = query.operand
        forward = query.direction is Direction.FORWARD
        if isinstance(operand, Entity) and (forward or not operand.name.startswith('"')):
            other, rest = _term(operand.name), ""
        else:  # a literal cannot stand before a predicate
            other = f"?y{next(self._numbers)}"
            rest = f" {self._restrict(operand, other)}"
        subject, target = (variable, other) if forward else (other, variable)
        return f"{subject} {_term(query.relation)} {target} .{rest}"

    def _at_least(self, query: AtLeast, variable: str) -> str:
        """As many variables as the count, all different."""
        others = [f"?y{next(self._numbers)}" for _ in range(query.count)]
        found: list[str] = []
        for other in others:
            ends = (variable, other) if query.direction is Direction.FORWARD else (other, variable)
            found += [f"{ends[0]} {_term(query.relation)} {ends[1]} .", self._restrict(query.operand, other)]
        found += [f"FILTER({a} != {b} || !sameTerm({a}, {b}))" for n, a in enumerate(others) for b in others[:n]]
        return " ".join(found)

    def _literals(self, query: DataRange, variable: str) -> str:
        """A literal of the datatype, compared as SPARQL compares values of a type."""
        tests = [f"isLiteral({variable})"]
        if query.datatype == f"{XSD}string":
            tests.append(f'(datatype({variable}) = <{XSD}string> || lang({variable}) != "")')
        elif query.datatype.startswith(XSD):
            tests.append(f"datatype({variable}) = <{query.datatype}>")
        tests += [f"{variable} {sign} {bound}" for sign, bound in query.facets]
        domain = self._domain(variable, next(self._numbers))
        return f"{{ {domain} }} FILTER({' && '.join(tests)})"

    def _and(self, operands: tuple[Query, ...], variable: str) -> str:
        positive = [self.group(operand, variable) for operand in operands if not isinstance(operand, Not)]
        negative = [self._restrict(operand, variable) for operand in operands if isinstance(operand, Not)]
        return " ".join([*(positive or [self._domain(variable, next(self._numbers))]), *negative])

    def _or(self, query: Or, variable: str) -> str:
        if is_enumeration(query):
            terms = " ".join(_term(operand.name) for operand in query.operands if isinstance(operand, Entity))
            return f"VALUES {variable} {{ {terms} }}"
        return " UNION ".join(f"{{ {self.group(operand, variable)} }}" for operand in query.operands)

    def _restrict(self, query: Query, variable: str) -> str:
        """A pattern that keeps the members of the query, for a variable that the group binds already."""
        match query:
            case Not(operand):
                return f"FILTER NOT EXISTS {{ {self.group(operand, variable)} }}"
            case And(operands):
                return " ".join(self._restrict(operand, variable) for operand in operands)
            case Concept(name) if name == ANYTHING:
                return ""
            case _:
                return self.group(query, variable)


def _term(name: str) -> str:
    return full_name(Role.ENTITY, name)
