"""One program, two engines: what is prepared on Spark is what DuckDB prepares, to the byte; a server may die."""

from __future__ import annotations

import os
import random
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pytest

from command import tarbox
from spark_server import spark_server
from tarbox.core.errors import EngineFailed
from tarbox.kb.build import BuildOptions, Progress, build, staged
from tarbox.kb.interpretation import Interpretation
from tarbox.kb.namespaces import LABEL, OWL, RDFS, SKOS, SUBCLASS, TYPE
from tarbox.kb.preparation import spark_engine
from tarbox.kb.preparation.duckdb_engine import DuckDBEngine
from tarbox.kb.preparation.engine import TableEngine
from tarbox.kb.preparation.spark_engine import SparkEngine
from tarbox.kb.preparation.staging import LEAST_MEMORY
from tarbox.kb.preparation.tables import PREPARED_TABLES
from tarbox.kb.reasoning.inference import InferenceMode
from tarbox.kb.sources import find_sources
from tarbox.kb.store import open_store

from .conftest import PREFIXES

TOY = Path(__file__).parent / "toy"
EX = "http://example.org/"
RANDOM = int(os.environ.get("TARBOX_ENGINE_SEEDS", "3"))
LABELS = r"""
:a rdfs:label "plain", "deutsch"@de, "english"@EN, "British"@en-GB ; skos:altLabel "other"@fr, "", "same"@en .
:b rdfs:label "tab\there, \"quoted\", back\\slash, \\n no line\nline", "it's \u2028 \u0085 \U0001F600"@en ; a :C .
:C skos:prefLabel "preferred"@en ; rdfs:label "label"@fr . :nobody rdfs:label "unused"@en . :a :p :b, "1"^^:int .
:old a owl:Class ; owl:deprecated true ; rdfs:label "gone" . :b a :old . :x :p :old .
rdfs:seeAlso a owl:ObjectProperty .
:a rdfs:seeAlso :b . :note a owl:AnnotationProperty . :a :note :b . :q a owl:DatatypeProperty . :a :q "2" .
"""
SAME = """
:b owl:sameAs :c . :c owl:sameAs :a . :z owl:sameAs :y . :c :p :z ; a :C ; rdfs:label "c" . :b :p :z ; :p :w .
:y :q :c .
:D owl:equivalentClass :C . :C rdfs:subClassOf :C, [ a owl:Restriction ; owl:onProperty :p ; owl:someValuesFrom :D ] .
[] a owl:Axiom ; owl:annotatedSource :C ; owl:annotatedProperty rdfs:subClassOf ; owl:annotatedTarget :D .
:p owl:inverseOf :q ; rdfs:range :D ; a owl:TransitiveProperty . _:n :p :a . :a :p _:n . :C rdfs:subClassOf [ :r :s ] .
"""
LINKS = """
:has a <urn:x-tarbox:AnnotationRelation>, owl:ObjectProperty . :g1 :has :T1 . :g2 :has :T2 . :g1 :near :g2 .
:T1 rdfs:subClassOf :T2, [ a owl:Restriction ; owl:onProperty :part_of ; owl:someValuesFrom :U1 ] . :T2 a owl:Class .
:U1 rdfs:subClassOf :U2 . :T2 rdfs:subClassOf [ a owl:Restriction ; owl:onProperty :part_of ; owl:someValuesFrom :U2 ] .
"""
RULES = """
:Mother owl:equivalentClass [ a owl:Class ; owl:intersectionOf ( :Woman
    [ a owl:Restriction ; owl:onProperty :child ; owl:someValuesFrom :Person ] ) ] . :Woman rdfs:subClassOf :Person .
:Woman owl:disjointWith :Man . :child owl:inverseOf :parent ; rdfs:domain :Person ; rdfs:range :Person ;
    rdfs:subPropertyOf :descendant . :descendant a owl:TransitiveProperty . :born a owl:FunctionalProperty .
:uncle owl:propertyChainAxiom ( :parent :brother ) . :Roman owl:equivalentClass [ a owl:Restriction ;
    owl:onProperty :born ; owl:hasValue :rome ] . :Vain rdfs:subClassOf [ a owl:Restriction ; owl:onProperty :likes ;
    owl:hasSelf true ] . :likes owl:propertyDisjointWith :hates .
[] a owl:AllDifferent ; owl:distinctMembers ( :ada :eve ) .
:Human owl:equivalentClass :Person . :Person rdfs:subClassOf [ a owl:Restriction ; owl:onProperty :child ;
    owl:allValuesFrom :Human ] . :ada a :Woman ; :child :bob ; :born :rome, :roma . :bob :child :cleo, :dan ; a :Vain .
:dan :child :fay ; :hates :dan . :roma :near :sea . :eve a :Woman, :Man ; owl:sameAs :ada, :eva . :bob :hates :bob .
:cleo :parent :ada . :ada :brother :gus . :gus a :Roman . :age a owl:DatatypeProperty, owl:FunctionalProperty .
:ada :age 1, 2 .
"""
LINES = f"""<{EX}a> <{EX}p> <{EX}b> .
<{EX}a> <{EX}p> "unterminated .
this is no statement
<{EX}a> <{TYPE}> <{EX}C> .
<{EX}\U0001f600> <{EX}p> <{EX}\uffee> .
<{EX}\uffee> <{EX}p> <{EX}é> .
"""
EDGES = """id\tsubject\tpredicate\tobject\tpublications\tprimary_knowledge_source
1\tHGNC:1\tbiolink:has_phenotype\tHP:0001250\tPMID:2|PMID:1\tinfores:hpo
2\tHGNC:1\tbiolink:has_phenotype\tHP:0001250\tPMID:3\tinfores:hpo
3\tHGNC:2\tbiolink:same_as\tHGNC:1\t\t
4\tHGNC:2\tbiolink:has_phenotype\tHP:0012638\tPMID:4\tinfores:omim
5\tHP:0001250\tbiolink:subclass_of\tHP:0012638\t\t
"""
Check = Callable[[Mapping[str, Any]], object]
CASES: Mapping[str, tuple[str, Mapping[str, Any], Check]] = {  # a source, how it is read, what makes it a case
    "labels": (LABELS, {}, lambda m: len(m["report"]["left_out"]) > 5),
    "literals kept": (LABELS, {"keep_literals": True, "language": "de"}, lambda m: m["counts"]["assertions"] > 3),
    "same entities": (SAME, {}, lambda m: len(m["axioms"]) > 3),
    "same entities merged": (SAME, {"merge_same": True}, lambda m: m["report"]["merged"] == 3),
    "what follows": (RULES, {"keep_literals": True}, lambda m: m["inference"]["inconsistencies"] > 3),
    "core": (SAME, {"min_degree": 2, "core": True}, lambda m: m["report"]["entities_below_min_degree"]),
    "links of terms": (LINKS, {"annotations": ("near",)}, lambda m: m["report"]["linked_terms"] > 1),
    "terms as entities": (LINKS, {}, lambda m: m["report"]["terms_as_entities"] > 1),
    "rejected lines": (LINES, {}, lambda m: m["report"]["rejections"] == 2),
    "attributes": (EDGES, {}, lambda m: "attributes" in m["files"]),
    "attributes merged": (EDGES, {"merge_same": True}, lambda m: "attributes" in m["files"]),
}
TOYS: Final = ("axioms.ttl", "toy.obo", "tables", "kgx", "csv")


