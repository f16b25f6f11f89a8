"""Learning from a store through the one seam: repeatable, resumable, and possible with little."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import quick_learning
import torch
from quick_learning import few_steps, quick_settings
from uncertain import Maker

from tarbox import KnowledgeBase, Reasoner
from tarbox.core.errors import ConfigError, StoreVersion, TarboxError
from tarbox.core.ids import Level
from tarbox.execution.rows import encode
from tarbox.kb.facts import Facts
from tarbox.kb.vocabulary import Vocabulary
from tarbox.kb.writing import write_store
from tarbox.models.credo.learning import counted_ahead
from tarbox.models.credo.memory import TrainingSize
from tarbox.models.credo.model import Credo, CredoConfig
from tarbox.models.credo.plan import epochs_of, plan
from tarbox.models.learning.batches import BatchConfig
from tarbox.models.learning.seam import TrainingData
from tarbox.models.saved import open_run
from tarbox.query.render import render
from tarbox.training.events import Event, PartBegan, PartProgressed
from tarbox.training.run import read_tensors
from tarbox.training.session import Listeners, resume, start

CUTS = ["PartBegan-1", "EpochEnded-2", "PartBegan-2", "PartBegan-3", "PartBegan-4", "EpochEnded-4", "PartBegan-5"]


@pytest.fixture(scope="module", autouse=True)
def quick() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patched:
        few_steps(patched.setattr)
        yield


@pytest.fixture(scope="module")
def facts() -> Facts:
    return Maker(0, entities=30, concepts=8).world(uncertain=False, dense=1.0).facts


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory, facts: Facts) -> Path:
    folder = tmp_path_factory.mktemp("learning") / "kb"
    write_store(folder, facts)
    return folder


@pytest.fixture(scope="module")
def run(store: Path) -> Path:
    folder = store.with_name("run")
    start(store, folder, quick_settings())
    return folder


def model_bytes(run: Path) -> bytes:
    return (run / "model.safetensors").read_bytes()


def test_the_parts_are_told_in_order(store: Path, tmp_path: Path) -> None:
    heard: list[Event] = []
    start(store, tmp_path / "run", quick_settings(), Listeners([heard.append]))
    assert [event.part for event in heard if isinstance(event, PartBegan)] == [
        "training the link predictor on kept facts",
        "continuing it on kept facts",
        "fitting calibration on held-out facts",
        "fitting concept scores",
        "continuing the link predictor on all facts",
        "predicting facts",
        "predicting subsumptions",
    ]
    assert not (tmp_path / "run" / "parts").exists()


def test_parts_without_epochs_say_how_far_they_are(store: Path, tmp_path: Path) -> None:
    heard: list[Event] = []
    start(store, tmp_path / "run", quick_settings(), Listeners([heard.append]))
    shares: dict[str, list[float]] = {}
    for event in heard:
        if isinstance(event, PartProgressed):
            shares.setdefault(event.part, []).append(event.done)
    assert {"fitting calibration on held-out facts", "fitting concept scores", "predicting facts"} <= set(shares)
    for part, told in shares.items():
        assert len(told) > 2, part
        assert told == sorted(told), part
        assert 0 <= told[0] < 0.7, part
        assert told[-1] <= 1, part


def test_the_plan_follows_settings_and_sizes() -> None:
    size = TrainingSize(20_000, 500, 50, 130_000, 90_000, 1_000, 150_000)
    config = CredoConfig(rank=64, candidates=512, missing="facts")

    def parts(epochs: int, config: CredoConfig = config, size: TrainingSize = size) -> dict[str, float]:
        return plan(config, size, BatchConfig(size=2048), epochs, "cpu")

    def links(found: dict[str, float]) -> float:
        return sum(seconds for part, seconds in found.items() if "link predictor" in part or "continuing" in part)

    short, long = parts(2), parts(20)
    assert links(long) == pytest.approx(10 * links(short), rel=0.1)
    assert sum(long.values()) - links(long) == pytest.approx(sum(short.values()) - links(short))
    assert links(parts(20, replace(config, rank=128))) > 1.5 * links(long)
    more = parts(20, size=size._replace(assertions=1_300_000, typings=900_000, subsumptions=10_000))
    assert 8 * sum(long.values()) < sum(more.values()) < 12 * sum(long.values())
    assert len(parts(1, replace(config, missing="pairs"))) == len(short)
    assert epochs_of(CredoConfig(), 15) == (10, 5)
    assert epochs_of(CredoConfig(), 1) == (1, 1)


def test_pairs_are_told_and_change_the_run(run: Path, store: Path, tmp_path: Path) -> None:
    heard: list[Event] = []
    start(store, tmp_path / "pairs", quick_settings("model.missing=pairs"), Listeners([heard.append]))
    told = [event.part for event in heard if isinstance(event, PartBegan)]
    assert "fitting calibration on held-out facts of whole pairs" in told
    assert model_bytes(tmp_path / "pairs") != model_bytes(run)
    start(store, tmp_path / "facts", quick_settings("model.missing=facts"))
    assert model_bytes(tmp_path / "facts") == model_bytes(run)
    with pytest.raises(ConfigError, match="choose one of auto, facts, pairs"):
        CredoConfig(missing="triples")


def test_the_same_seed_gives_the_same_file(run: Path, store: Path, tmp_path: Path) -> None:
    start(store, tmp_path / "again", quick_settings())
    assert model_bytes(tmp_path / "again") == model_bytes(run)
    start(store, tmp_path / "other", quick_settings("seed=7"))
    assert model_bytes(tmp_path / "other") != model_bytes(run)


def test_a_saved_model_answers_as_before(run: Path, facts: Facts) -> None:
    saved = open_run(run)
    before = saved.scorer()
    assert isinstance(before, Credo)
    after = Credo.of_arrays(facts, before.arrays(), CredoConfig(), "cpu")
    arrays = read_tensors(run / "model.safetensors")[0]
    assert {name: array.tobytes() for name, array in before.arrays().items()} == {
        name: tensor.numpy().tobytes() for name, tensor in arrays.items()
    }
    maker = Maker(9, entities=30, concepts=8)
    for _ in range(30):
        shape, ids = encode(maker.query(), facts.vocabulary)
        for level in Level:
            assert np.array_equal(*(model.score(shape, ids[None], level) for model in (before, after)))
        one, other = (model.predict(shape, ids[None]) for model in (before, after))
        assert np.array_equal(one.entities, other.entities)
        assert np.array_equal(one.concepts.values, other.concepts.values)
        assert np.array_equal(one.expected, other.expected)


def test_something_is_predicted_and_what_is_known_is_certain(run: Path, facts: Facts) -> None:
    held = open_run(run).scorer().probabilities  # type: ignore[attr-defined]
    known = 2 * len(facts.heads)
    assert len(held.degrees) > known
    assert int((held.degrees == 1).sum()) == known
    assert held.degrees.min() > 0
    assert held.degrees[held.degrees < 1].max() <= 0.99


@pytest.fixture(scope="module")
def cut(store: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with runs that were killed at each of `CUTS`."""
    folder = tmp_path_factory.mktemp("cut")
    config = folder / "settings.toml"
    config.write_text(quick_settings().toml())
    subprocess.run([sys.executable, quick_learning.__file__, str(store), str(config), *CUTS], check=True)
    return folder


