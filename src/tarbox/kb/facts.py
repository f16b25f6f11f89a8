"""The facts of a knowledge base as columns of ids."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import final

import numpy as np
from numpy.typing import NDArray

from tarbox.kb.arrays import Flags
from tarbox.kb.arrays import Ids as Ids  # noqa: PLC0414 - the older home of the name, exported
from tarbox.kb.vocabulary import Vocabulary

NO_SPLIT = -1
SPLITS = ("train", "valid", "test")
KINDS = ("entities", "concepts", "relations", "assertions", "typings", "subsumptions")


@final
@dataclass(frozen=True, slots=True)
class Facts:
    """Asserted facts: what the sources say, without what follows from it (see `tarbox.kb.closure`).

    Assertions `<heads[i], relations[i], tails[i]>` [A] sorted by head, relation, tail; typings (`typed[i]` is an
    instance of `types[i]`) [T] sorted; subsumptions (`subs[i]` is a subclass of `supers[i]`) [S] sorted. No
    duplicates. `splits` [A] holds an index into `SPLITS` or `NO_SPLIT`, from a table's fourth column.
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

    @classmethod
    def of(
        cls,
        vocabulary: Vocabulary,
        assertions: Iterable[tuple[int, int, int]] = (),
        typings: Iterable[tuple[int, int]] = (),
        subsumptions: Iterable[tuple[int, int]] = (),
    ) -> Facts:
        """Facts from tuples of ids, sorted and deduplicated; for tests and small graphs."""
        heads, relations, tails = _columns(assertions, 3)
        typed, types = _columns(typings, 2)
        subs, supers = _columns(subsumptions, 2)
        splits = np.full(len(heads), NO_SPLIT, np.int8)
        return cls(vocabulary, heads, relations, tails, typed, types, subs, supers, splits)

    def with_assertions(self, keep: Flags) -> Facts:
        """The same facts with the assertions where `keep` [A] is true."""
        return replace(
            self,
            heads=self.heads[keep],
            relations=self.relations[keep],
            tails=self.tails[keep],
            splits=self.splits[keep],
        )

    def with_typings(self, keep: Flags) -> Facts:
        """The same facts with the typings where `keep` [T] is true."""
        return replace(self, typed=self.typed[keep], types=self.types[keep])

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
