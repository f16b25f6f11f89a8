"""Tables of facts: TSV and CSV.

What a table holds is told by its file's name (`types.tsv.gz`), or else by the number of its columns. Ids become IRIs
(`urn:tarbox:` or the given base, and the percent-encoded id), except a cell that is an IRI in angle brackets or a
literal in N-Triples form already, as `kb export` writes them.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Final, final

import pyarrow as pa
import pyarrow.compute as pc

from tarbox.core.errors import SourceError
from tarbox.kb.facts import NO_SPLIT, SPLITS
from tarbox.kb.namespaces import LABEL, SUBCLASS, TYPE
from tarbox.kb.sources import COMPRESSIONS, Source, chunks
from tarbox.kb.statements import NOTHING, STATEMENTS, Piece, ReadOptions
from tarbox.kb.terms import is_literal_text, literal, mint, valid_iri


@final
@dataclass(frozen=True, slots=True)
class Layout:
    """The columns of a table: which make the subject, the predicate (a column or a fixed one) and the object."""

    names: tuple[str, ...]
    predicate: int | str
    text: bool = False  # the object is a text, not an id


_ASSERTIONS: Final = Layout(("head", "relation", "tail"), 1)
_SPLIT: Final = Layout(("head", "relation", "tail", "split"), 1)
_TYPINGS: Final = Layout(("entity", "concept"), TYPE)
_SUBSUMPTIONS: Final = Layout(("sub", "super"), SUBCLASS)
_LABELS: Final = Layout(("id", "label"), LABEL, text=True)
LAYOUTS: Final[Mapping[str, tuple[Layout, ...]]] = {
    **dict.fromkeys(("relations", "assertions", "triples", "facts", "train", "valid", "test"), (_ASSERTIONS, _SPLIT)),
    **dict.fromkeys(("types", "typings", "instances"), (_TYPINGS,)),
    **dict.fromkeys(("subclass", "subclasses", "subsumptions", "hierarchy"), (_SUBSUMPTIONS,)),
    **dict.fromkeys(("labels", "names"), (_LABELS,)),
}
_HEADERS: Final = {name for layouts in LAYOUTS.values() for layout in layouts for name in layout.names} | {
    "subject",
    "predicate",
    "object",
    "relation",
    "instance",
    "class",
    "type",
    "subclass",
    "superclass",
    "name",
}


def read_table(source: Source, options: ReadOptions, progress: Callable[[int], None]) -> Iterator[Piece]:
    layout: Layout | None = None
    parse = partial(_rows, delimiter="\t" if source.format == "tsv" else ",", quoted=source.format == "csv")
    with source.open() as stream:
        for first_line, block in chunks(stream):
            rows, rejected = parse(block, first_line)
            if layout is None and rows:
                layout = _layout(source, len(rows[0][1]))
                if {cell.strip().lower() for cell in rows[0][1]} <= _HEADERS:
                    rows = rows[1:]
            progress(stream.position())
            if layout is not None:
                yield _piece(rows, rejected, layout, options.table_base)
            elif rejected:
                yield Piece(NOTHING, rejected)
        if stream.failure:
            yield Piece(NOTHING, [(stream.lines + 1, stream.failure)])


def _layout(source: Source, width: int) -> Layout:
    stem = Path(source.path.stem if source.path.suffix in COMPRESSIONS else source.path.name).stem.lower()
    word = next((key for key in LAYOUTS if stem == key or stem.endswith((f"_{key}", f"-{key}", f".{key}"))), None)
    layouts = LAYOUTS[word] if word else LAYOUTS["relations"]
    for layout in layouts:
        if len(layout.names) == width:
            return layout
    expected = " or ".join(str(len(layout.names)) for layout in layouts)
    raise SourceError(
        f"{source.name}: {width} columns where {word or 'a table of assertions'} has {expected} "
        f"({', '.join(layouts[-1].names)}). Name the file by what it holds: relations, types, subclass or labels."
    )


def _rows(
    block: bytes, first_line: int, delimiter: str, quoted: bool
) -> tuple[list[tuple[int, list[str]]], list[tuple[int, str]]]:
    """(line, cells) of each row, and the lines that are no text."""
    rows: list[tuple[int, list[str]]] = []
    rejected: list[tuple[int, str]] = []
    for number, raw in enumerate(block.split(b"\n"), first_line):
        if not (stripped := raw.rstrip(b"\r")):
            continue
        if b"\x00" in stripped:
            rejected.append((number, "NUL byte"))
            continue
        try:
            line = stripped.decode()
        except UnicodeDecodeError as error:
            rejected.append((number, f"invalid UTF-8: {error.reason} at byte {error.start + 1}"))
            continue
        rows.append((number, next(csv.reader(io.StringIO(line))) if quoted else line.split(delimiter)))
    return rows, rejected


def _piece(rows: list[tuple[int, list[str]]], rejected: list[tuple[int, str]], layout: Layout, base: str) -> Piece:
    width = len(layout.names)
    good: list[list[str]] = []
    for number, cells in rows:
        fault = _fault(cells, layout, width)
        if fault is None:
            good.append(cells)
        else:
            rejected.append((number, fault))
    if not good:
        return Piece(NOTHING, sorted(rejected))
    columns = [pa.array(column, pa.string()) for column in zip(*good, strict=True)]
    ids = partial(_each_distinct, convert=partial(_term, base=base))
    last = columns[2 if width > 2 else 1]
    objects = _each_distinct(last, literal) if layout.text else ids(last)
    predicate = layout.predicate
    predicates = ids(columns[predicate]) if isinstance(predicate, int) else pa.repeat(pa.scalar(predicate), len(good))
    splits = (
        pc.index_in(columns[3], pa.array(SPLITS)).cast(pa.int8())
        if width == 4
        else pa.repeat(pa.scalar(NO_SPLIT, pa.int8()), len(good))
    )
    statements = pa.record_batch([ids(columns[0]), predicates, objects, splits], schema=STATEMENTS)
    return Piece(statements, sorted(rejected))


def _fault(cells: list[str], layout: Layout, width: int) -> str | None:
    if len(cells) != width:
        return f"{len(cells)} columns where the table has {width} ({', '.join(layout.names)})"
    if not all(cell.strip() for cell in cells):
        return f"empty {layout.names[next(i for i, cell in enumerate(cells) if not cell.strip())]}"
    if width == 4 and cells[3] not in SPLITS:
        return f"unknown split '{cells[3]}': one of {', '.join(SPLITS)}"
    for cell in cells[:1] if layout.text else cells[:3]:
        if cell.startswith("<") and cell.endswith(">") and not valid_iri(cell[1:-1]):
            return f"not an absolute IRI: {cell}"
    return None


def _each_distinct(column: pa.Array, convert: Callable[[str], str]) -> pa.Array:
    """`convert` applied to every value, at the cost of the distinct ones."""
    encoded = column.dictionary_encode()
    return pa.array([convert(value) for value in encoded.dictionary.to_pylist()], pa.string()).take(encoded.indices)


def _term(cell: str, base: str) -> str:
    if cell.startswith("<") and cell.endswith(">"):
        return cell[1:-1]
    return cell if is_literal_text(cell) else mint(cell, base)
