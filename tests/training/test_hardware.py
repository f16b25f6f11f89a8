"""A machine that is small and busy: threads, memory that stays, and memory that runs out."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
import torch

from tarbox.core.errors import ConfigError
from tarbox.core.memory import available
from tarbox.models.base import Sizes, Task
from tarbox.models.complex import Complex, ComplexConfig
from tarbox.models.links import LinkSource, Rivals
from tarbox.training import memory
from tarbox.training.failures import MemoryShortage, TrainingError, explained, require_memory
from tarbox.training.hardware import HardwareConfig, open_hardware, threads
from tarbox.training.loop import build_engine
from tarbox.training.settings import resolve
from tarbox.training.step import Engine

CPU = open_hardware(HardwareConfig("cpu"))
LINUX = pytest.mark.skipif(sys.platform != "linux", reason="limits and /proc are Linux's")


def engine_of_links(batch: int, nodes: int, candidates: int) -> Engine:
    links = torch.zeros(batch, 3, dtype=torch.int32)
    module = Complex(ComplexConfig(rank=64), Sizes(nodes, 0, 1))
    source = LinkSource(Task.ENTITY, links, Rivals(slice(0, nodes), candidates))
    return build_engine(resolve([{"batches": {"size": batch}}], "cqd"), module, [source], CPU)


@pytest.mark.parametrize(
    ("batch", "nodes", "candidates", "wanted"), [(512, 600, 0, 1), (4096, 20_000, 2048, 2), (512, 600, 2048, 1)]
)
def test_small_steps_run_on_one_thread(batch: int, nodes: int, candidates: int, wanted: int) -> None:
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        with threads(CPU, engine_of_links(batch, nodes, candidates).operations()):
            assert torch.get_num_threads() == wanted
        assert torch.get_num_threads() == 2
        with threads(open_hardware(HardwareConfig("cpu", threads=2)), 1):
            assert torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(before)
    with pytest.raises(ConfigError, match=r"hardware\.threads is -1"):
        HardwareConfig(threads=-1)


@LINUX
def test_memory_that_runs_out_is_an_error_of_ours() -> None:
    """In a process of its own; 1 EB is more than any machine has, and the next one more than is left."""
    script = (
        "import resource, torch\n"
        "from pathlib import Path\n"
        "from tarbox.training import memory\n"
        "from tarbox.training.failures import TrainingError, explained\n"
        "before = resource.getrlimit(resource.RLIMIT_DATA)\n"
        "memory.available = lambda: 200_000_000\n"
        "with memory.kept(), memory.limited() as renew:\n"
        "    assert torch.ones(25_000_000).sum() > 0\n"
        "    for grab in (lambda: torch.ones(100_000_000), lambda: bytearray(400_000_000)):\n"
        "        try:\n"
        "            with explained(Path('run')): grab()\n"
        "        except TrainingError as error: print(error)\n"
        "    memory.available = lambda: 2_000_000_000\n"
        "    renew()\n"
        "    torch.ones(100_000_000)\n"
        "assert resource.getrlimit(resource.RLIMIT_DATA) == before\n"
        "torch.ones(100_000_000)\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert done.stderr == ""
    first, second = done.stdout.splitlines()
    assert first == second
    assert first.startswith("out of memory. There is no checkpoint yet. Try a smaller step (--set batches.size=1024)")


@LINUX
def test_what_is_left_is_less_where_a_group_is_limited(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = available()
    assert whole is not None
    for name, text in (("max", "3000000"), ("current", "2000000"), ("stat", "anon 5\ninactive_file 500000\n")):
        (tmp_path / f"memory.{name}").write_text(text)
    monkeypatch.setattr("tarbox.core.memory._groups", lambda: iter([tmp_path]))
    assert available() == 1_500_000
    (tmp_path / "memory.max").write_text("max\n")
    assert (available() or 0) > 1_500_000
    assert memory.resident_peak() > 10_000_000


def test_a_shortage_is_said_in_gigabytes() -> None:
    require_memory(10, None, "of memory", "")
    require_memory(10, 10, "of memory", "")
    message = r"wants about 12\.3 GB more of memory, and 0\.03 GB are left\. Lower rank\."
    with pytest.raises(MemoryShortage, match=message):
        require_memory(12_340_000_000, 31_000_000, "of memory", "Lower rank.")


def test_a_lack_of_memory_anywhere_is_explained(tmp_path: Path) -> None:
    for error in (MemoryError(), RuntimeError("std::bad_alloc"), torch.OutOfMemoryError("CUDA out of memory")):
        with pytest.raises(TrainingError, match="out of memory"), explained(tmp_path):
            raise error
