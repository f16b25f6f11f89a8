"""Derivations hold step by step, and justifications are minimal."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tarbox.kb.axioms import Axiom
from tarbox.kb.closure import Instances
from tarbox.kb.reasoning.classification import classify, ontology_text, reached, rustdl
from tarbox.kb.reasoning.derivations import Derivation, Deriver, justify
from tarbox.kb.reasoning.desugaring import sub
from tarbox.kb.reasoning.inference import InferenceMode, infer_individuals

from .test_reasoning_rules import Judge, make, some_axioms, some_facts, some_typings


def grounds(found: Derivation) -> tuple[set[Axiom], list[Axiom]]:
    """The statements without a reason that a derivation rests on, and the axioms that it applies."""
    if found.axiom is None and not found.premises:
        return {found.statement}, []
    facts: set[Axiom] = set()
    axioms = [found.axiom] if found.axiom is not None else []
    for premise in found.premises:
        more, used = grounds(premise)
        facts |= more
        axioms += used
    return facts, axioms


def check(found: Derivation, told: set[Axiom], axioms: list[Axiom]) -> None:
    """What the derivation rests on is told, and implies the statement by the slow judge."""
    facts, used = grounds(found)
    stated = {fact for fact in facts if fact[0] != "SubClassOf"}
    assert stated <= told
    assert set(used) <= set(axioms)
    subsumptions = [fact for fact in facts if fact[0] == "SubClassOf"]
    edges = {(str(f[2]), str(f[1]), str(f[3])) for f in stated if f[0] == "ObjectPropertyAssertion"}
    typings = {(str(f[2]), str(f[1])) for f in stated if f[0] == "ClassAssertion"}
    known, members = Judge(edges, typings, [*used, *subsumptions]).run()
    match found.statement:
        case ("ObjectPropertyAssertion", relation, head, tail):
            assert (head, relation, tail) in known
        case ("ClassAssertion", concept, entity):
            assert (entity, concept) in members


without_same = some_axioms.filter(
    lambda axiom: not any(word in str(axiom) for word in ("SameIndividual", "Functional", "OneOf", "MaxCardinality"))
)


@settings(max_examples=150, deadline=None)
@given(some_facts, some_typings, st.lists(without_same, max_size=5))
def test_everything_inferred_has_a_derivation_from_asserted_facts(
    facts: set[tuple[str, str, str]], typings: set[tuple[str, str]], axioms: list[Axiom]
) -> None:
    every, _ = infer_individuals(make(facts, typings), tuple(axioms))
    deriver = Deriver(every, axioms, InferenceMode.OWL)
    told: set[Axiom] = {("ObjectPropertyAssertion", p, x, y) for x, p, y in facts}
    told |= {("ClassAssertion", c, x) for x, c in typings}
    _, members = Judge(facts, typings, axioms).run()
    names = every.vocabulary
    for head, relation, tail in zip(every.heads.tolist(), every.relations.tolist(), every.tails.tolist(), strict=True):
        found = deriver.assertion(head, relation, tail)
        assert found is not None
        check(found, told, axioms)
    for entity, concept in zip(*map(np.ndarray.tolist, Instances.of(every).concepts_of.coordinates()), strict=True):
        found = deriver.typing(entity, concept)
        assert found is not None
        assert (names.entities.iri(entity), names.concepts.iri(concept)) in members
        check(found, told, axioms)
    wrong = [
        (x, c) for x in range(5) for c in range(5) if (names.entities.iri(x), names.concepts.iri(c)) not in members
    ]
    assert all(deriver.typing(x, c) is None for x, c in wrong[:3])


ONTOLOGY: list[Axiom] = [
    (
        "EquivalentClasses",
        "urn:Mother",
        ("ObjectIntersectionOf", "urn:Woman", ("ObjectSomeValuesFrom", "urn:c", "urn:P")),
    ),
    sub("urn:Woman", "urn:P"),
    sub("urn:Man", "urn:P"),
    ("ObjectPropertyDomain", "urn:c", "urn:Parent"),
    ("DisjointClasses", "urn:Man", "urn:Woman"),
    sub("urn:Parent", "urn:Adult"),
    sub("urn:Queen", "urn:Mother"),
    ("SubObjectPropertyOf", "urn:d", "urn:c"),
    sub("urn:Nobody", ("ObjectIntersectionOf", "urn:Man", "urn:Mother")),
]


@pytest.mark.parametrize(("lower", "upper", "size"), [("Queen", "Adult", 4), ("Queen", "P", 3), ("Nobody", "Queen", 3)])
def test_a_justification_is_minimal(lower: str, upper: str, size: int) -> None:
    found = justify(ONTOLOGY, f"urn:{lower}", f"urn:{upper}")
    assert found is not None
    assert len(found) == size

    def holds(axioms: list[Axiom]) -> bool:
        taxonomy = classify(axioms)
        below = f"urn:{lower}"
        return below in taxonomy.unsatisfiable or f"urn:{upper}" in reached(below, taxonomy.direct)

    assert holds(list(found))
    assert not any(holds([a for a in found if a != axiom]) for axiom in found)
    names = {
        name for axiom in ONTOLOGY for name in axiom[1:] if isinstance(name, str) and name not in ("urn:c", "urn:d")
    }
    declared: list[Axiom] = [("Declaration", ("Class", name)) for name in sorted(names)]
    theirs = rustdl().prepare_bytes(ontology_text([*declared, *ONTOLOGY]), format="ofn")
    assert len(theirs.justify(["subclass", f"urn:{lower}", f"urn:{upper}"])) == size


def test_what_does_not_follow_has_no_justification() -> None:
    assert justify(ONTOLOGY, "urn:Woman", "urn:Mother") is None
