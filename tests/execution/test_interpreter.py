"""The interpreter asks the algebra for each node once, operands first and in order."""

from __future__ import annotations

from dataclasses import dataclass

from tarbox.execution.interpreter import evaluate
from tarbox.execution.program import BOTH, CONCEPT, ENTITY, EXISTS, NOT, TYPING, compile_shape
from tarbox.query.algebra import And, AtLeast, Concept, DataRange, Direction, Entity, Exists, HasSelf, Not, Or
from tarbox.query.templates import TEMPLATES, template


@dataclass(frozen=True)
class Spelling:
    """An algebra of texts."""

    def entity(self, name):
        return name

    def concept(self, name):
        return name.upper()

    def exists(self, relation, direction, operand):
        return f"{relation}{'<' if direction is Direction.INVERSE else '>'}{operand}"

    def at_least(self, count, relation, direction, operand):
        return f"{count}{self.exists(relation, direction, operand)}"

    def has_self(self, relation):
        return f"{relation}@"

    def literals(self, wanted):
        return wanted.datatype

    def intersection(self, operands):
        return f"({' & '.join(operands)})"

    def union(self, operands):
        return f"({' | '.join(operands)})"

    def complement(self, operand):
        return f"-{operand}"


def test_operands_come_in_their_order():
    inner = Or((Entity("a"), Not(Concept("c")), Entity("b")))
    query = And((Exists("p", Direction.FORWARD, inner), Exists("q", Direction.INVERSE, Entity("d"))))
    assert evaluate(query, Spelling()) == "(p>(a | -C | b) & q<d)"


def test_counts_loops_and_ranges_are_asked_for():
    query = And((AtLeast(3, "p", Direction.INVERSE, DataRange("d")), HasSelf("q")))
    assert evaluate(query, Spelling()) == "(3p<d & q@)"


def test_deep_queries_need_no_recursion():
    query = Entity("a")
    for _ in range(5000):
        query = Not(query)
    assert evaluate(query, Spelling()) == "-" * 5000 + "a"


def test_a_program_is_postfix_and_deepest_branch_first():
    program = compile_shape(template("t", "?c1 and not (?r1 some ((?r2 value ?e1) and ?c2))").shape)
    assert program.operations.tolist() == [ENTITY, EXISTS, CONCEPT, TYPING, BOTH, EXISTS, NOT, CONCEPT, TYPING, BOTH]
    assert program.slots.tolist() == [3, 2, 4, 0, 0, 1, 0, 0, 0, 0]
    assert (program.depth, program.width) == (2, 5)


def test_branches_of_one_structure_are_siblings():
    assert compile_shape(TEMPLATES["2i"].shape).siblings.tolist() == [2, 2, 0, 1, 2, 3]
    assert compile_shape(TEMPLATES["3in"].shape).siblings.tolist() == [2, 2, 0, 1, 2, 3]
    assert compile_shape(TEMPLATES["pi"].shape).siblings.tolist() == []
