"""Query tables: the rows of one benchmark split, as ids.

A row holds a query as its *shape* (Manchester text with placeholders) and one id per slot, so that all rows of one
shape and level make a batch of int arrays: the main access path, since a model evaluates one shape for a whole batch
and never sees a template's name. On disk a table is one Parquet file; `tarbox.benchmark.exchange` reads and writes
the JSON lines of DESIGN.md.
"""

from __future__ import annotations

import io
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, Final, final

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from tarbox.core.errors import BenchmarkError, QueryError
from tarbox.core.ids import Level
from tarbox.kb.arrays import Ids, Places
from tarbox.kb.rows import offsets_of, ranges
from tarbox.kb.writing import replace_file
from tarbox.query.algebra import Query
from tarbox.query.manchester import parse
from tarbox.query.names import Placeholders
from tarbox.query.render import render
from tarbox.query.templates import TEMPLATES

OUTSIDE: Final = -1
"""The id of a target whose name is not in the vocabulary; it scores 0 (docs/benchmarks.md)."""

_TEXT = pa.dictionary(pa.int32(), pa.string())
_IDS = pa.list_(pa.int32())
SCHEMA: Final = pa.schema(
    [
        ("id", pa.string()),
        ("template", _TEXT),
        ("level", _TEXT),
        ("shape", _TEXT),
        ("slots", _IDS),
        ("target", _IDS),
        ("known", _IDS),
        ("derivable", pa.bool_()),
        ("missing", pa.list_(pa.int8())),
        ("outside", pa.list_(pa.string())),
    ]
)
"""The columns of a table. `missing` has one number per target; `outside` the names behind the `OUTSIDE` targets."""

NO_TEMPLATE: Final = "other"
"""What tables call queries of no template."""
_OPTIONAL: Final = ("template", "derivable", "missing", "outside")
_FORMAT: Final = {b"tarbox": b"query-table 1"}


@final
@dataclass(frozen=True, slots=True)
class Lists:
    """Ragged lists of numbers: list i is `values[offsets[i]:offsets[i + 1]]`.

    No `tarbox.kb.rows.Rows`: their order means something (slots, one missing count per target), they may repeat, and
    their numbers are of any type, as in an Arrow list column.
    """

    offsets: Places
    values: NDArray[Any]

    @classmethod
    def of(cls, lists: Sequence[Sequence[int]]) -> Lists:
        sizes = np.array([len(entries) for entries in lists], np.int64)
        flat = np.array([value for entries in lists for value in entries], np.int32)
        return cls(offsets_of(sizes), flat)

    @classmethod
    def of_column(cls, column: pa.ChunkedArray) -> Lists:
        """From an Arrow list column; a null counts as an empty list."""
        array = column.combine_chunks()
        sizes = np.asarray(array.value_lengths().fill_null(0).to_numpy(zero_copy_only=False), np.int64)
        return cls(offsets_of(sizes), array.flatten().to_numpy(zero_copy_only=False))

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def __getitem__(self, row: int) -> NDArray[Any]:
        return self.values[self.offsets[row] : self.offsets[row + 1]]

    def sizes(self) -> Places:
        return np.diff(self.offsets)

    def owners(self) -> Places:
        """For every value the list that holds it."""
        return np.repeat(np.arange(len(self)), self.sizes())

    def take(self, rows: Places) -> Lists:
        """The lists at `rows`, in that order."""
        sizes = self.sizes()[rows]
        return Lists(offsets_of(sizes), self.values[ranges(self.offsets[rows], sizes)[1]])

    def to_arrow(self) -> pa.ListArray:
        return pa.ListArray.from_arrays(pa.array(self.offsets, pa.int32()), pa.array(self.values))


