"""The place of class expressions over HTTP: reasoned once, in a process that can be stopped."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx
import pytest

from tarbox.core.errors import Overloaded, TarboxError
from tarbox.http.settings import Bounds, ServerSettings
from tarbox.kb.reasoning import apart
from tarbox.service.answering import Answerer

pytest.importorskip("rustdl")
CHEESY = "Pizza and (hasTopping some Cheese)"


@pytest.fixture
def runs(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """Every process that is started, which then runs as it would."""
    started: list[Any] = []
    run: Callable[..., Any] = subprocess.run

    def counted(*arguments: Any, **named: Any) -> Any:
        started.append(named["timeout"])
        return run(*arguments, **named)

    monkeypatch.setattr(subprocess, "run", counted)
    return started


def labels(found: dict[str, Any], key: str) -> list[str]:
    return [each["label"] for each in found[key]]


def test_two_requests_reason_once(serve: Any, pizzas: Answerer, runs: list[Any]) -> None:
    with serve(by=pizzas) as address, ThreadPoolExecutor(2) as pool:

        def ask(expression: str) -> dict[str, Any]:
            reply = httpx.get(f"{address}/api/concept", params={"expression": expression}, timeout=30)
            assert reply.status_code == 200, reply.text
            content: dict[str, Any] = reply.json()
            return content

        first, second = pool.map(ask, [CHEESY, CHEESY])
        assert first == second == ask("hasTopping some Cheese and Pizza") | {"expression": first["expression"]}
        assert labels(first, "equivalent") == ["CheesyPizza"]
        assert [each["name"] for each in first["direct_subclasses"]] == ["Margherita"]
        assert [each["name"] for each in first["instances"]] == ["mine"]
        assert len(runs) == 2, "one for each expression that is written differently"
        assert not ask("Pizza and Topping")["satisfiable"]
        assert len(runs) == 3
        assert labels(ask("Pizza"), "direct_subclasses") == ["CheesyPizza"]
        assert set(runs) == {Bounds().seconds * 0.9}


def test_reasoning_that_takes_too_long_is_stopped(serve: Any, pizzas: Answerer) -> None:
    with serve(ServerSettings(bounds=Bounds(seconds=0.1)), pizzas) as address:
        reply = httpx.get(f"{address}/api/concept", params={"expression": CHEESY})
        assert reply.status_code == 503
        assert "seconds" in reply.json()["detail"]
        assert httpx.get(f"{address}/health").status_code == 200
    with pytest.raises(Overloaded, match=r"Reasoning about this expression took more than 0\.01 seconds"):
        apart.query_apart([], "urn:x", 0.01)


def test_what_the_other_process_says_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "executable", "false")
    with pytest.raises(TarboxError, match="the reasoner failed: exit code 1"):
        apart.query_apart([], "urn:x", 5)
