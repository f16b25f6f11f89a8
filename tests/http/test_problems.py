"""Every error is a problem body, with what to do, without a path or a traceback."""

from __future__ import annotations

from collections.abc import Sequence

import httpx
import pytest

from tarbox.core.ids import Role
from tarbox.query.algebra import Query
from tarbox.service.answering import Answerer, Question
from tarbox.service.answers import AnswerCounts, Answers, EntityAnswer
from tarbox.service.explanations import Support
from tarbox.service.knowledge_base import KnowledgeBase


def check(reply: httpx.Response, status: int) -> dict[str, object]:
    assert reply.status_code == status, reply.text
    assert reply.headers["content-type"] == "application/problem+json"
    content: dict[str, object] = reply.json()
    assert content["status"] == status
    assert content["type"].startswith("urn:tarbox:problem:")
    assert content["title"]
    assert content["detail"]
    assert "Traceback" not in reply.text
    assert "/work" not in reply.text
    assert "/tmp" not in reply.text
    return content


@pytest.mark.parametrize("path", ["/api/answer", "/api/drawing"])
@pytest.mark.parametrize(
    ("query", "position", "candidates", "reason"),
    [
        ("worksAt value Gogle", 14, ["Google"], "no entity 'Gogle' in academia. Did you mean 'Google'?"),
        ("Person and", 10, [], "expected a concept"),
        ("", 0, [], "expected a concept"),
        ("worksAt max Company", 12, [], "expected a number after 'max'"),
        ("Person and 'no end", 11, [], "no closing quotation mark"),
        ("Person \x00", 7, [], ""),
    ],
)
def test_a_mistake_in_a_query(
    client: httpx.Client, path: str, query: str, position: int, candidates: list[str], reason: str
) -> None:
    content = check(client.get(path, params={"query": query}), 400)
    assert content["position"] == position
    assert content["candidates"] == candidates
    assert reason in content["reason"]


def test_an_unknown_name_in_sparql(client: httpx.Client) -> None:
    query = "SELECT ?x { ?x a <http://nowhere.org/Nothing> }"
    content = check(client.post("/api/answer", json={"query": query, "language": "sparql"}), 400)
    assert "http://nowhere.org/Nothing" in content["reason"]


@pytest.mark.parametrize(
    ("query", "limit"),
    [
        ("x" * 20_001, "20,000"),
        ("(" * 200 + "Person" + ")" * 200, "100 levels"),
        ("{" + ", ".join(["Google"] * 1_500) + "}", "1,000 nodes"),
        ("not " * 150 + "Person", "100 levels"),
    ],
)
def test_too_large_a_query(client: httpx.Client, query: str, limit: str) -> None:
    content = check(client.post("/api/answer", json={"query": query}), 400)
    assert content["type"] == "urn:tarbox:problem:too-large"
    assert limit in content["detail"]


@pytest.mark.parametrize(
    ("path", "parameters", "fault"),
    [
        ("/api/answer", {}, "query: Field required"),
        ("/api/answer", {"query": "Person", "k": 0}, "k:"),
        ("/api/answer", {"query": "Person", "k": 1001}, "k:"),
        ("/api/answer", {"query": "Person", "k": "many"}, "k:"),
        ("/api/answer", {"query": "Person", "language": "prolog"}, "language:"),
        ("/api/explain", {"query": "Person"}, "answer:"),
        ("/api/explain", {"query": "Person", "answer": "Google", "level": "x"}, "level:"),
        ("/api/complete", {"prefix": "x", "role": "thing"}, "role:"),
        ("/api/complete", {"prefix": "x" * 201}, "prefix:"),
    ],
)
def test_wrong_parameters(client: httpx.Client, path: str, parameters: dict[str, object], fault: str) -> None:
    assert fault in check(client.get(path, params=parameters), 400)["detail"]


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{",
        b"[]",
        b"null",
        b'{"query": 1}',
        b'{"query": "Person", "x": 1}',
        b"\xff\xfe",
        b"[" * 100_000,
        b'{"query": "Person", "k": ' + b"1" * 10_000 + b"}",
    ],
)
def test_bodies_that_are_no_question(client: httpx.Client, body: bytes) -> None:
    check(client.post("/api/answer", content=body, headers={"Content-Type": "application/json"}), 400)


@pytest.mark.parametrize("media", ["application/x-www-form-urlencoded", "text/plain; charset=utf-8", None])
def test_a_question_is_sent_as_json(client: httpx.Client, media: str | None) -> None:
    headers = {} if media is None else {"Content-Type": media}
    for body in (b'{"query": "Person"}', b"query=Person", b""):
        reply = client.post("/api/answer", content=body, headers=headers)
        assert check(reply, 415)["detail"] == "Send the question as application/json."
        assert reply.headers["accept-post"] == "application/json"
    for media_type in ("application/json; charset=utf-8", "application/ld+json", "Application/JSON"):
        headers = {"Content-Type": media_type}
        assert client.post("/api/answer", content=b'{"query": "Person"}', headers=headers).status_code == 200


