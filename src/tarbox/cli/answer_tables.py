"""How answers look: on a screen, as JSON, as a table with tabs."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING, Any, assert_never, final

from rich.console import Console, Group, RenderableType
from rich.table import Table
from rich.text import Text
from rich.tree import Tree

from tarbox.core.ids import Role
from tarbox.kb.terms import from_ntriples
from tarbox.service.answers import PREDICTED, Answers, ConceptAnswer, EntityAnswer

if TYPE_CHECKING:
    from tarbox.service.explanations import Explanation, Support
    from tarbox.service.knowledge_base import KnowledgeBase

BAR = 8
GAP = 4
LEAST = 24
"""The characters that a name has on a line before the tables stand one below the other."""
TSV_COLUMNS = ("query", "level", "iri", "label", "degree", "status", "coverage", "specificity", "p_value", "q_value")


class Form(Enum):
    """What the answers are printed as."""

    SCREEN = "screen"
    JSON = "json"
    TSV = "tsv"


@final
@dataclass(frozen=True, slots=True)
class Reasons:
    """Why: the members of every part of a query, and for predicted answers (by IRI) the facts they would follow from.

    JSON has a sentence for each of these.
    """

    tree: Explanation | None = None
    predicted: Mapping[str, Support] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        tree = {} if self.tree is None else {"explanation": self.tree.to_json()}
        told = {iri: support.sentence for iri, support in self.predicted.items()}
        return tree | ({"predictions": told} if told else {})


@final
@dataclass(slots=True)
class Printer:
    """Prints answers, one query after the other; `many` of them are told apart by their text."""

    kb: KnowledgeBase
    form: Form
    many: bool = False
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

    def _show_json(self, answers: Answers, english: str, reasons: Reasons) -> None:
        content = {**answers.to_json(), "english": english, **reasons.to_json()}
        print(json.dumps(content, ensure_ascii=False, indent=None if self.many else 2))

    def _show_tsv(self, answers: Answers) -> None:
        columns = TSV_COLUMNS if self.many else TSV_COLUMNS[1:]
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
        console.print(_side_by_side(console, self._entity_table(answers), self._concept_table(answers)))
        if reasons.tree is not None:
            console.print(_tree(reasons.tree))
        for support in reasons.predicted.values():
            console.print(_support_tree(support))
        if self.many:
            console.print()

    def _entity_table(self, answers: Answers) -> Table:
        table = _new_table(len(answers.entities), answers.entity_count, "entity", "entities")
        for column in ("degree", "status"):
            table.add_column(column)
        for answer in answers.entities:
            table.add_row(self._named(Role.ENTITY, answer), _bar(answer.degree), Text(answer.status))
        return table

    def _concept_table(self, answers: Answers) -> Table:
        """Concepts of a described set have a test instead of a degree, which is 1 for all of them."""
        table = _new_table(len(answers.concepts), answers.concept_count, "concept", "concepts")
        tested = any(answer.p_value is not None for answer in answers.concepts)
        shares = ("coverage", "specificity")
        for column in (*shares, "p", "q") if tested else ("degree", *shares, "status"):
            table.add_column(column, justify="right" if column in shares else "left")
        for answer in answers.concepts:
            told = [Text(f"{answer.coverage:.2f}"), Text(f"{answer.specificity:.2f}")]
            if tested:
                cells = [*told, _small(answer.p_value), _small(answer.q_value)]
            else:
                cells = [_bar(answer.degree), *told, Text(answer.status)]
            table.add_row(self._named(Role.CONCEPT, answer), *cells)
        return table

    def _named(self, role: Role, answer: EntityAnswer | ConceptAnswer) -> Text:
        """`ID ! label`, where the id is what a query can say; the label alone where both are one."""
        written = self.kb.resolver.write(role, from_ntriples(answer.iri))
        if written.strip("'") == answer.label:
            return Text(written)
        return Text(written).append(f" ! {answer.label}", style="dim")


def _new_table(shown: int, count: int, name: str, names: str) -> Table:
    """An empty table with its title and its first column, which gives way where there is little room."""
    number = f"{shown:,} of {count:,}" if shown < count else f"{count:,}"
    title = f"{number} {name if count == 1 else names}"
    table = Table(title=title, title_justify="left", title_style="bold", box=None, pad_edge=False, header_style="dim")
    table.add_column(name, overflow="fold")
    return table


def _side_by_side(console: Console, left: Table, right: Table) -> RenderableType:
    """Two tables in one row where the screen is wide enough for the names, folded if need be; else one below the
    other."""
    widths = [console.measure(table).maximum for table in (left, right)]
    names = [
        max((console.measure(cell).maximum for cell in table.columns[0].cells), default=0) for table in (left, right)
    ]
    room = console.width - GAP - sum(widths) + sum(names)
    if room < min(sum(names), 2 * LEAST):
        return Group(left, "", right)
    if room < sum(names):
        first = max(LEAST, min(names[0], room - LEAST, room - min(names[1], room // 2)))
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


def _tree(explanation: Explanation) -> Tree:
    shown = ", ".join(explanation.members)
    more = ", ..." if explanation.count > len(explanation.members) else ""
    found = f"\n{explanation.count:,}: {shown}{more}" if explanation.count else "\nnone"
    tree = Tree(Text(explanation.text).append(found, style="dim"))
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
    tree = Tree(Text(f"{support.nodes[0].label} is predicted"))
    for number, step in enumerate(support.steps):
        tree.add(Text(step, style="yellow" if number in predicted else "dim"))
    return tree
