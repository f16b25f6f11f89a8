"""Models that are trained in parts, through the one seam: parts, resumption, estimates, limits of time and memory."""

# ruff: noqa: ARG002

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from tarbox.benchmark.folder import open_benchmark
from tarbox.core.errors import ConfigError
from tarbox.models.base import Task
from tarbox.models.learning.batches import BatchConfig, Draw, SampleSource
from tarbox.models.learning.negatives import Sampler
from tarbox.models.learning.objective import Objective
from tarbox.models.learning.seam import Stage, TrainingData
from tarbox.models.recording import Recorded
from tarbox.models.saved import open_run
from tarbox.training.adagrad import Adagrad, merge_rows
from tarbox.training.context import TrainingContext
from tarbox.training.events import (
    EpochEnded,
    Estimated,
    Event,
    Finished,
    PartBegan,
    PartProgressed,
    Started,
    Ticked,
    Validated,
    read_metrics,
)
from tarbox.training.failures import MemoryShortage, StopSignals, TrainingInterrupted
from tarbox.training.hardware import Hardware, HardwareConfig, open_hardware
from tarbox.training.loop import Observers, build_engine
from tarbox.training.reporting import ProgressReport
from tarbox.training.run import RunFolder, read_tensors
from tarbox.training.session import Listeners, resume, start
from tarbox.training.settings import Settings, resolve
from tarbox.training.step import Engine

PARTED = "parted_model:Parted"


def parted(**tables: object) -> Settings:
    given = {"batches": {"size": 512}, "optimizer": {"kind": "adagrad", "rate": 0.1}, "stopping": {"epochs": 2}}
    return resolve([given, tables], PARTED)


class StopAt:
    """Asks the process to stop when the given event is told for the n-th time."""

    def __init__(self, kind: type[Event], count: int) -> None:
        self.kind, self.left = kind, count

    def __call__(self, event: Event) -> None:
        if isinstance(event, self.kind):
            self.left -= 1
            if self.left == 0:
                os.kill(os.getpid(), signal.SIGTERM)


def test_a_model_of_parts_is_trained_validated_and_asked(bench: Path, tmp_path: Path) -> None:
    heard: list[Event] = []
    state = start(bench, tmp_path / "run", parted(), Listeners([heard.append]))
    begun = [event.part for event in heard if isinstance(event, PartBegan)]
    assert begun == ["fitting a link predictor", "fitting it again", "summing up"]
    assert [event.part for event in heard if isinstance(event, Started)] == ["first", "second"]
    (validated,) = (event for event in heard if isinstance(event, Validated))
    assert isinstance(heard[-1], Finished)
    assert (state.reason, state.best) == ("reached stopping.epochs", validated.mrr)
    assert not (tmp_path / "run" / "parts").exists()
    run = open_run(tmp_path / "run")
    assert run.settings["model"]["rank"] == 4  # what the hardware decides is written
    assert (tmp_path / "run" / "curves.png").exists()
    told: list[Event] = []
    again = resume(tmp_path / "run", {}, Listeners([told.append]))
    assert (again.reason, again.best, told) == (state.reason, state.best, [])


