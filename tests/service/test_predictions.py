"""A reasoner with probabilities: which answers are listed, counted and ordered."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from predicting import SmallPredictor

from similarity import reference
from tarbox.core.errors import QueryError
from tarbox.core.ids import Level
from tarbox.execution.rows import encode
from tarbox.kb.facts import Facts
from tarbox.models.counting import Counting
from tarbox.models.saved import sizes_of
from tarbox.models.scorer import Predictor
from tarbox.models.tar import Tar
from tarbox.query.algebra import Query
from tarbox.service.answering import Question, open_answerer
from tarbox.service.answers import AnswerCounts
from tarbox.service.degrees import COUNTED, MIN_DEGREE
from tarbox.service.knowledge_base import KnowledgeBase
from tarbox.service.ordering import Order, crisp_similarity, fuzzy_similarity
from tarbox.service.ranking import best
from tarbox.service.reasoner import Reasoner, trained_on

FIGURE_1 = "interestedIn some ((inverse investigates value GeoffreyHinton) and (inverse uses value Google))"
TEXTS = (
    "worksAt value MIT",
    "worksAt some (locatedIn value Canada)",
    "interestedIn value Search",
    "uses value Search",
    FIGURE_1,
    "Organisation",
    "not University",
    "Person and not (worksAt value Toronto)",
    "(worksAt value MIT) or (worksAt value Toronto)",
    "owl:Thing",
)


def degrees_of(reasoner: Reasoner, text: str, min_degree: float = MIN_DEGREE) -> dict[str, tuple[float, str]]:
    found = reasoner.answer(text, None, min_degree=min_degree).entities
    return {a.label: (round(a.degree, 3), a.status) for a in found}


def test_which_models_have_probabilities(facts: Facts, predictor: SmallPredictor) -> None:
    assert isinstance(predictor, Predictor)
    assert not isinstance(Counting.from_facts(facts), Predictor)
    assert not isinstance(Tar(Tar.Config(dimension=4), sizes_of(facts)), Predictor)


def test_a_degree_is_the_probability_of_the_fact(reasoner: Reasoner) -> None:
    assert degrees_of(reasoner, "worksAt value MIT") == {"Yann LeCun": (0.6, "predicted")}
    assert degrees_of(reasoner, "interestedIn value Search") == {"MIT": (1.0, "known"), "Google": (0.5, "predicted")}


def test_degrees_compose_through_the_query(reasoner: Reasoner) -> None:
    found = degrees_of(reasoner, "worksAt some (locatedIn value Canada)")
    assert found == {"GeoffreyHinton": (1.0, "known"), "Yann LeCun": (0.3, "predicted")}  # max(0.6 * 0.25, 0.3)
    either = degrees_of(reasoner, "(worksAt value MIT) or (worksAt value Toronto)")
    assert either["Yann LeCun"] == (pytest.approx(1 - 0.4 * 0.7), "predicted")


def test_a_known_answer_has_what_a_not_leaves_of_it(reasoner: Reasoner) -> None:
    """No fact says that LeCun works in Toronto, which makes him an answer; the model gives it 0.3."""
    text = "Agent and not (worksAt value Toronto)"
    found = [(a.label, round(a.degree, 3), a.status) for a in reasoner.answer(text, None).entities]
    assert found == [
        ("Google", 1.0, "known"),
        ("MIT", 1.0, "known"),
        ("Toronto", 1.0, "known"),
        ("Yann LeCun", 0.7, "known"),  # by degree
        ("Canada", 0.7, "predicted"),
    ]


def test_unlikely_predictions_are_counted_not_listed(reasoner: Reasoner) -> None:
    found = reasoner.answer("uses value Search", None)
    assert [(a.label, a.status) for a in found.entities] == [("Google", "known")]
    assert found.entity_counts == AnswerCounts(known=1, predicted=0, less_likely=1)  # 0.05; 0.0005 is not counted
    assert degrees_of(reasoner, "uses value Search", 0.05) == {"Google": (1.0, "known"), "Toronto": (0.05, "predicted")}
    assert degrees_of(reasoner, "uses value Search", 0.0) == degrees_of(reasoner, "uses value Search", 0.05)
    none = reasoner.answer("worksAt value MIT", min_degree=0.61)
    assert (none.entities, none.concepts) == ([], [])
    assert none.entity_counts == AnswerCounts(0, 0, 1)
    assert none.concept_counts == AnswerCounts(0, 0, 2)  # Person and Agent
    assert none.to_json()["counts"] == {
        "entities": 0,
        "concepts": 0,
        "known": {"entities": 0, "concepts": 0},
        "predicted": {"entities": 0, "concepts": 0},
        "less_likely": {"entities": 1, "concepts": 2},
    }


@pytest.mark.parametrize("wrong", [-0.1, 1.5, float("nan")])
def test_a_least_degree_that_is_none(reasoner: Reasoner, wrong: float) -> None:
    with pytest.raises(QueryError, match=r"^min_degree = \S+: it must lie between 0 and 1$"):
        reasoner.answer("Person", min_degree=wrong)
    with pytest.raises(QueryError, match="min_degree"):
        reasoner.members("Person", min_degree=wrong)


def test_a_negative_number_of_answers(reasoner: Reasoner) -> None:
    for answerer in (reasoner, reasoner.kb):
        with pytest.raises(QueryError, match=r"^k = -1: it must be 0 or more, or None for all answers$"):
            answerer.answer("Person", -1)


@pytest.mark.parametrize("text", TEXTS)
@pytest.mark.parametrize("independent", [False, True])
@pytest.mark.parametrize("least", [0.0, MIN_DEGREE, 0.5])
def test_answers_are_what_the_model_says(
    facts: Facts, kb: KnowledgeBase, text: str, independent: bool, least: float
) -> None:
    model = SmallPredictor(facts, independent)
    answers = Reasoner(kb, model, "small").answer(text, None, min_degree=least)
    exact = kb.answer(text)
    shape, ids = encode(kb.parse(text), facts.vocabulary)
    for level, listed, facts_say, counts, things in (
        (Level.ENTITY, answers.entities, exact.entities, answers.entity_counts, kb.entities),
        (Level.CONCEPT, answers.concepts, exact.concepts, answers.concept_counts, kb.concepts),
    ):
        degrees = {things.at(row).iri: degree for row, degree in enumerate(model.score(shape, ids[None], level)[0])}
        known = {a.iri for a in facts_say}
        open_ = {iri: degree for iri, degree in degrees.items() if iri not in known and degree >= COUNTED}
        likely = {iri for iri, degree in open_.items() if degree >= least}
        assert {a.iri for a in listed if a.status == "known"} == known
        assert {a.iri for a in listed if a.status == "predicted"} == likely
        assert all(a.degree == pytest.approx(degrees[a.iri]) for a in listed)
        assert counts == AnswerCounts(len(known), len(likely), len(open_) - len(likely))
        statuses = [a.status for a in listed]
        assert statuses == sorted(statuses)  # the known first
    assert {a.iri: a.coverage for a in answers.concepts if a.status == "known"} == {
        a.iri: a.coverage for a in exact.concepts
    }
    assert (answers.entity_count, answers.concept_count) == (len(answers.entities), len(answers.concepts))
    if "not" not in text:
        assert all(a.degree == 1 for a in (*answers.entities, *answers.concepts) if a.status == "known")


@pytest.mark.parametrize("text", TEXTS)
@pytest.mark.parametrize("k", [0, 1, 2])
def test_known_and_predicted_answers_have_k_places_each(reasoner: Reasoner, text: str, k: int) -> None:
    whole, some = reasoner.answer(text, None), reasoner.answer(text, k)
    for every, first in ((whole.entities, some.entities), (whole.concepts, some.concepts)):
        for status in ("known", "predicted"):
            wanted = [a for a in every if a.status == status][:k]
            assert [a for a in first if a.status == status] == wanted
    assert (some.entity_counts, some.concept_counts) == (whole.entity_counts, whole.concept_counts)


def test_both_levels_from_one_call(reasoner: Reasoner, predictor: SmallPredictor) -> None:
    reasoner.answer(FIGURE_1)
    assert predictor.asked == [1]


@pytest.mark.parametrize("text", TEXTS)
def test_no_concept_is_above_a_super_concept(reasoner: Reasoner, kb: KnowledgeBase, text: str) -> None:
    found = {a.iri: a for a in reasoner.answer(text, None).concepts}
    for sub, over in zip(*kb.index.instances.hierarchy.ancestors.coordinates(), strict=True):
        low, high = (found.get(kb.concepts.at(int(row)).iri) for row in (sub, over))
        assert low is None or (high is not None and low.degree <= high.degree)


def test_a_model_that_only_scores_has_no_threshold(kb: KnowledgeBase) -> None:
    counting = Reasoner(kb, Counting.from_facts(kb.facts), "counting")
    found = [counting.answer("worksAt value MIT", 3, min_degree=least) for least in (0.0, 0.9)]
    assert found[0] == found[1]
    assert [a.status for a in found[0].entities] == ["predicted"] * 3
    assert found[0].entity_counts == AnswerCounts(0, len(kb.entities), 0)  # it ranks every candidate


def test_a_batch_equals_its_rows(reasoner: Reasoner) -> None:
    together = reasoner.answer_many(TEXTS, k=4)
    assert [found.query for found in together] == list(TEXTS)
    for text, found in zip(TEXTS, together, strict=True):
        alone = reasoner.answer(text, 4)
        assert (found.entities, found.concepts) == (alone.entities, alone.concepts)
    tree = reasoner.kb.parse(FIGURE_1)
    asked: list[Question | str | Query] = [Question(tree, 4), tree, FIGURE_1]
    assert [found.concepts for found in reasoner.answer_many(asked, 4)] == [reasoner.answer(FIGURE_1, 4).concepts] * 3
    assert reasoner.answer_many([]) == []


def test_coverage_counts_answers_by_their_degrees(reasoner: Reasoner) -> None:
    found = {a.label: a for a in reasoner.answer("interestedIn value Search", None).concepts}
    assert found["University"].status == "known"
    assert found["University"].coverage == 1.0  # the one known answer is MIT
    found = {a.label: a for a in reasoner.answer("worksAt value MIT", None).concepts}
    assert {a.status for a in found.values()} == {"predicted"}
    assert found["Person"].coverage == pytest.approx(1.0)  # of 0.6 answers 0.6 are persons
    assert found["Person"].degree == pytest.approx(0.6, abs=1e-4)


def test_members_of_a_concept_by_degree(reasoner: Reasoner) -> None:
    found = [(a.label, round(a.degree, 3), a.status) for a in reasoner.members("Organisation")]
    assert found == [
        ("Google", 1.0, "known"),
        ("MIT", 1.0, "known"),
        ("Toronto", 1.0, "known"),
        ("Canada", 0.7, "predicted"),
    ]
    assert [a.label for a in reasoner.members("University", 1)] == ["MIT", "Google"]  # one of each
    assert [a.label for a in reasoner.members("University", min_degree=0.3)] == ["MIT", "Toronto"]


def test_orders_of_concepts(reasoner: Reasoner, kb: KnowledgeBase) -> None:
    text = "not University"
    by = {order: reasoner.answer(text, None, order=order).concepts for order in Order}
    for order, listed in by.items():
        assert {a.iri for a in listed} == {a.iri for a in by[Order.DESCRIPTIVE]}
        statuses = [a.status for a in listed]
        assert statuses == sorted(statuses), order  # known before predicted
    for status in ("known", "predicted"):
        described = [a.score for a in by[Order.DESCRIPTIVE] if a.status == status]
        assert described == sorted(described, reverse=True)
        probable = [a.degree for a in by[Order.PROBABILITY] if a.status == status]
        assert probable == sorted(probable, reverse=True)
    exact = [a.label for a in kb.answer("interestedIn value Search", order="similarity").concepts]
    assert exact == ["University", "Organisation", "Agent"]  # the fewer others a concept has, the more alike
    counting = Reasoner(kb, Counting.from_facts(kb.facts), "counting").answer(text, None, order="similarity")
    assert {a.status for a in counting.concepts} == {"known", "predicted"}
    with pytest.raises(QueryError, match="order = 'best': choose one of descriptive, probability, similarity"):
        reasoner.answer(text, order="best")


def test_similarity_is_the_paper_s(reasoner: Reasoner, predictor: SmallPredictor, facts: Facts) -> None:
    typings = predictor.probabilities.concepts
    dense = np.zeros((len(facts.vocabulary.concepts), len(facts.vocabulary.entities)), np.float32)
    rows = np.repeat(np.arange(dense.shape[1]), typings.sizes())
    dense[typings.columns, rows] = typings.values
    for text in TEXTS:
        shape, ids = encode(reasoner.kb.parse(text), facts.vocabulary)
        degrees = predictor.predict(shape, ids[None]).entities[0]
        wanted = reference(torch.from_numpy(dense).double(), torch.from_numpy(degrees[None]).double(), 1, 1e-12)[0]
        found = fuzzy_similarity(degrees, typings, dense.sum(1, dtype=np.float64))
        np.testing.assert_allclose(found, wanted.numpy(), atol=1e-4)
    crisp = (dense >= 1).astype(np.float64)
    answers = np.zeros(dense.shape[1])
    answers[[1, 3, 7]] = 1
    wanted = reference(torch.from_numpy(crisp), torch.from_numpy(answers[None]), 1, 1e-12)[0]
    found = crisp_similarity((crisp @ answers).astype(np.int32), 3, crisp.sum(1).astype(np.int64))
    np.testing.assert_allclose(found, wanted.numpy(), atol=1e-9)


def test_the_best_are_those_of_a_sort() -> None:
    random = np.random.default_rng(0)
    for _ in range(50):
        keys = random.integers(0, 5, 30).astype(np.float64)
        places = np.flatnonzero(random.random(30) < 0.7)
        for count in (0, 1, 4, len(places), 40):
            wanted = places[np.argsort(-keys[places], kind="stable")][:count]
            assert best(places, keys, count).tolist() == wanted.tolist()


@pytest.mark.parametrize(
    ("source", "said"),
    [
        ({"kind": "store"}, "all facts"),
        (
            {"kind": "benchmark", "held_out": 12_345},
            "the training split of a benchmark: 12,345 facts were held out",
        ),
        ({"kind": "benchmark"}, "the training split of a benchmark"),
    ],
)
def test_a_run_says_what_it_was_trained_on(facts: Facts, tmp_path: Path, source: dict[str, object], said: str) -> None:
    from safetensors.numpy import save_file

    from tarbox.kb.store import open_store
    from tarbox.kb.writing import write_store

    run = tmp_path / "academia" / "run"
    run.mkdir(parents=True)
    write_store(run / "store", facts)
    (run / "config.toml").write_text('[model]\nname = "counting"\n')
    save_file({}, run / "model.safetensors")
    description = {
        "format": "tarbox-run",
        "version": 2,
        "model": "counting",
        "vocabulary_hash": open_store(run / "store").vocabulary_hash,
        "content_hash": open_store(run / "store").manifest["content_hash"],
        "source": {"relative": "../bench", "absolute": str(tmp_path / "academia" / "bench"), **source},
    }
    (run / "run.json").write_text(json.dumps(description))
    opened = open_answerer(run)
    assert (opened.kb.title, opened.model, opened.trained_on) == ("academia", "counting", said)
    assert trained_on(description) == said
    found = opened.answer_many([Question(opened.kb.parse("worksAt value MIT"), 3)])[0]
    assert found.to_json()["trained_on"] == said
    (run / "run.json").write_text(json.dumps({**description, "title": "my facts"}))
    assert Reasoner.load(run).kb.title == "my facts"
