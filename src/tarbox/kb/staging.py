"""Statements on their way into a store, in DuckDB: more of them than fit in memory.

A term is known by a 64-bit id: its hash, with the kind of term (IRI, literal, blank node) in the last two bits. So
everything but the sorting of names runs on integers. Two terms with one id would be a disaster; `close` looks for
them, and the build starts again with another `salt`.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, Final, final

import pyarrow as pa
import pyarrow.compute as pc

from tarbox.core.errors import ConfigError, MissingDependency
from tarbox.kb.statements import STATEMENTS, Piece

_FLUSH_ROWS: Final = 1_000_000  # many at once: a term that recurs is then staged once
_UNITS: Final = {"": 1, "K": 1e3, "M": 1e6, "G": 1e9, "T": 1e12}
OVERHEAD: Final = 250_000_000  # what Python, Arrow and the blocks in flight take beside DuckDB
LEAST_MEMORY: Final = 500_000_000


class HashCollision(Exception):
    """Two different terms have the same id."""


def parse_memory(text: str) -> int:
    """Bytes from `1GB`, `800 MB`, `2g`."""
    match = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([KMGT]?)I?B?\s*", text.upper())
    if match is None:
        raise ConfigError(f"--memory {text}: write a number and a unit, such as 1GB or 800MB.")
    size = int(float(match.group(1)) * _UNITS[match.group(2)])
    if size < LEAST_MEMORY:
        raise ConfigError(f"--memory {text} is too little: give at least {LEAST_MEMORY // 1_000_000}MB.")
    return size


@final
class Staging:
    """The DuckDB database of one build. Not for concurrent use."""

    def __init__(self, folder: Path, memory: int | None = None, salt: int = 0) -> None:
        try:
            import duckdb
        except ImportError:
            raise MissingDependency("`kb build` needs duckdb: pip install duckdb") from None
        bounded = memory is not None
        self._database = duckdb.connect(str(folder / "staging.duckdb") if bounded else ":memory:")
        self.execute(f"SET temp_directory = '{folder / 'spill'}'")
        self.execute("SET preserve_insertion_order = true")
        if memory is not None:
            self.execute(f"SET memory_limit = '{(memory - OVERHEAD) // 1_000_000}MB'")
        self.execute(  # DuckDB's hash alone is weak: of 3M timestamps, hundreds collide; not so under two alignments
            f"""CREATE MACRO term_id(term) AS (hash(term, '.{salt or ""}' || term) & 18446744073709551612) |
                CASE WHEN starts_with(term, '"') THEN 1 WHEN starts_with(term, '_:') THEN 2 ELSE 0 END"""
        )
        self.execute("CREATE TABLE statement (s UBIGINT, p UBIGINT, o UBIGINT, split TINYINT)")
        self.execute("CREATE TABLE context (s UBIGINT, p UBIGINT, o UBIGINT)")  # statements that no source makes
        self.execute("CREATE TABLE term (id UBIGINT, text VARCHAR)")
        self.execute("CREATE TABLE attribute (s UBIGINT, p UBIGINT, o UBIGINT, name VARCHAR, value VARCHAR)")
        self._waiting: list[pa.RecordBatch] = []
        self._said: list[pa.Table] = []
        self._rows = 0

    def execute(self, sql: str, parameters: list[Any] | None = None) -> Any:
        return self._database.execute(sql, parameters) if parameters else self._database.execute(sql)

    def number(self, sql: str) -> int:
        """The single number that `sql` selects."""
        return int(self.execute(sql).fetchall()[0][0] or 0)

    def table(self, name: str, rows: pa.Table) -> None:
        """Make `rows` a table of the database."""
        self._database.register("incoming", rows)
        self.execute(f"CREATE OR REPLACE TABLE {name} AS SELECT * FROM incoming")
        self._database.unregister("incoming")

    def add(self, piece: Piece, source: int) -> None:
        """Take in a block of statements; a blank node is known in its own source only."""
        statements = piece.statements
        for place in (0, 2):
            blank = pc.starts_with(statements.column(place), "_:")
            if pc.any(blank).as_py():
                own = pc.replace_substring(statements.column(place), "_:", f"_:{source}.", max_replacements=1)
                terms = pc.if_else(blank, own, statements.column(place))
                statements = statements.set_column(place, STATEMENTS.field(place), terms)
        self._waiting += statements.to_batches() if isinstance(statements, pa.Table) else [statements]
        self._rows += statements.num_rows
        if piece.attributes.num_rows:
            said = statements.take(piece.attributes.column("row")).columns[:3]
            self._said.append(pa.table([*said, *piece.attributes.columns[1:]], names=["s", "p", "o", "name", "value"]))
        if self._rows >= _FLUSH_ROWS:
            self.flush()

    def flush(self) -> None:
        if not self._rows:
            return
        self._database.register("incoming", pa.Table.from_batches(self._waiting, STATEMENTS))
        self.execute(
            "INSERT INTO statement SELECT term_id(subject), term_id(predicate), term_id(object), split FROM incoming"
        )
        self.execute(
            """INSERT INTO term SELECT term_id(text), text FROM (
                 SELECT DISTINCT predicate AS text FROM incoming UNION ALL
                 (SELECT subject FROM incoming UNION SELECT object FROM incoming))"""
        )
        self._database.unregister("incoming")
        if self._said:
            self._database.register("incoming", pa.concat_tables(self._said))
            self.execute("INSERT INTO attribute SELECT term_id(s), term_id(p), term_id(o), name, value FROM incoming")
            self._database.unregister("incoming")
        self._waiting, self._rows, self._said = [], 0, []

    def close_terms(self) -> None:
        """Make `term` a table of distinct terms."""
        self.flush()
        self.execute("CREATE TABLE name AS SELECT DISTINCT id, text FROM term")
        self.execute("DROP TABLE term")
        if self.number("SELECT count(*) - count(DISTINCT id) FROM name"):
            raise HashCollision

    def reader(self, sql: str, rows: int = 1 << 20) -> Any:
        """The result of `sql` as Arrow record batches, streamed."""
        return self._database.sql(sql).to_arrow_reader(rows)

    def close(self) -> None:
        self._database.close()
