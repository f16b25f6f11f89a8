"""Limits on time, number and size; keys; slow clients; shutdown."""

from __future__ import annotations

import asyncio
import json
import re
import socket
import threading
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress

import httpx
import pytest

from tarbox.core.ids import Role
from tarbox.http.settings import Bounds, ServerSettings
from tarbox.query.algebra import Query
from tarbox.service.answering import Question
from tarbox.service.answers import AnswerCounts, Answers, EntityAnswer
from tarbox.service.dispatcher import THREADS
from tarbox.service.explanations import Support
from tarbox.service.knowledge_base import KnowledgeBase
from tarbox.service.places import Places


class Waiting:
    """An answerer that waits until it may go on, and counts the questions of each call."""

    model = "waiting"
    trained_on = None

    def __init__(self, kb: KnowledgeBase) -> None:
        self.kb = kb
        self.go = threading.Event()
        self.go.set()
        self.sizes: list[int] = []

    def answer_many(self, questions: Sequence[Question]) -> list[Answers]:
        self.sizes.append(len(questions))
        self.go.wait(10)
        return [Answers("", [], [], AnswerCounts(0), AnswerCounts(0)) for _ in questions]

    def members(self, _concept: str, _k: int) -> list[EntityAnswer]:
        return []

    def explain(self, _query: Query, _answer: str, _role: Role) -> Support:
        self.go.wait(10)
        return Support("", (), (), ())


@pytest.fixture
def waiting(kb: KnowledgeBase) -> Waiting:
    return Waiting(kb)


def problem(reply: httpx.Response, kind: str, status: int) -> None:
    assert reply.status_code == status
    assert reply.headers["content-type"] == "application/problem+json"
    assert reply.json()["type"] == f"urn:tarbox:problem:{kind}"


def test_an_answer_that_takes_too_long(serve, waiting: Waiting) -> None:  # type: ignore[no-untyped-def]
    with serve(ServerSettings(bounds=Bounds(seconds=0.3)), waiting) as address:
        waiting.go.clear()
        reply = httpx.get(f"{address}/api/answer?query=Person")
        problem(reply, "timeout", 503)
        assert "0.3 seconds" in reply.json()["detail"]
        assert httpx.get(f"{address}/health").status_code == 200
        again = httpx.get(f"{address}/api/answer?query=Person")  # the thread is still at work: no waiting in vain
        problem(again, "busy", 503)
        assert again.headers["retry-after"] == "5"
        assert again.elapsed.total_seconds() < 0.3
        waiting.go.set()
        assert answered(f"{address}/api/answer?query=Person")


def test_explanations_that_take_too_long(serve, waiting: Waiting) -> None:  # type: ignore[no-untyped-def]
    with serve(ServerSettings(bounds=Bounds(seconds=0.3)), waiting) as address, ThreadPoolExecutor(THREADS) as pool:
        waiting.go.clear()
        asked = f"{address}/api/explain?query=Person&answer=GeoffreyHinton"
        for reply in pool.map(httpx.get, [asked] * THREADS):
            problem(reply, "timeout", 503)
        problem(httpx.get(asked), "busy", 503)
        waiting.go.set()
        assert answered(asked)


def answered(address: str) -> bool:
    """Whether a server that was overloaded answers again within two seconds."""
    end = time.monotonic() + 2
    while time.monotonic() < end:
        if httpx.get(address).status_code == 200:
            return True
        time.sleep(0.02)
    return False


def test_too_many_at_once(serve, waiting: Waiting) -> None:  # type: ignore[no-untyped-def]
    bounds = Bounds(concurrent=2, waiting=2, patience=0.3)
    with serve(ServerSettings(bounds=bounds), waiting) as address, ThreadPoolExecutor(8) as pool:
        waiting.go.clear()
        asked = [pool.submit(httpx.get, f"{address}/api/answer?query=Person") for _ in range(6)]
        while sum(future.done() for future in asked) < 4:
            time.sleep(0.01)
        waiting.go.set()
        replies = [future.result() for future in asked]
        refused = [reply for reply in replies if reply.status_code == 503]
        assert len(refused) == 4
        for reply in refused:
            problem(reply, "busy", 503)
            assert reply.headers["retry-after"] == "1"


