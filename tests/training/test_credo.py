"""Credo from the first epoch to an answer: what is written, what is known; an interruption changes nothing."""

from __future__ import annotations

import json
import os
import shutil
import signal
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import typer
from typer.testing import CliRunner, Result

import tarbox.models.calibration
import tarbox.training.reasoning
import tarbox.training.rehearsal
import tarbox.training.tempering
from tarbox.benchmark.folder import open_benchmark
from tarbox.cli.ask import ask
from tarbox.cli.concept import concept
from tarbox.cli.evaluate import evaluate
from tarbox.cli.train import train
from tarbox.core.errors import BenchmarkError, StoreVersion
from tarbox.core.ids import Level
from tarbox.execution.exact import answer_rows
from tarbox.kb.facts import Facts
from tarbox.kb.store import open_store
from tarbox.kb.vocabulary import Vocabulary
from tarbox.models.calibration import Calibrator, Fit, fit_network
from tarbox.models.credo import Credo
from tarbox.models.saved import open_run
from tarbox.query.algebra import Query, slots
from tarbox.query.templates import TEMPLATES, template
from tarbox.training.checkpoints import State
from tarbox.training.events import Event, Finished, Phase, Started, Ticked, read_metrics
from tarbox.training.failures import TrainingInterrupted
from tarbox.training.hardware import HardwareConfig, open_hardware
from tarbox.training.loop import Lessons
from tarbox.training.reasoning import Audience, train_reasoner
from tarbox.training.run import RunFolder, read_tensors, write_tensors
from tarbox.training.session import Surroundings, lessons_of, resume, start
from tarbox.training.settings import Settings, default_tables, read_assignments, resolve

SMALL = ("rank=16", "epochs=3", "rehearsed=2", "batches.size=512", "validation.queries=10")
TIMES = ("seconds", "samples_per_second", "seconds_left", "validation_seconds")
STEPS = 20
"""Enough for a network to be one; how well it fits is the matter of `tests/models/test_calibration.py`."""
PREDICTOR = "the predictor of all facts"
SHAPES = {name: given.shape for name, given in TEMPLATES.items()} | {
    "ci": template("ci", "?c1 and (?r1 some (?c2 and (?r2 value ?e1)))").shape,
}


@pytest.fixture(scope="module", autouse=True)
def short() -> Iterator[None]:
    """The networks are fitted in few steps."""

    def fit(features: Any, loss: Any, given: Fit) -> Calibrator:
        return fit_network(features, loss, replace(given, steps=min(given.steps, STEPS)))

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tarbox.models.calibration, "fit_network", fit)
        patch.setattr(tarbox.training.rehearsal, "fit_network", fit)
        patch.setattr(tarbox.training.tempering, "fit_network", fit)
        yield


def small(*assignments: str) -> Settings:
    return resolve([*default_tables("credo"), read_assignments([*SMALL, *assignments], "credo")], "credo")


def rows(shape: Query, facts: Facts, size: int = 12) -> np.ndarray:
    words = facts.vocabulary
    limits = {"entity": len(words.entities), "concept": len(words.concepts), "relation": 2 * len(words.relations)}
    return (
        np.random.default_rng(3)
        .integers(0, [limits[slot.role.value] for slot in slots(shape)], (size, len(slots(shape))))
        .astype(np.int32)
    )


def learnt(folder: Path) -> list[dict[str, object]]:
    """The metrics without what is time."""
    return [{key: value for key, value in line.items() if key not in TIMES} for line in read_metrics(folder)]


def assert_same(first: Path, second: Path) -> None:
    assert (first / "model.safetensors").read_bytes() == (second / "model.safetensors").read_bytes()
    assert learnt(first) == learnt(second)


