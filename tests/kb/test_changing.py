"""A changed store is the one that a build from scratch makes, byte for byte, whatever interrupts the change."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import pytest

from tarbox.core.errors import ConfigError, StoreError, StoreMissing
from tarbox.core.ids import Role
from tarbox.kb.build import BuildOptions, build
from tarbox.kb.changing import add, remove
from tarbox.kb.difference import compare_stores
from tarbox.kb.interpretation import Interpretation
from tarbox.kb.namespaces import LABEL, OWL, RDFS, SKOS, SUBCLASS, TYPE
from tarbox.kb.reasoning.inference import InferenceMode
from tarbox.kb.sources import Source
from tarbox.kb.store import Store, manifest_bytes, open_store
from tarbox.kb.writing import StoreWriter, write_store

from .conftest import PREFIXES

Say = Callable[[str], list[Source]]
CHANGES = int(os.environ.get("TARBOX_CHANGES", "0"))
EX = "http://example.org/"
ENTITIES, CONCEPTS, RELATIONS = (
    [f"{EX}{kind}{n}" for n in range(size)] for kind, size in (("e", 8), ("C", 5), ("p", 3))
)
EDGE = EX + "edge"
BOTH = ENTITIES[-1]  # a name that is a concept, too


def line(subject: str, predicate: str, object: str) -> str:
    return f"<{subject}> <{predicate}> {object if object[0] in chr(34) + '_' else f'<{object}>'} ."


def draw(chance: random.Random, axioms: bool) -> str:
    """A random statement; an axiom may be several lines."""
    entity, other = chance.choice(ENTITIES), chance.choice(ENTITIES)
    concept, above = chance.choice([*CONCEPTS, BOTH]), chance.choice(CONCEPTS)
    relation, second = chance.sample(RELATIONS, 2)
    name = chance.choice([entity, concept, relation])
    kinds = [
        *[lambda: line(entity, relation, other)] * 6,
        *[lambda: line(entity, TYPE, concept)] * 4,
        *[lambda: line(concept, SUBCLASS, above)] * 2,
        lambda: line(name, LABEL, f'"label of {name[-2:]}"'),
        lambda: line(name, SKOS + "altLabel", f'"synonym {chance.randrange(3)}"'),
        lambda: line(entity, TYPE, OWL + "NamedIndividual"),
        lambda: line(concept, TYPE, OWL + "Class"),
        lambda: line(relation, TYPE, OWL + "ObjectProperty"),
    ]
    kinds += [lambda: edge(entity, other)] * 3
    if axioms:
        kinds += [
            lambda: line(relation, RDFS + "subPropertyOf", second),
            lambda: line(min(relation, second), OWL + "inverseOf", max(relation, second)),  # either way is one axiom
            lambda: line(relation, TYPE, OWL + "TransitiveProperty"),
            lambda: line(relation, RDFS + "domain", concept),
            lambda: some_values(concept, relation, above),
        ]
    return chance.choice(kinds)()


def edge(subject: str, object: str) -> str:
    """A fact with attributes, as KGX writes it: always the same ones."""
    chance = random.Random(subject + object)
    said = {"publications": [f"PMID:{chance.randrange(4)}" for _ in range(3)], "has_evidence": ["IDA"]}
    return json.dumps(
        {"subject": subject, "predicate": EDGE, "object": object} | (said if chance.random() < 0.7 else {})
    )


def some_values(concept: str, relation: str, filler: str) -> str:
    node = f"_:{concept[-2:]}{relation[-2:]}{filler[-2:]}"
    said = [(TYPE, OWL + "Restriction"), (OWL + "onProperty", relation), (OWL + "someValuesFrom", filler)]
    lines = [f"<{concept}> <{SUBCLASS}> {node} .", *(f"{node} <{p}> <{o}> ." for p, o in said)]
    return "\n".join(lines)


def source(path: Path, statements: Iterable[str]) -> list[Source]:
    edges = path.with_suffix(".jsonl")
    for file, own in ((path, False), (edges, True)):
        file.write_text("".join(s + "\n" for s in sorted(statements) if s.startswith("{") == own))
    return [Source(path, path.name, "ntriples"), Source(edges, edges.name, "kgx-jsonl")]


def assert_equal(changed: Store, built: Store) -> None:
    """The same files, which have checksums in their names, and the same account of them."""
    for key in ("files", "counts", "content_hash", "vocabulary_hash", "inference"):
        assert changed.manifest[key] == built.manifest[key], key
    assert changed.manifest.get("axioms") == built.manifest.get("axioms")
    for key in ("top_concepts", "equivalent_concepts"):
        assert changed.manifest["report"][key] == built.manifest["report"][key]
    listed = {entry["name"] for entry in changed.manifest["files"].values()}
    assert {file.name for file in changed.path.iterdir()} == {"manifest.json", *listed}


def known(store: Store, statements: set[str]) -> set[str]:
    """Without what is said of names that the store has not: it is nowhere in the store."""
    names = {iri for role in Role for iri in store.facts.vocabulary.names(role)}
    called = (f"<{LABEL}>", f"<{SKOS}altLabel>")
    return {s for s in statements if s.split()[1] not in called or s.split()[0][1:-1] in names}


class Stopped(Exception):
    """The change stops here, as if it were killed."""


@pytest.fixture
def stop(monkeypatch: pytest.MonkeyPatch) -> Iterator[object]:
    """Stops a change before it moves its n-th file."""
    place, left = StoreWriter._place, [1000]

    def counting(self: StoreWriter, name: str) -> object:
        left[0] -= 1
        if left[0] < 0:
            raise Stopped
        return place(self, name)

    monkeypatch.setattr(StoreWriter, "_place", counting)
    return left


def run_changes(folder: Path, seed: int, number: int, stop: list[int]) -> None:
    chance = random.Random(seed)
    mode = chance.choice(list(InferenceMode))
    axioms = chance.random() < 0.5
    options = BuildOptions(infer=mode)
    kb, scratch = folder / "kb", folder / "scratch"
    said = {draw(chance, axioms) for _ in range(25)} | {line(ENTITIES[0], RELATIONS[0], ENTITIES[1])}
    build(source(folder / "first.nt", said), kb, options)
    said = known(open_store(kb), said)
    for _ in range(number):
        adding = chance.random() < 0.5
        some = chance.sample(sorted(said), min(len(said), chance.randrange(1, 8)))
        part = {draw(chance, axioms) for _ in range(chance.randrange(1, 6))} | (set() if adding else set(some))
        wanted = said | part if adding else said - part
        if not has_assertion(wanted):  # of nothing no store is built
            continue
        file = source(folder / "change.nt", part)
        before = open_store(kb)
        if chance.random() < 0.2:
            stop[0] = chance.randrange(4)
            try:
                (add if adding else remove)(kb, file)
            except Stopped:
                assert open_store(kb).manifest == before.manifest
            stop[0] = 1000
        change = (add if adding else remove)(kb, file)
        built = build(source(folder / "whole.nt", wanted), scratch, options)
        assert_equal(change.store, built)
        said = known(built, wanted)


def has_assertion(statements: set[str]) -> bool:
    return any(f"> <{relation}> <" in statement for statement in statements for relation in RELATIONS)


@pytest.mark.parametrize("seed", [2])
def test_changes_equal_a_build_from_scratch(tmp_path: Path, stop: list[int], seed: int) -> None:
    run_changes(tmp_path, seed, 4, stop)


@pytest.mark.skipif(not CHANGES, reason="TARBOX_CHANGES is the number of changes to try")
@pytest.mark.parametrize("seed", range(100, 100 + CHANGES // 20))
def test_many_changes(tmp_path: Path, stop: list[int], seed: int) -> None:
    run_changes(tmp_path, seed, 20, stop)


KILLED = """
import sys
from pathlib import Path
from tarbox.kb.changing import add
from tarbox.kb.sources import Source
from tarbox.kb import writing
place, left = writing.StoreWriter._place, [int(sys.argv[3])]
def announcing(self, name):
    left[0] -= 1
    if left[0] < 0:
        print("now", flush=True)
        sys.stdin.read()
    return place(self, name)