def test_above_the_limit_requests_wait_for_a_place(serve, waiting: Waiting) -> None:  # type: ignore[no-untyped-def]
    with serve(ServerSettings(bounds=Bounds(concurrent=2)), waiting) as address, ThreadPoolExecutor(12) as pool:
        waiting.go.clear()
        asked = [pool.submit(httpx.get, f"{address}/api/answer?query=Person") for _ in range(12)]
        while "tarbox_requests_waiting 10" not in httpx.get(f"{address}/metrics").text:
            time.sleep(0.02)
        assert httpx.get(f"{address}/health").status_code == 200  # it waits for nobody
        waiting.go.set()
        assert {future.result().status_code for future in asked} == {200}


def test_clients_take_turns() -> None:
    async def ask() -> list[str]:
        places, served = Places(1, 4, 3.0), list[str]()

        async def client(name: str) -> None:
            if await places.take(name):
                served.append(name)
                await asyncio.sleep(0)
                places.give_back()
            else:
                served.append(f"{name} is refused")

        tasks = [asyncio.create_task(client(name)) for name in ("a", "a", "a", "a", "a", "a", "b", "c")]
        await asyncio.gather(*tasks)
        assert await places.take("d")  # the place is free again
        return served

    # of four places to wait, one client alone may have all; others come in beside it, and before its last
    assert asyncio.run(ask()) == ["a", "a is refused", "a", "b", "c", "a", "a", "a"]


def test_those_who_wait_are_answered_in_one_call(serve, waiting: Waiting) -> None:  # type: ignore[no-untyped-def]
    with serve(by=waiting) as address, ThreadPoolExecutor(20) as pool:
        waiting.go.clear()
        waiting.sizes.clear()
        asked = [pool.submit(httpx.get, f"{address}/api/answer?query=Person")]
        while not waiting.sizes:
            time.sleep(0.01)
        asked += [pool.submit(httpx.get, f"{address}/api/answer?query=Person") for _ in range(15)]
        while "tarbox_requests_in_flight 16" not in httpx.get(f"{address}/metrics").text:
            time.sleep(0.02)
        waiting.go.set()
        assert {future.result().status_code for future in asked} == {200}
        assert sum(waiting.sizes) == 16
        assert len(waiting.sizes) <= 3


def test_bodies_have_a_limit(serve, address: str, client: httpx.Client) -> None:  # type: ignore[no-untyped-def]
    large = json.dumps({"query": "x" * 1_000_000}).encode()
    headers = {"Content-Type": "application/json"}
    problem(client.post("/api/answer", content=large, headers=headers), "body-too-large", 413)
    assert client.get("/health").status_code == 200

    def pieces():  # type: ignore[no-untyped-def]
        for start in range(0, len(large), 50_000):
            yield large[start : start + 50_000]

    with suppress(httpx.TransportError):  # the server may close before it has read all
        problem(httpx.post(f"{address}/api/answer", content=pieces(), headers=headers), "body-too-large", 413)
    assert client.get("/health").status_code == 200


def test_heads_have_a_limit(address: str, client: httpx.Client) -> None:
    """Whether it is complete or not, in one piece or in several."""
    end = b" HTTP/1.1\r\nHost: localhost\r\n\r\n"
    address_, header = b"GET /api/answer?query=" + b"x" * 66_000, b"GET /health HTTP/1.1\r\nX: " + b"y" * 100_000
    many = b"GET / HTTP/1.1\r\n" + b"X: y\r\n" * 11_000
    for pieces in (
        (address_,),
        (many,),
        (address_, end),
        (address_ + end,),
        (header + b"\r\n\r\n",),
        (many + b"\r\n",),
    ):
        heard = talk(address, *pieces)
        assert heard.startswith(b"HTTP/1.1 431")
        assert heard.count(b"HTTP/1.1") == 1
        assert b"application/problem+json" in heard
        assert b"65,536 bytes" in heard
    assert client.get("/health").status_code == 200


def test_heads_within_the_limit_are_read(client: httpx.Client) -> None:
    assert client.get("/health", headers={"X-Long": "y" * 64_000}).status_code == 200
    reply = client.get("/api/answer", params={"query": "x" * 65_000})
    problem(reply, "too-large", 400)  # the limit of queries: 20,000 characters


def talk(address: str, *pieces: bytes, pause: float = 0.0) -> bytes:
    """What a server says to raw bytes until it closes."""
    host, _, port = address.removeprefix("http://").partition(":")
    heard: list[bytes] = []
    with socket.create_connection((host, int(port)), timeout=10) as connection:

        def listen() -> None:
            with suppress(OSError):
                while part := connection.recv(65_536):
                    heard.append(part)

        listener = threading.Thread(target=listen)
        listener.start()
        with suppress(OSError):
            for piece in pieces:
                connection.sendall(piece)
                time.sleep(pause)
        listener.join()
    return b"".join(heard)


