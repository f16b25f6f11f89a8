"""A run is served as a store is: known and predicted answers over the same routes."""

from __future__ import annotations

from collections.abc import Iterator

import httpx
import numpy as np
import pytest

from tarbox.kb.rows import Rows, pair_keys
from tarbox.models.counting import Counting
from tarbox.service.answering import Answerer
from tarbox.service.knowledge_base import KnowledgeBase
from tarbox.service.reasoner import Reasoner

QUERY = "Person and worksAt value Google"


@pytest.fixture(scope="module")
def predicting(kb: KnowledgeBase, serve) -> Iterator[httpx.Client]:  # type: ignore[no-untyped-def]
    reasoner: Answerer = Reasoner(kb, Counting.from_facts(kb.facts), "counting")
    with serve(by=reasoner) as address, httpx.Client(base_url=address, timeout=30) as client:
        yield client


def test_known_and_predicted_answers(predicting: httpx.Client) -> None:
    assert predicting.get("/api/kb").json()["model"] == "counting"
    found = predicting.get("/api/answer", params={"query": QUERY, "k": 20}).json()
    assert {item["status"] for item in found["entities"]} == {"known", "predicted"}
    assert all(0 <= item["degree"] <= 1 for item in found["entities"] + found["concepts"])


def test_a_prediction_is_explained_as_one(predicting: httpx.Client) -> None:
    found = predicting.get("/api/answer", params={"query": QUERY, "k": 20}).json()["entities"]
    for status, phrase in (("known", "is an answer because"), ("predicted", "is predicted; it would be")):
        answer = next(item for item in found if item["status"] == status)
        told = predicting.get("/api/explain", params={"query": QUERY, "answer": answer["iri"]}).json()
        assert phrase in told["sentence"]
        assert ("predicted" in {edge["status"] for edge in told["edges"]}) == (status == "predicted")


def test_steps_say_what_is_known_without_probabilities(predicting: httpx.Client) -> None:
    told = predicting.get("/api/explain", params={"query": QUERY, "answer": "AlanTuring"}).json()
    assert told["steps"] == [
        "Alan Turing is an Academic person (known)",
        "every Academic person is a Person (known)",
        "Alan Turing works at Google (predicted)",
    ]
    assert [edge["degree"] for edge in told["edges"]] == [1.0, 1.0, None]
    assert told["sentence"] == (
        "Alan Turing is predicted; it would be an answer if Alan Turing is an Academic person (known) and Alan Turing "
        "works at Google (predicted)."
    )


def test_known_and_predicted_have_k_places_each(predicting: httpx.Client) -> None:
    found = predicting.get("/api/answer", params={"query": QUERY, "k": 2}).json()
    assert [item["status"] for item in found["entities"]] == ["known"] * 2 + ["predicted"] * 2
    assert found["known_count"] == found["counts"]["known"]["entities"] > 2
    assert found["predicted_count"] > 2  # a model that only scores ranks every candidate
    assert found["counts"]["less_likely"] == {"entities": 0, "concepts": 0}
    assert found["entity_count"] == found["counts"]["entities"] == found["known_count"] + found["predicted_count"]
    least = predicting.get("/api/answer", params={"query": QUERY, "k": 2, "min_degree": 1}).json()
    assert least["entities"] == found["entities"]  # its degrees are no probabilities


def test_concepts_and_sparql(predicting: httpx.Client) -> None:
    content = predicting.get("/api/concepts/Professor").json()
    assert len(content["instances"]) == len(content["predicted"]) == 20
    assert not {each["iri"] for each in content["instances"]} & {each["iri"] for each in content["predicted"]}
    query = "SELECT ?x { ?x <https://tarbox.example/academia#worksAt> <https://tarbox.example/academia#Google> }"

    def statuses(**more: str) -> set[str]:
        rows = predicting.get("/sparql", params={"query": query, **more}).json()["results"]["bindings"]
        return {row["status"]["value"] if "status" in row else "fact" for row in rows}

    assert statuses() == {"fact"}
    assert statuses(predicted="true") == {"known", "predicted"}


def test_degree_and_status_are_selected_and_filtered(predicting: httpx.Client) -> None:
    pattern = "?x <https://tarbox.example/academia#worksAt> <https://tarbox.example/academia#Google>"

    def rows(text: str) -> list[tuple[str, ...]]:
        reply = predicting.get("/sparql", params={"query": text, "predicted": "true", "format": "csv"})
        assert reply.status_code == 200, reply.text
        return [tuple(line.split(",")) for line in reply.text.split()]

    every = rows(f"SELECT ?x ?degree ?status {{ {pattern} }}")
    assert every[0] == ("x", "degree", "status")
    predicted = rows(f'SELECT ?x ?status {{ {pattern} FILTER(?status = "predicted") }}')
    assert predicted == [("x", "status"), *((x, status) for x, _, status in every[1:] if status == "predicted")]
    likely = rows(f"SELECT ?degree ?x {{ {pattern} FILTER(?degree >= 0.5 && ?degree < 1) }} ORDER BY DESC(?degree) ?x")
    wanted = [(degree, x) for x, degree, _ in every[1:] if 0.5 <= float(degree) < 1]
    assert likely[0] == ("degree", "x")
    assert len(wanted) > 3
    assert likely[1:] == sorted(wanted, key=lambda row: (-float(row[0]), row[1]))
    part = rows(f"SELECT ?x ?degree {{ {pattern} }} ORDER BY ?degree ?x LIMIT 2 OFFSET 1")
    assert part[1:] == sorted(((x, degree) for x, degree, _ in every[1:]), key=lambda row: (float(row[1]), row[0]))[1:3]
    for wrong in (f"{{ {pattern} FILTER(STR(?degree) = 'x') }}", f"{{ {pattern} FILTER(?y = 1) }}"):
        refused = predicting.get("/sparql", params={"query": f"SELECT ?x {wrong}", "predicted": "true"})
        assert refused.status_code == 400


def test_predicted_classes_stand_beside_known_ones(kb: KnowledgeBase, serve) -> None:  # type: ignore[no-untyped-def]
    size, lower, upper = len(kb.concepts), kb.concepts.id("University"), kb.concepts.id("Person")
    keys = pair_keys(np.array([lower]), np.array([upper]), size)
    predicted = Rows.of_keys(keys, size, size, np.array([0.7], np.float32))
    reasoner = Reasoner(KnowledgeBase(kb.facts, predicted=predicted), Counting.from_facts(kb.facts), "counting")
    with serve(by=reasoner) as address, httpx.Client(base_url=address, timeout=30) as client:
        found = client.get("/api/concept", params={"expression": "University"}).json()
        assert [(each["label"], each["status"]) for each in found["predicted_superclasses"]] == [
            ("Person", "predicted")
        ]
        assert found["predicted_superclasses"][0]["degree"] == pytest.approx(0.7)
        above = client.get("/api/concept", params={"expression": "Person"}).json()
        assert [each["label"] for each in above["predicted_subclasses"]] == ["University"]
        assert not above["predicted_superclasses"]
