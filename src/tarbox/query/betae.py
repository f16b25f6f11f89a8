"""The query files of BetaE's code (KGReasoning), which much of the literature shares: structures and pickles.

A *structure* is a nested tuple: ``'e'`` an entity; ``(s, ('r', 'n'))`` operations on `s`, the first applied first;
``(s1, s2)`` an intersection; ``(s1, s2, ('u',))`` a union. A *grounding* has the same nesting with integers: ids of
entities and relations, -2 for ``'n'`` and -1 for ``'u'``. Relation ``2k`` follows relation k from head to tail, which
is ``inverse k`` in Manchester syntax; ``2k + 1`` the other way.

Pickles can run code, so only plain containers are let in.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final, TypeAlias, TypeVar, assert_never, final

from tarbox.core.errors import QueryError, QueryTooLarge, SourceError
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

    @classmethod
    def read(cls, folder: Path, iri: Callable[[str], str]) -> Dictionary:
        """From ``id2ent.pkl`` and ``id2rel.pkl``; their relation names begin with ``+`` or ``-``, the direction."""
        entities = _rows(folder / "id2ent.pkl")
        relations = _rows(folder / "id2rel.pkl")
        for name in relations:
            if name[:1] not in ("+", "-"):
                raise SourceError(f"{folder / 'id2rel.pkl'}: relation {name!r} does not begin with + or -")
        directed = [(iri(r[1:]), Direction.INVERSE if r[0] == "+" else Direction.FORWARD) for r in relations]
        return cls(tuple(iri(name) for name in entities), tuple(directed))


def read_queries(path: Path) -> dict[Structure, set[Grounding]]:
    """A ``*-queries.pkl``: the groundings of each structure."""
    return {_structure(path, key): {_grounding(path, row) for row in rows} for key, rows in _mapping(path).items()}


def read_answers(path: Path) -> dict[Grounding, set[int]]:
    """A ``*-answers.pkl``: the entity ids that answer each grounding."""
    found: dict[Grounding, set[int]] = {}
    for key, rows in _mapping(path).items():
        if not all(isinstance(row, int) for row in rows):
            raise SourceError(f"{path}: the answers of {key!r} are not entity ids")
        found[_grounding(path, key)] = set(rows)
    return found


def write_queries(path: Path, queries: Iterable[Query], dictionary: Dictionary) -> None:
    """A pickle that KGReasoning reads, of plain containers."""
    rows: dict[Structure, set[Grounding]] = {}
    for structure, grounding in _encode_all(queries, dictionary):
        rows.setdefault(structure, set()).add(grounding)
    path.write_bytes(pickle.dumps(rows))


def write_answers(path: Path, answers: Mapping[Query, Iterable[int]], dictionary: Dictionary) -> None:
    """The companion of `write_queries`: entity ids per grounding."""
    groundings = [grounding for _, grounding in _encode_all(answers, dictionary)]
    path.write_bytes(pickle.dumps(dict(zip(groundings, map(set, answers.values()), strict=True))))


def to_query(structure: Structure, grounding: Grounding, dictionary: Dictionary) -> Query:
    """The query of a structure and the ids that fill it."""
    return _decode(structure, grounding, dictionary, MAX_DEPTH)


def from_query(query: Query, dictionary: Dictionary) -> tuple[Structure, Grounding]:
    """The inverse of `to_query`, for queries without concepts."""
    entities = {name: row for row, name in enumerate(dictionary.entities)}
    relations = {directed: row for row, directed in enumerate(dictionary.relations)}
    return _encode(query, entities, relations)


def _encode_all(queries: Iterable[Query], dictionary: Dictionary) -> list[tuple[Structure, Grounding]]:
    entities = {name: row for row, name in enumerate(dictionary.entities)}
    relations = {directed: row for row, directed in enumerate(dictionary.relations)}
    return [_encode(query, entities, relations) for query in queries]


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


@final
class _PlainUnpickler(pickle.Unpickler):
    """Lets in containers and nothing that could run code."""

    _ALLOWED = frozenset(
        [(module, name) for module in ("builtins", "__builtin__") for name in ("set", "frozenset", "list", "dict")]
        + [("collections", "defaultdict")]
    )

    def find_class(self, module: str, name: str) -> Any:
        if (module, name) not in self._ALLOWED:
            allowed = "only sets, lists, tuples, dicts, numbers and strings are"
            raise SourceError(f"{module}.{name} is not let in from a pickle, which could run code; {allowed}")
        return super().find_class(module, name)


_DAMAGED = (pickle.UnpicklingError, EOFError, AttributeError, LookupError, TypeError, ValueError, RecursionError)


def load(path: Path) -> object:
    """The plain containers of a pickle; anything else in it is a `SourceError`."""
    try:
        with path.open("rb") as file:
            return _PlainUnpickler(file).load()
    except SourceError as error:
        raise SourceError(f"{path}: {error}") from error
    except OSError as error:
        raise SourceError(f"{path}: cannot be read: {error.strerror}") from error
    except _DAMAGED as error:
        raise SourceError(f"{path}: not a pickle, or a damaged one: {error}") from error


def _mapping(path: Path) -> dict[Any, Any]:
    found = load(path)
    if not isinstance(found, dict) or not all(isinstance(rows, set | frozenset | list) for rows in found.values()):
        raise SourceError(f"{path}: expected a dictionary of sets, as in KGReasoning's query files")
    return found


def _rows(path: Path) -> list[str]:
    """The strings of an ``id2ent.pkl``, by id; the ids count from zero."""
    found = load(path)
    if not isinstance(found, dict) or set(found) != set(range(len(found))):
        raise SourceError(f"{path}: expected a dictionary from 0, 1, 2, ... to names")
    return [str(found[row]) for row in range(len(found))]


def _structure(path: Path, value: object) -> Structure:
    if isinstance(value, tuple):
        return tuple(_structure(path, part) for part in value)
    if value in ("e", "r", "n", "u"):
        return str(value)
    raise SourceError(f"{path}: {value!r} is no structure of KGReasoning's")


def _grounding(path: Path, value: object) -> Grounding:
    if isinstance(value, tuple):
        return tuple(_grounding(path, part) for part in value)
    if isinstance(value, int):
        return int(value)
    raise SourceError(f"{path}: {value!r} is no grounded query of KGReasoning's")