def test_a_slow_head_is_cut_off(serve) -> None:  # type: ignore[no-untyped-def]
    with serve(ServerSettings(bounds=Bounds(reading=0.4))) as address:
        start = time.monotonic()
        heard = talk(address, b"GET /health HTTP/1.1\r\n", *[b"X-%d: 1\r\n" % i for i in range(50)], pause=0.05)
        assert time.monotonic() - start < 5
        assert b"408" in heard.split(b"\r\n")[0]
        assert b"application/problem+json" in heard
        assert b"408" in talk(address)  # also where nothing comes at all
        assert httpx.get(f"{address}/health").status_code == 200


def test_a_slow_head_on_a_connection_that_was_kept(serve) -> None:  # type: ignore[no-untyped-def]
    with serve(ServerSettings(bounds=Bounds(reading=0.4))) as address:
        whole = b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n"
        heard = talk(address, whole, b"GET /health HTTP/1.1\r\n", *[b"X-%d: 1\r\n" % i for i in range(30)], pause=0.05)
        assert heard.count(b"HTTP/1.1 200") == 1
        assert heard.count(b"HTTP/1.1 408") == 1


def test_a_slow_body_is_cut_off(serve) -> None:  # type: ignore[no-untyped-def]
    with serve(ServerSettings(bounds=Bounds(reading=0.4, concurrent=1))) as address:
        head = b"POST /api/answer HTTP/1.1\r\nHost: localhost\r\n"
        head += b"Content-Type: application/json\r\nContent-Length: 100\r\n\r\n"
        with ThreadPoolExecutor(1) as pool:
            slow = pool.submit(talk, address, head, *[b" "] * 20, pause=0.05)
            time.sleep(0.1)
            assert httpx.get(f"{address}/health").status_code == 200  # the slow client holds no place
            assert b"408" in slow.result().split(b"\r\n")[0]


def test_a_client_that_does_not_read_is_cut_off(serve) -> None:  # type: ignore[no-untyped-def]
    """It asks more than the buffers of the system hold, and reads when the server has nothing left to do for it."""
    asked = 200
    with serve(ServerSettings(bounds=Bounds(reading=0.4, concurrent=2))) as address:
        host, _, port = address.removeprefix("http://").partition(":")
        with socket.socket() as connection:
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4_096)
            connection.connect((host, int(port)))
            connection.sendall(b"GET /api/answer?k=1000&query=owl:Thing HTTP/1.1\r\nHost: localhost\r\n\r\n" * asked)
            replies, before = 0, -1
            while replies != before:
                time.sleep(1.0)
                metrics = httpx.get(f"{address}/metrics").text
                counted = re.search(r'route="/api/answer",status="200"\} (\d+)', metrics)
                before, replies = replies, int(counted[1]) if counted else -2
            assert 0 < replies < asked
            connection.settimeout(5)
            heard = 0
            with suppress(OSError):
                while part := connection.recv(1 << 20):
                    heard += part.count(b"HTTP/1.1 200")
            assert heard <= replies


def test_too_many_connections(serve) -> None:  # type: ignore[no-untyped-def]
    with serve(ServerSettings(bounds=Bounds(connections=3))) as address:
        host, _, port = address.removeprefix("http://").partition(":")
        held = [socket.create_connection((host, int(port))) for _ in range(3)]
        time.sleep(0.2)
        assert b"503" in talk(address, b"GET /health HTTP/1.1\r\n\r\n").split(b"\r\n")[0]
        for connection in held:
            connection.close()
        time.sleep(0.2)
        assert httpx.get(f"{address}/health").status_code == 200


def test_what_is_no_http(address: str) -> None:
    heard = talk(address, b"\x16\x03\x01 hello\r\n\r\n")
    assert heard.startswith(b"HTTP/1.1 400")
    assert b"application/problem+json" in heard
    assert b"urn:tarbox:problem:http" in heard


