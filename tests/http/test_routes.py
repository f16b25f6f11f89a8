"""Every route of the API, on academia."""

from __future__ import annotations

import re

import httpx
import pytest

from tarbox.service.knowledge_base import KnowledgeBase

NS = "https://tarbox.example/academia#"
FIGURE_1 = "interestedIn some ((inverse investigates value GeoffreyHinton) and (inverse uses value Google))"
CANADA = "Person and (worksAt some (University and locatedIn value Canada)) and not (bornIn value Canada)"


def test_both_lists(client: httpx.Client, kb: KnowledgeBase) -> None:
    reply = client.get("/api/answer", params={"query": FIGURE_1, "k": 3})
    assert reply.status_code == 200
    content, expected = reply.json(), kb.answer(FIGURE_1, k=3)
    assert [item["iri"] for item in content["entities"]] == [item.iri for item in expected.entities]
    assert [item["iri"] for item in content["concepts"]] == [item.iri for item in expected.concepts]
    assert content["concepts"][0]["coverage"] == pytest.approx(expected.concepts[0].coverage)
    assert (content["entity_count"], content["concept_count"]) == (expected.entity_count, expected.concept_count)
    assert content["canonical"] == content["query"] == FIGURE_1
    assert content["english"].startswith("everything that is interested in")
    assert content["milliseconds"] > 0
    assert set(content["entities"][0]) == {"iri", "label", "name", "degree", "status"}


def test_posting_a_question_gives_the_same(client: httpx.Client) -> None:
    got = client.get("/api/answer", params={"query": CANADA}).json()
    posted = client.post("/api/answer", json={"query": CANADA}).json()
    assert {**got, "milliseconds": 0} == {**posted, "milliseconds": 0}
    assert posted["entity_count"] == 7


def test_a_name_is_what_a_query_can_say(client: httpx.Client) -> None:
    found = client.get("/api/answer", params={"query": CANADA}).json()["entities"]
    listed = "{" + ", ".join(item["name"] for item in found) + "}"
    again = client.get("/api/answer", params={"query": listed}).json()["entities"]
    assert [item["iri"] for item in again] == [item["iri"] for item in found]


def test_sparql_is_a_language_too(client: httpx.Client) -> None:
    query = f"SELECT ?x {{ <{NS}GeoffreyHinton> <{NS}investigates> ?x }}"
    content = client.post("/api/answer", json={"query": query, "language": "sparql"}).json()
    assert content["canonical"] == "inverse investigates value GeoffreyHinton"
    assert content["query"] == query


def test_a_long_question_is_answered(client: httpx.Client) -> None:
    query = " or ".join(["worksAt value Google"] * 90)
    content = client.post("/api/answer", json={"query": query}).json()
    assert (
        content["entity_count"]
        == client.get("/api/answer", params={"query": "worksAt value Google"}).json()["entity_count"]
    )


def test_an_entity_s_explanation(client: httpx.Client) -> None:
    answer = client.get("/api/answer", params={"query": CANADA}).json()["entities"][0]
    content = client.get("/api/explain", params={"query": CANADA, "answer": answer["iri"]}).json()
    assert content["sentence"].startswith(f"{answer['label']} is an answer because")
    nodes = {node["id"]: node for node in content["nodes"]}
    assert [node["label"] for node in nodes.values() if node["kind"] == "answer"] == [answer["label"]]
    assert [node["label"] for node in nodes.values() if node["kind"] == "entity"] == ["Canada"]
    for edge in content["edges"]:
        assert edge["status"] == "known"
        source, target = nodes[edge["source"]]["label"], nodes[edge["target"]]["label"]
        assert source in content["steps"][edge["step"]]
        assert target in content["steps"][edge["step"]]
    assert "born in Canada" in content["steps"][-1]


def test_a_concept_s_explanation(client: httpx.Client) -> None:
    concept = client.get("/api/answer", params={"query": CANADA}).json()["concepts"][0]
    content = client.get("/api/explain", params={"query": CANADA, "answer": concept["iri"], "level": "concept"}).json()
    assert content["steps"][0].startswith(f"4 of 7 answers are instances of {concept['label']}")
    assert [node["iri"] for node in content["nodes"] if node["kind"] == "answer"] == [concept["iri"]]


def test_a_drawing(client: httpx.Client) -> None:
    content = client.get("/api/drawing", params={"query": "worksAt value <" + NS + "Google>"}).json()
    assert content["svg"].startswith("<svg ")
    assert content["canonical"] == "worksAt value Google"
    assert content["english"] == "everything that works at Google"


@pytest.mark.parametrize(
    ("prefix", "role", "name"),
    [
        ("goggle", None, "Google"),
        ("geof", "entity", "GeoffreyHinton"),
        ("hinton", "entity", "GeoffreyHinton"),
        ("univ", "concept", "University"),
        ("worsk", "relation", "worksAt"),
        ("'Turing Award l", "concept", "TuringLaureate"),
        (":Goog", "entity", "Google"),
    ],
)
def test_completion(client: httpx.Client, prefix: str, role: str | None, name: str) -> None:
    parameters = {"prefix": prefix} | ({"role": role} if role else {})
    found = client.get("/api/complete", params=parameters).json()
    assert name in [item["name"] for item in found[:3]]
    assert role is None or {item["role"] for item in found} == {role}
    assert len(found) <= 10


