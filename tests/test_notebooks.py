"""The short notebooks of docs/notebooks run as they are kept; what does not vary is what they show."""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path
from typing import Any

import nbformat
import pytest
from nbclient import NotebookClient

NOTEBOOKS = Path(__file__).parents[1] / "docs" / "notebooks"
SHORT = ("own-data", "evaluation")
VARIES = "varies"
"""The tag of cells whose output is not the same on every machine: predictions, plots, times."""
PREDICTED = {
    "own-data": ["predicted", "Assembler is predicted with probability", "Nils knows Assembler", "image/png"],
    "evaluation": ["training split of a benchmark", "image/png"],
}


def outputs(cell: Any) -> str:
    """What a cell shows: texts, HTML, and of pictures that there are some; without what tells a terminal its colours,
    and however the text of commands was cut into pieces."""
    told = []
    for output in cell.get("outputs", []):
        data = output.get("data", {})
        told += [output.get("text", ""), data.get("text/plain", ""), data.get("text/html", "")]
        told += [kind for kind in data if kind.startswith("image/")]
    return re.sub(r"\x1b\[[0-9;?]*[A-Za-z]|\r", "", "".join(told)).strip()


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")  # those of the libraries that run notebooks
@pytest.mark.parametrize("name", SHORT)
def test_a_notebook_runs_and_shows_what_is_kept(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]]))
    monkeypatch.setenv("COLUMNS", "100")
    kept = nbformat.read(NOTEBOOKS / f"{name}.ipynb", as_version=4)
    run = NotebookClient(
        nbformat.from_dict(kept), timeout=300, resources={"metadata": {"path": str(tmp_path)}}
    ).execute()
    for before, after in zip(kept.cells, run.cells, strict=True):
        if VARIES not in before.metadata.get("tags", []):
            assert outputs(after) == outputs(before), before.source
    varying = "".join(outputs(cell) for cell in run.cells if VARIES in cell.metadata.get("tags", []))
    for text in PREDICTED[name]:
        assert text in varying


@pytest.mark.parametrize("notebook", sorted(NOTEBOOKS.glob("*.ipynb")), ids=lambda path: path.stem)
def test_a_notebook_is_kept_with_what_it_shows_and_no_place_of_a_machine(notebook: Path) -> None:
    cells = [cell for cell in nbformat.read(notebook, as_version=4).cells if cell.cell_type == "code"]
    shown = "".join(outputs(cell) for cell in cells)
    assert all(cell.execution_count for cell in cells)
    assert not re.search(r"/(?:home|root|tmp|work|Users|private|var)/", shown)
    assert not any(output.output_type == "error" for cell in cells for output in cell.outputs)