@final
@dataclass(frozen=True, slots=True)
class Batch:
    """Queries of one shape, to be answered at one level.

    `rows` [B] are their places in the table, `ids` [B, S] what fills their slots, in slot order (relations directed),
    `targets` the answers to rank and `known` the other true answers, one list per query.
    """

    level: Level
    shape: Query
    rows: Places
    ids: Ids
    targets: Lists
    known: Lists

    def __len__(self) -> int:
        return len(self.rows)

    def split(self, size: int) -> Iterator[Batch]:
        """The same queries in batches of at most `size`."""
        for start in range(0, len(self), size):
            part = np.arange(start, min(start + size, len(self)))
            yield Batch(
                self.level, self.shape, self.rows[part], self.ids[part], self.targets.take(part), self.known.take(part)
            )


@final
@dataclass(frozen=True, slots=True)
class QueryTable:
    """Queries with their answers; `columns` has the columns of `SCHEMA`.

    >>> table = QueryTable.of({"id": ["a"], "level": ["entity"], "shape": ["?r1 value ?e1"], "slots": [[1, 7]],
    ...                        "target": [[3]], "known": [[4, 5]]})
    >>> [(batch.level.value, batch.ids.tolist()) for batch in table.batches()]
    [('entity', [[1, 7]])]
    """

    columns: pa.Table

    @classmethod
    def of(cls, columns: Mapping[str, Any]) -> QueryTable:
        """From one sequence or Arrow array per column; the nullable columns may be left out."""
        unknown = sorted(set(columns) - set(SCHEMA.names))
        lacking = [name for name in SCHEMA.names if name not in columns and name not in _OPTIONAL]
        if unknown or lacking:
            given = f"lacks {', '.join(lacking)}" if lacking else f"has no column {', '.join(unknown)}"
            raise BenchmarkError(f"a query table {given}; its columns are {', '.join(SCHEMA.names)}")
        length = len(columns["id"])
        arrays = [_arrow(columns.get(field.name), field.type, length) for field in SCHEMA]
        return cls(pa.Table.from_arrays(arrays, schema=SCHEMA))

    @classmethod
    def concatenate(cls, tables: Iterable[QueryTable]) -> QueryTable:
        """The rows of all tables, one table after the other."""
        parts = [table.columns for table in tables]
        return cls(pa.concat_tables(parts).combine_chunks() if parts else SCHEMA.empty_table())

    def __len__(self) -> int:
        return int(self.columns.num_rows)

    def take(self, rows: Places) -> QueryTable:
        """The rows at these places, in that order."""
        return QueryTable(self.columns.take(pa.array(rows)))

    def texts(self, name: str) -> list[str | None]:
        """A text column (`id`, `template`, `level` or `shape`) as a list."""
        column: list[str | None] = self.columns[name].to_pylist()
        return column

    def lists(self, name: str) -> Lists:
        """A list column (`slots`, `target`, `known` or `missing`)."""
        return Lists.of_column(self.columns[name])

    def groups(self) -> dict[tuple[Level, str], Places]:
        """The places of the queries of each level and template (`NO_TEMPLATE` for those of none)."""
        found: dict[tuple[str | None, str], list[int]] = {}
        for place, (level, name) in enumerate(zip(self.texts("level"), self.texts("template"), strict=True)):
            found.setdefault((level, name or NO_TEMPLATE), []).append(place)
        return {(Level(level), name): np.array(places, np.int64) for (level, name), places in found.items()}

    def thinned(self, most: int) -> QueryTable:
        """At most so many queries of each level and template, evenly spaced (0: all)."""
        if not most:
            return self
        kept = [
            places[np.linspace(0, len(places) - 1, min(most, len(places))).astype(np.int64)]
            for places in self.groups().values()
        ]
        return self.take(np.sort(np.concatenate([np.empty(0, np.int64), *kept])))

    def derivable(self) -> NDArray[np.int8]:
        """[Q] 1 where the targets follow from the smaller graph, 0 where not, -1 where it is not said."""
        column = self.columns["derivable"].cast(pa.int8()).fill_null(-1)
        return np.asarray(column.to_numpy(), np.int8)

    def outside(self) -> list[str]:
        """The names of all targets that are not in the vocabulary."""
        return [name for names in self.columns["outside"].drop_null().to_pylist() for name in names]

    def batches(self) -> Iterator[Batch]:
        """All queries, grouped by level and shape, in the order in which each group first appears."""
        targets, known, slots = self.lists("target"), self.lists("known"), self.lists("slots")
        for level, text, rows in self._groups():
            shape = parse_shape(text)
            taken = slots.take(rows)
            width = len(taken[0])
            if not np.all(taken.sizes() == width):
                raise BenchmarkError(f"the queries of shape '{text}' have different numbers of slots")
            ids = taken.values.reshape(-1, width).astype(np.int32)
            yield Batch(Level(level), shape, rows, ids, targets.take(rows), known.take(rows))

    def _groups(self) -> Iterator[tuple[str, str, Places]]:
        """(level, shape, rows) of every group."""
        levels, level_names = _codes(self.columns["level"])
        shapes, shape_names = _codes(self.columns["shape"])
        keys = levels * max(len(shape_names), 1) + shapes
        found, first, group = np.unique(keys, return_index=True, return_inverse=True)
        order = np.argsort(group, kind="stable")
        bounds = np.searchsorted(group[order], np.arange(len(found) + 1))
        for place in np.argsort(first).tolist():
            level, shape = divmod(int(found[place]), len(shape_names))
            yield level_names[level], shape_names[shape], order[bounds[place] : bounds[place + 1]]


