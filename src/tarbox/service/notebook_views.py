"""How things show themselves in a notebook: HTML without scripts, every name escaped."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from html import escape
from typing import TYPE_CHECKING, Final

from tarbox.core.ids import Role
from tarbox.kb.facts import KINDS
from tarbox.query.drawing import draw
from tarbox.service.answers import KNOWN, PREDICTED, AnswerCounts, Answers, ConceptAnswer, EntityAnswer

if TYPE_CHECKING:
    from tarbox.query.algebra import Query
    from tarbox.service.explanations import Support
    from tarbox.service.knowledge_base import KnowledgeBase
    from tarbox.service.reasoner import Reasoner

ROWS: Final = 10
"""So many answers of a kind are shown; all of them are in the lists."""
_BESIDE: Final = "display:flex;flex-wrap:wrap;gap:2em;align-items:flex-start"


def answers_text(answers: Answers) -> str:
    """The answers in a line for each kind."""
    lines = []
    for title, total, shown in _kinds(answers):
        names = [each.label if each.status == KNOWN else f"{each.label} ({each.degree:.2f})" for each in shown]
        lines.append(title + ": " * bool(names) + ", ".join([*names, *["..."] * bool(names and len(names) < total)]))
    return "\n".join(lines)


def answers_view(answers: Answers) -> str:
    """The question, and the answers: known ones above, predicted ones below, entities beside concepts."""
    asked = f"<p>{escape(answers.query)}</p>"
    if answers.by is not None and answers.tree is not None:
        asked = query_view(answers.by.kb, answers.tree)
    tables = [_kind_view(*kind) for kind in _kinds(answers)]
    return asked + "".join(f'<div style="{_BESIDE}">{"".join(pair)}</div>' for pair in (tables[:2], tables[2:]) if pair)


def query_view(kb: KnowledgeBase, query: Query) -> str:
    """A query in English, in Manchester syntax, and as a picture: light in any theme, which pictures are not told."""
    english = kb.describe(query)
    drawn = draw(query, kb.naming.show, english, follow_theme=False)
    said = f"<p>{escape(english)}<br><code>{escape(kb.render(query))}</code></p>"
    return f'{said}<div style="display:inline-block;background:#fff">{drawn}</div>'


def kb_view(kb: KnowledgeBase) -> str:
    """What is in a knowledge base: counts, and the concepts and relations used most."""
    counts = kb.facts.counts()
    used = [
        _table([role.plural, "used"], [(escape(each.label), f"{each.count:,}") for each in kb.search("", ROWS, role)])
        for role in (Role.CONCEPT, Role.RELATION)
    ]
    sizes = _table([kb.title, ""], [(kind, f"{counts[kind]:,}") for kind in KINDS])
    return f'<div style="{_BESIDE}">{sizes}{"".join(used)}</div>'


def reasoner_view(reasoner: Reasoner) -> str:
    told = "" if reasoner.trained_on is None else f", trained on {reasoner.trained_on}"
    return f"<p>{escape(reasoner.model + told)}</p>{kb_view(reasoner.kb)}"


def support_view(support: Support) -> str:
    """Why an answer is one: a sentence, and the facts one by one."""
    steps = "".join(f"<li>{escape(step)}</li>" for step in support.steps)
    return f"<p>{escape(support.sentence)}</p><ol>{steps}</ol>"


def _kinds(answers: Answers) -> Iterator[tuple[str, int, Sequence[EntityAnswer | ConceptAnswer]]]:
    """Known entities and concepts, then predicted ones where there are any of either: a title, how many there are, and
    the first of those that are listed."""
    levels: tuple[tuple[Role, Sequence[EntityAnswer | ConceptAnswer], AnswerCounts], ...] = (
        (Role.ENTITY, answers.entities, answers.entity_counts),
        (Role.CONCEPT, answers.concepts, answers.concept_counts),
    )
    predicted = any(counts.predicted for _, _, counts in levels)
    for status in (KNOWN, PREDICTED) if predicted else (KNOWN,):
        for role, listed, counts in levels:
            count = counts.known if status == KNOWN else counts.predicted
            among = listed[:ROWS] if status == KNOWN else listed  # known ones may be millions
            shown = [each for each in among if each.status == status][:ROWS]
            yield f"{count:,} {status} {role.value if count == 1 else role.plural}", count, shown


def _kind_view(title: str, total: int, shown: Sequence[EntityAnswer | ConceptAnswer]) -> str:
    """Degrees as bars; of concepts, how many answers they cover."""
    rows = [
        (escape(each.label), f'<meter max="1" value="{each.degree:.4f}"></meter> {each.degree:.2f}')
        + ((f"{each.coverage:.2f}",) if isinstance(each, ConceptAnswer) else ())
        for each in shown
    ]
    heads = [f"{len(rows)} of {title}" if len(rows) < total else title, "degree", "coverage"]
    return _table(heads[: len(rows[0]) if rows else 1], rows)


def _table(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Headings are texts, cells HTML."""
    head = "".join(f'<th style="text-align:left">{escape(text)}</th>' for text in heads)
    cells = ("".join(f'<td style="text-align:left">{cell}</td>' for cell in row) for row in rows)
    body = "".join(f"<tr>{row}</tr>" for row in cells)
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"
