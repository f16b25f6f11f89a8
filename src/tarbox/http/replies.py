"""Questions read, and their answers written as the JSON that clients get."""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, final

from tarbox.core.errors import QuerySyntaxError, QueryTooLarge, TarboxError, UnknownName
from tarbox.execution.rows import encode as encode_row
from tarbox.http.schemas import AnswerRequest
from tarbox.http.settings import Bounds
from tarbox.query.algebra import Query
from tarbox.query.manchester import DEFAULT_LIMITS
from tarbox.query.rewrites import plain
from tarbox.query.sparql import SparqlSelection, parse_selection
from tarbox.service.answering import Answerer, Question


@final
@dataclass(frozen=True, slots=True)
class Asked:
    """A question on its way, with its query where that is parsed already, and when it came."""

    request: AnswerRequest
    query: Query | None
    came: float


@final
class Replies:
    """What an answerer has to say, as clients get it, within a server's limits."""

    def __init__(self, answerer: Answerer, bounds: Bounds) -> None:
        self.answerer = answerer
        self.kb = answerer.kb
        self._most = {False: bounds.query, True: bounds.sparql}
        self._limits = {sparql: replace(DEFAULT_LIMITS, characters=most) for sparql, most in self._most.items()}

    def read(self, text: str, sparql: bool = False) -> Query:
        """The query that a text writes, within this server's limits."""
        check_text(text, self._most[sparql])
        return self.kb.parse(text, sparql, self._limits[sparql])

    def read_selection(self, text: str) -> SparqlSelection:
        """A SPARQL SELECT over a tree, within this server's limits, of names that the knowledge base has."""
        check_text(text, self._most[True])
        selected = parse_selection(text, self._limits[True])
        self.kb.check(selected.query)
        return selected

    def answer_batch(self, batch: Sequence[Asked]) -> list[bytes | TarboxError]:
        """The replies to questions as they came, wrong ones among them."""
        outcomes: list[bytes | TarboxError] = []
        questions: dict[int, tuple[Asked, Question]] = {}
        for place, asked in enumerate(batch):
            outcomes.append(b"")
            try:
                questions[place] = asked, self._question(asked)
            except TarboxError as error:
                outcomes[place] = error
        for place, found in zip(questions, self._answers(list(questions.values())), strict=True):
            outcomes[place] = found
        return outcomes

    def _question(self, asked: Asked) -> Question:
        request = asked.request
        query = asked.query or self.read(request.query)
        try:
            row = encode_row(plain(query), self.kb.facts.vocabulary)
        except UnknownName:  # of SPARQL, which may say any name
            self.kb.check(query)
            raise
        part = request.offset, request.status
        return Question(query, request.k, request.query, request.order, request.min_degree, row, *part)

    def _answers(self, batch: Sequence[tuple[Asked, Question]]) -> Sequence[bytes | TarboxError]:
        """The replies to all; where one question is wrong, each is asked alone."""
        if not batch:
            return []
        try:
            found = self.answerer.answer_many([question for _, question in batch])
        except TarboxError as error:
            return [error] if len(batch) == 1 else [self._answers([each])[0] for each in batch]
        return [
            answers.to_text(milliseconds=round((time.perf_counter() - asked.came) * 1_000, 3)).encode(
                "utf-8", "replace"
            )
            for (asked, _), answers in zip(batch, found, strict=True)
        ]


def encode(content: Any) -> bytes:
    """JSON in UTF-8."""
    return json.dumps(content, ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode("utf-8", "replace")


def check_text(text: str, most: int) -> None:
    """Refuses what is longer than the limit, and half characters, which no text in UTF-8 has."""
    if len(text) > most:
        raise QueryTooLarge(f"the query has {len(text):,} characters; this server takes {most:,}")
    try:
        text.encode()
    except UnicodeEncodeError as error:
        shown = text.encode("utf-8", "replace").decode()
        raise QuerySyntaxError("this is half of a character (a lone surrogate)", shown, error.start) from None