@pytest.fixture(scope="module")
def whole(bench: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, State, Credo, list[Event]]:
    """(folder, where training ended, the reasoner before it was saved, what was told) of an uninterrupted run."""
    folder, made, told = tmp_path_factory.mktemp("credo") / "run", [], []
    validate = tarbox.training.reasoning._validate

    def remember(reasoner: Credo, *rest: Any) -> dict[str, float]:
        made.append(reasoner)
        return validate(reasoner, *rest)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tarbox.training.reasoning, "_validate", remember)
        state = start(bench, folder, small(), Surroundings([told.append]))
    return folder, state, made[-1], told


@pytest.fixture(scope="module")
def reasoner(whole: tuple[Path, State, Credo, list[Event]]) -> Credo:
    found = open_run(whole[0]).scorer()
    assert isinstance(found, Credo)
    return found


def test_a_run_is_written(whole: tuple[Path, State, Credo, list[Event]]) -> None:
    folder, state, _, told = whole
    names = {file.name for file in folder.iterdir()}
    assert {"model.safetensors", "config.toml", "run.json", "metrics.jsonl", "store", "curves.png"} <= names
    assert "parts" not in names
    assert state.best is not None
    assert 0 < state.best < 1
    assert [event["event"] for event in read_metrics(folder)] == ["epoch"] * 3 + ["validation", "end"]
    assert [type(event) for event in told if isinstance(event, Started | Finished)] == [Started, Started, Finished]
    assert sum(isinstance(event, Phase) for event in told) == 5


@pytest.mark.parametrize("level", Level)
@pytest.mark.parametrize("name", SHAPES)
def test_a_saved_model_scores_as_before(
    whole: tuple[Path, State, Credo, list[Event]], reasoner: Credo, name: str, level: Level
) -> None:
    shape = SHAPES[name]
    ids = rows(shape, reasoner.index.facts)
    np.testing.assert_array_equal(reasoner.score(shape, ids, level), whole[2].score(shape, ids, level))
    np.testing.assert_array_equal(reasoner.degrees(shape, ids, level), whole[2].degrees(shape, ids, level))


def test_a_run_of_an_earlier_version_is_named(whole: tuple[Path, State, Credo, list[Event]], tmp_path: Path) -> None:
    run = Path(shutil.copytree(whole[0], tmp_path / "old"))
    arrays, about = read_tensors(run / "model.safetensors")
    for name in ("ranking/mean", "ranking/deviation"):
        arrays[name] = arrays[name][:-1].contiguous()
    write_tensors(run / "model.safetensors", arrays, about)
    with pytest.raises(StoreVersion, match=r"old: an earlier version .* train it again"):
        open_run(run).scorer()


def test_degrees_are_tempered_on_the_tuning_table_where_there_is_one(
    reasoner: Credo, bench: Path, tmp_path: Path
) -> None:
    assert set(reasoner.tempers) == set(Level)
    assert all((temper.seen, temper.labelled) == (0, 1) for temper in reasoner.tempers.values())
    lessons, told = replace(lessons_of(open_benchmark(bench)), tuning=None), list[Event]()
    hardware = open_hardware(HardwareConfig(device="cpu"))
    train_reasoner(small("rehearsed=30"), lessons, hardware, RunFolder(tmp_path / "run"), Audience([told.append], ()))
    assert sum(isinstance(event, Phase) for event in told) == 4
    arrays = {key: value.numpy() for key, value in read_tensors(tmp_path / "run" / "model.safetensors")[0].items()}
    other = Credo.of_arrays(lessons.facts, arrays, Credo.Config())
    assert other.weighing is not None
    share = (1 - Credo.Config().hidden) / (2 - Credo.Config().hidden)
    assert (other.weighing.seen, other.weighing.labelled) == pytest.approx((0, share))
    assert (other.tempers[Level.ENTITY].seen, other.tempers[Level.ENTITY].labelled) == pytest.approx((share, 1))
    assert (other.tempers[Level.CONCEPT].seen, other.tempers[Level.CONCEPT].labelled) == (0, 1)


