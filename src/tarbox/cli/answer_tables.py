"""How answers look: on a screen, as JSON, as a table with tabs."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from enum import Enum
from functools import partial
from typing import TYPE_CHECKING, Any, Final, TypeAlias, assert_never, final

from rich.console import Console, Group, RenderableType
from rich.table import Table
from rich.text import Text
from rich.tree import Tree

from tarbox.core.ids import Role
from tarbox.kb.terms import from_ntriples
from tarbox.service.answers import ALL_FACTS, KNOWN, PREDICTED, AnswerCounts, Answers, ConceptAnswer, EntityAnswer
from tarbox.service.enrichment import SIGNIFICANT

if TYPE_CHECKING:
    from tarbox.query.sparql_results import SparqlResults
    from tarbox.service.explanations import Explanation, Support
    from tarbox.service.knowledge_base import KnowledgeBase

BAR = 8
GAP = 4
LEFT_OUT: Final = 5
"""So many members outside the background are named."""
LEAST_NAME = 24
"""The characters that a name has on a line before the tables stand one below the other."""
_WIDEST: Final = 1 << 20
Listed: TypeAlias = EntityAnswer | ConceptAnswer
TSV_COLUMNS = ("query", "level", "iri", "label", "degree", "status", "coverage", "specificity")


class Form(Enum):
    """What the answers are printed as."""

    SCREEN = "screen"
    JSON = "json"
    TSV = "tsv"


@final
@dataclass(frozen=True, slots=True)
class Reasons:
    """Why: the members of every part of a query, and for predicted answers (by IRI) the facts they would follow from.

    JSON has a sentence for each of these. Of `known` answers it has the facts, one by one, with their evidence.
    """

    tree: Explanation | None = None
    predicted: Mapping[str, Support] = field(default_factory=dict)
    known: Mapping[str, Support] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        tree = {} if self.tree is None else {"explanation": asdict(self.tree)}
        told = {iri: support.sentence for iri, support in self.predicted.items()}
        facts = {iri: list(support.steps) for iri, support in self.known.items()}
        return tree | ({"predictions": told} if told else {}) | ({"facts": facts} if facts else {})


@final
@dataclass(slots=True)
class Printer:
    """Prints answers, one query after the other; `many` of them are told apart by their text.

    Where a model `predicts`, known answers and predictions stand under headings of their own.
    """

    kb: KnowledgeBase
    form: Form
    many: bool = False
    predicts: bool = False
    printed: int = 0

    def show(self, answers: Answers, english: str, reasons: Reasons | None = None) -> None:
        match self.form:
            case Form.JSON:
                self._show_json(answers, english, reasons or Reasons())
            case Form.TSV:
                self._show_tsv(answers)
            case Form.SCREEN:
                self._show_tables(answers, english, reasons or Reasons())
            case _:
                assert_never(self.form)
        self.printed += 1

    def show_results(self, text: str, results: SparqlResults) -> None:
        """The results of a SPARQL query that is not answered at both levels, in SPARQL's own formats."""
        from tarbox.query.sparql_results import choose_format, is_graph, write_results

        if self.many and self.form is Form.SCREEN:
            Console(highlight=False).print(Text(text, style="bold"))
        graph = is_graph(results)
        wanted = "json" if self.form is Form.JSON else ("ttl", "tsv")[not graph]
        format = choose_format(graph, "", wanted)
        assert format is not None
        print(write_results(results, format).decode().rstrip("\n"))
        self.printed += 1

    def _show_json(self, answers: Answers, english: str, reasons: Reasons) -> None:
        content = {**answers.to_json(), "english": english, **reasons.to_json()}
        print(json.dumps(content, ensure_ascii=False, indent=None if self.many else 2))

    def _show_tsv(self, answers: Answers) -> None:
        columns: tuple[str, ...] = TSV_COLUMNS if self.many else TSV_COLUMNS[1:]
        if "set_size" in answers.extra:
            expected = any(answer.expected_count is not None for answer in answers.concepts)
            columns += tuple(name for name in _TEST_FIELDS if expected or not name.startswith("expected"))
        if not self.printed:
            print("\t".join(columns))
        for row in answers.to_arrow().to_pylist():
            cells = {"query": answers.query, **row}
            print("\t".join(_cell(cells[column]) for column in columns))

    def _show_tables(self, answers: Answers, english: str, reasons: Reasons) -> None:
        console = Console(highlight=False)
        if self.many:
            console.print(Text(answers.query, style="bold"))
        console.print(Text(english, style="italic"))
        if "set_size" in answers.extra:
            for line in self._set_notes(answers):
                console.print(Text(line, style="dim"))
            console.print(self._concept_table(answers))
        else:
            entities = self._table(Role.ENTITY, answers.entities, answers.entity_counts, _DEGREE | _STATUS)
            console.print(_side_by_side(console, entities, self._concept_table(answers)))
        if "expressions" in answers.extra:
            console.print(_expression_table(answers.extra["expressions"]))
        if self.kb.of_classes and not self.printed:
            console.print(Text(_OF_CLASSES.format(self.kb.title), style="dim"))
        trained_on = answers.extra.get("trained_on", ALL_FACTS)
        if trained_on != ALL_FACTS and not self.printed:
            console.print(Text(f"The model was trained on {trained_on}.", style="dim"))
        if reasons.tree is not None:
            console.print(_tree(reasons.tree))
        for support in (*reasons.known.values(), *reasons.predicted.values()):
            console.print(_support_tree(support))
        if self.many:
            console.print()

    def _concept_table(self, answers: Answers) -> Table:
        """Concepts of a described set have tests instead of a degree, which is 1 for all of them."""
        if "set_size" not in answers.extra:
            columns = _DEGREE | _SHARES | _STATUS
            return self._table(Role.CONCEPT, answers.concepts, answers.concept_counts, columns)
        expected = any(answer.expected_count is not None for answer in answers.concepts)
        listed = [replace(answer, status=KNOWN) for answer in answers.concepts]  # one list, in the order of the tests
        return self._table(Role.CONCEPT, listed, answers.concept_counts, _BOTH_TESTS if expected else _TEST)

    def _set_notes(self, answers: Answers) -> Iterator[str]:
        """What a set was compared with, who of it was not, and how many concepts were tested."""
        told = answers.extra
        kinds = [self.kb.concepts[iri].label for iri in told["background"] or ()]
        whose = " given" if told["background"] is None else f" of {', '.join(kinds)}" if kinds else ""
        size = f"{told['background_size']:,} described entities{whose}"
        yield f"n = {told['set_size']:,} members in the background, N = {size}"
        if told["outside"]:
            named = ", ".join(self.kb.entities[iri].label for iri in told["outside"][:LEFT_OUT])
            more = ", ..." if len(told["outside"]) > LEFT_OUT else ""
            yield f"not in the background, hence not counted: {len(told['outside']):,} ({named}{more})"
        found = f"{told['tests']:,} tests (concepts that describe one of the N); {told['significant']:,} with q < "
        rest = f", {told['redundant']:,} of which add nothing to a more specific one (--all)"
        yield f"{found}{SIGNIFICANT:g}{rest if told['redundant'] else ''}"

    def _table(self, role: Role, listed: Sequence[Listed], counts: AnswerCounts, columns: TableColumns) -> Table:
        """Known answers under their number; where a model predicts, a line with the number of predictions, and these.

        The names of the columns stand above the first answer. The first column gives way where there is little room.
        """
        known, predicted = ([each for each in listed if each.status == status] for status in (KNOWN, PREDICTED))
        names = ("class", "classes") if self.kb.of_classes and role is Role.ENTITY else _NAMES[role]
        title = f"{_of(len(known), counts.known)}{' known' if self.predicts else ''} {names[counts.known != 1]}"
        predictions = f"\n{_count_predictions(len(predicted), counts)}" if self.predicts else ""
        table = Table(title=title, title_justify="left", title_style="bold", box=None, pad_edge=False)
        table.header_style, table.show_header = "dim", bool(known or predicted)
        if predictions and not known:
            table.title = f"{title}\n{predictions}"
        table.add_column(names[0], overflow="fold")
        for column in columns:
            table.add_column(column, justify="left" if column in _LEFT else "right", no_wrap=True)
        for answer in known:
            table.add_row(self._named(role, answer), *(cell(answer) for cell in columns.values()))
        if predictions and known:
            table.add_row(Text(predictions, style="bold"))
        for answer in predicted:
            table.add_row(self._named(role, answer), *(cell(answer) for cell in columns.values()))
        return table

    def _named(self, role: Role, answer: Listed) -> Text:
        """`ID ! label`, where the id is what a query can say; the label alone where both are one."""
        written = self.kb.resolver.write(role, from_ntriples(answer.iri))
        if written.strip("'") == answer.label:
            return Text(written)
        return Text(written).append(f" ! {answer.label}", style="dim")


