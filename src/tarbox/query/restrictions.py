"""How OWL says a restriction: ``relation word operand``, read out of the tree that means it.

`only`, `max` and `exactly` are no kinds of node: what has them as text, English and picture is found here, and made
here.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, final

from tarbox.query.algebra import And, AtLeast, Concept, Direction, Exists, Not, Query, operands
from tarbox.query.names import ANYTHING

COUNTS: Final = ("min", "max", "exactly")
"""The words that a number follows."""


@final
@dataclass(frozen=True, slots=True)
class Restriction:
    """``relation word [count] operand``; `count` is None after `some` and `only`."""

    word: str
    relation: str
    direction: Direction
    operand: Query
    count: int | None = None

    @property
    def said(self) -> str:
        """The word with its number."""
        return self.word if self.count is None else f"{self.word} {self.count}"


def restrict(word: str, relation: str, direction: Direction, operand: Query, count: int = 0) -> Query:
    """The tree that a restriction means.

    >>> restrict("only", "p", Direction.FORWARD, Concept("C")) == Not(Exists("p", Direction.FORWARD, Not(Concept("C"))))
    True
    """

    def at_least(number: int) -> Query:
        if number == 0:
            return Concept(ANYTHING)
        some = number == 1
        return Exists(relation, direction, operand) if some else AtLeast(number, relation, direction, operand)

    match word:
        case "only":
            return Not(Exists(relation, direction, Not(operand)))
        case "max":
            return Not(at_least(count + 1))
        case "exactly":
            return And((at_least(count), Not(at_least(count + 1)))) if count else Not(at_least(1))
        case _:
            return at_least(count if word == "min" else 1)


def restriction(query: Query) -> Restriction | None:
    """The restriction that a tree is, its sugar found; None where it is none. `restrict` makes the same tree of it."""
    match query:
        case Exists(relation, direction, operand):
            return Restriction("some", relation, direction, operand)
        case AtLeast(count, relation, direction, operand):
            return Restriction("min", relation, direction, operand, count)
        case Not(AtLeast(count, relation, direction, operand)):
            return Restriction("max", relation, direction, operand, count - 1)
        case Not(Exists(relation, direction, Not(operand))):
            return Restriction("only", relation, direction, operand)
        case And((Exists() | AtLeast() as low, Not(AtLeast(above) as high))):
            count = low.count if isinstance(low, AtLeast) else 1
            same = (low.relation, low.direction, low.operand) == (high.relation, high.direction, high.operand)
            if same and above == count + 1:
                return Restriction("exactly", low.relation, low.direction, low.operand, count)
    return None


def said_operands(query: Query) -> tuple[Query, ...]:
    """The operands as they are written: the one of a restriction, else those of the node."""
    found = restriction(query)
    return operands(query) if found is None else (found.operand,)