@pytest.fixture(scope="module")
def remote(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with spark_server(tmp_path_factory.mktemp("warehouse")) as (address, _):
        yield address


def write(folder: Path, text: str) -> Path:
    name = "edges.tsv" if text.startswith("id\t") else "source.nt" if text.startswith("<") else "source.ttl"
    (folder / name).write_text(PREFIXES + text if name == "source.ttl" else text)
    return folder / name


def same_on_both(
    source: Path, folder: Path, remote: str, options: Mapping[str, Any], mode: InferenceMode = InferenceMode.OWL
) -> Mapping[str, Any]:
    """Builds on both engines, and on DuckDB within bounds, where the engine infers, too; manifests are the same, which
    account for each statement and name files by content."""
    sources, interpretation = find_sources([str(source)])[0], Interpretation(**options)
    here = build(sources, folder / "here", BuildOptions(interpretation, mode))
    there = build(sources, folder / "there", BuildOptions(interpretation, mode, remote=remote))
    bounded = build(sources, folder / "bounded", BuildOptions(interpretation, mode, memory=LEAST_MEMORY))
    assert there.manifest == bounded.manifest == here.manifest
    return here.manifest


@pytest.mark.parametrize("case", CASES)
def test_a_store_from_spark_is_that_from_duckdb(case: str, tmp_path: Path, remote: str) -> None:
    text, options, check = CASES[case]
    assert check(same_on_both(write(tmp_path, text), tmp_path, remote, options))


@pytest.mark.parametrize("name", TOYS)
def test_files_of_all_kinds_give_the_same_store(name: str, tmp_path: Path, remote: str) -> None:
    assert same_on_both(TOY / name, tmp_path, remote, {})["counts"]["subsumptions"] > 0


@pytest.mark.parametrize("seed", range(RANDOM))
def test_random_statements_give_the_same_store(seed: int, tmp_path: Path, remote: str) -> None:
    chance = random.Random(seed)
    manifest = same_on_both(
        write(tmp_path, "".join(f"{draw(chance)}\n" for _ in range(300))),
        tmp_path,
        remote,
        {
            "keep_literals": chance.random() < 0.5,
            "merge_same": chance.random() < 0.5,
            "min_degree": chance.randrange(3),
            "core": chance.random() < 0.5,
        },
        chance.choice(list(InferenceMode)),
    )
    assert len(manifest["report"]["left_out"]) > 3


def draw(chance: random.Random) -> str:
    """A line of N-Triples with names in any role, blank nodes, and words of the languages."""
    names = [f"<{EX}{chance.choice('abcdefgh')}>", f"_:{chance.choice('xyz')}"]
    literals = [f'"{chance.choice("uvw")}"', '"true"', f'"{chance.choice("uvw")}"@{chance.choice(["en", "de"])}']
    words = (TYPE, SUBCLASS, LABEL, SKOS + "altLabel", *(f"{OWL}{w}" for w in ("sameAs", "deprecated", "inverseOf")))
    axioms = [f"{OWL}{w}" for w in ("onProperty", "someValuesFrom", "equivalentClass", "disjointWith")]
    predicates = [*[f"{EX}{c}" for c in "ppppqqrr"], *words, *axioms, RDFS + "range"]
    classes = [f"<{OWL}{w}>" for w in ("Class", "Restriction", "ObjectProperty", "AnnotationProperty", "Axiom")]
    subject = chance.choices(names, (5, 1))[0]
    object = chance.choice([*names, chance.choice(literals), f"<{EX}{chance.choice('abcdefgh')}>", *classes[:2]])
    predicate = chance.choice(predicates)
    return f"{subject} <{predicate}> {chance.choice(classes) if chance.random() < 0.1 else object} ."


def rows_of(engine: TableEngine, texts: list[str]) -> list[tuple[int, str]]:
    ids = pa.array(range(len(texts)), pa.int64())
    engine.load("name", pa.table({"id": ids, "text": pa.array(texts)}))
    engine.enumerate("entity_row", "SELECT id, text AS iri, text AS label FROM name", ["iri"])
    return [(row, iri) for row, iri in engine.rows("SELECT row, iri FROM entity_row ORDER BY row")]


def test_ids_of_sorted_ranges_are_the_order_of_code_points(tmp_path: Path, remote: str) -> None:
    chance = random.Random(0)
    letters = ["a", "B", "é", "\uffee", "\U0001f600", "'", "\\", "%", '"', " "]
    texts = list({"".join(chance.choices(letters, k=chance.randrange(1, 6))) for _ in range(3000)})
    expected = list(enumerate(sorted(texts)))  # Python orders texts by code point
    for engine in (DuckDBEngine(tmp_path), SparkEngine(remote, range_rows=40), SparkEngine(remote, range_rows=1 << 30)):
        assert rows_of(engine, texts) == expected
        engine.close()


def test_the_row_of_a_fact_is_its_place_whatever_the_ranges(tmp_path: Path, remote: str) -> None:
    """Rows with one head are in one range."""
    chance = random.Random(1)
    triples = sorted({tuple(chance.choices(range(12), k=3)) for _ in range(600)})
    shuffled = pa.table(list(zip(*chance.sample(triples, len(triples)), strict=True)), names=["s", "p", "o"])
    sql = "SELECT s AS head, p AS relation, o AS tail, 0 AS split FROM link"
    for engine in (DuckDBEngine(tmp_path), SparkEngine(remote, range_rows=50)):
        engine.load("link", shuffled)
        engine.enumerate("assertion_row", sql, ["head", "relation", "tail"])
        found = engine.rows("SELECT head, relation, tail FROM assertion_row ORDER BY row")
        assert found == triples
        assert engine.number("SELECT max(row) FROM assertion_row") == len(triples) - 1
        engine.close()


def test_a_long_block_goes_to_a_server_in_parts(remote: str) -> None:
    engine = SparkEngine(remote)
    engine.block_bytes = 1000  # type: ignore[misc]
    rows = pa.table({"text": pa.array([f"{number:0100}" for number in range(100)])})
    parts = list(engine.blocks(rows))
    assert len(parts) > 10
    assert pa.concat_tables(parts).equals(rows)
    engine.load("found", rows)
    assert engine.rows("SELECT text FROM found ORDER BY text") == [(text,) for text in rows["text"].to_pylist()]
    engine.close()


@pytest.mark.parametrize("options", [{}, {"merge_same": True}])
def test_tables_are_as_they_are_declared(options: Mapping[str, Any], tmp_path: Path) -> None:
    """Every table that a build makes has its declared columns, and no two rows of one key."""
    file = write(tmp_path, LABELS + SAME + LINKS)
    seen = set()
    with staged(
        find_sources([str(file)])[0], tmp_path, BuildOptions(Interpretation(**options)), Progress(), 0
    ) as reading:
        engine = reading.engine
        made = {name for (name,) in engine.rows("SELECT table_name FROM information_schema.tables")}
        for name in made:
            table = PREPARED_TABLES[name]
            found = engine.fetch(f"SELECT * FROM {name}").read_all()
            assert found.column_names == list(table.columns)
            if table.key:
                assert found.group_by(list(table.key)).aggregate([]).num_rows == len(found), name
            seen.add(name)
    assert {"fact", "revised", "name", "called", "chosen", "entity"} <= seen


@pytest.mark.parametrize("when", ["reading", "interpreting", "sorting", "inferring"])
def test_a_server_that_dies_costs_one_line_and_no_store(
    when: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(spark_engine._RETRIES, "max_retries", 2)
    before = build(find_sources([str(write(tmp_path, LINES))])[0], tmp_path / "kb", BuildOptions()).manifest
    source = find_sources([str(write(tmp_path, SAME))])[0]
    warehouse = tmp_path / "warehouse"
    warehouse.mkdir()
    with spark_server(warehouse) as (remote, process):

        def strike(stage: str) -> None:
            if stage.startswith(when):
                process.kill()
                process.wait()

        with pytest.raises(EngineFailed, match="nothing was built") as failure:
            build(source, tmp_path / "kb", BuildOptions(remote=remote), Progress(stage=strike))
    assert "\n" not in str(failure.value)
    assert remote in str(failure.value)
    assert open_store(tmp_path / "kb").manifest == before  # each file's checksum is looked at
    shutil.rmtree(warehouse)
    assert {path.name for path in tmp_path.iterdir()} == {"kb", "source.nt", "source.ttl"}


def test_a_block_that_arrives_twice_is_noticed(tmp_path: Path, remote: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """As when a connection breaks after the server has taken a block in, and the block is sent again."""
    extend = SparkEngine.extend

    def stammer(engine: SparkEngine, table: str, sql: str) -> None:
        for _ in range(2 if table == "statement" else 1):
            extend(engine, table, sql)

    monkeypatch.setattr(SparkEngine, "extend", stammer)
    with pytest.raises(EngineFailed, match="8 of 4 statements arrived"):
        build(find_sources([str(write(tmp_path, LINES))])[0], tmp_path / "kb", BuildOptions(remote=remote))
    assert not (tmp_path / "kb").exists()


def test_an_address_and_its_engine_are_given_together(tmp_path: Path, remote: str) -> None:
    command = ["kb", "build", str(write(tmp_path, LINES)), "-o", str(tmp_path / "kb")]
    for given in (["--engine", "spark"], ["--remote", remote]):
        result = tarbox(*command, *given)
        assert (result.returncode, result.stderr.count("\n")) == (1, 1)
        assert "--engine spark and its address" in result.stderr
    assert not (tmp_path / "kb").exists()
    given = ["--engine", "spark", "--remote", remote, "--infer", "none"]
    result = subprocess.run(
        [sys.executable, "-m", "tarbox", *command, *given], capture_output=True, text=True, check=False
    )
    assert result.returncode == 3  # lines were rejected
    assert [line.rpartition(":")[0].rpartition(":")[2] for line in result.stderr.splitlines()] == ["2", "3"]
    assert len(open_store(tmp_path / "kb").facts.heads) == 3


def test_no_server_is_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(spark_engine._RETRIES, "max_retries", 1)
    with pytest.raises(EngineFailed, match=r"sc://127\.0\.0\.1:9"):
        build(find_sources([str(write(tmp_path, LINES))])[0], tmp_path / "kb", BuildOptions(remote="sc://127.0.0.1:9"))
    assert not (tmp_path / "kb").exists()
