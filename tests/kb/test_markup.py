"""XML that ends too early, its entities, and terms that are too long."""

from __future__ import annotations

from pathlib import Path

import pytest

from tarbox.kb.build import build
from tarbox.kb.readers import READERS
from tarbox.kb.readers.lines import LONGEST_TERM
from tarbox.kb.readers.markup import BadMarkup, plain_xml
from tarbox.kb.sources import find_sources
from tarbox.kb.statements import ReadOptions
from tarbox.kb.store import Store


def built(file: Path, out: Path) -> Store:
    sources, _ = find_sources([str(file)])
    return build(sources, out)


def rejected(file: Path) -> list[tuple[int, str]]:
    ((source,), _) = find_sources([str(file)])
    pieces = READERS[source.format](source, ReadOptions(), lambda _: None)
    return [rejection for piece in pieces for rejection in piece.rejected]


@pytest.mark.parametrize("name", ["toy.rdf", "toy.owx", "toy.ofn", "axioms.rdf", "axioms.owx"])
def test_every_file_that_ends_too_early_is_noticed(name: str, toy: Path, tmp_path: Path) -> None:
    content = (toy / name).read_bytes().rstrip()
    ends = [at + 1 for at, byte in enumerate(content) if byte in b">)\n"][:-1]
    assert rejected(toy / name) == []
    for end in ends[:: max(len(ends) // 40, 1)]:
        (tmp_path / name).write_bytes(content[:end])
        assert len(rejected(tmp_path / name)) == 1, content[max(end - 60, 0) : end]


def test_what_stood_before_the_end_is_kept_with_its_line(toy: Path, tmp_path: Path) -> None:
    content = (toy / "toy.rdf").read_text()
    part = content[: content.index("</NamedIndividual>") + len("</NamedIndividual>\n")]
    (tmp_path / "cut.rdf").write_text(part)
    store = built(tmp_path / "cut.rdf", tmp_path / "kb")
    reason = "the file ends too early (no element found); what follows is missing"
    assert [(line["line"], line["reason"]) for line in store.manifest["rejected"]] == [(part.count("\n") + 1, reason)]
    assert store.manifest["counts"]["assertions"] == 2


def with_entities(text: str, root: str) -> str:
    """The document with its namespace as an entity, the way Protégé writes it, in single quotes and of two parts."""
    doctype = f"""<!DOCTYPE {root} [
        <!ENTITY site 'https://tarbox.example/'> <!-- of "the toy" -->
        <!ENTITY toy "&site;toy#" >
    ]>\n"""
    head, body = text.split("?>", 1) if text.startswith("<?xml") else ("<?xml version='1.0'", text)
    return head + "?>\n" + doctype + body.replace("https://tarbox.example/toy#", "&toy;")


@pytest.mark.parametrize(("name", "root"), [("axioms.rdf", "rdf:RDF"), ("axioms.owx", "Ontology")])
def test_internal_entities_are_read(name: str, root: str, toy: Path, tmp_path: Path) -> None:
    (tmp_path / name).write_text(with_entities((toy / name).read_text(), root))
    assert "&toy;knows" in (tmp_path / name).read_text() or 'IRI="&toy;' in (tmp_path / name).read_text()
    expected, found = built(toy / name, tmp_path / "expected"), built(tmp_path / name, tmp_path / "kb")
    assert found.manifest["rejected"] == []
    assert found.manifest["content_hash"] == expected.manifest["content_hash"]


LAUGHS = "".join(f'<!ENTITY l{n} "{f"&l{n - 1};" * 10}">' for n in range(1, 12))


@pytest.mark.parametrize(
    ("entities", "reason"),
    [
        (f'<!ENTITY l0 "ha">{LAUGHS}', "more than 10,000 characters"),
        ('<!ENTITY l0 "&l11;"><!ENTITY l11 "&l0;">', "is made of itself"),
    ],
)
@pytest.mark.parametrize("name", ["toy.rdf", "toy.owx"])
def test_entities_have_bounds(name: str, entities: str, reason: str, toy: Path, tmp_path: Path) -> None:
    text = (toy / name).read_text().split("?>", 1)[1]
    (tmp_path / name).write_text(f"<!DOCTYPE x [{entities}]>{text.replace('Agent', '&l11;')}")
    ((line, found),) = rejected(tmp_path / name)
    assert (line, reason in found) == (1, True)


def test_an_entity_may_not_fill_memory_by_being_used_often() -> None:
    text = f'<!DOCTYPE x [<!ENTITY a "{"a" * 9_000}">]><x>{"&a;" * 10_000}</x>'
    with pytest.raises(BadMarkup, match="8 times"):
        plain_xml(text.encode())


def test_predefined_and_unknown_entities_stay() -> None:
    text = b"<!DOCTYPE x [\n<!ENTITY a 'b&amp;c'>\n]>\n<x y='&a;'>&lt;&#38;</x>"
    assert plain_xml(text) == b"\n\n\n<x y='b&amp;c'>&lt;&#38;</x>"
    with pytest.raises(BadMarkup, match="undefined entity"):
        plain_xml(b"<x>&unknown;</x>")


@pytest.mark.parametrize("name", ["long.nt", "long.ttl"])
def test_a_term_that_is_too_long_costs_its_line(name: str, tmp_path: Path) -> None:
    prefix = "@prefix : <urn:> .\n" if name.endswith("ttl") else "# of lines\n"
    value = "\\t" + "x" * (LONGEST_TERM + 1)
    (tmp_path / name).write_text(
        f'{prefix}<urn:a> <urn:p> <urn:b> .\n<urn:a> <urn:q> "{value}" .\n<urn:b> <urn:p> <urn:c> .\n'
    )
    store = built(tmp_path / name, tmp_path / "kb")
    assert [(line["line"], line["reason"][:11]) for line in store.manifest["rejected"]] == [(3, "a term of m")]
    assert store.manifest["counts"]["assertions"] == 2
