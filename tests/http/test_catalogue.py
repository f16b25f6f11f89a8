"""Search, cards and lists: the routes that a page explores a knowledge base with, on academia."""

from __future__ import annotations

from urllib.parse import quote

import httpx
import numpy as np
import pytest

from tarbox.core.ids import Role
from tarbox.service.knowledge_base import KnowledgeBase

NS = "https://tarbox.example/academia#"


def get(client: httpx.Client, route: str, name: str = "", **params: object) -> dict:  # type: ignore[type-arg]
    reply = client.get(f"/api/{route}" + (f"/{quote(name, safe='')}" if name else ""), params=params)  # type: ignore[arg-type]
    assert reply.status_code == 200, reply.text
    return reply.json()  # type: ignore[no-any-return]


@pytest.mark.parametrize(
    ("text", "role", "label"),
    [
        ("Hinton", "entity", "Geoffrey Hinton"),
        ("hinton geoff", "entity", "Geoffrey Hinton"),
        ("Juergen", "entity", "Jürgen Schmidhuber"),
        ("jurgen schmid", "entity", "Jürgen Schmidhuber"),
        ("JÜRGEN", "entity", "Jürgen Schmidhuber"),
        ("Geofrey Hintn", "entity", "Geoffrey Hinton"),
        ("turing award laur", "concept", "Turing Award laureate"),
        ("works a", "relation", "works at"),
        (NS + "Google", "entity", "Google"),
        (f"<{NS}Google>", "entity", "Google"),
        ("academia:Google", "entity", "Google"),
    ],
)
def test_search_finds_all_kinds_of_things(client: httpx.Client, text: str, role: str, label: str) -> None:
    best = get(client, "search", q=text)["results"][0]
    assert (best["role"], best["label"]) == (role, label)
    assert best["count"] > 0


def test_search_ranks_by_fit_then_by_use(client: httpx.Client, kb: KnowledgeBase) -> None:
    found = get(client, "search", q="uni", limit=50)["results"]
    starts = [item["matched"].lower().startswith("uni") for item in found]
    assert starts == sorted(starts, reverse=True)
    assert any(starts)
    counts = [item["count"] for item in found if item["matched"] == item["label"] and item["label"].startswith("Uni")]
    assert counts == sorted(counts, reverse=True)
    assert get(client, "search", q="uni", limit=3)["results"] == found[:3]
    only = get(client, "search", q="uni", role="concept")["results"]
    assert {item["role"] for item in only} == {"concept"}
    assert get(client, "search", q="qqxzzyv")["results"] == []
    degrees = np.bincount(kb.facts.heads, minlength=576) + np.bincount(kb.facts.tails, minlength=576)
    assert get(client, "search", q="Google")["results"][0]["count"] == degrees[kb.entities.id("Google")]


def test_completion_gives_the_results_of_a_search(client: httpx.Client) -> None:
    found = client.get("/api/complete", params={"prefix": "uni", "limit": 5}).json()
    assert found == get(client, "search", q="uni", limit=5)["results"]


def test_an_entity_s_facts_are_complete(client: httpx.Client, kb: KnowledgeBase) -> None:
    card = get(client, "entities", NS + "GeoffreyHinton", limit=1000)
    assert (card["iri"], card["label"]) == (f"<{NS}GeoffreyHinton>", "Geoffrey Hinton")
    facts = {
        (f"<{NS}GeoffreyHinton>", group["relation"]["iri"], value["iri"])
        for group in card["outgoing"]
        for value in group["values"]
    } | {
        (value["iri"], group["relation"]["iri"], f"<{NS}GeoffreyHinton>")
        for group in card["incoming"]
        for value in group["values"]
    }
    assert facts == {(head.iri, relation.iri, tail.iri) for head, relation, tail in kb.assertions("GeoffreyHinton")}
    assert sum(group["count"] for group in card["outgoing"] + card["incoming"]) == card["count"] == len(facts)
    assert {kind["iri"] for kind in card["types"]} == {thing.iri for thing in kb.concepts_of("GeoffreyHinton")}
    sizes = [kind["count"] for kind in card["types"]]
    assert sizes == sorted(sizes)
    assert card["predicted_outgoing"] == []


def test_a_group_of_facts_is_paged(client: httpx.Client) -> None:
    whole = get(client, "entities", NS + "Google", relation="worksAt", limit=1000)
    assert whole["outgoing"] == []
    group = whole["incoming"][0]
    assert group["count"] == len(group["values"]) > 5
    pages = [get(client, "entities", "Google", relation="worksAt", limit=3, offset=start) for start in (0, 3)]
    assert [value for page in pages for value in page["incoming"][0]["values"]] == group["values"][:6]
    assert pages[0]["incoming"][0]["count"] == group["count"]


