"""`tarbox ask --file` by several processes prints what one prints."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

from tarbox.cli import ask_file
from tarbox.cli.ask import ask
from tarbox.core.errors import TarboxError
from tarbox.kb.build import BuildOptions, build
from tarbox.kb.presets import PRESETS

LINES = (
    "worksAt value MIT",
    "nonsense value MIT",
    "inverse uses value Google",
    "Person and (",
    "# a remark",
    "",
    "Person",
)
ANSWERED, REJECTED = 3, 2


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("academia") / "store"
    preset = PRESETS["academia"]
    build(preset.sources(None), folder, BuildOptions(preset.interpretation))
    return folder


@pytest.fixture(scope="module")
def queries(store: Path) -> Path:
    """Some batches, the last of which is not full."""
    file = store.with_name("queries.txt")
    file.write_text("\n".join(LINES * 50))
    return file


def run(*arguments: object) -> tuple[int, str, str]:
    app = typer.Typer()
    app.command()(ask)
    found = CliRunner().invoke(app, [str(each) for each in arguments])
    if isinstance(found.exception, TarboxError):
        raise found.exception
    return found.exit_code, found.stdout, found.stderr


@pytest.mark.parametrize("form", ["--json", "--tsv"])
def test_several_processes_print_what_one_prints(store: Path, queries: Path, form: str) -> None:
    one, two = (run(store, "--file", queries, form, "-k", 2, "--processes", count) for count in (1, 2))
    assert one == two
    code, printed, complaints = two
    assert code == 3
    assert len(complaints.splitlines()) == 50 * REJECTED
    assert complaints.startswith(f"{queries}:2: no relation 'nonsense' in store (column 1)\n{queries}:4: ")
    if form == "--json":
        texts = [json.loads(line)["query"] for line in printed.splitlines()]
        assert texts == [LINES[0], LINES[2], LINES[6]] * 50
    else:
        assert printed.startswith("query\tlevel\t")
        assert printed.count("query\tlevel\t") == 1


def test_what_cannot_be_opened_is_one_line(queries: Path, tmp_path: Path) -> None:
    with pytest.raises(TarboxError, match="no store at"):
        run(tmp_path / "nowhere", "--file", queries, "--json", "--processes", 2)


def test_a_process_that_dies_is_one_line(store: Path, queries: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ask_file, "_work", die)
    with pytest.raises(TarboxError, match=r"process 1 of 2 ended with exit code 9 .*Ask with fewer: --processes 1\."):
        run(store, "--file", queries, "--json", "--processes", 2)


def die(*_: object) -> None:
    os._exit(9)
