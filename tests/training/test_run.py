"""Whole runs: what they learn, what they leave behind, and what can be asked of them."""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch

from tarbox.benchmark.building import sample_training_queries
from tarbox.benchmark.folder import open_benchmark
from tarbox.benchmark.options import EVALUATION_ONLY
from tarbox.core.errors import BenchmarkError, StoreError, StoreMissing
from tarbox.core.ids import Level
from tarbox.execution.exact import answer_rows
from tarbox.execution.graph import Index
from tarbox.kb.facts import Facts
from tarbox.kb.store import open_store
from tarbox.kb.vocabulary import Vocabulary
from tarbox.models.learning.batches import Portions
from tarbox.models.saved import open_run
from tarbox.query.templates import TEMPLATES
from tarbox.service.answers import KNOWN, PREDICTED
from tarbox.service.reasoner import Reasoner
from tarbox.training.checkpoints import State
from tarbox.training.context import engine_of
from tarbox.training.events import Event, Finished, Validated, read_metrics
from tarbox.training.failures import TrainingError
from tarbox.training.hardware import HardwareConfig, open_hardware
from tarbox.training.run import RunFolder
from tarbox.training.session import Listeners, data_of, start
from tarbox.training.settings import Settings, read_recipe, resolve
from tarbox.training.validation import Validator

GOLDEN = Path(__file__).parent / "golden" / "academia_tar.json"
FIGURE_1 = "interestedIn some ((inverse investigates value GeoffreyHinton) and (inverse uses value Google))"
PICKLES = (b"\x80\x02", b"\x80\x03", b"\x80\x04", b"\x80\x05", b"PK\x03\x04")

Train = Callable[..., State]


def tar(*tables: dict[str, object]) -> Settings:
    model = {"dimension": 16, "similarity_scale": 60.0, "membership_scale": 10.0}
    return resolve([{"model": model, "batches": {"size": 1024}, "optimizer": {"rate": 0.03}}, *tables])


