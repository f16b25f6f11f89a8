"""From sources to a store: read, stage, interpret, encode, publish."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Final, TypeVar, final

import numpy as np

from tarbox.core.errors import RejectedLine, SourceError
from tarbox.kb.attributes import keep_evidence
from tarbox.kb.closure import Hierarchy
from tarbox.kb.imports import find_import
from tarbox.kb.interpretation import Interpretation
from tarbox.kb.preparation import program, queries
from tarbox.kb.preparation.encoding import write_entailed, write_tables
from tarbox.kb.preparation.engine import TableEngine
from tarbox.kb.preparation.preparing import find_annotations, interpret, type_terms
from tarbox.kb.preparation.staging import HashCollision, Staging
from tarbox.kb.preparation.term_links import link_terms
from tarbox.kb.readers import READERS
from tarbox.kb.readers.rdf import check_base
from tarbox.kb.reasoning.inference import InferenceMode, describe_inference, infer
from tarbox.kb.sources import Rejection, Source, version_of
from tarbox.kb.statements import Piece, ReadOptions
from tarbox.kb.store import Store, open_store
from tarbox.kb.writing import StoreWriter, writing

_MOST_REJECTED: Final = 10_000
_SALTS: Final = 3
Result = TypeVar("Result")


@final
@dataclass(frozen=True, slots=True)
class BuildOptions:
    """`memory` in bytes bounds what the build takes; `strict` stops at the first rejected line. `columns` are those of
    tables (`tarbox.kb.readers.tables.parse_columns`). `remote` is the address
    of a Spark Connect server that prepares the tables in the place of DuckDB. `shards` is the number of files of each
    large table.

    `seconds` is the time for each pair of classes beyond saturation (`tarbox.kb.reasoning.classification.classify`).
    """

    interpretation: Interpretation = field(default_factory=Interpretation)
    infer: InferenceMode = InferenceMode.NONE
    seconds: float | None = None
    base: str | None = None
    memory: int | None = None
    strict: bool = False
    columns: Mapping[str, str] = field(default_factory=dict)
    remote: str | None = None
    shards: int = 1


@final
@dataclass(slots=True)
class Journal:
    """What happened while the sources were read."""

    strict: bool = False
    read: Counter[str] = field(default_factory=Counter)
    left_out: Counter[str] = field(default_factory=Counter)
    notes: dict[str, int] = field(default_factory=dict)
    rejected: list[Rejection] = field(default_factory=list)
    rejections: int = 0

    def note(self, source: Source, piece: Piece) -> None:
        self.read[source.name] += piece.statements.num_rows + sum(piece.left_out.values())
        self.left_out.update(piece.left_out)
        self.notes.update(piece.notes)
        for line, reason in piece.rejected:
            rejection = Rejection(source.name, line, reason)
            if self.strict:
                raise RejectedLine(f"{rejection}\nNothing was built (--strict).")
            self.rejections += 1
            if len(self.rejected) < _MOST_REJECTED:
                self.rejected.append(rejection)


@final
@dataclass(frozen=True, slots=True)
class Progress:
    """Whom to tell: `stage` a line of what begins, `bytes` how much of a source is behind."""

    stage: Callable[[str], None] = lambda _: None
    bytes: Callable[[Source, int], None] = lambda _, __: None


def build(
    sources: Sequence[Source], out: str | Path, options: BuildOptions | None = None, progress: Progress | None = None
) -> Store:
    """Build the store `out` from `sources`; the manifest's `report` accounts for every statement read."""
    options, progress = options or BuildOptions(), progress or Progress()
    if options.base is not None:
        check_base(options.base)
    return try_salts(lambda salt: _build(sources, out, options, progress, salt), progress)


def try_salts(attempt: Callable[[int], Result], progress: Progress) -> Result:
    """What the attempt returns with the first salt under which no two terms have one hash."""
    for salt in range(_SALTS):
        try:
            return attempt(salt)
        except HashCollision:
            progress.stage("two names have one hash: starting again with another")
    raise SourceError("names of this input collide under every hash tried")


def _build(sources: Sequence[Source], out: str | Path, options: BuildOptions, progress: Progress, salt: int) -> Store:
    with writing(out) as writer:
        writer.shards = options.shards
        with staged(sources, writer.scratch, options, progress, salt) as reading:
            _refuse_nothing(reading, sources)
            annotate_and_write(reading, writer, options, progress)
            told = None
            if options.remote is not None or options.memory is not None:  # what follows may be too much for here
                progress.stage("inferring")
                told = write_entailed(reading.engine, writer, options.infer, options.seconds)
        inference, hierarchy = told or write_consequences(writer, options, progress)
        _publish(writer, options, reading, reading.report | hierarchy, inference)
    return open_store(out)


@final
@dataclass(frozen=True, slots=True)
class StagedSources:
    """Sources that were read, staged and interpreted; `report` accounts for their statements."""

    engine: TableEngine
    journal: Journal
    read: Sequence[Source]
    report: dict[str, Any]


def note_declarations(staging: Staging) -> None:
    """Note what the statements so far declare."""
    staging.flush()
    staging.engine.run(program.noted(staging.engine))


