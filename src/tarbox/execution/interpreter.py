"""One interpreter for all algebras: a query is evaluated bottom-up, node by node.

An algebra says what each of the nine kinds of node means; the type of its sets is its own (Python sets, sorted
arrays, instructions of a program, fuzzy sets, boxes). Nothing else in tarbox walks a query to give it a meaning.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, TypeVar, assert_never

from tarbox.core.errors import QueryError
from tarbox.query.algebra import (
    And,
    AtLeast,
    Concept,
    DataRange,
    Direction,
    Entity,
    Exists,
    HasSelf,
    Not,
    Or,
    Query,
    walk,
)

S = TypeVar("S")


class Algebra(Protocol[S]):
    """What the nodes of a query mean, over sets of type `S`. Names are those of the query.

    Some nodes have no meaning in an algebra that inherits from this and says none: its model `lacks` them
    (`tarbox.models.learning.seam.Learner`) and so is never asked, or makes others of them first.
    """

    def entity(self, name: str) -> S:
        """The set {name}."""

    def concept(self, name: str) -> S:
        """The instances of a concept, under closure."""
        raise QueryError(f"{name} is a concept, which has to become a node first: `tarbox.models.one_more_hop` does it")

    def exists(self, relation: str, direction: Direction, operand: S) -> S:
        """{x | relation(x, y), y in operand}; with `INVERSE`, {x | relation(y, x), y in operand}."""

    def at_least(self, count: int, relation: str, direction: Direction, operand: S) -> S:  # noqa: ARG002
        """What the relation leads to from `count` or more of a set, as `exists` does from one."""
        raise QueryError(f"min {count} has no meaning in this model")

    def has_self(self, relation: str) -> S:  # noqa: ARG002
        """{x | relation(x, x)}."""
        raise QueryError("Self has no meaning in this model")

    def literals(self, wanted: DataRange) -> S:  # noqa: ARG002
        """The literals in a data range."""
        raise QueryError("a data range has no meaning in this model")

    def intersection(self, operands: Sequence[S]) -> S:
        """What is in all of two or more sets."""

    def union(self, operands: Sequence[S]) -> S:
        """What is in any of two or more sets."""

    def complement(self, operand: S) -> S:  # noqa: ARG002
        """Every entity that is not in the set (closed world)."""
        raise QueryError("negation has no meaning in this model")


def evaluate(query: Query, algebra: Algebra[S]) -> S:
    """The meaning of `query`. Safe at any depth: no recursion."""
    results: list[S] = []
    for node in reversed(list(walk(query))):  # operands come before their node, the first of them last
        match node:
            case Entity(name):
                results.append(algebra.entity(name))
            case Concept(name):
                results.append(algebra.concept(name))
            case DataRange():
                results.append(algebra.literals(node))
            case HasSelf(relation):
                results.append(algebra.has_self(relation))
            case Exists(relation, direction):
                results.append(algebra.exists(relation, direction, results.pop()))
            case AtLeast(count, relation, direction):
                results.append(algebra.at_least(count, relation, direction, results.pop()))
            case And(operands):
                results.append(algebra.intersection([results.pop() for _ in operands]))
            case Or(operands):
                results.append(algebra.union([results.pop() for _ in operands]))
            case Not():
                results.append(algebra.complement(results.pop()))
            case _:
                assert_never(node)
    return results.pop()
