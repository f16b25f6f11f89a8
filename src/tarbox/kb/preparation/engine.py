"""What runs the relational program (`tarbox.kb.preparation.program`): few methods, in which engines differ (ADR 54)."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any

import pyarrow as pa

from tarbox.kb.preparation.tables import PREPARED_TABLES

Steps = Mapping[str, str]
"""Tables, in the order in which they are made, and the SQL that selects their rows."""
INCOMING = "incoming"
"""Rows of this program as a table, while `TableEngine.incoming` lasts."""


class TableEngine(ABC):
    """The tables of one build. Not for concurrent use.

    `block_rows` is how many rows are worth being taken in at once, `block_bytes` the most that can be.
    """

    block_rows: int
    block_bytes: int

    @abstractmethod
    def term_id(self, text: str) -> str:
        """SQL for the id of the term that the SQL expression `text` gives."""

    @abstractmethod
    def quote(self, text: str) -> str:
        """`text` as a literal of SQL."""

    @abstractmethod
    def define(self, table: str, sql: str) -> None:
        """Make `table` what `sql` selects, also from what the table was before."""

    @abstractmethod
    def extend(self, table: str, sql: str) -> None:
        """Add what `sql` selects, which does not read `table`."""

    @abstractmethod
    def enumerate(self, table: str, sql: str, key: Sequence[str]) -> None:
        """Make `table` what `sql` selects, with the place of each row in the order of `key`, from 0, as `row`.

        `key` tells rows apart. Texts are ordered by code point.
        """

    @abstractmethod
    def drop(self, table: str) -> None: ...

    @abstractmethod
    def fetch(self, sql: str) -> pa.RecordBatchReader:
        """What `sql` selects, in its order, streamed."""

    @abstractmethod
    def incoming(self, rows: pa.Table) -> AbstractContextManager[None]:
        """Let SQL read a block of rows as the table `incoming`."""

    @abstractmethod
    def close(self) -> None:
        """Let go of all tables."""

    def id_of(self, iri: str) -> str:
        """SQL for the id of an IRI."""
        return self.term_id(self.quote(iri))

    def ids_of(self, iris: Iterable[str]) -> str:
        return ", ".join(self.id_of(iri) for iri in sorted(iris))

    def run(self, steps: Steps) -> None:
        """Define tables, one after the other."""
        for table, sql in steps.items():
            self.define(table, sql)

    def add(self, steps: Steps) -> None:
        """Extend tables, one after the other."""
        for table, sql in steps.items():
            self.extend(table, sql)

    def create(self, table: str) -> None:
        """Make `table` an empty one."""
        columns = ", ".join(f"CAST(NULL AS {type}) AS {name}" for name, type in PREPARED_TABLES[table].columns.items())
        self.define(table, f"SELECT {columns} WHERE 1 = 0")

    def load(self, table: str, rows: pa.Table) -> None:
        """Make `table` these rows."""
        self.create(table)
        for block in self.blocks(rows):
            with self.incoming(block):
                self.extend(table, f"SELECT {', '.join(PREPARED_TABLES[table].columns)} FROM {INCOMING}")

    def blocks(self, rows: pa.Table) -> Iterator[pa.Table]:
        """The rows in blocks that `incoming` takes."""
        if len(rows) > 1 and rows.nbytes > self.block_bytes:
            yield from self.blocks(rows.slice(0, len(rows) // 2))
            yield from self.blocks(rows.slice(len(rows) // 2))
        elif len(rows):
            yield rows

    def rows(self, sql: str) -> list[tuple[Any, ...]]:
        """What `sql` selects, as Python's values."""
        return list(zip(*(column.to_pylist() for column in self.fetch(sql).read_all().columns), strict=True))

    def number(self, sql: str) -> int:
        """The single number that `sql` selects."""
        return int(self.rows(sql)[0][0] or 0)

    def count(self, table: str) -> int:
        return self.number(f"SELECT count(*) FROM {table}")


def typed(table: str, sql: str) -> str:
    """The rows of `sql`, with the columns and types that `table` is declared to have."""
    columns = PREPARED_TABLES[table].columns.items()
    return f"SELECT {', '.join(f'CAST({name} AS {type}) AS {name}' for name, type in columns)} FROM ({sql}) AS made"
