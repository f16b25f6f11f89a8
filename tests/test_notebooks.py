"""The notebooks of docs/notebooks run as they are kept. Two show what they show, but for what varies; that of
biomedicine runs on small files in the places of the real ones."""

from __future__ import annotations

import csv
import os
import re
import sys
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import nbformat
import pytest
from nbclient import NotebookClient

import tarbox
from biomed_packages import FAMILIES, hidden, write_packages

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


def execute(kept: Any, place: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setenv("PATH", os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]]))
    monkeypatch.setenv("COLUMNS", "100")
    return NotebookClient(nbformat.from_dict(kept), timeout=300, resources={"metadata": {"path": str(place)}}).execute()


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")  # those of the libraries that run notebooks
@pytest.mark.parametrize("name", SHORT)
def test_a_notebook_runs_and_shows_what_is_kept(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    kept = nbformat.read(NOTEBOOKS / f"{name}.ipynb", as_version=4)
    run = execute(kept, tmp_path, monkeypatch)
    for before, after in zip(kept.cells, run.cells, strict=True):
        if VARIES not in before.metadata.get("tags", []):
            assert outputs(after) == outputs(before), before.source
    varying = "".join(outputs(cell) for cell in run.cells if VARIES in cell.metadata.get("tags", []))
    for text in PREDICTED[name]:
        assert text in varying


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_the_day_in_biomedicine_on_small_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every cell as it is kept. A command that fails raises nothing there: what each shows and writes is judged."""
    packages, place = tmp_path / "packages", tmp_path / "day"
    place.mkdir()
    write_packages(packages)
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(packages), os.environ.get("PYTHONPATH", "")]).rstrip(":"))
    run = execute(nbformat.read(NOTEBOOKS / "biomedicine.ipynb", as_version=4), place, monkeypatch)
    shown = [outputs(cell) for cell in run.cells if cell.cell_type == "code"]
    build, look, ask, genes, answers, train, candidates, channels, why, exports = shown
    assert not re.search(r"^tarbox: |Traceback|Usage:", "\n".join(shown), re.M)

    assert build.splitlines()[-1] == "1"  # rejected
    kb = tarbox.KnowledgeBase.load(place / "biomed")
    ill = [each.label for each in kb.answer("Gene and 'has phenotype' some 'Episodic ataxia'").entities]
    assert set(ill) <= set(FAMILIES["channelopathy"])
    assert "KCNA1, an entity" in look
    assert f"of {len(ill)} entities" in ask
    assert all(gene in ask for gene in ill[:8])
    everybody = sum(map(len, FAMILIES.values()))
    assert f"12 entities of genes.txt\nn = 12 members in the background, N = {everybody} described entities" in genes
    assert re.search(r"of carcinoma' +12/12 ", genes)
    assert ElementTree.parse(place / "genes.svg").getroot().tag.endswith("svg")
    assert answers == "[" + ",\n ".join(f"('{gene}', 1.0)" for gene in ill[:5]) + "]"

    assert "reached stopping.epochs" in train
    with (place / "candidates.tsv").open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file, delimiter="\t"))
    found = [(row["subject_label"], row["object_label"]) for row in rows]
    assert candidates.startswith(f"candidates.tsv: {len(rows)} of ")
    assert len(set(found[:20]) & hidden()) > 10  # of which chance would find one
    own = re.findall(r"^0\.\d\d +(\S+) ", channels, re.M)
    assert own
    assert set(own) <= set(FAMILIES["channelopathy"])
    reached = kb.answer("gene_associated_with_condition some ('has phenotype' some 'Episodic ataxia')")
    assert f"5 of {reached.entity_count} known entities" in why
    assert "Episodic ataxia is the term of the concept Episodic ataxia" in why

    for source in ("biomed.jsonld", "kgx"):
        again = tarbox.build(place / source, tmp_path / source)
        assert again.facts.counts() == kb.facts.counts()
    assert "kgx/edges.tsv" in exports


@pytest.mark.parametrize("notebook", sorted(NOTEBOOKS.glob("*.ipynb")), ids=lambda path: path.stem)
def test_a_notebook_is_kept_with_what_it_shows_and_no_place_of_a_machine(notebook: Path) -> None:
    cells = [cell for cell in nbformat.read(notebook, as_version=4).cells if cell.cell_type == "code"]
    shown = "".join(outputs(cell) for cell in cells)
    assert all(cell.execution_count for cell in cells)
    assert not re.search(r"/(?:home|root|tmp|work|Users|private|var)/", shown)
    assert not any(output.output_type == "error" for cell in cells for output in cell.outputs)
