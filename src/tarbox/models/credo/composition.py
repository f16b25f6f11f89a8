"""The probability of a query's answers that follows from facts with probabilities.

Facts are taken for independent. A query is evaluated bottom-up over fuzzy sets [B, E] (`ProbabilityAlgebra`): a
conjunction is a product, a disjunction its dual, `not` the complement, a projection the noisy-or of its proofs, and
`min n` the tail of the number of fillers (the Poisson binomial distribution). Products take their operands for
independent, which `A and not A` is not, nor `r some A` and `r some B`, which one link may prove both. So `compose`
first makes a Boolean formula of each conjunction and disjunction. What occurs in it more than once is decided case by
case (Shannon's expansion); of what one relation leads to, the probability of leading to none of several sets is that of
not leading to their union, which says how they go together (inclusion and exclusion); how many fillers one set has is
decided case by case, too. Hence queries that are equal by logic have equal probabilities, and no answer is likelier
than a conjunct.
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
from tarbox.models.credo.formulas import Atom, Denied, Formula, Junction, atoms_of, deny, given, join, key_of
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

    `background`, where it is given, is what an entity counts at least as an operand of `and`, by the relation that
    leads there (None for a set that no relation leads to): entities that an operand does not reach are then ordered by
    the others, and by how often its relation leads to them.
    """

    probabilities: FactProbabilities
    columns: dict[str, Ids]
    shape: tuple[int, int]
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
        from tarbox.models.credo.kernels import project, project_counted, share_out

        found = np.empty(self.shape, np.float32)
        relations = np.ascontiguousarray(self.columns[relation], np.int32)
        links, operand = self.probabilities.links(), np.ascontiguousarray(operand, np.float32)

        def work(rows: slice) -> None:
            if count == 1:
                project(links, relations[rows], operand[rows], found[rows])
            else:
                project_counted(links, relations[rows], operand[rows], count, found[rows])

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
class _Formulas:
    """Queries as Boolean formulas in negation normal form over sets; names are told apart by their columns."""

    algebra: ProbabilityAlgebra

    def _name(self, name: str) -> bytes:
        return np.ascontiguousarray(self.algebra.columns[name]).tobytes()

    def entity(self, name: str) -> Formula:
        return Atom(b"e" + self._name(name), lambda: self.algebra.entity(name))

    def concept(self, name: str) -> Formula:
        if np.all(self.algebra.columns[name] == EVERYTHING):
            return True
        return Atom(b"c" + self._name(name), lambda: self.algebra.concept(name))

    def exists(self, relation: str, direction: Direction, operand: Formula) -> Formula:
        return self.at_least(1, relation, direction, operand)

    def at_least(self, count: int, relation: str, direction: Direction, operand: Formula) -> Formula:
        if operand is False:
            return False

        def make() -> Floats:
            return self.algebra.at_least(count, relation, direction, _value(operand, self.algebra, {}))

        key = b"r" + self._name(relation) + b"(" + key_of(operand) + b")"
        if count > 1:
            return Atom(b"%d" % count + key, make, count=(key, count))
        return Atom(key, make, (relation, self._name(relation), operand), (key, 1))

    def has_self(self, relation: str) -> Formula:
        return Atom(b"s" + self._name(relation), lambda: self.algebra.has_self(relation))

    def literals(self, wanted: DataRange) -> Formula:
        return Atom(b"l" + repr(wanted).encode(), lambda: self.algebra.literals(wanted))

    def intersection(self, operands: Sequence[Formula]) -> Formula:
        return join(True, operands)

    def union(self, operands: Sequence[Formula]) -> Formula:
        return join(False, operands)

    def complement(self, operand: Formula) -> Formula:
        return deny(operand)


def _merge(formula: Formula, counts: Counter[Atom], formulas: _Formulas) -> Formula:
    """With one projection in the place of several by one relation where these are alternatives, or all denied: what a
    relation leads to from any of several sets is what it leads to from their union. Only what occurs once is merged."""
    if not isinstance(formula, Junction):
        return formula
    by_relation: dict[bytes, list[tuple[str, bytes, Formula]]] = {}
    parts: list[Formula] = []
    for part in formula.parts:
        atom = part.operand if isinstance(part, Denied) and formula.every else part
        if isinstance(atom, Atom) and atom.link is not None and counts[atom] == 1 and formula.every != (atom is part):
            by_relation.setdefault(atom.link[1], []).append(atom.link)
        else:
            parts.append(_merge(part, counts, formulas))
    for links in by_relation.values():
        merged = formulas.exists(links[0][0], Direction.FORWARD, join(False, [operand for _, _, operand in links]))
        parts.append(deny(merged) if formula.every else merged)
    return join(formula.every, parts)


