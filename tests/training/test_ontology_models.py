"""Embeddings of ontologies trained on academia: loss curves, answers at both levels, and what is saved."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

from tarbox.benchmark.folder import open_benchmark
from tarbox.core.errors import MissingDependency
from tarbox.evaluation.evaluator import rank_table
from tarbox.models.base import Model
from tarbox.models.saved import open_run
from tarbox.training.context import engine_of
from tarbox.training.events import read_metrics
from tarbox.training.hardware import HardwareConfig, open_hardware
from tarbox.training.session import data_of, start
from tarbox.training.settings import Settings, read_recipe, resolve
from tarbox.training.validation import average_mrr

GOLDEN = Path(__file__).parent / "golden"
PAIRS = {"subsumption", "instantiation"}
LEARNT = {name: PAIRS | {"entity"} for name in ("elem", "emel", "box2el", "joie")} | {
    "owl2vec": PAIRS,
    "opa2vec": PAIRS,
}


def small(name: str) -> Settings:
    few = {"passes": 2} if name.endswith("vec") else {}
    given = {
        "model": {"name": name, "dimension": 16, **few},
        "batches": {"size": 512},
        "stopping": {"epochs": 6},
        "validation": {"every": 6},
        "hardware": {"precision": "float32"},
    }
    return resolve([read_recipe("ontology"), given])


@pytest.fixture(scope="module", params=LEARNT)
def run(request: pytest.FixtureRequest, bench: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("ontology") / str(request.param)
    start(bench, folder, small(request.param))
    return folder


def test_the_loss_curve_on_academia(run: Path) -> None:
    """A change of the curve is a change of training: TARBOX_UPDATE_GOLDEN=1 accepts it."""
    golden = GOLDEN / f"academia_{run.name}.json"
    found = [line["losses"] for line in read_metrics(run) if line["event"] == "epoch"]
    if os.environ.get("TARBOX_UPDATE_GOLDEN") == "1":
        golden.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    wanted = json.loads(golden.read_text(encoding="utf-8"))
    assert len(found) == len(wanted) == 6
    for ours, theirs in zip(found, wanted, strict=True):
        assert ours == pytest.approx(theirs, rel=1e-3)
    assert set(found[0]) == LEARNT[run.name]
    for task, first in found[0].items():
        assert found[-1][task] < first


def test_a_saved_run_ranks_as_it_was_validated(run: Path, bench: Path) -> None:
    (line,) = (line for line in read_metrics(run) if line["event"] == "validation")
    opened = open_benchmark(bench)
    data = data_of(opened)
    assert data.valid is not None
    ranked = rank_table(open_run(run).scorer(), data.valid.thinned(20), data.excluded)
    assert ranked.left_out == ()
    assert np.isfinite(ranked.ranks).all()
    assert average_mrr(ranked) == pytest.approx(line["levels"], rel=1e-4)


@pytest.mark.parametrize("name", LEARNT)
def test_true_typings_come_out_above_false_ones(name: str, bench: Path) -> None:
    """What it was told of, after some epochs: its own notion of membership is learnt."""
    hardware = open_hardware(HardwareConfig(device="cpu"))
    data = data_of(open_benchmark(bench))
    engine = engine_of(small(name), data, hardware)
    step = engine.runner(hardware)
    for epoch in range(10):
        engine.portions.begin(0, epoch, 0)
        for _ in range(engine.portions.steps):
            step()
    model = engine.module
    assert isinstance(model, Model)
    (typings,) = (source for source in engine.portions.sources if source.task.value == "instantiation")
    draw = typings.draw(torch.arange(len(typings)), engine.sampler)
    first = model.sizes.entities
    if name.endswith("vec"):
        pairs = draw.first, draw.second
    else:
        rows = torch.cat([draw.first[:, None], draw.second], 1)
        pairs = rows[..., 0], rows[..., 1] - first
    with torch.no_grad():
        odds = model.instantiation(*pairs)
    above = (odds[:, :1] > odds[:, 1:])[draw.valid_BM].float().mean()
    assert above > (0.6 if name == "opa2vec" else 0.8)


def test_without_gensim_it_is_said_what_to_install(bench: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "gensim.models", None)
    with pytest.raises(MissingDependency, match=r"gensim: pip install 'tarbox\[corpus\]'"):
        engine_of(small("opa2vec"), data_of(open_benchmark(bench)), open_hardware(HardwareConfig(device="cpu")))
