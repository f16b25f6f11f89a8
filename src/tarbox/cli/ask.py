"""`tarbox ask`: both lists of answers to a question."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final, final

import typer

from tarbox.cli.exits import WITH_REJECTED
from tarbox.core.errors import QuerySyntaxError, QueryTooLarge, SourceError, TarboxError
from tarbox.service.degrees import MIN_DEGREE

if TYPE_CHECKING:
    from tarbox.cli.answer_tables import Form, Printer, Reasons
    from tarbox.query.algebra import Query
    from tarbox.query.sparql_results import SparqlResults
    from tarbox.service.answers import Answers
    from tarbox.service.explanations import Support
    from tarbox.service.knowledge_base import KnowledgeBase
    from tarbox.service.reasoner import Reasoner

EXPLAINED: Final = 3
"""How many predictions of each kind `--explain` gives reasons for."""


def ask(
    source: Annotated[Path, typer.Argument(metavar="RUN|KB", help="A run, or a store.", show_default=False)],
    query: Annotated[
        str | None, typer.Argument(metavar="QUERY", help="A class expression in Manchester syntax.", show_default=False)
    ] = None,
    *,
    k: Annotated[
        int, typer.Option("-k", min=0, help="How many answers of each kind, known and predicted ones each; 0 for all.")
    ] = 10,
    sparql: Annotated[bool, typer.Option("--sparql", help="The query is in SPARQL; a store answers any.")] = False,
    explain: Annotated[
        bool,
        typer.Option("--explain", help="Show the members of every part of the query, and why predictions are made."),
    ] = False,
    order: Annotated[
        str, typer.Option("--order", metavar="ORDER", help="Of the concepts: descriptive, probability or similarity.")
    ] = "descriptive",
    min_degree: Annotated[
        float,
        typer.Option(
            "--min-degree", min=0, max=1, help="The least probability of a run's predictions; others are counted only."
        ),
    ] = MIN_DEGREE,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON; with --file one object a line.")] = False,
    as_tsv: Annotated[bool, typer.Option("--tsv", help="Print a table with tabs.")] = False,
    file: Annotated[Path | None, typer.Option("--file", help="Answer the queries of this file, one a line.")] = None,
    entities: Annotated[
        Path | None,
        typer.Option("--set", help="The concepts that the entities of this file, one a line, are rich in, by q-value."),
    ] = None,
    background: Annotated[
        Path | None,
        typer.Option(help="With --set: the entities it was drawn from; else all described ones of the same kinds."),
    ] = None,
    versus: Annotated[
        Path | None, typer.Option(help="With --set: what it is rich in and this other set is not, and the reverse.")
    ] = None,
    everything: Annotated[
        bool, typer.Option("--all", help="With --set: also the more general concepts that add nothing.")
    ] = False,
    predicted: Annotated[
        bool, typer.Option("--predicted", help="With --set, on a run: count what is predicted by its probability, too.")
    ] = False,
    plot: Annotated[Path | None, typer.Option(help="With --set: draw the q-values: .png, .svg or .pdf.")] = None,
    expressions: Annotated[
        bool,
        typer.Option("--expressions", help="Also the best short class expressions for the known answers, or the set."),
    ] = False,
    given: Annotated[
        Path | None,
        typer.Option("--given", help="A file of facts to take as known, with any new names, for these questions only."),
    ] = None,
    classes: Annotated[
        bool, typer.Option("--classes", help="Ask for classes, as where a store has no individuals.")
    ] = False,
    processes: Annotated[
        int, typer.Option(min=0, help="With --file and --json or --tsv: processes that answer; 0 for one a processor.")
    ] = 0,
) -> None:
    """Answer a question with entities and with the concepts that describe them; without one, open a prompt."""
    prompting = query is None and file is None and entities is None and sys.stdin.isatty()
    if not prompting and [query is None, file is None, entities is None].count(False) != 1:
        raise typer.BadParameter("give one of: a QUERY, --file QUERIES, --set FILE")
    from tarbox.models.saved import is_run

    for wrong, message in (
        (as_json and as_tsv, "give --json or --tsv, not both"),
        (explain and as_tsv, "--tsv has no room for an explanation: give --explain with --json, or alone"),
        (classes and given, "--given adds facts about individuals: leave out --classes"),
        (classes and is_run(source), "a run predicts of individuals: ask its store for classes"),
        (explain and entities, "--explain is for queries: leave it out with --set"),
        (
            entities is None and (background or versus or everything or predicted or plot),
            "--background, --versus, --all, --predicted and --plot go with --set FILE",
        ),
        (
            versus and (background or predicted or expressions),
            "--versus is its own background, of what is known: leave out --background, --predicted and --expressions",
        ),
    ):
        if wrong:
            raise typer.BadParameter(message)
    if plot is not None:
        from tarbox.cli.places import check_plot

        check_plot(plot)
    from tarbox.cli.answer_tables import Form
    from tarbox.service.ordering import Order

    if order not in Order.__members__.values():
        raise typer.BadParameter(f"choose one of {', '.join(Order)}", param_hint="--order")
    form = Form.JSON if as_json else Form.TSV if as_tsv else Form.SCREEN
    shown = form, bool(file or versus), entities is None
    asking = Asking((source, given, classes), shown, k or None, sparql, explain, order, min_degree, expressions)
    if file is not None:
        from tarbox.cli.ask_file import answer_file

        if answer_file(asking, file, processes):
            raise typer.Exit(WITH_REJECTED)
        return
    question, rejected = asking.open(), 0
    if prompting:
        from tarbox.cli.prompt import converse

        converse(question)
    elif query is not None:
        question.put(query)
    elif entities is not None:
        from tarbox.cli.described_sets import describe_files

        rejected = describe_files(question, entities, background, versus, everything, predicted, plot)
    if rejected:
        raise typer.Exit(WITH_REJECTED)


@final
@dataclass(frozen=True, slots=True)
class Asking:
    """The options of one call, before anything is opened: what to ask (a run or a store, facts to add, whether for
    classes), how to show answers (as what, many of them, and whether predictions apart), and the rest."""

    where: tuple[Path, Path | None, bool]
    shown: tuple[Form, bool, bool]
    k: int | None
    sparql: bool
    explain: bool
    order: str
    min_degree: float
    expressions: bool

    def open(self) -> QuestionSession:
        from tarbox.cli.answer_tables import Printer
        from tarbox.service.knowledge_base import KnowledgeBase

        (source, given, classes), (form, many, apart) = self.where, self.shown
        reasoner = _open_reasoner(source, given)
        kb = KnowledgeBase.load(source, classes or None, given) if reasoner is None else reasoner.kb
        printer = Printer(kb, form, many, predicts=reasoner is not None and apart)
        rest = (self.order, self.min_degree, self.expressions)
        return QuestionSession(kb, printer, self.k, self.sparql, self.explain, reasoner, *rest)


@final
@dataclass(frozen=True, slots=True)
class QuestionSession:
    """How questions are put and answers shown: the options of one call. `k` is None for all answers.

    Without a `reasoner` the answers are those that follow from the facts.
    """

    kb: KnowledgeBase
    printer: Printer
    k: int | None
    sparql: bool = False
    explain: bool = False
    reasoner: Reasoner | None = None
    order: str = "descriptive"
    min_degree: float = MIN_DEGREE
    expressions: bool = False

    def put(self, text: str) -> None:
        self._show([(text, self._read(text))])

    def put_many(self, file: Path, lines: Sequence[tuple[int, str]]) -> int:
        """Answers these lines of a file at once; returns how many were rejected."""
        rejected = 0
        parsed: list[tuple[str, Query | SparqlResults]] = []
        for number, text in lines:
            try:
                parsed.append((text, self._read(text)))
            except TarboxError as error:
                rejected += 1
                reject(file, number, error)
        self._show(parsed)
        return rejected

    def _read(self, text: str) -> Query | SparqlResults:
        """The query of a text, whose names are all of the knowledge base; results of SPARQL that is no such query.

        These a store has, for any SPARQL. What is no SPARQL for the engine either, is refused as we read it.
        """
        try:
            query = self.kb.parse(text, self.sparql)
        except (QuerySyntaxError, QueryTooLarge) as error:
            if not self.sparql or self.reasoner is not None:
                raise
            from tarbox.query.sparql_results import put_query

            try:
                return put_query(self.kb.engine, text)
            except QuerySyntaxError:
                raise error from None
        if self.sparql:
            self.kb.check(query)
        return query

    def _show(self, asked: Sequence[tuple[str, Query | SparqlResults]]) -> None:
        """Answers queries in one call and prints them one after the other, and results among them."""
        from tarbox.query.algebra import Query

        queries = [(text, query) for text, query in asked if isinstance(query, Query)]
        answered = iter(self._answer(queries))
        for text, query in asked:
            if not isinstance(query, Query):
                self.printer.show_results(text, query)
                continue
            answers = self.express(next(answered), None, query)
            self.printer.show(answers, self.kb.describe(query), self._reasons(query, answers) if self.explain else None)

    def _answer(self, asked: Sequence[tuple[str, Query]]) -> list[Answers]:
        from tarbox.service.answering import Question
        from tarbox.service.ordering import Order

        by, order = self.reasoner or self.kb, Order(self.order)
        return by.answer_many([Question(query, self.k, text, order, self.min_degree) for text, query in asked])

    def express(
        self,
        answers: Answers,
        members: Sequence[str] | None,
        without: Query | None = None,
        background: Sequence[str] | None = None,
    ) -> Answers:
        """With expressions for the members, against a background, or for all known answers of the query."""
        if not self.expressions:
            return answers
        if members is None and without is not None:
            members = [answer.iri for answer in self.kb.answer(without).entities]
        found = self.kb.express(members or (), self.k, without, background)
        return replace(answers, extra={**answers.extra, "expressions": [asdict(each) for each in found]})

    def _reasons(self, query: Query, answers: Answers) -> Reasons:
        """The members of every part, and for the best predictions the facts that would carry them.

        Where the knowledge base has evidence of its facts (ADR 40), those of the first known answers are told, too.
        """
        from tarbox.cli.answer_tables import Reasons
        from tarbox.core.ids import Role
        from tarbox.service.answers import KNOWN, PREDICTED
        from tarbox.service.explanations import explain, explain_answer

        told: dict[str, Support] = {}
        for role, listed in ((Role.ENTITY, answers.entities), (Role.CONCEPT, answers.concepts)):
            best = islice((answer.iri for answer in listed if answer.status == PREDICTED), EXPLAINED)
            told |= {iri: self.reasoner.explain(query, iri, role) for iri in best} if self.reasoner else {}
        known = (answer.iri for answer in answers.entities if answer.status == KNOWN and self.kb.attributes)
        facts = {iri: explain_answer(query, self.kb, iri, Role.ENTITY) for iri in islice(known, EXPLAINED)}
        return Reasons(explain(query, self.kb), told, facts)


def _open_reasoner(source: Path, given: Path | None) -> Reasoner | None:
    """The reasoner of a run; none where the source is no run."""
    from tarbox.models.saved import is_run

    if not is_run(source):
        return None
    from tarbox.service.reasoner import Reasoner

    return Reasoner.load(source, given=given)


def read_lines(file: Path) -> Iterator[tuple[int, str]]:
    """The lines of a file with their numbers; empty lines and those that begin with # are left out.

    A byte-order mark before the first is no part of it.
    """
    try:
        with file.open(encoding="utf-8-sig") as lines:
            for number, line in enumerate(lines, start=1):
                if line.strip() and not line.startswith("#"):
                    yield number, line.strip()
    except OSError as error:
        raise SourceError(f"cannot read {file}: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise SourceError(f"{file} is not a text in UTF-8") from error


def reject(file: Path, number: int, error: TarboxError) -> None:
    place = f" (column {error.position + 1})" if isinstance(error, QuerySyntaxError) else ""
    reason = error.reason if isinstance(error, QuerySyntaxError) else str(error)
    print(f"{file}:{number}: {reason}{place}", file=sys.stderr)