writing.StoreWriter._place = announcing
add(sys.argv[1], [Source(Path(sys.argv[2]), "change.nt", "ntriples")])
"""


@pytest.mark.parametrize("files", [2])
def test_a_killed_change_leaves_the_store_whole(tmp_path: Path, files: int) -> None:
    kb = tmp_path / "kb"
    build(source(tmp_path / "first.nt", {line("urn:a", "urn:p", "urn:b")}), kb)
    before = open_store(kb).manifest
    change = source(tmp_path / "change.nt", {line("urn:a", "urn:p", "urn:0"), line("urn:0", TYPE, "urn:C")})
    command = [sys.executable, "-c", KILLED, str(kb), str(tmp_path / "change.nt"), str(files)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"now\n"
        with pytest.raises(StoreError, match="another process is changing"):
            add(kb, change)
        process.send_signal(signal.SIGKILL)
    assert open_store(kb).manifest == before
    whole = {line("urn:a", "urn:p", object) for object in ("urn:0", "urn:b")} | {line("urn:0", TYPE, "urn:C")}
    assert_equal(add(kb, change).store, build(source(tmp_path / "whole.nt", whole), tmp_path / "again"))
    assert [path.name for path in tmp_path.glob(".kb.*")] == []


@pytest.fixture
def say(tmp_path: Path) -> Say:
    """A source of Turtle."""

    def write(text: str) -> list[Source]:
        path = tmp_path / "said.ttl"
        path.write_text(PREFIXES + text)
        return [Source(path, path.name, "turtle")]

    return write


def test_what_is_there_is_not_added_and_what_is_not_is_not_removed(tmp_path: Path, say: Say) -> None:
    kb = build(say(":a :p :b ; rdfs:label 'A' ."), tmp_path / "kb").path
    manifest = (kb / "manifest.json").read_bytes()
    for change in (
        add(kb, say(":a :p :b ; rdfs:label 'A' .")),
        remove(kb, say(":a :q :b . :x a :C ; rdfs:label 'X' .")),
    ):
        assert (change.changed, dict(change.counts)) == (False, {})
    assert remove(kb, say(":a :q :b . :b :p :a .")).idle == 2
    assert (kb / "manifest.json").read_bytes() == manifest


def test_history_says_what_happened(tmp_path: Path, say: Say) -> None:
    first = build(say(":a :p :b ."), tmp_path / "kb")
    second = add(first.path, say(":b :p :c ; a :C ."))
    assert dict(second.counts) == {"entities": 1, "concepts": 1, "assertions": 1, "typings": 1}
    assert second.report["kept"] == {"assertion": 1, "typing": 1}
    third = remove(first.path, say(":b a :C ."))
    added, removed = third.store.manifest["history"]
    assert (added["change"], added["content_hash"]) == ("add", first.manifest["content_hash"])
    assert (removed["change"], removed["content_hash"]) == ("remove", second.store.manifest["content_hash"])
    assert removed["counts"] == {"concepts": -1, "typings": -1}
    assert added["sources"] == ["said.ttl"]
    with pytest.raises(StoreError, match="nothing would be left"):
        remove(first.path, say(":a :p :b . :b :p :c ."))


def test_what_the_store_says_of_a_name_is_no_duplicate_of_what_is_read(tmp_path: Path, say: Say) -> None:
    first = build(say(":a :p :C . :b a :C . :C rdfs:label 'C' ; skos:altLabel 'sea' ."), tmp_path / "kb")
    report = add(first.path, say(":b :p :C . :b :p :C .")).report
    assert (report["statements"], report["duplicates"], report["kept"]) == (2, 1, {"assertion": 1})


def test_files_that_stay_are_not_written_again(tmp_path: Path, say: Say) -> None:
    store = build(say(":a :p :b . :b :q :c . :a a :C ; rdfs:label 'A' . :C rdfs:subClassOf :D ."), tmp_path / "kb")
    times = {file.name: file.stat().st_mtime_ns for file in store.path.iterdir()}
    add(store.path, say(":a :q :c ."))
    written = {file.name for file in store.path.iterdir() if times.get(file.name) != file.stat().st_mtime_ns}
    assert {name.split("-")[0] for name in written} == {"manifest.json", "assertions"}


CASES = {  # (options, what was there, what is added, what makes the whole be built again)
    "new axioms": ({}, ":a :p :b .", ":p rdfs:domain :C .", "axioms"),
    "a data property": ({}, ":a :p :b .", ":p a owl:DatatypeProperty .", "property"),
    "an obsolete name": ({}, ":a :p :b . :b :p :c . :a :p :d .", ":b owl:deprecated true .", "obsolete"),
    "same entities": ({"merge_same": True}, ":a :p :b . :a owl:sameAs :c .", ":c :p :d . :d owl:sameAs :a .", "same"),
    "terms of annotations": (
        {"annotations": ("p",)},
        ":a :p :T . :T rdfs:subClassOf :U , [ a owl:Restriction ; owl:onProperty :r ; owl:someValuesFrom :V ] .",
        ":b :p :U , :V .",
        "hierarchy",
    ),
    "an annotation": ({"annotations": ("p",)}, ":a :p :T . :T a owl:Class .", ":b :p :T .", ""),
    "labels, literals, a relation of RDF": (
        {"keep_literals": True},
        ":a :p :b , 'x' , '1' ; rdfs:label 'A' . rdfs:seeAlso a owl:ObjectProperty . :a rdfs:seeAlso :b .",
        ":a rdfs:label 'AA' ; skos:altLabel 'B' . :b :p 'x' , 'y \\\\ \\n'@en ; rdfs:seeAlso :c .",
        "",
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_added_statements_mean_what_they_mean_together(tmp_path: Path, say: Say, case: str) -> None:
    options, there, more, why = CASES[case]
    reading = BuildOptions(Interpretation(**options), InferenceMode.RDFS)  # type: ignore[arg-type]
    kb = build(say(there), tmp_path / "kb", reading).path
    change = add(kb, say(more))
    assert why in change.rebuilt
    assert bool(why) == bool(change.rebuilt)
    assert_equal(change.store, build(say(there + more), tmp_path / "again", reading))


def test_tables_keep_their_base_and_their_split(tmp_path: Path) -> None:
    def table(text: str) -> list[Source]:
        (tmp_path / "relations.tsv").write_text(text)
        return [Source(tmp_path / "relations.tsv", "relations.tsv", "tsv")]

    options = BuildOptions(base="http://example.org/")
    kb = build(table("a\tp\tb\ttrain\nb\tp\tc\ttest\n"), tmp_path / "kb", options).path
    change = add(kb, table("b\tp\tc\tvalid\nc\tp\td\ttest\n"))
    whole = build(table("a\tp\tb\ttrain\nb\tp\tc\tvalid\nc\tp\td\ttest\n"), tmp_path / "again", options)
    assert_equal(change.store, whole)


def test_a_store_that_does_not_say_what_is_declared_keeps_its_names(tmp_path: Path, say: Say) -> None:
    facts = build(say(":a :p :b . :c :p :d ."), tmp_path / "first").facts
    write_store(tmp_path / "kb", facts)
    manifest = json.loads((tmp_path / "kb" / "manifest.json").read_text())
    for entry in manifest["files"].values():  # as older versions wrote it
        entry.pop("hash")
        entry.pop("names", None)
    (tmp_path / "kb" / "manifest.json").write_bytes(manifest_bytes(manifest))
    change = remove(tmp_path / "kb", say(":c :p :d ."))
    assert (len(change.store.facts.vocabulary.entities), len(change.store.facts.heads)) == (4, 1)
    assert add(tmp_path / "kb", say(":c :p :d .")).store.manifest["content_hash"] == manifest["content_hash"]


def test_there_must_be_a_store_and_a_base(tmp_path: Path, say: Say) -> None:
    with pytest.raises(StoreMissing, match="kb build"):
        add(tmp_path / "kb", say(":a :p :b ."))
    kb = build(say(":a :p :b ."), tmp_path / "kb").path
    with pytest.raises(ConfigError, match="--base"):
        add(kb, say(":a :p :c ."), BuildOptions(base="no base"))


@pytest.mark.parametrize("seed", [1])
def test_a_difference_leads_from_one_store_to_the_other(tmp_path: Path, seed: int) -> None:
    chance = random.Random(seed)
    stores = []
    for name in ("one", "other"):
        said = {draw(chance, axioms=True) for _ in range(40)} | {line(*RELATIONS)}
        stores.append(build(source(tmp_path / "said.nt", {s for s in said if s[0] != "{"}), tmp_path / name))
    for side, change in zip(compare_stores(*stores), (remove, add), strict=True):
        lines = [triples for _, triples in side.lines()]
        assert len(lines) == sum(side.counts().values()) > 0
        changed = change(stores[0].path, source(tmp_path / "change.nt", lines)).store
    assert changed.manifest["content_hash"] == stores[1].manifest["content_hash"]
    for side in compare_stores(changed, open_store(tmp_path / "other")):
        assert not any(side.counts().values())
        assert list(side.lines()) == []
