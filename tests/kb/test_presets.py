"""The presets that are not `biomed`: what they read of hand-written files, and what they say is missing."""

from __future__ import annotations

import bz2
import gzip
from pathlib import Path

import pytest

from tarbox.core.errors import ConfigError, SourceError
from tarbox.kb.build import BuildOptions, build
from tarbox.kb.interpretation import Interpretation
from tarbox.kb.namespaces import LABEL, SUBCLASS, TYPE
from tarbox.kb.presets import PRESETS


@pytest.mark.parametrize("name", PRESETS)
def test_a_preset_is_registered_under_its_name(name: str) -> None:
    assert PRESETS[name].name == name
    assert PRESETS[name].summary


def test_academia_is_embedded(tmp_path: Path) -> None:
    store = build(PRESETS["academia"].sources(None), tmp_path / "kb")
    counts = store.manifest["counts"]
    assert counts["entities"] >= 200
    assert counts["assertions"] >= 1_200
    assert counts["concepts"] >= 40
    assert counts["relations"] >= 15
    assert not store.manifest["report"]["rejections"]
    with pytest.raises(ConfigError, match="embedded"):
        PRESETS["academia"].sources(tmp_path)


YAGO = "http://yago-knowledge.org/resource/"
SCHEMA = "http://schema.org/"
DBO = "http://dbpedia.org/ontology/"
WKD = "http://wikidata.dbpedia.org/resource/"


def triples(rows: list[str], separator: str) -> bytes:
    """Lines of N-Triples from `subject predicate object`; what has a quotation mark stays as it is."""
    lines = [[cell if '"' in cell else f"<{cell}>" for cell in row.split(" ")] for row in rows]
    return "".join(separator.join([*line, ".\n"]) for line in lines).encode()


def yago_files(folder: Path) -> None:
    files = {
        "yago-wd-class.nt.gz": [
            f"{YAGO}City {SUBCLASS} {SCHEMA}Place",
            f"{SCHEMA}Place {SUBCLASS} {SCHEMA}Thing",
            f"{YAGO}City {TYPE} http://www.w3.org/2002/07/owl#Class",
            f'{YAGO}City {LABEL} "city"@en',
        ],
        "yago-wd-facts.nt.gz": [
            *(f"{YAGO}P{i} {SCHEMA}birthPlace {YAGO}Paris" for i in range(6)),
            *(f"{YAGO}P{i} {SCHEMA}knows {YAGO}P{(i + j) % 6}" for i in range(6) for j in (1, 2)),
            *(f'{YAGO}P{i} {SCHEMA}birthDate "1977"^^<http://www.w3.org/2001/XMLSchema#gYear>' for i in range(6)),
            f"{YAGO}P0 {SCHEMA}unitCode {YAGO}Paris",
            f"{YAGO}P0 {SCHEMA}subtype {YAGO}Paris",
            f"{YAGO}Weak {SCHEMA}birthPlace {YAGO}Paris",
        ],
        "yago-wd-full-types.nt.gz": [f"{YAGO}Paris {TYPE} {YAGO}City", f"{YAGO}Weak {TYPE} {YAGO}City"],
        "yago-wd-simple-types.nt.gz": [
            f"{YAGO}Paris {TYPE} {SCHEMA}Thing",
            *(f"{YAGO}P{i} {TYPE} {SCHEMA}Person" for i in range(6)),
        ],
    }
    for name, rows in files.items():
        (folder / name).write_bytes(gzip.compress(triples(rows, "\t")))


