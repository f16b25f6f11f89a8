"""The query structures of BetaE's code (KGReasoning), which much of the literature shares.

A *structure* is a nested tuple: ``'e'`` an entity; ``(s, ('r', 'n'))`` operations on `s`, the first applied first;
``(s1, s2)`` an intersection; ``(s1, s2, ('u',))`` a union. A *grounding* has the same nesting with integers: ids of
entities and relations, -2 for ``'n'`` and -1 for ``'u'``. Relation ``2k`` follows relation k from head to tail, which
is ``inverse k`` in Manchester syntax; ``2k + 1`` the other way. `tarbox.benchmark.query_folders` reads files of them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final, TypeAlias, TypeVar, assert_never, final

from tarbox.core.errors import QueryError, QueryTooLarge
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
    conjunction,
    disjunction,
)
from tarbox.query.render import render

Structure: TypeAlias = "str | tuple[Structure, ...]"
Grounding: TypeAlias = "int | tuple[Grounding, ...]"
T = TypeVar("T")

NEGATION: Final = -2
UNION: Final = -1
MAX_DEPTH: Final = 100

_E: Final[Structure] = ("e", ("r",))
_N: Final[Structure] = ("e", ("r", "n"))

STRUCTURES: Final[Mapping[str, Structure]] = MappingProxyType(
    {
        "1p": _E,
        "2p": ("e", ("r", "r")),
        "3p": ("e", ("r", "r", "r")),
        "2i": (_E, _E),
        "3i": (_E, _E, _E),
        "pi": (("e", ("r", "r")), _E),
        "ip": ((_E, _E), ("r",)),
        "2u-DNF": (_E, _E, ("u",)),
        "up-DNF": ((_E, _E, ("u",)), ("r",)),
        "2u-DM": ((_N, _N), ("n",)),
        "up-DM": ((_N, _N), ("n", "r")),
        "2in": (_E, _N),
        "3in": (_E, _E, _N),
        "inp": ((_E, _N), ("r",)),
        "pin": (("e", ("r", "r")), _N),
        "pni": (("e", ("r", "r", "n")), _E),
    }
)
"""KGReasoning's own names. A union has two forms there: disjunctive (DNF) and by De Morgan's law (DM)."""

TEMPLATE_OF: Final[Mapping[str, str]] = MappingProxyType({name: name.partition("-")[0] for name in STRUCTURES})
"""The template that means the same as a name of KGReasoning's; the DM forms mean the unions too."""

STRUCTURE_OF: Final[Mapping[str, str]] = MappingProxyType(
    {template: name for name, template in TEMPLATE_OF.items() if not name.endswith("-DM")}
)
"""KGReasoning's name for a template, unions in disjunctive form."""


@final
@dataclass(frozen=True, slots=True)
class Dictionary:
    """What the integers of a grounding stand for: a term per entity id, a directed relation per relation id."""

    entities: tuple[str, ...]
    relations: tuple[tuple[str, Direction], ...]

    @classmethod
    def of(cls, entities: Sequence[str], relations: Sequence[str]) -> Dictionary:
        """Relation k of `relations` gets the ids 2k (head to tail) and 2k + 1."""
        both = [(name, direction) for name in relations for direction in (Direction.INVERSE, Direction.FORWARD)]
        return cls(tuple(entities), tuple(both))


def to_query(structure: Structure, grounding: Grounding, dictionary: Dictionary) -> Query:
    """The query of a structure and the ids that fill it."""
    return _decode(structure, grounding, dictionary, MAX_DEPTH)


def from_query(query: Query, dictionary: Dictionary) -> tuple[Structure, Grounding]:
    """The inverse of `to_query`, for queries without concepts."""
    entities = {name: row for row, name in enumerate(dictionary.entities)}
    relations = {directed: row for row, directed in enumerate(dictionary.relations)}
    return _encode(query, entities, relations)


