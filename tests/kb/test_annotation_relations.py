"""Annotation relations (ADR 39): terms that are both entity and concept, and what they describe, by hand."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tarbox.core.errors import SourceError
from tarbox.kb.build import BuildOptions, build
from tarbox.kb.closure import Instances
from tarbox.kb.export import export
from tarbox.kb.facts import Facts
from tarbox.kb.sources import find_sources
from tarbox.kb.splits import hold_out, split_honestly
from tarbox.kb.store import Store, open_store
from tarbox.kb.vocabulary import Vocabulary
from tarbox.kb.writing import write_store

from .conftest import BuildTurtle

GENES = """
:KCNA1 a :Gene ; :hasPhenotype :Seizure , :Ataxia . :GBA1 a :Gene ; :hasPhenotype :Ataxia ; :interactsWith :KCNA1 .
:FBN1 a :Gene ; :interactsWith :GBA1 .
:Seizure rdfs:subClassOf :Neurological ; :partOf :Spasm . :Ataxia rdfs:subClassOf :Neurological .
:Spasm rdfs:subClassOf :Neurological . :Neurological rdfs:subClassOf :Phenotype .
:hasPhenotype rdfs:label "has phenotype" .
"""
BASE = "http://example.org/"


def concepts(facts: Facts, name: str, instances: Instances) -> set[str]:
    entity = facts.vocabulary.entities.find(BASE + name)
    assert entity is not None
    return {facts.vocabulary.concepts.show(int(concept)) for concept in instances.concepts_of[entity]}


@pytest.mark.parametrize("name", [BASE + "hasPhenotype", "hasPhenotype", "has phenotype"])
def test_terms_become_instances_of_themselves(build_turtle: BuildTurtle, name: str) -> None:
    store = build_turtle(GENES, annotations=(name,))
    facts = store.facts
    assert store.manifest["annotations"] == [BASE + "hasPhenotype"]
    assert facts.annotations == (facts.vocabulary.relations.find(BASE + "hasPhenotype"),)
    assert store.manifest["report"]["terms_as_entities"] == 3
    assert store.manifest["report"]["kept"]["typing"] == 3  # what the sources say
    instances = Instances.of(facts)
    assert concepts(facts, "Seizure", instances) == {"Seizure", "Neurological", "Phenotype"}
    assert concepts(facts, "Spasm", instances) == {"Spasm", "Neurological", "Phenotype"}  # linked to by another term
    assert concepts(facts, "KCNA1", instances) == {"Gene"}
    assert facts.vocabulary.entities.find(BASE + "Neurological") is None


def test_descriptions_by_hand(build_turtle: BuildTurtle) -> None:
    facts = build_turtle(GENES, annotations=("hasPhenotype",)).facts
    described = Instances.of(facts).describe(facts)
    assert concepts(facts, "KCNA1", described) == {"Gene", "Seizure", "Ataxia", "Neurological", "Phenotype"}
    assert concepts(facts, "GBA1", described) == {"Gene", "Ataxia", "Neurological", "Phenotype"}
    assert concepts(facts, "FBN1", described) == {"Gene"}
    sizes = described.entities_of.sizes()
    assert sizes[facts.vocabulary.concepts.find(BASE + "Ataxia")] == 3  # the term and two genes


def test_without_annotation_relations_descriptions_are_the_instances(build_turtle: BuildTurtle) -> None:
    store = build_turtle(GENES)
    instances = Instances.of(store.facts)
    assert store.facts.annotations == ()
    assert "annotations" not in store.manifest
    assert instances.describe(store.facts) is instances


@pytest.mark.parametrize("name", ["hasPhenotypes", "Gene"])
def test_a_name_that_is_no_relation_is_refused(build_turtle: BuildTurtle, name: str) -> None:
    with pytest.raises(SourceError, match=rf"--annotation {name} is no relation of these sources\. Relations: hasPhen"):
        build_turtle(GENES, annotations=(name,))


def test_an_ambiguous_name_is_refused(build_turtle: BuildTurtle) -> None:
    with pytest.raises(SourceError, match="give one IRI"):
        build_turtle("@prefix x: <http://x.org/> . :a :p :b . :a x:p :b .", annotations=("p",))


def rebuild(source: Path, out: Path) -> Store:
    return build(find_sources([str(source)])[0], out, BuildOptions())


def test_an_export_says_which_relations_annotate(build_turtle: BuildTurtle, tmp_path: Path) -> None:
    store = build_turtle(GENES, annotations=("hasPhenotype",))
    export(store.facts, tmp_path / "out.nt")
    again = rebuild(tmp_path / "out.nt", tmp_path / "again")
    assert again.facts.annotations == store.facts.annotations
    assert again.manifest["content_hash"] == store.manifest["content_hash"]
    assert again.manifest["report"]["terms_as_entities"] == 0  # the export said it


def test_another_annotation_relation_is_another_content(build_turtle: BuildTurtle, tmp_path: Path) -> None:
    store = build_turtle(GENES, annotations=("hasPhenotype",))
    hashes = {store.manifest["content_hash"]}
    for number in store.facts.vocabulary.relations.find(BASE + "partOf"), store.facts.annotations[0]:
        assert number is not None
        changed = Facts.of(store.facts.vocabulary, annotations=[number])
        hashes.add(write_store(tmp_path / str(number), changed)["content_hash"])
        assert open_store(tmp_path / str(number)).facts.annotations == (number,)
    assert len(hashes) == 3


def test_no_split_takes_a_term_from_its_concept() -> None:
    terms = [f"urn:t{i:02}" for i in range(40)]
    vocabulary = Vocabulary.of([f"urn:e{i:03}" for i in range(100)] + terms, ["urn:C", *terms], ["urn:r"])
    random = np.random.default_rng(0)
    links = [(int(pair) // 40, 0, 100 + int(pair) % 40) for pair in random.integers(0, 4000, 400)]
    typings = [(e, 0) for e in range(100)] + [(100 + t, 1 + t) for t in range(40)] + [(100 + t, 0) for t in range(40)]
    facts = Facts.of(vocabulary, links, typings, annotations=[0])
    for part in (split_honestly(facts, 0).train, hold_out(facts, 0, 0.5)):
        assert part.annotations == (0,)
        assert int(part.term_typings().sum()) == 40
        assert len(part.typed) < len(facts.typed)
