"""How answers look: on a screen, as JSON, as a table with tabs."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, assert_never, final

from rich.console import Console, Group, RenderableType
from rich.table import Table
from rich.text import Text
from rich.tree import Tree

from tarbox.core.ids import Role
from tarbox.kb.terms import from_ntriples
from tarbox.service.answers import Answers, ConceptAnswer, EntityAnswer

if TYPE_CHECKING:
    from tarbox.service.explanations import Explanation
    from tarbox.service.knowledge_base import KnowledgeBase

BAR = 8
GAP = 4
TSV_COLUMNS = ("query", "level", "iri", "label", "degree", "status", "coverage", "specificity", "p_value", "q_value")


class Form(Enum):
    """What the answers are printed as."""

    SCREEN = "screen"
    JSON = "json"
    TSV = "tsv"


@final
@dataclass(slots=True)
class Printer:
    """Prints answers, one query after the other; `many` of them are told apart by their text."""

    kb: KnowledgeBase
    form: Form
    many: bool = False
    printed: int = 0

    def show(self, answers: Answers, english: str, explanation: Explanation | None) -> None:
        match self.form:
            case Form.JSON:
                self._show_json(answers, english, explanation)
            case Form.TSV:
                self._show_tsv(answers)
            case Form.SCREEN:
                self._show_tables(answers, english, explanation)
            case _:
                assert_never(self.form)
        self.printed += 1

    def _show_json(self, answers: Answers, english: str, explanation: Explanation | None) -> None:
        content = {**answers.to_json(), "english": english}
        if explanation is not None:
            content["explanation"] = explanation.to_json()
        print(json.dumps(content, ensure_ascii=False, indent=None if self.many else 2))

    def _show_tsv(self, answers: Answers) -> None:
        columns = TSV_COLUMNS if self.many else TSV_COLUMNS[1:]
        if not self.printed:
            print("\t".join(columns))
        for row in answers.to_arrow().to_pylist():
            cells = {"query": answers.query, **row}
            print("\t".join(_cell(cells[column]) for column in columns))

    def _show_tables(self, answers: Answers, english: str, explanation: Explanation | None) -> None:
        console = Console(highlight=False)
        if self.many:
            console.print(Text(answers.query, style="bold"))
        console.print(Text(english, style="italic"))
        entities = self._entity_table(answers.entities, answers.entity_count)
        concepts = self._concept_table(answers.concepts, answers.concept_count)
        console.print(_side_by_side(console, entities, concepts))
        if explanation is not None:
            console.print(_tree(explanation))
        if self.many:
            console.print()

    def _entity_table(self, entities: Sequence[EntityAnswer], count: int) -> Table:
        table = _new_table(
            f"{len(entities):,} of {count:,} entities" if len(entities) < count else f"{count:,} entities"
        )
        for column in ("entity", "degree", "status"):
            table.add_column(column, overflow="fold")
        for answer in entities:
            table.add_row(self._named(Role.ENTITY, answer), _bar(answer.degree), Text(answer.status))
        return table

    def _concept_table(self, concepts: Sequence[ConceptAnswer], count: int) -> Table:
        table = _new_table(
            f"{len(concepts):,} of {count:,} concepts" if len(concepts) < count else f"{count:,} concepts"
        )
        tested = any(answer.p_value is not None for answer in concepts)
        for column in ("concept", "coverage", "specificity", *(("p", "q") if tested else ("status",))):
            table.add_column(column, overflow="fold")
        for answer in concepts:
            last = [_small(answer.p_value), _small(answer.q_value)] if tested else [Text(answer.status)]
            bars = _bar(answer.coverage), _bar(answer.specificity)
            table.add_row(self._named(Role.CONCEPT, answer), *bars, *last)
        return table

    def _named(self, role: Role, answer: EntityAnswer | ConceptAnswer) -> Text:
        """`ID ! label`, where the id is what a query can say; the label alone where both are one."""
        written = self.kb.resolver.write(role, from_ntriples(answer.iri))
        if written.strip("'") == answer.label:
            return Text(written)
        return Text(written).append(f" ! {answer.label}", style="dim")


def _new_table(title: str) -> Table:
    return Table(title=title, title_justify="left", title_style="bold", box=None, pad_edge=False, header_style="dim")


def _side_by_side(console: Console, left: Table, right: Table) -> RenderableType:
    """Two tables in one row where the screen is wide enough, else one below the other."""
    if console.measure(left).maximum + console.measure(right).maximum + GAP > console.width:
        return Group(left, "", right)
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
