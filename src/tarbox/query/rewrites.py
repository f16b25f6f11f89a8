"""Rewrites: other queries with the same answers.

Each pass keeps the exact answers on every knowledge base; tests prove it on random queries. There is no node for the
empty set, so a contradiction (`A and not A`) stays as it is.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain, product
from math import prod
from typing import Final, assert_never

from tarbox.core.errors import QueryTooLarge
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
    conjunction,
    disjunction,
    fold,
    operands,
    walk,
    with_operands,
)
from tarbox.query.names import ANYTHING
from tarbox.query.render import render

MAX_CLAUSES: Final = 1_000
EVERY_ENTITY: Final = Concept(ANYTHING)


def negation_normal_form(query: Query) -> Query:
    """The query with `Not` on entities, concepts and restrictions only, by De Morgan's laws.

    A negated restriction stays: the algebra has no node for its dual, a universal one.
    """

    def both(node: Query, parts: list[tuple[Query, Query]]) -> tuple[Query, Query]:
        """The node and its complement, each in normal form."""
        match node:
            case Entity() | Concept() | DataRange() | HasSelf():
                return node, Not(node)
            case Exists() | AtLeast():
                restricted = with_operands(node, [parts[0][0]])
                return restricted, Not(restricted)
            case Not():
                return parts[0][1], parts[0][0]
            case And():
                return And(tuple(p for p, _ in parts)), Or(tuple(n for _, n in parts))
            case Or():
                return Or(tuple(p for p, _ in parts)), And(tuple(n for _, n in parts))
            case _:
                assert_never(node)

    return fold(query, both)[0]


def disjunctive_normal_form(query: Query, limit: int = MAX_CLAUSES) -> Query:
    """The query with `Or` at the root only: restrictions distribute over it, also under negation. Counts do not:
    what stands in an `AtLeast` stays.

    Raises `QueryTooLarge` where more than `limit` clauses would be needed: their number can grow exponentially.
    """
    return disjunction([conjunction(clause) for clause in _clauses(query, True, limit)])


def simplify(query: Query) -> Query:
    """A smaller query with the same answers; what stays keeps its order.

    Removes double negation, nesting of one operator in itself, duplicates, what another operand absorbs
    (`A and (A or B)` is `A`), and the concept of all entities beside others.
    """
    return fold(query, lambda node, parts: _simplified(node, parts, ordered=False))


def plain(query: Query) -> Query:
    """The query as it is said and judged: simplified, with `Not` on entities, concepts and restrictions only."""
    kinds = set(map(type, walk(query)))  # most have nothing to rewrite
    normal = negation_normal_form(query) if Not in kinds else query
    return simplify(normal) if kinds & {And, Or, Not} else query


def canonical(query: Query) -> Query:
    """One query for all that are equal up to negation normal form, simplification and the order of operands."""
    return fold(negation_normal_form(query), lambda node, parts: _simplified(node, parts, ordered=True))


def _simplified(node: Query, parts: list[Query], ordered: bool) -> Query:
    match node:
        case Entity() | Concept() | DataRange() | HasSelf() | Exists() | AtLeast():
            return with_operands(node, parts)
        case Not():
            inner = parts[0]
            return inner.operand if isinstance(inner, Not) else Not(inner)
        case And():
            return conjunction(_joined(And, Or, parts, ordered))
        case Or():
            return disjunction(_joined(Or, And, parts, ordered))
        case _:
            assert_never(node)


def _joined(kind: type[And] | type[Or], dual: type[And] | type[Or], parts: list[Query], ordered: bool) -> list[Query]:
    """The operands of one operator: flat, distinct, without those that another one absorbs."""
    flat = [inner for part in parts for inner in (part.operands if isinstance(part, kind) else (part,))]
    distinct = list(dict.fromkeys(flat))
    if EVERY_ENTITY in distinct and len(distinct) > 1:
        distinct = [EVERY_ENTITY] if kind is Or else [part for part in distinct if part != EVERY_ENTITY]
    kept = _without_absorbed(distinct, dual)
    return sorted(kept, key=render) if ordered else kept


def _without_absorbed(parts: Sequence[Query], dual: type[And] | type[Or]) -> list[Query]:
    """`parts` less each operand of the dual kind whose members include all members of another operand."""
    if not any(isinstance(part, dual) for part in parts):
        return list(parts)
    members = [frozenset(operands(part)) if isinstance(part, dual) else frozenset([part]) for part in parts]
    kept: list[Query] = []
    for row, part in enumerate(parts):
        absorbed = any(
            members[other] <= members[row] and (members[other] != members[row] or other < row)
            for other in range(len(parts))
            if other != row
        )
        if not absorbed:
            kept.append(part)
    return kept


def _clauses(query: Query, positive: bool, limit: int) -> list[tuple[Query, ...]]:
    """The conjunctions whose union is the query, or its complement."""
    match query:
        case Entity() | Concept() | DataRange() | HasSelf() | AtLeast():
            return [(query if positive else Not(query),)]
        case Exists(relation, direction, operand):
            inner = [Exists(relation, direction, conjunction(c)) for c in _clauses(operand, True, limit)]
            return [(part,) for part in inner] if positive else [tuple(Not(part) for part in inner)]
        case Not(operand):
            return _clauses(operand, not positive, limit)
        case And(several) | Or(several):
            choices = [_clauses(operand, positive, limit) for operand in several]
            joint = isinstance(query, And) is positive
            if (prod if joint else sum)(map(len, choices)) > limit:
                raise QueryTooLarge(f"the disjunctive normal form has more than {limit:,} clauses, the limit")
            return [tuple(chain(*chosen)) for chosen in product(*choices)] if joint else list(chain(*choices))
        case _:
            assert_never(query)
