"""Training in several processes, killed at any moment: what is resumed ends as if nothing had happened."""

from __future__ import annotations

import itertools
import multiprocessing
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest
import torch
from torch import Tensor

from tarbox.training.events import Event, Ticked, read_metrics
from tarbox.training.group import ProcessGroup, ProcessLost, lead
from tarbox.training.hardware import HardwareConfig
from tarbox.training.run import LAST, RunFolder
from tarbox.training.session import Listeners, resume, start
from tarbox.training.settings import Settings, read_assignments, resolve

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="looks at processes in /proc")
PARTED = "parted_model:Parted"
SCRIPT = """
import itertools, sys, time, tomllib
sys.path.insert(0, {tests!r})
from tarbox.core.errors import TarboxError
from tarbox.training.events import Ticked
from tarbox.training.session import Listeners, start
from tarbox.training.settings import resolve

def linger(event):
    if isinstance(event, Ticked):  # after every step: there is time to be killed
        time.sleep(0.03)

def main():
    readings = itertools.count(0.0, 2.0)  # by this clock a checkpoint is due after every step
    try:
        start({store!r}, {run!r}, resolve([tomllib.loads({settings!r})]), Listeners([linger], lambda: next(readings)))
    except TarboxError as error:
        sys.exit(str(error))

if __name__ == "__main__":
    main()
"""


def settings_of(processes: int) -> Settings:
    given = ["model.epochs=3", "batches.size=1024", "optimizer.kind=adagrad", "optimizer.rate=0.1"]
    assignments = [*given, f"hardware.processes={processes}", "hardware.device=cpu", "checkpoints.minutes=0.0"]
    return resolve([read_assignments(assignments, PARTED)], PARTED)


