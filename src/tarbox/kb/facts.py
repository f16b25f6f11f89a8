"""The facts of a knowledge base as columns of ids."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Any, final

import numpy as np
import pyarrow.compute as pc
from numpy.typing import NDArray

from tarbox.kb.arrays import Flags
from tarbox.kb.arrays import Ids as Ids  # noqa: PLC0414 - the older home of the name, exported
from tarbox.kb.axioms import Axiom
from tarbox.kb.rows import Rows, pair_keys
from tarbox.kb.vocabulary import Vocabulary

NO_SPLIT = -1
SPLITS = ("train", "valid", "test")
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
    the relations, increasing, whose objects describe their subjects (ADR 50).
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
        heads, relations, tails = _columns(assertions, 3)
        typed, types = _columns(typings, 2)
        subs, supers = _columns(subsumptions, 2)
        facts = cls.of_columns(vocabulary, (heads, relations, tails, typed, types, subs, supers))
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
        inferred = self.inferred and replace(self.inferred, assertions=self.inferred.assertions[keep])
        return replace(
            self,
            inferred=inferred,
            heads=self.heads[keep],
            relations=self.relations[keep],
            tails=self.tails[keep],
            splits=self.splits[keep],
        )

    def with_typings(self, keep: Flags) -> Facts:
        """The same facts with the typings where `keep` [T] is true."""
        inferred = self.inferred and replace(self.inferred, typings=self.inferred.typings[keep])
        return replace(self, inferred=inferred, typed=self.typed[keep], types=self.types[keep])

    def with_subsumptions(self, keep: Flags) -> Facts:
        """The same facts with the subsumptions where `keep` [S] is true."""
        inferred = self.inferred and replace(self.inferred, subsumptions=self.inferred.subsumptions[keep])
        return replace(self, inferred=inferred, subs=self.subs[keep], supers=self.supers[keep])

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
        return {
            "entities": len(self.vocabulary.entities),
            "concepts": len(self.vocabulary.concepts),
            "relations": len(self.vocabulary.relations),
            "assertions": len(self.heads),
            "typings": len(self.typed),
            "subsumptions": len(self.subs),
        }


def _columns(rows: Iterable[tuple[int, ...]], width: int) -> list[Ids]:
    table = np.array(sorted(set(rows)), dtype=np.int32).reshape(-1, width)
    return [np.ascontiguousarray(table[:, i]) for i in range(width)]


def join_facts(given: Facts, more: Facts, mode: str, axioms: Callable[[], tuple[Axiom, ...]]) -> Facts:
    """All facts of both, those of `more` marked as inferred; nothing is in both, and `given` may have such marks."""
    kinds = len(given.vocabulary.concepts)
    marks = given.inferred or Inferred(mode, axioms, *(np.zeros(len(c), np.bool_) for c in _one_of_each(given)))
    names = ("heads", "relations", "tails", "typed", "types", "subs", "supers")
    both = Facts.of_columns(
        given.vocabulary,
        [np.concatenate([getattr(given, name), getattr(more, name)]) for name in names],
        np.concatenate([given.splits, more.splits]),
    )
    starts = pair_keys(both.heads, both.relations, len(given.vocabulary.relations))
    orders = [
        np.argsort(keys, kind="stable")
        for keys in (
            pair_keys(starts, both.tails, len(given.vocabulary.entities)),
            pair_keys(both.typed, both.types, kinds),
            pair_keys(both.subs, both.supers, kinds),
        )
    ]
    flags = [
        np.append(old, np.ones(len(column), np.bool_))[order]
        for old, column, order in zip(
            (marks.assertions, marks.typings, marks.subsumptions), _one_of_each(more), orders, strict=True
        )
    ]
    by_fact, by_typing, by_subsumption = orders
    return Facts(
        given.vocabulary,
        both.heads[by_fact],
        both.relations[by_fact],
        both.tails[by_fact],
        both.typed[by_typing],
        both.types[by_typing],
        both.subs[by_subsumption],
        both.supers[by_subsumption],
        both.splits[by_fact],
        Inferred(mode, axioms, *flags),
        given.annotations,
    )


def _one_of_each(facts: Facts) -> tuple[Ids, Ids, Ids]:
    return facts.heads, facts.typed, facts.subs
