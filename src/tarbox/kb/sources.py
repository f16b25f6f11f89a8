"""Where facts come from: files, folders and globs; their compression and their format."""

from __future__ import annotations

import bz2
import glob
import gzip
import io
import lzma
import re
import zlib
from codecs import BOM_UTF8
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, Final, final

from tarbox.core.errors import SourceError

FORMATS: Final[dict[str, tuple[str, ...]]] = {
    "ntriples": (".nt", ".ntriples"),
    "nquads": (".nq", ".nquads"),
    "turtle": (".ttl", ".turtle"),
    "trig": (".trig",),
    "rdfxml": (".rdf",),
    "jsonld": (".jsonld",),
    "functional": (".ofn", ".fss"),
    "owlxml": (".owx",),
    "manchester": (".omn",),
    "obo": (".obo",),
    "tsv": (".tsv",),
    "csv": (".csv",),
    "kgx": (),  # .tsv: told by its header
    "kgx-jsonl": (),  # .jsonl: told by its first line
    "gaf": (".gaf",),
    "hpoa": (".hpoa",),
    "hpo-genes": (),  # .txt: told by its header
    "hpo-diseases": (),
    "hgnc": (),
    "yago4-class": (),  # the dumps behind the presets yago4 and dbpedia: never guessed
    "yago4-facts": (),
    "yago4-types": (),
    "dbpedia-ontology": (),
    "dbpedia-objects": (),
    "dbpedia-types": (),
}
COMPRESSIONS: Final = (".gz", ".bz2", ".xz", ".zst")
_AMBIGUOUS: Final = (".owl", ".xml", ".txt", ".ttl", ".json", ".jsonl", "")  # the content decides
_HEAD: Final = 1 << 16
_PART: Final = 1 << 16
_LINE_OF_TRIPLE = re.compile(rb'\s*(?:<[^<>"\s]*>|_:\S+)\s+<[^<>"\s]*>\s+\S.*\.\s*(?:#.*)?')
_SIGNS: Final[tuple[tuple[str, re.Pattern[bytes]], ...]] = (  # tried in this order on the head of a file
    ("obo", re.compile(rb"\A\s*(?:format-version:|ontology:|\[(?:Term|Typedef|Instance)\])", re.M)),
    ("functional", re.compile(rb"^\s*(?:Prefix\s*\(|Ontology\s*\()", re.M)),
    ("manchester", re.compile(rb"^\s*(?:Prefix:|Ontology:)", re.M)),
    ("rdfxml", re.compile(rb"<(?:\w+:)?RDF[\s>]")),
    ("owlxml", re.compile(rb"<(?:\w+:)?Ontology\s")),
    ("turtle", re.compile(rb"^\s*(?:@prefix|@base|PREFIX\s|BASE\s)", re.M | re.I)),
    ("gaf", re.compile(rb"\A!gaf-version:")),
    ("hpo-genes", re.compile(rb"\A#?ncbi_gene_id\tgene_symbol\thpo_id\t")),
    ("hpo-diseases", re.compile(rb"\A#?ncbi_gene_id\tgene_symbol\tassociation_type\t")),
    ("hgnc", re.compile(rb"\A[^\n]*\bsymbol\t[^\n]*\bprev_symbol\t")),
    ("jsonld", re.compile(rb'\A\s*[{\[](?s:.*)"@(?:context|graph|id)"')),
    ("kgx-jsonl", re.compile(rb'\A\s*\{[^\n]*"(?:predicate|category)"\s*:')),
    ("tsv", re.compile(rb"\A[^\n]+\t[^\n]+")),
)

_VERSION: Final = re.compile(  # OBO; GAF; the tables of HPO; OWL as RDF/XML, as Turtle, in functional syntax
    rb"^(?:data-version|!date-generated|!Generated|#version|#date):[ \t]*(\S[^\r\n]*?)[ \t]*\r?$"
    rb'|<owl:version(?:IRI\s[^>]*resource="|Info[^>]*>)([^"<]+)|owl:version(?:IRI\s+<|Info\s+")([^">]+)'
    rb"|^Ontology\(<[^>]*>\s*<([^>]+)>",
    re.M,
)