@pytest.fixture(scope="module")
def tar_run(bench: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("runs") / "tar"
    start(bench, folder, tar({"stopping": {"epochs": 4}, "validation": {"every": 2}}))
    return folder


def test_the_loss_curve_of_tar_on_academia(tar_run: Path) -> None:
    """A change of the curve is a change of training: TARBOX_UPDATE_GOLDEN=1 accepts it. Processors differ in the order
    of their sums, and what that changes grows with the steps."""
    found = [line["losses"] for line in read_metrics(tar_run) if line["event"] == "epoch"]
    if os.environ.get("TARBOX_UPDATE_GOLDEN") == "1":
        GOLDEN.parent.mkdir(exist_ok=True)
        GOLDEN.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    wanted = json.loads(GOLDEN.read_text(encoding="utf-8"))
    assert len(found) == len(wanted)
    for epoch, (ours, theirs) in enumerate(zip(found, wanted, strict=True)):
        assert ours == pytest.approx(theirs, rel=3e-3 if epoch == 0 else 0.03)


def test_tar_learns(tar_run: Path, bench: Path) -> None:
    """Validation after training is better than before it, at both levels."""
    benchmark = open_benchmark(bench)
    validator = Validator(benchmark.table("valid"), benchmark.excluded())
    fresh = engine_of(tar(), data_of(benchmark), open_hardware(HardwareConfig("cpu"))).module
    before, after = validator(fresh), validator(open_run(tar_run).scorer())
    assert after["entity"] > 1.5 * before["entity"]
    assert after["concept"] > 1.2 * before["concept"]


def test_a_run_folder_holds_what_it_says_and_no_pickle(tar_run: Path) -> None:
    names = {file.name for file in tar_run.iterdir()}
    assert names >= {
        "run.json",
        "config.toml",
        "provenance.json",
        "metrics.jsonl",
        "model.safetensors",
        "last.safetensors",
        "store",
        "curves.png",
    }
    for file in tar_run.rglob("*"):
        if file.is_file():
            assert not file.read_bytes().startswith(PICKLES), file
            assert file.suffix not in (".pt", ".pth", ".pkl", ".pickle", ".bin")
    provenance = json.loads((tar_run / "provenance.json").read_text())[0]
    assert provenance["seed"] == 0
    assert provenance["versions"]["torch"]
    assert provenance["vocabulary_hash"] == open_run(tar_run).store.vocabulary_hash


def test_the_weights_are_those_of_the_best_validation(train: Train, tmp_path: Path, bench: Path) -> None:
    heard: list[Event] = []
    state = train(tmp_path / "run", "validation.every=1", listeners=Listeners([heard.append]))
    best = max((event for event in heard if isinstance(event, Validated)), key=lambda event: event.mrr)
    assert (state.best, state.best_epoch) == (best.mrr, best.epoch)
    benchmark = open_benchmark(bench)
    again = Validator(benchmark.table("valid"), benchmark.excluded())(open_run(tmp_path / "run").scorer())
    assert again == pytest.approx(dict(best.levels))


def test_training_stops_when_validation_gets_no_better(train: Train, tmp_path: Path) -> None:
    heard: list[Event] = []
    given = ["validation.every=1", "validation.tolerance=2", "rate=1e-12", "stopping.epochs=50"]
    state = train(tmp_path / "run", *given, listeners=Listeners([heard.append]))
    assert state.epoch == 3
    assert isinstance(heard[-1], Finished)
    assert heard[-1].reason == "no better validation MRR 2 times in a row"


def test_an_ablation_leaves_a_task_out(train: Train, tmp_path: Path) -> None:
    train(tmp_path / "run", 'objective.without=["subsumption"]', "stopping.epochs=1")
    assert list(read_metrics(tmp_path / "run")[0]["losses"]) == ["entity", "concept", "instantiation"]


def test_bfloat16_trains_too(bench: Path, tmp_path: Path) -> None:
    state = start(bench, tmp_path / "run", tar({"stopping": {"epochs": 1}, "hardware": {"precision": "bf16"}}))
    assert state.epoch == 1
    assert np.isfinite(state.best or np.nan)


def test_an_epoch_passes_every_sample(bench: Path) -> None:
    engine = engine_of(tar(), data_of(open_benchmark(bench)), open_hardware(HardwareConfig("cpu")))
    portions: Portions = engine.portions
    portions.begin(seed=1, epoch=0, step=0)
    drawn = [portions.advance() for _ in range(portions.steps)]
    for place, source in enumerate(portions.sources):
        seen = np.unique(np.concatenate([rows[place].numpy() for rows in drawn]))
        assert len(seen) == len(source)


def test_a_step_has_no_size_that_depends_on_the_data(bench: Path) -> None:
    """Else it could not be recorded as a CUDA graph: fake tensors refuse what would have to look at values."""
    from torch._subclasses.fake_tensor import FakeTensorMode

    for projection in ("fuzzy", "dot"):
        given = tar({"model": {"projection": projection}})
        engine = engine_of(given, data_of(open_benchmark(bench)), open_hardware(HardwareConfig("cpu")))
        engine.module.double()  # which the kernels for processors leave to torch
        with FakeTensorMode(allow_non_fake_inputs=True):
            loss, _ = engine._losses(engine._draw())
            loss.backward()
        assert loss.shape == ()


def test_counting_is_a_run_at_once(bench: Path, tmp_path: Path) -> None:
    start(bench, tmp_path / "run", resolve([], "counting"))
    reasoner = Reasoner.load(tmp_path / "run")
    assert reasoner.model == "counting"
    assert reasoner.answer(FIGURE_1, 4).entities


def test_a_store_is_learnt_whole(store: Path, tmp_path: Path, settings: Callable[..., Settings]) -> None:
    state = start(store, tmp_path / "run", settings("stopping.epochs=1", "batches.size=8192"))
    assert (state.epoch, state.reason, state.best) == (1, "reached stopping.epochs", None)
    assert sorted(place.name for place in tmp_path.iterdir()) == ["run"]  # no benchmark beside it
    run = open_run(tmp_path / "run")
    assert run.store.manifest["content_hash"] == open_store(store).manifest["content_hash"]
    source = run.description["source"]
    assert (source["kind"], source["absolute"]) == ("store", str(store))
    assert run.scorer().candidates(Level.ENTITY) == len(run.facts.vocabulary.entities)
    assert not (tmp_path / "run" / "parts").exists()
    with pytest.raises(BenchmarkError, match=r"nothing was held out .*`tarbox bench build KB -o BENCH`.*--queries"):
        run.benchmark()


def test_the_queries_of_a_store_are_those_of_training(store: Path) -> None:
    """Of the whole graph, without the templates that are for evaluation alone; the same each time."""
    facts = Facts.of(
        Vocabulary.of([f"urn:{name}" for name in "abcdef"], ["urn:C", "urn:D"], ["urn:p"]),
        [(0, 0, 1), (1, 0, 2), (2, 0, 3), (3, 0, 4), (4, 0, 5), (5, 0, 0)],
        [(number, number % 2) for number in range(6)],
    )
    table = sample_training_queries(facts, 3)
    assert table is not None
    assert {"1p", "2p", "3p"} <= set(table.texts("template")) <= set(TEMPLATES) - EVALUATION_ONLY
    for batch in table.batches():
        if batch.level is Level.ENTITY:
            found, _, _ = answer_rows(batch.shape, batch.ids, Index.of(facts))
            for row in range(len(batch.ids)):
                asked = [*batch.targets[row], *batch.known[row]]
                assert sorted(asked) == sorted(found[row])
    again = sample_training_queries(facts, 3)
    assert again is not None
    assert again.texts("id") == table.texts("id")
    assert sample_training_queries(Facts.of(facts.vocabulary), 3) is None


def test_both_lists_with_known_and_predicted_answers(tar_run: Path) -> None:
    reasoner = Reasoner.load(tar_run)
    answers = reasoner.answer(FIGURE_1, 10)
    exact = reasoner.kb.answer(FIGURE_1)
    assert answers.query == FIGURE_1
    for ours, theirs in ((answers.entities, exact.entities), (answers.concepts, exact.concepts)):
        known = {answer.iri for answer in theirs}
        counts = Counter(answer.status for answer in ours)
        assert counts == {KNOWN: min(len(known), 10), PREDICTED: 10}
        assert all((answer.iri in known) == (answer.status == KNOWN) for answer in ours)
        assert all(answer.degree == 1.0 for answer in ours if answer.status == KNOWN)
        assert all(0.0 <= answer.degree <= 1.0 for answer in ours)


def test_a_degree_is_never_above_a_super_concept_s(tar_run: Path) -> None:
    reasoner = Reasoner.load(tar_run)
    degrees = {answer.iri: answer.degree for answer in reasoner.answer(FIGURE_1, None).concepts}
    tree, things = reasoner.kb.index.instances.hierarchy, reasoner.kb.concepts
    for below, above in zip(*tree.ancestors.coordinates(), strict=True):
        assert degrees[things.at(int(below)).iri] <= degrees[things.at(int(above)).iri]


def test_the_members_of_a_concept(tar_run: Path) -> None:
    reasoner = Reasoner.load(tar_run)
    members = reasoner.members("Researcher", 30)
    known = {thing.iri for thing in reasoner.kb.members("Researcher")}
    assert [member.degree for member in members] == sorted((member.degree for member in members), reverse=True)
    assert all((member.iri in known) == (member.status == KNOWN) for member in members)


def test_a_run_moves_with_its_store(tar_run: Path, tmp_path: Path) -> None:
    import shutil

    shutil.copytree(tar_run, tmp_path / "elsewhere")
    assert Reasoner.load(tmp_path / "elsewhere").answer(FIGURE_1).entities


def test_a_store_with_other_names_is_refused(tar_run: Path, tmp_path: Path) -> None:
    import shutil

    shutil.copytree(tar_run, tmp_path / "run")
    description = json.loads((tmp_path / "run" / "run.json").read_text())
    (tmp_path / "run" / "run.json").write_text(json.dumps(description | {"vocabulary_hash": "0" * 32}))
    with pytest.raises(StoreError, match="trained with another vocabulary"):
        Reasoner.load(tmp_path / "run")
    with pytest.raises(StoreMissing, match="no run at"):
        open_run(tmp_path)


def test_the_recipe_of_academia_is_small() -> None:
    assert resolve([read_recipe("academia")]).model["dimension"] <= 128


def test_a_checkpoint_in_shards_is_that_in_one_file(tmp_path: Path) -> None:
    """However many files the next one has: those of the one before go when it is there, and not earlier."""
    folder = RunFolder(tmp_path)
    tensors = {
        "model/nodes": torch.randn(11, 4),
        "optimizer/nodes/squares": torch.randn(11, 4),
        "model/relations": torch.randn(3, 4),
        "random/torch": torch.get_rng_state(),
    }
    for step, shards in enumerate((1, 4, 4, 6, 1)):
        folder.write_last({name: tensor + step for name, tensor in tensors.items()}, {"epoch": 2, "step": step}, shards)
        found, state = folder.read_last()
        assert state == {"epoch": 2, "step": step}
        assert found.keys() == tensors.keys()
        assert all(torch.equal(found[name], tensor + step) for name, tensor in tensors.items())
        assert len(list(tmp_path.iterdir())) == 1 + (shards if shards > 1 else 0)


def test_a_shard_that_is_gone_is_named(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path)
    folder.write_last({"model/nodes": torch.randn(11, 4)}, {"epoch": 0, "step": 7}, 2)
    (tmp_path / "last-0-7-1.safetensors").unlink()
    with pytest.raises(TrainingError, match=r"no checkpoint at .*last-0-7-1\.safetensors"):
        folder.read_last()
