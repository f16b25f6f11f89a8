"""A sample of the hostile requests of `benchmarks/hostile.py`: the server keeps answering and its memory stays."""

from __future__ import annotations

import asyncio
import importlib.util
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import httpx
import pytest

ROOT = Path(__file__).parents[2]
SAMPLE = 400
PROGRAM = """
import sys
from pathlib import Path
from tarbox.cli.serve import run
from tarbox.http.settings import Bounds, ServerSettings
run(Path(sys.argv[1]), ServerSettings(port=0, bounds=Bounds(reading=1.0)))
"""


@pytest.fixture(scope="module")
def hostile() -> ModuleType:
    spec = importlib.util.spec_from_file_location("hostile", ROOT / "benchmarks" / "hostile.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["hostile"] = module
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def own_process(store: Path) -> Iterator[str]:
    """A server in a process of its own, so that its memory can be told from that of the tests."""
    with subprocess.Popen([sys.executable, "-c", PROGRAM, str(store)], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        found = re.search(r"http://[\d.:]+", process.stdout.readline())
        assert found is not None
        yield found[0]
        process.terminate()
        assert process.wait(20) == 0


def resident(address: str) -> int:
    found = re.search(r"^process_resident_memory_bytes (\S+)", httpx.get(f"{address}/metrics").text, re.MULTILINE)
    assert found is not None
    assert float(found[1]) > 1e7
    return int(float(found[1]))


def test_hostile_requests(own_process: str, hostile: ModuleType) -> None:
    asyncio.run(hostile.launch(own_process, hostile.attacks(100, seed=1)))  # what is built on first use is built now
    before = resident(own_process)
    outcome = asyncio.run(hostile.launch(own_process, hostile.attacks(SAMPLE)))
    assert outcome.failures() == 0, outcome.statuses
    assert sum(outcome.statuses.values()) + sum(outcome.closed.values()) == SAMPLE
    assert sum(outcome.closed.values()) < SAMPLE / 10, outcome.closed
    assert {status for _, status in outcome.statuses} >= {200, 400, 404, 408, 413}
    started = time.monotonic()
    answer = httpx.get(f"{own_process}/api/answer", params={"query": "worksAt value Google"})
    assert answer.status_code == 200
    assert time.monotonic() - started < 2
    assert resident(own_process) - before < 40 << 20
