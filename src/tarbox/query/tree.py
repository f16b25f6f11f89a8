"""A query as JSON, for the page's builder: the words that one may choose and take away, each with its label."""

from __future__ import annotations

from typing import Any, Final, TypeAlias

from tarbox.core.ids import Role
from tarbox.query.algebra import And, Concept, Direction, Entity, Exists, Not, Or, Query, depth, fold
from tarbox.query.render import NameWriter, full_name, render
from tarbox.query.restrictions import restriction

DEEPEST: Final = 40
"""A tree deeper than this is one piece of text: nobody builds it by hand."""
Tree: TypeAlias = dict[str, Any]


def query_tree(query: Query, write: NameWriter, show: NameWriter) -> Tree:
    """Nodes of the kinds ``entity``, ``concept``, ``some``, ``and``, ``or``, ``not``; the rest are a ``text``.

    `write` names things as queries do, `show` as people do. A name's ``iri`` is what a query can always say.
    """

    def named(role: Role, name: str) -> Tree:
        return {"iri": full_name(role, name), "label": show(role, name)}

    def node(part: Query, inner: list[Tree]) -> Tree:
        said = restriction(part)
        if said is not None and said.word != "some":
            return text(part)
        match part:
            case Entity(name) | Concept(name):
                role = Role.ENTITY if isinstance(part, Entity) else Role.CONCEPT
                return {"kind": role.value, **named(role, name)}
            case Exists(relation, direction):
                link = {"relation": named(Role.RELATION, relation), "inverse": direction is Direction.INVERSE}
                return {"kind": "some", **link, "operand": inner[0]}
            case Not():
                return {"kind": "not", "operand": inner[0]}
            case And() | Or():
                return {"kind": "and" if isinstance(part, And) else "or", "operands": inner}
            case _:
                return text(part)

    def text(part: Query) -> Tree:
        return {"kind": "text", "text": render(part), "label": render(part, write)}

    return text(query) if depth(query) > DEEPEST else fold(query, node)
