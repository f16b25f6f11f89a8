"""One toy ontology in every format gives one content hash."""

from __future__ import annotations

import bz2
import gzip
import lzma
import re
import shutil
from codecs import BOM_UTF8
from collections import Counter
from pathlib import Path

import pyarrow as pa
import pytest

from tarbox.core.errors import SourceError, TarboxError
from tarbox.kb.axioms import write_axioms
from tarbox.kb.build import BuildOptions, build
from tarbox.kb.interpretation import Interpretation
from tarbox.kb.namespaces import OWL, SUBCLASS
from tarbox.kb.readers import READERS
from tarbox.kb.readers.dumps import DUMP_RULES
from tarbox.kb.sources import FORMATS, ForgivingStream, detect_format, find_sources
from tarbox.kb.store import Store

BASE = "https://tarbox.example/toy#"
TOYS = {
    "ntriples": "toy.nt",
    "nquads": "toy.nq",
    "turtle": "toy.ttl",
    "trig": "toy.trig",
    "rdfxml": "toy.rdf",
    "functional": "toy.ofn",
    "owlxml": "toy.owx",
    "manchester": "toy.omn",
    "obo": "toy.obo",
    "tsv": "tables",
    "csv": "csv",
    "jsonld": "toy.jsonld",
    "kgx": "kgx",
    "kgx-jsonl": "kgx-jsonl",
}
GENERAL = set(FORMATS) - {"gaf", "hpoa", "hpo-genes", "hpo-diseases", "hgnc", *DUMP_RULES}  # of one kind of fact


def hash_of(source: Path | str, out: Path, *more: str) -> str:
    sources, _ = find_sources([str(source), *more])
    return str(build(sources, out, BuildOptions(base=BASE)).manifest["content_hash"])


@pytest.fixture(scope="module")
def expected(tmp_path_factory: pytest.TempPathFactory) -> str:
    return hash_of(Path(__file__).parent / "toy" / "toy.nt", tmp_path_factory.mktemp("expected") / "kb")


def test_every_format_has_a_reader_and_a_toy() -> None:
    assert set(READERS) == set(FORMATS)
    assert set(TOYS) == GENERAL


@pytest.mark.parametrize("format", TOYS)
def test_all_readers_agree(format: str, toy: Path, tmp_path: Path, expected: str) -> None:
    sources, _ = find_sources([str(toy / TOYS[format])])
    store = build(sources, tmp_path / "kb", BuildOptions(base=BASE))
    assert {source.format for source in sources} == {format}
    assert store.manifest["rejected"] == []
    assert store.manifest["counts"] == {
        "entities": 4,
        "concepts": 4,
        "relations": 2,
        "assertions": 5,
        "typings": 4,
        "subsumptions": 3,
    }
    assert store.manifest["content_hash"] == expected


def compress_zst(data: bytes) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.CompressedOutputStream(sink, "zstd") as stream:
        stream.write(data)
    return sink.getvalue().to_pybytes()


COMPRESSED = [(".gz", gzip.compress), (".bz2", bz2.compress), (".xz", lzma.compress), (".zst", compress_zst)]


@pytest.mark.parametrize(("suffix", "compress"), COMPRESSED)
@pytest.mark.parametrize("name", ["toy.nt", "toy.ttl", "toy.ofn"])
def test_compressed(name: str, suffix: str, compress: object, toy: Path, tmp_path: Path, expected: str) -> None:
    assert callable(compress)
    file = tmp_path / (name + suffix)
    file.write_bytes(compress((toy / name).read_bytes()))
    assert hash_of(file, tmp_path / "kb") == expected


def marked(source: Path, folder: Path) -> Path:
    """A copy of a file, or of those in a folder, with a byte-order mark before each."""
    copy = folder / source.name
    for file in [source] if source.is_file() else sorted(source.iterdir()):
        target = copy if source.is_file() else copy / file.name
        target.parent.mkdir(exist_ok=True)
        target.write_bytes(BOM_UTF8 + file.read_bytes())
    return copy


