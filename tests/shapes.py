"""The template that a query has the shape of: what names and files of others are held against."""

from __future__ import annotations

from functools import cache
from typing import assert_never

from tarbox.query.algebra import (
    And,
    AtLeast,
    Concept,
    DataRange,
    Entity,
    Exists,
    HasSelf,
    Not,
    Or,
    Query,
    fold,
    lift,
    operands,
    walk,
    with_operands,
)
from tarbox.query.rewrites import negation_normal_form
from tarbox.query.templates import TEMPLATES


def arrange(query: Query) -> Query:
    """The query with the operands of every `And` and `Or` ordered by their shape, and nested ones of a kind merged.

    The order looks at structure only, never at names; operands of one shape keep their order. Queries whose shapes
    are equal up to operand order and nesting have one shape once arranged.
    """
    return fold(query, _arranged)


def template_of(query: Query) -> str | None:
    """The name of the template whose shape this query has, up to De Morgan's laws and the order of operands.

    >>> template_of(TEMPLATES["pni"].shape)
    'pni'
    """
    return _names_by_shape().get(lift(arrange(negation_normal_form(query)))[0])


def _arranged(node: Query, parts: list[Query]) -> Query:
    match node:
        case And() | Or():
            kind = type(node)
            flat = [inner for part in parts for inner in (part.operands if isinstance(part, kind) else (part,))]
            return kind(tuple(sorted(flat, key=_structure)))
        case Entity() | Concept() | DataRange() | HasSelf() | Exists() | AtLeast() | Not():
            return with_operands(node, parts)
        case _:
            assert_never(node)


def _structure(query: Query) -> tuple[object, ...]:
    """A sort key of the structure: the kinds of the nodes in slot order, each with its number of operands."""
    return tuple((type(node).__name__, len(operands(node))) for node in walk(query))


@cache
def _names_by_shape() -> dict[Query, str]:
    return {lift(arrange(template.shape))[0]: name for name, template in TEMPLATES.items()}
