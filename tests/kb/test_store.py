"""The store: verified, replaced at once, never half-written."""

from __future__ import annotations

import json
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from tarbox.core.errors import StoreDamaged, StoreError, StoreMissing, StoreVersion
from tarbox.core.ids import Role
from tarbox.kb.axioms import Axiom
from tarbox.kb.facts import Facts
from tarbox.kb.store import MANIFEST, manifest_bytes, open_store
from tarbox.kb.vocabulary import Vocabulary
from tarbox.kb.writing import write_store, writing


def small_facts(size: int = 20) -> Facts:
    vocabulary = Vocabulary.of([f"e:{i:04}é" for i in range(size)], ["c:1", "c:2"], ["r:1", "r:2"])
    assertions = [(i, i % 2, (i * 7 + 3) % size) for i in range(size)]
    return Facts.of(vocabulary, assertions, [(i, i % 2) for i in range(size)], [(0, 1)])


def test_save_and_load_is_identity(tmp_path: Path) -> None:
    facts = small_facts()
    manifest = write_store(tmp_path / "kb", facts)
    loaded = open_store(tmp_path / "kb")
    assert loaded.facts.counts() == facts.counts() == manifest["counts"]
    for name in ("heads", "relations", "tails", "typed", "types", "subs", "supers", "splits"):
        assert np.array_equal(getattr(loaded.facts, name), getattr(facts, name))
    assert list(loaded.facts.vocabulary.entities) == list(facts.vocabulary.entities)
    assert write_store(tmp_path / "again", loaded.facts)["content_hash"] == manifest["content_hash"]


AXIOMS: list[Axiom] = [("SubClassOf", "c:2", ("ObjectComplementOf", "c:1")), ("FunctionalObjectProperty", "r:1")]


def test_axioms_are_kept_in_order_and_once(tmp_path: Path) -> None:
    plain = write_store(tmp_path / "kb", small_facts())
    assert "axioms" not in plain
    assert open_store(tmp_path / "kb").axioms() == ()
    manifest = write_store(tmp_path / "kb", small_facts(), axioms=[*AXIOMS, AXIOMS[0]])
    assert manifest["axioms"] == {"FunctionalObjectProperty": 1, "SubClassOf": 1}
    assert manifest["content_hash"] != plain["content_hash"]
    assert manifest["vocabulary_hash"] == plain["vocabulary_hash"]
    assert open_store(tmp_path / "kb").axioms() == tuple(reversed(AXIOMS))
    assert write_store(tmp_path / "kb", small_facts())["content_hash"] == plain["content_hash"]
    assert not list((tmp_path / "kb").glob("*.gz"))


def test_ids_are_rows_in_the_order_of_iris(tmp_path: Path) -> None:
    write_store(tmp_path / "kb", small_facts())
    names = open_store(tmp_path / "kb").facts.vocabulary.names(Role.ENTITY)
    assert list(names) == sorted(names)
    assert [names.find(iri) for iri in names] == list(range(len(names)))
    assert names.find("e:nobody") is None


def test_an_empty_knowledge_base_can_be_stored(tmp_path: Path) -> None:
    write_store(tmp_path / "kb", Facts.of(Vocabulary.of([])))
    assert sum(open_store(tmp_path / "kb").facts.counts().values()) == 0


def test_a_flipped_byte_in_any_file_is_named(tmp_path: Path) -> None:
    write_store(tmp_path / "kb", small_facts(), {"sources": [{"name": "ä.nt"}]}, AXIOMS)
    files = sorted(path for path in (tmp_path / "kb").iterdir())
    assert len(files) == 9
    chance = random.Random(5)
    for file in files:
        sound = file.read_bytes()
        some = {0, len(sound) - 1, *chance.sample(range(len(sound)), 20)}
        places = range(len(sound)) if file.name == MANIFEST else some
        for place in places:
            damaged = bytearray(sound)
            damaged[place] ^= 1 << chance.randrange(8)
            file.write_bytes(damaged)
            with pytest.raises(StoreError, match=file.name.replace(".", r"\.")):
                open_store(tmp_path / "kb")
        file.write_bytes(sound)
    open_store(tmp_path / "kb")


