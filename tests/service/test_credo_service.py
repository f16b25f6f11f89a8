"""A reasoner that believes: probabilities, orders of concepts, explanations with predicted facts."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace

import httpx
import numpy as np
import pytest
import torch
import typer
from typer.testing import CliRunner, Result

from tarbox.cli.ask import ask
from tarbox.core.errors import QueryError
from tarbox.core.ids import Level, Role
from tarbox.execution.exact import answer_rows
from tarbox.execution.rows import encode
from tarbox.http.app import create_app
from tarbox.kb.facts import Facts
from tarbox.models.calibration import Calibrator
from tarbox.models.counting import Counting
from tarbox.models.credo import Credo
from tarbox.models.describing import FEATURES
from tarbox.models.divergence import reference
from tarbox.models.saved import sizes_of
from tarbox.models.scorer import Predictor
from tarbox.models.tar import Tar
from tarbox.models.tempering import BASIS, SURVEYED, Temper
from tarbox.query.algebra import Query
from tarbox.service.answering import Question, open_answerer
from tarbox.service.explanations import Support
from tarbox.service.judging import LEAST, best
from tarbox.service.knowledge_base import KnowledgeBase
from tarbox.service.ordering import Order, crisp_similarity, fuzzy_similarity
from tarbox.service.reasoner import Reasoner

FIGURE_1 = "interestedIn some ((inverse investigates value GeoffreyHinton) and (inverse uses value Google))"
TEXTS = (
    "worksAt value MIT",
    "worksAt some (locatedIn value Canada)",
    "interestedIn value Search",
    FIGURE_1,
    "Organisation",
    "not University",
    "Person and not (worksAt value Toronto)",
    "(worksAt value MIT) or (worksAt value Toronto)",
    "owl:Thing",
)


@pytest.fixture
def credo(facts: Facts) -> Credo:
    return predict(facts)


@pytest.fixture
def reasoner(kb: KnowledgeBase, credo: Credo) -> Reasoner:
    return Reasoner(kb, credo, "credo")


def degrees_of(reasoner: Reasoner, text: str) -> dict[str, tuple[float, str]]:
    return {a.label: (round(a.degree, 3), a.status) for a in reasoner.answer(text, None).entities}


def test_which_models_believe(facts: Facts, credo: Credo) -> None:
    assert isinstance(credo, Predictor)
    assert not isinstance(Counting.from_facts(facts), Predictor)
    assert not isinstance(Tar(Tar.Config(dimension=4), sizes_of(facts)), Predictor)


def test_a_degree_is_the_probability_of_the_fact(reasoner: Reasoner) -> None:
    assert degrees_of(reasoner, "worksAt value MIT") == {"Yann LeCun": (0.6, "predicted")}
    assert degrees_of(reasoner, "interestedIn value Search") == {"MIT": (1.0, "known"), "Google": (0.5, "predicted")}
    assert degrees_of(reasoner, "uses value Search") == {"Google": (1.0, "known")}  # 0.0005 is below the least degree


def test_degrees_compose_through_the_query(reasoner: Reasoner) -> None:
    found = degrees_of(reasoner, "worksAt some (locatedIn value Canada)")
    assert found == {"GeoffreyHinton": (1.0, "known"), "Yann LeCun": (0.3, "predicted")}  # max(0.6 * 0.25, 0.3)
    either = degrees_of(reasoner, "(worksAt value MIT) or (worksAt value Toronto)")
    assert either["Yann LeCun"] == (pytest.approx(1 - 0.4 * 0.7), "predicted")


@pytest.mark.parametrize("text", TEXTS)
@pytest.mark.parametrize("ways", ["strongest", "independent"])
def test_answers_are_what_the_model_says(facts: Facts, kb: KnowledgeBase, text: str, ways: str) -> None:
    credo = predict(facts, ways=ways)
    answers = Reasoner(kb, credo, "credo").answer(text, None)
    shape, ids = encode(kb.parse(text), facts.vocabulary)
    for level, listed, things in (
        (Level.ENTITY, answers.entities, kb.entities),
        (Level.CONCEPT, answers.concepts, kb.concepts),
    ):
        degrees = credo.degrees(shape, ids[None], level)[0]
        assert {a.iri: pytest.approx(a.degree, abs=1e-6) for a in listed} == {
            things.at(row).iri: degree for row, degree in enumerate(degrees.tolist()) if degree >= LEAST
        }
    exact = kb.answer(text)
    assert {a.iri for a in answers.entities if a.status == "known"} == {a.iri for a in exact.entities}
    assert {a.iri: a.coverage for a in answers.concepts if a.status == "known"} == {
        a.iri: a.coverage for a in exact.concepts
    }
    assert (answers.entity_count, answers.concept_count) == (len(answers.entities), len(answers.concepts))


def test_both_levels_from_one_evaluation(credo: Credo, kb: KnowledgeBase, monkeypatch: pytest.MonkeyPatch) -> None:
    calls = {"fuzzy": 0, "exact": 0}

    def counted(name: str, call: Callable[..., object]) -> Callable[..., object]:
        def counting(*arguments: object) -> object:
            calls[name] += 1
            return call(*arguments)

        return counting

    monkeypatch.setattr(Credo, "fuzzy_sets", counted("fuzzy", Credo.fuzzy_sets))
    monkeypatch.setattr("tarbox.models.credo.answer_rows", counted("exact", answer_rows))
    Reasoner(kb, credo, "credo").answer(FIGURE_1)
    assert calls == {"fuzzy": 1, "exact": 1}


@pytest.mark.parametrize("seed", range(4))
def test_no_concept_is_above_a_super_concept(facts: Facts, kb: KnowledgeBase, seed: int) -> None:
    random = np.random.default_rng(seed)
    layers = tuple(random.normal(size=shape).astype(np.float32) for shape in ((1, FEATURES), (1,)))
    ranking = Calibrator(np.zeros(FEATURES, np.float32), np.full(FEATURES, 5.0, np.float32), layers)
    reasoner = Reasoner(kb, predict(facts, ranking), "credo")
    above = list(zip(*kb.index.instances.hierarchy.ancestors.coordinates(), strict=True))
    for text in TEXTS:
        found = {a.iri: a for a in reasoner.answer(text, None).concepts}
        for sub, over in above:
            low, high = (found.get(kb.concepts.at(int(row)).iri) for row in (sub, over))
            assert low is None or (high is not None and low.degree <= high.degree)


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


def test_counts_say_how_many_there_are(reasoner: Reasoner) -> None:
    whole = reasoner.answer("not University", None)
    some = reasoner.answer("not University", 2)
    assert len(some.entities) == len(some.concepts) == 2
    assert some.entity_count == whole.entity_count == len(whole.entities) > 2
    assert some.concept_count == whole.concept_count > 2


def test_coverage_counts_answers_by_their_degrees(reasoner: Reasoner) -> None:
    found = {a.label: a for a in reasoner.answer("interestedIn value Search", None).concepts}
    assert found["University"].status == "known"
    assert found["University"].coverage == 1.0  # the one known answer is MIT
    found = {a.label: a for a in reasoner.answer("worksAt value MIT", None).concepts}
    assert {a.status for a in found.values()} == {"predicted"}
    assert found["Person"].coverage == pytest.approx(1.0)  # of 0.6 answers 0.6 are persons
    assert found["Person"].degree == pytest.approx(0.6, abs=1e-4)


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


def test_similarity_is_the_paper_s(reasoner: Reasoner, credo: Credo, facts: Facts) -> None:
    typings = credo.probabilities.concepts
    dense = np.zeros((len(facts.vocabulary.concepts), len(facts.vocabulary.entities)), np.float32)
    rows = np.repeat(np.arange(dense.shape[1]), np.diff(typings.offsets))
    dense[typings.columns, rows] = typings.degrees
    for text in TEXTS:
        shape, ids = encode(reasoner.kb.parse(text), facts.vocabulary)
        degrees = credo.predict(shape, ids[None]).entities[0]
        wanted = reference(torch.from_numpy(dense).double(), torch.from_numpy(degrees[None]).double(), 1, 1e-12)[0]
        found = fuzzy_similarity(degrees, typings, dense.sum(1, dtype=np.float64))
        np.testing.assert_allclose(found, wanted.numpy(), atol=1e-4)
    crisp = (dense >= 1).astype(np.float64)
    answers = np.zeros(dense.shape[1])
    answers[[1, 3, 7]] = 1
    wanted = reference(torch.from_numpy(crisp), torch.from_numpy(answers[None]), 1, 1e-12)[0]
    found = crisp_similarity((crisp @ answers).astype(np.int32), 3, crisp.sum(1).astype(np.int64))
    np.testing.assert_allclose(found, wanted.numpy(), atol=1e-9)


def test_members_of_a_concept_by_degree(reasoner: Reasoner) -> None:
    found = [(a.label, round(a.degree, 3), a.status) for a in reasoner.members("Organisation")]
    assert found == [
        ("Google", 1.0, "known"),
        ("MIT", 1.0, "known"),
        ("Toronto", 1.0, "known"),
        ("Canada", 0.7, "predicted"),
    ]
    assert [a.label for a in reasoner.members("University", 3)] == ["MIT", "Toronto", "Google"]


def explained(reasoner: Reasoner, text: str, answer: str, role: Role = Role.ENTITY) -> Support:
    return reasoner.explain(reasoner.kb.parse(text), answer, role)


def test_believed_facts_carry_a_prediction(reasoner: Reasoner) -> None:
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
                assert all(degree is not None and LEAST <= degree < 1 for degree in predicted)


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
        ("uses value Search", "Canada", Role.ENTITY),  # 0.0005 is below the least degree
        ("worksAt value MIT", "Technique", Role.CONCEPT),
    ],
)
def test_what_is_no_answer_has_no_explanation(reasoner: Reasoner, text: str, answer: str, role: Role) -> None:
    with pytest.raises(QueryError, match=rf"^{answer} is no answer to this query: .* probability is below 0\.01"):
        explained(reasoner, text, answer, role)


ONE_FACT = [("worksAt value MIT", "YannLeCun"), ("inverse worksAt value YannLeCun", "MIT"), ("Organisation", "Canada")]


@pytest.mark.parametrize(("text", "answer"), ONE_FACT)
def test_a_fact_is_as_likely_as_the_answer_that_it_makes(credo: Credo, text: str, answer: str) -> None:
    """Also where degrees are tempered: here all are bent by one function, and lowered."""
    layers = np.zeros((BASIS + 1, SURVEYED), np.float32), np.float32([0, 0, 0, -2])
    temper = Temper(Calibrator(np.zeros(SURVEYED, np.float32), np.ones(SURVEYED, np.float32), layers))
    bent = Reasoner(KnowledgeBase(credo.index.facts), replace(credo, tempers={Level.ENTITY: temper}), "credo")
    said = {a.iri: a.degree for a in bent.answer(text, None).entities}[bent.kb.entities[answer].iri]
    told = explained(bent, text, answer)
    assert [edge.degree for edge in told.edges] == [said]
    assert said < 0.6
    assert told.sentence.count(f"{said:.2f}") == 2


def test_the_best_are_those_of_a_sort() -> None:
    random = np.random.default_rng(0)
    for _ in range(50):
        keys = random.integers(0, 5, 30).astype(np.float64)
        places = np.flatnonzero(random.random(30) < 0.7)
        for count in (0, 1, 4, len(places), 40):
            wanted = places[np.argsort(-keys[places], kind="stable")][:count]
            assert best(places, keys, count).tolist() == wanted.tolist()


@pytest.fixture
def asked(reasoner: Reasoner, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Result]:
    monkeypatch.setattr("tarbox.cli.ask._open_reasoner", lambda _: reasoner)
    app = typer.Typer()
    app.command()(ask)
    return lambda *arguments: CliRunner().invoke(app, ["RUN", *arguments], env={"COLUMNS": "200"})


def test_ask_shows_orders_and_reasons(asked: Callable[..., Result]) -> None:
    shown = asked("worksAt value MIT", "--explain").stdout
    assert "Yann LeCun is predicted\n└── Yann LeCun works at MIT (predicted, 0.60)" in shown
    assert "Person is predicted" in shown
    content = json.loads(asked("worksAt value MIT", "--explain", "--json", "--order", "similarity").stdout)
    assert content["entities"][0]["degree"] == pytest.approx(0.6)
    assert all("predicted" in sentence or "may describe" in sentence for sentence in content["predictions"].values())
    wrong = asked("worksAt value MIT", "--order", "best")
    assert wrong.exit_code == 2
    assert "descriptive, probability, similarity" in " ".join(wrong.stderr.split())


def test_over_http(reasoner: Reasoner) -> None:
    import asyncio

    async def get(path: str, **parameters: str) -> httpx.Response:
        transport = httpx.ASGITransport(app=create_app(reasoner))
        async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as client:
            return await client.get(path, params=parameters)

    def fetch(path: str, **parameters: str) -> httpx.Response:
        return asyncio.run(get(path, **parameters))

    for order in Order:
        listed = fetch("/api/answer", query="not University", order=order.value, k="1000").json()["concepts"]
        wanted = reasoner.answer("not University", 1000, order=order).concepts
        assert [item["iri"] for item in listed] == [answer.iri for answer in wanted]
    assert fetch("/api/answer", query="Person", order="best").status_code == 400
    told = fetch("/api/explain", query="worksAt value MIT", answer="YannLeCun").json()
    assert told["edges"][0]["degree"] == pytest.approx(0.6)
    assert told["edges"][0]["status"] == "predicted"
    some = fetch("/api/answer", query="not University", k="2").json()
    assert some["entity_count"] > len(some["entities"]) == 2


def test_a_run_is_named_after_its_knowledge_base(facts: Facts, credo: Credo, tmp_path) -> None:  # type: ignore[no-untyped-def]
    import safetensors.numpy

    from tarbox.kb.store import open_store
    from tarbox.kb.writing import write_store

    run = tmp_path / "academia" / "run"
    run.mkdir(parents=True)
    write_store(run / "store", facts)
    safetensors.numpy.save_file(credo.arrays(), run / "model.safetensors")
    (run / "config.toml").write_text('[model]\nname = "credo"\n')
    description = {
        "format": "tarbox-run",
        "version": 1,
        "model": "credo",
        "vocabulary_hash": open_store(run / "store").vocabulary_hash,
        "benchmark": {"relative": "../bench", "absolute": str(tmp_path / "academia" / "bench")},
    }
    (run / "run.json").write_text(json.dumps(description))
    opened = open_answerer(run)
    assert (opened.kb.title, opened.model) == ("academia", "credo")
    assert opened.answer_many([Question(opened.kb.parse("worksAt value MIT"), 3)])[0].entities[0].label == "Yann LeCun"
    (run / "run.json").write_text(json.dumps({**description, "title": "my facts"}))
    assert Reasoner.load(run).kb.title == "my facts"