@pytest.mark.parametrize("name", SHAPES)
def test_what_is_known_has_degree_1_and_nothing_has_more(reasoner: Credo, name: str) -> None:
    shape = SHAPES[name]
    ids = rows(shape, reasoner.index.facts)
    entities, concepts, _ = answer_rows(shape, ids, reasoner.index)
    for level, known in ((Level.ENTITY, entities), (Level.CONCEPT, concepts)):
        degrees = reasoner.degrees(shape, ids, level)
        assert (degrees[known.coordinates()] == 1).all()
        assert ((degrees >= 0) & (degrees <= 1)).all()


def test_known_facts_are_believed_and_more_are_predicted(reasoner: Credo) -> None:
    facts, probabilities = reasoner.index.facts, reasoner.probabilities
    assert np.count_nonzero(probabilities.degrees == 1) >= 2 * len(facts.heads)
    assert len(probabilities.degrees) > 2 * len(facts.heads)
    predicted = probabilities.degrees[probabilities.degrees < 1]
    assert 1e-3 <= predicted.min() < predicted.max() < 1


class Interrupter:
    """Sends this process a signal within an epoch of one of the two predictors."""

    def __init__(self, predictor: int, epoch: int, number: signal.Signals) -> None:
        self.predictor, self.epoch, self.number = predictor, epoch, number
        self.begun, self.sent = 0, False

    def __call__(self, event: Event) -> None:
        self.begun += isinstance(event, Started)
        inside = isinstance(event, Ticked) and event.epoch == self.epoch and event.step >= 3
        if inside and self.begun == self.predictor and not self.sent:
            self.sent = True
            os.kill(os.getpid(), self.number)


@pytest.mark.parametrize(("predictor", "number"), [(1, signal.SIGTERM), (2, signal.SIGINT)])
def test_an_interrupted_run_continues_in_the_predictor_it_was_in(
    whole: tuple[Path, State, Credo, list[Event]],
    bench: Path,
    tmp_path: Path,
    ticking: Callable[[], float],
    predictor: int,
    number: signal.Signals,
) -> None:
    folder = tmp_path / "cut"
    around = Surroundings([Interrupter(predictor, 1, number)], ticking)
    with pytest.raises(TrainingInterrupted, match=rf"in epoch 2; .* `tarbox train --resume -o {folder}`\."):
        start(bench, folder, small(), around)
    part = folder / "parts" / ("rehearsal", "predictor")[predictor - 1]
    state = read_tensors(part / "last.safetensors")[1]
    assert state["epoch"] == 1
    assert state["step"] >= 3
    told: list[Event] = []
    resume(folder, {}, Surroundings([told.append]))
    began = [event.epoch for event in told if isinstance(event, Started)]
    assert began == ([1, 0] if predictor == 1 else [3, 1])
    assert_same(whole[0], folder)
    assert not (folder / "parts").exists()


def test_a_finished_run_is_not_trained_again_unless_more_is_asked_for(
    whole: tuple[Path, State, Credo, list[Event]], bench: Path, tmp_path: Path
) -> None:
    folder, state, *_ = whole
    shutil.copytree(folder, tmp_path / "run")
    told: list[Event] = []
    again = resume(tmp_path / "run", {}, Surroundings([told.append]), bench)
    assert (again.epoch, again.best, again.best_epoch) == (state.epoch, state.best, state.best_epoch)
    assert told == []
    resume(tmp_path / "run", {"stopping": {"epochs": 4}}, Surroundings([told.append]), bench)
    assert sum(isinstance(event, Started) for event in told) == 2
    assert [line["epoch"] for line in read_metrics(tmp_path / "run")] == [1, 2, 3, 4, 4, 4]


NOTHING: dict[str, tuple[list[str], list[str], list[str], list[tuple[int, int, int]], list[tuple[int, int]]]] = {
    "no concepts": (["a", "b", "c"], [], ["p"], [(0, 0, 1), (1, 0, 2)], []),
    "no assertions": (["a", "b", "c"], ["C", "D"], [], [], [(0, 0), (1, 1), (2, 0)]),
    "one entity": (["a"], ["C"], ["p"], [(0, 0, 0)], [(0, 0)]),
    "nothing unknown": (["a", "b"], ["C"], ["p"], [(h, 0, t) for h in (0, 1) for t in (0, 1)], [(0, 0), (1, 0)]),
}