def test_missing_truncated_and_foreign(tmp_path: Path) -> None:
    with pytest.raises(StoreMissing, match="tarbox kb build"):
        open_store(tmp_path / "none")
    manifest = write_store(tmp_path / "kb", small_facts())
    name = manifest["files"]["typings"]["name"]
    content = (tmp_path / "kb" / name).read_bytes()
    (tmp_path / "kb" / name).write_bytes(content[:-8])
    with pytest.raises(StoreDamaged, match=name):
        open_store(tmp_path / "kb")
    (tmp_path / "kb" / name).unlink()
    with pytest.raises(StoreDamaged, match=f"{name} is missing"):
        open_store(tmp_path / "kb")
    (tmp_path / "kb" / MANIFEST).write_bytes(manifest_bytes({**manifest, "version": 99}))
    with pytest.raises(StoreVersion, match="format 99"):
        open_store(tmp_path / "kb")
    (tmp_path / "kb" / MANIFEST).write_bytes(manifest_bytes({"format": "tarbox-benchmark"}))
    with pytest.raises(StoreMissing, match="tarbox-benchmark"):
        open_store(tmp_path / "kb")


def test_a_folder_of_somebody_else_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "thesis.tex").write_text("years of work")
    with pytest.raises(StoreError, match="not empty and holds no store"):
        write_store(tmp_path, small_facts())
    assert (tmp_path / "thesis.tex").read_text() == "years of work"
    with pytest.raises(StoreError, match="is a file"):
        write_store(tmp_path / "thesis.tex", small_facts())


def test_an_open_store_survives_its_replacement(tmp_path: Path) -> None:
    write_store(tmp_path / "kb", small_facts(20))
    old = open_store(tmp_path / "kb")
    write_store(tmp_path / "kb", small_facts(30))
    assert len(open_store(tmp_path / "kb").facts.heads) == 30
    assert len(old.facts.heads) == 20
    assert old.facts.heads.tolist() == sorted(old.facts.heads.tolist())
    assert len(list((tmp_path / "kb").iterdir())) == 8  # nothing of the old one is left


def test_an_error_while_writing_keeps_the_old_store(tmp_path: Path) -> None:
    manifest = write_store(tmp_path / "kb", small_facts())
    with pytest.raises(RuntimeError, match="the disk is full"), writing(tmp_path / "kb"):
        raise RuntimeError("the disk is full")
    assert open_store(tmp_path / "kb").manifest == manifest
    assert [path.name for path in tmp_path.iterdir()] == ["kb"]


BUILDING = """
import os, signal, sys, time, duckdb, pyarrow.compute
from tarbox.kb.build import BuildOptions, build
from tarbox.kb.sources import find_sources

for line in sys.stdin:  # a process for each; Python is started once for all of them
    source, _, moment = line.rpartition(" ")
    if not (child := os.fork()):
        build(find_sources([source])[0], sys.argv[1], BuildOptions())
        os._exit(0)
    if float(moment) >= 0:
        time.sleep(float(moment))
        os.kill(child, signal.SIGKILL)
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
"""


def test_killed_at_any_moment(tmp_path: Path) -> None:
    """SIGKILL at random points of a build that replaces a store: afterwards it is the old one or the new one."""
    sources = []
    for number, size in enumerate((200, 300)):
        file = tmp_path / f"{number}.nt"
        file.write_text("".join(f"<http://e/{i}> <http://e/p> <http://e/{(i * 7) % size}> .\n" for i in range(size)))
        sources.append(file)
    command = [sys.executable, "-c", BUILDING, str(tmp_path / "kb")]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1) as builder:
        assert builder.stdin is not None
        assert builder.stdout is not None
        told = builder.stdout

        def build(source: Path, moment: float = -1) -> int:
            """The exit code of a build, which is killed after so many seconds, if they are."""
            print(source, moment, file=builder.stdin)
            return int(told.readline())

        hashes = set()
        for source in sources:
            started = time.monotonic()
            assert build(source) == 0
            lasts = time.monotonic() - started
            hashes.add(open_store(tmp_path / "kb").manifest["content_hash"])
        assert len(hashes) == 2
        chance = random.Random(11)
        killed = 0
        for attempt in range(16):
            killed += build(sources[attempt % 2], chance.uniform(0.0, 1.0) * lasts) == -signal.SIGKILL
            assert open_store(tmp_path / "kb").manifest["content_hash"] in hashes
        assert killed >= 4
        assert build(sources[0]) == 0
        builder.stdin.close()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["0.nt", "1.nt", "kb"]  # what was left behind is gone


def test_the_manifest_is_readable_json(tmp_path: Path) -> None:
    write_store(tmp_path / "kb", small_facts())
    manifest = json.loads((tmp_path / "kb" / MANIFEST).read_text())
    assert manifest["format"] == "tarbox-store"
    assert {"counts", "options", "sources", "files", "content_hash", "vocabulary_hash"} <= manifest.keys()
