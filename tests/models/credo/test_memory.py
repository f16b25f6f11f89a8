"""What training takes is said before it begins, and what cannot fit is refused, with the setting that helps."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from quick_learning import few_steps, quick_settings
from uncertain import Maker

from tarbox.cli.progress_line import ProgressLine
from tarbox.cli.training_progress import ProgressPrinter
from tarbox.kb.writing import write_store
from tarbox.models.credo.memory import MemoryNeeded, TrainingSize
from tarbox.models.credo.model import CredoConfig
from tarbox.models.learning.batches import BatchConfig
from tarbox.training import hardware
from tarbox.training.events import EpochEnded, Event, MemoryPlanned, TablesAtHome
from tarbox.training.failures import MemoryShortage
from tarbox.training.loop import ALL_EPOCHS
from tarbox.training.session import Listeners, start

RECORD = Path(__file__).parents[3] / "docs" / "results" / "training-memory.json"
MEASURED = json.loads(RECORD.read_text())["figures"]


@pytest.mark.parametrize("row", MEASURED, ids=lambda row: row["training"])
def test_the_formula_is_about_right(row: dict[str, float]) -> None:
    """Within a factor of 1.3 of what was measured beyond what the process had before."""
    size = TrainingSize(*(int(row[name]) for name in TrainingSize._fields))
    config = CredoConfig(rank=int(row["rank"]), candidates=512)
    host, device = MemoryNeeded.of(config, size, BatchConfig(size=2048, most_steps=1000)).split(gpu=False)
    assert device == 0
    assert row["GB"] / 1.3 < host / 1e9 < row["GB"] * 1.3


def test_what_cannot_fit_is_refused_before_it_begins(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    few_steps(monkeypatch.setattr)
    write_store(tmp_path / "kb", Maker(0, entities=30, concepts=8).world(uncertain=False, dense=1.0).facts)
    told: list[Event] = []
    monkeypatch.setattr(hardware, "available", lambda: 100_000_000)
    wanted = r"wants about 0\.2 GB more of the machine's memory, and 0\.1 GB are left\. .* --set batches\.size=32\."
    with pytest.raises(MemoryShortage, match=wanted):
        start(tmp_path / "kb", tmp_path / "run", quick_settings(), Listeners([told.append]))
    assert told == []
    assert not (tmp_path / "run").exists()
    monkeypatch.setattr(hardware, "available", lambda: 200_000_000)
    with ProgressLine() as line:
        start(tmp_path / "kb", tmp_path / "run", quick_settings(), Listeners([told.append, ProgressPrinter(line)]))
    assert isinstance(told[0], MemoryPlanned)
    [said, *_] = capsys.readouterr().err.splitlines()
    assert said == "training will take about 0.2 GB of memory, beside what is in use now"


def test_the_setting_that_helps_is_named() -> None:
    size = TrainingSize(100_000, 10, 10, 1_000, 0, 0, 2_000)
    wide, usual = CredoConfig(rank=2048, candidates=512), BatchConfig(size=2048)
    assert MemoryNeeded.of(wide, size, usual).advice(wide, usual) == "Lower the rank: --set rank=1024."
    narrow, long = CredoConfig(rank=16, candidates=0), BatchConfig(size=1 << 16)
    assert "--set batches.size=32768" in MemoryNeeded.of(narrow, size, long).advice(narrow, long)
    many = size._replace(assertions=200_000, questions=200_000)
    told = MemoryNeeded.of(small := CredoConfig(rank=64, candidates=512), many, usual).advice(small, usual)
    assert told.startswith("Lower the rank: --set rank=32. Most of it grows with the facts")


def test_a_gpu_has_the_tables_and_the_batch() -> None:
    size = TrainingSize(100_000, 10, 10, 1_000, 0, 0, 2_000)
    config, batches = CredoConfig(rank=512, candidates=0), BatchConfig(size=4096)
    needed = MemoryNeeded.of(config, size, batches)
    assert needed.split(gpu=True)[1] > 5 * needed.tables + needed.batch
    assert needed.split(gpu=True)[0] < needed.split(gpu=False)[0]
    assert needed.batch > 4 * 4096 * 100_000  # a score of every node for every link
    assert needed.batch < needed.beside_shards < needed.split(gpu=True)[1] - 4 * needed.tables


def test_a_reasoner_is_learnt_with_its_tables_in_shards(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    few_steps(monkeypatch.setattr)
    write_store(tmp_path / "kb", Maker(0, entities=30, concepts=8).world(uncertain=False, dense=1.0).facts)
    told = list[Event]()
    settings = quick_settings("optimizer.kind=adagrad", "optimizer.rate=0.15", "hardware.shards=3")
    ended = start(tmp_path / "kb", tmp_path / "run", settings, Listeners([told.append]))
    assert [type(event) for event in told[:2]] == [TablesAtHome, MemoryPlanned]
    assert ended.reason == ALL_EPOCHS
    losses = [sum(event.losses.values()) for event in told if isinstance(event, EpochEnded)]
    assert losses[-1] < losses[0]
