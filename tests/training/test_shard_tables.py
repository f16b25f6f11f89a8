"""Tables at home, of which shards come to the device: as if all were there, whatever is copied when."""

from __future__ import annotations

import itertools
import shutil
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import settings as profile
from hypothesis import strategies as st
from torch import Tensor, nn

from stopping import Stopper
from tarbox.cli.progress_line import ProgressLine
from tarbox.cli.training_progress import ProgressPrinter
from tarbox.core.errors import ConfigError
from tarbox.kb.facts import Facts
from tarbox.kb.vocabulary import Vocabulary
from tarbox.models.base import Sizes
from tarbox.models.complex import Complex, ComplexConfig
from tarbox.models.learning.batches import Draw, Portions, SampleSource
from tarbox.models.learning.negatives import Sampler
from tarbox.models.learning.objective import Objective
from tarbox.models.links import LinkSource, link_sources
from tarbox.models.saved import WEIGHTS
from tarbox.training.events import Event, TablesAtHome, read_metrics
from tarbox.training.failures import TrainingInterrupted
from tarbox.training.group import ProcessGroup
from tarbox.training.hardware import Hardware, HardwareConfig, numerics, open_hardware
from tarbox.training.session import Listeners, resume, start
from tarbox.training.settings import Settings, read_assignments, resolve
from tarbox.training.shard_tables import RowCopies
from tarbox.training.sharded import ShardedEngine
from tarbox.training.sharding import NodeShards, Rounds
from tarbox.training.step import Engine, build_optimizer

CPU = torch.device("cpu")
PARTED = "parted_model:Parted"


@profile(deadline=None)
@given(st.integers(1, 9), st.integers(1, 40), st.integers(0, 2**32 - 1))
def test_rows_come_and_go_in_blocks_of_any_size(block: int, nodes: int, seed: int) -> None:
    """To rows that are not beside each other, as those of a slot; a row of nobody comes as 0 and goes nowhere."""
    random = torch.Generator().manual_seed(seed)
    table, copies = torch.randn(nodes, 3, generator=random), RowCopies(CPU, CPU, 3, block)
    rows = torch.randperm(nodes, generator=random)
    rows[torch.rand(nodes, generator=random) < 0.2] = -1
    here = torch.full((nodes, 2, 3), 7.0)
    copies.read(table, rows, here[:, 1])
    assert bool((here[:, 0] == 7.0).all())
    for own, node in zip(here[:, 1], rows.tolist(), strict=True):
        assert torch.equal(own, torch.zeros(3) if node < 0 else table[node])
    wanted = table.clone()
    wanted[rows[rows >= 0]] += 1
    copies.write(table, rows, here[:, 1] + 1)
    assert torch.equal(table, wanted)


def facts_of(sizes: Sizes) -> Facts:
    random, entities, counts = np.random.default_rng(0), sizes.entities, {"e": sizes.entities, "c": sizes.concepts}
    names = ([f"{kind}{number:02}" for number in range(count)] for kind, count in counts.items())
    words = Vocabulary.of(*names, ["p", "q", "r"])
    heads, relations = random.integers(0, entities, 400), random.integers(0, 3, 400)
    tails = (heads * 3 + relations * 5 + random.integers(0, 2, 400)) % entities
    stated = sorted(set(zip(heads.tolist(), relations.tolist(), tails.tolist(), strict=True)))
    typings = [(entity, entity % sizes.concepts) for entity in range(entities)]
    return Facts.of(words, stated, typings, [(0, 1), (1, 2), (3, 2)])


def settings_of(shards: int) -> Settings:
    table = {"batches": {"size": 32}, "optimizer": {"kind": "adagrad", "rate": 0.15}, "hardware": {"device": "cpu"}}
    settings = resolve([{"model": {"name": "credo"}, **table}])
    return replace(settings, hardware=replace(settings.hardware, shards=shards))


def predictor_of(sizes: Sizes) -> Complex:
    torch.manual_seed(0)
    return Complex(ComplexConfig(rank=8, initial=0.1), sizes)


