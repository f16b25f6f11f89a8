"""Tables of the documentation, made again."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from published_folder import Folder
from tarbox.cli.main import app
from tarbox.cli.reproduce import read_reproductions
from tarbox.core.errors import ConfigError
from tarbox.evaluation.published import read_published
from tarbox.models.registry import MODELS


def test_a_published_table_is_reproduced_and_goes_on(tmp_path: Path) -> None:
    made = Folder(tmp_path / "published", 1, "reverse")
    made.fill(wanted=2)
    command = ["reproduce", "fb15k-237-q2b", "--data", str(made.path), "-o", str(tmp_path), "--models", "counting"]
    done = CliRunner().invoke(app, command, env={"COLUMNS": "200"})
    assert done.exit_code == 0, done.output
    documented = read_reproductions()["fb15k-237-q2b"]["documented"]["credo"]
    assert f"docs/results.md has for credo: entity {documented[0]}" in done.output
    assert "CQD-Beam (published)" in done.output
    results = json.loads((tmp_path / "fb15k-237-q2b" / "comparison" / "results.json").read_text())
    assert results["published"]["rows"][0]["levels"]["entity"]["templates"]["ip"]["mrr"]["mean"] == pytest.approx(0.123)
    (tmp_path / "published").rename(tmp_path / "elsewhere")  # what is made already needs no data
    assert CliRunner().invoke(app, command).exit_code == 0


def test_what_can_be_reproduced_is_listed() -> None:
    listed = CliRunner().invoke(app, ["reproduce"]).output
    published = read_published()
    for name, table in read_reproductions().items():
        assert f"{name}\n" in listed
        assert table.get("published", "yago4") in published
        assert set(table["documented"]) <= set(MODELS)
    refused = {"x": "no 'x' to reproduce", "codex-m": "--data", "yago4 --data .": "lacks"}
    for command, message in refused.items():
        with pytest.raises(ConfigError, match=message):
            CliRunner().invoke(app, ["reproduce", *command.split()], catch_exceptions=False)
