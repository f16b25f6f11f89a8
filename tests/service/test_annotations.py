"""Answers, sets and explanations of a store whose genes are annotated with terms (ADR 39), by hand."""

from __future__ import annotations

import numpy as np
import pytest

from tarbox.core.errors import QueryError
from tarbox.core.ids import Role
from tarbox.execution.graph import Index
from tarbox.kb.facts import Facts
from tarbox.kb.rows import TripleKeys
from tarbox.kb.vocabulary import Vocabulary
from tarbox.models.credo.concepts import SetModel
from tarbox.models.credo.model import Credo
from tarbox.models.credo.probabilities import FactProbabilities
from tarbox.models.saved import sizes_of
from tarbox.service.knowledge_base import KnowledgeBase
from tarbox.service.reasoner import Reasoner

NS = "https://tarbox.example/genes#"
ENTITIES = ["Ataxia", "FBN1", "GBA1", "Heart", "KCNA1", "Seizure", "Tall"]
CONCEPTS = ["Ataxia", "Gene", "Neurological", "Organ", "Phenotype", "Seizure", "Tall"]
RELATIONS = ["expressedIn", "hasPhenotype", "interactsWith"]
ASSERTIONS = """
    KCNA1 hasPhenotype Seizure
    KCNA1 hasPhenotype Ataxia
    KCNA1 expressedIn Heart
    GBA1 hasPhenotype Ataxia
    FBN1 interactsWith KCNA1
    FBN1 interactsWith GBA1
"""
TYPINGS = "KCNA1 Gene\nGBA1 Gene\nFBN1 Gene\nHeart Organ\nSeizure Seizure\nAtaxia Ataxia\nTall Tall"
SUBSUMPTIONS = "Seizure Neurological\nAtaxia Neurological\nNeurological Phenotype\nTall Phenotype"


@pytest.fixture(scope="module")
def kb() -> KnowledgeBase:
    names = ([NS + name for name in names] for names in (ENTITIES, CONCEPTS, RELATIONS))
    return KnowledgeBase(
        Facts.of(
            Vocabulary.of(*names),
            [(ENTITIES.index(h), RELATIONS.index(r), ENTITIES.index(t)) for h, r, t in rows(ASSERTIONS)],
            [(ENTITIES.index(e), CONCEPTS.index(c)) for e, c in rows(TYPINGS)],
            [(CONCEPTS.index(a), CONCEPTS.index(b)) for a, b in rows(SUBSUMPTIONS)],
            annotations=[RELATIONS.index("hasPhenotype")],
        ),
        "genes",
    )


@pytest.fixture(scope="module")
def reasoner(kb: KnowledgeBase) -> Reasoner:
    """FBN1 has the phenotype Tall with 0.6 and Seizure with 0.5, and GBA1 has Seizure with 0.2."""
    predicted = {("FBN1", "Tall"): 0.6, ("FBN1", "Seizure"): 0.5, ("GBA1", "Seizure"): 0.2}
    facts, index = kb.facts, Index.of(kb.facts)
    triples = np.array([(1, ENTITIES.index(head), ENTITIES.index(tail)) for head, tail in predicted]).T
    links = TripleKeys(len(ENTITIES)).encode(*triples), np.array(list(predicted.values()), np.float32)
    nothing = np.empty(0, np.int64), np.empty(0, np.float32)
    probabilities = FactProbabilities.of(facts, sizes_of(facts), links, nothing)
    return Reasoner(kb, Credo.of(index, probabilities, SetModel.of(index, 0)), "credo")


def rows(text: str) -> list[list[str]]:
    return [line.split() for line in text.strip().splitlines()]


def labels(answers: object) -> set[str]:
    return {answer.label for answer in answers}  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("query", "wanted"),
    [
        ("Gene and hasPhenotype some Seizure", {"KCNA1"}),
        ("Gene and hasPhenotype some Neurological", {"KCNA1", "GBA1"}),
        ("Gene and not (hasPhenotype some Phenotype)", {"FBN1"}),
        ("inverse hasPhenotype value KCNA1", {"Seizure", "Ataxia"}),
        ("interactsWith some (hasPhenotype value Seizure)", {"FBN1"}),
        ("Neurological", {"Seizure", "Ataxia"}),  # KCNA1 has one, and is none
    ],
)
def test_entities(kb: KnowledgeBase, query: str, wanted: set[str]) -> None:
    assert labels(kb.answer(query).entities) == wanted