@final
@dataclass(frozen=True, slots=True)
class Rejection:
    """A line that could not be read."""

    file: str
    line: int
    reason: str

    def __str__(self) -> str:
        return f"{self.file}:{self.line}: {self.reason}"


@final
@dataclass(frozen=True, slots=True)
class Source:
    """One file to read. `name` is how messages call it: as the user wrote it."""

    path: Path
    name: str
    format: str

    def open(self) -> ForgivingStream:
        return ForgivingStream(self.path)


@final
class ForgivingStream(io.RawIOBase):
    """The decompressed bytes of a file, without the byte-order mark that some programs put before a text in UTF-8.

    When the compressed data end too early or are damaged, the stream ends there and `failure` says why, so that what
    was readable is not lost. `lines` counts the newlines that have passed.
    """

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.failure: str | None = None
        self.lines = 0
        try:
            self._raw = path.open("rb")
            self._stream = _decompress(self._raw, path.suffix)
            self._most = 1 << 24 if self._stream is self._raw else _PART
        except OSError as error:
            raise SourceError(f"cannot read {path}: {error.strerror or error}") from None
        self._ahead = self._take(len(BOM_UTF8)).removeprefix(BOM_UTF8)

    def readable(self) -> bool:
        return True

    def read(self, size: int = -1) -> bytes:
        if size < 0:
            return self.readall()
        ahead, self._ahead = self._ahead[:size], self._ahead[size:]
        block = ahead + self._take(size - len(ahead))
        self.lines += block.count(b"\n")
        return block

    def _take(self, size: int) -> bytes:
        """The next `size` bytes, fewer at the end only."""
        parts: list[bytes] = []
        while size > 0 and self.failure is None and (part := self._part(min(size, self._most))):
            parts.append(part)
            size -= len(part)
        return b"".join(parts)

    def _part(self, size: int) -> bytes:
        """A small piece, so that a failure costs no more than that."""
        try:
            return self._stream.read1(size) if hasattr(self._stream, "read1") else self._stream.read(size)
        except (EOFError, OSError, ValueError, lzma.LZMAError, zlib.error) as error:
            self.failure = f"the compressed data end or break here ({error}); the rest is not read"
            return b""

    def readall(self) -> bytes:
        return b"".join(iter(lambda: self.read(1 << 20), b""))

    def readinto(self, buffer: object) -> int:
        view = memoryview(buffer)  # type: ignore[arg-type]
        block = self.read(len(view))
        view[: len(block)] = block
        return len(block)

    def position(self) -> int:
        """How many bytes of the file itself have been taken: for progress."""
        return self._raw.tell()

    def close(self) -> None:
        self._stream.close()
        self._raw.close()
        super().close()


def _decompress(raw: BinaryIO, suffix: str) -> BinaryIO:
    match suffix:
        case ".gz":
            return gzip.GzipFile(fileobj=raw)  # type: ignore[return-value]
        case ".bz2":
            return bz2.BZ2File(raw)  # type: ignore[return-value]
        case ".xz":
            return lzma.LZMAFile(raw)  # type: ignore[return-value]
        case ".zst":
            import pyarrow as pa

            return pa.CompressedInputStream(pa.PythonFile(raw, "r"), "zstd")  # type: ignore[no-any-return]
        case _:
            return raw


