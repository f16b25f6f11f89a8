"""Templates: named query shapes, one line of data each.

A relation placeholder stands for a relation in either direction, so the papers' `h -r-> ?` (in Manchester syntax
``inverse r value h``) is simply ``?r1 value ?e1``. Placeholders are numbered in slot order. The names and meanings are
those of the query-embedding literature (BetaE); any class expression with placeholders is a template too, also with
concepts: ``?c1 and (?r1 some ?c2)``.
"""

from __future__ import annotations

from dataclasses import dataclass
from types import MappingProxyType
from typing import Final, final

from tarbox.core.errors import QueryError
from tarbox.query.algebra import Direction, Exists, Query, lift, walk
from tarbox.query.manchester import parse
from tarbox.query.names import Placeholders

_TEXTS: Final = MappingProxyType(
    {
        "1p": "?r1 value ?e1",
        "2p": "?r1 some (?r2 value ?e1)",
        "3p": "?r1 some (?r2 some (?r3 value ?e1))",
        "2i": "(?r1 value ?e1) and (?r2 value ?e2)",
        "3i": "(?r1 value ?e1) and (?r2 value ?e2) and (?r3 value ?e3)",
        "pi": "(?r1 some (?r2 value ?e1)) and (?r3 value ?e2)",
        "ip": "?r1 some ((?r2 value ?e1) and (?r3 value ?e2))",
        "2u": "(?r1 value ?e1) or (?r2 value ?e2)",
        "up": "?r1 some ((?r2 value ?e1) or (?r3 value ?e2))",
        "2in": "(?r1 value ?e1) and not (?r2 value ?e2)",
        "3in": "(?r1 value ?e1) and (?r2 value ?e2) and not (?r3 value ?e3)",
        "inp": "?r1 some ((?r2 value ?e1) and not (?r3 value ?e2))",
        "pin": "(?r1 some (?r2 value ?e1)) and not (?r3 value ?e2)",
        "pni": "not (?r1 some (?r2 value ?e1)) and (?r3 value ?e2)",
    }
)


@final
@dataclass(frozen=True, slots=True)
class Template:
    """A name, the text it was written as, and the shape that the text means."""

    name: str
    text: str
    shape: Query


def template(name: str, text: str) -> Template:
    """A template from a class expression with placeholders, each of them once and numbered in slot order.

    >>> template("ci", "?c1 and (?r1 value ?e1)").shape
    And(operands=(Concept(name='?c1'), Exists(relation='?r1', direction=<Direction.FORWARD: 'forward'>, \
operand=Entity(name='?e1'))))
    """
    shape = parse(text, Placeholders())
    for node in walk(shape):
        if isinstance(node, Exists) and node.direction is Direction.INVERSE:
            reason = f"{node.relation} stands for a relation in either direction: leave 'inverse' out"
            raise QueryError(f"template {name!r}: {reason}")
    lifted, taken = lift(shape)
    if lifted != shape:
        given = " ".join(slot.name for slot in taken)
        wanted = " ".join(slot.name for slot in lift(lifted)[1])
        raise QueryError(f"template {name!r}: number the placeholders in order, each once: {wanted} (found: {given})")
    return Template(name, text, shape)


TEMPLATES: Final = MappingProxyType({name: template(name, text) for name, text in _TEXTS.items()})
"""The fourteen templates by name, in the literature's order."""
