"""The query structures of BetaE's code (KGReasoning), which much of the literature shares.

A *structure* is a nested tuple: ``'e'`` an entity; ``(s, ('r', 'n'))`` operations on `s`, the first applied first;
``(s1, s2)`` an intersection; ``(s1, s2, ('u',))`` a union. A *grounding* has the same nesting with integers: ids of
entities and relations, -2 for ``'n'`` and -1 for ``'u'``. `tarbox.benchmark.query_folders` reads files of them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final, TypeAlias, assert_never

from tarbox.core.errors import QueryError, QueryTooLarge
from tarbox.query import algebra
from tarbox.query.algebra import Direction, Query, conjunction, disjunction
from tarbox.query.render import render
from tarbox.query.templates import TEMPLATES

Structure: TypeAlias = "str | tuple[Structure, ...]"
Grounding: TypeAlias = "int | tuple[Grounding, ...]"

MARKS: Final[Mapping[str, int]] = MappingProxyType({"n": -2, "u": -1})
"""What is no name in a structure, and its number in a grounding."""
MAX_DEPTH: Final = 100


def leaves(nested: Any, levels: int = MAX_DEPTH) -> Iterator[Any]:
    """What stands in nested tuples, from left to right.

    >>> list(leaves((("e", ("r", "r")), ("e", ("r", "n")))))
    ['e', 'r', 'r', 'e', 'r', 'n']
    """
    if not isinstance(nested, tuple):
        yield nested
    elif levels == 0:
        raise QueryTooLarge(f"a structure is nested more than {MAX_DEPTH} levels deep, the limit")
    else:
        for part in nested:
            yield from leaves(part, levels - 1)


def fill(structure: Structure, numbers: Iterator[int]) -> Grounding:
    """The grounding with these ids, in the order of the structure's leaves."""
    if isinstance(structure, tuple):
        return tuple(fill(part, numbers) for part in structure)
    return MARKS[structure] if structure in MARKS else next(numbers)


def to_query(structure: Structure, names: Sequence[str]) -> Query:
    """The query of a structure with these names for its leaves that are no marks; relations are `FORWARD`."""
    if not set(leaves(structure)) <= {"e", "r", *MARKS}:
        raise QueryError(f"{structure!r} is no structure of KGReasoning's")
    return _decode(structure, iter(names))


def _decode(structure: Structure, names: Iterator[str]) -> Query:
    match structure:
        case "e":
            return algebra.Entity(next(names))
        case (base, tuple(marks)) if marks and all(mark in ("r", "n") for mark in marks):
            query = _decode(base, names)
            for mark in marks:
                query = algebra.Not(query) if mark == "n" else algebra.Exists(next(names), Direction.FORWARD, query)
            return query
        case (*parts, ("u",)) if parts:
            return disjunction([_decode(part, names) for part in parts])
        case (_, *_) as parts:
            return conjunction([_decode(part, names) for part in parts])
    raise QueryError(f"{structure!r} is no structure of KGReasoning's")


def from_query(query: Query) -> tuple[Structure, tuple[str, ...]]:
    """The structure of a query without concepts, and the names of its leaves: the inverse of `to_query`."""
    match query:
        case algebra.Entity(name):
            return "e", (name,)
        case algebra.Exists(relation, _, operand):
            structure, names = from_query(operand)
            return _operate(structure, "r"), (*names, relation)
        case algebra.Not(operand):
            structure, names = from_query(operand)
            return _operate(structure, "n"), names
        case algebra.And(several) | algebra.Or(several):
            parts = [from_query(operand) for operand in several]
            union = (("u",),) if isinstance(query, algebra.Or) else ()
            return (*(s for s, _ in parts), *union), tuple(name for _, own in parts for name in own)
        case algebra.Concept() | algebra.DataRange() | algebra.AtLeast() | algebra.HasSelf():
            raise QueryError(f"{render(query)} has no form in a KGReasoning query, which knows entities only")
        case _:
            assert_never(query)


def _operate(structure: Structure, mark: str) -> Structure:
    """Adds an operation to a chain, or begins one."""
    match structure:
        case (base, tuple(marks)) if all(own in ("r", "n") for own in marks):
            return base, (*marks, mark)
    return structure, (mark,)


STRUCTURES: Final[Mapping[str, Structure]] = MappingProxyType(
    {name: from_query(template.shape)[0] for name, template in TEMPLATES.items()}
)
"""The structure of each template."""

UNION_FORMS: Final[Mapping[Structure, Structure]] = MappingProxyType(
    {
        ((("e", ("r", "n")), ("e", ("r", "n"))), ("n",)): STRUCTURES["2u"],
        ((("e", ("r", "n")), ("e", ("r", "n"))), ("n", "r")): STRUCTURES["up"],
    }
)
"""Unions by De Morgan's law, KGReasoning's 2u-DM and up-DM, as what they mean."""
