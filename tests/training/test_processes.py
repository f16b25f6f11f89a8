"""Training in several processes: as one process trains, whoever has which rows; stopped, killed, and resumed."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from stopping import Stopper
from tarbox.core.errors import ConfigError
from tarbox.kb.facts import Facts
from tarbox.kb.vocabulary import Vocabulary
from tarbox.models.base import Sizes
from tarbox.models.complex import Complex, ComplexConfig
from tarbox.models.links import LinkSource, link_sources
from tarbox.training.checkpoints import State
from tarbox.training.events import read_metrics
from tarbox.training.failures import TrainingInterrupted
from tarbox.training.group import ProcessGroup, ProcessLost, lead
from tarbox.training.hardware import HardwareConfig, numerics, open_hardware
from tarbox.training.loop import build_engine
from tarbox.training.run import LAST, RunFolder, read_tensors
from tarbox.training.session import Listeners, resume, start
from tarbox.training.settings import Settings, read_assignments, resolve
from tarbox.training.sharded import LeaderOrder, ShardedEngine, follow
from tarbox.training.step import Stepper

PARTED = "parted_model:Parted"
SIZES = Sizes(entities=40, concepts=8, relations=3)
SETTINGS = {"batches": {"size": 32}, "optimizer": {"kind": "adagrad", "rate": 0.15}, "hardware": {"device": "cpu"}}
LINUX = pytest.mark.skipif(sys.platform != "linux", reason="looks at processes in /proc")


@pytest.fixture(scope="module")
def facts() -> Facts:
    """A relation leads from an entity to one of two others; entities have concepts in turn."""
    random = np.random.default_rng(0)
    words = Vocabulary.of([f"e{n:02}" for n in range(40)], [f"c{n}" for n in range(8)], ["p", "q", "r"])
    heads, relations = random.integers(0, 40, 400), random.integers(0, 3, 400)
    tails = (heads * 3 + relations * 5 + random.integers(0, 2, 400)) % 40
    stated = sorted(set(zip(heads.tolist(), relations.tolist(), tails.tolist(), strict=True)))
    return Facts.of(words, stated, [(entity, entity % 8) for entity in range(40)], [(0, 1), (1, 2), (3, 2)])


def settings_of(processes: int, shards: int) -> Settings:
    settings = resolve([{"model": {"name": "credo"}, **SETTINGS}])
    return replace(settings, hardware=replace(settings.hardware, processes=processes, shards=shards))


@contextmanager
def engine_of(
    facts: Facts, processes: int, shards: int = 0, lifts: bool = True
) -> Iterator[tuple[Stepper, Complex, ProcessGroup]]:
    """One process without shards has the plain engine."""
    settings = settings_of(processes, shards)
    hardware = open_hardware(settings.hardware)
    torch.manual_seed(0)
    predictor = Complex(ComplexConfig(rank=8, initial=0.1), SIZES)
    sources: list[LinkSource] = link_sources(facts, 0, hardware.device)
    if not lifts:
        sources = [LinkSource(own.task, own.links_L3, own.rivals, own.sparse) for own in sources]
    with lead(settings.hardware, follow, LeaderOrder.QUIT) as group, numerics(hardware):
        if processes == 1 and not shards:
            yield build_engine(settings, predictor, sources, hardware), predictor, group
            return
        engine = ShardedEngine(group, settings, predictor, sources, hardware)
        yield engine, predictor, group
        engine.release()


def train(engine: Stepper, epochs: int) -> list[float]:
    """The mean loss of each epoch."""
    step, losses = engine.runner(open_hardware(HardwareConfig("cpu"))), []
    for epoch in range(epochs):
        engine.set_rate(0.15)
        engine.portions.begin(0, epoch, 0)
        for _ in range(engine.portions.steps):
            step()
        losses.append(float(engine.losses_T.sum()) / engine.portions.steps)
        engine.losses_T.zero_()
    engine.collect()
    return losses


def test_two_shards_are_the_plain_engine(facts: Facts) -> None:
    """Up to the order of sums: rows lie in another order, and the numbers of entities and concepts are even, so that
    no row stands for no node. Typings are not lifted: that is drawn at other times."""
    with engine_of(facts, 1, lifts=False) as (plain, wanted, _):
        losses = train(plain, 3)
    with engine_of(facts, 1, shards=2, lifts=False) as (engine, found, _):
        assert isinstance(engine, ShardedEngine)
        assert engine.portions.steps == plain.portions.steps
        np.testing.assert_allclose(train(engine, 3), losses, rtol=1e-4)
    for one, other in zip(found.parameters(), wanted.parameters(), strict=True):
        torch.testing.assert_close(one, other, rtol=1e-3, atol=1e-4)
        squares = (each.optimizer.state[own]["squares"] for each, own in ((engine, one), (plain, other)))
        torch.testing.assert_close(*squares, rtol=1e-3, atol=1e-5)


@pytest.fixture(scope="module")
def alone(facts: Facts) -> list[float]:
    with engine_of(facts, 1) as (engine, _, _):
        return train(engine, 14)


@LINUX
@pytest.mark.parametrize("processes", [2, 3])
def test_many_learn_as_one_and_a_killed_one_ends_all(facts: Facts, alone: list[float], processes: int) -> None:
    """What is placed is collected again, bit by bit. Losses are not those of one process, since rivals are those at
    hand, but they fall as far."""
    lost = pytest.raises(ProcessLost, match=f"process {processes - 1} of {processes} was killed")
    with lost, engine_of(facts, processes) as (engine, predictor, group):
        before = [own.detach().clone() for own in predictor.parameters()]
        engine.portions.begin(0, 0, 0)
        for own in predictor.parameters():
            own.data.zero_()
        engine.collect()
        assert all(torch.equal(*pair) for pair in zip(before, predictor.parameters(), strict=True))
        losses = train(engine, 14)
        assert losses[-1] < 0.75 * losses[0]
        assert abs(losses[-1] / alone[-1] - 1) < 0.15, (losses, alone)
        children = group.children
        assert children[-1].pid is not None
        os.kill(children[-1].pid, signal.SIGKILL)
        began = time.monotonic()
        try:
            train(engine, 1)
        finally:
            assert time.monotonic() - began < 15
    assert not any(child.is_alive() for child in children)


@pytest.fixture
def parted() -> Callable[[int], Settings]:
    def make(processes: int) -> Settings:
        given = ["model.epochs=3", "batches.size=256", "optimizer.kind=adagrad", "optimizer.rate=0.1"]
        assignments = [*given, f"hardware.processes={processes}", "hardware.device=cpu"]
        return resolve([read_assignments(assignments, PARTED)], PARTED)

    return make


def test_a_stopped_training_goes_on_with_any_number_of_processes(
    store: Path, tmp_path: Path, parted: Callable[[int], Settings], ticking: Callable[[], float]
) -> None:
    whole = start(store, tmp_path / "whole", parted(2))
    with pytest.raises(TrainingInterrupted, match=r"interrupted in epoch 2 of first"):
        start(store, tmp_path / "cut-2", parted(2), Listeners([Stopper()], ticking))
    part = tmp_path / "cut-2" / "parts" / "first"
    assert len(list(part.glob("last-*.safetensors"))) == 4
    _, state = RunFolder(part).read_last()
    assert (state["epoch"], state["steps"]) == (1, read_tensors(part / LAST)[1]["steps"])
    assert 0 < state["step"] < state["steps"]
    for processes in (1, 3):
        _copy(tmp_path / "cut-2", tmp_path / f"cut-{processes}")
    for processes in (1, 2, 3):
        run = tmp_path / f"cut-{processes}"
        ended = resume(run, {"hardware": {"processes": processes}})
        assert (ended.epoch, ended.reason) == (whole.epoch, whole.reason)
        losses = [line["losses"] for line in read_metrics(run) if line["event"] == "epoch"]
        assert len(losses) == 6
        assert sum(losses[-1].values()) < 0.9 * sum(losses[0].values())
    weights = [(tmp_path / name / "model.safetensors").read_bytes() for name in ("whole", "cut-2")]
    assert weights[0] == weights[1]


def _copy(source: Path, target: Path) -> None:
    subprocess.run(["cp", "-a", source, target], check=True)


@LINUX
def test_a_killed_leader_leaves_no_process_behind(
    store: Path, tmp_path: Path, parted: Callable[[int], Settings]
) -> None:
    script = (
        f"import sys; sys.path.insert(0, {str(Path(__file__).parent)!r})\n"
        "from tarbox.training.session import start\n"
        "from tarbox.training.settings import resolve\n"
        "import tomllib\n"
        "if __name__ == '__main__':\n"
        f"    start({str(store)!r}, {str(tmp_path / 'run')!r}, resolve([tomllib.loads({parted(2).toml()!r})]))\n"
    )
    script = script.replace("epochs = 3", "epochs = 100000")
    file = tmp_path / "train.py"
    file.write_text(script)
    process = subprocess.Popen([sys.executable, file], stderr=subprocess.DEVNULL)
    metrics = tmp_path / "run" / "metrics.jsonl"
    _wait(lambda: metrics.exists() and "epoch" in metrics.read_text(), 120)
    children = _children(process.pid)
    assert len(children) >= 1
    process.kill()
    process.wait()
    _wait(lambda: not any(Path(f"/proc/{child}").exists() for child in children), 15)


def _children(pid: int) -> list[int]:
    return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def _wait(done: Callable[[], bool], seconds: float) -> None:
    deadline = time.monotonic() + seconds
    while not done():
        assert time.monotonic() < deadline, "it takes too long"
        time.sleep(0.05)


def test_other_models_and_optimizers_are_refused(store: Path, tmp_path: Path) -> None:
    def make(model: str, *assignments: str) -> State:
        given = ["hardware.processes=2", *assignments]
        return start(store, tmp_path / "run", resolve([read_assignments(given, model)], model))

    with pytest.raises(ConfigError, match="cqd is trained in one process, without shards; credo can be in several"):
        make("cqd")
    with pytest.raises(ConfigError, match=r"optimizer.kind is 'adam': several processes, and shards, are"):
        make("credo")
    with pytest.raises(ConfigError, match=r"processes = 0: it must be greater than 0"):
        HardwareConfig(processes=0)
    assert not (tmp_path / "run").exists()
