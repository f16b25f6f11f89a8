"""What a store keeps of inference, and that splits do not leak it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tarbox.core.errors import ConfigError
from tarbox.kb.axioms import Axiom
from tarbox.kb.build import BuildOptions, build
from tarbox.kb.closure import Instances
from tarbox.kb.facts import Facts
from tarbox.kb.interpretation import Interpretation
from tarbox.kb.reasoning.inference import InferenceMode, choose_mode, infer
from tarbox.kb.sources import find_sources
from tarbox.kb.splits import hold_out, split_as_paper, split_honestly
from tarbox.kb.statistics import summarise
from tarbox.kb.store import Store, open_store
from tarbox.kb.terms import local_name
from tarbox.kb.vocabulary import Vocabulary
from tarbox.kb.writing import write_store

from .conftest import PREFIXES

FAMILY = """
:Mother owl:equivalentClass [ a owl:Class ; owl:intersectionOf ( :Woman
    [ a owl:Restriction ; owl:onProperty :hasChild ; owl:someValuesFrom :Person ] ) ] .
:Woman rdfs:subClassOf :Person . :Woman owl:disjointWith :Man . :Man rdfs:subClassOf :Person .
:hasChild owl:inverseOf :hasParent ; rdfs:domain :Person ; rdfs:range :Person .
:hasDescendant a owl:TransitiveProperty . :hasChild rdfs:subPropertyOf :hasDescendant .
:Impossible rdfs:subClassOf :Man , :Woman .
:ada a :Woman ; :hasChild :bob . :bob :hasChild :cleo . :eve a :Woman , :Man .
"""


def build_family(folder: Path, mode: InferenceMode, **options: bool) -> Store:
    file = folder / "family.ttl"
    file.write_text(PREFIXES + FAMILY)
    sources, _ = find_sources([str(file)])
    return build(sources, folder / f"kb-{mode.value}", BuildOptions(Interpretation(**options), mode))  # type: ignore[arg-type]


def assertions(facts: Facts) -> set[tuple[str, str, str]]:
    v = facts.vocabulary
    rows = zip(facts.heads.tolist(), facts.relations.tolist(), facts.tails.tolist(), strict=True)
    return {
        (local_name(v.entities.iri(h)), local_name(v.relations.iri(r)), local_name(v.entities.iri(t)))
        for h, r, t in rows
    }


def members(facts: Facts, concept: str) -> set[str]:
    v = facts.vocabulary
    number = next(i for i, iri in enumerate(v.concepts) if local_name(iri) == concept)
    return {local_name(v.entities.iri(int(e))) for e in Instances.of(facts).entities_of[number]}


def test_a_store_keeps_what_follows_apart(tmp_path: Path) -> None:
    store = build_family(tmp_path, InferenceMode.OWL)
    told = {("ada", "hasChild", "bob"), ("bob", "hasChild", "cleo")}
    assert assertions(store.facts.asserted()) == told
    assert assertions(store.facts) == told | {(y, "hasParent", x) for x, _, y in told} | {
        (x, "hasDescendant", y) for x, y in (("ada", "bob"), ("bob", "cleo"), ("ada", "cleo"))
    }
    assert members(store.facts, "Mother") == {"ada"}
    assert members(store.facts, "Person") == {"ada", "bob", "cleo", "eve"}
    counts = store.manifest["counts"]
    assert (counts["assertions"], counts["inferred_assertions"]) == (2, 5)
    assert (counts["typings"], counts["inferred_typings"]) == (3, 3)  # Mother ada, Person bob, Person cleo
    inference = store.manifest["inference"]
    assert [local_name(c) for c in inference["unsatisfiable"]] == ["Impossible"]
    assert {local_name(entity) for entity, _ in inference["inconsistent"]} == {"eve"}
    assert "DisjointClasses" in inference["inconsistent"][0][1]
    text = dict(summarise(store).rows())
    assert text["assertions"] == "2 asserted, 5 inferred"
    assert summarise(store).to_json()["inference"]["mode"] == "owl"


def test_rdfs_infers_less(tmp_path: Path) -> None:
    store = build_family(tmp_path, InferenceMode.RDFS)
    told = {("ada", "hasChild", "bob"), ("bob", "hasChild", "cleo")}
    assert assertions(store.facts) == told | {(x, "hasDescendant", y) for x, _, y in told}
    assert members(store.facts, "Person") == {"ada", "bob", "cleo", "eve"}
    assert members(store.facts, "Mother") == set()


def test_none_infers_nothing(tmp_path: Path) -> None:
    store = build_family(tmp_path, InferenceMode.NONE)
    assert store.facts.inferred is None
    assert not any(name.startswith("inferred") for name in store.manifest["files"])


def test_two_values_where_there_is_one_are_a_contradiction_of_whose_they_are(tmp_path: Path) -> None:
    file = tmp_path / "ages.ttl"
    lines = [
        ":age a owl:DatatypeProperty , owl:FunctionalProperty .",
        ":ada :age 1 , 2 . :bob :age 2 , 3 . :cy :age 3 .",
    ]
    file.write_text("\n".join([PREFIXES, *lines]))
    sources, _ = find_sources([str(file)])
    options = BuildOptions(Interpretation(keep_literals=True), InferenceMode.OWL)
    inference = build(sources, tmp_path / "kb", options).manifest["inference"]
    assert [local_name(entity) for entity, _ in inference["inconsistent"]] == ["ada", "bob"]


def test_a_written_store_keeps_the_marks_and_the_axioms(tmp_path: Path) -> None:
    store = build_family(tmp_path, InferenceMode.OWL)
    write_store(tmp_path / "again", store.facts)
    again = open_store(tmp_path / "again")
    assert again.axioms() == store.axioms()
    assert assertions(again.facts.asserted()) == assertions(store.facts.asserted())
    assert assertions(again.facts) == assertions(store.facts)
    assert again.facts.inferred is not None
    assert again.facts.inferred.mode == "owl"


def test_a_definition_orders_classes(tmp_path: Path) -> None:
    file = tmp_path / "o.ttl"
    some = "[ a owl:Restriction ; owl:onProperty :p ; owl:someValuesFrom %s ]"
    file.write_text(
        PREFIXES
        + f":A owl:equivalentClass {some % ':B'} . :C rdfs:subClassOf {some % ':D'} . :D rdfs:subClassOf :B . :x a :C ."
    )
    store = build(find_sources([str(file)])[0], tmp_path / "kb", BuildOptions(infer=InferenceMode.OWL))
    assert store.manifest["counts"]["inferred_subsumptions"] == 1
    assert members(store.facts, "A") == {"x"}


@pytest.mark.parametrize(("name", "message"), [("inverse", "There are: none, rdfs, owl"), ("rdfs", "--infer owl")])
def test_modes_are_checked(name: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        choose_mode(name, 1.0)


E, R = 30, 3
INVERSE: tuple[Axiom, ...] = (
    ("InverseObjectProperties", "urn:r0", "urn:r1"),
    ("TransitiveObjectProperty", "urn:r2"),
    ("ObjectPropertyDomain", "urn:r0", "urn:C0"),
    ("EquivalentClasses", "urn:C1", ("ObjectSomeValuesFrom", "urn:r2", "urn:C0")),
)


def large(seed: int) -> Facts:
    random = np.random.default_rng(seed)
    vocabulary = Vocabulary.of(
        [f"urn:e{n:02}" for n in range(E)], ["urn:C0", "urn:C1"], [f"urn:r{n}" for n in range(R)]
    )
    rows = {(int(h), int(r), int(t)) for h, r, t in random.integers([E, R, E], size=(60, 3))}
    typings = {(int(e), int(c)) for e, c in random.integers([E, 2], size=(20, 2))}
    return Facts.of(vocabulary, rows, typings)


def closed(facts: Facts) -> tuple[set[tuple[int, ...]], set[tuple[int, ...]]]:
    edges = {tuple(map(int, row)) for row in zip(facts.heads, facts.relations, facts.tails, strict=True)}
    typed = Instances.of(facts).concepts_of.coordinates()
    return edges, {tuple(map(int, row)) for row in zip(*typed, strict=True)}


@settings(max_examples=20, deadline=None)
@given(st.integers(0, 1000))
def test_a_split_knows_only_what_follows_from_its_own_part(seed: int) -> None:
    every, _ = infer(large(seed), INVERSE, InferenceMode.OWL)
    splits = [split_honestly(every, seed), split_as_paper(every, seed)]
    for part in [
        *(s.stages[name].facts for s in splits for name in ("train", "valid", "test")),
        hold_out(every, seed, 0.3),
    ]:
        fresh, _ = infer(part.asserted(), INVERSE, InferenceMode.OWL)
        assert closed(part) == closed(fresh)
    assert closed(splits[0].whole) == closed(every) == closed(splits[1].whole)
    assert len(splits[0].train.asserted().heads) < len(every.asserted().heads)


def test_a_held_out_fact_does_not_come_back_through_an_inferred_one() -> None:
    """Each fact of r0 has an inverse that is inferred; dividing that too would leave one side in train."""
    vocabulary = Vocabulary.of([f"urn:e{n:02}" for n in range(E)], [], ["urn:r0", "urn:r1"])
    facts = Facts.of(vocabulary, {(n, 0, (n * k) % E) for n in range(E) for k in (1, 3, 7)})
    every, _ = infer(facts, INVERSE, InferenceMode.RDFS)
    assert every.inferred is None or not every.inferred.assertions.any()
    every, _ = infer(facts, INVERSE, InferenceMode.OWL)
    assert len(every.heads) == 2 * len(facts.heads)
    train = split_honestly(every, 0).train
    forth = {(h, t) for h, r, t in closed(train)[0] if r == 0}
    back = {(t, h) for h, r, t in closed(train)[0] if r == 1}
    assert forth == back
    assert len(forth) < len(facts.heads)


def test_marks_follow_their_facts() -> None:
    every, _ = infer(large(0), INVERSE, InferenceMode.OWL)
    assert every.inferred is not None
    keep = np.arange(len(every.heads)) % 2 == 0
    half = every.with_assertions(keep)
    assert half.inferred is not None
    assert half.inferred.assertions.tolist() == every.inferred.assertions[keep].tolist()
    assert len(half.asserted().heads) == np.count_nonzero(~half.inferred.assertions)