@pytest.mark.parametrize("format", TOYS)
def test_a_byte_order_mark_is_no_content(format: str, toy: Path, tmp_path: Path, expected: str) -> None:
    file = marked(toy / TOYS[format], tmp_path)
    sources, _ = find_sources([str(file)])
    store = build(sources, tmp_path / "kb", BuildOptions(base=BASE))
    assert {source.format for source in sources} == {format}
    assert store.manifest["rejected"] == []
    assert store.manifest["content_hash"] == expected


@pytest.mark.parametrize(("suffix", "compress"), COMPRESSED)
def test_a_byte_order_mark_inside_a_compressed_file(
    suffix: str, compress: object, toy: Path, tmp_path: Path, expected: str
) -> None:
    assert callable(compress)
    file = tmp_path / f"toy.ttl{suffix}"
    file.write_bytes(compress(BOM_UTF8 + (toy / "toy.ttl").read_bytes()))
    assert hash_of(file, tmp_path / "kb") == expected


def test_a_header_behind_a_byte_order_mark_is_a_header(tmp_path: Path) -> None:
    (tmp_path / "relations.csv").write_bytes(BOM_UTF8 + b"head,relation,tail\r\na,likes,b\r\n")
    sources, _ = find_sources([str(tmp_path / "relations.csv")])
    assert list(build(sources, tmp_path / "kb").facts.vocabulary.entities) == ["urn:tarbox:a", "urn:tarbox:b"]


@pytest.mark.parametrize("content", [b"", b"a", b"ab", b"abcd\nef\n", BOM_UTF8[:2], BOM_UTF8 + BOM_UTF8 + b"a"])
@pytest.mark.parametrize("size", [1, 2, 5, -1])
def test_only_a_whole_mark_at_the_beginning_is_taken_off(content: bytes, size: int, tmp_path: Path) -> None:
    (tmp_path / "text").write_bytes(content)
    with ForgivingStream(tmp_path / "text") as stream:
        read = b"".join(iter(lambda: stream.read(size), b""))
    assert read == content.removeprefix(BOM_UTF8)
    assert stream.lines == content.count(b"\n")


FOLDERS = ("tsv", "csv", "kgx", "kgx-jsonl")


@pytest.mark.parametrize("format", [name for name in TOYS if name not in (*FOLDERS, "nquads", "trig")])
def test_format_is_told_by_content(format: str, toy: Path, tmp_path: Path) -> None:
    file = tmp_path / "toy.owl"
    shutil.copy(toy / TOYS[format], file)
    assert detect_format(file) == format


def test_line_based_turtle_is_read_by_line(toy: Path, tmp_path: Path) -> None:
    file = tmp_path / "dump.ttl"
    file.write_bytes(b"# started 2016\n" + (toy / "toy.nt").read_bytes())
    assert detect_format(file) == "ntriples"
    assert detect_format(toy / "toy.ttl") == "turtle"


def test_sources_merge(toy: Path, tmp_path: Path, expected: str) -> None:
    lines = (toy / "toy.nt").read_text().splitlines(keepends=True)
    (tmp_path / "a.nt").write_text("".join(lines[::2]))
    (tmp_path / "b.nt").write_text("".join(lines[1::2]))
    assert hash_of(tmp_path / "*.nt", tmp_path / "kb") == expected
    sources, _ = find_sources([str(tmp_path / "a.nt"), str(toy / "toy.ttl"), str(toy / "toy.obo")])
    store = build(sources, tmp_path / "kb2", BuildOptions())
    assert store.manifest["content_hash"] == expected
    assert store.manifest["report"]["duplicates"] > 0


