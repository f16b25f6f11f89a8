"""Names and their ids: id = row, sorted by IRI, memory-mapped when they come from a store."""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final, final

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from tarbox.core.ids import Role
from tarbox.kb.arrays import Flags, Ids, Places
from tarbox.kb.terms import local_name

CACHED_TERMS: Final = 1 << 16
"""How many terms that were looked up are kept with their id; questions ask for the same ones again and again."""
_WORD: Final = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])|\d+|[^\W\d_]+")


@final
@dataclass(frozen=True, slots=True)
class Names:
    """The names of one role.

    `iris` and `labels` are Arrow string arrays of equal length; `iris` is strictly increasing (by code point, which
    is also UTF-8's byte order). A label may be null.
    """

    role: Role
    iris: pa.Array
    labels: pa.Array
    _found: dict[str, int] = field(default_factory=dict, init=False, repr=False, compare=False)

    @classmethod
    def of(cls, role: Role, iris: Sequence[str], labels: Sequence[str | None] | None = None) -> Names:
        """Names from Python sequences, sorted here; for tests and small graphs."""
        given = labels if labels is not None else [None] * len(iris)
        pairs = sorted(dict(zip(iris, given, strict=True)).items())
        return cls(role, pa.array([i for i, _ in pairs], pa.string()), pa.array([n for _, n in pairs], pa.string()))

    def __len__(self) -> int:
        return len(self.iris)

    def __iter__(self) -> Iterator[str]:
        return (value.as_py() for value in self.iris)

    def iri(self, id: int) -> str:
        """The term with this id: a bare IRI, or a literal in its quoted form."""
        return str(self.iris[id].as_py())

    def label(self, id: int) -> str | None:
        value = self.labels[id].as_py()
        return None if value is None else str(value)

    def show(self, id: int) -> str:
        """What a person reads: the label, or else the local name."""
        return self.label(id) or local_name(self.iri(id))

    def words(self, id: int) -> list[str]:
        """The words of what it is called, in small letters: `DeepLearning` has two."""
        return [word.lower() for word in _WORD.findall(self.show(id))]

    def find(self, iri: str) -> int | None:
        """The id of `iri`, by binary search; what was found before is kept."""
        known = self._found.get(iri)
        if known is not None:
            return known
        row = bisect_left(range(len(self.iris)), iri, key=lambda place: self.iris[place].as_py())
        if row == len(self.iris) or self.iris[row].as_py() != iri:
            return None
        if len(self._found) < CACHED_TERMS:
            self._found[iri] = row
        return row

    def find_all(self, terms: NDArray[np.object_]) -> tuple[Places, Flags]:
        """The id of each term, or the one it would have, and whether it is a name; by binary search, all at once."""
        iris, low, high = one_array(self.iris), np.zeros(len(terms), np.int64), np.full(len(terms), len(self))
        if not len(iris):
            return low, np.zeros(len(terms), np.bool_)
        while np.any(low < high):
            middle = (low + high) // 2
            found = iris.take(pa.array(np.minimum(middle, len(iris) - 1))).to_numpy(zero_copy_only=False)
            less = (found < terms) & (low < high)
            low, high = np.where(less, middle + 1, low), np.where(less, high, middle)
        at = iris.take(pa.array(np.minimum(low, len(iris) - 1))).to_numpy(zero_copy_only=False)
        return low, at == terms

    def match(self, names: Names) -> Ids:
        """[names] the ids that others have here, -1 where they are not."""
        import pyarrow.compute as pc

        found = one_array(pc.fill_null(pc.index_in(names.iris, value_set=one_array(self.iris)), -1))
        ids: Ids = np.from_dlpack(found).astype(np.int32)
        return ids


def one_array(column: pa.Array | pa.ChunkedArray) -> pa.Array:
    return column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column


@final
@dataclass(frozen=True, slots=True)
class Vocabulary:
    """The names of a knowledge base, and what else they are called.

    `synonyms` is an Arrow table (role: string, id: int32, text: string) of synonyms and alternative ids.
    """

    entities: Names
    concepts: Names
    relations: Names
    synonyms: pa.Table

    @classmethod
    def of(cls, entities: Sequence[str], concepts: Sequence[str] = (), relations: Sequence[str] = ()) -> Vocabulary:
        """A vocabulary without labels, for tests and small graphs."""
        return cls(
            Names.of(Role.ENTITY, entities),
            Names.of(Role.CONCEPT, concepts),
            Names.of(Role.RELATION, relations),
            SYNONYMS.empty_table(),
        )

    def synonyms_of(self, role: Role, id: int) -> tuple[str, ...]:
        """What else a thing is called."""
        import pyarrow.compute as pc

        mine = pc.and_(pc.equal(self.synonyms["role"], role.value), pc.equal(self.synonyms["id"], id))
        return tuple(self.synonyms["text"].filter(mine).to_pylist())

    def names(self, role: Role) -> Names:
        match role:
            case Role.ENTITY:
                return self.entities
            case Role.CONCEPT:
                return self.concepts
            case Role.RELATION:
                return self.relations


SYNONYMS = pa.schema([("role", pa.string()), ("id", pa.int32()), ("text", pa.string())])
