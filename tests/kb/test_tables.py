"""Tables by block: the quick way through Arrow takes what the plain way takes, with the same result."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tarbox.kb.readers import tables
from tarbox.kb.readers.tables import LAYOUTS, Layout, plain_columns, read_table, split_rows
from tarbox.kb.sources import Source
from tarbox.kb.statements import ReadOptions

LAYOUTS_BY_SIZE = [*LAYOUTS["relations"], *LAYOUTS["types"], *LAYOUTS["labels"]]
CELLS = st.text(st.sampled_from(list("ab'\"\\ ,%<>\u00a0\u2028\x1c\x0b\x0c\x85\ufeffé\U0001f600")), max_size=4)
LINES = st.lists(st.lists(st.one_of(CELLS, st.sampled_from(["train", "test"])), min_size=1, max_size=5), max_size=6)


@settings(max_examples=400, deadline=None)
@given(LINES, st.sampled_from(LAYOUTS_BY_SIZE), st.sampled_from(["\n", "\r\n", "\n\n", "\0\n"]), st.booleans())
def test_what_the_quick_way_takes_the_plain_way_takes(
    lines: list[list[str]], layout: Layout, end: str, is_whole: bool
) -> None:
    block = end.join("\t".join(cells) for cells in lines) + (end if is_whole else "")
    columns = plain_columns(block.encode(), layout)
    if columns is not None:
        plain = tables._piece(*split_rows(block.encode(), 1, "\t", False), [], layout, "urn:x:")
        assert not plain.rejected
        assert tables._statements(columns, layout, "urn:x:").equals(plain.statements)


@pytest.mark.parametrize("layout", LAYOUTS_BY_SIZE)
def test_the_quick_way_takes_ordinary_rows_and_no_other(layout: Layout) -> None:
    row = [*("e/1", 'it\'s "it"', "c")[: len(layout.names) - layout.has_split], *["valid"] * layout.has_split]
    block = ("\t".join(row) + "\n").encode() * 3
    columns = plain_columns(block, layout)
    assert columns is not None
    assert [column.to_pylist() for column in columns] == [[cell] * 3 for cell in row]
    for odd in (b"one cell\n", b"\xff" + block, b"\t" * len(row) + b"\n", "\u00a0\ta\tb\ttrain".encode()):
        assert plain_columns(block + odd, layout) is None


def test_blocks_are_read_in_their_order_with_their_lines(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A bad line costs that line, in whichever block it is."""
    chunks = tables.chunks
    monkeypatch.setattr(tables, "chunks", lambda stream: chunks(stream, size=100))
    rows = ["a\tb" if number % 50 == 7 else f"e{number}\tp\te{number + 1}" for number in range(500)]
    file = tmp_path / "relations.tsv"
    file.write_text("\n".join(["head\trelation\ttail", *rows]))
    pieces = list(read_table(Source(file, str(file), "tsv"), ReadOptions(), lambda _: None))
    assert len(pieces) > 20
    said = [subject for piece in pieces for subject in piece.statements.column(0).to_pylist()]
    assert said == [f"urn:tarbox:e{number}" for number in range(500) if number % 50 != 7]
    assert [line for piece in pieces for line, _ in piece.rejected] == [n + 2 for n in range(500) if n % 50 == 7]