@pytest.mark.parametrize(
    ("body", "detail"),
    [
        (b"{", "Expecting property name enclosed in double quotes at line 1, column 2."),
        (b'{"query":\n "Person', "Unterminated string starting at line 2, column 2."),
        (b"query=Person", "Expecting value at line 1, column 1."),
    ],
)
def test_what_is_no_json(client: httpx.Client, body: bytes, detail: str) -> None:
    content = check(client.post("/api/answer", content=body, headers={"Content-Type": "application/json"}), 400)
    assert content["type"] == "urn:tarbox:problem:json"
    assert content["detail"] == f"The body is not JSON: {detail}"


def test_half_a_character(client: httpx.Client) -> None:
    body = b'{"query": "Person and \\ud800"}'
    content = check(client.post("/api/answer", content=body, headers={"Content-Type": "application/json"}), 400)
    assert content["position"] == 11


@pytest.mark.parametrize("answer", ["Google", "<https://tarbox.example/academia#Google>"])
def test_what_is_no_answer_has_no_explanation(client: httpx.Client, answer: str) -> None:
    content = check(client.get("/api/explain", params={"query": "Person", "answer": answer}), 400)
    assert content["detail"] == "Google is no answer to this query: no facts carry it"


def test_nothing_of_this_name(client: httpx.Client) -> None:
    content = check(client.get("/api/concepts/Persn"), 404)
    assert content["candidates"] == ["Person"]
    check(client.get("/api/explain", params={"query": "Person", "answer": "Hintn"}), 404)
    check(client.get("/api/concepts/"), 404)
    check(client.get("/nothing"), 404)
    check(client.get("/../../etc/passwd"), 404)
    check(client.get("/%2e%2e/%2e%2e/etc/passwd"), 404)


@pytest.mark.parametrize(
    ("path", "methods"),
    [
        ("/api/kb", {"GET", "HEAD", "OPTIONS"}),
        ("/api/answer", {"GET", "HEAD", "OPTIONS", "POST"}),
        ("/api/answers", {"OPTIONS", "POST"}),
        ("/sparql", {"GET", "HEAD", "OPTIONS", "POST"}),
        ("/", {"GET", "HEAD", "OPTIONS"}),
        ("/health", {"GET", "HEAD", "OPTIONS"}),
    ],
)
def test_another_method(client: httpx.Client, path: str, methods: set[str]) -> None:
    reply = client.put(path)
    check(reply, 405)
    options = client.options(path)
    assert options.status_code == 204
    assert set(reply.headers["allow"].split(", ")) == set(options.headers["allow"].split(", ")) == methods
    check(client.options("/nothing"), 404)


@pytest.mark.parametrize(
    "path", ["/", "/api/kb", "/api/answer?query=Person", "/health", "/api/answer?query=Persn", "/x"]
)
def test_the_head_of_a_reply_is_that_of_the_whole(client: httpx.Client, path: str) -> None:
    whole, head = client.get(path), client.head(path)
    assert head.status_code == whole.status_code
    assert head.content == b""
    assert head.headers["content-type"] == whole.headers["content-type"]
    assert abs(int(head.headers["content-length"]) - len(whole.content)) < 8  # milliseconds differ


class Broken:
    """An answerer whose every call is a mistake in the program."""

    model = "broken"
    trained_on = None

    def __init__(self, kb: KnowledgeBase) -> None:
        self.kb = kb
        self.broken = False

    def answer_many(self, questions: Sequence[Question]) -> list[Answers]:
        if self.broken:
            raise ZeroDivisionError("a secret at /home/someone/secret.txt")
        return [Answers("", [], [], AnswerCounts(0), AnswerCounts(0)) for _ in questions]

    def members(self, _concept: str, _k: int) -> list[EntityAnswer]:
        raise ZeroDivisionError("a secret")

    def explain(self, _query: Query, _answer: str, _role: Role) -> Support:
        raise ZeroDivisionError("a secret")


def test_a_mistake_of_the_server_tells_nothing(kb: KnowledgeBase, serve, caplog: pytest.LogCaptureFixture) -> None:  # type: ignore[no-untyped-def]
    broken: Answerer = Broken(kb)
    with serve(by=broken) as address:
        broken.broken = True  # type: ignore[attr-defined]
        for path in ("/api/answer?query=Person", "/api/concepts/Person", "/api/explain?query=Person&answer=Google"):
            reply = httpx.get(address + path)
            check(reply, 500)
            assert "secret" not in reply.text
        assert httpx.get(address + "/health").status_code == 200
    assert caplog.text.count("\nZeroDivisionError: a secret") == 3  # the log says why


@pytest.mark.parametrize("path", ["/sparql/", "/api/kb/", "/api/entities", "/vendor"])
def test_an_address_that_is_almost_right_leads_nowhere_else(client: httpx.Client, path: str) -> None:
    """Behind a proxy with TLS a redirection would be to plain HTTP."""
    check(client.get(path), 404)