@pytest.fixture(scope="module")
def whole(store: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of two processes that nobody disturbs."""
    run = tmp_path_factory.mktemp("whole") / "run"
    start(store, run, settings_of(2))
    return run


@contextmanager
def begun(store: Path, run: Path) -> Iterator[subprocess.Popen[str]]:
    """A training of two processes, which are a process group of their own, with its first checkpoint."""
    file = run.with_suffix(".py")
    told = {"tests": str(Path(__file__).parent), "store": str(store), "run": str(run)}
    file.write_text(SCRIPT.format(**told, settings=settings_of(2).toml()))
    with subprocess.Popen([sys.executable, file], stderr=subprocess.PIPE, text=True, start_new_session=True) as process:
        try:
            deadline = time.monotonic() + 120
            while not (run / "parts" / "first" / LAST).exists():
                assert time.monotonic() < deadline, "it takes too long"
                time.sleep(0.01)
            yield process
        finally:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)


@pytest.mark.slow
def test_all_killed_at_once(store: Path, whole: Path, tmp_path: Path) -> None:
    """With as many processes it ends bit by bit as the one that nobody disturbed, with others about there."""
    with begun(store, run := tmp_path / "run-2") as process:
        time.sleep(moment := random.uniform(0, 0.5))
    process.wait()
    assert process.returncode == -signal.SIGKILL, f"killed after {moment} s"
    for processes in (1, 3):
        shutil.copytree(run, tmp_path / f"run-{processes}")
    for processes in (1, 2, 3):
        resume(own := tmp_path / f"run-{processes}", {"hardware": {"processes": processes}})
        wanted, found = ([line for line in read_metrics(each) if line["event"] == "epoch"] for each in (whole, own))
        assert [line["epoch"] for line in found] == [line["epoch"] for line in wanted], moment
        ends = [sum(lines[-1]["losses"].values()) for lines in (wanted, found)]
        assert ends[1] == pytest.approx(ends[0], rel=0.15), moment
    assert (run / "model.safetensors").read_bytes() == (whole / "model.safetensors").read_bytes(), moment


@pytest.mark.slow
def test_one_killed(store: Path, whole: Path, tmp_path: Path) -> None:
    """The others end at once, the leader with one line."""
    with begun(store, run := tmp_path / "run") as process:
        time.sleep(moment := random.uniform(0, 0.5))
        children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
        followers = [int(pid) for pid in children if b"spawn_main" in Path(f"/proc/{pid}/cmdline").read_bytes()]
        assert len(followers) == 1
        os.kill(followers[0], signal.SIGKILL)
        told = process.communicate(timeout=60)[1]
    assert process.returncode == 1, (moment, told)
    assert told.splitlines() == [
        "process 1 of 2 was killed (signal 9; out of memory?). Training cannot go on without it; "
        "--resume continues from the last checkpoint."
    ]
    resume(run, {})
    assert (run / "model.safetensors").read_bytes() == (whole / "model.safetensors").read_bytes(), moment


def test_nothing_of_the_group_outlives_it(store: Path, tmp_path: Path) -> None:
    """Neither where training ends nor where a process is lost: a thread that frees a tensor late aborts Python."""

    def kill(event: Event) -> None:
        if isinstance(event, Ticked):
            for process in multiprocessing.active_children():
                process.kill()
                process.join()
            time.sleep(0.5)  # gloo has seen it: its threads have nothing to send

    start(store, tmp_path / "run", settings_of(2))
    assert not group_threads()
    readings = itertools.count(0.0, 2.0)  # by this clock there is an event after every step
    with pytest.raises(ProcessLost, match=r"process 1 of 2 was killed \(signal 9"):
        start(store, tmp_path / "lost", settings_of(2), Listeners([kill], lambda: next(readings)))
    assert not group_threads()


_HELD = 20.0
"""Seconds."""
WAYS: dict[str, Callable[[ProcessGroup, Tensor], object]] = {
    "order": lambda group, _: group.tell(1.0),
    "broadcast": lambda group, tensor: group.broadcast(tensor),
    "sum": lambda group, tensor: group.add_up(tensor)(),
    "sent": lambda group, tensor: group.exchange([(tensor, 1)], []),
    "received": lambda group, tensor: group.exchange([], [(tensor, 1)]),
}


def be_killed_unseen(group: ProcessGroup) -> None:
    """What it has begun holds the connection open: that it is gone is not to be seen there."""
    group.hear()
    if os.fork() == 0:
        time.sleep(_HELD)
        os._exit(0)
    os.kill(os.getpid(), signal.SIGKILL)


@pytest.mark.parametrize("way", WAYS)
def test_no_message_waits_for_a_process_that_is_gone(way: str) -> None:
    """Whatever the connection says: gloo forgets what it was to send to one that ends at that moment."""
    lost = pytest.raises(ProcessLost, match=r"process 1 of 2 was killed \(signal 9")
    with lost, lead(HardwareConfig("cpu", processes=2), be_killed_unseen, 0.0) as group:
        group.tell(1.0)
        began = time.monotonic()
        try:
            WAYS[way](group, torch.zeros(10_000_000))
        finally:
            assert time.monotonic() - began < _HELD / 2


def group_threads() -> list[str]:
    names = [(task / "comm").read_text().strip() for task in Path("/proc/self/task").iterdir()]
    return [name for name in names if "gloo" in name]


def test_a_checkpoint_leaves_the_files_of_the_one_before_as_they_are(tmp_path: Path) -> None:
    """Of as many steps, too: with another number of processes these are others, and one may be killed in between."""
    folder, state = RunFolder(tmp_path), {"epoch": 1, "step": 5}
    written: list[set[str]] = []
    for shards in (4, 2, 2, 1):
        folder.write_last({"model/nodes": torch.full((8, 2), float(len(written)))}, state, shards)
        files = {file.name for file in tmp_path.iterdir()} - {LAST}
        assert len(files) == (shards if shards > 1 else 0)
        assert not any(files & earlier for earlier in written[-1:])
        tensors, found = folder.read_last()
        assert found == state
        assert torch.equal(tensors["model/nodes"], torch.full((8, 2), float(len(written))))
        written.append(files)
