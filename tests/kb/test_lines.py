"""N-Triples by line: the quick way agrees with pyoxigraph, and a bad line costs that line alone."""

from __future__ import annotations

import gzip
import io
import random
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyoxigraph as ox
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tarbox.core.errors import RejectedLine
from tarbox.kb.build import BuildOptions, build
from tarbox.kb.readers.lines import PLAIN_IRI, parse_block
from tarbox.kb.sources import ForgivingStream, chunks, find_sources

BAD = {
    "unterminated literal": b'<http://e/a%d> <http://e/p> "open .',
    "invalid UTF-8": b"<http://e/a%d> <http://e/p> <http://e/\xff\xfe> .",
    "missing dot": b"<http://e/a%d> <http://e/p> <http://e/b>",
    "relative IRI": b"<http://e/a%d> <p> <http://e/b> .",
    "NUL byte": b"<http://e/a%d> <http://e/p\x00> <http://e/b> .",
    "space in an IRI": b"<http://e/a %d> <http://e/p> <http://e/b> .",
    "bad escape": b'<http://e/a%d> <http://e/p> "bad \\q escape" .',
    "blank predicate": b"<http://e/a%d> _:p <http://e/b> .",
    "literal subject": b'"a%d" <http://e/p> <http://e/b> .',
    "no triple at all": b"%d lorem ipsum dolor .",
}
GOOD = (
    b"<http://e/x%d> <http://e/p> <http://e/y%d> .",
    b'<http://e/x%d> <http://e/label> "some text %d"@en .',
    b"_:b%d <http://e/p> <http://e/y%d> .",
    "<http://e/é%d> <http://e/p> <http://e/北%d> . # with a comment".encode(),
)


def planted() -> tuple[list[bytes], dict[int, str]]:
    """2,000 good lines and 100 bad ones of ten kinds, and where the bad ones are."""
    lines: list[tuple[bytes, str | None]] = [(GOOD[i % 4] % (i, i), None) for i in range(2000)]
    lines += [(text % i, kind) for i in range(10) for kind, text in BAD.items()]
    random.Random(7).shuffle(lines)
    return [line for line, _ in lines], {number: kind for number, (_, kind) in enumerate(lines, 1) if kind}


@pytest.mark.parametrize("compressed", [False, True])
@pytest.mark.parametrize("ending", [b"\n", b"\r\n"])
def test_a_hundred_planted_errors(tmp_path: Path, compressed: bool, ending: bytes) -> None:
    lines, bad = planted()
    text = ending.join(lines) + ending
    file = tmp_path / ("bad.nt.gz" if compressed else "bad.nt")
    file.write_bytes(gzip.compress(text) if compressed else text)
    sources, _ = find_sources([str(file)], "ntriples")
    store = build(sources, tmp_path / "kb")
    assert {row["line"]: row["file"] for row in store.manifest["rejected"]} == dict.fromkeys(bad, str(file))
    assert len(store.manifest["rejected"]) == 100
    assert store.manifest["counts"]["assertions"] == 1000
    assert store.manifest["report"]["statements"] == 2000


def test_strict_stops_at_the_first(tmp_path: Path) -> None:
    lines, bad = planted()
    file = tmp_path / "bad.nt"
    file.write_bytes(b"\n".join(lines))
    sources, _ = find_sources([str(file)], "ntriples")
    with pytest.raises(RejectedLine, match=rf"bad\.nt:{min(bad)}: "):
        build(sources, tmp_path / "kb", BuildOptions(strict=True))
    assert not (tmp_path / "kb").exists()


