"""Why an answer is one, where a model predicts: the likeliest facts on the way, with their probabilities."""

from __future__ import annotations

import pytest
from predicting import SmallPredictor
from test_predictions import TEXTS

from tarbox.core.errors import QueryError
from tarbox.core.ids import Role
from tarbox.service.degrees import COUNTED
from tarbox.service.explanations import Support
from tarbox.service.knowledge_base import KnowledgeBase
from tarbox.service.reasoner import Reasoner


def explained(reasoner: Reasoner, text: str, answer: str, role: Role = Role.ENTITY) -> Support:
    return reasoner.explain(reasoner.kb.parse(text), answer, role)


def test_predicted_facts_carry_a_prediction(reasoner: Reasoner) -> None:
    told = explained(reasoner, "worksAt some (locatedIn value Canada)", "YannLeCun")
    assert [(edge.label, edge.status, edge.degree) for edge in told.edges] == [
        ("worksAt", "predicted", pytest.approx(0.3)),
        ("locatedIn", "known", 1.0),
    ]
    assert told.steps == (
        "Yann LeCun works at Toronto (predicted, 0.30)",
        "Toronto is located in Canada (known)",
    )
    assert told.sentence == (
        "Yann LeCun is predicted with probability 0.30; it would be an answer if Yann LeCun works at Toronto "
        "(predicted, 0.30) and Toronto is located in Canada (known)."
    )


def test_the_strongest_witness_and_branch_are_taken(reasoner: Reasoner) -> None:
    told = explained(reasoner, "(worksAt value Toronto) or (worksAt value MIT)", "YannLeCun")
    assert told.steps == ("Yann LeCun works at MIT (predicted, 0.60)",)
    both = explained(
        reasoner,
        "interestedIn some ((inverse investigates value GeoffreyHinton) and (inverse uses value Google))",
        "Google",
    )
    assert [(edge.status, edge.degree) for edge in both.edges] == [
        ("predicted", pytest.approx(0.5)),
        ("predicted", pytest.approx(0.4)),
        ("known", 1.0),
    ]
    negated = explained(reasoner, "Organisation and not (uses value Search)", "Canada")
    assert negated.steps[0] == "Canada is an Organisation (predicted, 0.70)"


def test_known_answers_are_proved_by_known_facts(reasoner: Reasoner, kb: KnowledgeBase) -> None:
    for text in TEXTS:
        for answer in kb.answer(text).entities:
            told = explained(reasoner, text, answer.iri)
            assert {edge.status for edge in told.edges} <= {"known"}
            assert "predicted" not in " ".join(told.steps)
        for concept in kb.answer(text).concepts:
            assert {edge.status for edge in explained(reasoner, text, concept.iri, Role.CONCEPT).edges} == {"known"}


def test_every_prediction_is_explained(reasoner: Reasoner) -> None:
    for text in TEXTS:
        answers = reasoner.answer(text, None)
        for role, listed in ((Role.ENTITY, answers.entities), (Role.CONCEPT, answers.concepts)):
            for answer in listed:
                told = explained(reasoner, text, answer.iri, role)
                assert told.nodes[0].iri == answer.iri
                if role is Role.ENTITY and answer.status == "predicted":
                    assert f"is predicted with probability {answer.degree:.2f}; " in told.sentence
                predicted = [edge.degree for edge in told.edges if edge.status == "predicted"]
                assert bool(predicted) is (answer.status == "predicted")
                assert all(degree is not None and COUNTED <= degree < 1 for degree in predicted)


def test_a_predicted_concept_has_its_strongest_member(reasoner: Reasoner) -> None:
    told = explained(reasoner, "worksAt value MIT", "Person", Role.CONCEPT)
    assert told.sentence == (
        "Person may describe the answers: no known answer is an instance of Person; the model predicts one, most "
        "likely Yann LeCun. For example: Yann LeCun is a Person (known) and Yann LeCun works at MIT (predicted, 0.60)."
    )


@pytest.mark.parametrize(
    ("text", "answer", "role"),
    [
        ("worksAt value MIT", "Search", Role.ENTITY),
        ("uses value Search", "Canada", Role.ENTITY),  # 0.0005
        ("worksAt value MIT", "Technique", Role.CONCEPT),
    ],
)
def test_what_is_no_answer_has_no_explanation(reasoner: Reasoner, text: str, answer: str, role: Role) -> None:
    with pytest.raises(QueryError, match=rf"^{answer} is no answer to this query: .* probability is below 0\.01"):
        explained(reasoner, text, answer, role)


@pytest.mark.parametrize(
    ("text", "answer"),
    [("worksAt value MIT", "YannLeCun"), ("inverse worksAt value YannLeCun", "MIT"), ("Organisation", "Canada")],
)
def test_a_fact_is_as_likely_as_the_answer_that_it_makes(reasoner: Reasoner, text: str, answer: str) -> None:
    said = {a.iri: a.degree for a in reasoner.answer(text, None).entities}[reasoner.kb.entities[answer].iri]
    told = explained(reasoner, text, answer)
    assert [edge.degree for edge in told.edges] == [pytest.approx(said)]
    assert told.sentence.count(f"{said:.2f}") == 2


def test_an_answer_is_no_likelier_than_any_fact_it_needs(reasoner: Reasoner) -> None:
    """Where one way leads to it: the degrees of the steps multiply."""
    told = explained(reasoner, "interestedIn some (inverse investigates value GeoffreyHinton)", "Google")
    degrees = [edge.degree for edge in told.edges]
    assert degrees == [pytest.approx(0.5), pytest.approx(0.4)]
    assert "predicted with probability 0.20" in told.sentence


def test_the_model_is_asked_once_at_most(reasoner: Reasoner, predictor: SmallPredictor) -> None:
    explained(reasoner, "worksAt some (locatedIn value Canada)", "YannLeCun")
    assert predictor.asked == [1]  # for the degree of the answer, not of each fact
    explained(reasoner, "worksAt some (locatedIn value Canada)", "GeoffreyHinton")
    assert predictor.asked == [1]  # what follows from the facts needs no model


def test_what_a_not_leaves_is_told(reasoner: Reasoner) -> None:
    told = explained(reasoner, "Person and not (worksAt value Toronto)", "YannLeCun")
    assert told.steps == (
        "Yann LeCun is a Person",
        "no fact puts Yann LeCun under “everything that works at Toronto” (known, 0.70)",
    )
    assert told.sentence.startswith("Yann LeCun is an answer because")
    sure = explained(reasoner, "Agent and not (worksAt value Toronto)", "MIT")
    assert sure.steps[-1] == "no fact puts MIT under “everything that works at Toronto”"
