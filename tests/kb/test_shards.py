"""A store in shards is the store that it is in one file a table."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tarbox.core.errors import StoreDamaged
from tarbox.kb.build import BuildOptions, build
from tarbox.kb.changing import add, remove
from tarbox.kb.facts import Facts
from tarbox.kb.interpretation import Interpretation
from tarbox.kb.reasoning.inference import InferenceMode
from tarbox.kb.sources import Source, find_sources
from tarbox.kb.store import SHARDED_TABLES, Store, listed_files, open_store, shards_of, table_of
from tarbox.service.knowledge_base import KnowledgeBase
from tarbox.training.run import link_store

from .conftest import PREFIXES
from .test_engines import EDGES, RULES

COLUMNS = ("heads", "relations", "tails", "typed", "types", "subs", "supers", "splits")


@pytest.fixture
def sources(tmp_path: Path) -> list[Source]:
    """Facts of all kinds: with labels, literals, attributes, and some that are inferred."""
    (tmp_path / "edges.tsv").write_text(EDGES)
    (tmp_path / "rules.ttl").write_text(PREFIXES + RULES + ':ada rdfs:label "Ada", "Ada L."@en .')
    return find_sources([str(tmp_path / "edges.tsv"), str(tmp_path / "rules.ttl")])[0]


def build_in(shards: int, sources: list[Source], path: Path) -> Store:
    return build(sources, path, BuildOptions(Interpretation(keep_literals=True), InferenceMode.OWL, shards=shards))


def columns(facts: Facts) -> list[list[int]]:
    return [getattr(facts, name).tolist() for name in COLUMNS]


@pytest.mark.parametrize("shards", [2, 3, 7, 50])  # there are fewer entities than 50
def test_shards_hold_the_same(shards: int, sources: list[Source], tmp_path: Path) -> None:
    whole, parted = build_in(1, sources, tmp_path / "whole"), build_in(shards, sources, tmp_path / "parted")
    one, other = whole.manifest, parted.manifest
    assert (one["version"], other["version"]) == (1, 2)
    assert {k: v for k, v in one.items() if k not in ("files", "version", "~checksum")} == {
        k: v for k, v in other.items() if k not in ("files", "version", "~checksum")
    }
    assert {name for name, entry in other["files"].items() if "shards" in entry} == SHARDED_TABLES.keys()
    assert columns(parted.facts) == columns(whole.facts)
    assert parted.facts.vocabulary.entities.iris.to_pylist() == whole.facts.vocabulary.entities.iris.to_pylist()
    for name in one["files"].keys() - {"axioms"}:
        assert parted.table(name).equals(whole.table(name))
    assert parted.axioms() == whole.axioms()
    facts = [(fact, parted.attributes.of(*fact)) for fact in zip(*columns(whole.facts)[:3], strict=True)]
    assert facts == [(fact, whole.attributes.of(*fact)) for fact, _ in facts]
    assert any(said for _, said in facts)
    answers = [KnowledgeBase.load(store.path).answer("Woman and child some Person") for store in (whole, parted)]
    assert [x.iri for x in answers[0].entities] == [x.iri for x in answers[1].entities] != []


def test_a_shard_holds_a_range_of_entities_with_their_facts(sources: list[Source], tmp_path: Path) -> None:
    store = build_in(3, sources, tmp_path / "kb")
    size = store.manifest["counts"]["entities"]
    for name, column in SHARDED_TABLES.items():
        entries = shards_of(store.manifest["files"][name])
        assert [entry["ids"] for entry in entries] == [[size * n // 3, size * (n + 1) // 3] for n in range(3)]
        for entry, content in zip(entries, store.files[name], strict=True):
            rows, (first, past) = table_of([content]), entry["ids"]
            if name == "entities":
                assert len(rows) == past - first
            else:
                ids = rows[column].to_numpy()
                heads = store.facts.asserted().heads[ids] if name == "attributes" else ids
                assert np.all((heads >= first) & (heads < past))


def test_a_damaged_or_lost_shard_is_named(sources: list[Source], tmp_path: Path) -> None:
    store = build_in(3, sources, tmp_path / "kb")
    for name in listed_files(store.manifest):
        file = store.path / name
        sound = file.read_bytes()
        file.write_bytes(sound[:-1] + bytes([sound[-1] ^ 1]))
        with pytest.raises(StoreDamaged, match=f"{name} is damaged"):
            open_store(store.path)
        file.unlink()
        with pytest.raises(StoreDamaged, match=f"{name} is missing"):
            open_store(store.path)
        file.write_bytes(sound)
    assert open_store(store.path).manifest == store.manifest
    link_store(store.path, tmp_path / "linked")  # as a run does
    assert open_store(tmp_path / "linked").manifest == store.manifest


@pytest.mark.parametrize(
    "more",
    [
        ":zoe :child :zed .",  # the last entities: no typing moves, and yet the ranges do
        ":ada :child :bob .",  # nothing new
        ":ada :likes :bob .",
        ":0 a :Woman .",
        ":likes a owl:SymmetricProperty .",
    ],
)
def test_a_change_keeps_the_shards(more: str, sources: list[Source], tmp_path: Path) -> None:
    (tmp_path / "more.ttl").write_text(PREFIXES + more)
    change = [Source(tmp_path / "more.ttl", "more.ttl", "turtle")]
    before = build_in(3, sources, tmp_path / "kb").manifest
    after = add(tmp_path / "kb", change).store
    whole = build_in(3, [*sources, *change], tmp_path / "whole")
    assert (after.manifest["files"], after.manifest["content_hash"]) == (
        whole.manifest["files"],
        whole.manifest["content_hash"],
    )
    assert {file.name for file in after.path.iterdir()} == {"manifest.json", *listed_files(after.manifest)}
    if "child :bob" not in more:
        assert remove(tmp_path / "kb", change).store.manifest["content_hash"] == before["content_hash"]


def test_a_store_is_built_again_in_other_shards(sources: list[Source], tmp_path: Path) -> None:
    hashes = {build_in(shards, sources, tmp_path / "kb").manifest["content_hash"] for shards in (4, 1, 2)}
    assert len(hashes) == 1
    store = open_store(tmp_path / "kb")
    assert {file.name for file in store.path.iterdir()} == {"manifest.json", *listed_files(store.manifest)}
