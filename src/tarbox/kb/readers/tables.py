"""Tables of facts: TSV and CSV.

What a table holds is told by its file's name (`types.tsv.gz`), or else by the number of its columns. Ids become IRIs
(`urn:tarbox:` or the given base, and the percent-encoded id), except a cell that is an IRI in angle brackets or a
literal in N-Triples form already, as `kb export` writes them. Where the columns are named (`parse_columns`), a header
says where they are, and those with names of their own become attributes of the facts.
"""

from __future__ import annotations

import csv
import io
from codecs import BOM_UTF8
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Final, final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv

from tarbox.core.errors import ConfigError, SourceError
from tarbox.kb.facts import NO_SPLIT, SPLITS
from tarbox.kb.namespaces import LABEL, SUBCLASS, TYPE
from tarbox.kb.sources import COMPRESSIONS, Source, chunks
from tarbox.kb.statements import NOTHING, STATEMENTS, Piece, ReadOptions, attribute_list, in_parallel
from tarbox.kb.terms import from_cell, from_ntriples, literal, valid_iri

TableRows = list[tuple[int, list[str]]]
"""(line, cells) of the rows of a table."""
ParseRows = Callable[[bytes, int], tuple[TableRows, list[tuple[int, str]]]]


@final
@dataclass(frozen=True, slots=True)
class Layout:
    """The columns of a table: which make the subject, the predicate (a column or a fixed one) and the object."""

    names: tuple[str, ...]
    predicate: int | str
    text: bool = False  # the object is a text, not an id
    attributes: tuple[str, ...] = ()  # what columns behind these say of the fact

    @property
    def has_split(self) -> bool:
        return self.names[-1] == "split"


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
_NAMED: Final = (_SPLIT, _ASSERTIONS, _TYPINGS, _SUBSUMPTIONS, _LABELS)
_PARTS: Final = {"subject": "head", "object": "tail", "predicate": "relation"}
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


def parse_columns(text: str) -> dict[str, str]:
    """What ``subject=drug,relation=<urn:treats>,object=disease`` says: the column of each part of a fact, or a term.

    Parts are those of a `Layout` (subject and object for head and tail); others name attributes of the fact.
    """
    given = dict(part.partition("=")[::2] for part in text.split(",") if part.strip())
    columns = {_PARTS.get(part.strip().lower(), part.strip()): column.strip() for part, column in given.items()}
    if not all(columns.values()) or _named_layout(columns) is None:
        raise ConfigError(
            f"--columns '{text}': name the columns of a table as in subject=drug,relation=effect,object=disease; "
            "entity=,concept=; sub=,super=; or id=,label=. A relation may be <IRI> instead."
        )
    return columns


def _named_layout(columns: Mapping[str, str]) -> Layout | None:
    return next((layout for layout in _NAMED if set(layout.names) <= set(columns)), None)


def read_table(source: Source, options: ReadOptions, progress: Callable[[int], None]) -> Iterator[Piece]:
    layout: Layout | None = None
    places: list[int] = []
    parse = partial(split_rows, delimiter="\t" if source.format == "tsv" else ",", quoted=source.format == "csv")
    with source.open() as stream:
        blocks = chunks(stream)
        for first_line, block in blocks:  # until there is a row to tell the layout by
            rows, rejected = parse(block, first_line)
            if rows and options.columns:
                layout, places = _choose(source, rows.pop(0)[1], options.columns)
            elif rows:
                layout = _layout(source, len(rows[0][1]))
                if {cell.strip().lower() for cell in rows[0][1]} <= _HEADERS:
                    rows = rows[1:]
            progress(stream.position())
            if layout is not None:
                yield _piece(rows, rejected, places, layout, options.table_base)
                break
            yield Piece(NOTHING, rejected)
        if layout is not None:
            quick = source.format == "tsv" and not places
            read = partial(_read_block, parse=parse, places=places, layout=layout, base=options.table_base, quick=quick)
            for piece in in_parallel(read, blocks):
                progress(stream.position())
                yield piece
        if stream.failure:
            yield Piece(NOTHING, [(stream.lines + 1, stream.failure)])


def _read_block(
    block: tuple[int, bytes], parse: ParseRows, places: list[int], layout: Layout, base: str, quick: bool
) -> Piece:
    columns = plain_columns(block[1], layout) if quick else None
    if columns is not None:
        return Piece(_statements(columns, layout, base))
    return _piece(*parse(block[1], block[0]), places, layout, base)


