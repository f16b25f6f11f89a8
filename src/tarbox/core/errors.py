"""Every error that tarbox raises on purpose, in one tree.

::

    TarboxError
    ├── SourceError              a file cannot be read, or is of no known format
    │   └── RejectedLine         one line of it is wrong (raised under --strict only)
    ├── StoreError               a store cannot be opened or written
    │   ├── StoreMissing         there is none at this path
    │   ├── StoreDamaged         a file of it is not what was written
    │   ├── StoreVersion         another version of tarbox wrote it
    │   └── EngineFailed         what prepares it on other machines gave up
    ├── NameLookupError          a name in a query or on the command line
    │   ├── UnknownName          nothing is called that
    │   │   └── UnknownAttribute     after the dot of `kb.Name`
    │   └── AmbiguousName        several things are
    ├── QueryError               a query that cannot be answered
    │   ├── QuerySyntaxError     it does not follow the grammar
    │   ├── NotAnswerable        it does, but tarbox has no meaning for it
    │   ├── NoSuchFormat         its results do not come in any format that is asked for
    │   └── QueryTooLarge        it exceeds the limits against hostile input
    ├── BenchmarkError           a benchmark cannot be built or read
    ├── ConfigError              a setting is unknown or out of range
    ├── Overloaded               a server is still at work on what nobody waits for any more
    └── MissingDependency        an optional package is needed

All of them are for the person who must act: the message says what was wrong, with the value, and what to do.
The command line prints the message on one line and exits with 1; neither it nor a notebook shows a traceback for these.
"""

from __future__ import annotations

from collections.abc import Sequence


class TarboxError(Exception):
    """The root of the tree; catching it catches every foreseen failure."""

    def _render_traceback_(self) -> list[str]:
        """What IPython shows in the place of a traceback."""
        return [f"{type(self).__name__}: {self}"]


class SourceError(TarboxError):
    """A source file cannot be read, or is of no known format."""


class RejectedLine(SourceError):
    """A line of a source is wrong, and the user asked to stop at the first (`--strict`)."""


class StoreError(TarboxError):
    """A store cannot be opened or written."""


class StoreMissing(StoreError):
    """There is no store at this path."""


class StoreDamaged(StoreError):
    """A file of the store is not what was written; the message names it."""


class StoreVersion(StoreError):
    """The store has a format version that this tarbox does not read."""


class EngineFailed(StoreError):
    """What prepares a store on other machines cannot be reached, or gave up; nothing was built."""


class NameLookupError(TarboxError):
    """A name that does not lead to exactly one thing; `candidates` are near or equal names."""

    def __init__(self, message: str, candidates: Sequence[str] = ()) -> None:
        super().__init__(message)
        self.candidates = tuple(candidates)


class UnknownName(NameLookupError):
    """Nothing has this name; `candidates` are the nearest names, best first."""


class UnknownAttribute(UnknownName, AttributeError):
    """The same of `kb.Name`: also what Python expects of an attribute that is not there."""


class AmbiguousName(NameLookupError):
    """Several things have this name; `candidates` are their IRIs."""


class QueryError(TarboxError):
    """A query that cannot be answered."""


class QuerySyntaxError(QueryError):
    """A query text that does not follow the grammar, with a caret under the place."""

    def __init__(self, reason: str, text: str, position: int, candidates: Sequence[str] = ()) -> None:
        self.reason = reason
        self.text = text
        self.position = position
        self.candidates = tuple(candidates)
        super().__init__(f"{reason}\n{point_at(text, position)}")


class NotAnswerable(QuerySyntaxError):
    """A construct of the language that tarbox has no answer for; the message says what is answerable."""


class NoSuchFormat(QueryError):
    """Results do not come in any format that is asked for."""


class QueryTooLarge(QueryError):
    """A query beyond the limits on size or depth."""


class BenchmarkError(TarboxError):
    """A benchmark that cannot be built or read."""


class ConfigError(TarboxError):
    """A setting that is unknown or out of range."""


class Overloaded(TarboxError):
    """A server whose threads are all taken by work that was given up; ask again later."""


class MissingDependency(TarboxError):
    """An optional package is needed; the message says how to install it."""


def point_at(text: str, position: int, width: int = 100) -> str:
    """Two lines: the line of `text` that holds `position` (at most `width` characters of it) and a caret below."""
    position = max(0, min(position, len(text)))
    start = text.rfind("\n", 0, position) + 1
    end = text.find("\n", position)
    line = text[start : end if end >= 0 else len(text)]
    column = position - start
    cut = max(0, column - width // 2) if len(line) > width else 0
    shown = "".join(c if c.isprintable() else " " for c in line[cut : cut + width])
    return f"  {shown}\n  {' ' * (column - cut)}^"