def test_the_tree_of_concepts_can_be_walked_from_its_roots(client: httpx.Client, kb: KnowledgeBase) -> None:
    waiting, seen = [("top", None)], set()
    while waiting:
        parent, expected = waiting.pop()
        reply = get(client, "concepts", parent=parent, limit=1000)
        assert reply["total"] == len(reply["concepts"])
        assert expected is None or reply["total"] == expected
        waiting += [(line["iri"], line["children"]) for line in reply["concepts"] if line["iri"] not in seen]
        seen |= {line["iri"] for line in reply["concepts"]}
    assert seen == {thing.iri for thing in kb.concepts}
    everything = get(client, "concepts", limit=1000)
    assert everything["total"] == len(kb.concepts) == len({line["iri"] for line in everything["concepts"]})
    counts = [line["count"] for line in everything["concepts"]]
    assert counts == sorted(counts, reverse=True)
    assert get(client, "concepts", limit=5, offset=10)["concepts"] == everything["concepts"][10:15]


def test_instances_of_a_concept_are_paged(client: httpx.Client, kb: KnowledgeBase) -> None:
    card = get(client, "concepts", NS + "Person", limit=1000)
    assert {item["iri"] for item in card["instances"]} == {thing.iri for thing in kb.members("Person")}
    assert get(client, "concepts", "Person", limit=4, offset=2)["instances"] == card["instances"][2:6]


def test_relations_have_ends_and_counts(client: httpx.Client, kb: KnowledgeBase) -> None:
    listed = get(client, "relations")
    assert listed["total"] == len(kb.relations) == len(listed["relations"])
    works = next(line for line in listed["relations"] if line["name"] == "worksAt")
    rows = kb.facts.relations == kb.relations.id("worksAt")
    assert works["count"] == rows.sum()
    assert works["subjects"] == len(set(kb.facts.heads[rows].tolist()))
    persons = {kb.entities.id(thing.iri) for thing in kb.members("Person")}
    people = next(item for item in works["domain"] if item["name"] == "Person")
    assert people["count"] == len(persons & set(kb.facts.heads[rows].tolist()))
    assert "Agent" not in [item["label"] for item in works["domain"]]  # Person says more, and is as many
    card = get(client, "relations", NS + "worksAt", limit=1000)
    assert card["relation"] == works
    assert len(card["facts"]) == works["count"]


def test_relations_of_a_concept_are_those_its_instances_have(client: httpx.Client, kb: KnowledgeBase) -> None:
    companies = {kb.entities.id(member.iri) for member in kb.members("Company")}
    found = get(client, "relations", concept=NS + "Company")
    counts = {(line["iri"], line["direction"]): line["count"] for line in found["relations"]}
    expected: dict[tuple[str, str], int] = {}
    for head, relation, tail in kb.assertions():
        for end, direction in ((head, "forward"), (tail, "inverse")):
            if end.id in companies:
                expected[relation.iri, direction] = expected.get((relation.iri, direction), 0) + 1
    assert counts == expected
    uses = next(line for line in found["relations"] if (line["name"], line["direction"]) == ("uses", "forward"))
    answers = kb.answer("inverse uses some Company")
    assert uses["objects"] == answers.entity_count
    assert uses["subjects"] == kb.answer("Company and uses some owl:Thing").entity_count
    assert uses["range"][0]["count"] <= uses["objects"]


@pytest.mark.parametrize(
    ("route", "name", "message", "candidate"),
    [
        ("entities", "Gogle", "no entity 'Gogle' in academia. Did you mean 'Google'?", "Google"),
        ("entities", "Person", "'Person' is a concept in academia, not an entity", None),
        ("concepts", "Hinton", "no concept 'Hinton' in academia, but the entity 'GeoffreyHinton'", "GeoffreyHinton"),
        ("relations", "worksIn", "no relation 'worksIn' in academia", None),
    ],
)
def test_an_unknown_name_is_a_problem_with_suggestions(
    client: httpx.Client, route: str, name: str, message: str, candidate: str | None
) -> None:
    reply = client.get(f"/api/{route}/{name}")
    assert reply.status_code == 404
    assert reply.json()["detail"].startswith(message)
    assert candidate is None or reply.json()["candidates"] == [candidate]


def test_lists_of_unknown_parents_are_problems(client: httpx.Client) -> None:
    for route, params in (("concepts", {"parent": "Persn"}), ("relations", {"concept": "Persn"})):
        reply = client.get(f"/api/{route}", params=params)
        assert reply.status_code == 404
        assert "'Person'" in reply.json()["detail"]
    for params in ({"limit": "0"}, {"limit": "1001"}, {"offset": "-1"}):
        assert client.get("/api/relations", params=params).status_code == 400


def test_uses_count_what_names_a_thing(kb: KnowledgeBase) -> None:
    assert kb.use_counts[Role.RELATION].sum() == len(kb.facts.heads)
    assert kb.use_counts[Role.ENTITY].sum() == 2 * len(kb.facts.heads)