def find_sources(given: Sequence[str], format: str | None = None) -> tuple[list[Source], list[str]]:
    """The files that `given` names (files, globs, folders), in a stable order, and the files of folders left aside.

    A file named outright must be of a known format; in a folder, files of no known format are passed over.
    """
    if format is not None and format not in FORMATS:
        raise SourceError(f"unknown format '{format}'. Known: {', '.join(FORMATS)}.")
    sources: list[Source] = []
    passed: list[str] = []
    for text in given:
        path = Path(text)
        if path.is_dir():
            found = [file for file in sorted(path.rglob("*")) if file.is_file() and not file.name.startswith(".")]
            known = [Source(file, str(file), f) for file in found if (f := format or detect_format(file))]
            passed += [str(file) for file in found if file not in {s.path for s in known}]
            if not known:
                raise SourceError(f"{text}: no file of a known format in this folder. Known: {_known_suffixes()}.")
            sources += known
            continue
        for file in _expand(text):
            detected = format or detect_format(file)
            if detected is None and not file.stat().st_size:
                raise SourceError(f"{file} is empty.")
            if detected is None:
                raise SourceError(
                    f"{file}: unknown format. Name it with --format ({', '.join(FORMATS)}), or use a suffix: "
                    f"{_known_suffixes()}."
                )
            sources.append(Source(file, str(file), detected))
    unique = {source.path.resolve(): source for source in sources}
    return list(unique.values()), passed


def _expand(text: str) -> list[Path]:
    if Path(text).exists():
        return [Path(text)]
    matches = sorted(glob.glob(text, recursive=True)) if any(c in text for c in "*?[") else []  # noqa: PTH207 (absolute too)
    if not matches:
        raise SourceError(f"no such file: {text}")
    return [Path(match) for match in matches if Path(match).is_file()]


def _known_suffixes() -> str:
    return (
        " ".join(suffix for suffixes in FORMATS.values() for suffix in suffixes)
        + " .owl, plain or "
        + " ".join(COMPRESSIONS)
    )


def bare_suffix(path: Path) -> str:
    """The suffix that tells the format, without that of the compression."""
    return (Path(path.stem) if path.suffix in COMPRESSIONS else path).suffix.lower()


def detect_format(path: Path) -> str | None:
    """The format by suffix, or by content where the suffix does not decide."""
    suffix = bare_suffix(path)
    by_suffix = next((name for name, suffixes in FORMATS.items() if suffix in suffixes), None)
    if suffix not in (*_AMBIGUOUS, ".tsv"):
        return by_suffix
    with ForgivingStream(path) as stream:
        head = stream.read(_HEAD)
    found = by_suffix if suffix == ".tsv" else _by_content(head) or by_suffix
    return "kgx" if found == "tsv" and _is_kgx(head) else found


def _is_kgx(head: bytes) -> bool:
    """Whether a table has the columns of KGX's nodes, or those of its edges and more."""
    columns = set(head.partition(b"\n")[0].decode(errors="replace").strip().split("\t"))
    return columns >= {"id", "category"} or (columns > {"subject", "predicate", "object"} and "split" not in columns)


def version_of(source: Source) -> str | None:
    """The version that a file states at its beginning."""
    with source.open() as stream:
        found = _VERSION.search(stream.read(_HEAD))
    return next((part for part in found.groups() if part), b"").decode(errors="replace") if found else None


def _by_content(head: bytes) -> str | None:
    if _is_line_based(head):
        return "ntriples"
    return next((name for name, sign in _SIGNS if sign.search(head)), None)


def _is_line_based(head: bytes) -> bool:
    """Whether every whole line of `head` is a triple or a comment: N-Triples, whatever the suffix says."""
    lines = [line for line in head.split(b"\n")[: -1 if len(head) == _HEAD else None] if line.strip()]
    triples = [line for line in lines if not line.lstrip().startswith(b"#")]
    return bool(triples) and all(_LINE_OF_TRIPLE.fullmatch(line) for line in triples)


def chunks(stream: ForgivingStream, size: int = 1 << 22, longest: int = 1 << 26) -> Iterator[tuple[int, bytes]]:
    """Blocks of whole lines, each with the number of its first line (from 1); a line beyond `longest` is cut."""
    rest, line = b"", 1  # what is left holds no newline, so its line is known from those that have passed
    while block := stream.read(size):
        passed = stream.lines
        cut = block.rfind(b"\n") + 1
        if cut == 0 and len(rest) + len(block) < longest:
            rest += block
            continue
        whole = rest + (block[:cut] if cut else block)
        rest = block[cut:] if cut else b""
        yield line, whole
        line = passed + 1
    if rest and stream.failure is None:  # of a stream that broke off, the last line is a fragment
        yield line, rest
