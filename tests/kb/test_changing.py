"""A changed store is the one that a build from scratch makes, byte for byte, whatever interrupts the change."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest

from tarbox.core.errors import StoreError, StoreMissing
from tarbox.core.ids import Role
from tarbox.kb import changing
from tarbox.kb.build import BuildOptions, build
from tarbox.kb.changing import Change, add, remove
from tarbox.kb.namespaces import LABEL, OWL, RDFS, SKOS, SUBCLASS, TYPE
from tarbox.kb.reasoning.inference import InferenceMode
from tarbox.kb.sources import Source
from tarbox.kb.store import Store, open_store
from tarbox.kb.writing import StoreWriter

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
        if not known_names(wanted):
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


def known_names(statements: set[str]) -> bool:
    return any(f"<{p}>" in s for s in statements for p in RELATIONS)


@pytest.mark.parametrize("seed", range(3))
def test_changes_equal_a_build_from_scratch(tmp_path: Path, stop: list[int], seed: int) -> None:
    run_changes(tmp_path, seed, 8, stop)


@pytest.mark.skipif(not CHANGES, reason="TARBOX_CHANGES is the number of changes to try")
@pytest.mark.parametrize("seed", range(100, 100 + CHANGES // 20))
def test_many_changes(tmp_path: Path, stop: list[int], seed: int) -> None:
    run_changes(tmp_path, seed, 20, stop)
