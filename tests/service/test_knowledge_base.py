"""Answers, look-up and tables of a small knowledge base."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from tarbox.core.errors import AmbiguousName, MissingDependency, QuerySyntaxError, UnknownName
from tarbox.core.ids import Role
from tarbox.kb.facts import Facts
from tarbox.kb.vocabulary import SYNONYMS, Names, Vocabulary
from tarbox.query.manchester import parse
from tarbox.service.explanations import explain, explain_answer
from tarbox.service.knowledge_base import KnowledgeBase

NS = "https://tarbox.example/academia#"
FIGURE_1 = "interestedIn some ((inverse investigates value GeoffreyHinton) and (inverse uses value Google))"


def test_the_paper_s_figure_1(kb: KnowledgeBase) -> None:
    answers = kb.answer(FIGURE_1)
    assert [entity.iri for entity in answers.entities] == [f"<{NS}MIT>", f"<{NS}YannLeCun>"]
    assert [entity.label for entity in answers.entities] == ["MIT", "Yann LeCun"]
    assert {entity.status for entity in answers.entities} == {"known"}
    coverage = {concept.label: concept.coverage for concept in answers.concepts}
    assert coverage == {"Agent": 1, "Person": 0.5, "Organisation": 0.5, "University": 0.5}


def test_concepts_stand_in_the_order_of_their_score(kb: KnowledgeBase) -> None:
    concepts = kb.answer(FIGURE_1).concepts
    scores = [concept.score for concept in concepts]
    assert scores == sorted(scores, reverse=True)
    assert concepts[-1].label == "Agent"  # of five typed entities in seven: covers all, tells least
    assert concepts[0].score == pytest.approx(0.5 * np.log2(7 / 2) / np.log2(7))


def test_k_limits_both_lists_and_keeps_the_counts(kb: KnowledgeBase) -> None:
    answers = kb.answer(FIGURE_1, k=1)
    assert len(answers.entities) == len(answers.concepts) == 1
    assert (answers.entity_count, answers.concept_count) == (2, 4)


def test_many_are_answered_as_each(kb: KnowledgeBase) -> None:
    texts = [FIGURE_1, "inverse uses value Google", "inverse uses value MIT", "not Agent", FIGURE_1, "{MIT}"]
    for k in (None, 1):
        for text, found in zip(texts, kb.answer_many(texts, k), strict=True):
            assert found.to_json() == kb.answer(text, k).to_json()
    trees = kb.answer_many([parse(f"inverse <{NS}uses> value <{NS}Google>")])
    assert [entity.label for entity in trees[0].entities] == ["NeuralNetworks", "Search"]
    assert kb.answer_many([]) == []
    sparql = kb.answer_many([f"SELECT ?x {{ <{NS}Google> <{NS}uses> ?x }}"], sparql=True)
    assert list(sparql[0].entities) == list(trees[0].entities)
    with pytest.raises(QuerySyntaxError):
        kb.answer_many(["Person", "Persn"])


def test_threads_ask_one_knowledge_base(facts: Facts) -> None:
    texts = [FIGURE_1, "Agent", "not Agent"] * 5
    expected = [answers.to_json() for answers in KnowledgeBase(facts, "academia").answer_many(texts)]
    fresh = KnowledgeBase(facts, "academia")  # nothing is built yet: all threads build at once
    with ThreadPoolExecutor(8) as pool:
        for found in pool.map(lambda _: fresh.answer_many(texts), range(16)):
            assert [answers.to_json() for answers in found] == expected


def test_data_frames_need_pandas(kb: KnowledgeBase, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tarbox.service.answers.find_spec", lambda _: None)
    with pytest.raises(MissingDependency, match="pandas"):
        kb.answer(FIGURE_1).to_pandas()


def test_trees_and_sparql_are_answered_too(kb: KnowledgeBase) -> None:
    text = f"inverse <{NS}uses> value <{NS}Google>"
    sparql = f"SELECT ?x {{ <{NS}Google> <{NS}uses> ?x }}"
    expected = list(kb.answer(text).entities)
    assert [entity.label for entity in expected] == ["NeuralNetworks", "Search"]
    assert list(kb.answer(parse(text)).entities) == expected
    assert list(kb.answer(sparql, sparql=True).entities) == expected


def test_not_is_closed_world_and_thing_is_everything(kb: KnowledgeBase) -> None:
    assert [e.label for e in kb.answer("not Agent").entities] == ["Canada", "NeuralNetworks", "Search"]
    assert kb.answer("owl:Thing").entity_count == 8
    assert [e.label for e in kb.answer("uses some owl:Thing").entities] == ["Google"]


def test_an_empty_answer(kb: KnowledgeBase) -> None:
    answers = kb.answer("Person and University")
    assert list(answers.entities) == []
    assert list(answers.concepts) == []


def test_json_follows_the_contract(kb: KnowledgeBase) -> None:
    content = json.loads(json.dumps(kb.answer(FIGURE_1).to_json()))
    assert content["query"] == FIGURE_1
    assert set(content["entities"][0]) == {"iri", "label", "name", "degree", "status"}
    assert set(content["concepts"][0]) == {"iri", "label", "name", "degree", "status", "coverage", "specificity"}
    frame = kb.answer(FIGURE_1).to_pandas()
    assert frame["level"].tolist() == ["entity"] * 2 + ["concept"] * 4


def test_answers_are_a_sequence(kb: KnowledgeBase) -> None:
    entities = kb.answer("not Agent").entities
    assert entities[-1].label == "Search"
    assert [e.label for e in entities[1:]] == ["NeuralNetworks", "Search"]
    assert "..." not in repr(entities)
    with pytest.raises(IndexError):
        entities[3]


def test_an_error_names_the_knowledge_base(kb: KnowledgeBase) -> None:
    with pytest.raises(QuerySyntaxError, match=r"no entity 'Gogle' in academia\. Did you mean 'Google'"):
        kb.answer("worksAt value Gogle")


def test_collections(kb: KnowledgeBase) -> None:
    assert (len(kb.entities), len(kb.concepts), len(kb.relations)) == (8, 5, 5)
    assert [thing.label for thing in kb.relations][:2] == ["interestedIn", "investigates"]
    for name in (f"<{NS}YannLeCun>", NS + "YannLeCun", "Yann LeCun", "YannLeCun", "yann lecun"):
        assert kb.entities[name].iri == f"<{NS}YannLeCun>"
    assert "Google" in kb.entities
    assert "Gogle" not in kb.entities
    with pytest.raises(UnknownName, match="Did you mean 'Google'"):
        kb.entities["Gogle"]
    assert [found.label for found in kb.search("neur")] == ["NeuralNetworks"]
    assert [thing.label for thing in kb.concepts_of("Toronto")] == ["Agent", "Organisation", "University"]
    assert [thing.label for thing in kb.members("Organisation")] == ["Google", "MIT", "Toronto"]


def test_facts_with_names(kb: KnowledgeBase) -> None:
    about = [(h.label, r.label, t.label) for h, r, t in kb.assertions("Toronto")]
    assert about == [("GeoffreyHinton", "worksAt", "Toronto"), ("Toronto", "locatedIn", "Canada")]
    assert len(list(kb.assertions())) == 8
    tables = kb.to_arrow()
    assert tables["typings"].to_pylist()[0] == {
        "entity": f"<{NS}GeoffreyHinton>",
        "concept": f"<{NS}Person>",
        "entity_label": "GeoffreyHinton",
        "concept_label": "Person",
    }
    assert {name: table.num_rows for name, table in tables.items()} == {
        "assertions": 8,
        "typings": 7,
        "subsumptions": 3,
    }
    assert list(kb.to_pandas()["assertions"].columns)[:3] == ["head", "relation", "tail"]


def test_a_described_set(kb: KnowledgeBase) -> None:
    answers = kb.describe_set(["MIT", f"<{NS}Toronto>", "MIT"])
    first = answers.concepts[0]
    assert (first.label, first.coverage) == ("University", 1.0)
    assert first.p_value == pytest.approx(1 / 21)  # both universities, of 7 typed entities
    assert first.q_value == pytest.approx(5 / 21)  # five concepts have instances
    assert [concept.label for concept in answers.concepts] == ["University", "Organisation", "Agent"]
    assert answers.to_json()["correction"] == "Benjamini-Hochberg"
    with pytest.raises(UnknownName):
        kb.describe_set(["Mitt Romney"])


def test_a_name_of_two_things_is_ambiguous() -> None:
    kb = KnowledgeBase(Facts.of(Vocabulary.of(["http://a.org/x", "http://b.org/x"])))
    with pytest.raises(AmbiguousName):
        kb.entities["x"]


@pytest.mark.parametrize("label", ["Seizure", "DNA repair", "Alzheimer's disease", "back\\slash", "and"])
def test_a_name_that_is_given_is_understood(label: str) -> None:
    iri = "urn:Q1"  # a mere number: the label is its name
    kb = KnowledgeBase(Facts.of(Vocabulary(*(Names.of(role, [iri], [label]) for role in Role), SYNONYMS.empty_table())))
    for role in Role:
        name = kb.resolver.write(role, iri)
        assert name.startswith("'")
        assert name in kb.things(role)
        assert kb.things(role)[name].label == label


def test_english_drawing_and_text(kb: KnowledgeBase) -> None:
    assert kb.describe("inverse uses value Google") == "everything that Google uses"
    assert "<desc>everything that Google uses</desc>" in kb.draw("inverse uses value Google")
    assert kb.render(kb.parse(FIGURE_1)) == FIGURE_1


def test_an_explanation_has_the_members_of_every_part(kb: KnowledgeBase) -> None:
    told = explain(kb.parse(FIGURE_1), kb)
    assert (told.count, told.members) == (2, ("MIT", "Yann LeCun"))
    both = told.parts[0]
    assert (both.count, both.members) == (1, ("NeuralNetworks",))
    assert [part.members for part in both.parts] == [("NeuralNetworks",), ("NeuralNetworks", "Search")]
    assert both.parts[1].query == "inverse uses value Google"


def test_ranges_of_literals_counts_and_their_reasons() -> None:
    xsd = "http://www.w3.org/2001/XMLSchema#"
    years = [f'"{year}"^^<{xsd}gYear>' for year in (1985, 1990, 1999)]
    vocabulary = Vocabulary.of([*years, "urn:ann", "urn:bob", "urn:cy"], ["urn:Person"], ["urn:born", "urn:knows"])
    ann, bob, cy = (vocabulary.entities.find(f"urn:{name}") for name in ("ann", "bob", "cy"))
    assert ann is not None
    assert bob is not None
    assert cy is not None
    links = [(ann, 0, 0), (bob, 0, 1), (cy, 0, 2), (ann, 1, bob), (ann, 1, cy), (bob, 1, bob)]
    kb = KnowledgeBase(Facts.of(vocabulary, links, [(ann, 0), (bob, 0)]))

    def labels(text: str) -> list[str]:
        return [answer.label for answer in kb.answer(text).entities]

    assert labels("born some gYear[>= 1990]") == ["bob", "cy"]
    assert labels("born some xsd:gYear[>= 1990, < 1999]") == ["bob"]
    assert labels("born value 1990") == ["bob"]
    assert labels("knows min 2") == ["ann"]
    assert labels("knows Self") == ["bob"]
    assert labels("Person and knows only Person") == ["bob"]
    assert labels("inverse knows exactly 2") == ["bob"]
    why = explain_answer(kb.parse("knows min 2 (born some gYear[>= 1990])"), kb, "ann", Role.ENTITY)
    assert why.steps == ("ann knows bob", "ann knows cy", "bob has 1990 as born", "cy has 1999 as born")
    assert explain_answer(kb.parse("knows Self"), kb, "bob", Role.ENTITY).steps == ("bob knows bob",)
