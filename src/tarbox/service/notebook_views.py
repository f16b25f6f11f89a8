"""How things show themselves in a notebook: HTML without scripts, every name escaped."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape
from typing import TYPE_CHECKING, Any, Final

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


def answers_view(answers: Answers) -> str:
    """The question, and the answers: known ones above, predicted ones below, entities beside concepts."""
    asked = escape(answers.query)
    if answers.by is not None and answers.tree is not None:
        asked = query_view(answers.by.kb, answers.tree)
    kinds = ("entity", answers.entities, answers.entity_counts), ("concept", answers.concepts, answers.concept_counts)
    return asked + "".join(
        f'<div style="{_BESIDE}">{"".join(_kind_view(status, *kind) for kind in kinds)}</div>'
        for status, wanted in ((KNOWN, True), (PREDICTED, any(counts.predicted for _, _, counts in kinds)))
        if wanted
    )


def query_view(kb: KnowledgeBase, query: Query) -> str:
    """A query in English, in Manchester syntax, and as a picture."""
    return f"<p>{escape(kb.describe(query))}<br><code>{escape(kb.render(query))}</code></p>{_picture(kb, query)}"


def _picture(kb: KnowledgeBase, query: Query) -> str:
    """Light in any theme: a notebook's is not told to pictures."""
    drawn = draw(query, kb.naming.show, kb.describe(query), follow_theme=False)
    return f'<div style="display:inline-block;background:#fff">{drawn}</div>'


def kb_view(kb: KnowledgeBase) -> str:
    """What is in a knowledge base: counts, and the concepts and relations used most."""
    counts = kb.facts.counts()
    used = [
        _table([role.plural, "used"], [(each.label, f"{each.count:,}") for each in kb.search("", ROWS, role)])
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


def _kind_view(status: str, level: str, listed: Sequence[EntityAnswer | ConceptAnswer], counts: AnswerCounts) -> str:
    """The answers of one kind with one status: degrees as bars; of concepts, how many answers they cover."""
    shown = [each for each in listed[: ROWS if status == KNOWN else None] if each.status == status][:ROWS]
    rows = [
        (each.label, _Markup(f'<meter max="1" value="{each.degree:.4f}"></meter> {each.degree:.2f}'))
        + ((f"{each.coverage:.2f}",) if isinstance(each, ConceptAnswer) else ())
        for each in shown
    ]
    total = counts.known if status == KNOWN else counts.predicted
    number = f"{len(shown)} of {total:,}" if len(shown) < total else f"{total:,}"
    heads = [f"{status} {Role(level).plural}: {number}", "degree", *(["coverage"] if level == "concept" else [])]
    return _table(heads, rows)


class _Markup(str):
    """Text that is HTML already."""

    __slots__ = ()


def _table(heads: Sequence[str], rows: Iterable[Sequence[Any]]) -> str:
    head = "".join(f'<th style="text-align:left">{escape(text)}</th>' for text in heads)
    body = "".join(f"<tr>{''.join(_cell(value) for value in row)}</tr>" for row in rows)
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def _cell(value: str) -> str:
    return f'<td style="text-align:left">{value if isinstance(value, _Markup) else escape(value)}</td>'
