"""`tarbox.build`, `tarbox.train` and `tarbox.open`: from files to answers in Python."""

from __future__ import annotations

import gc
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import tarbox
from tarbox.cli.progress_line import ProgressLine
from tarbox.core.errors import ConfigError, StoreMissing
from tarbox.kb.facts import Facts

FACTS = "Ada\tworksAt\tAcme\nBela\tworksAt\tAcme\nAcme\tlocatedIn\tParis\n"


@pytest.fixture
def table(tmp_path: Path) -> Path:
    (tmp_path / "facts.tsv").write_text(FACTS)
    return tmp_path / "facts.tsv"


def labels(answers: Any) -> list[str]:
    return [each.label for each in answers.entities]


def test_a_store_at_a_place(table: Path, tmp_path: Path) -> None:
    kb = tarbox.build(table, to=tmp_path / "kb", base="http://x.org/")
    assert kb.path == tmp_path / "kb"
    opened = tarbox.open(kb.path)
    assert isinstance(opened, tarbox.KnowledgeBase)
    assert labels(opened.answer(opened.worksAt.some(opened.locatedIn.value("Paris")))) == ["Ada", "Bela"]
    assert opened.entities["Ada"].iri == "<http://x.org/Ada>"


def test_a_temporary_store_goes_with_what_it_is_for(table: Path) -> None:
    kb = tarbox.build([str(table)])
    path = kb.path
    assert path.is_dir()
    del kb
    gc.collect()
    assert not path.parent.exists()


def test_training_gives_a_reasoner(table: Path, tmp_path: Path) -> None:
    kb = tarbox.build(table)
    reasoner = tarbox.train(kb, model="counting")
    assert (reasoner.model, labels(reasoner.answer(kb.worksAt.value(kb.Acme), k=0))) == ("counting", [])
    run = reasoner.kb.path.parent
    assert run.is_dir()
    del reasoner
    gc.collect()
    assert not run.exists()
    kept = tarbox.train(kb.path, to=tmp_path / "run", model="counting", settings={"seed": 3})
    opened = tarbox.open(tmp_path / "run")
    assert isinstance(opened, tarbox.Reasoner)
    assert opened.answer(kb.worksAt.some()).entities == kept.answer("worksAt some owl:Thing").entities


def test_a_preset_and_options_by_name(table: Path) -> None:
    assert tarbox.build(preset="academia").facts.counts()["entities"] == 576
    with pytest.raises(ConfigError, match=r"no setting 'anotations'. Did you mean 'annotations'\?"):
        tarbox.build(table, anotations=["worksAt"])
    with pytest.raises(ConfigError, match="no preset 'acdemia'"):
        tarbox.build(preset="acdemia")
    with pytest.raises(ConfigError, match="not both, not neither"):
        tarbox.build()
    kb = tarbox.build(table, annotations=["worksAt"], infer="none")
    assert [kb.relations.at(row).label for row in kb.facts.annotations] == ["worksAt"]


def test_lines_that_cannot_be_read_are_told(tmp_path: Path) -> None:
    (tmp_path / "facts.tsv").write_text(FACTS + "half\ta line\n")
    with pytest.warns(UserWarning, match=r"1 lines cannot be read, the first .*facts\.tsv:4"):
        kb = tarbox.build(tmp_path / "facts.tsv")
    assert kb.facts.counts()["assertions"] == 3


def test_what_is_in_no_store_cannot_be_trained_on(table: Path) -> None:
    facts: Facts = tarbox.build(table).facts
    with pytest.raises(StoreMissing, match="is in no store"):
        tarbox.train(tarbox.KnowledgeBase(facts))


@pytest.fixture
def notebook(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What a notebook's output showed, one state after the other."""
    import IPython
    from IPython.display import DisplayHandle

    shown: list[str] = []

    def show(bundle: dict[str, str], **_: Any) -> DisplayHandle:
        shown.append(bundle["text/html"])
        handle = DisplayHandle()
        monkeypatch.setattr(handle, "update", lambda bundle, **_: shown.append(bundle["text/html"]))
        return handle

    monkeypatch.setattr(IPython, "get_ipython", type("Shell", (), {"kernel": None}))
    monkeypatch.setattr("IPython.display.display", show)
    return shown


def test_progress_in_a_notebook_is_one_output(notebook: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with ProgressLine() as line:
        line.show("reading a & b")
        line.show("half", 0.5)
        line.say("done")
        line.show("later")
    bar = '<progress max="1" value="0.5000"></progress> half'
    assert notebook == ["preparing", "reading a &amp; b", bar, "done", "later", "done"]
    assert capsys.readouterr().err == ""


def test_progress_on_a_terminal_is_a_bar(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    told: Callable[[], bool] = lambda: True  # noqa: E731
    monkeypatch.setattr(sys.stderr, "isatty", told)
    monkeypatch.setenv("TERM", "xterm")
    with ProgressLine() as line:
        line.show("halfway", 0.5)
        line.say("[a] stays")
    assert "[a] stays" in capsys.readouterr().err