def test_truncated_gzip_keeps_what_was_readable(tmp_path: Path) -> None:
    noise = random.Random(3)
    text = b"".join(b"<http://e/%x> <http://e/p> <http://e/%x> .\n" % (noise.getrandbits(64), i) for i in range(20000))
    whole = gzip.compress(text)
    file = tmp_path / "cut.nt.gz"
    file.write_bytes(whole[: len(whole) // 2])
    sources, _ = find_sources([str(file)])
    manifest = build(sources, tmp_path / "kb").manifest
    reasons = [row["reason"] for row in manifest["rejected"]]
    assert 5000 < manifest["counts"]["assertions"] < 20000
    assert any("compressed data" in reason for reason in reasons)
    assert all(row["line"] >= manifest["counts"]["assertions"] for row in manifest["rejected"])


def reference(text: bytes) -> set[tuple[str, ...]]:
    """What pyoxigraph reads, line by line."""
    found: set[tuple[str, ...]] = set()
    for line in text.split(b"\n"):
        try:
            quads = list(ox.parse(line, format=ox.RdfFormat.N_TRIPLES))
        except SyntaxError:
            continue
        found |= {tuple(map(str, (quad.subject, quad.predicate, quad.object))) for quad in quads}
    return found


def ours(text: bytes) -> set[tuple[str, ...]]:
    rows = parse_block(text).statements.to_pylist()
    terms = ([row["subject"], row["predicate"], row["object"]] for row in rows)
    return {tuple(term if term[0] in '"_' else f"<{term}>" for term in row) for row in terms}


pieces = st.one_of(
    st.sampled_from(
        ["<http://e/a>", "<a:b>", "<urn:x:y#z>", '"text"', '"a b"@en', "_:b", ".", " ", "\t", "\n", "<", ">", '"']
    ),
    st.text(alphabet="<>:/#?%abé北 \\\"'{}|^`.@_-\x00\x7f\u00a0\ufdd0", max_size=8),
)


literals = st.builds(
    '"{}"{}'.format,
    st.text(alphabet='ab é北\t\\"\u00a0\ufdd0\ufffe\uffff\x7f\x85\U0001f600\U0001fffe', max_size=6),
    st.sampled_from(["", "@en", "@en-us", "@EN", "@en-US", "@abcdefghij", "@e", "^^<a:b>", "^^<b>", "^^<http://e/#é>",
                     "^^<http://www.w3.org/2001/XMLSchema#string>", "^^<http://www.w3.org/2001/XMLSchema#gYear>"]),
)  # fmt: skip


@settings(max_examples=600, deadline=None)
@given(st.lists(literals, min_size=1, max_size=5), st.sampled_from([" ", "\t", "  "]))
def test_literals_read_as_pyoxigraph_reads_them(values: list[str], between: str) -> None:
    block = "".join(between.join(["<a:s>", "<a:p>", value, "."]) + "\n" for value in values).encode()
    assert ours(block) == reference(block)


@settings(max_examples=400, deadline=None)
@given(st.lists(st.lists(pieces, max_size=8).map("".join), max_size=6).map("\n".join))
def test_any_text_reads_as_pyoxigraph_reads_its_lines(text: str) -> None:
    block = text.encode()
    assert ours(block) == reference(block.replace(b"\r\n", b"\n"))


iris = st.builds(
    "{}:{}".format,
    st.sampled_from(["http", "urn", "a", "x+y", "H", "1a", ""]),
    st.text(alphabet="/abZ09.-_~!$&'()*+,;=:@?#%[]é北\u00a0\ufdd0\ue000\U000e0001", max_size=12),
)


@settings(max_examples=1000, deadline=None)
@given(iris)
def test_what_the_quick_way_takes_is_an_iri(iri: str) -> None:
    if not pc.match_substring_regex(pa.array([f"<{iri}>"]), PLAIN_IRI)[0].as_py():
        return
    (triple,) = ox.parse(f"<{iri}> <{iri}> <{iri}> .".encode(), format=ox.RdfFormat.N_TRIPLES)
    assert triple.subject.value == iri


def test_the_quick_way_takes_what_is_common() -> None:
    common = ["http://dbpedia.org/resource/José_(x)", "http://e.org/a#b", "urn:uuid:12-3", "https://e.org/?q=1&r=%20"]
    matched = pc.match_substring_regex(pa.array([f"<{iri}>" for iri in common]), PLAIN_IRI)
    assert matched.to_pylist() == [True] * len(common)


def test_tab_separated_lines_are_read() -> None:
    piece = parse_block(b'<http://e/a>\t<http://e/p>\t<http://e/b>\t.\n<http://e/a>\t<http://e/q>\t"x y"\t.\n')
    assert piece.statements.num_rows == 2
    assert not piece.rejected


class Trickle(io.RawIOBase):
    """A stream that gives out a few bytes at a time."""

    failure = None

    def __init__(self, blocks: Iterator[bytes]) -> None:
        self._blocks = blocks
        self.lines = 0

    def read(self, size: int = -1) -> bytes:
        del size
        block = next(self._blocks, b"")
        self.lines += block.count(b"\n")
        return block


@given(st.binary(max_size=60), st.integers(1, 7))
def test_chunks_are_whole_lines(content: bytes, size: int) -> None:
    parts = (content[i : i + size] for i in range(0, len(content), size))
    found = list(chunks(Trickle(parts)))  # type: ignore[arg-type]
    assert b"".join(block for _, block in found) == content
    assert all(block.endswith(b"\n") for _, block in found[:-1])
    before = [b"".join(block for _, block in found[:i]) for i in range(len(found))]
    assert [line for line, _ in found] == [1 + text.count(b"\n") for text in before]


def test_stream_counts_lines(tmp_path: Path) -> None:
    file = tmp_path / "a.txt"
    file.write_bytes(b"1\n2\n3")
    with ForgivingStream(file) as stream:
        assert stream.readall() == b"1\n2\n3"
        assert stream.lines == 2
