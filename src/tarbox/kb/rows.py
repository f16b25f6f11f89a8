"""The one sparse matrix of the project, by compressed rows, and the one coding of facts as sorted numbers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, final

import numpy as np
from numpy.typing import NDArray

from tarbox.kb.arrays import Flags, Ids, Keys, Places


@final
@dataclass(frozen=True, slots=True)
class Rows:
    """A sparse matrix: the columns of row i are `columns[offsets[i]:offsets[i + 1]]`, increasing.

    What stands there is in `values` at the same places; without values it is a matrix of ones.

    >>> Rows.of(np.array([1, 0]), np.array([2, 1]), 2, 3)[1].tolist()
    [2]
    """

    offsets: Places
    columns: Ids
    values: Any = None

    @classmethod
    def of(cls, rows: Ids, columns: Ids, height: int, width: int) -> Rows:
        """Of ones, from coordinates in any order; duplicates count once."""
        return cls.of_keys(distinct(pair_keys(rows, columns, width)), height, width)

    @classmethod
    def of_keys(cls, keys: Keys, height: int, width: int, values: NDArray[Any] | None = None) -> Rows:
        """From sorted distinct `row * width + column`, with the values of each."""
        rows, columns = np.divmod(keys, max(width, 1))
        return cls(np.searchsorted(rows, np.arange(height + 1)), columns.astype(np.int32), values)

    @classmethod
    def of_values(cls, keys: Keys, values: NDArray[Any], height: int, width: int) -> Rows:
        """From `row * width + column` in any order, with the greatest value of each place."""
        order = np.argsort(keys, kind="stable")
        ordered = keys[order]
        starts = np.flatnonzero(np.diff(ordered, prepend=-1))
        greatest = np.maximum.reduceat(values[order], starts) if len(starts) else values[:0]
        return cls.of_keys(ordered[starts], height, width, greatest)

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def __getitem__(self, row: int) -> Ids:
        return self.columns[self.offsets[row] : self.offsets[row + 1]]

    def values_of(self, row: int) -> NDArray[Any]:
        found: NDArray[Any] = self.values[self.offsets[row] : self.offsets[row + 1]]
        return found

    def value(self, row: int, column: int) -> float:
        """What stands at one place; 0 where nothing does."""
        columns = self[row]
        place = int(np.searchsorted(columns, column))
        return float(self.values_of(row)[place]) if place < len(columns) and columns[place] == column else 0.0

    def sizes(self) -> Places:
        return np.diff(self.offsets)

    def coordinates(self) -> tuple[Ids, Ids]:
        """(rows, columns) of every entry, sorted."""
        return np.repeat(np.arange(len(self), dtype=np.int32), self.sizes()), self.columns

    def transpose(self, width: int) -> Rows:
        rows, columns = self.coordinates()
        offsets = offsets_of(np.bincount(columns, minlength=width))
        order = stable_order(columns, width)
        return Rows(offsets, rows[order], None if self.values is None else self.values[order])

    def take(self, rows: Ids | Places) -> Rows:
        """The matrix of the given rows, in their order."""
        _, places = self.places(rows)
        offsets = np.append(0, np.cumsum(self.sizes()[rows]))
        return Rows(offsets, self.columns[places], None if self.values is None else self.values[places])

    def gather(self, rows: Ids | Places) -> tuple[Places, Ids]:
        """All columns of the given rows, one after the other, and for each the position in `rows` it came from."""
        origin, places = self.places(rows)
        return origin, self.columns[places]

    def places(self, rows: Ids | Places) -> tuple[Places, Places]:
        """(the position in `rows`, the place among all entries) of every entry of the given rows."""
        return ranges(self.offsets[rows], self.offsets[np.asarray(rows) + 1] - self.offsets[rows])


@final
@dataclass(frozen=True, slots=True)
class TripleKeys:
    """Facts as numbers `(relation * width + head) * width + tail`, which sort by relation, then head, then tail.

    `width` is the number of nodes that heads and tails are among.

    >>> TripleKeys(10).decode(TripleKeys(10).encode(np.array([2]), np.array([3]), np.array([4])))
    (array([2]), array([3]), array([4]))
    """

    width: int

    def encode(self, relations: NDArray[Any], heads: NDArray[Any], tails: NDArray[Any]) -> Keys:
        keys: Keys = (relations.astype(np.int64) * self.width + heads) * self.width + tails
        return keys

    def decode(self, keys: Keys) -> tuple[Keys, Keys, Keys]:
        """(relations, heads, tails)"""
        pairs, tails = np.divmod(keys, max(self.width, 1))
        relations, heads = np.divmod(pairs, max(self.width, 1))
        return relations, heads, tails


def pair_keys(rows: NDArray[Any], columns: NDArray[Any], width: int) -> Keys:
    """`row * width + column`"""
    keys: Keys = rows.astype(np.int64) * max(width, 1) + columns
    return keys


def unordered_keys(ones: NDArray[Any], others: NDArray[Any], width: int) -> Keys:
    """The key of the two, whichever comes first."""
    return pair_keys(np.minimum(ones, others), np.maximum(ones, others), width)


def distinct(keys: Keys) -> Keys:
    """Sorted, each once. Quicker than numpy's `unique`, which hashes."""
    keys = np.sort(keys)
    return keys[np.append(True, keys[1:] != keys[:-1])] if len(keys) else keys


def stable_order(ids: Ids, width: int) -> Places:
    """What sorts ids below `width`: sixteen bits at a time, which numpy sorts by counting."""
    order = np.argsort((ids & 0xFFFF).astype(np.uint16), kind="stable")
    return order if width <= 1 << 16 else order[np.argsort((ids >> 16).astype(np.uint16)[order], kind="stable")]


def contains(ordered: Keys, keys: Keys) -> Flags:
    """Which of the keys are among sorted ones."""
    if not len(ordered):
        return np.zeros(len(keys), np.bool_)
    places = np.minimum(np.searchsorted(ordered, keys), len(ordered) - 1)
    found: Flags = ordered[places] == keys
    return found


def offsets_of(sizes: Places) -> Places:
    """[N + 1] where each of N parts of these sizes begins, and where the last ends."""
    return np.concatenate([np.zeros(1, np.int64), np.cumsum(sizes)])


def ranges(starts: Places, sizes: Places) -> tuple[Places, Places]:
    """The numbers of all ranges start, start + 1, ..., one after the other, and for each which range it is of."""
    origin = np.repeat(np.arange(len(sizes)), sizes)
    shift = starts - (np.cumsum(sizes) - sizes)
    return origin, np.arange(len(origin)) + shift[origin]
