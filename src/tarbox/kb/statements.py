"""What readers deliver: statements in the RDF sense, in blocks.

A reader is a small adapter from one file format to statements (subject, predicate, object). What the statements
mean, typing or subsumption or assertion or label, is decided in one place, `tarbox.kb.interpretation`.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from itertools import islice
from typing import Any, Protocol, final

import pyarrow as pa

from tarbox.kb.facts import NO_SPLIT
from tarbox.kb.sources import Source
from tarbox.kb.terms import URN

STATEMENTS = pa.schema(
    [("subject", pa.string()), ("predicate", pa.string()), ("object", pa.string()), ("split", pa.int8())]
)
ATTRIBUTES = pa.schema([("row", pa.int32()), ("name", pa.string()), ("value", pa.string())])
STATEMENT_BLOCK = 1 << 16
_AHEAD = 16


@final
@dataclass(frozen=True, slots=True)
class ReadOptions:
    """`base` resolves relative IRIs in RDF and is put before the ids of tables.

    `columns` says which columns of tables with a header mean what (`tarbox.kb.readers.tables`).
    `sources` are all that one build reads, where a file means what another says; `shared` keeps what readers have found
    out about all of them, by its type.
    """

    base: str | None = None
    sources: Sequence[Source] = ()
    columns: Mapping[str, str] = field(default_factory=dict)
    shared: dict[type, Any] = field(default_factory=dict, compare=False)

    @property
    def table_base(self) -> str:
        return self.base or URN


@final
@dataclass(frozen=True, slots=True)
class Piece:
    """A block of statements with what could not be read (line, reason) and what has no place in the model.

    `statements` is an Arrow record batch, or a table of several. `attributes` say more of some of its rows; `notes` are
    numbers worth telling about all sources.
    """

    statements: pa.RecordBatch | pa.Table
    rejected: Sequence[tuple[int, str]] = ()
    left_out: Mapping[str, int] = field(default_factory=dict)
    attributes: pa.RecordBatch = field(default_factory=lambda: attribute_rows((), (), ()))
    notes: Mapping[str, int] = field(default_factory=dict)


@final
@dataclass(slots=True)
class Findings:
    """A piece in the making: statements one by one, with their attributes, what was left out and what is rejected."""

    statements: list[tuple[str, str, str]] = field(default_factory=list)
    attributes: list[tuple[int, str, str]] = field(default_factory=list)
    left_out: Counter[str] = field(default_factory=Counter)
    rejected: list[tuple[int, str]] = field(default_factory=list)

    def add(self, subject: str, predicate: str, object: str, attributes: Iterable[tuple[str, str]] = ()) -> None:
        self.attributes += ((len(self.statements), name, value) for name, value in attributes)
        self.statements.append((subject, predicate, object))

    def piece(self) -> Piece:
        rows = batch(*zip(*self.statements, strict=True)) if self.statements else NOTHING
        return Piece(rows, sorted(self.rejected), dict(self.left_out), attribute_list(self.attributes))


class Reader(Protocol):
    """Reads one source; `progress` is told how many bytes of the file are behind."""

    def __call__(self, source: Source, options: ReadOptions, progress: Callable[[int], None]) -> Iterator[Piece]: ...


def batch(subjects: Sequence[str], predicates: Sequence[str], objects: Sequence[str]) -> pa.RecordBatch:
    """A block of statements without a split, from Python lists of terms."""
    return pa.record_batch(
        [
            pa.array(subjects, pa.string()),
            pa.array(predicates, pa.string()),
            pa.array(objects, pa.string()),
            pa.repeat(pa.scalar(NO_SPLIT, pa.int8()), len(subjects)),
        ],
        schema=STATEMENTS,
    )


def attribute_rows(rows: Sequence[int], names: Sequence[str], values: Sequence[str]) -> pa.RecordBatch:
    """Attributes as a block: the row of the statement, the name and the value of each."""
    columns = zip((rows, names, values), ATTRIBUTES, strict=True)
    return pa.record_batch([pa.array(column, field.type) for column, field in columns], schema=ATTRIBUTES)


def attribute_list(rows: Sequence[tuple[int, str, str]]) -> pa.RecordBatch:
    """The same of (row, name, value)."""
    return attribute_rows(*zip(*rows, strict=True)) if rows else attribute_rows((), (), ())


# of no list: pyarrow would import pandas for it, a quarter of a second for every command
NOTHING = pa.record_batch([pa.nulls(0, field.type) for field in STATEMENTS], schema=STATEMENTS)


def in_parallel(parse: Callable[[tuple[int, bytes]], Piece], blocks: Iterator[tuple[int, bytes]]) -> Iterator[Piece]:
    """The pieces of blocks of lines, in their order, parsed by several threads: Arrow lets go of the interpreter."""
    with ThreadPoolExecutor(min(os.cpu_count() or 1, _AHEAD)) as pool:
        waiting = [pool.submit(parse, block) for block in islice(blocks, _AHEAD)]
        while waiting:
            piece = waiting.pop(0).result()
            waiting += [pool.submit(parse, block) for block in islice(blocks, 1)]
            yield piece


def in_blocks(statements: Iterable[tuple[str, str, str]]) -> Iterator[pa.RecordBatch]:
    """Statements one by one, gathered into blocks."""
    rows: list[tuple[str, str, str]] = []
    for row in statements:
        rows.append(row)
        if len(rows) == STATEMENT_BLOCK:
            yield batch(*zip(*rows, strict=True))
            rows = []
    if rows:
        yield batch(*zip(*rows, strict=True))