_OF_CLASSES: Final = (
    "Answers are classes of {}, by what axioms say of all their members; individuals, where it has some, are left out."
)


def _expression_table(expressions: Sequence[Mapping[str, Any]]) -> Table:
    """Class expressions, the best first, each with its English below."""
    title = "expressions" if expressions else "no expression fits better than chance"
    table = Table(title=title, title_justify="left", title_style="bold", box=None, pad_edge=False, header_style="dim")
    for column in ("expression", "entities", "coverage", "specificity", "p"):
        table.add_column(column, justify="left" if column == "expression" else "right", overflow="fold")
    for found in expressions:
        shares = (f"{found[key]:.2f}" for key in ("coverage", "specificity"))
        table.add_row(Text(found["expression"]), f"{found['count']:,}", *shares, f"{found['p_value']:.2g}")
    return table


def _of(shown: int, count: int) -> str:
    return f"{shown:,} of {count:,}" if shown < count else f"{count:,}"


def _count_predictions(shown: int, counts: AnswerCounts) -> str:
    """
    >>> _count_predictions(6, AnswerCounts(28, 6, 12)), _count_predictions(0, AnswerCounts(28, 0, 82))
    ('6 predicted (12 less likely)', 'none predicted (82 less likely)')
    """
    number = _of(shown, counts.predicted) if counts.predicted else "none"
    return f"{number} predicted" + (f" ({counts.less_likely:,} less likely)" if counts.less_likely else "")