def train_in_shards(
    predictor: Complex, sources: Sequence[LinkSource], shards: int, disturb: Callable[[ShardedEngine], None]
) -> list[float]:
    """The mean loss of each of two epochs; something happens before every step."""
    settings = settings_of(shards)
    hardware = open_hardware(settings.hardware)
    engine, losses = ShardedEngine(ProcessGroup.alone(CPU), settings, predictor, sources, hardware), []
    with numerics(hardware):
        for epoch in range(2):
            engine.set_rate(0.15)
            engine.begin(settings.seed, epoch, 0)
            for _ in range(engine.steps):
                disturb(engine)
                engine.runner(hardware)()
            losses.append(float(engine.losses_T.sum()) / engine.steps)
            engine.losses_T.zero_()
        engine.collect()
    return losses


def leave(engine: ShardedEngine) -> None:
    pass


class RoundSource(SampleSource):
    """The links of a round, in the tables of all nodes, against the nodes that are there alone; these stand for `share`
    times as many."""

    def __init__(self, of: LinkSource, links_L3: Tensor, here: Tensor, share: float) -> None:  # noqa: N803
        reached = of.rivals.reached
        self.name, self.task, self._links, self._share = of.name, of.task, links_L3.long(), share
        self._here = here[(here >= reached.start) & (here < reached.stop)]

    def __len__(self) -> int:
        return len(self._links)

    def draw(self, rows_B: Tensor, sampler: Sampler) -> Draw:  # noqa: ARG002, N803
        return Draw(self._links[rows_B], self._here, self._here)

    def loss(self, module: nn.Module, draw: Draw, objective: Objective) -> Tensor:  # noqa: ARG002
        assert isinstance(module, Complex)
        return module.loss(draw.first, slice(0, len(draw.second)), draw.second, share=self._share)


