"""The facts of a knowledge base as columns of ids."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Any, Final, final

import numpy as np
import pyarrow.compute as pc
from numpy.typing import NDArray

from tarbox.core.ids import Role
from tarbox.kb.arrays import Flags, Places
from tarbox.kb.arrays import Ids as Ids  # noqa: PLC0414 - the older home of the name, exported
from tarbox.kb.axioms import Axiom
from tarbox.kb.rows import Rows, pair_keys
from tarbox.kb.vocabulary import Vocabulary

NO_SPLIT = -1
SPLITS = ("train", "valid", "test")
_COLUMNS: Final = {
    "assertions": ("heads", "relations", "tails", "splits"),
    "typings": ("typed", "types"),
    "subsumptions": ("subs", "supers"),
}
KINDS = ("entities", "concepts", "relations", "assertions", "typings", "subsumptions")


@final
@dataclass(frozen=True, slots=True)
class Inferred:
    """Which of some facts no source states, and what they follow from.

    The flags [A], [T] and [S] are true where an assertion, a typing, a subsumption is inferred. `axioms` reads the
    axioms when it is called; `mode` is that of `--infer`. With these, what follows from a part of the facts can be
    inferred again (`tarbox.kb.reasoning.inference`).
    """

    mode: str
    axioms: Callable[[], tuple[Axiom, ...]]
    assertions: Flags
    typings: Flags
    subsumptions: Flags


@final
@dataclass(frozen=True, slots=True)
class Facts:
    """What is known: the facts that the sources state, and those that were inferred, which `inferred` marks.

    What follows from subsumption alone is not among them (see `tarbox.kb.closure`).
    Assertions `<heads[i], relations[i], tails[i]>` [A] sorted by head, relation, tail; typings (`typed[i]` is an
    instance of `types[i]`) [T] sorted; subsumptions (`subs[i]` is a subclass of `supers[i]`) [S] sorted. No
    duplicates. `splits` [A] holds an index into `SPLITS` or `NO_SPLIT`, from a table's fourth column. `annotations` are
    the relations, increasing, whose objects describe their subjects (ADR 39).
    """

    vocabulary: Vocabulary
    heads: Ids
    relations: Ids
    tails: Ids
    typed: Ids
    types: Ids
    subs: Ids
    supers: Ids
    splits: NDArray[np.int8]
    inferred: Inferred | None = None
    annotations: tuple[int, ...] = ()

    @classmethod
    def of(
        cls,
        vocabulary: Vocabulary,
        assertions: Iterable[tuple[int, int, int]] = (),
        typings: Iterable[tuple[int, int]] = (),
        subsumptions: Iterable[tuple[int, int]] = (),
        annotations: Iterable[int] = (),
    ) -> Facts:
        """Facts from tuples of ids, sorted and deduplicated; for tests and small graphs."""
        columns = (*_columns(assertions, 3), *_columns(typings, 2), *_columns(subsumptions, 2))
        facts = cls.of_columns(vocabulary, columns)
        return replace(facts, annotations=tuple(sorted(set(annotations))))

    @classmethod
    def of_columns(
        cls, vocabulary: Vocabulary, columns: Iterable[Any], splits: NDArray[np.int8] | None = None
    ) -> Facts:
        """Facts from the seven columns of ids in the order of the fields, sorted already."""
        heads, relations, tails, typed, types, subs, supers = columns
        parts = np.full(len(heads), NO_SPLIT, np.int8) if splits is None else splits
        return cls(vocabulary, heads, relations, tails, typed, types, subs, supers, parts)

    def with_assertions(self, keep: Flags) -> Facts:
        """The same facts with the assertions where `keep` [A] is true."""
        return self._with("assertions", keep)

    def with_typings(self, keep: Flags) -> Facts:
        """The same facts with the typings where `keep` [T] is true."""
        return self._with("typings", keep)

    def with_subsumptions(self, keep: Flags) -> Facts:
        """The same facts with the subsumptions where `keep` [S] is true."""
        return self._with("subsumptions", keep)

    def _with(self, kind: str, keep: Flags | Places) -> Facts:
        """The same facts with some of one kind, or all of them in another order."""
        marks = self.inferred and replace(self.inferred, **{kind: getattr(self.inferred, kind)[keep]})
        return replace(self, inferred=marks, **{name: getattr(self, name)[keep] for name in _COLUMNS[kind]})

    def about_individuals(self) -> Facts:
        """The asserted assertions and typings, with all subsumptions: what a split divides."""
        if self.inferred is None:
            return self
        return self.with_assertions(~self.inferred.assertions).with_typings(~self.inferred.typings)

    def asserted(self) -> Facts:
        """The facts that a source states, alone."""
        if self.inferred is None:
            return self
        return replace(self.about_individuals().with_subsumptions(~self.inferred.subsumptions), inferred=None)

    def schema(self) -> Facts:
        """The subsumptions alone, of asserted facts: nothing else is read or copied."""
        return Facts.of_columns(self.vocabulary, [*np.empty((5, 0), np.int32), self.subs, self.supers])

    def descriptions(self) -> tuple[Ids, Ids]:
        """(entities, concepts) of the typings, and of subjects of annotation relations with the types of the objects.

        These say what describes an entity as typings say what it is an instance of: before closure, in any order.
        """
        if not self.annotations:
            return self.typed, self.types
        own = np.isin(self.relations, self.annotations)
        types = Rows.of(self.typed, self.types, len(self.vocabulary.entities), len(self.vocabulary.concepts))
        origin, concepts = types.gather(self.tails[own])
        return np.append(self.typed, self.heads[own][origin]), np.append(self.types, concepts)

    def term_typings(self) -> Flags:
        """[T] the typings that make a term an instance of itself, where there are annotation relations: no split and no
        hold-out takes them away."""
        if not self.annotations or not len(self.typed):
            return np.zeros(len(self.typed), np.bool_)
        names = self.vocabulary.entities.iris.take(self.typed), self.vocabulary.concepts.iris.take(self.types)
        return np.asarray(pc.equal(*names))

    def counts(self) -> dict[str, int]:
        """The six counts of `kb info`."""
        columns = (self.vocabulary.names(role).iris for role in Role)
        return {kind: len(column) for kind, column in zip(KINDS, (*columns, *_one_of_each(self)), strict=True)}


def _columns(rows: Iterable[tuple[int, ...]], width: int) -> list[Ids]:
    table = np.array(sorted(set(rows)), dtype=np.int32).reshape(-1, width)
    return [np.ascontiguousarray(table[:, i]) for i in range(width)]


def join_facts(given: Facts, more: Facts, mode: str, axioms: Callable[[], tuple[Axiom, ...]]) -> Facts:
    """All facts of both, those of `more` marked as inferred; nothing is in both, and `given` may have such marks."""
    kinds = len(given.vocabulary.concepts)
    names = [name for own in _COLUMNS.values() for name in own]
    columns: dict[str, Any] = {name: np.concatenate([getattr(given, name), getattr(more, name)]) for name in names}
    flags = [np.ones(len(column), np.bool_) for column in _one_of_each(more)]
    known = [np.zeros(len(column), np.bool_) for column in _one_of_each(given)]
    if given.inferred is not None:
        known = [given.inferred.assertions, given.inferred.typings, given.inferred.subsumptions]
    both = replace(given, inferred=Inferred(mode, axioms, *map(np.append, known, flags)), **columns)
    starts = pair_keys(both.heads, both.relations, len(given.vocabulary.relations))
    keys = {
        "assertions": pair_keys(starts, both.tails, len(given.vocabulary.entities)),
        "typings": pair_keys(both.typed, both.types, kinds),
        "subsumptions": pair_keys(both.subs, both.supers, kinds),
    }
    for kind, numbers in keys.items():
        both = both._with(kind, np.argsort(numbers, kind="stable"))
    return both


def _one_of_each(facts: Facts) -> tuple[Ids, Ids, Ids]:
    return facts.heads, facts.typed, facts.subs
