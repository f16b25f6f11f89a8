"""A question has the same answers however it is written, and none where there can be none."""

from __future__ import annotations

import asyncio

import httpx
import pytest
from predicting import SmallPredictor

from tarbox.core.ids import Role
from tarbox.http.app import create_app
from tarbox.kb.facts import Facts
from tarbox.service.knowledge_base import KnowledgeBase
from tarbox.service.reasoner import Reasoner

ASKED = "Organisation and (inverse worksAt value YannLeCun)"
WRITTEN = {
    "Organisation": ("Organisation or Organisation or Organisation", "not not Organisation", "not (not Organisation)"),
    "worksAt value MIT": ("(worksAt value MIT) and (worksAt value MIT)", "(worksAt value MIT) and not not owl:Thing"),
    "(worksAt value MIT) or (worksAt value Toronto)": (
        "not (not (worksAt value MIT) and not (worksAt value Toronto))",
        "(worksAt value MIT) or ((worksAt value Toronto) or (worksAt value MIT))",
    ),
    ASKED: (f"({ASKED}) and Organisation", f"({ASKED}) or (Organisation and ({ASKED}))"),
}


@pytest.fixture(params=["strongest", "independent"])
def reasoner(facts: Facts, kb: KnowledgeBase, request: pytest.FixtureRequest) -> Reasoner:
    return Reasoner(kb, SmallPredictor(facts, independent=request.param == "independent"), "small")


def shown(reasoner: Reasoner, text: str) -> list[list[tuple[str, float, str]]]:
    found = reasoner.answer(text, None, min_degree=0)
    return [[(a.iri, round(a.degree, 5), a.status) for a in level] for level in (found.entities, found.concepts)]


@pytest.mark.parametrize("text", WRITTEN)
def test_however_it_is_written(reasoner: Reasoner, text: str) -> None:
    plainly = shown(reasoner, text)
    assert any(degree < 1 for _, degree, _ in plainly[0])  # there is something to predict
    for other in WRITTEN[text]:
        assert shown(reasoner, other) == plainly


def test_over_http_as_well(reasoner: Reasoner) -> None:
    async def fetch(texts: tuple[str, ...]) -> list[httpx.Response]:
        transport = httpx.ASGITransport(app=create_app(reasoner))
        async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as client:
            return [await client.get("/api/answer", params={"query": text}) for text in texts]

    first, second = (reply.json() for reply in asyncio.run(fetch(("Organisation", "not not Organisation"))))
    assert first["entities"]
    assert first["entities"] == second["entities"]
    assert first["concepts"] == second["concepts"]


def test_pages_of_sparql_are_parts_of_one_list(reasoner: Reasoner) -> None:
    query = "SELECT ?x { ?x a <https://tarbox.example/academia#Organisation> }"

    async def fetch() -> list[list[str]]:
        transport = httpx.ASGITransport(app=create_app(reasoner))
        async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as client:
            pages = [f"{query} LIMIT 1 OFFSET {n}" for n in range(5)]
            texts = (query, *pages)
            replies = [await client.get("/sparql", params={"query": text, "predicted": "true"}) for text in texts]
        return [[row["x"]["value"] for row in reply.json()["results"]["bindings"]] for reply in replies]

    whole, *pages = asyncio.run(fetch())
    assert len(whole) > 3
    assert [name for page in pages for name in page] == whole


def test_why_an_answer_is_one_is_told_alike(reasoner: Reasoner) -> None:
    query, doubled = (reasoner.kb.parse(text) for text in ("Organisation", "Organisation or Organisation"))
    supports = [reasoner.explain(asked, "Canada", Role.ENTITY) for asked in (query, doubled)]
    assert supports[0] == supports[1]


@pytest.mark.parametrize("text", ["worksAt value Canada", "{Google} and {MIT}", "locatedIn value YannLeCun"])
def test_where_nothing_is_an_answer_no_concept_describes_it(reasoner: Reasoner, text: str) -> None:
    found = reasoner.answer(text, None)
    assert (found.entities, found.concepts) == ([], [])


def test_no_concept_is_likelier_than_an_answer(reasoner: Reasoner) -> None:
    for text in WRITTEN:
        found = reasoner.answer(text, None)
        most = sum(answer.degree for answer in found.entities)
        assert all(concept.degree <= most + 1e-3 for concept in found.concepts)
        assert all(0 <= concept.coverage <= 1 for concept in found.concepts)