def train_resident(predictor: Complex, sources: Sequence[LinkSource], shards: int) -> list[float]:
    """The same rounds, slowly: nothing moves, gradients are of all rows, ids are those of the nodes."""
    settings, rounds = settings_of(shards), Rounds.of(1, shards)
    hardware = open_hardware(settings.hardware)
    ends = torch.cat([own.links_L3[:, 1:].flatten() for own in sources])
    dealt = NodeShards.of(predictor.places.sizes, rounds, torch.bincount(ends, minlength=predictor.places.nodes))
    steps = round(round(sum(map(len, sources)) / 32) / len(rounds))
    optimizer, losses = build_optimizer(settings.optimizer, predictor, hardware), []
    sampler = Sampler(settings.negatives, torch.Generator())
    for epoch in range(2):
        total = 0.0
        for number in range(len(rounds)):
            here = torch.cat([dealt.nodes_of(shard) for shard in rounds.held(number)])
            made = [
                RoundSource(own, own.links_L3[dealt.turns(own.links_L3, 0) == number], here, shards / 2)
                for own in sources
            ]
            batches = replace(settings.batches, size=sum(map(len, made)) // steps, most_steps=steps)
            portions = Portions(made, batches, CPU)
            objective = Objective.of(settings.objective, portions.tasks, CPU)
            engine = Engine(predictor, portions, objective, optimizer, sampler)
            portions.begin(settings.seed, epoch, 0)
            for _ in range(steps):
                engine.runner(hardware)()
            total += float(engine.losses_T.sum())
        losses.append(total / steps / len(rounds))
    return losses


@pytest.mark.parametrize("shards", [2, 4])
def test_shards_at_home_learn_as_if_all_were_on_the_device(shards: int) -> None:
    """Up to the order of sums. Shards are full, so that no row stands for no node; typings are not lifted."""
    sizes = Sizes(entities=40, concepts=8, relations=3)
    sources = [LinkSource(own.task, own.links_L3, own.rivals) for own in link_sources(facts_of(sizes), 0, CPU)]
    found, wanted = predictor_of(sizes), predictor_of(sizes)
    losses = train_in_shards(found, sources, shards, leave)
    np.testing.assert_allclose(losses, train_resident(wanted, sources, shards), rtol=1e-4)
    assert losses[1] < 0.9 * losses[0]
    for one, other in zip(found.parameters(), wanted.parameters(), strict=True):
        torch.testing.assert_close(one, other, rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("shards", [2, 3, 5])
def test_what_is_brought_home_at_any_step_changes_nothing(shards: int) -> None:
    """Bit by bit, though it is placed anew from there; shards have rows of nobody."""
    sizes = Sizes(entities=41, concepts=9, relations=3)
    sources, found, wanted = link_sources(facts_of(sizes), 0, CPU), predictor_of(sizes), predictor_of(sizes)

    def disturb(engine: ShardedEngine) -> None:
        """As a checkpoint does, and one that goes on from it."""
        engine.collect()
        member = engine.member
        assert member is not None
        for table in member.module.parameters():
            table.data.fill_(torch.nan)
        member.tables.place(member.round)

    losses = [train_in_shards(found, sources, shards, disturb), train_in_shards(wanted, sources, shards, leave)]
    assert losses[0] == losses[1]
    assert all(torch.equal(*pair) for pair in zip(found.parameters(), wanted.parameters(), strict=True))


def test_an_epoch_without_a_step_left_is_followed_by_the_next() -> None:
    """As in a run that was killed between the last step of an epoch and its end."""
    sizes = Sizes(entities=41, concepts=9, relations=3)
    sources, found, wanted = link_sources(facts_of(sizes), 0, CPU), predictor_of(sizes), predictor_of(sizes)
    made = itertools.count()

    def disturb(engine: ShardedEngine) -> None:
        if next(made) == engine.steps:
            engine.begin(0, 0, engine.steps)
            engine.collect()
            engine.begin(0, 1, 0)

    losses = [train_in_shards(found, sources, 4, disturb), train_in_shards(wanted, sources, 4, leave)]
    assert losses[0] == losses[1]


def parted(*assignments: str) -> Settings:
    given = [
        "model.epochs=3",
        "batches.size=256",
        "optimizer.kind=adagrad",
        "optimizer.rate=0.1",
        "hardware.device=cpu",
    ]
    return resolve([read_assignments([*given, *assignments], PARTED)], PARTED)


def test_a_run_in_shards_stops_and_goes_on_bit_by_bit(
    store: Path, tmp_path: Path, ticking: Callable[[], float]
) -> None:
    start(store, tmp_path / "whole", parted("hardware.shards=3"))
    with pytest.raises(TrainingInterrupted):
        start(store, tmp_path / "cut", parted("hardware.shards=3"), Listeners([Stopper()], ticking))
    assert len(list((tmp_path / "cut" / "parts" / "first").glob("last-*.safetensors"))) == 3
    shutil.copytree(tmp_path / "cut", tmp_path / "without")
    resume(tmp_path / "cut", {})
    assert (tmp_path / "cut" / WEIGHTS).read_bytes() == (tmp_path / "whole" / WEIGHTS).read_bytes()
    resume(tmp_path / "without", {"hardware": {"shards": 0}})
    ends = [
        [line["losses"] for line in read_metrics(tmp_path / name) if line["event"] == "epoch"]
        for name in ("whole", "without")
    ]
    assert len(ends[0]) == len(ends[1]) == 6
    assert sum(ends[1][-1].values()) == pytest.approx(sum(ends[0][-1].values()), rel=0.15)


def test_what_does_not_fit_the_device_is_trained_in_shards(
    store: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(Hardware, "memory_left", lambda _: (None, 100))
    told: list[Event] = []
    with ProgressLine() as line:
        start(store, tmp_path / "much", parted("model.device=220"), Listeners([told.append, ProgressPrinter(line)]))
    assert [event for event in told if isinstance(event, TablesAtHome)] == [TablesAtHome("cpu", 5)]
    said = "the link predictor's tables stay in the machine's memory, in 5 shards, two of which are on cpu at a time"
    assert said in capsys.readouterr().err
    start(store, tmp_path / "asked", parted("hardware.shards=5"))
    start(store, tmp_path / "little", parted("model.device=90"), Listeners([told.append]))
    weights = [(tmp_path / name / WEIGHTS).read_bytes() for name in ("much", "asked", "little")]
    assert weights[0] == weights[1] != weights[2]
    assert sum(isinstance(event, TablesAtHome) for event in told) == 1


def test_shards_are_of_one_process() -> None:
    for processes, shards in ((2, 4), (1, 1), (1, -2)):
        with pytest.raises(ConfigError, match=f"hardware.shards is {shards} with hardware.processes {processes}"):
            HardwareConfig(processes=processes, shards=shards)
