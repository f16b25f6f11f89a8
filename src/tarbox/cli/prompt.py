"""The interactive prompt of `tarbox ask`: questions one after the other, with completion and history."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Final, final

from prompt_toolkit import PromptSession
from prompt_toolkit.completion import CompleteEvent, Completer, Completion, ThreadedCompleter
from prompt_toolkit.document import Document
from prompt_toolkit.history import FileHistory, History, InMemoryHistory
from rich.console import Console
from rich.text import Text

from tarbox.core.errors import TarboxError
from tarbox.core.ids import Role
from tarbox.service.degrees import check_degree
from tarbox.service.knowledge_base import KnowledgeBase
from tarbox.service.ordering import Order

if TYPE_CHECKING:
    from tarbox.cli.ask import QuestionSession

COMPLETIONS_SHOWN: Final = 12
COMPLETED_KEYWORDS: Final = ("and", "or", "not", "some", "value", "inverse", "that")
HINT: Final = "Tab completes, :help explains, Ctrl+D ends"
HELP: Final = """\
Write a class expression, such as  Person and worksAt some University
  :examples   questions that this knowledge base has answers to
  :explain    show the members of every part of a query, or no longer
  :k 20       how many answers of each kind, known and predicted; 0 for all
  :degree 0.3 the least probability of a prediction that is listed
  :order X    of the concepts: descriptive, probability or similarity
  :sparql     ask in SPARQL, or in Manchester syntax again
  :quit       end (also Ctrl+D)"""
_WORD: Final = re.compile(r"'(?:[^'\\]|\\.)*$|<[^<>\s]*$|[^\s(){},<>']*$")


def converse(question: QuestionSession, session: PromptSession[str] | None = None) -> None:
    """Answers line after line until the user ends it; a mistake is told and costs nothing."""
    console = Console(highlight=False)
    kb = question.kb
    asking = session or PromptSession(
        history=open_history(),
        completer=ThreadedCompleter(NameCompleter(kb)),
        complete_while_typing=True,
        bottom_toolbar=HINT,
    )
    console.print(f"{kb.title}: {len(kb.entities):,} entities, {len(kb.concepts):,} concepts. {HINT}.")
    while True:
        try:
            line = asking.prompt(f"{kb.title}> ").strip()
        except KeyboardInterrupt:
            continue
        except EOFError:
            return
        if line in (":quit", ":q", "quit", "exit"):
            return
        try:
            if line.startswith(":"):
                question = command(line, question, console)
            elif line:
                question.put(line)
        except TarboxError as error:
            console.print(Text(str(error), style="red"))
        except KeyboardInterrupt:
            console.print(Text("interrupted", style="dim"))


def command(line: str, question: QuestionSession, console: Console) -> QuestionSession:
    """Does what a line that begins with a colon says; returns how questions are put from now on."""
    name, _, argument = line[1:].partition(" ")
    match name.strip(), argument.strip():
        case "explain", "":
            console.print(f"explanations {'off' if question.explain else 'on'}")
            return replace(question, explain=not question.explain)
        case "sparql", "":
            console.print(f"questions are in {'Manchester syntax' if question.sparql else 'SPARQL'}")
            return replace(question, sparql=not question.sparql)
        case "k", number if number.isascii() and number.isdigit() and len(number) < 8:
            return replace(question, k=int(number) or None)
        case "degree", number if re.fullmatch(r"[01]?\.?\d{1,6}", number):
            return replace(question, min_degree=check_degree(float(number)))
        case "order", order if order in Order.__members__.values():
            return replace(question, order=order)
        case "examples", "":
            _show_examples(question.kb, console)
        case _:
            console.print(HELP, markup=False)
    return question


def open_history() -> History:
    """What was asked before, in the user's state folder; only in memory where that cannot be written."""
    folder = Path(os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state") / "tarbox"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "history").touch()
    except OSError:
        return InMemoryHistory()
    return FileHistory(str(folder / "history"))


@final
class NameCompleter(Completer):
    """Names of the knowledge base, and the words of the language, for the word before the cursor."""

    def __init__(self, kb: KnowledgeBase) -> None:
        self._kb = kb

    def get_completions(self, document: Document, complete_event: CompleteEvent) -> Iterable[Completion]:
        before = document.text_before_cursor
        word = word_before(before)
        if before.startswith(":") or (not word and not complete_event.completion_requested):
            return
        yield from _keywords(word)
        for found in self._kb.search(word, COMPLETIONS_SHOWN, expected_role(before[: len(before) - len(word)])):
            yield Completion(found.name, -len(word), display_meta=f"{found.role.value}: {found.label}")


def word_before(text: str) -> str:
    """The word that ends a text: a name, or a label whose quotation is not closed.

    >>> word_before("Person and (worksAt value 'Univ of T")
    "'Univ of T"
    """
    labelled = re.sub(r"'(?:[^'\\]|\\.)*'", lambda closed: " " * len(closed[0]), text)
    found = _WORD.search(labelled)
    return text[found.start() :] if found else ""


def expected_role(before: str) -> Role | None:
    """What kind of name can stand after a text; None where several kinds can."""
    if re.search(r"\bvalue\s+$|\{[^{}]*$", before, re.IGNORECASE):
        return Role.ENTITY
    return Role.RELATION if re.search(r"\binverse\s*\(?\s*$", before, re.IGNORECASE) else None


def _keywords(word: str) -> Iterator[Completion]:
    for keyword in COMPLETED_KEYWORDS:
        if word and keyword.startswith(word) and keyword != word:
            yield Completion(keyword, -len(word), display_meta="keyword")


def _show_examples(kb: KnowledgeBase, console: Console) -> None:
    from tarbox.service.examples import examples

    for example in examples(kb):
        console.print(Text(example.query, style="cyan"), soft_wrap=True)
        console.print(Text(f"  {example.english}", style="dim"), soft_wrap=True)
