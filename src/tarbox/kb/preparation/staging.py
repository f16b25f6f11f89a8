"""Statements on their way into a store: readers' blocks become rows of an engine's tables."""

from __future__ import annotations

import re
from typing import Final, final

import pyarrow as pa
import pyarrow.compute as pc

from tarbox.core.errors import ConfigError, EngineFailed
from tarbox.kb.preparation import program, queries
from tarbox.kb.preparation.engine import Steps, TableEngine
from tarbox.kb.statements import STATEMENTS, Piece

_UNITS: Final = {"": 1, "K": 1e3, "M": 1e6, "G": 1e9, "T": 1e12}
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
    """Takes statements into the tables of `engine`, many at a time; `as_context` those that no source makes."""

    def __init__(self, engine: TableEngine) -> None:
        self.engine = engine
        self.as_context = False
        for table in ("statement", "term", "attribute", "context", "merged"):
            engine.create(table)
        self._waiting: list[pa.RecordBatch] = []
        self._said: list[pa.Table] = []
        self._rows = self._sent = 0

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
        if self._rows >= self.engine.block_rows:
            self.flush()

    def flush(self) -> None:
        """Let the engine have what waits."""
        if not self._rows:
            return
        self._send(pa.Table.from_batches(self._waiting, STATEMENTS), program.taken_in(self.engine, self.as_context))
        if self._said:
            self._send(pa.concat_tables(self._said), program.attributes_taken_in(self.engine))
        self._waiting, self._rows, self._sent, self._said = [], 0, self._sent + self._rows, []

    def _send(self, rows: pa.Table, steps: Steps) -> None:
        for block in self.engine.blocks(rows):
            with self.engine.incoming(block):
                self.engine.add(steps)

    def close_terms(self) -> None:
        """Make of `term` a table of distinct terms, `name`."""
        self.flush()
        if (staged := self.engine.count("statement")) != self._sent:  # a block sent again, or lost on its way
            raise EngineFailed(f"{staged:,} of {self._sent:,} statements arrived. Nothing was built; try again.")
        self.engine.run(program.DISTINCT)
        self.engine.drop("term")
        if self.engine.number(queries.COLLISIONS):
            raise HashCollision
