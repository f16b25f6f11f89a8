"""The loss curve of the link predictor on academia, as `cqd` and `qto` train it."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from tarbox.training.events import read_metrics
from tarbox.training.session import start
from tarbox.training.settings import read_recipe, resolve

GOLDEN = Path(__file__).parent / "golden"


@pytest.mark.parametrize("name", ["cqd", "qto"])
def test_the_loss_curve_on_academia(name: str, bench: Path, tmp_path: Path) -> None:
    """A change of the curve is a change of training: TARBOX_UPDATE_GOLDEN=1 accepts it."""
    given = {
        "model": {"rank": 16},
        "batches": {"size": 512},
        "stopping": {"epochs": 3},
        "validation": {"every": 3},
        "hardware": {"precision": "float32"},
    }
    start(bench, tmp_path / "run", resolve([read_recipe(name), given]))
    golden = GOLDEN / f"academia_{name}.json"
    found = [line["losses"] for line in read_metrics(tmp_path / "run") if line["event"] == "epoch"]
    if os.environ.get("TARBOX_UPDATE_GOLDEN") == "1":
        golden.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    wanted = json.loads(golden.read_text(encoding="utf-8"))
    assert len(found) == len(wanted) == 3
    for ours, theirs in zip(found, wanted, strict=True):
        assert ours == pytest.approx(theirs, rel=1e-3)
    assert set(found[0]) == {"entity", "instantiation"}
    for task, first in found[0].items():
        assert found[-1][task] < first
