"""`tarbox ask --set`: lists of entities in files, and the concepts that they are rich in."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, final

from tarbox.cli.ask import QuestionSession, read_lines, reject
from tarbox.core.errors import QueryError, SourceError
from tarbox.service.set_descriptions import Background, compare_members, describe_members, listed_background, read_names

if TYPE_CHECKING:
    from tarbox.kb.arrays import Ids
    from tarbox.kb.rows import Rows
    from tarbox.service.answers import Answers, ConceptAnswer


@final
@dataclass(frozen=True, slots=True)
class SetRequest:
    """The files of a set, of its background and of a set to compare it with, and what is wanted of them."""

    file: Path
    background: Path | None = None
    versus: Path | None = None
    everything: bool = False
    predicted: bool = False
    plot: Path | None = None


def describe_files(session: QuestionSession, request: SetRequest) -> int:
    """Describes the set, or what sets it and another apart; returns how many lines were rejected."""
    kb = session.kb
    probabilities = _probabilities(session) if request.predicted else None
    members, rejected = _read(session, request.file)
    background: Background | None = None
    if request.background is not None:
        listed, more = _read(session, request.background)
        background, rejected = listed_background(kb.index, listed), rejected + more
    if request.versus is None:
        described = describe_members(kb, members, background, request.everything, probabilities)
        told = {request.file: _express(session, described, background)}
    else:
        others, more = _read(session, request.versus)
        both = compare_members(kb, members, others, background, request.everything)
        told, rejected = dict(zip((request.file, request.versus), both, strict=True)), rejected + more
    if request.plot is not None:
        _draw(told, request.plot, session.k)
    for file, answers in told.items():
        shown = replace(answers, entities=answers.entities[: session.k], concepts=answers.concepts[: session.k])
        other = next((f", against those of {each}" for each in told if each != file), "")
        text = str(file) if other else answers.query
        session.printer.show(replace(shown, query=text), f"{len(answers.entities):,} entities of {file}{other}")
    return rejected


def _express(session: QuestionSession, described: Answers, background: Background | None) -> Answers:
    """With class expressions, where they are asked for."""
    if not session.expressions:
        return described
    of = None if background is None else [session.kb.entities.at(one).iri for one in background.entities.tolist()]
    return session.express(described, [entity.iri for entity in described.entities], background=of)


def _read(session: QuestionSession, file: Path) -> tuple[Ids, int]:
    """The entities of a file, one a line (the first cell where there are tabs), and how many lines name none."""
    lines = list(read_lines(file))
    named = read_names(session.kb, (text.partition("\t")[0].strip() for _, text in lines))
    for position, problem in named.problems:
        reject(file, lines[position][0], problem)
    if not len(named.members):
        raise SourceError(f"{file} names no entity of {session.kb.title}")
    return named.members, len(named.problems)


def _probabilities(session: QuestionSession) -> Rows:
    if session.reasoner is None:
        raise QueryError(f"--predicted needs a run: {session.kb.title} is a store, which predicts nothing")
    return session.reasoner.description_probabilities()


def _draw(told: dict[Path, Answers], plot: Path, k: int | None) -> None:
    from tarbox.evaluation.set_plots import EnrichedBar, draw_enrichment
    from tarbox.service.enrichment import SIGNIFICANT

    def bar(concept: ConceptAnswer) -> EnrichedBar:
        values = {"known": concept.q_value, "with predictions": concept.expected_q_value}
        note = f"{concept.set_count:,} of {concept.background_count:,}, {concept.fold:.3g} times"
        return EnrichedBar(concept.label, {name: q for name, q in values.items() if q is not None}, note)

    panels = {
        f"{file.name}: {answers.extra['set_size']:,} of {answers.extra['background_size']:,} entities": [
            bar(concept) for concept in answers.concepts[:k]
        ]
        for file, answers in told.items()
    }
    draw_enrichment(panels, SIGNIFICANT, plot)