def test_the_key(serve) -> None:  # type: ignore[no-untyped-def]
    with serve(ServerSettings(api_key="open sesame")) as address, httpx.Client(base_url=address) as client:
        for path in ("/api/kb", "/api/answer?query=Person", "/sparql?query=x", "/metrics", "/api/nothing"):
            reply = client.get(path)
            problem(reply, "unauthorised", 401)
            assert reply.headers["www-authenticate"] == "Bearer"
        for wrong in ({"X-API-Key": "open"}, {"Authorization": "Basic b3Blbg=="}, {"X-API-Key": "öffne".encode()}):
            problem(client.get("/api/kb", headers=wrong), "unauthorised", 401)
        assert client.get("/api/kb", headers={"X-API-Key": "open sesame"}).status_code == 200
        assert client.get("/api/kb", headers={"Authorization": "Bearer open sesame"}).status_code == 200
        assert client.get("/health").status_code == 200
        assert client.get("/").status_code == 200
        assert client.get("/openapi.json").json()["security"] == [{"key": []}, {"bearer": []}]


ASKING = {"Origin": "https://yasgui.org"}
PATHS = ["/api/kb", "/api/answer", "/nothing", "/health", "/sparql?query=x", "/api/answer?query=Persn", "/"]


@pytest.mark.parametrize("key", [None, "open sesame"])
def test_other_sites_ask_only_where_they_may(serve, client: httpx.Client, key: str | None) -> None:  # type: ignore[no-untyped-def]
    assert "access-control-allow-origin" not in client.get("/api/kb", headers=ASKING).headers
    with serve(ServerSettings(origins=("https://yasgui.org", "https://other.org"), api_key=key)) as address:
        for path in PATHS:  # right or wrong, with the key or without it
            for sent in (ASKING, {**ASKING, "X-API-Key": key or ""}):
                reply = httpx.get(address + path, headers=sent)
                assert reply.headers["access-control-allow-origin"] == "https://yasgui.org"
                assert "X-Total-Count" in reply.headers["access-control-expose-headers"]
                assert "Origin" in reply.headers["vary"]
                assert reply.headers["cross-origin-resource-policy"] == "cross-origin"
            strange = httpx.get(address + path, headers={"Origin": "https://evil.org"})
            assert "access-control-allow-origin" not in strange.headers
        large = httpx.post(f"{address}/api/answer", content=b"x" * 200_000, headers={**ASKING, "X-API-Key": key or ""})
        assert large.status_code == 413
        assert large.headers["access-control-allow-origin"] == "https://yasgui.org"


@pytest.mark.parametrize("path", ["/sparql", "/api/answer", "/api/answers", "/api/kb"])
def test_preflights_need_no_key(serve, path: str) -> None:  # type: ignore[no-untyped-def]
    asked = {"Access-Control-Request-Method": "POST", "Access-Control-Request-Headers": "content-type, x-api-key"}
    with serve(ServerSettings(origins=("*",), api_key="open sesame")) as address:
        reply = httpx.options(address + path, headers={**ASKING, **asked})
        assert reply.status_code == 204
        assert reply.headers["access-control-allow-origin"] == "https://yasgui.org"
        assert "POST" in reply.headers["access-control-allow-methods"]
        assert {"x-api-key", "content-type"} <= set(reply.headers["access-control-allow-headers"].lower().split(", "))


def test_what_is_no_request_can_be_read_by_other_sites(serve) -> None:  # type: ignore[no-untyped-def]
    with serve(ServerSettings(origins=("https://yasgui.org",))) as address:
        assert b"access-control-allow-origin: https://yasgui.org" in talk(address, b"nothing\r\n\r\n")


def test_the_host_is_checked(serve, client: httpx.Client) -> None:  # type: ignore[no-untyped-def]
    for host in ("evil.example", "", "localhost.evil.example", "[::2]:80"):
        problem(client.get("/health", headers={"Host": host}), "host", 421)
    for host in ("localhost", "LOCALHOST:99", "127.0.0.1:8000", "[::1]:1"):
        assert client.get("/health", headers={"Host": host}).status_code == 200
    with serve(ServerSettings(hosts=("kb.example",))) as address:
        assert httpx.get(f"{address}/health", headers={"Host": "kb.example"}).status_code == 200
    with serve(ServerSettings(host="0.0.0.0")) as address:
        assert httpx.get(f"{address}/health", headers={"Host": "any.example"}).status_code == 200


def test_shutdown_finishes_what_has_begun(serve, waiting: Waiting) -> None:  # type: ignore[no-untyped-def]
    with ThreadPoolExecutor(1) as pool:
        with serve(by=waiting) as address:
            waiting.go.clear()
            waiting.sizes.clear()
            asked = pool.submit(httpx.get, f"{address}/api/answer?query=Person")
            while not waiting.sizes:
                time.sleep(0.01)
            threading.Timer(0.5, waiting.go.set).start()
        assert asked.result().status_code == 200
        with pytest.raises(httpx.ConnectError):
            httpx.get(f"{address}/health")