@pytest.fixture(scope="module")
def whole(bench: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run that nobody disturbs."""
    run = tmp_path_factory.mktemp("parts") / "whole"
    start(bench, run, parted())
    return run


@pytest.mark.parametrize(("kind", "count", "again"), [(EpochEnded, 1, ["first", "second"]), (PartBegan, 3, [])])
def test_a_killed_run_goes_on_in_the_part_it_was_in(
    bench: Path, whole: Path, tmp_path: Path, kind: type[Event], count: int, again: list[str]
) -> None:
    with pytest.raises(TrainingInterrupted, match=r"interrupted in .*; to continue, run `tarbox train --resume -o"):
        start(bench, tmp_path / "cut", parted(), Listeners([StopAt(kind, count)]))
    assert (tmp_path / "cut" / "parts").exists()
    heard: list[Event] = []
    resume(tmp_path / "cut", {}, Listeners([heard.append]))
    assert [event.part for event in heard if isinstance(event, Started)] == again
    tensors = [read_tensors(run / "model.safetensors")[0] for run in (whole, tmp_path / "cut")]
    assert torch.equal(tensors[0]["sums"], tensors[1]["sums"])
    lines = [[(line.get("part"), line["epoch"]) for line in read_metrics(run)] for run in (whole, tmp_path / "cut")]
    assert lines[0] == lines[1]


DEATHS = {"EpochEnded": 3, "PartBegan": 3, "Validated": 1, "Finished": 1}
"""The event at which a process dies, told for the n-th time."""
DYING = """
import os, signal, sys
sys.path.insert(0, sys.argv[1])
from tarbox.training.session import Listeners, start
from tarbox.training.settings import read_file, resolve
import parted_model, torch._dynamo  # what a first step would import

def dying(event, count):
    left = [count]
    def stop(told):
        left[0] -= type(told).__name__ == event
        if not left[0]: os.kill(os.getpid(), signal.SIGKILL)
    return stop

for death in sys.argv[4:]:  # a process for each; Python is started once for all of them
    event, count, run = death.split(":", 2)
    if not (child := os.fork()):
        start(sys.argv[2], run, resolve([read_file(sys.argv[3])]), Listeners([dying(event, int(count))]))
        os._exit(0)
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""


@pytest.fixture(scope="module")
def dead(bench: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Runs whose processes have died, by the event at which they did."""
    folder = tmp_path_factory.mktemp("dead")
    (folder / "settings.toml").write_text(parted().toml())
    runs = {event: folder / event for event in DEATHS}
    deaths = [f"{event}:{count}:{runs[event]}" for event, count in DEATHS.items()]
    command = [sys.executable, "-c", DYING, str(Path(__file__).parent), str(bench), str(folder / "settings.toml")]
    done = subprocess.run([*command, *deaths], capture_output=True, text=True, check=True)
    assert done.stdout.split() == [str(-signal.SIGKILL)] * len(DEATHS), done.stderr
    return runs


@pytest.mark.parametrize("event", DEATHS)
def test_a_process_that_dies_loses_no_finished_part(whole: Path, dead: dict[str, Path], event: str) -> None:
    """Killed where nothing can be written any more; after the last event the parts are still to be removed."""
    heard: list[Event] = []
    resume(cut := dead[event], {}, Listeners([heard.append]))
    again = [event.part for event in heard if isinstance(event, Started)]
    assert again == (["second"] if event == "EpochEnded" else [])
    assert (cut / "model.safetensors").read_bytes() == (whole / "model.safetensors").read_bytes()
    assert not (cut / "parts").exists()
    assert [line["event"] for line in read_metrics(cut)].count("end") == 1


def test_what_the_optimizer_knows_goes_on_in_the_next_stage(bench: Path, tmp_path: Path) -> None:
    """Two stages of one epoch each are two epochs with the samples of the first one."""
    facts, hardware = open_benchmark(bench).store.facts, open_hardware(HardwareConfig("cpu"))
    observers = Observers(ProgressReport((), float), StopSignals(), float)
    context = TrainingContext(parted(), TrainingData(facts), hardware, RunFolder(tmp_path), observers)
    module = torch.nn.Linear(1, 1, bias=False)
    source = Slope()
    first = context.fit(module, [source], Stage("first", 1))["weight"].clone()
    squares = read_tensors(tmp_path / "parts" / "first" / "last.safetensors")[0]["optimizer/weight/squares"]
    second = context.fit(module, [source], Stage("second", 1))["weight"]
    steps = round(len(source) / 512)
    assert squares.item() == pytest.approx(steps)  # every gradient is 1
    assert (first - second).item() == pytest.approx(sum(0.1 / (steps + n + 1) ** 0.5 for n in range(steps)), rel=1e-4)


class Slope(SampleSource):
    """Samples whose loss is the weight itself: its gradient is 1."""

    name, task = "slope", Task.ENTITY

    def __len__(self) -> int:
        return 1536

    def draw(self, rows_B: torch.Tensor, sampler: Sampler) -> Draw:  # noqa: N803
        return Draw(rows_B, rows_B, rows_B)

    def loss(self, module: torch.nn.Module, draw: Draw, objective: Objective) -> torch.Tensor:
        (weight,) = module.parameters()
        return weight.sum()


def test_time_ends_within_an_epoch(bench: Path, tmp_path: Path, ticking: Callable[[], float]) -> None:
    heard: list[Event] = []
    given = resolve([{"batches": {"size": 16}, "stopping": {"epochs": 9, "minutes": 0.5}}], "tiny_model:Tiny")
    state = start(bench, tmp_path / "run", given, Listeners([heard.append], ticking))
    assert (state.epoch, state.reason) == (0, "reached stopping.minutes")
    assert 0 < state.step < next(event for event in heard if isinstance(event, Started)).steps
    assert state.best is not None
    assert open_run(tmp_path / "run").scorer()
    assert [line["event"] for line in read_metrics(tmp_path / "run")] == ["epoch", "validation", "end"]


def test_more_time_goes_on_where_it_ended(bench: Path, tmp_path: Path, ticking: Callable[[], float]) -> None:
    given = resolve([{"batches": {"size": 512}, "stopping": {"epochs": 2, "minutes": 0.5}}], "tiny_model:Tiny")
    state = start(bench, tmp_path / "run", given, Listeners(clock=ticking))
    assert (state.epoch, state.reason) == (0, "reached stopping.minutes")
    again = resume(tmp_path / "run", {"stopping": {"minutes": 0}})
    assert (again.epoch, again.reason) == (2, "reached stopping.epochs")
    assert [line["epoch"] for line in read_metrics(tmp_path / "run") if line["event"] == "epoch"] == [1, 2]


def test_what_cannot_fit_is_refused_before_it_begins(bench: Path, tmp_path: Path) -> None:
    message = (
        r"this training wants about 1,000,000\.0 GB more of the machine's memory, and .* GB are left\. Lower it with"
    )
    with pytest.raises(MemoryShortage, match=message):
        start(bench, tmp_path / "run", parted(model={"host": 10**15}))
    assert not (tmp_path / "run").exists()


def test_one_estimate_for_the_whole() -> None:
    now, heard = [0.0], list[Event]()
    report = ProgressReport([heard.append], lambda: now[0], lambda: (5, 7))
    assert report.seconds_left() is None
    report.plan({"a": 1, "b": 3})
    report.begin("a")
    now[0] = 10.0
    report.progress(0.5)
    assert report.seconds_left() == pytest.approx(70)
    now[0] = 20.0
    report.begin("b")
    assert report.seconds_left() == pytest.approx(60)
    report.skip(0.5)  # what a checkpoint brought back took no time now
    assert report.seconds_left() == pytest.approx(30)
    assert [event for event in heard if isinstance(event, Estimated)] == [Estimated(70.0, 5, 7)]
    assert [event for event in heard if isinstance(event, PartProgressed)] == [PartProgressed("a", 0.5, 70.0)]


def test_no_estimate_before_it_is_based_on_steps() -> None:
    now, heard = [0.0], list[Event]()
    report = ProgressReport([heard.append], lambda: now[0])
    report.plan({"a": 1, "b": 1})
    report.begin("a")
    now[0] = 30.0  # samples are made ready: as if nothing had been done in 30 seconds
    report.start()
    for now[0], done in ((34.0, 0.01), (36.0, 0.06), (38.5, 0.10)):  # the first steps take longer than all others
        report.advance(done)
        assert (report.seconds_left(), heard[1:]) == (None, [])
    now[0] = 44.0
    report.advance(0.26)
    assert report.seconds_left() == pytest.approx(10 / 0.25 * 1.74)
    assert [event for event in heard if isinstance(event, Estimated)] == [Estimated(69.6, 0, 0)]


def test_a_part_between_steps_makes_no_first_estimate() -> None:
    """It may be that code is compiled there, once."""
    now, heard = [0.0], list[Event]()
    report = ProgressReport([heard.append], lambda: now[0])
    report.plan({"a": 1, "b": 1, "c": 2})
    report.begin("a")
    report.start()
    for now[0], done in ((1.0, 0.1), (2.0, 1.0)):
        report.advance(done)
    report.begin("b")
    now[0] = 30.0
    report.progress(0.1)
    assert not [event for event in heard if isinstance(event, Estimated)]
    now[0] = 31.0
    report.begin("c")
    [estimated] = [event for event in heard if isinstance(event, Estimated)]
    assert estimated.seconds == pytest.approx(30 / 0.475 * 0.5, abs=0.1)


def test_a_sparse_gradient_updates_its_rows_as_a_dense_one_does() -> None:
    tables = [torch.nn.Parameter(torch.arange(12.0).view(6, 2)) for _ in range(2)]
    sparse, dense = (Adagrad([{"params": [table], "lr": 0.3}]) for table in tables)
    for rows in ([1, 4, 1], [4, 0, 0]):
        for table, optimizer, is_sparse in ((tables[0], sparse, True), (tables[1], dense, False)):
            optimizer.zero_grad(set_to_none=True)
            torch.nn.functional.embedding(torch.tensor(rows), table, sparse=is_sparse).square().sum().backward()
            assert table.grad is not None
            assert table.grad.is_sparse == is_sparse
            optimizer.step()
        torch.testing.assert_close(tables[0], tables[1])
    assert torch.equal(tables[0][[2, 3, 5]], torch.arange(12.0).view(6, 2)[[2, 3, 5]])


def test_the_rows_of_a_sparse_gradient_are_summed_without_being_counted() -> None:
    rows = torch.tensor([[3, 0, 3, 5, 3, 1, 5]])
    values = torch.arange(14, dtype=torch.float32).reshape(7, 2)
    gradient = torch.sparse_coo_tensor(rows, values, (7, 2), check_invariants=False)
    found, sums, last = merge_rows(gradient)
    assert (len(found), int(last)) == (7, 3)
    assert found[:4].tolist() == [0, 1, 3, 5]  # each once: squares are of sums
    torch.testing.assert_close(sums[:4], gradient.to_dense()[found[:4]])


def test_steps_are_recorded_on_a_gpu_unless_several_processes_agree_in_them() -> None:
    """Which need not be there to decide it."""
    gpu, module = Hardware(HardwareConfig(), torch.device("cuda")), torch.nn.Linear(1, 1)
    engine = build_engine(parted(), module, [Slope()], open_hardware(HardwareConfig("cpu")))
    assert isinstance(engine.runner(gpu), Recorded)
    parts = engine.module, engine.portions, engine.objective, engine.optimizer, engine.sampler
    assert not isinstance(Engine(*parts, lambda tasks: tasks).runner(gpu), Recorded)


def test_settings_are_checked_by_their_class() -> None:
    with pytest.raises(ConfigError, match=r"no setting 'model\.dimension'"):
        parted(model={"dimension": 3})
    assert parted().batches == BatchConfig(size=512)


def test_a_run_that_ticks_says_how_long_it_takes(bench: Path, tmp_path: Path, ticking: Callable[[], float]) -> None:
    heard: list[Event] = []
    start(bench, tmp_path / "run", parted(), Listeners([heard.append], ticking))
    (estimate,) = (event for event in heard if isinstance(event, Estimated))
    assert estimate.seconds > 0
    assert estimate.host_bytes > 10**7
    told = [event.seconds_left for event in heard if isinstance(event, Ticked)]
    left = [seconds for seconds in told if seconds is not None]
    assert told[0] is None
    assert left[-1] < left[0]