def test_answering_does_not_import_torch(run: Path) -> None:
    code = f"import sys, tarbox; tarbox.open({str(run)!r}).answer('owl:Thing'); print('torch' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"


@pytest.mark.parametrize("point", CUTS)
def test_a_run_that_was_killed_goes_on_to_the_same_model(point: str, cut: Path, run: Path) -> None:
    assert not (cut / point / "model.safetensors").exists()
    resume(cut / point, {})
    assert model_bytes(cut / point) == model_bytes(run)


# Settings


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"rank": -1}, r"rank = -1, .*rank must be 0 or more"),
        ({"rank": 5}, r"rank = 5, experts = 2: experts must divide the rank"),
        ({"candidates": -2}, r"candidates = -2, .*candidates -1 or more"),
        ({"initial": 0.0}, r"initial = 0\.0: .*initial greater than 0"),
        ({"regularization": -0.1}, r"regularization = -0\.1, .*both must be 0 or more"),
        ({"relation_weight": -1.0}, r"relation_weight = -1\.0: both must be 0 or more"),
        ({"held_out": 0.0}, r"held_out = 0\.0, .*must lie between 0 and 1"),
        ({"held_out": 1.0}, r"held_out = 1\.0, .*must lie between 0 and 1"),
        ({"continued": -0.5}, r"continued = -0\.5: both must lie between 0 and 1"),
        ({"queries": 0}, r"queries = 0: it must be at least 1"),
    ],
)
def test_settings_out_of_range_get_advice(settings: dict[str, float], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        CredoConfig(**settings)  # type: ignore[arg-type]


def test_a_setting_out_of_range_leaves_no_run(store: Path, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="held_out"):
        start(store, tmp_path / "run", quick_settings("model.held_out=2"))
    assert not (tmp_path / "run").exists()


def test_what_settings_leave_open_is_decided_by_size_and_hardware(facts: Facts) -> None:
    import torch

    def resolved(config: CredoConfig, facts: Facts) -> tuple[int, int, str]:
        found = Credo.resolve(config, TrainingData(facts), torch.device("cpu"))
        return found.rank, found.candidates, found.missing

    assert resolved(CredoConfig(), facts) == (128, 0, "facts")
    large = Facts.of(Vocabulary.of([f"e{n:05}" for n in range(60_000)], [], ["r"]), [])
    assert resolved(CredoConfig(), large) == (64, 512, "facts")
    assert resolved(CredoConfig(rank=6, candidates=7, missing="pairs"), large) == (6, 7, "pairs")


@pytest.mark.parametrize("assignment", ["model.continued=0.9", "model.held_out=0.5", "model.candidates=4"])
def test_other_settings_train_and_answer(store: Path, tmp_path: Path, assignment: str) -> None:
    start(store, tmp_path / "run", quick_settings(assignment))
    found = Reasoner.load(tmp_path / "run").answer("<urn:r0> some <urn:c01>")
    assert found.entities[0].status == "known"


def test_a_run_of_an_earlier_version_is_refused(run: Path, facts: Facts) -> None:
    arrays = open_run(run).scorer().arrays()  # type: ignore[attr-defined]
    with pytest.raises(StoreVersion, match="train it again"):
        Credo.of_arrays(
            facts, {key: value for key, value in arrays.items() if key != "sets/concepts"}, CredoConfig(), "cpu"
        )
    shorter = arrays | {"ranking/mean": arrays["ranking/mean"][:-1]} if "ranking/mean" in arrays else {}
    with pytest.raises(StoreVersion, match="train it again"):
        Credo.of_arrays(facts, shorter, CredoConfig(), "cpu")


# Little to learn from


def names(letter: str, count: int) -> list[str]:
    return [f"urn:{letter}{n:02}" for n in range(count)]


RING = [(n, n % 2, (n + 1) % 12) for n in range(12)]
LITTLE: dict[str, Facts] = {
    "no concepts": Facts.of(Vocabulary.of(names("e", 12), [], names("r", 2)), RING),
    "no typings": Facts.of(Vocabulary.of(names("e", 12), names("c", 3), names("r", 2)), RING, [], [(0, 1), (1, 2)]),
    "no assertions": Facts.of(
        Vocabulary.of(names("e", 12), names("c", 3), []), [], [(n, n % 3) for n in range(12)], [(0, 1)]
    ),
    "one entity": Facts.of(Vocabulary.of(names("e", 1), names("c", 2), names("r", 1)), [(0, 0, 0)], [(0, 0)], [(0, 1)]),
    "one relation": Facts.of(
        Vocabulary.of(names("e", 12), names("c", 2), names("r", 1)),
        [(h, 0, t) for h, _, t in RING],
        [(n, n % 2) for n in range(12)],
    ),
    "one fact": Facts.of(Vocabulary.of(names("e", 2), [], names("r", 1)), [(0, 0, 1)]),
    "concepts alone": Facts.of(Vocabulary.of([], names("c", 3), []), [], [], [(0, 1), (1, 2)]),
    "nothing": Facts.of(Vocabulary.of([], [], [])),
}


REFUSED = {"nothing": "there is nothing to train on: no queries, assertions, typings or subsumptions"}
"""What the one line says where nothing can be learnt."""


@pytest.mark.parametrize("name", LITTLE)
def test_little_to_learn_from(name: str, tmp_path: Path) -> None:
    """Trains and answers what follows, or says in one line why not."""
    facts = LITTLE[name]
    write_store(tmp_path / "kb", facts)
    if name in REFUSED:
        with pytest.raises(TarboxError, match=rf"^{REFUSED[name]}$"):
            start(tmp_path / "kb", tmp_path / "run", quick_settings())
        return
    start(tmp_path / "kb", tmp_path / "run", quick_settings())
    reasoner, kb = Reasoner.load(tmp_path / "run"), KnowledgeBase.load(tmp_path / "kb", classes=False)
    asked = [f"{{<{iri}>}}" for iri in names("e", len(facts.vocabulary.entities))]
    asked += [f"<{iri}>" for iri in names("c", len(facts.vocabulary.concepts))]
    asked += [f"<{iri}> some owl:Thing" for iri in names("r", len(facts.vocabulary.relations))]
    asked += [f"not ({asked[0]})"] if asked else []
    for text in asked:
        found, wanted = reasoner.answer(text, k=None), kb.answer(text)
        for level in ("entities", "concepts"):
            known = {item.iri for item in getattr(found, level) if item.status == "known"}
            assert known == {item.iri for item in getattr(wanted, level)}


# Known answers


@pytest.mark.parametrize("seed", [0, 1])
def test_known_answers_of_a_run_are_exactly_those_of_its_store(seed: int, tmp_path: Path) -> None:
    """On 150 random queries of all kinds of node each."""
    maker = Maker(seed, entities=15, concepts=6)
    facts = maker.world(uncertain=False, dense=0.6).facts
    write_store(tmp_path / "kb", facts)
    start(tmp_path / "kb", tmp_path / "run", quick_settings("stopping.epochs=1"))
    reasoner, kb = Reasoner.load(tmp_path / "run"), KnowledgeBase.load(tmp_path / "kb", classes=False)
    queries = [maker.query() for _ in range(150)]
    answers = reasoner.answer_many(queries, k=None)
    for query, found in zip(queries, answers, strict=True):
        wanted = kb.answer(render(query))
        for level in ("entities", "concepts"):
            known = [item.iri for item in getattr(found, level) if item.status == "known"]
            assert sorted(known) == sorted(item.iri for item in getattr(wanted, level)), render(query)
            predicted = [item for item in getattr(found, level) if item.status == "predicted"]
            assert not {item.iri for item in predicted} & set(known)
            assert all(0.1 <= item.degree <= 1 for item in predicted)


def test_beside_a_gpu_a_processor_counts_ahead_in_order() -> None:
    done, asked = list[int](), threading.Event()
    with counted_ahead(torch.device("cuda")) as ahead:
        second = ahead(lambda: (asked.wait(10), done.append(2), threading.get_ident())[2])
        failing = ahead(lambda: 1 // 0)
        assert done == []  # nobody waits for it
        asked.set()
        assert second() != threading.get_ident()
        with pytest.raises(ZeroDivisionError):
            failing()


def test_whoever_stops_does_not_wait_for_what_was_counted_ahead() -> None:
    asked, begun, done = threading.Event(), threading.Event(), list[int]()
    with counted_ahead(torch.device("cuda")) as ahead:
        under_way = ahead(lambda: (begun.set(), asked.wait(10)))
        ahead(lambda: done.append(1))
        assert begun.wait(10)
    asked.set()
    under_way()
    assert done == []


def test_without_a_gpu_nothing_is_counted_ahead() -> None:
    done = list[int]()
    with counted_ahead(torch.device("cpu")) as ahead:
        work = ahead(lambda: done.append(1))
        assert done == []
        work()
    assert done == [1]
