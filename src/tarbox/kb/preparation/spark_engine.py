"""The program on Spark, by Spark Connect: this process sends SQL and statements, and reads the tables of the store.

Tables are Parquet tables of a database of their own in Spark's catalog, dropped at the end; a name of the program is a
temporary view of the table that it stands for now. So nothing but the server's address is needed, and what an executor
loses is computed again from tables that are written.
"""

from __future__ import annotations

import re
import sys
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import accumulate
from typing import Any, Final, final
from uuid import uuid4

import pyarrow as pa

from tarbox.core.errors import EngineFailed, MissingDependency
from tarbox.kb.preparation.engine import INCOMING, TableEngine, typed
from tarbox.kb.preparation.tables import PREPARED_TABLES

_RETRIES: Final = {"max_retries": 5, "max_backoff": 4000}  # some ten seconds, in ms; Spark's own take ten minutes
_MOST_RANGES: Final = 256  # each is a branch of a CASE
_SAMPLED: Final = 64  # keys for each range, so that ranges differ little in size
_SHOWN: Final = 300
_DETAILS: Final = re.compile(r'details = "([^"]+)"')  # of gRPC's many words


@final
class SparkEngine(TableEngine):
    """A session of a Spark Connect server; `range_rows` is about how many rows are numbered by one task."""

    block_rows = 200_000
    block_bytes = 1 << 25  # a server takes messages of 128 MiB

    def __init__(self, remote: str, salt: int = 0, range_rows: int = 250_000) -> None:
        self._remote, self._salt, self._range_rows = remote, salt, range_rows
        self._tables: dict[str, str] = {}
        self._made, self._failed = 0, False
        self._database = f"tarbox_{uuid4().hex}"
        with self._asking():
            self._session = _connect(remote, f"CREATE DATABASE {self._database}")

    def term_id(self, text: str) -> str:
        kind = f"CASE WHEN startswith({text}, '\"') THEN 1 WHEN startswith({text}, '_:') THEN 2 ELSE 0 END"
        return f"((xxhash64({text}, {self._salt}) & -4) | {kind})"

    def quote(self, text: str) -> str:
        return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"

    def define(self, table: str, sql: str) -> None:
        before, self._made = self._tables.get(table), self._made + 1
        self._tables[table] = name = f"{self._database}.{table}_{self._made}"
        self._execute(f"CREATE TABLE {name} USING parquet AS {typed(table, sql)}")
        self._execute(f"CREATE OR REPLACE TEMPORARY VIEW {table} AS SELECT * FROM {name}")
        if before:
            self._execute(f"DROP TABLE {before}")

    def extend(self, table: str, sql: str) -> None:
        self._execute(f"INSERT INTO {self._tables[table]} {typed(table, sql)}")

    def enumerate(self, table: str, sql: str, key: Sequence[str]) -> None:
        """Rows are numbered within ranges of the key's first column; before each range are those of lower ones."""
        columns = [name for name in PREPARED_TABLES[table].columns if name != "row"]
        source, self._made = f"{self._database}.{table}_{self._made + 1}", self._made + 1
        self._execute(f"CREATE TABLE {source} USING parquet AS {sql}")
        part = _range_of(key[0], [self._literal(bound) for bound in self._bounds(source, key[0])])
        sizes = dict(self.rows(f"SELECT {part} AS part, count(*) FROM {source} GROUP BY 1"))
        before = list(accumulate((sizes.get(number, 0) for number in range(max(sizes, default=0))), initial=0))
        offset = "CASE part " + " ".join(f"WHEN {n} THEN {rows}" for n, rows in enumerate(before)) + " END"
        self.define(
            table,
            f"""SELECT {", ".join(columns)},
                  row_number() OVER (PARTITION BY part ORDER BY {", ".join(key)}) - 1 + {offset} AS row
                FROM (SELECT *, {part} AS part FROM {source}) AS parted""",
        )
        self._execute(f"DROP TABLE {source}")

    def _bounds(self, source: str, column: str) -> list[Any]:
        """Values of the column that part its rows into ranges of about one size."""
        total = self.count(source)
        ranges = min(_MOST_RANGES, -(-total // self._range_rows))
        if ranges < 2:
            return []
        share = max(1, total // (_SAMPLED * ranges))
        sample = f"SELECT DISTINCT {column} FROM {source} WHERE pmod(xxhash64({column}), {share}) = 0"
        drawn = sorted(value for (value,) in self.rows(sample))
        return sorted({drawn[len(drawn) * number // ranges] for number in range(1, ranges)}) if drawn else []

    def _literal(self, value: Any) -> str:
        return self.quote(value) if isinstance(value, str) else str(value)

    def drop(self, table: str) -> None:
        self._execute(f"DROP VIEW {table}")
        self._execute(f"DROP TABLE {self._tables.pop(table)}")

    def fetch(self, sql: str) -> pa.RecordBatchReader:
        from pyspark.sql.pandas.types import to_arrow_schema

        with self._asking():
            client, frame = self._session.client, self._session.sql(sql)
            plan, schema = frame._plan.to_proto(client), to_arrow_schema(frame.schema)
        return pa.RecordBatchReader.from_batches(schema, self._stream(client, plan, schema))

    def _stream(self, client: Any, plan: Any, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
        parts = client.to_table_as_iterator(plan, {})  # what `DataFrame.toArrow` puts together
        while True:
            with self._asking():
                part = next(parts, None)
            if part is None:
                return
            if isinstance(part, pa.Table):
                yield from part.rename_columns(schema.names).cast(schema).to_batches()

    @contextmanager
    def incoming(self, rows: pa.Table) -> Iterator[None]:
        with self._asking():
            self._session.createDataFrame(rows).createOrReplaceTempView(INCOMING)
        yield

    def close(self) -> None:
        if self._failed:
            self._session.client.set_retry_policies([])  # whoever is gone has been waited for
        try:
            self._execute(f"DROP DATABASE {self._database} CASCADE")
        except EngineFailed:
            self._session.client.close()
        else:
            self._session.stop()

    def _execute(self, sql: str) -> None:
        with self._asking():
            self._session.sql(sql)  # a command runs at once

    @contextmanager
    def _asking(self) -> Iterator[None]:
        """Spark's failures in one line."""
        try:
            import grpc
            from pyspark.errors import PySparkException
        except ImportError:
            raise MissingDependency("`--engine spark` needs pyspark-client: pip install 'tarbox[spark]'") from None
        try:
            yield
        except (PySparkException, grpc.RpcError) as error:
            self._failed = True
            told = " ".join(str(error).split())
            inner = _DETAILS.search(told)
            reason = (inner.group(1) if inner else told)[:_SHOWN] or type(error).__name__
            raise EngineFailed(f"Spark at {self._remote} failed, and nothing was built: {reason}") from error


def _connect(remote: str, first: str) -> Any:
    """A session whose first command has been run."""
    with warnings.catch_warnings(), _as_a_program():
        warnings.simplefilter("ignore", FutureWarning)  # that pandas is newer than pyspark knows: it is not used
        from pyspark.sql.connect.client.retries import DefaultPolicy
        from pyspark.sql.connect.session import SparkSession

        session = SparkSession.builder.remote(remote).create()
    warnings.filterwarnings("ignore", r"\[RETRIES_EXCEEDED\]")  # from any thread of it; the error says so
    session.client.set_retry_policies([])
    session.sql(first)  # where nobody is, trying again is of no use
    session.client.set_retry_policies([DefaultPolicy(**_RETRIES)])
    return session


@contextmanager
def _as_a_program() -> Iterator[None]:
    """pyspark takes `python -c` for its own doctests, for which it wants a Spark installed here: give that a name."""
    main = sys.modules["__main__"]
    named = hasattr(main, "__file__")
    if not named:
        main.__file__ = "-c"
    try:
        yield
    finally:
        if not named:
            del main.__file__


def _range_of(column: str, bounds: list[str]) -> str:
    """SQL for the number of the range that a value is in."""
    if not bounds:
        return "0"
    return (
        "CASE " + " ".join(f"WHEN {column} < {b} THEN {n}" for n, b in enumerate(bounds)) + f" ELSE {len(bounds)} END"
    )
