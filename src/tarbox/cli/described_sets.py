"""`tarbox ask --set`: lists of entities in files, and the concepts that they are rich in."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from tarbox.cli.ask import QuestionSession, read_lines, reject
from tarbox.core.errors import QueryError, SourceError
from tarbox.service.set_descriptions import read_names

if TYPE_CHECKING:
    from tarbox.service.answers import Answers


def describe_files(
    session: QuestionSession,
    file: Path,
    background: Path | None,
    versus: Path | None,
    everything: bool,
    predicted: bool,
    plot: Path | None,
) -> int:
    """Describes the set of a file, or what sets it and another apart; returns how many lines were rejected."""
    if predicted and session.reasoner is None:
        raise QueryError(f"--predicted needs a run: {session.kb.title} is a store, which predicts nothing")
    read = {each: _read(session, each) for each in (file, background, versus) if each is not None}
    members, rejected = read[file][0], sum(rejected for _, rejected in read.values())
    whole = None if background is None else read[background][0]
    if versus is not None:
        both = session.kb.compare_sets(members, read[versus][0], everything)
        told = list(zip((file, versus), both, strict=True))
    else:
        asked = session.reasoner if predicted and session.reasoner else session.kb
        answers = asked.describe_set(members, whole, everything)
        told = [(file, session.express(answers, members, background=whole))]
    if plot is not None:
        _draw(told, plot, session.k)
    for each, answers in told:
        against = "" if versus is None else f", against {versus if each is file else file}"
        shown = replace(answers, entities=answers.entities[: session.k], concepts=answers.concepts[: session.k])
        shown = replace(shown, query=str(each)) if versus else shown
        session.printer.show(shown, f"{len(answers.entities):,} entities of {each}{against}")
    return rejected


def _read(session: QuestionSession, file: Path) -> tuple[list[str], int]:
    """The entities of a file, one a line (the first cell where there are tabs), and how many lines name none."""
    lines = list(read_lines(file))
    members, problems = read_names(session.kb, (text.partition("\t")[0].strip() for _, text in lines))
    for position, problem in problems:
        reject(file, lines[position][0], problem)
    if not len(members):
        raise SourceError(
            f"{file} names no entity of {session.kb.title}: a line is one name, or has cells with tabs between them, "
            "the name first"
        )
    return [session.kb.entities.at(member).iri for member in members.tolist()], len(problems)


def _draw(told: list[tuple[Path, Answers]], plot: Path, k: int | None) -> None:
    from tarbox.evaluation.plots import draw_enrichment
    from tarbox.service.enrichment import SIGNIFICANT

    panels = {
        f"{file.name}: n = {answers.extra['set_size']:,} of N = {answers.extra['background_size']:,}": [
            (
                concept.label,
                {"known": concept.q_value, "with predictions": concept.expected_q_value},
                f"k = {concept.set_count:,}, K = {concept.background_count:,}, fold {concept.fold:.3g}",
            )
            for concept in answers.concepts[:k]
        ]
        for file, answers in told
    }
    draw_enrichment(panels, SIGNIFICANT, plot)