def write_table(path: str | os.PathLike[str], table: QueryTable) -> None:
    """Write `table` as Parquet, under a temporary name first."""
    content = io.BytesIO()
    pq.write_table(table.columns.replace_schema_metadata(_FORMAT), content, compression="zstd")
    replace_file(Path(path), content.getvalue())


def read_table(path: str | os.PathLike[str]) -> QueryTable:
    """The table that `write_table` wrote."""
    try:
        found = pq.read_table(path)
    except FileNotFoundError:
        raise BenchmarkError(f"no query table at {os.fspath(path)}") from None
    except (pa.ArrowInvalid, OSError) as error:
        raise BenchmarkError(f"{os.fspath(path)} is not a Parquet file: {str(error).splitlines()[0]}") from None
    if (found.schema.metadata or {}).get(b"tarbox") != _FORMAT[b"tarbox"]:
        raise BenchmarkError(f"{os.fspath(path)} is no query table of this version of tarbox")
    return QueryTable(found.select(SCHEMA.names).cast(SCHEMA))


def in_order(names: set[str]) -> list[str]:
    """Template names in the literature's order, then the others by name."""
    known = [name for name in TEMPLATES if name in names]
    return known + sorted(names - set(known))


@lru_cache(maxsize=4096)
def parse_shape(text: str) -> Query:
    """The shape that a table's text stands for."""
    try:
        return parse(text, Placeholders())
    except QueryError as error:
        raise BenchmarkError(f"'{text}' is no query shape: {str(error).splitlines()[0]}") from error


@lru_cache(maxsize=4096)
def render_shape(shape: Query) -> str:
    """How a table writes a shape: the inverse of `parse_shape`."""
    return render(shape)


def _arrow(values: Any, kind: pa.DataType, length: int) -> pa.Array:
    if values is None:
        return pa.nulls(length, kind)
    array = values.to_arrow() if isinstance(values, Lists) else values
    if isinstance(array, pa.ChunkedArray):
        array = array.combine_chunks()
    return array.cast(kind) if isinstance(array, pa.Array) else pa.array(array, kind)


def _codes(column: pa.ChunkedArray) -> tuple[Places, list[str]]:
    """The codes of a dictionary column and the texts they stand for."""
    if len(column) == 0:
        return np.empty(0, np.int64), []
    array = column.unify_dictionaries().combine_chunks()
    return np.asarray(array.indices.to_numpy(zero_copy_only=False), np.int64), array.dictionary.to_pylist()