def test_folder_passes_over_other_files(toy: Path, tmp_path: Path) -> None:
    shutil.copy(toy / "toy.nt", tmp_path / "toy.nt")
    (tmp_path / "notes.jsonl").write_text("{}\n")
    sources, passed = find_sources([str(tmp_path)])
    assert [source.path.name for source in sources] == ["toy.nt"]
    assert [Path(file).name for file in passed] == ["notes.jsonl"]


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("facts.xyz", b"nothing known", "unknown format"),
        ("facts.owl", b"", "facts.owl is empty"),
        ("types.tsv", b"a\tb\tc\n", "3 columns where types has 2"),
        ("facts.tsv", b"a\tb\n", "2 columns where facts has 3 or 4"),
    ],
)
def test_unusable_files_are_explained(name: str, content: bytes, message: str, tmp_path: Path) -> None:
    (tmp_path / name).write_bytes(content)
    with pytest.raises(SourceError, match=message):
        hash_of(tmp_path / name, tmp_path / "kb")
    assert not (tmp_path / "kb").exists()


def test_missing_file_and_empty_folder(tmp_path: Path) -> None:
    with pytest.raises(SourceError, match="no such file"):
        find_sources([str(tmp_path / "absent.nt")])
    with pytest.raises(SourceError, match="no file of a known format in this folder"):
        find_sources([str(tmp_path)])
    with pytest.raises(SourceError, match="Known: ntriples"):
        find_sources([str(tmp_path)], "n3")


def test_ids_of_tables(tmp_path: Path) -> None:
    (tmp_path / "relations.tsv").write_text('/m/01\tis a/b\t<http://example.org/x>\n/m/01\tborn\t"1977"\n')
    sources, _ = find_sources([str(tmp_path / "relations.tsv")])
    facts = build(sources, tmp_path / "kb", BuildOptions(Interpretation(keep_literals=True))).facts
    assert list(facts.vocabulary.relations) == ["urn:tarbox:born", "urn:tarbox:is%20a%2Fb"]
    assert list(facts.vocabulary.entities) == ['"1977"', "http://example.org/x", "urn:tarbox:%2Fm%2F01"]


AXIOM_TOYS = [
    "axioms.nq",
    "axioms.nt",
    "axioms.ofn",
    "axioms.omn",
    "axioms.owx",
    "axioms.rdf",
    "axioms.trig",
    "axioms.ttl",
]


@pytest.fixture(scope="module")
def axioms(tmp_path_factory: pytest.TempPathFactory) -> Store:
    sources, _ = find_sources([str(Path(__file__).parent / "toy" / "axioms.ofn")])
    return build(sources, tmp_path_factory.mktemp("axioms") / "kb")


def test_every_axiom_of_functional_syntax_is_kept(axioms: Store, toy: Path) -> None:
    words = re.findall(r"^    (?!Declaration)(\w+)\(", (toy / "axioms.ofn").read_text(), re.M)
    facts = ["SubClassOf", "EquivalentClasses", "ClassAssertion", "ClassAssertion", "ObjectPropertyAssertion"]
    assert axioms.manifest["axioms"] == dict(sorted((Counter(words) - Counter(facts)).items()))
    assert Counter(str(axiom[0]) for axiom in axioms.axioms()) == axioms.manifest["axioms"]
    assert axioms.manifest["report"]["left_out"]["blank node"] == 1  # an anonymous individual


@pytest.mark.parametrize("name", AXIOM_TOYS)
def test_all_formats_say_the_same_axioms(name: str, axioms: Store, toy: Path, tmp_path: Path) -> None:
    sources, _ = find_sources([str(toy / name)])
    store = build(sources, tmp_path / "kb")
    assert store.manifest["rejected"] == []
    assert store.axioms() == axioms.axioms()
    assert store.manifest["counts"] == axioms.manifest["counts"]
    assert store.manifest["content_hash"] == axioms.manifest["content_hash"]
    assert store.manifest["report"]["left_out"].keys() == axioms.manifest["report"]["left_out"].keys()