@contextmanager
def staged(
    sources: Sequence[Source],
    folder: Path,
    options: BuildOptions,
    progress: Progress,
    salt: int,
    complete: Callable[[Staging], None] = note_declarations,
) -> Iterator[StagedSources]:
    """Read the sources; `complete` may add statements before all are interpreted, and notes what is declared."""
    engine, journal = _open_engine(folder, options, salt), Journal(options.strict)
    try:
        staging = Staging(engine)
        read, imports = _read(sources, staging, journal, options, progress)
        complete(staging)
        staging.close_terms()
        progress.stage("interpreting")
        report = interpret(engine, options.interpretation) | {"imports": imports}
        report["left_out"] = dict(Counter(report["left_out"]) + journal.left_out)
        report |= {"rejections": journal.rejections, "notes": journal.notes}
        yield StagedSources(engine, journal, read, report)
    finally:
        engine.close()


def _open_engine(folder: Path, options: BuildOptions, salt: int) -> TableEngine:
    if options.remote is not None:
        from tarbox.kb.preparation.spark_engine import SparkEngine

        return SparkEngine(options.remote, salt)
    from tarbox.kb.preparation.duckdb_engine import DuckDBEngine

    return DuckDBEngine(folder, options.memory, salt)


def annotate_and_write(reading: StagedSources, writer: StoreWriter, options: BuildOptions, progress: Progress) -> None:
    """What annotation relations add to the staged facts, and all of them as tables."""
    engine, report = reading.engine, reading.report
    writer.annotations = find_annotations(engine, options.interpretation.annotations)
    report["linked_terms"] = link_terms(engine) if writer.annotations else 0
    report["terms_as_entities"] = type_terms(engine) if writer.annotations else 0
    progress.stage("sorting and encoding")
    write_tables(engine, writer)


def write_consequences(
    writer: StoreWriter, options: BuildOptions, progress: Progress
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Write what follows from the tables and axioms; returns what the manifest says of it and of the hierarchy."""
    progress.stage("inferring")
    told = writer.facts()
    facts, report = infer(told, writer.axioms(), options.infer, options.seconds)
    writer.write_inferred(facts)
    hierarchy = Hierarchy.of(facts.subs, facts.supers, len(facts.vocabulary.concepts))
    closed = hierarchy.close(*facts.descriptions(), len(facts.vocabulary.entities))
    counts = np.bincount(closed.columns, minlength=len(hierarchy)), int(np.count_nonzero(closed.sizes()))
    inference = describe_inference(options.infer, None if facts is told else report)
    return inference, hierarchy.describe(facts.vocabulary.concepts, *counts)


def _refuse_nothing(reading: StagedSources, sources: Sequence[Source]) -> None:
    """An empty store would only replace a better one."""
    journal, report = reading.journal, reading.report
    if any(reading.engine.count(table) for table in ("entity", "concept", "axiom")):
        return
    names = ", ".join(source.name for source in sources)
    reasons = [f"{number:,} left out: {reason}" for reason, number in report["left_out"].items()]
    if journal.rejected:
        reasons.append(f"{journal.rejections:,} lines rejected, the first {journal.rejected[0]}")
    why = "; ".join(reasons) or "it holds no statement"
    raise SourceError(f"no entity, no concept and no axiom in {names} ({why}). Nothing was built.")


def _read(
    sources: Sequence[Source], staging: Staging, journal: Journal, options: BuildOptions, progress: Progress
) -> tuple[list[Source], dict[str, str]]:
    """Stage all sources, and the imports of theirs that are at hand; returns what was read and each import's fate."""
    waiting, read, reading = list(sources), list[Source](), ReadOptions(options.base, sources, options.columns)
    imports: dict[str, str] = {}
    codes = options.interpretation.evidence
    while waiting:
        for number, source in enumerate(waiting):
            progress.stage(f"reading {source.name}")
            reader = READERS[source.format]
            for piece in reader(source, reading, lambda n, s=source: progress.bytes(s, n)):  # type: ignore[misc]
                kept = keep_evidence(piece, codes) if codes and piece.attributes.num_rows else piece
                journal.note(source, kept)
                staging.add(kept, len(read) + number)
        read += waiting
        staging.flush()
        waiting = _resolve_imports(staging.engine, read, imports)
    return read, imports


def _resolve_imports(engine: TableEngine, read: Iterable[Source], imports: dict[str, str]) -> list[Source]:
    """The files of imports not seen before; `imports` notes what became of each."""
    wanted = engine.rows(queries.imports_wanted(engine))
    given = {text for (text,) in engine.rows(queries.ontologies(engine))}
    found: list[Source] = []
    known = {source.path.resolve() for source in read}
    for (iri,) in wanted:
        if iri in given:
            imports[iri] = "among the sources"
        elif iri not in imports:
            source = find_import(iri, read)
            imports[iri] = f"read from {source.name}" if source else "not found; left out"
            if source is not None and source.path.resolve() not in known:
                found.append(source)
    return found


def _publish(
    writer: StoreWriter,
    options: BuildOptions,
    reading: StagedSources,
    report: dict[str, Any],
    inference: dict[str, Any],
) -> None:
    told = {"infer": options.infer.value, "seconds": options.seconds, "base": options.base}
    writer.publish(
        {
            "options": asdict(options.interpretation) | told,
            "inference": inference,
            "sources": list_sources(reading),
            "report": report,
            "rejected": [asdict(rejection) for rejection in reading.journal.rejected],
        }
    )


def list_sources(reading: StagedSources) -> list[dict[str, Any]]:
    """What was read, for the manifest."""
    return [
        {
            "name": source.path.name,
            "format": source.format,
            "statements": reading.journal.read[source.name],
            **({"version": version} if (version := version_of(source)) else {}),
        }
        for source in reading.read
    ]