def plain_columns(block: bytes, layout: Layout) -> list[pa.Array] | None:
    """The columns of a block of tab-separated rows, or None where one needs a closer look: `_piece` then takes it."""
    if any(sign in block for sign in (b"\0", b"\r", b"<")) or block.startswith(BOM_UTF8):
        return None
    try:
        table = pa.csv.read_csv(
            pa.BufferReader(block),
            pa.csv.ReadOptions(use_threads=False, block_size=len(block) + 1, column_names=layout.names),
            pa.csv.ParseOptions(delimiter="\t", quote_char=False),
            pa.csv.ConvertOptions(column_types=dict.fromkeys(layout.names, pa.string()), strings_can_be_null=False),
        )
    except pa.ArrowInvalid:
        return None
    columns = [table[name].combine_chunks() for name in layout.names]
    if any(pc.any(pc.equal(pc.utf8_trim_whitespace(column), "")).as_py() for column in columns):
        return None
    if layout.has_split and not pc.all(pc.is_in(columns[-1], pa.array(SPLITS))).as_py():
        return None
    return columns


def _choose(source: Source, header: list[str], columns: Mapping[str, str]) -> tuple[Layout, list[int]]:
    """The layout that named columns make, and where they are."""
    layout, found = _named_layout(columns), [cell.strip() for cell in header]
    assert layout is not None
    fixed = {part: from_ntriples(name) for part, name in columns.items() if name.startswith("<")}
    parts = [part for part in dict.fromkeys((*layout.names, *columns)) if part not in fixed]
    missing = [columns[part] for part in parts if columns[part] not in found]
    if missing:
        raise SourceError(f"{source.name}:1: no column '{missing[0]}' among {', '.join(found)} (--columns).")
    said = tuple(part for part in parts if part not in layout.names)
    names = tuple(part for part in layout.names if part not in fixed)
    predicate = fixed.get("relation", layout.predicate)
    return Layout(names, predicate, layout.text, said), [found.index(columns[part]) for part in parts]


def _pick(rows: TableRows, places: list[int]) -> tuple[TableRows, list[tuple[int, str]]]:
    """The cells at some places of each row, and the rows that have too few."""
    least = max(places) + 1
    short = [(number, f"{len(cells)} columns where {least} are needed") for number, cells in rows if len(cells) < least]
    return [(number, [cells[place] for place in places]) for number, cells in rows if len(cells) >= least], short


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


def split_rows(block: bytes, first_line: int, delimiter: str, quoted: bool) -> tuple[TableRows, list[tuple[int, str]]]:
    """(line, cells) of each row, and the lines that are no text."""
    rows: TableRows = []
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


def _piece(rows: TableRows, rejected: list[tuple[int, str]], places: list[int], layout: Layout, base: str) -> Piece:
    if places:
        rows, short = _pick(rows, places)
        rejected += short
    width = len(layout.names)
    good: list[list[str]] = []
    attributes: list[tuple[int, str, str]] = []
    for number, cells in rows:
        said = [(len(good), name, cells.pop()) for name in reversed(layout.attributes)]
        fault = _fault(cells, layout, width)
        if fault is None:
            good.append(cells)
            attributes += [row for row in reversed(said) if row[2].strip()]
        else:
            rejected.append((number, fault))
    columns = [pa.array(column, pa.string()) for column in zip(*good, strict=True)]
    statements = _statements(columns, layout, base) if good else NOTHING
    return Piece(statements, sorted(rejected), attributes=attribute_list(attributes))


def _statements(columns: list[pa.Array], layout: Layout, base: str) -> pa.RecordBatch:
    rows = len(columns[0])
    ids = partial(_each_distinct, convert=partial(from_cell, base=base))
    last = columns[len(layout.names) - 1 - layout.has_split]
    objects = _each_distinct(last, literal) if layout.text else ids(last)
    predicate = layout.predicate
    predicates = ids(columns[predicate]) if isinstance(predicate, int) else pa.repeat(pa.scalar(predicate), rows)
    splits = (
        pc.index_in(columns[-1], pa.array(SPLITS)).cast(pa.int8())
        if layout.has_split
        else pa.repeat(pa.scalar(NO_SPLIT, pa.int8()), rows)
    )
    return pa.record_batch([ids(columns[0]), predicates, objects, splits], schema=STATEMENTS)


def _fault(cells: list[str], layout: Layout, width: int) -> str | None:
    if len(cells) != width:
        return f"{len(cells)} columns where the table has {width} ({', '.join(layout.names)})"
    if not all(cell.strip() for cell in cells):
        return f"empty {layout.names[next(i for i, cell in enumerate(cells) if not cell.strip())]}"
    if layout.has_split and cells[-1] not in SPLITS:
        return f"unknown split '{cells[-1]}': one of {', '.join(SPLITS)}"
    for cell in cells[:1] if layout.text else cells[:3]:
        if cell.startswith("<") and cell.endswith(">") and not valid_iri(cell[1:-1]):
            return f"not an absolute IRI: {cell}"
    return None


def _each_distinct(column: pa.Array, convert: Callable[[str], str]) -> pa.Array:
    """`convert` applied to every value, at the cost of the distinct ones."""
    encoded = column.dictionary_encode()
    return pa.array([convert(value) for value in encoded.dictionary.to_pylist()], pa.string()).take(encoded.indices)
