"""Query to Manchester syntax: the inverse of `tarbox.query.manchester.parse`."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias, assert_never

from tarbox.core.ids import Role
from tarbox.query import algebra
from tarbox.query.algebra import Direction, Query, fold, is_placeholder
from tarbox.query.ranges import write_range
from tarbox.query.restrictions import Restriction, restriction, said_operands

NameWriter: TypeAlias = Callable[[Role, str], str]


def full_name(_role: Role, name: str) -> str:
    """The form that means the same everywhere: an IRI in angle brackets; literals, blank nodes, placeholders bare."""
    bare = is_placeholder(name) or name.startswith(('"', "_:"))
    return name if bare else f"<{name}>"


def render(query: Query, naming: NameWriter = full_name) -> str:
    """The text of a query, on one line; `naming` writes the names.

    With full names ``parse(render(q)) == q`` for every query. Restrictions within others stand in parentheses, as
    Protégé writes them.

    >>> render(algebra.Not(algebra.Exists("urn:p", Direction.INVERSE, algebra.Entity("urn:a"))))
    'not (inverse <urn:p> value <urn:a>)'
    """
    return fold(query, lambda node, texts: _text(node, texts, naming), said_operands)


def is_enumeration(query: Query) -> bool:
    """Whether a query is ``{a, b, ...}``: a union of entities."""
    return isinstance(query, algebra.Or) and all(isinstance(operand, algebra.Entity) for operand in query.operands)


def _text(node: Query, texts: list[str], naming: NameWriter) -> str:
    said = restriction(node)
    if said is not None:
        return _restriction(said, texts[0], naming)
    parts = list(zip(said_operands(node), texts, strict=True))
    match node:
        case algebra.Entity() | algebra.Concept() | algebra.DataRange() | algebra.HasSelf():
            return _leaf(node, naming)
        case algebra.Exists() | algebra.AtLeast():
            raise AssertionError("each of them is a restriction")
        case algebra.Not(operand):
            return f"not {_primary(operand, texts[0])}"
        case algebra.And():
            return " and ".join(_conjunct(*part) for part in parts)
        case algebra.Or():
            listed = is_enumeration(node)
            return _braced(texts) if listed else " or ".join(_conjunct(*part) for part in parts)
        case _:
            assert_never(node)


def _leaf(node: algebra.Entity | algebra.Concept | algebra.DataRange | algebra.HasSelf, naming: NameWriter) -> str:
    match node:
        case algebra.Entity(name):
            return f"{{{naming(Role.ENTITY, name)}}}"
        case algebra.Concept(name):
            return naming(Role.CONCEPT, name)
        case algebra.DataRange():
            return write_range(node)
        case algebra.HasSelf(relation):
            return f"{naming(Role.RELATION, relation)} Self"


def _restriction(said: Restriction, text: str, naming: NameWriter) -> str:
    inverse = "inverse " if said.direction is Direction.INVERSE else ""
    relation = inverse + naming(Role.RELATION, said.relation)
    if said.word == "some" and isinstance(said.operand, algebra.Entity):
        return f"{relation} value {naming(Role.ENTITY, said.operand.name)}"
    return f"{relation} {said.said} {_primary(said.operand, text)}"


def _braced(texts: list[str]) -> str:
    """One pair of braces for several entities, each of which has its own."""
    return "{" + ", ".join(text[1:-1] for text in texts) + "}"


def _conjunct(query: Query, text: str) -> str:
    return text if isinstance(query, algebra.Not) and restriction(query) is None else _primary(query, text)


def _primary(query: Query, text: str) -> str:
    atom = isinstance(query, algebra.Entity | algebra.Concept | algebra.DataRange) or is_enumeration(query)
    return text if atom else f"({text})"