def _side_by_side(console: Console, left: Table, right: Table) -> RenderableType:
    """Two tables in one row where the screen is wide enough for the names, folded if need be; else one below the
    other."""
    unbounded = console.options.update_width(_WIDEST)  # else nothing is wider than the screen
    widths = [console.measure(table, options=unbounded).maximum for table in (left, right)]
    names = [
        max((console.measure(cell, options=unbounded).maximum for cell in table.columns[0].cells), default=0)
        for table in (left, right)
    ]
    room = console.width - GAP - sum(widths) + sum(names)
    if room < min(sum(names), 2 * LEAST_NAME):
        return Group(left, "", right)
    if room < sum(names):
        first = max(LEAST_NAME, min(names[0], room - LEAST_NAME, room - min(names[1], room // 2)))
        left.columns[0].max_width, right.columns[0].max_width = first, room - first
    grid = Table.grid(padding=(0, GAP))
    grid.add_row(left, right)
    return grid


def _bar(share: float) -> Text:
    full = round(share * BAR)
    return (
        Text("█" * full, style="cyan").append("·" * (BAR - full), style="dim").append(f" {share:.2f}", style="default")
    )


def _small(value: float | None) -> Text:
    return Text("" if value is None else f"{value:.2g}")


def _below(known: Callable[[Any], Text], expected: Callable[[Any], Text] | None, answer: ConceptAnswer) -> Text:
    """What is known, with what is expected on a line below, where a screen has no room for columns of both."""
    return known(answer) if expected is None else Text("\n").join((known(answer), expected(answer)))


TableColumns: TypeAlias = Mapping[str, Callable[[Any], Text]]
_NAMES: Final = {Role.ENTITY: ("entity", "entities"), Role.CONCEPT: ("concept", "concepts")}
_DEGREE: Final[dict[str, Callable[[Any], Text]]] = {"degree": lambda answer: _bar(answer.degree)}
_STATUS: Final[dict[str, Callable[[Any], Text]]] = {"status": lambda answer: Text(answer.status)}
_SHARES: Final[dict[str, Callable[[Any], Text]]] = {
    "coverage": lambda answer: Text(f"{answer.coverage:.2f}"),
    "specificity": lambda answer: Text(f"{answer.specificity:.2f}"),
}
_TEST: Final[dict[str, Callable[[Any], Text]]] = {
    "k/n": lambda answer: Text(f"{answer.set_count:,}/{answer.set_size:,}"),
    "K/N": lambda answer: Text(f"{answer.background_count:,}/{answer.background_size:,}"),
    "fold": lambda answer: Text(f"{answer.fold:.3g}"),
    "p": lambda answer: _small(answer.p_value),
    "q": lambda answer: _small(answer.q_value),
}
_EXPECTED: Final[dict[str, Callable[[Any], Text]]] = {
    "k/n": lambda answer: Text(f"{answer.expected_count:,.2f}"),
    "p": lambda answer: _small(answer.expected_p_value),
    "q": lambda answer: _small(answer.expected_q_value),
}
_BOTH_TESTS: Final[dict[str, Callable[[Any], Text]]] = {
    f"{name}\nexpected" if name in _EXPECTED else name: partial(_below, cell, _EXPECTED.get(name))
    for name, cell in _TEST.items()
}
_LEFT: Final = (*_DEGREE, *_STATUS)
_TEST_FIELDS: Final = tuple(each.name for each in fields(ConceptAnswer) if each.name not in TSV_COLUMNS)


def _tree(explanation: Explanation) -> Tree:
    shown = ", ".join(explanation.members)
    more = ", ..." if explanation.count > len(explanation.members) else ""
    found = f"\n{explanation.count:,}: {shown}{more}" if explanation.count else "\nnone"
    tree = Tree(Text(explanation.query).append(found, style="dim"))
    for part in explanation.parts:
        if part.parts or part.count != 1:  # a named entity explains itself
            tree.add(_tree(part))
    return tree


def _cell(value: object) -> str:
    if value is None:
        return ""
    return f"{value:.6g}" if isinstance(value, float) else str(value).replace("\t", " ").replace("\n", " ")


def _support_tree(support: Support) -> Tree:
    """What would carry a prediction, step by step; predicted steps in colour."""
    predicted = {edge.step for edge in support.edges if edge.status == PREDICTED}
    known = all(edge.status != PREDICTED for edge in support.edges)
    tree = Tree(Text(f"{support.nodes[0].label} is {'known' if known else 'predicted'}"))
    for number, step in enumerate(support.steps):
        tree.add(Text(step, style="yellow" if number in predicted else "dim"))
    return tree