def test_concepts_describe_genes_by_their_terms(kb: KnowledgeBase) -> None:
    found = {answer.label: answer for answer in kb.answer("inverse interactsWith value FBN1").concepts}
    assert set(found) == {"Gene", "Ataxia", "Seizure", "Neurological", "Phenotype"}
    assert {name: found[name].coverage for name in ("Gene", "Ataxia", "Seizure")} == {
        "Gene": 1.0,
        "Ataxia": 1.0,
        "Seizure": 0.5,
    }
    # 7 entities are described; Seizure describes the term and KCNA1
    assert found["Seizure"].specificity == pytest.approx(np.log2(7 / 2) / np.log2(7))
    assert labels(kb.concepts_of("KCNA1")) == {"Gene"}


def test_sets_are_described_by_terms(kb: KnowledgeBase) -> None:
    found = {answer.label: answer.coverage for answer in kb.describe_set(["KCNA1", "GBA1"]).concepts}
    assert found == {"Gene": 1.0, "Ataxia": 1.0, "Neurological": 1.0, "Phenotype": 1.0, "Seizure": 0.5}


def test_a_concept_page_has_instances_and_says_how_specific_the_term_is(kb: KnowledgeBase) -> None:
    from tarbox.service.catalogue import Catalogue

    card = Catalogue(kb).concept("Seizure")
    assert (card.count, card.described) == (1, 2)
    assert card.specificity == pytest.approx(np.log2(7 / 2) / np.log2(7))


def test_an_explanation_says_through_which_relation(kb: KnowledgeBase) -> None:
    from tarbox.service.explanations import explain_answer

    query = kb.parse("inverse interactsWith value FBN1")
    told = explain_answer(query, kb, "Neurological", Role.CONCEPT)
    assert told.steps == (
        "2 of 2 answers are described by Neurological through hasPhenotype: GBA1 and KCNA1",
        "GBA1 has the phenotype Ataxia",
        "Ataxia is the term of the concept Ataxia",
        "every Ataxia is a Neurological",
        "FBN1 interacts with GBA1",
    )
    assert told.sentence == (
        "Neurological describes the answers: 2 of 2 answers are described by Neurological through hasPhenotype: GBA1 "
        "and KCNA1. For example: GBA1 has the phenotype Ataxia and FBN1 interacts with GBA1."
    )
    assert [edge.label for edge in told.edges] == ["hasPhenotype", "is a", "is a kind of", "interactsWith"]
    told = explain_answer(query, kb, "Gene", Role.CONCEPT)
    assert told.steps[:2] == ("2 of 2 answers are instances of Gene: GBA1 and KCNA1", "GBA1 is a Gene")
    with pytest.raises(QueryError, match="Tall is no answer to this query: it describes none"):
        explain_answer(query, kb, "Tall", Role.CONCEPT)


def test_predicted_annotations_describe(reasoner: Reasoner) -> None:
    found = {answer.label: answer for answer in reasoner.answer("inverse interactsWith value FBN1", k=9).concepts}
    assert {name for name, answer in found.items() if answer.status == "predicted"} == set()
    found = {answer.label: answer for answer in reasoner.answer("{FBN1}", k=9).concepts}
    degrees = {name: answer.degree for name, answer in found.items()}
    assert degrees == {
        "Gene": 1.0,
        "Tall": pytest.approx(0.6),
        "Seizure": pytest.approx(0.5),
        "Neurological": pytest.approx(0.5),
        "Phenotype": pytest.approx(1 - 0.4 * 0.5),
    }
    assert found["Gene"].status == "known"
    assert {answer.status for name, answer in found.items() if name != "Gene"} == {"predicted"}


def test_a_predicted_description_is_explained_by_the_likeliest_annotation(reasoner: Reasoner) -> None:
    told = reasoner.explain(reasoner.kb.parse("{FBN1}"), "Phenotype", Role.CONCEPT)
    assert told.steps == (
        "no known answer is described by Phenotype; the model predicts one, most likely FBN1",
        "FBN1 has the phenotype Tall (predicted, 0.60)",
        "Tall is the term of the concept Tall (known)",
        "every Tall is a Phenotype (known)",
    )
    assert told.sentence.startswith("Phenotype may describe the answers: no known answer is described by Phenotype")


@pytest.mark.parametrize("order", ["descriptive", "probability", "similarity"])
def test_every_order_lists_what_describes(kb: KnowledgeBase, reasoner: Reasoner, order: str) -> None:
    exact = kb.answer("inverse interactsWith value FBN1", order=order)
    assert labels(exact.concepts) == {"Gene", "Ataxia", "Seizure", "Neurological", "Phenotype"}
    assert labels(reasoner.answer("inverse interactsWith value FBN1", k=9, order=order).concepts) == labels(
        exact.concepts
    )