def _encode(
    query: Query, entities: Mapping[str, int], relations: Mapping[tuple[str, Direction], int]
) -> tuple[Structure, Grounding]:
    match query:
        case Entity(name):
            return "e", _id(name, entities)
        case Concept(name):
            raise QueryError(f"the concept {name} has no form in a KGReasoning query; it knows entities only")
        case DataRange() | AtLeast() | HasSelf():
            raise QueryError(f"{render(query)} has no form in a KGReasoning query")
        case Exists(relation, direction, operand):
            return _operate(_encode(operand, entities, relations), "r", _id((relation, direction), relations))
        case Not(operand):
            return _operate(_encode(operand, entities, relations), "n", NEGATION)
        case And(several):
            parts = [_encode(operand, entities, relations) for operand in several]
            return tuple(s for s, _ in parts), tuple(g for _, g in parts)
        case Or(several):
            parts = [_encode(operand, entities, relations) for operand in several]
            return (*(s for s, _ in parts), ("u",)), (*(g for _, g in parts), (UNION,))
        case _:
            assert_never(query)


def _operate(inner: tuple[Structure, Grounding], mark: str, number: int) -> tuple[Structure, Grounding]:
    """Adds an operation to a chain, or begins one."""
    structure, grounding = inner
    chain = _chain(structure)
    if chain is None or isinstance(grounding, int):
        return (structure, (mark,)), (grounding, (number,))
    return (chain[0], (*chain[1], mark)), (grounding[0], (*_numbers(grounding[1]), number))


def _decode(structure: Structure, grounding: Grounding, dictionary: Dictionary, levels: int) -> Query:
    if levels == 0:
        raise QueryTooLarge(f"a structure is nested more than {MAX_DEPTH} levels deep, the limit")
    if structure == "e" and isinstance(grounding, int):
        return Entity(_at(dictionary.entities, grounding, "entity"))
    if isinstance(structure, str) or isinstance(grounding, int) or len(structure) != len(grounding):
        raise QueryError(f"the grounding {grounding!r} does not fit the structure {structure!r}")
    chain = _chain(structure)
    if chain is not None:
        query = _decode(chain[0], grounding[0], dictionary, levels - 1)
        numbers = _numbers(grounding[1])
        if len(numbers) != len(chain[1]):
            raise QueryError(f"the grounding {grounding!r} does not fit the structure {structure!r}")
        for mark, number in zip(chain[1], numbers, strict=True):
            query = Not(query) if mark == "n" else _project(query, number, dictionary)
        return query
    union = structure[-1] == ("u",)
    pairs = list(zip(structure, grounding, strict=True))[: -1 if union else None]
    if not pairs:
        raise QueryError(f"{structure!r} is no structure of KGReasoning's")
    parts = [_decode(s, g, dictionary, levels - 1) for s, g in pairs]
    return disjunction(parts) if union else conjunction(parts)


def _project(query: Query, number: int, dictionary: Dictionary) -> Query:
    relation, direction = _at(dictionary.relations, number, "relation")
    return Exists(relation, direction, query)


def _chain(structure: Structure) -> tuple[Structure, tuple[str, ...]] | None:
    """The base and the operations of a structure that is a chain of them."""
    if isinstance(structure, str) or len(structure) != 2 or isinstance(structure[1], str):
        return None
    marks = tuple(str(mark) for mark in structure[1] if mark in ("r", "n"))
    return (structure[0], marks) if marks and len(marks) == len(structure[1]) else None


def _numbers(grounding: Grounding) -> list[int]:
    numbers = [number for number in grounding if isinstance(number, int)] if isinstance(grounding, tuple) else []
    if not isinstance(grounding, tuple) or len(numbers) != len(grounding):
        raise QueryError(f"{grounding!r} is not a row of relation ids")
    return numbers


def _at(rows: Sequence[T], row: int, kind: str) -> T:
    if not 0 <= row < len(rows):
        raise QueryError(f"there is no {kind} {row}: the dictionary has {len(rows):,}")
    return rows[row]


def _id(key: T, ids: Mapping[T, int]) -> int:
    if key not in ids:
        raise QueryError(f"{key!r} is not in the dictionary")
    return ids[key]
