"""Facts with probabilities, known ones at 1, and the probability of a query's answers that follows from them.

A query is evaluated bottom-up over fuzzy sets [B, E] (`ProbabilityAlgebra`): a conjunction is a product, a disjunction
its dual, `not` the complement, and a projection lies between its best proof and the noisy-or of its proofs. Products
take their operands for independent, which `A and not A` is not. So `compose` first makes a Boolean formula of each
conjunction and disjunction; what occurs in it more than once is decided case by case (Shannon's expansion). Hence
queries that are equal by propositional logic have equal probabilities, and no answer is likelier than a conjunct.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import reduce
from typing import TYPE_CHECKING, Final, TypeAlias, final

import numpy as np
from numpy.typing import NDArray

from tarbox.core.ids import Role
from tarbox.execution.interpreter import evaluate
from tarbox.execution.rows import EVERYTHING
from tarbox.kb.arrays import Floats, Ids, Keys
from tarbox.kb.closure import Instances
from tarbox.kb.facts import Facts
from tarbox.kb.rows import Rows, TripleKeys, pair_keys
from tarbox.query.algebra import And, Direction, Or, Query, slots, walk

if TYPE_CHECKING:
    from tarbox.models.base import Sizes


KEPT: Final = 1e-3
"""The least probability of a fact that is kept. Of a query with m leaves, what is dropped changes no product of facts
by more than m * KEPT (ADR 26)."""
_CASES: Final = 10
"""The most parts of one formula that are decided case by case; beyond, they count as independent."""
_ROWS: Final = 32
"""Queries that a thread follows a relation for at a time."""


@final
@dataclass(frozen=True, slots=True)
class FactProbabilities:
    """The links of directed relation d are `starts[d]` to `starts[d + 1]`: from `near`, increasing, to `far`.

    `concepts` are the concepts of each entity (closed under subsumption), `members` the same by concept.
    """

    starts: NDArray[np.int64]
    near: Ids
    far: Ids
    degrees: Floats
    concepts: Rows
    members: Rows

    @classmethod
    def of(
        cls, facts: Facts, sizes: Sizes, links: tuple[Keys, Floats], typings: tuple[Keys, Floats]
    ) -> FactProbabilities:
        """From facts, and what is predicted beyond them: triples by `TripleKeys` over the entities, typings by
        `entity * C + concept`, with probabilities."""
        codec = TripleKeys(max(sizes.entities, 1))
        relation, head, tail = codec.decode(links[0])
        relations = np.concatenate([facts.relations, relation]).astype(np.int64)
        heads, tails = (np.concatenate(both).astype(np.int64) for both in ((facts.heads, head), (facts.tails, tail)))
        degrees = np.concatenate([np.ones(len(facts.heads), np.float32), links[1]])
        keys = np.concatenate(
            [codec.encode(2 * relations, tails, heads), codec.encode(2 * relations + 1, heads, tails)]
        )
        order = np.argsort(keys)
        directed, near, far = codec.decode(keys[order])
        starts = np.searchsorted(directed, np.arange(sizes.directed + 1)).astype(np.int64)
        concepts = _close_typings(facts, sizes, typings)
        strength = np.concatenate([degrees, degrees])[order].astype(np.float32)
        members = concepts.transpose(sizes.concepts)
        return cls(starts, near.astype(np.int32), far.astype(np.int32), strength, concepts, members)

    def links(self) -> tuple[NDArray[np.int64], Ids, Ids, Floats]:
        return self.starts, self.near, self.far, self.degrees

    def link(self, relation: int, near: int, far: int) -> float:
        """The probability that a directed relation leads from one entity to another."""
        first, last = int(self.starts[relation]), int(self.starts[relation + 1])
        low, high = (first + np.searchsorted(self.near[first:last], [near, near + 1])).tolist()
        place = low + int(np.searchsorted(self.far[low:high], far))
        return float(self.degrees[place]) if place < high and self.far[place] == far else 0.0


def _close_typings(facts: Facts, sizes: Sizes, typings: tuple[Keys, Floats]) -> Rows:
    """Known and predicted, such that no concept of an entity has less than a sub-concept."""
    instances = Instances.of(facts)
    width = max(sizes.concepts, 1)
    typed, types = instances.concepts_of.coordinates()
    entities, concepts = np.divmod(typings[0], width)
    origin, above = instances.hierarchy.ancestors.gather(concepts)
    keys = np.concatenate([pair_keys(typed, types, width), pair_keys(entities[origin], above, width)])
    degrees = np.concatenate([np.ones(len(typed), np.float32), typings[1][origin]]).astype(np.float32)
    return Rows.of_values(keys, degrees, sizes.entities, width)


@final
@dataclass(frozen=True, slots=True)
class ProbabilityAlgebra:
    """Fuzzy sets [B, E]; `columns` gives the ids [B] of each name.

    `dependence` says how far the proofs of one projection depend on each other: 1 counts the best of them alone, 0
    all of them as independent. `floor` is what an entity counts at least in an operand of `and`: with one above 0,
    entities that one operand does not reach keep the order that the others give them.
    """

    probabilities: FactProbabilities
    columns: dict[str, Ids]
    shape: tuple[int, int]
    dependence: float = 0.0
    floor: float = 0.0

    def entity(self, name: str) -> Floats:
        found = np.zeros(self.shape, np.float32)
        found[np.arange(self.shape[0]), self.columns[name]] = 1.0
        return found

    def concept(self, name: str) -> Floats:
        found, members = np.zeros(self.shape, np.float32), self.probabilities.members
        for row, concept in enumerate(self.columns[name].tolist()):
            if concept == EVERYTHING:
                found[row] = 1.0
            else:
                found[row, members[concept]] = members.values_of(concept)
        return found

    def exists(self, relation: str, direction: Direction, operand: Floats) -> Floats:  # noqa: ARG002
        from tarbox.models.credo.kernels import project, share_out

        found = np.empty(self.shape, np.float32)
        relations = np.ascontiguousarray(self.columns[relation], np.int32)
        links, operand = self.probabilities.links(), np.ascontiguousarray(operand, np.float32)

        def work(rows: slice) -> None:
            project(links, relations[rows], operand[rows], self.dependence, found[rows])

        share_out(work, len(relations), _ROWS)
        return found

    def intersection(self, operands: Sequence[Floats]) -> Floats:
        return reduce(np.multiply, [np.maximum(operand, self.floor) for operand in operands])

    def union(self, operands: Sequence[Floats]) -> Floats:
        """Exact also for small ones, and never below an operand: 1 stays 1 whatever is rounded."""
        return reduce(lambda one, other: np.maximum(np.maximum(one, other), one + other - one * other), operands)

    def complement(self, operand: Floats) -> Floats:
        found: Floats = 1 - operand
        return found


def compose(shape: Query, algebra: ProbabilityAlgebra) -> Floats:
    """[B, E] the probabilities of all entities as answers. Equal columns are taken as equal names: rows among which
    that differs are evaluated apart."""
    if not any(isinstance(node, And | Or) for node in walk(shape)):
        return evaluate(shape, algebra)
    found = np.empty(algebra.shape, np.float32)
    for rows in _same_names(shape, algebra.columns, algebra.shape[0]):
        columns = {name: ids[rows] for name, ids in algebra.columns.items()}
        part = ProbabilityAlgebra(
            algebra.probabilities, columns, (len(rows), algebra.shape[1]), algebra.dependence, algebra.floor
        )
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
        if operand is False:
            return False

        def make() -> Floats:
            return self.algebra.exists(relation, direction, _value(operand, self.algebra, {}))

        key = b"r" + self._name(relation) + b"(" + _key(operand) + b")"
        return _Atom(key, make, (relation, self._name(relation), operand))

    def intersection(self, operands: Sequence[_Formula]) -> _Formula:
        return _join(True, operands)

    def union(self, operands: Sequence[_Formula]) -> _Formula:
        """What one relation leads to from several sets is what it leads to from their union."""
        merged: dict[bytes, list[_Atom]] = {}
        rest: list[_Formula] = []
        flat = [part for operand in operands for part in _parts(False, operand)]
        for part in flat:
            if isinstance(part, _Atom) and part.link is not None:
                merged.setdefault(part.link[1], []).append(part)
            else:
                rest.append(part)
        for same in merged.values():
            links = [part.link for part in same if part.link is not None]
            operand = _join(False, [link[2] for link in links])
            rest.append(same[0] if len(same) == 1 else self.exists(links[0][0], Direction.FORWARD, operand))
        return _join(False, rest)

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


def _value(formula: _Formula, algebra: ProbabilityAlgebra, sets: dict[_Atom, Floats], cases: int = _CASES) -> Floats:
    """[B, E] the probability of a formula whose atoms are independent; `sets` are those computed already."""
    counts = Counter(_atoms(formula))
    repeated, times = max(counts.items(), key=lambda item: item[1], default=(None, 0))
    if repeated is not None and times > 1 and cases:
        true = _set(repeated, sets)
        then, otherwise = (
            _value(_given(formula, repeated, truth), algebra, sets, cases - 1) for truth in (True, False)
        )
        return np.clip(true * then + (1 - true) * otherwise, np.minimum(then, otherwise), np.maximum(then, otherwise))
    match formula:
        case bool():
            return np.full(algebra.shape, float(formula), np.float32)
        case _Atom():
            return _set(formula, sets)
        case _Not(operand):
            return algebra.complement(_set(operand, sets))
        case _Join(every, parts):
            values = [_value(part, algebra, sets, 0) for part in parts]
            return algebra.intersection(values) if every else algebra.union(values)


def _set(atom: _Atom, sets: dict[_Atom, Floats]) -> Floats:
    if atom not in sets:
        sets[atom] = atom.make()
    return sets[atom]