@pytest.mark.parametrize(
    ("name", "text", "line", "reason"),
    [
        ("a.ofn", "\n\nPrefix(o:=<urn:o#>)\nOntology(<urn:é>\nDeclaration(Class(:A))\n)", 5, "undefined prefix: :A;"),
        ("a.omn", "Prefix: o: <urn:o#>\nOntology: <urn:x>\nClass: o:A SubClassOf: p:B", 3, "undefined prefix: p:B;"),
        ("b.omn", "\nPrefix: : <urn:o#>\nOntology: <urn:x>\nClass: :A\n SubClassOf: :B amd :C", 5, "'and', 'some'"),
    ],
)
def test_a_wrong_ontology_is_told_by_line_and_word(
    tmp_path: Path, name: str, text: str, line: int, reason: str
) -> None:
    (tmp_path / name).write_text(text)
    sources, _ = find_sources([str(tmp_path / name)])
    with pytest.raises(TarboxError, match=re.escape(f"{name}:{line}: ")) as refused:
        build(sources, tmp_path / "kb")
    assert reason in str(refused.value)


def test_rules_and_annotations_of_axioms_are_counted(tmp_path: Path) -> None:
    (tmp_path / "rule.ofn").write_text("""Prefix(:=<urn:x:>)
Ontology(<urn:x>
SubClassOf(Annotation(<http://www.w3.org/2000/01/rdf-schema#comment> "why") :A :B)
DLSafeRule(Body(ClassAtom(:A Variable(:v))) Head(ClassAtom(:B Variable(:v))))
)""")
    sources, _ = find_sources([str(tmp_path / "rule.ofn")])
    report = build(sources, tmp_path / "kb").manifest["report"]
    counted = {reason: report["left_out"].get(reason) for reason in ("rule (SWRL)", "annotation")}
    assert counted == {"rule (SWRL)": 1, "annotation": 1}


def test_a_blank_node_is_of_its_own_file(tmp_path: Path) -> None:
    for name, cls in (("a.ttl", "A"), ("b.ttl", "B")):
        (tmp_path / name).write_text(f"<urn:{cls}> <{SUBCLASS}> _:x .\n_:x <{OWL}complementOf> <urn:C{cls}> .\n")
    sources, _ = find_sources([str(tmp_path / "a.ttl"), str(tmp_path / "b.ttl")])
    assert build(sources, tmp_path / "kb").axioms() == (
        ("SubClassOf", "urn:A", ("ObjectComplementOf", "urn:CA")),
        ("SubClassOf", "urn:B", ("ObjectComplementOf", "urn:CB")),
    )


OBO_AXIOMS = """format-version: 1.4
ontology: toy
[Term]
id: X:1
relationship: part_of X:2
[Term]
id: X:3
intersection_of: X:1
intersection_of: part_of X:2
disjoint_from: X:1
[Term]
id: X:2
[Typedef]
id: part_of
is_transitive: true
inverse_of: has_part
domain: X:1
range: X:2
holds_over_chain: has_part part_of
[Typedef]
id: has_part
transitive_over: part_of ! part of
"""


def test_axioms_of_obo(tmp_path: Path) -> None:
    (tmp_path / "toy.obo").write_text(OBO_AXIOMS)
    sources, _ = find_sources([str(tmp_path / "toy.obo")])
    text = write_axioms(build(sources, tmp_path / "kb").axioms()).replace("http://purl.obolibrary.org/obo/", "")
    assert text.replace("toy#", "").splitlines() == [
        "DisjointClasses(<X_1> <X_3>)",
        "EquivalentClasses(<X_3> ObjectIntersectionOf(<X_1> ObjectSomeValuesFrom(<part_of> <X_2>)))",
        "InverseObjectProperties(<has_part> <part_of>)",
        "ObjectPropertyDomain(<part_of> <X_1>)",
        "ObjectPropertyRange(<part_of> <X_2>)",
        "SubClassOf(<X_1> ObjectSomeValuesFrom(<part_of> <X_2>))",
        "SubObjectPropertyOf(ObjectPropertyChain(<has_part> <part_of>) <has_part>)",
        "SubObjectPropertyOf(ObjectPropertyChain(<has_part> <part_of>) <part_of>)",
        "TransitiveObjectProperty(<part_of>)",
    ]
