"""The program on DuckDB: within this process, and within a bound on its memory."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final, final

import pyarrow as pa

from tarbox.core.errors import MissingDependency
from tarbox.kb.preparation.engine import INCOMING, TableEngine, typed

OVERHEAD: Final = 250_000_000  # what Python, Arrow and the blocks in flight take beside DuckDB
_FETCHED: Final = 1 << 20


@final
class DuckDBEngine(TableEngine):
    """A database in memory, or where `memory` bounds it, in a file of `folder`."""

    block_rows = 1_000_000  # many at once: a term that recurs is then staged once
    block_bytes = sys.maxsize

    def __init__(self, folder: Path, memory: int | None = None, salt: int = 0) -> None:
        try:
            import duckdb
        except ImportError:
            raise MissingDependency("`kb build` needs duckdb: pip install duckdb") from None
        bounded = memory is not None
        self._database = duckdb.connect(str(folder / "staging.duckdb") if bounded else ":memory:")
        self._execute(f"SET temp_directory = '{folder / 'spill'}'")
        self._execute("SET preserve_insertion_order = true")
        if memory is not None:
            self._execute(f"SET memory_limit = '{(memory - OVERHEAD) // 1_000_000}MB'")
        self._execute(  # DuckDB's hash alone is weak: of 3M timestamps, hundreds collide; not so under two alignments
            f"""CREATE MACRO term_id(term) AS CAST(((hash(term, '.{salt or ""}' || term) >> 1) & 9223372036854775804) |
                CASE WHEN starts_with(term, '"') THEN 1 WHEN starts_with(term, '_:') THEN 2 ELSE 0 END AS BIGINT)"""
        )

    def _execute(self, sql: str) -> Any:
        return self._database.execute(sql)

    def term_id(self, text: str) -> str:
        return f"term_id({text})"

    def quote(self, text: str) -> str:
        return "'" + text.replace("'", "''") + "'"

    def define(self, table: str, sql: str) -> None:
        self._execute(f"CREATE OR REPLACE TABLE {table} AS {typed(table, sql)}")

    def extend(self, table: str, sql: str) -> None:
        self._execute(f"INSERT INTO {table} {typed(table, sql)}")

    def enumerate(self, table: str, sql: str, key: Sequence[str]) -> None:
        self._execute(f"CREATE OR REPLACE TABLE sorted_{table} AS {sql} ORDER BY {', '.join(key)}")
        self._execute(f"CREATE OR REPLACE VIEW {table} AS SELECT *, rowid::INT AS row FROM sorted_{table}")

    def drop(self, table: str) -> None:
        self._execute(f"DROP TABLE {table}")

    def fetch(self, sql: str) -> pa.RecordBatchReader:
        return self._database.sql(sql).to_arrow_reader(_FETCHED)

    @contextmanager
    def incoming(self, rows: pa.Table) -> Iterator[None]:
        self._database.register(INCOMING, rows)
        try:
            yield
        finally:
            self._database.unregister(INCOMING)

    def close(self) -> None:
        self._database.close()
