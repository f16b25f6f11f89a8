"""Boolean formulas over sets, in negation normal form: what a query is to Shannon's expansion.

Formulas that are equal by the laws of flat, commutative and idempotent joins are equal as values.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias, final

from tarbox.kb.arrays import Floats


@final
@dataclass(frozen=True, slots=True)
class Atom:
    """A set that a formula does not look into; `make` computes it, once."""

    key: bytes
    make: Callable[[], Floats] = field(compare=False, hash=False)
    link: tuple[str, bytes, Formula] | None = field(default=None, compare=False, hash=False)
    count: tuple[bytes, int] | None = field(default=None, compare=False, hash=False)
    """What is counted, and how many of it there are at least."""


@final
@dataclass(frozen=True, slots=True)
class Denied:
    """What is not in a set."""

    operand: Atom


@final
@dataclass(frozen=True, slots=True)
class Junction:
    """A conjunction, or a disjunction, of two or more distinct parts."""

    every: bool
    parts: tuple[Formula, ...]


Formula: TypeAlias = "Atom | Denied | Junction | bool"


def deny(formula: Formula) -> Formula:
    match formula:
        case bool():
            return not formula
        case Atom():
            return Denied(formula)
        case Denied(operand):
            return operand
        case Junction(every, parts):
            return join(not every, [deny(part) for part in parts])


def _parts(every: bool, formula: Formula) -> tuple[Formula, ...]:
    return formula.parts if isinstance(formula, Junction) and formula.every is every else (formula,)


def join(every: bool, operands: Sequence[Formula]) -> Formula:
    """The conjunction or disjunction: flat, each part once; constant where a part is, or stands beside its opposite."""
    parts = dict.fromkeys(part for operand in operands for part in _parts(every, operand))
    if (not every) in parts or any(isinstance(part, Denied) and part.operand in parts for part in parts):
        return not every
    parts.pop(every, None)
    if not parts:
        return every
    kept = tuple(sorted(parts, key=key_of))
    return kept[0] if len(kept) == 1 else Junction(every, kept)


def key_of(formula: Formula) -> bytes:
    """The same for equal formulas, whatever the order of their parts; parts are kept in the order of their keys."""
    match formula:
        case bool():
            return b"1" if formula else b"0"
        case Atom(key):
            return key
        case Denied(operand):
            return b"!" + operand.key
        case Junction(every, parts):
            return (b"&(" if every else b"|(") + b",".join(map(key_of, parts)) + b")"


def atoms_of(formula: Formula) -> Iterator[Atom]:
    match formula:
        case Atom():
            yield formula
        case Denied(operand):
            yield operand
        case Junction(_, parts):
            for part in parts:
                yield from atoms_of(part)
        case bool():
            pass


def given(formula: Formula, atom: Atom, truth: bool) -> Formula:
    """The formula where an atom is true, or false."""
    match formula:
        case Atom():
            return truth if formula == atom else formula
        case Denied(operand):
            return not truth if operand == atom else formula
        case Junction(every, parts):
            return join(every, [given(part, atom, truth) for part in parts])
        case bool():
            return formula
