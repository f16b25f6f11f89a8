"""A served store is replaced by another version: the server reads it anew, and nobody notices but by the answers."""

from __future__ import annotations

import json
import signal
import sys
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from functools import partial
from http.client import HTTPConnection
from pathlib import Path
from subprocess import Popen
from types import ModuleType
from typing import Any

import httpx
import pytest

from tarbox.http.settings import ServerSettings
from tarbox.kb.build import BuildOptions, build
from tarbox.kb.sources import find_sources

KEY = {"X-API-Key": "open sesame"}
ASKED = "/api/answer?query=Person&k=9"
get, post = partial(httpx.get, timeout=90), partial(httpx.post, timeout=90)  # a busy machine takes its time
linux = pytest.mark.skipif(sys.platform != "linux", reason="connections are shared on Linux only")


@pytest.fixture(scope="module")
def versions(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    folder = tmp_path_factory.mktemp("versions")
    for number in range(2):
        (folder / f"{number}.ttl").write_text(f"<urn:x:p{number}> a <urn:x:Person> ; <urn:x:knows> <urn:x:q{number}> .")
        build(find_sources([str(folder / f"{number}.ttl")])[0], folder / str(number), BuildOptions())
    return [folder / str(number) for number in range(2)]


@pytest.fixture(scope="module")
def served(
    failures: ModuleType, versions: list[Path], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[Path, str, Popen[str]]]:
    link = tmp_path_factory.mktemp("served") / "kb"
    link.symlink_to(versions[0])
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TARBOX_API_KEY", KEY["X-API-Key"])
        with failures.served(link, 0, "--workers", "1", "--timeout", "60") as (address, process):
            yield link, address, process


def point(link: Path, target: Path) -> None:
    scratch = link.with_name("next")
    scratch.symlink_to(target)
    scratch.replace(link)


def until(condition: Callable[[], object]) -> None:
    end = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.05)


def ask(connection: HTTPConnection) -> tuple[dict[str, Any], str]:
    connection.request("GET", ASKED, headers=KEY)
    with connection.getresponse() as reply:
        assert reply.status == 200
        return json.load(reply), str(reply.headers["X-Facts-Version"])


def version(address: str) -> str:
    return str(get(f"{address}/health").headers["X-Facts-Version"])


@linux
def test_another_version_is_served_over_the_same_connection(
    served: tuple[Path, str, Popen[str]], versions: list[Path]
) -> None:
    link, address, process = served
    host, port = address.removeprefix("http://").split(":")
    kept = HTTPConnection(host, int(port), timeout=60)
    before, old = ask(kept)
    tag = get(address + ASKED, headers=KEY).headers["ETag"]
    kept.auto_open = 0  # the same connection, or none
    point(link, versions[1])
    reply = post(f"{address}/api/reload", headers=KEY)
    assert (reply.status_code, reply.json()["status"]) == (200, "reloaded")
    after, new = ask(kept)
    assert [each["name"] for each in before["entities"]] == ["p0"]
    assert [each["name"] for each in after["entities"]] == ["p1"]
    assert old != new == reply.json()["facts"]["version"]
    assert get(f"{address}/api/kb", headers=KEY).json()["facts"] == reply.json()["facts"]
    assert get(address + ASKED, headers=KEY | {"If-None-Match": tag}).status_code == 200  # another reply now
    point(link, versions[0])
    process.send_signal(signal.SIGHUP)
    until(lambda: version(address) == old)
    again, of_which = ask(kept)
    assert (again["entities"], of_which) == (before["entities"], old)
    kept.close()


@linux
def test_what_cannot_be_opened_is_not_served(served: tuple[Path, str, Popen[str]], tmp_path: Path) -> None:
    link, address, _ = served
    now, target = version(address), link.resolve()
    point(link, tmp_path)
    reply = post(f"{address}/api/reload", headers=KEY)
    assert reply.status_code == 409
    assert reply.json()["type"] == "urn:tarbox:problem:reload"
    assert "no store at" in reply.json()["detail"]
    assert version(address) == now
    point(link, target)
    assert get(f"{address}/health").json()["workers"] == {"up": 1, "expected": 1}


def test_the_route_is_for_those_who_have_the_key(serve: Any) -> None:
    with serve() as address:
        reply = post(f"{address}/api/reload")
        assert (reply.status_code, reply.json()["type"]) == (403, "urn:tarbox:problem:no-key")
        assert "--api-key" in reply.json()["detail"]
    with serve(ServerSettings(api_key=KEY["X-API-Key"])) as address:
        assert post(f"{address}/api/reload").status_code == 401
        alone = post(f"{address}/api/reload", headers=KEY)  # in one process, which nobody can replace
        assert (alone.status_code, alone.json()["type"]) == (409, "urn:tarbox:problem:reload")


def test_every_reply_says_which_facts_it_is_of(client: httpx.Client) -> None:
    facts = client.get("/api/kb").json()["facts"]
    assert facts["version"]
    for path in ("/", ASKED, "/nothing", "/sparql?query=ASK%20%7B%7D"):
        headers = client.get(path).headers
        assert (headers["X-Facts-Version"], headers["X-Facts-Built"]) == (facts["version"], facts["built"])
    assert abs(datetime.fromisoformat(facts["built"]) - datetime.now(UTC)) < timedelta(days=1)