def test_completion_keeps_to_its_limit(client: httpx.Client) -> None:
    found = client.get("/api/complete", params={"prefix": "u", "limit": 3}).json()
    assert len(found) == 3
    assert client.get("/api/complete", params={"prefix": "zzzzzzzzzz"}).json() == []


def test_the_knowledge_base(client: httpx.Client, kb: KnowledgeBase) -> None:
    content = client.get("/api/kb").json()
    assert content["title"] == "academia"
    assert content["model"] is None
    assert content["counts"] == kb.facts.counts()
    assert content["prefixes"]["academia"] == NS
    assert content["relations"][0]["count"] >= content["relations"][1]["count"] > 0
    assert 3 <= len(content["examples"]) <= 6
    for example in content["examples"]:
        found = client.get("/api/answer", params={"query": example["query"]}).json()
        assert found["entity_count"] == example["entity_count"] > 0
        assert found["concept_count"] > 0
        assert found["english"] == example["english"]


@pytest.mark.parametrize("name", [NS + "Person", f"<{NS}Person>", "Person", "person"])
def test_a_concept(client: httpx.Client, kb: KnowledgeBase, name: str) -> None:
    content = client.get(f"/api/concepts/{httpx.QueryParams({'_': name})!s}".replace("_=", "", 1)).json()
    assert content["iri"] == f"<{NS}Person>"
    assert content["count"] == len(kb.instances_of("Person")) > 20
    assert [parent["label"] for parent in content["parents"]] == ["Agent"]
    assert "Researcher" in [child["name"] for child in content["children"]]
    assert [line["label"] for line in content["paths"][0]] == ["Agent", "Person"]
    assert len(content["instances"]) == 20
    assert 0 < content["specificity"] < 1
    assert content["equivalents"] == []


def test_the_classes_around_an_expression(client: httpx.Client) -> None:
    content = client.get("/api/concept", params={"expression": "Person and worksAt min 2 University", "k": 2}).json()
    assert [each["label"] for each in content["superclasses"]] == ["Agent", "Person"]
    assert [each["label"] for each in content["direct_superclasses"]] == ["Person"]
    assert len(content["instances"]) == min(2, content["instance_count"])
    wrong = client.get("/api/concept", params={"expression": "Persn"})
    assert wrong.status_code == 400
    assert "Person" in str(wrong.json())


def test_health_and_metrics(client: httpx.Client) -> None:
    assert client.get("/health").json()["status"] == "ok"
    client.get("/api/answer", params={"query": "Person"})
    reply = client.get("/metrics")
    assert reply.headers["content-type"].startswith("text/plain; version=0.0.4")
    assert re.search(r'tarbox_requests_total\{route="/api/answer",status="200"\} \d+', reply.text)
    assert re.search(r"tarbox_batch_size_count \d+", reply.text)
    assert "process_resident_memory_bytes" in reply.text
    counts = [
        int(n) for n in re.findall(r'tarbox_request_seconds_bucket\{route="/health",le="[^"]+"\} (\d+)', reply.text)
    ]
    assert counts == sorted(counts)
    assert counts[-1] > 0


def test_the_page_and_its_files(client: httpx.Client) -> None:
    reply = client.get("/")
    assert reply.status_code == 200
    assert reply.headers["content-type"].startswith("text/html")
    for link in re.findall(r'(?:src|href)="([^":#]+)"', reply.text):
        found = client.get("/" + link)
        assert found.status_code == 200, link
        suffix = link.rpartition(".")[2]
        expected = {"js": "text/javascript", "css": "text/css", "svg": "image/svg+xml"}.get(suffix)
        assert expected is None or found.headers["content-type"].startswith(expected)


@pytest.mark.parametrize("path", ["/", "/health", "/api/kb", "/nothing", "/api/answer", "/sparql"])
def test_security_headers_go_with_every_reply(client: httpx.Client, path: str) -> None:
    headers = client.get(path).headers
    policy = headers["content-security-policy"]
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy
    assert "http" not in policy
    assert headers["x-content-type-options"] == "nosniff"
    assert headers["x-frame-options"] == "DENY"
    assert "server" not in headers


def test_the_policy_allows_the_style_of_drawings(client: httpx.Client) -> None:
    import base64
    import hashlib

    svg = client.get("/api/drawing", params={"query": CANADA}).json()["svg"]
    style = re.search("<style>(.*?)</style>", svg, re.DOTALL)
    assert style is not None
    digest = base64.b64encode(hashlib.sha256(style[1].encode()).digest()).decode()
    assert f"'sha256-{digest}'" in client.get("/").headers["content-security-policy"]


def test_documentation_needs_no_other_site(client: httpx.Client) -> None:
    assert client.get("/docs").status_code == 404
    schema = client.get("/openapi.json").json()
    assert schema["openapi"].startswith("3.1")
    assert "422" not in str(schema["paths"])
    assert {
        "/api/answer",
        "/api/candidates",
        "/api/explain",
        "/api/drawing",
        "/api/search",
        "/api/complete",
        "/api/kb",
        "/api/concept",
        "/api/concepts",
        "/api/concepts/{iri}",
        "/api/entities/{iri}",
        "/api/relations",
        "/api/relations/{iri}",
        "/health",
        "/metrics",
        "/sparql",
    } == set(schema["paths"])
    assert schema["components"]["schemas"]["AnswerReply"]["examples"]
