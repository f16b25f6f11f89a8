"""N-Triples and N-Quads: one statement a line.

Blocks of whole lines go through Arrow's column splitter, which takes the lines that are three plain IRIs and a full
stop; everything else (literals, blank nodes, escapes, comments) goes to pyoxigraph. What the quick way accepts,
pyoxigraph accepts with the same result (a property test says so). A block that pyoxigraph refuses is read again
line by line, so that one bad line, even an unterminated literal, costs that line alone.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from functools import partial
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv

from tarbox.kb.facts import NO_SPLIT
from tarbox.kb.sources import Source, chunks
from tarbox.kb.statements import NOTHING, STATEMENTS, Piece, ReadOptions, batch, in_parallel
from tarbox.kb.terms import XSD_STRING

_COLUMNS: Final = ("subject", "predicate", "object", "stop")
_CHARACTER: Final = (  # of an IRI after its authority (RFC 3987), a subset that is surely right
    r"(?:[A-Za-z0-9\-._~!$&'()*+,;=:@/?\x{A0}-\x{D7FF}\x{F900}-\x{FDCF}\x{FDF0}-\x{FFEF}]|%[0-9A-Fa-f]{2})"
)
_IRI: Final = (
    rf"[a-z][a-z0-9+.\-]*:(?://[A-Za-z0-9.\-]+(?:/{_CHARACTER}*)?|[A-Za-z0-9]{_CHARACTER}*)(?:#{_CHARACTER}*)?"
)
_PLAIN: Final = f"<{_IRI}>"
PLAIN_IRI: Final = f"^{_PLAIN}$"
_LITERAL: Final = (  # without escapes, its language in the one form that pyoxigraph would give it
    rf"\"[^\"\\\x00-\x1f\x7f-\x{{9f}}\x{{FFFE}}\x{{FFFF}}]*\"(?:@[a-z]{{2,3}}(?:-[a-z]{{2}})?|\^\^{_PLAIN})?"
)
_WHERE = re.compile(r"^Parser error [^:]*: ")
LONGEST_TERM: Final = 1 << 24
TOO_LONG: Final = f"a term of more than {LONGEST_TERM:,} bytes, the most that pyoxigraph takes"


def read_lines(source: Source, options: ReadOptions, progress: Callable[[int], None]) -> Iterator[Piece]:
    del options  # N-Triples has absolute IRIs only
    parse = partial(_parse_numbered, format=source.format)
    with source.open() as stream:
        for piece in in_parallel(parse, chunks(stream)):
            progress(stream.position())
            yield piece
        if stream.failure:
            yield Piece(NOTHING, [(stream.lines + 1, stream.failure)])


def _parse_numbered(block: tuple[int, bytes], format: str) -> Piece:
    return parse_block(block[1], block[0], format)


def parse_block(block: bytes, first_line: int = 1, format: str = "ntriples") -> Piece:
    """The statements of a block of whole lines; the order of lines is not kept."""
    if b"\r" in block:
        block = block.replace(b"\r\n", b"\n")
    if b"\r" in block or not _is_utf8(block):
        return _parse_rest(list(enumerate(block.split(b"\n"), first_line)), format)
    plain, others = _split_plain(block)
    rest = _parse_rest([(first_line + row, text) for row, text in others], format)
    if not rest.statements.num_rows:
        return Piece(plain, rest.rejected)
    return Piece(pa.concat_tables([_table(plain), _table(rest.statements)]), rest.rejected)


def _table(statements: pa.RecordBatch | pa.Table) -> pa.Table:
    return statements if isinstance(statements, pa.Table) else pa.Table.from_batches([statements])


def _is_utf8(block: bytes) -> bool:
    if block.isascii():
        return True
    try:
        block.decode()
    except UnicodeDecodeError:
        return False
    return True


def _split_plain(block: bytes) -> tuple[pa.RecordBatch | pa.Table, list[tuple[int, bytes]]]:
    """The plain statements of a block, and its other lines with their row."""
    lines = _lines(block)
    between = "\t" if b"\t" in block[: block.find(b"\n") + 1] else " "
    good = pc.match_substring_regex(lines, between.join(["^" + _PLAIN, _PLAIN, _PLAIN, r"\.\n$"]))
    odd = pc.indices_nonzero(pc.invert(good))
    literals, others = _split_literals(lines.take(odd), odd, between)
    kept = lines.filter(good) if len(odd) else lines
    if not len(kept):
        return literals, others
    table = pa.csv.read_csv(
        pa.BufferReader(kept.buffers()[2].slice(0, _extent(kept))),
        pa.csv.ReadOptions(use_threads=False, block_size=len(block) + 1, column_names=_COLUMNS),
        pa.csv.ParseOptions(delimiter=between, quote_char=False),
        pa.csv.ConvertOptions(
            column_types=dict.fromkeys(_COLUMNS, pa.string()), strings_can_be_null=False, check_utf8=False
        ),
    )
    bare = [pc.ascii_trim(table[name].combine_chunks(), "<>") for name in _COLUMNS[:3]]
    split = pa.repeat(pa.scalar(NO_SPLIT, pa.int8()), len(bare[0]))
    plain = pa.record_batch([*bare, split], schema=STATEMENTS)
    return pa.Table.from_batches([plain, literals]), others


def _split_literals(lines: pa.Array, rows: pa.Array, between: str) -> tuple[pa.RecordBatch, list[tuple[int, bytes]]]:
    """The statements with a plain literal among some lines, and the other lines with their row."""
    if not len(lines):
        return NOTHING, []
    named = [f"<(?P<subject>{_IRI})>", f"<(?P<predicate>{_IRI})>", f"(?P<object>{_LITERAL})", r"\.\n$"]
    found = pc.extract_regex(lines, "^" + between.join(named))
    good = pc.and_(pc.is_valid(found), pc.invert(pc.match_substring(lines, f"^^<{XSD_STRING}>")))
    odd = pc.indices_nonzero(pc.invert(good))
    texts = (text.encode() for text in lines.take(odd).to_pylist())
    kept = found.filter(good)
    split = pa.repeat(pa.scalar(NO_SPLIT, pa.int8()), len(kept))
    statements = pa.record_batch([*kept.flatten(), split], schema=STATEMENTS)
    return statements, list(zip(rows.take(odd).to_pylist(), texts, strict=True))


def _lines(block: bytes) -> pa.Array:
    """The lines of a block as an Arrow array over its bytes, each with its newline."""
    ends = np.flatnonzero(np.frombuffer(block, np.uint8) == ord("\n")) + 1
    if not len(ends) or ends[-1] < len(block):
        ends = np.append(ends, len(block))
    offsets = np.concatenate([[0], ends]).astype(np.int32)
    return pa.Array.from_buffers(pa.string(), len(ends), [None, pa.py_buffer(offsets), pa.py_buffer(block)])


def _extent(lines: pa.Array) -> int:
    """How many bytes the lines of an array without offset take."""
    return int(np.frombuffer(lines.buffers()[1], np.int32)[len(lines)])


def _parse_rest(lines: list[tuple[int, bytes]], format: str) -> Piece:
    lines = [(number, text) for number, text in lines if text.strip()]
    if not lines:
        return Piece(NOTHING)
    try:
        return Piece(batch(*_statements(b"\n".join(text for _, text in lines), format)))
    except (SyntaxError, MemoryError):
        return _parse_each(lines, format)


def _parse_each(lines: list[tuple[int, bytes]], format: str) -> Piece:
    good: tuple[list[str], list[str], list[str]] = ([], [], [])
    rejected: list[tuple[int, str]] = []
    for number, text in lines:
        try:
            for column, found in zip(good, _statements(text, format), strict=True):
                column.extend(found)
        except SyntaxError as error:
            rejected.append((number, readable_reason(error)))
        except MemoryError:
            rejected.append((number, TOO_LONG))
    return Piece(batch(*good), rejected)


def _statements(text: bytes, format: str) -> tuple[list[str], list[str], list[str]]:
    """Columns of terms; raises SyntaxError when any line is wrong."""
    import pyoxigraph as ox

    subjects: list[str] = []
    predicates: list[str] = []
    objects: list[str] = []
    named, kind = ox.NamedNode, ox.RdfFormat.N_QUADS if format == "nquads" else ox.RdfFormat.N_TRIPLES
    for quad in ox.parse(text, format=kind):
        subject, object = quad.subject, quad.object
        subjects.append(subject.value if type(subject) is named else str(subject))
        predicates.append(quad.predicate.value)
        objects.append(object.value if type(object) is named else str(object))
    return subjects, predicates, objects


def readable_reason(error: SyntaxError) -> str:
    """pyoxigraph's message without its own idea of the place, control characters made visible."""
    reason = _WHERE.sub("", error.msg or str(error))
    return "".join(c if c.isprintable() else repr(c)[1:-1] for c in reason)
