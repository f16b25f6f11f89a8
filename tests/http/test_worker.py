"""The process that answers: the same replies, and what becomes of them when it is slow, or dies, or the server does."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest

from tarbox.core.errors import (
    AmbiguousName,
    NotAnswerable,
    QuerySyntaxError,
    QueryTooLarge,
    StoreDamaged,
    TarboxError,
    UnknownName,
)
from tarbox.http import answering_process
from tarbox.http.answering_process import Worker
from tarbox.http.replies import Asked, Replies
from tarbox.http.settings import Bounds, ServerSettings
from tarbox.http.wire import Frames, read_questions, read_replies, write_questions, write_replies
from tarbox.http.worker_client import WorkerClient, is_worthwhile, launch
from tarbox.service.answering import Answerer, Question
from tarbox.service.answers import AnswerCounts, Answers
from tarbox.service.knowledge_base import KnowledgeBase
from tarbox.service.ordering import Order

IS_ABLE = sys.platform == "linux" and len(os.sched_getaffinity(0)) > 1
pytestmark = pytest.mark.skipif(not IS_ABLE, reason="needs Linux and two processors")
PROGRAM = "import typer; from tarbox.cli.serve import serve; typer.run(serve)"
ASKED = "/api/answer?query=Person&k=2"
QUERIES = [
    "query=Person",
    "query=worksAt+value+Google&order=similarity&k=3",
    "query=worksAt+value+Google&k=1000",
    "query=inverse+investigates+some+Person",
    "query=worksAt%20value%20Gogle",
    "query=worksAt%20value",
    "query=",
    "query=%F0%9F%99%82%00",
    "query=" + "x" * 30_000,
    "query=SELECT%20%3Fx%20%7B%20%3Fx%20a%20%3Curn%3Anothing%3E%20%7D&language=sparql",
]


def until(condition: Callable[[], object], seconds: float = 30.0) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.02)


@contextmanager
def served(serve, store: Path, bounds: Bounds | None = None) -> Iterator[tuple[str, WorkerClient]]:  # type: ignore[no-untyped-def]
    """A server with a process that answers, once that is ready."""
    chosen = bounds or Bounds()
    with launch(store, chosen) as worker, serve(ServerSettings(bounds=chosen), worker=worker) as address:
        until(lambda: worker.is_ready)
        yield address, worker


def test_two_processors_are_worth_a_process(monkeypatch: pytest.MonkeyPatch) -> None:
    assert is_worthwhile()
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0})
    assert not is_worthwhile()


def test_replies_are_the_same(serve, store: Path, client: httpx.Client) -> None:  # type: ignore[no-untyped-def]
    with served(serve, store) as (address, worker):
        for query in QUERIES:
            there, here = httpx.get(f"{address}/api/answer?{query}"), client.get(f"/api/answer?{query}")
            assert there.status_code == here.status_code
            assert there.headers["content-type"] == here.headers["content-type"]
            assert {**there.json(), "milliseconds": 0} == {**here.json(), "milliseconds": 0}
        assert worker.is_ready
        metrics = httpx.get(f"{address}/metrics").text
        assert 'tarbox_batch_size_bucket{le="1"}' in metrics
        both = re.search(r"^process_resident_memory_bytes (\d+)", metrics, re.MULTILINE)
        pages = int(Path("/proc/self/statm").read_text().split()[1])
        assert both is not None
        assert int(both[1]) > 1.1 * pages * os.sysconf("SC_PAGE_SIZE")


def test_many_ask_at_once(serve, store: Path, client: httpx.Client) -> None:  # type: ignore[no-untyped-def]
    paths = [
        f"/api/answer?{query}&k={k}" for query in ("query=Person", "query=uses+some+owl:Thing") for k in range(1, 40)
    ]
    with served(serve, store) as (address, _), ThreadPoolExecutor(16) as pool:
        found = list(pool.map(lambda path: httpx.get(address + path, timeout=30).json(), paths))
    for path, reply in zip(paths, found, strict=True):
        assert {**reply, "milliseconds": 0} == {**client.get(path).json(), "milliseconds": 0}


def test_a_process_that_takes_too_long(serve, store: Path) -> None:  # type: ignore[no-untyped-def]
    with served(serve, store, Bounds(seconds=0.4)) as (address, worker):
        os.kill(worker.process, signal.SIGSTOP)
        late = httpx.get(address + ASKED)
        assert (late.status_code, late.json()["type"]) == (503, "urn:tarbox:problem:timeout")
        again = httpx.get(address + ASKED)  # no waiting in vain
        assert (again.status_code, again.json()["type"]) == (503, "urn:tarbox:problem:busy")
        assert again.headers["retry-after"] == "5"
        assert again.elapsed.total_seconds() < 0.3
        assert httpx.get(f"{address}/health").status_code == 200
        os.kill(worker.process, signal.SIGCONT)
        until(lambda: httpx.get(address + ASKED).status_code == 200)
        assert worker.is_ready


def test_the_server_answers_itself_where_the_process_dies(serve, store: Path) -> None:  # type: ignore[no-untyped-def]
    with served(serve, store) as (address, worker), ThreadPoolExecutor(1) as pool:
        before = httpx.get(address + ASKED).json()
        os.kill(worker.process, signal.SIGSTOP)
        asked = pool.submit(httpx.get, address + ASKED)
        until(lambda: "tarbox_requests_in_flight 2" in httpx.get(f"{address}/metrics").text)
        os.kill(worker.process, signal.SIGKILL)
        assert asked.result().json()["type"] == "urn:tarbox:problem:busy"  # whatever killed it is not tried again
        assert not worker.is_ready
        assert {**httpx.get(address + ASKED).json(), "milliseconds": 0} == {**before, "milliseconds": 0}


@pytest.mark.parametrize("ending", [signal.SIGKILL, signal.SIGTERM])
def test_the_process_ends_with_the_server(store: Path, ending: signal.Signals) -> None:
    command = [sys.executable, "-c", PROGRAM, str(store), "--port", "0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        found = re.search(r"http://[\d.:]+", process.stdout.readline())
        assert found is not None
        assert httpx.get(found[0] + ASKED, timeout=30).status_code == 200
        started = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
        assert len(started) == 1
        for number in (signal.SIGINT, signal.SIGTERM):  # whoever stops a whole group of processes stops the server
            os.kill(int(started[0]), number)
        process.send_signal(ending)
        process.wait(20)
    until(lambda: not Path(f"/proc/{started[0]}").exists())


def test_one_process_only(store: Path) -> None:
    command = [sys.executable, "-c", PROGRAM, str(store), "--port", "0", "--together"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        found = re.search(r"http://[\d.:]+", process.stdout.readline())
        assert found is not None
        assert httpx.get(found[0] + ASKED, timeout=30).status_code == 200
        assert Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text() == ""
        process.terminate()


def test_a_process_without_anything_to_load_ends_quietly(tmp_path: Path) -> None:
    with launch(tmp_path / "nothing", Bounds()) as worker:
        until(lambda: Path(f"/proc/{worker.process}/stat").read_text().rpartition(")")[2].split()[0] == "Z")


class Failing:
    """An answerer that cannot answer some questions, and keeps the size of each call."""

    model = "failing"
    trained_on = None

    def __init__(self, kb: KnowledgeBase) -> None:
        self.kb = kb
        self.sizes: list[int] = []

    def answer_many(self, questions: Sequence[Question]) -> list[Answers]:
        self.sizes.append(len(questions))
        if any(question.k == 13 for question in questions):
            raise ZeroDivisionError
        return [Answers("", [], [], AnswerCounts(0), AnswerCounts(0)) for _ in questions]

    def members(self, _concept: str, _k: int) -> list[object]:
        return []


def asked(text: str, k: int = 1) -> Asked:
    return Asked(text, None, k, 0.0)


def test_those_of_one_shape_are_answered_together(kb: KnowledgeBase) -> None:
    failing = Failing(kb)
    worker = Worker(Replies(failing, Bounds()))  # type: ignore[arg-type]
    texts = ["Person", "uses value Google", "University", "Persn", "{Google}", "City"]
    assert not worker.take(list(enumerate(map(asked, texts))), [])
    assert worker.take([], [4, 99])
    assert [number for number, _ in worker.work()] == [3, 0, 2, 5]  # what cannot be read is told first
    assert worker.has_work
    assert [number for number, _ in worker.work()] == [1]
    assert not worker.has_work
    assert worker.work() == []
    assert failing.sizes == [3, 1]


def test_calls_have_a_limit(kb: KnowledgeBase, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(answering_process, "MOST_AT_ONCE", 2)
    failing = Failing(kb)
    worker = Worker(Replies(failing, Bounds()))  # type: ignore[arg-type]
    worker.take([(number, asked("Person")) for number in range(3)], [])
    assert [number for number, _ in worker.work() + worker.work()] == [0, 1, 2]
    assert failing.sizes == [2, 1]


def test_a_failure_reaches_the_one_who_asked(kb: KnowledgeBase, capsys: pytest.CaptureFixture[str]) -> None:
    worker = Worker(Replies(Failing(kb), Bounds()))  # type: ignore[arg-type]
    worker.take([(7, asked("Person")), (8, asked("City", 13))], [])
    found = dict(worker.work())
    assert isinstance(found[7], bytes)
    assert type(found[8]) is TarboxError
    assert capsys.readouterr().err.count("Traceback") == 2  # together, and alone


def test_an_interrupted_call_is_over_when_the_server_is(answerer: Answerer) -> None:
    import socket

    ours, theirs = socket.socketpair()
    with theirs:
        thread = threading.Thread(target=answering_process.serve, args=(theirs, Worker(Replies(answerer, Bounds()))))
        with ours:
            thread.start()
            ours.sendall(write_questions([(1, asked("Person"))], [])[:20])
        thread.join(10)
        assert not thread.is_alive()


ERRORS = [
    QuerySyntaxError("no entity 'Gogle'", "uses value Gogle", 11, ["Google"]),
    NotAnswerable("no", "x\ud800", 0),
    UnknownName("no entity", ["a"]),
    AmbiguousName("several", ["<a>", "<b>"]),
    QueryTooLarge("too large"),
    TarboxError("?"),
]


@pytest.mark.parametrize("error", ERRORS, ids=lambda error: type(error).__name__)
def test_errors_arrive_as_they_were(error: TarboxError) -> None:
    (frame,) = Frames().feed(write_replies([(1, b"{}"), (2, error), (3, b"")]))
    first, (number, found), last = read_replies(*frame)
    assert (first, number, last) == ((1, b"{}"), 2, (3, b""))
    assert type(found) is type(error)
    assert str(found) == str(error)
    assert vars(found) == vars(error)


def test_errors_of_no_question_arrive_as_the_root_of_all() -> None:
    (frame,) = Frames().feed(write_replies([(1, StoreDamaged("a file"))]))
    assert type(read_replies(*frame)[0][1]) is TarboxError


def test_questions_arrive_as_they_were() -> None:
    questions = [(1, Asked("Person\ud800 \n€", None, 7, 0.1 + 0.2, Order.SIMILARITY, 0.3)), (2, asked("x" * 1_000))]
    sent = write_questions(questions, [3, 4]) + write_questions([], [])
    frames = Frames()
    found = [read_questions(head) for place in range(len(sent)) for head, _ in frames.feed(sent[place : place + 1])]
    assert found == [(questions, [3, 4]), ([], [])]
