"""What surrounds the models: the walks in docs run, and a GPU machine with little installed can import them."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest
import torch

ROOT = Path(__file__).parents[2]
ABSENT = ("duckdb", "numba", "rdflib", "rich", "typer", "fastobo", "pyoxigraph", "pyhornedowl", "matplotlib", "pandas")


def test_training_is_imported_with_torch_alone() -> None:
    """What needs numba imports it where it is called."""
    script = f"import sys; sys.modules.update(dict.fromkeys({ABSENT!r})); import tarbox.training.session"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert done.stderr == ""


@pytest.mark.parametrize("page", ["tar.md", "baselines.md"])
def test_the_walk_runs(page: str) -> None:
    (example,) = re.findall(r"```python\n(.*?)```", (ROOT / "docs" / page).read_text(), re.DOTALL)
    names: dict[str, object] = {}
    exec(example, names)
    assert isinstance(names["model"], torch.nn.Module)


def test_tar_trains_with_torch_alone() -> None:
    """Without numba the engines are torch's own."""
    script = f"""
import sys
sys.modules.update(dict.fromkeys({ABSENT!r}))
import torch
from tarbox.core.ids import Level
from tarbox.models.base import Sizes
from tarbox.models.registry import find_model
from tarbox.query.algebra import Concept, Not
Tar = find_model("tar")
model = Tar(Tar.Config(dimension=4), Sizes(5, 3, 2))
loss = model.score_candidates(Not(Concept("?c1")), torch.tensor([[1]]), Level.CONCEPT, torch.tensor([[0, 2]])).sum()
torch.autograd.backward(loss)
print(model.score(Not(Concept("?c1")), torch.tensor([[1]]), Level.CONCEPT).shape[1])
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert done.stderr == ""
    assert done.stdout == "3\n"
