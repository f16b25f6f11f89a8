"""The probability of a query's answers that follows from facts with probabilities.

A query is evaluated bottom-up over fuzzy sets [B, E] (`ProbabilityAlgebra`): a conjunction is a product, a disjunction
its dual, `not` the complement, and a projection lies between its best proof and the noisy-or of its proofs; `min n` is
the tail of the number of believed fillers (the Poisson binomial distribution), between the same two views. Products
take their operands for independent, which `A and not A` is not, nor `r some A` and `r some B`, which one link may
prove both. So `compose` first makes a Boolean formula of each conjunction and disjunction. What occurs in it more than
once is decided case by case (Shannon's expansion); of what one relation leads to, the probability of leading to none of
several sets is that of not leading to their union, which says how they go together (inclusion and exclusion); how many
fillers one set has is decided case by case, too. Hence
queries that are equal by logic have equal probabilities, and no answer is likelier than a conjunct (but for three or
more projections by one relation of fuzzy sets that overlap, where dependence is above 0: rarely, it may be).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import reduce
from itertools import pairwise
from typing import Final, TypeAlias, final

import numpy as np
from numpy.typing import NDArray

from tarbox.core.ids import Role
from tarbox.execution.interpreter import evaluate
from tarbox.execution.rows import EVERYTHING
from tarbox.kb.arrays import Floats, Ids
from tarbox.models.credo.probabilities import FactProbabilities
from tarbox.query.algebra import And, DataRange, Direction, Or, Query, slots, walk

_CASES: Final = 10
"""The most parts of one formula that are decided case by case; beyond, they count as independent."""
_TOGETHER: Final = 6
"""The most projections by one relation whose proofs are shared; beyond, they count as independent."""
Background: TypeAlias = Callable[[Ids | None], Floats | float]

_ROWS: Final = 32
"""Queries that a thread follows a relation for at a time."""


@final
@dataclass(frozen=True, slots=True)
class ProbabilityAlgebra:
    """Fuzzy sets [B, E]; `columns` gives the ids [B] of each name, `ranges` the literals of each data range.

    `dependence` says how far the proofs of one projection depend on each other: 1 counts the best of them alone, 0
    all of them as independent. `background`, where it is given, is what an entity counts at least as an operand of the
    outermost `and`, by the relation that leads there (None for a set that no relation leads to): entities that an
    operand does not reach are then ordered by the others, and by how often its relation leads to them.
    """

    probabilities: FactProbabilities
    columns: dict[str, Ids]
    shape: tuple[int, int]
    dependence: float = 0.0
    background: Background | None = None
    ranges: Mapping[DataRange, Ids] = field(default_factory=dict)

    def entity(self, name: str) -> Floats:
        found = np.zeros(self.shape, np.float32)
        found[np.arange(self.shape[0]), self.columns[name]] = 1.0
        return found

    def concept(self, name: str) -> Floats:
        found = np.zeros(self.shape, np.float32)
        for row, concept in enumerate(self.columns[name].tolist()):
            if concept == EVERYTHING:
                found[row] = 1.0
            else:
                entities, degrees = self.probabilities.members(concept)
                found[row, entities] = degrees
        return found

    def literals(self, wanted: DataRange) -> Floats:
        found = np.zeros(self.shape, np.float32)
        found[:, self.ranges[wanted]] = 1.0
        return found

    def has_self(self, relation: str) -> Floats:
        found = np.zeros(self.shape, np.float32)
        for row, number in enumerate(self.columns[relation].tolist()):
            entities, degrees = self.probabilities.loops(number)
            found[row, entities] = degrees
        return found

    def exists(self, relation: str, direction: Direction, operand: Floats) -> Floats:
        return self.at_least(1, relation, direction, operand)

    def at_least(self, count: int, relation: str, direction: Direction, operand: Floats) -> Floats:  # noqa: ARG002
        from tarbox.models.credo.kernels import project, share_out

        found = np.empty(self.shape, np.float32)
        relations = np.ascontiguousarray(self.columns[relation], np.int32)
        links, operand = self.probabilities.links(), np.ascontiguousarray(operand, np.float32)

        def work(rows: slice) -> None:
            project(links, relations[rows], operand[rows], self.dependence, found[rows], count)

        share_out(work, len(relations), _ROWS)
        return found

    def intersection(self, operands: Sequence[Floats]) -> Floats:
        return reduce(np.multiply, operands)

    def union(self, operands: Sequence[Floats]) -> Floats:
        return reduce(join_alternatives, operands)

    def complement(self, operand: Floats) -> Floats:
        found: Floats = 1 - operand
        return found


def join_alternatives(one: Floats, other: Floats) -> Floats:
    """The noisy-or of two. Written so that rounding leaves 1 where one is 1, what is small as exact as it is, and never
    more than 1."""
    found: Floats = one + other * (1 - one)
    return found


def compose(shape: Query, algebra: ProbabilityAlgebra) -> Floats:
    """[B, E] the probabilities of all entities as answers. Equal columns are taken as equal names: rows among which
    that differs are evaluated apart."""
    if not any(isinstance(node, And | Or) for node in walk(shape)):
        return evaluate(shape, algebra)
    found = np.empty(algebra.shape, np.float32)
    for rows in _same_names(shape, algebra.columns, algebra.shape[0]):
        columns = {name: ids[rows] for name, ids in algebra.columns.items()}
        part = replace(algebra, columns=columns, shape=(len(rows), algebra.shape[1]))
        found[rows] = _value(evaluate(shape, _Formulas(part)), part, {})
    return found


def _same_names(shape: Query, columns: dict[str, Ids], size: int) -> Iterator[NDArray[np.int64]]:
    """The rows by which of their slots have equal ids."""
    by_role: dict[Role, list[Ids]] = {role: [] for role in Role}
    for slot in slots(shape):
        by_role[slot.role].append(columns[slot.name])
    marks = [np.argmax(np.stack(own) == own[place], axis=0) for own in by_role.values() for place in range(1, len(own))]
    if not marks or size <= 1:
        yield np.arange(size)
        return
    _, group = np.unique(np.stack(marks, axis=1), axis=0, return_inverse=True)
    order = np.argsort(group.ravel(), kind="stable")
    yield from np.split(order, np.flatnonzero(np.diff(group.ravel()[order])) + 1)


@final
@dataclass(frozen=True, slots=True)
class _Atom:
    """A set that a formula does not look into; `make` computes it, once."""

    key: bytes
    make: Callable[[], Floats] = field(compare=False, hash=False)
    link: tuple[str, bytes, _Formula] | None = field(default=None, compare=False, hash=False)
    count: tuple[bytes, int] | None = field(default=None, compare=False, hash=False)
    """What is counted, and how many of it there are at least."""


@final
@dataclass(frozen=True, slots=True)
class _Not:
    operand: _Atom


@final
@dataclass(frozen=True, slots=True)
class _Join:
    """A conjunction, or a disjunction, of two or more distinct parts."""

    every: bool
    parts: tuple[_Formula, ...]


_Formula: TypeAlias = "_Atom | _Not | _Join | bool"


@final
@dataclass(frozen=True, slots=True)
class _Formulas:
    """Queries as Boolean formulas in negation normal form over sets; names are told apart by their columns."""

    algebra: ProbabilityAlgebra

    def _name(self, name: str) -> bytes:
        return np.ascontiguousarray(self.algebra.columns[name]).tobytes()

    def entity(self, name: str) -> _Formula:
        return _Atom(b"e" + self._name(name), lambda: self.algebra.entity(name))

    def concept(self, name: str) -> _Formula:
        if np.all(self.algebra.columns[name] == EVERYTHING):
            return True
        return _Atom(b"c" + self._name(name), lambda: self.algebra.concept(name))

    def exists(self, relation: str, direction: Direction, operand: _Formula) -> _Formula:
        return self.at_least(1, relation, direction, operand)

    def at_least(self, count: int, relation: str, direction: Direction, operand: _Formula) -> _Formula:
        if operand is False:
            return False

        def make() -> Floats:
            return self.algebra.at_least(count, relation, direction, _value(operand, self.algebra, {}))

        key = b"r" + self._name(relation) + b"(" + _key(operand) + b")"
        if count > 1:
            return _Atom(b"%d" % count + key, make, count=(key, count))
        return _Atom(key, make, (relation, self._name(relation), operand), (key, 1))

    def has_self(self, relation: str) -> _Formula:
        return _Atom(b"s" + self._name(relation), lambda: self.algebra.has_self(relation))

    def literals(self, wanted: DataRange) -> _Formula:
        return _Atom(b"l" + repr(wanted).encode(), lambda: self.algebra.literals(wanted))

    def intersection(self, operands: Sequence[_Formula]) -> _Formula:
        return _join(True, operands)

    def union(self, operands: Sequence[_Formula]) -> _Formula:
        return _join(False, operands)

    def complement(self, operand: _Formula) -> _Formula:
        return _deny(operand)


def _deny(formula: _Formula) -> _Formula:
    match formula:
        case bool():
            return not formula
        case _Atom():
            return _Not(formula)
        case _Not(operand):
            return operand
        case _Join(every, parts):
            return _join(not every, [_deny(part) for part in parts])


def _parts(every: bool, formula: _Formula) -> tuple[_Formula, ...]:
    return formula.parts if isinstance(formula, _Join) and formula.every is every else (formula,)


def _join(every: bool, operands: Sequence[_Formula]) -> _Formula:
    """The conjunction or disjunction: flat, each part once; constant where a part is, or stands beside its opposite."""
    parts = dict.fromkeys(part for operand in operands for part in _parts(every, operand))
    if (not every) in parts or any(isinstance(part, _Not) and part.operand in parts for part in parts):
        return not every
    parts.pop(every, None)
    if not parts:
        return every
    kept = tuple(sorted(parts, key=_key))
    return kept[0] if len(kept) == 1 else _Join(every, kept)


def _key(formula: _Formula) -> bytes:
    """The same for equal formulas, whatever the order of their parts; parts are kept in the order of their keys."""
    match formula:
        case bool():
            return b"1" if formula else b"0"
        case _Atom(key):
            return key
        case _Not(operand):
            return b"!" + operand.key
        case _Join(every, parts):
            return (b"&(" if every else b"|(") + b",".join(map(_key, parts)) + b")"


def _atoms(formula: _Formula) -> Iterator[_Atom]:
    match formula:
        case _Atom():
            yield formula
        case _Not(operand):
            yield operand
        case _Join(_, parts):
            for part in parts:
                yield from _atoms(part)
        case bool():
            pass


def _given(formula: _Formula, atom: _Atom, truth: bool) -> _Formula:
    """The formula where an atom is true, or false."""
    match formula:
        case _Atom():
            return truth if formula == atom else formula
        case _Not(operand):
            return not truth if operand == atom else formula
        case _Join(every, parts):
            return _join(every, [_given(part, atom, truth) for part in parts])
        case bool():
            return formula


def _merge(formula: _Formula, counts: Counter[_Atom], formulas: _Formulas) -> _Formula:
    """With one projection in the place of several by one relation where these are alternatives, or all denied: what a
    relation leads to from any of several sets is what it leads to from their union. Only what occurs once is merged."""
    if not isinstance(formula, _Join):
        return formula
    by_relation: dict[bytes, list[tuple[str, bytes, _Formula]]] = {}
    parts: list[_Formula] = []
    for part in formula.parts:
        atom = part.operand if isinstance(part, _Not) and formula.every else part
        if isinstance(atom, _Atom) and atom.link is not None and counts[atom] == 1 and formula.every != (atom is part):
            by_relation.setdefault(atom.link[1], []).append(atom.link)
        else:
            parts.append(_merge(part, counts, formulas))
    for links in by_relation.values():
        merged = formulas.exists(links[0][0], Direction.FORWARD, _join(False, [operand for _, _, operand in links]))
        parts.append(_deny(merged) if formula.every else merged)
    return _join(formula.every, parts)


def _value(formula: _Formula, algebra: ProbabilityAlgebra, sets: dict[_Atom, Floats], cases: int = _CASES) -> Floats:  # noqa: PLR0911
    """[B, E] the probability of a formula; `sets` are those computed already."""
    if cases and (counted := _counted(_atoms(formula))):
        return _counted_value(formula, counted, algebra, sets, cases - 1)
    formula = _merge(formula, Counter(_atoms(formula)), _Formulas(algebra))
    counts = Counter(_atoms(formula))
    together = [] if algebra.background else _together(counts, algebra.dependence)
    shared = {atom for group in together for atom in group}
    single = ((atom, times) for atom, times in counts.items() if atom not in shared)
    repeated, times = max(single, key=lambda item: item[1], default=(None, 0))
    if repeated is not None and times > 1 and cases:
        true = _set(repeated, sets)
        then, otherwise = (
            _value(_given(formula, repeated, truth), algebra, sets, cases - 1) for truth in (True, False)
        )
        return true * then + (1 - true) * otherwise
    if together:
        return _joint_value(formula, together[0], algebra, sets)
    match formula:
        case bool():
            return np.full(algebra.shape, float(formula), np.float32)
        case _Atom():
            return _set(formula, sets)
        case _Not(operand):
            return algebra.complement(_set(operand, sets))
        case _Join(every, parts):
            values = [_value(part, algebra, sets, 0) for part in parts]
            if every and algebra.background is not None:
                values = [_raise(part, value, algebra) for part, value in zip(parts, values, strict=True)]
            return algebra.intersection(values) if every else algebra.union(values)


def _raise(part: _Formula, value: Floats, algebra: ProbabilityAlgebra) -> Floats:
    """With the background of a conjunct."""
    assert algebra.background is not None
    link = part.link if isinstance(part, _Atom) else None
    found: Floats = np.maximum(value, algebra.background(algebra.columns[link[0]] if link else None))
    return found


def _counted(atoms: Iterable[_Atom]) -> list[_Atom]:
    """Several atoms that say of one thing how many of it there are, the fewest first; none where there are none."""
    found: dict[bytes, dict[int, _Atom]] = {}
    for atom in atoms:
        if atom.count is not None:
            found.setdefault(atom.count[0], {})[atom.count[1]] = atom
    return next(([own[number] for number in sorted(own)] for own in found.values() if len(own) > 1), [])


def _counted_value(
    formula: _Formula, counted: Sequence[_Atom], algebra: ProbabilityAlgebra, sets: dict[_Atom, Floats], cases: int
) -> Floats:
    """Of a formula with several counts of one thing: the sum over how many of the counts are reached."""
    found = np.zeros(algebra.shape, np.float32)
    likely = [found + 1, *(_set(atom, sets) for atom in counted), found.copy()]
    for reached, (here, next_one) in enumerate(pairwise(likely)):
        left = formula
        for place, atom in enumerate(counted):
            left = _given(left, atom, place < reached)
        found += np.maximum(here - next_one, 0) * _value(left, algebra, sets, cases)
    return np.minimum(found, 1)


def _together(atoms: Iterable[_Atom], dependence: float) -> list[list[_Atom]]:
    """The projections of each relation that makes two or more of them, unless they are independent: links from
    different entities are different facts."""
    found: dict[bytes, list[_Atom]] = {}
    for atom in atoms:
        if atom.link is not None:
            found.setdefault(atom.link[1], []).append(atom)
    return [
        group
        for group in found.values()
        if 1 < len(group) <= _TOGETHER and not (dependence == 0 and all(map(_from_entity, group)))
    ]


def _from_entity(atom: _Atom) -> bool:
    return atom.link is not None and isinstance(atom.link[2], _Atom) and atom.link[2].key.startswith(b"e")


def _joint_value(
    formula: _Formula, together: Sequence[_Atom], algebra: ProbabilityAlgebra, sets: dict[_Atom, Floats]
) -> Floats:
    """Of a formula with several projections by one relation: a sum, with signs, of the probabilities that the relation
    leads from none of some sets, each times that of what the formula is then.

    That projection a is true, and those before it are not, is P(none of those) - P(neither those nor a).
    """
    terms: Counter[tuple[_Formula, _Formula]] = Counter()

    def spread(left: _Formula, atoms: Sequence[_Atom], none: _Formula, sign: int) -> None:
        if left is False:
            return
        if not atoms:
            terms[none, left] += sign
            return
        atom, rest = atoms[0], atoms[1:]
        assert atom.link is not None
        more = _join(False, [none, atom.link[2]])
        spread(_given(left, atom, False), rest, more, sign)
        spread(_given(left, atom, True), rest, none, sign)
        spread(_given(left, atom, True), rest, more, -sign)

    spread(formula, together, False, 1)
    first = together[0].link
    assert first is not None
    found = np.zeros(algebra.shape, np.float64)
    for (none, left), times in terms.items():
        if times:
            reached = _value(_Formulas(algebra).exists(first[0], Direction.FORWARD, none), algebra, sets)
            found += times * (1.0 - reached.astype(np.float64)) * _value(left, algebra, sets)
    return np.clip(found, 0.0, 1.0).astype(np.float32)


def _set(atom: _Atom, sets: dict[_Atom, Floats]) -> Floats:
    if atom not in sets:
        sets[atom] = atom.make()
    return sets[atom]