def _value(formula: Formula, algebra: ProbabilityAlgebra, sets: dict[Atom, Floats], cases: int = _CASES) -> Floats:  # noqa: PLR0911
    """[B, E] the probability of a formula; `sets` are those computed already."""
    if cases and (counted := _counted(atoms_of(formula))):
        return _counted_value(formula, counted, algebra, sets, cases - 1)
    formula = _merge(formula, Counter(atoms_of(formula)), _Formulas(algebra))
    counts = Counter(atoms_of(formula))
    together = [] if algebra.background else _together(counts)
    shared = {atom for group in together for atom in group}
    single = ((atom, times) for atom, times in counts.items() if atom not in shared)
    repeated, times = max(single, key=lambda item: item[1], default=(None, 0))
    if repeated is not None and times > 1 and cases:
        true = _set(repeated, sets)
        then, otherwise = (_value(given(formula, repeated, truth), algebra, sets, cases - 1) for truth in (True, False))
        return true * then + (1 - true) * otherwise
    if together:
        return _joint_value(formula, together[0], algebra, sets)
    match formula:
        case bool():
            return np.full(algebra.shape, float(formula), np.float32)
        case Atom():
            return _set(formula, sets)
        case Denied(operand):
            return algebra.complement(_set(operand, sets))
        case Junction(every, parts):
            values = [_value(part, algebra, sets, 0) for part in parts]
            if every and algebra.background is not None:
                values = [_raise(part, value, algebra) for part, value in zip(parts, values, strict=True)]
            return algebra.intersection(values) if every else algebra.union(values)


def _raise(part: Formula, value: Floats, algebra: ProbabilityAlgebra) -> Floats:
    """With the background of a conjunct."""
    assert algebra.background is not None
    link = part.link if isinstance(part, Atom) else None
    found: Floats = np.maximum(value, algebra.background(algebra.columns[link[0]] if link else None))
    return found


def _counted(atoms: Iterable[Atom]) -> list[Atom]:
    """Several atoms that say of one thing how many of it there are, the fewest first; none where there are none."""
    found: dict[bytes, dict[int, Atom]] = {}
    for atom in atoms:
        if atom.count is not None:
            found.setdefault(atom.count[0], {})[atom.count[1]] = atom
    return next(([own[number] for number in sorted(own)] for own in found.values() if len(own) > 1), [])


def _counted_value(
    formula: Formula, counted: Sequence[Atom], algebra: ProbabilityAlgebra, sets: dict[Atom, Floats], cases: int
) -> Floats:
    """Of a formula with several counts of one thing: the sum over how many of the counts are reached."""
    found = np.zeros(algebra.shape, np.float32)
    likely = [found + 1, *(_set(atom, sets) for atom in counted), found.copy()]
    for reached, (here, next_one) in enumerate(pairwise(likely)):
        left = formula
        for place, atom in enumerate(counted):
            left = given(left, atom, place < reached)
        found += np.maximum(here - next_one, 0) * _value(left, algebra, sets, cases)
    return np.minimum(found, 1)


def _together(atoms: Iterable[Atom]) -> list[list[Atom]]:
    """The projections of each relation that makes two or more of them, unless they are independent: links from
    different entities are different facts."""
    found: dict[bytes, list[Atom]] = {}
    for atom in atoms:
        if atom.link is not None:
            found.setdefault(atom.link[1], []).append(atom)
    return [group for group in found.values() if 1 < len(group) <= _TOGETHER and not all(map(_from_entity, group))]


def _from_entity(atom: Atom) -> bool:
    return atom.link is not None and isinstance(atom.link[2], Atom) and atom.link[2].key.startswith(b"e")


def _joint_value(
    formula: Formula, together: Sequence[Atom], algebra: ProbabilityAlgebra, sets: dict[Atom, Floats]
) -> Floats:
    """Of a formula with several projections by one relation: a sum, with signs, of the probabilities that the relation
    leads from none of some sets, each times that of what the formula is then.

    That projection a is true, and those before it are not, is P(none of those) - P(neither those nor a).
    """
    terms: Counter[tuple[Formula, Formula]] = Counter()

    def spread(left: Formula, atoms: Sequence[Atom], none: Formula, sign: int) -> None:
        if left is False:
            return
        if not atoms:
            terms[none, left] += sign
            return
        atom, rest = atoms[0], atoms[1:]
        assert atom.link is not None
        more = join(False, [none, atom.link[2]])
        spread(given(left, atom, False), rest, more, sign)
        spread(given(left, atom, True), rest, none, sign)
        spread(given(left, atom, True), rest, more, -sign)

    spread(formula, together, False, 1)
    first = together[0].link
    assert first is not None
    found = np.zeros(algebra.shape, np.float64)
    for (none, left), times in terms.items():
        if times:
            reached = _value(_Formulas(algebra).exists(first[0], Direction.FORWARD, none), algebra, sets)
            found += times * (1.0 - reached.astype(np.float64)) * _value(left, algebra, sets)
    return np.clip(found, 0.0, 1.0).astype(np.float32)


def _set(atom: Atom, sets: dict[Atom, Floats]) -> Floats:
    if atom not in sets:
        sets[atom] = atom.make()
    return sets[atom]