def dbpedia_files(folder: Path) -> None:
    (folder / "dbpedia_2016-10.nt").write_bytes(
        triples(
            [
                f"{DBO}City {SUBCLASS} {DBO}Place",
                f"{DBO}City {TYPE} http://www.w3.org/2002/07/owl#Class",
                f'{DBO}City {LABEL} "city"@en',
                f"{DBO}unused {TYPE} http://www.w3.org/2002/07/owl#ObjectProperty",
                f"{DBO}City http://www.w3.org/2002/07/owl#equivalentClass {SCHEMA}City",
            ],
            " ",
        )
    )
    objects = triples(
        [
            *(f"{WKD}Q{i} {DBO}knows {WKD}Q{(i + j) % 6}" for i in range(6) for j in (1, 2, 3)),
            f"{WKD}Q0 http://xmlns.com/foaf/0.1/homepage http://q0.example/",
            f"{WKD}Q0 {DBO}type {WKD}Q1",
            f"{WKD}Q0 {DBO}knows {WKD}Q9",
        ],
        " ",
    )
    comments = (b"# started 2016-11-11T00:00:00Z\n", b"# completed 2016-11-11T00:00:01Z\n")
    (folder / "mappingbased_objects_wkd_uris_en.ttl.bz2").write_bytes(bz2.compress(objects.join(comments)))
    types = triples([f"{WKD}Q{i} {TYPE} {DBO}City" for i in (0, 1, 9)], " ")
    (folder / "instance_types_transitive_wkd_uris_en.ttl.bz2").write_bytes(bz2.compress(types.join(comments)))


KIND = "kind of statement that the paper's preparation does not take"
ABOVE = "typing or subsumption by the top concept"


@pytest.mark.parametrize(
    ("least", "sizes"),
    [(5, (8, 3, 3, 24, 7, 1)), (6, (8, 3, 3, 24, 7, 1)), (7, (1, 2, 0, 0, 1, 1)), (50, (0, 2, 0, 0, 0, 1))],
)
def test_yago4_reads_as_the_paper_prepares(tmp_path: Path, least: int, sizes: tuple[int, ...]) -> None:
    yago_files(tmp_path)
    preset = PRESETS["yago4"]
    assert preset.interpretation == Interpretation(min_degree=5, keep_literals=True)
    options = BuildOptions(Interpretation(min_degree=least, keep_literals=True))
    manifest = build(preset.sources(tmp_path), tmp_path / "kb", options).manifest
    counts = manifest["counts"]
    names = ("entities", "concepts", "relations", "assertions", "typings", "subsumptions")
    assert tuple(counts[name] for name in names) == sizes
    assert manifest["report"]["left_out"][KIND] == 3  # a declaration, unitCode, subtype
    assert manifest["report"]["left_out"][ABOVE] == 2
    assert manifest["report"]["rejections"] == 0


def test_dbpedia_reads_as_the_paper_prepares(tmp_path: Path) -> None:
    dbpedia_files(tmp_path)
    preset = PRESETS["dbpedia"]
    assert preset.interpretation == Interpretation(min_degree=5)
    store = build(preset.sources(tmp_path), tmp_path / "kb", BuildOptions(preset.interpretation))
    assert store.manifest["counts"] == {
        "entities": 6,
        "concepts": 2,
        "relations": 1,
        "assertions": 18,
        "typings": 2,
        "subsumptions": 1,
    }
    assert store.manifest["report"]["left_out"][KIND] == 5
    assert store.manifest["report"]["rejections"] == 0
    concepts = store.facts.vocabulary.concepts
    assert [concepts.label(id) for id in range(2)] == ["city", None]


@pytest.mark.parametrize("name", ["yago4", "dbpedia"])
def test_a_dump_names_what_to_download(tmp_path: Path, name: str) -> None:
    preset = PRESETS[name]
    {"yago4": yago_files, "dbpedia": dbpedia_files}[name](tmp_path)
    present = [source.path for source in preset.sources(tmp_path)]
    with pytest.raises(SourceError, match="needs --raw DIR") as caught:
        preset.sources(None)
    assert all(path.name in str(caught.value) for path in present)
    present[0].unlink()
    with pytest.raises(SourceError, match="Download") as caught:
        preset.sources(tmp_path)
    assert present[0].name.split(".")[0] in str(caught.value)
    assert present[1].name.split(".")[0] not in str(caught.value)


@pytest.mark.parametrize("name", ["yago4", "dbpedia"])
def test_the_papers_sizes_and_thresholds_are_on_record(name: str) -> None:
    preset = PRESETS[name]
    (sizes,) = preset.paper_sizes.values()
    assert sizes.keys() == {"entities", "concepts", "relations", "assertions", "typings", "subsumptions"}
    assert sorted(preset.thresholds.values()) == [5, 50]
    assert preset.interpretation.min_degree in preset.thresholds.values()
