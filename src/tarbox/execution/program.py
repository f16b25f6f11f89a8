"""A shape as a small postfix program, which the kernels run over tables of ids.

Compiling is one more algebra: its sets are fragments of instructions. Read forwards, a program answers a query, with
a stack of sets; read backwards, it samples one, with a stack of entities: `BOTH` then means "this entity in both
branches" and `EXISTS` "a relation and a neighbour of it". Nothing after this module knows a template from another.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import chain
from typing import Final, NamedTuple, final

import numpy as np

from tarbox.execution.interpreter import evaluate
from tarbox.kb.arrays import Ids
from tarbox.query.algebra import DataRange, Direction, Query, slots, walk
from tarbox.query.ranges import write_range

ENTITY: Final = 0  # push {the entity in a slot}
CONCEPT: Final = 1  # push {the node of the concept in a slot}
TYPING: Final = 2  # replace a set of concept nodes by their instances
EXISTS: Final = 3  # replace a set by what the directed relation in a slot leads to it
BOTH: Final = 4  # replace two sets by their intersection
EITHER: Final = 5  # replace two sets by their union
NOT: Final = 6  # replace a set by its complement
AT_LEAST: Final = 7  # replace a set by what the directed relation in a slot leads to it from as many as the number says
SELF: Final = 8  # push what the relation in a slot leads from itself to
LITERALS: Final = 9  # push the literals of the data range with this number


class Program(NamedTuple):
    """Instruction k is `operations[k]`, applied to slot `slots[k]` where it has one, with the number `numbers[k]`.

    `depth` is how high the stack grows; `width` the number of slots. `siblings` describes the branches of an `And` or
    `Or` that have one structure, inner nodes first, as runs of integers: the number of branches, the number of slots
    of each, then the slots branch by branch. Exchanging such branches changes no answer. The literals of data range n,
    which a knowledge base says (`tarbox.execution.literals`), are `literals[literal_starts[n]:literal_starts[n + 1]]`.
    """

    operations: Ids
    slots: Ids
    numbers: Ids
    siblings: Ids
    depth: int
    width: int
    literals: Ids
    literal_starts: Ids


@lru_cache(maxsize=1024)
def compile_shape(shape: Query) -> Program:
    """The program of a shape (see `tarbox.query.algebra.lift`); its data ranges are empty, numbered as `data_ranges`
    lists them."""
    places = {slot.name: number for number, slot in enumerate(slots(shape))}
    ranges = data_ranges(shape)
    fragment = evaluate(shape, _Compiler(places, ranges))
    operations, places_of, numbers = (np.array(column, np.int32) for column in zip(*fragment.code, strict=True))
    siblings, none = np.array(fragment.siblings, np.int32), np.empty(0, np.int32)
    starts = np.zeros(len(ranges) + 1, np.int32)
    return Program(operations, places_of, numbers, siblings, fragment.depth, len(places), none, starts)


def data_ranges(shape: Query) -> tuple[DataRange, ...]:
    """The data ranges of a shape, each once."""
    return tuple(dict.fromkeys(node for node in walk(shape) if isinstance(node, DataRange)))


@final
@dataclass(frozen=True, slots=True)
class _Fragment:
    """The instructions of a part; its structure without names; its slots in slot order."""

    code: tuple[tuple[int, int, int], ...]
    structure: str
    slots: tuple[int, ...]
    depth: int = 1
    siblings: tuple[int, ...] = ()


@final
@dataclass(frozen=True, slots=True)
class _Compiler:
    """The algebra of fragments; `places` gives the slot of each placeholder, `ranges` numbers the data ranges."""

    places: dict[str, int]
    ranges: tuple[DataRange, ...]

    def entity(self, name: str) -> _Fragment:
        slot = self.places[name]
        return _Fragment(((ENTITY, slot, 0),), "e", (slot,))

    def concept(self, name: str) -> _Fragment:
        slot = self.places[name]
        return _Fragment(((CONCEPT, slot, 0), (TYPING, 0, 0)), "c", (slot,))

    def exists(self, relation: str, direction: Direction, operand: _Fragment) -> _Fragment:
        return self._project(EXISTS, 0, relation, direction, operand)

    def at_least(self, count: int, relation: str, direction: Direction, operand: _Fragment) -> _Fragment:
        return self._project(AT_LEAST, count, relation, direction, operand)

    def _project(
        self, operation: int, number: int, relation: str, direction: Direction, operand: _Fragment
    ) -> _Fragment:
        assert direction is Direction.FORWARD, "a shape's directions are in its slots"
        slot = self.places[relation]
        code = (*operand.code, (operation, slot, number))
        structure = f"r{number or ''}{operand.structure}"
        return _Fragment(code, structure, (slot, *operand.slots), operand.depth, operand.siblings)

    def has_self(self, relation: str) -> _Fragment:
        slot = self.places[relation]
        return _Fragment(((SELF, slot, 0),), "s", (slot,))

    def literals(self, wanted: DataRange) -> _Fragment:
        return _Fragment(((LITERALS, 0, self.ranges.index(wanted)),), f"l{write_range(wanted)}", ())

    def intersection(self, operands: Sequence[_Fragment]) -> _Fragment:
        return _fold(BOTH, "&", operands)

    def union(self, operands: Sequence[_Fragment]) -> _Fragment:
        return _fold(EITHER, "|", operands)

    def complement(self, operand: _Fragment) -> _Fragment:
        code = (*operand.code, (NOT, 0, 0))
        return _Fragment(code, f"-{operand.structure}", operand.slots, operand.depth, operand.siblings)


def _fold(operation: int, sign: str, operands: Sequence[_Fragment]) -> _Fragment:
    deepest_first = sorted(operands, key=lambda part: -part.depth)  # keeps the stack as low as can be
    code = list(deepest_first[0].code)
    for part in deepest_first[1:]:
        code += [*part.code, (operation, 0, 0)]
    return _Fragment(
        tuple(code),
        f"{sign}({','.join(part.structure for part in operands)})",
        tuple(chain.from_iterable(part.slots for part in operands)),
        max(part.depth + min(place, 1) for place, part in enumerate(deepest_first)),
        tuple(chain.from_iterable(part.siblings for part in operands)) + _alike(operands),
    )


def _alike(operands: Sequence[_Fragment]) -> tuple[int, ...]:
    """The runs of `Program.siblings` for one node."""
    classes: dict[str, list[_Fragment]] = {}
    for part in operands:
        classes.setdefault(part.structure, []).append(part)
    runs: list[int] = []
    for parts in classes.values():
        if len(parts) > 1:
            runs += [len(parts), len(parts[0].slots), *chain.from_iterable(part.slots for part in parts)]
    return tuple(runs)