@pytest.mark.parametrize("name", NOTHING)
def test_a_graph_with_little_in_it(name: str, tmp_path: Path) -> None:
    entities, concepts, relations, assertions, typings = NOTHING[name]
    facts = Facts.of(Vocabulary.of(entities, concepts, relations), assertions, typings)
    lessons, hardware = Lessons(facts), open_hardware(HardwareConfig(device="cpu"))
    train_reasoner(small(), lessons, hardware, RunFolder(tmp_path / "run"), Audience((), ()))
    arrays = {key: value.numpy() for key, value in read_tensors(tmp_path / "run" / "model.safetensors")[0].items()}
    reasoner = Credo.of_arrays(facts, arrays, Credo.Config())
    shape = TEMPLATES["2p"].shape if relations else template("c", "?c1").shape
    for level in Level:
        degrees = reasoner.degrees(shape, rows(shape, facts, 5), level)
        assert degrees.shape == (5, reasoner.candidates(level))
        assert ((degrees >= 0) & (degrees <= 1)).all()


def test_a_graph_with_nothing_in_it(tmp_path: Path) -> None:
    lessons = Lessons(Facts.of(Vocabulary.of(["a", "b"], ["C"], ["p"])))
    hardware = open_hardware(HardwareConfig(device="cpu"))
    with pytest.raises(BenchmarkError, match="there is nothing to train on"):
        train_reasoner(small(), lessons, hardware, RunFolder(tmp_path / "run"), Audience((), ()))


@pytest.fixture(scope="module")
def call() -> Callable[..., Result]:
    app = typer.Typer()
    for name, command in (("train", train), ("concept", concept), ("eval", evaluate), ("ask", ask)):
        app.command(name)(command)

    def run(*arguments: str | Path) -> Result:
        found = CliRunner().invoke(app, [str(argument) for argument in arguments])
        if found.exception is not None and not isinstance(found.exception, SystemExit):
            raise found.exception
        return found

    return run


def test_the_same_seed_gives_the_same_degrees_and_another_does_not(
    call: Callable[..., Result], whole: tuple[Path, State, Credo, list[Event]], bench: Path, tmp_path: Path
) -> None:
    assigned = [word for text in SMALL for word in ("--set", text)]
    done = call("train", bench, "-o", tmp_path / "runs", "--model", "credo", *assigned, "--seeds", "2")
    assert done.exit_code == 0
    assert PREDICTOR in done.stderr
    assert set(json.loads((tmp_path / "runs" / "seeds.json").read_text())["best_mrr"]) == {"seed-0", "seed-1"}
    one, two = (tmp_path / "runs" / name for name in ("seed-0", "seed-1"))
    assert_same(whole[0], one)
    assert learnt(one) != learnt(two)
    assert "3 epochs, all that was asked for" in call("train", "--resume", "-o", one).stdout


def test_evaluating_and_asking(
    call: Callable[..., Result], whole: tuple[Path, State, Credo, list[Event]], store: Path
) -> None:
    run = whole[0]
    found = json.loads(call("eval", run, "--json", "--split", "valid").stdout)
    assert found["model"] == "credo"
    assert {"2in", "2u"} <= set(found["levels"]["entity"]["templates"])
    asked = json.loads(call("ask", run, "inverse investigates value GeoffreyHinton", "--json", "-k", "8").stdout)
    assert {answer["status"] for answer in asked["entities"]} == {"known", "predicted"}
    assert all(answer["degree"] == 1 for answer in asked["entities"] if answer["status"] == "known")
    assert all(0 <= answer["degree"] < 1 for answer in asked["entities"] if answer["status"] == "predicted")
    assert len(json.loads(call("concept", run, "Researcher", "--json", "-k", "5").stdout)["members"]) == 5
    assert open_store(run / "store").vocabulary_hash == open_store(store).vocabulary_hash
