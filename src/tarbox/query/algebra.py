"""A query is data: nine frozen kinds of node, and what can be done to any tree of them.

A query means a (fuzzy) set of entities; `tarbox.execution` gives the meaning, once for all algebras. Names in a query
are terms as the knowledge base writes them: an IRI stands bare, a literal in its quoted N-Triples form.

A *shape* is a query without its names: placeholders stand in their place (`?e1`, `?c1`, `?r1`; one for every
occurrence, counted per role in slot order). Its relation placeholders stand for *directed* relations, so every
`Exists` and `AtLeast` of a shape is `FORWARD` and the direction travels with the name, in the `Slot`. Thus `2p` is one
shape for four combinations of directions, and a batch of queries of one shape is a table with one column per slot.

Numbers and data ranges are part of the shape: they name nothing. `only`, `max` and `exactly` are no kinds of their own;
`tarbox.query.restrictions` reads them out of a tree.

Slot order is depth first, a node's own name before its operands, operands from left to right: the order in which the
names stand in Manchester syntax. It depends on the structure alone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import TypeAlias, TypeVar, assert_never, final

from tarbox.core.errors import QueryError
from tarbox.core.ids import Role

T = TypeVar("T")


class Direction(Enum):
    """Which way a relation is read."""

    FORWARD = "forward"
    INVERSE = "inverse"

    __hash__ = object.__hash__  # as of `Role`: shapes are looked up by hash for every question

    @property
    def opposite(self) -> Direction:
        return Direction.INVERSE if self is Direction.FORWARD else Direction.FORWARD


@final
@dataclass(frozen=True, slots=True)
class Entity:
    """The set {name}. Manchester: ``{name}``, or ``value name`` after a relation."""

    name: str


@final
@dataclass(frozen=True, slots=True)
class Concept:
    """The instances of a concept, under closure."""

    name: str


@final
@dataclass(frozen=True, slots=True)
class Exists:
    """{x | relation(x, y), y in operand}; with `INVERSE`, {x | relation(y, x), y in operand}.

    The projection of query-embedding papers, `h -r-> ?`, is ``Exists(r, INVERSE, Entity(h))``.
    """

    relation: str
    direction: Direction
    operand: Query


@final
@dataclass(frozen=True, slots=True)
class AtLeast:
    """{x | relation(x, y) for `count` or more y in operand}; `count` is 2 or more, since `Exists` says one."""

    count: int
    relation: str
    direction: Direction
    operand: Query

    def __post_init__(self) -> None:
        if self.count < 2:
            raise QueryError(f"AtLeast needs a count of 2 or more, got {self.count}; Exists means 1")


@final
@dataclass(frozen=True, slots=True)
class HasSelf:
    """{x | relation(x, x)}; both directions of a relation mean the same here."""

    relation: str


@final
@dataclass(frozen=True, slots=True)
class DataRange:
    """The literals of a datatype, an IRI, that every facet allows: ``(">=", literal)`` and the like
    (`tarbox.query.ranges` says which literals are in it)."""

    datatype: str
    facets: tuple[tuple[str, str], ...] = ()


@final
@dataclass(frozen=True, slots=True)
class And:
    """What is in every operand; there are two or more."""

    operands: tuple[Query, ...]

    def __post_init__(self) -> None:
        _require_two("And", self.operands)


@final
@dataclass(frozen=True, slots=True)
class Or:
    """What is in some operand; there are two or more."""

    operands: tuple[Query, ...]

    def __post_init__(self) -> None:
        _require_two("Or", self.operands)


@final
@dataclass(frozen=True, slots=True)
class Not:
    """Every entity of the knowledge base that is not in the operand (closed world)."""

    operand: Query


Query: TypeAlias = Entity | Concept | DataRange | Exists | AtLeast | HasSelf | And | Or | Not


@final
@dataclass(frozen=True, slots=True)
class Slot:
    """What fills one placeholder of a shape; a relation has a direction, others have none."""

    role: Role
    name: str
    direction: Direction | None = None


_NAMING = (Entity, Concept, Exists, AtLeast, HasSelf)
PREFIXES = {Role.ENTITY: "?e", Role.CONCEPT: "?c", Role.RELATION: "?r"}


def conjunction(operands: Sequence[Query]) -> Query:
    """`And` of the operands; a single one stands for itself."""
    return operands[0] if len(operands) == 1 else And(tuple(operands))


def disjunction(operands: Sequence[Query]) -> Query:
    """`Or` of the operands; a single one stands for itself."""
    return operands[0] if len(operands) == 1 else Or(tuple(operands))


def operands(query: Query) -> tuple[Query, ...]:
    """The direct operands, left to right; leaves have none."""
    match query:
        case Entity() | Concept() | DataRange() | HasSelf():
            return ()
        case Exists(operand=operand) | AtLeast(operand=operand) | Not(operand=operand):
            return (operand,)
        case And(operands=several) | Or(operands=several):
            return several
        case _:
            assert_never(query)


def with_operands(query: Query, replaced: Sequence[Query]) -> Query:
    """The same node over other operands, as many as it has."""
    match query:
        case Entity() | Concept() | DataRange() | HasSelf():
            return query
        case Exists(relation=relation, direction=direction):
            return Exists(relation, direction, replaced[0])
        case AtLeast(count=count, relation=relation, direction=direction):
            return AtLeast(count, relation, direction, replaced[0])
        case Not():
            return Not(replaced[0])
        case And():
            return And(tuple(replaced))
        case Or():
            return Or(tuple(replaced))
        case _:
            assert_never(query)


def walk(query: Query, parts: Callable[[Query], tuple[Query, ...]] = operands) -> Iterator[Query]:
    """Every node in slot order: a node before its operands, operands from left to right; `parts` says which it has."""
    stack = [query]
    while stack:
        node = stack.pop()
        yield node
        stack.extend(reversed(parts(node)))


def size(query: Query) -> int:
    """The number of nodes."""
    return sum(1 for _ in walk(query))


def depth(query: Query) -> int:
    """The number of nodes on the longest path from the root to a leaf."""
    deepest = 0
    stack = [(query, 1)]
    while stack:
        node, level = stack.pop()
        deepest = max(deepest, level)
        stack.extend((operand, level + 1) for operand in operands(node))
    return deepest


def slots(query: Query) -> tuple[Slot, ...]:
    """The names of a query in slot order, relations with their direction."""
    return tuple(slot for node in walk(query) if (slot := own_slot(node)) is not None)


def own_slot(node: Query) -> Slot | None:
    """What a node itself names; None where it names nothing."""
    match node:
        case Entity(name):
            return Slot(Role.ENTITY, name)
        case Concept(name):
            return Slot(Role.CONCEPT, name)
        case Exists(relation, direction) | AtLeast(_, relation, direction):
            return Slot(Role.RELATION, relation, direction)
        case HasSelf(relation):
            return Slot(Role.RELATION, relation, Direction.FORWARD)
        case DataRange() | And() | Or() | Not():
            return None
        case _:
            assert_never(node)


def with_slot(node: Query, slot: Slot | None, parts: Sequence[Query]) -> Query:
    """The same node with another name, where it has one, over other operands."""
    match node:
        case Exists() if slot is not None:
            return Exists(slot.name, slot.direction or Direction.FORWARD, parts[0])
        case Entity() | Concept() | HasSelf() if slot is not None:
            return type(node)(slot.name)
        case AtLeast(count) if slot is not None:
            return AtLeast(count, slot.name, slot.direction or Direction.FORWARD, parts[0])
        case _:
            return with_operands(node, parts)


def fold(
    query: Query, combine: Callable[[Query, list[T]], T], parts: Callable[[Query], tuple[Query, ...]] = operands
) -> T:
    """The value of the root, where `combine` makes a node's value from the node and the values of its `parts`.

    Bottom-up and without recursion: safe at any depth.
    """
    stack, nodes, values = [query], list[tuple[Query, int]](), list[T]()
    while stack:
        below = parts(node := stack.pop())
        nodes.append((node, len(below)))
        stack += reversed(below)
    while nodes:  # operands come before their node, the first of them last
        node, count = nodes.pop()
        values.append(combine(node, [values.pop() for _ in range(count)]))
    return values.pop()


def rename(query: Query, name: Callable[[Role, str], str]) -> Query:
    """The same tree with every name replaced by `name(role, old)`."""

    def renamed(node: Query, parts: list[Query]) -> Query:
        slot = own_slot(node)
        return with_slot(node, slot and Slot(slot.role, name(slot.role, slot.name), slot.direction), parts)

    return fold(query, renamed)


def lift(query: Query) -> tuple[Query, tuple[Slot, ...]]:
    """The shape of a query, and what its placeholders stand for, in slot order.

    >>> lift(Exists("p", Direction.INVERSE, Entity("a")))[0]
    Exists(relation='?r1', direction=<Direction.FORWARD: 'forward'>, operand=Entity(name='?e1'))
    """
    taken = slots(query)
    return _fill(query, placeholders([slot.role for slot in taken])), taken


def placeholders(roles: Sequence[Role]) -> tuple[Slot, ...]:
    """The placeholders of a shape with these roles, in slot order: counted per role, relations `FORWARD`."""
    counts = dict.fromkeys(Role, 0)
    made: list[Slot] = []
    for role in roles:
        counts[role] += 1
        direction = Direction.FORWARD if role is Role.RELATION else None
        made.append(Slot(role, f"{PREFIXES[role]}{counts[role]}", direction))
    return tuple(made)


def ground(shape: Query, fillers: Sequence[Slot]) -> Query:
    """The query of this shape with these names, one per slot in slot order: the inverse of `lift`.

    >>> query = Exists("p", Direction.INVERSE, Entity("a"))
    >>> ground(*lift(query)) == query
    True
    """
    wanted = tuple(slot.role for slot in slots(shape))
    if wanted != tuple(slot.role for slot in fillers):
        needs, given = (", ".join(r.value for r in roles) for roles in (wanted, (s.role for s in fillers)))
        raise QueryError(f"this shape has slots for ({needs}), but got ({given})")
    return _fill(shape, fillers)


def is_placeholder(name: str) -> bool:
    """Whether a name stands for any name; no IRI or literal begins with a question mark."""
    return name.startswith("?")


def _fill(shape: Query, fillers: Sequence[Slot]) -> Query:
    backwards = iter(reversed(fillers))  # as `fold` goes
    return fold(
        shape, lambda node, parts: with_slot(node, next(backwards) if isinstance(node, _NAMING) else None, parts)
    )


def _require_two(kind: str, several: tuple[Query, ...]) -> None:
    if len(several) < 2:
        raise QueryError(f"{kind} needs two operands or more, got {len(several)}; one operand stands for itself")
