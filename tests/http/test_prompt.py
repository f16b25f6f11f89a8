"""The interactive prompt of `tarbox ask`."""

from __future__ import annotations

import io
from collections.abc import Callable
from pathlib import Path

import pytest
from prompt_toolkit import PromptSession
from prompt_toolkit.completion import CompleteEvent
from prompt_toolkit.document import Document
from prompt_toolkit.history import FileHistory, InMemoryHistory
from prompt_toolkit.input import create_pipe_input
from prompt_toolkit.output import DummyOutput
from rich.console import Console

from tarbox.cli.answer_tables import Form, Printer
from tarbox.cli.ask import QuestionSession
from tarbox.cli.prompt import NameCompleter, command, converse, expected_role, open_history, word_before
from tarbox.core.errors import QueryError
from tarbox.core.ids import Role
from tarbox.service.knowledge_base import KnowledgeBase

Talk = Callable[[str], str]


@pytest.fixture
def talk(kb: KnowledgeBase, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Talk:
    """What the prompt prints for what is typed."""
    monkeypatch.setenv("COLUMNS", "200")

    def typed(text: str) -> str:
        question = QuestionSession(kb, Printer(kb, Form.SCREEN), k=3)
        with create_pipe_input() as keys:
            keys.send_text(text)
            converse(question, PromptSession(input=keys, output=DummyOutput()))
        return capsys.readouterr().out

    return typed


def test_questions_one_after_the_other(talk: Talk) -> None:
    shown = talk("worksAt value Google\n\ninverse uses value Google\n\x04")
    assert shown.startswith("academia: 576 entities, 93 concepts.")
    assert "everything that works at Google" in shown
    assert "everything that Google uses" in shown


def test_a_mistake_is_told_and_the_prompt_stays(talk: Talk) -> None:
    shown = talk("worksAt value Gogle\n\x03Person and\nPerson\n:quit\n")
    assert "Did you mean 'Google'?" in shown
    assert "              ^" in shown
    assert "every Person" in shown


def test_commands(talk: Talk) -> None:
    shown = talk(
        ":k 1\nPerson\n:explain\nPerson and worksAt value Google\n:examples\n:nonsense\n:sparql\nSELECT\nquit\n"
    )
    assert "1 of 164 entities" in shown
    assert "explanations on" in shown
    assert "worksAt value Google\n" in shown  # a part of the explained query
    assert "investigates value" in shown
    assert ":sparql     ask in SPARQL" in shown
    assert "not SPARQL" in shown


def test_a_least_degree(kb: KnowledgeBase) -> None:
    console = Console(file=io.StringIO())
    question = QuestionSession(kb, Printer(kb, Form.SCREEN), k=3)
    assert command(":degree 0.25", question, console).min_degree == 0.25
    assert command(":degree .5", question, console).min_degree == 0.5
    with pytest.raises(QueryError, match="min_degree = 5: it must lie between 0 and 1"):
        command(":degree 5", question, console)
    assert command(":degree much", question, console) == question


def test_concepts_in_another_order(talk: Talk) -> None:
    shown = talk(":k 1\nworksAt value Google\n:order probability\nworksAt value Google\n:order best\n:quit\n")
    first, second = shown.split("everything that works at Google")[1:]
    assert "Agent" in second
    assert "Agent" not in first  # it covers all of them and tells nothing
    assert ":order X" in second


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("worksAt value Goo", "Google"),
        ("worksAt value 'Geoffrey Hi", "GeoffreyHinton"),
        ("Person and (inverse wor", "worksAt"),
        ("{Google, Geof", "GeoffreyHinton"),
        ("Person an", "and"),
        ("Unversity", "University"),
    ],
)
def test_completion(kb: KnowledgeBase, text: str, expected: str) -> None:
    found = list(NameCompleter(kb).get_completions(Document(text), CompleteEvent(text_inserted=True)))
    chosen = next(completion for completion in found if completion.text == expected)
    assert text[: len(text) + chosen.start_position] + chosen.text == text[: -len(word_before(text))] + expected


def test_nothing_is_offered_unasked(kb: KnowledgeBase) -> None:
    completer = NameCompleter(kb)
    assert list(completer.get_completions(Document("Person "), CompleteEvent(text_inserted=True))) == []
    assert list(completer.get_completions(Document(":expl"), CompleteEvent(completion_requested=True))) == []
    assert list(completer.get_completions(Document(""), CompleteEvent(completion_requested=True))) != []


def test_words_and_roles() -> None:
    assert word_before("'Geoffrey Hinton' and Per") == "Per"
    assert word_before("a <http://x.org/y") == "<http://x.org/y"
    assert word_before("Person ") == ""
    assert expected_role("worksAt value ") is Role.ENTITY
    assert expected_role("{Google, ") is Role.ENTITY
    assert expected_role("inverse (") is Role.RELATION
    assert expected_role("Person and ") is None


def test_history_is_kept_where_it_can_be(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    assert isinstance(open_history(), FileHistory)
    assert (tmp_path / "tarbox" / "history").exists()
    (tmp_path / "file").touch()
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "file"))
    assert isinstance(open_history(), InMemoryHistory)
