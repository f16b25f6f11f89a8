"""Turtle, TriG, RDF/XML and JSON-LD, streamed by pyoxigraph."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator
from typing import Any, Final
from xml.parsers import expat

from tarbox.core.errors import ConfigError
from tarbox.kb.readers.lines import LONGEST_TERM, TOO_LONG, readable_reason
from tarbox.kb.readers.markup import BadMarkup, XmlStream
from tarbox.kb.sources import Source
from tarbox.kb.statements import NOTHING, STATEMENT_BLOCK, Piece, ReadOptions, batch

_MOST_ERRORS: Final = 1000
_REMOTE: Final = "LoadDocumentCallback"
_REMOTE_CONTEXT: Final = "its @context is elsewhere, and nothing is fetched: write the context into the file"


def read_rdf(source: Source, options: ReadOptions, progress: Callable[[int], None]) -> Iterator[Piece]:
    """Statements up to the first error; from there on, see `_recover`."""
    with source.open() as stream:
        try:
            checked = XmlStream(stream) if source.format == "rdfxml" else None
        except BadMarkup as bad:
            yield Piece(NOTHING, [(bad.line, f"{bad}; nothing of this file is read")])
            return
        rows = _rows(_parser(checked or stream, source.format, options.base))
        while True:
            block, error = _take(rows)
            progress(stream.position())
            if stream.failure:  # what the parser says of a text that was cut is beside the point
                yield Piece(block, [(stream.lines + 1, stream.failure)])
                return
            if block.num_rows:
                yield Piece(block)
            if error is not None:
                break
            if not block.num_rows:
                if checked is not None and checked.ending:
                    yield Piece(NOTHING, [(stream.lines + 1, checked.ending)])
                return
    yield from _recover(source, options, error)


def _take(rows: Iterator[tuple[str, str, str]]) -> tuple[Any, SyntaxError | None]:
    """Up to a block of statements, and the error that ended it early."""
    found: list[tuple[str, str, str]] = []
    error = None
    try:
        for row in rows:
            found.append(row)
            if len(found) == STATEMENT_BLOCK:
                break
    except SyntaxError as raised:
        error = raised
    except MemoryError:
        error = SyntaxError(TOO_LONG)
    return (batch(*zip(*found, strict=True)) if found else NOTHING), error


def _recover(source: Source, options: ReadOptions, error: SyntaxError) -> Iterator[Piece]:
    """After an error in Turtle or TriG, read on behind the statement that holds it; the others cannot be entered again.

    pyoxigraph's own recovery passes over the next statement as well, or invents one (RDF/XML), so it is not used.
    """
    with source.open() as stream:
        text = stream.readall()
    if source.format == "jsonld":
        reason = _REMOTE_CONTEXT if _REMOTE in str(error) else readable_reason(error)
        yield Piece(NOTHING, [(error.lineno or 1, f"{reason}; the rest of the file is not read")])
        return
    if source.format == "rdfxml":
        reason = f"{readable_reason(error)}; the rest of the file is not read"
        yield Piece(NOTHING, [(_line_of_xml_error(text, error), reason)])
        return
    prologue, line = b"", 1
    for _ in range(_MOST_ERRORS):
        bad = line + error.lineno - 1 - prologue.count(b"\n") if error.lineno else _long_line(text, line)
        start, line = _statement_after(text, bad)
        yield Piece(NOTHING, [(bad, readable_reason(error))])
        prologue = _prologue(text[:start])
        rows = _rows(_parser(io.BytesIO(prologue + text[start:]), source.format, options.base))
        while True:
            block, found = _take(rows)
            if block.num_rows:
                yield Piece(block)
            if found is not None:
                error = found
                break
            if not block.num_rows:
                return
    yield Piece(NOTHING, [(line, f"more than {_MOST_ERRORS} errors; the rest of the file is not read")])


def _statement_after(text: bytes, line: int) -> tuple[int, int]:
    """Offset and number of the first line behind the statement that ends on or after `line`."""
    offset = 0
    for number, content in enumerate(text.splitlines(keepends=True), 1):
        offset += len(content)
        ended = content.split(b" #")[0].rstrip().endswith((b".", b"}"))
        if number >= line and ended:
            return offset, number + 1
    return len(text), text.count(b"\n") + 1


def _long_line(text: bytes, first: int) -> int:
    """The first line, from `first` on, that is too long for the parser; the last where none is."""
    lines = text.splitlines()
    return next((n for n in range(first, len(lines) + 1) if len(lines[n - 1]) > LONGEST_TERM), len(lines))


def _prologue(text: bytes) -> bytes:
    """The prefix and base declarations of `text`, one a line."""
    starts = (b"@prefix", b"@base", b"prefix", b"base")
    return b"".join(
        line + b"\n" for line in text.splitlines() if line.strip().lower().startswith(starts) and b"<" in line
    )


def _line_of_xml_error(text: bytes, error: SyntaxError) -> int:
    """The line of the fault: of an ill-formed document, or of the value that the message quotes."""
    parser = expat.ParserCreate()
    try:
        parser.Parse(text, True)
    except expat.ExpatError as found:
        return found.lineno
    quoted = str(error.msg).split("'")
    at = text.find(quoted[1].encode()) if len(quoted) > 1 else -1
    return text.count(b"\n", 0, at) + 1 if at >= 0 else 1


def check_base(base: str) -> None:
    """Refuses a base that is no absolute IRI."""
    import pyoxigraph as ox

    try:
        ox.NamedNode(base)
    except ValueError:
        raise ConfigError(
            f"--base '{base}' is no base: write an absolute IRI, such as http://example.org/. It is put before the ids "
            "of tables and resolves relative IRIs."
        ) from None


def _parser(stream: Any, format: str, base: str | None) -> Any:
    import pyoxigraph as ox

    kinds = ox.RdfFormat
    formats = {"turtle": kinds.TURTLE, "trig": kinds.TRIG, "rdfxml": kinds.RDF_XML, "jsonld": kinds.JSON_LD}
    return ox.parse(stream, format=formats[format], base_iri=base)


def _rows(quads: Iterator[Any]) -> Iterator[tuple[str, str, str]]:
    import pyoxigraph as ox

    named = ox.NamedNode
    for quad in quads:
        subject, object = quad.subject, quad.object
        yield (
            subject.value if type(subject) is named else str(subject),
            quad.predicate.value,
            object.value if type(object) is named else str(object),
        )
