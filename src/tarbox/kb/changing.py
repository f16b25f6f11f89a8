"""A store changes: sources are added to it or taken out of it (ADR 46).

What comes of it is what `build` makes of the statements of the store and of the sources together, or of the store's
without those of the sources. A change is read like a build of its own, with what the store says of the names in it;
the tables that this gives are merged with those of the store. Where a change means more than it says, the whole is
built again from what the store says. Either way the manifest is replaced last.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import Any, Final, final

import pyarrow as pa
import pyarrow.compute as pc

from tarbox.core.errors import StoreError
from tarbox.core.ids import Role
from tarbox.core.locks import take_lock
from tarbox.kb.axioms import Axiom, axiom_names, write_axiom
from tarbox.kb.build import (
    BuildOptions,
    Progress,
    StagedSources,
    annotate_and_write,
    list_sources,
    note_declarations,
    staged,
    try_salts,
    write_consequences,
)
from tarbox.kb.facts import KINDS
from tarbox.kb.interpretation import Interpretation
from tarbox.kb.preparation import queries
from tarbox.kb.preparation.encoding import write_tables
from tarbox.kb.preparation.engine import TableEngine
from tarbox.kb.preparation.staged_axioms import NAMELESS
from tarbox.kb.preparation.staging import Staging
from tarbox.kb.readers.rdf import check_base
from tarbox.kb.reasoning.inference import InferenceMode
from tarbox.kb.restating import restate, restate_mentioned
from tarbox.kb.sources import Source
from tarbox.kb.store import AXIOMS, STORE_TABLES, Manifest, Store, open_store, read_manifest, shards_of
from tarbox.kb.table_changes import TOLD_TABLES, put_in, take_out, told_tables
from tarbox.kb.writing import StoreWriter, writing

_COMPUTED: Final = {"counts", AXIOMS, "annotations", "content_hash", "vocabulary_hash", "files"}
_SHAPE: Final = {"concepts", "typings", "subsumptions"}  # what equivalent and top concepts depend on
_REMEMBERED: Final = 50  # changes: the manifest is read whole whenever the store is opened


@final
@dataclass(frozen=True, slots=True)
class Change:
    """What became of a store. `counts` are how many more or fewer of each kind there are; `idle` the facts of the
    sources that were there already, or were not there to be removed. `report`, `sources` and `rejected` are as in the
    manifest of a build from the sources alone; `rebuilt` says why the whole was built again, if it was.
    """

    store: Store
    changed: bool
    counts: Mapping[str, int]
    idle: int
    report: Mapping[str, Any]
    sources: Sequence[Mapping[str, Any]]
    rejected: Sequence[Mapping[str, Any]]
    rebuilt: str = ""


def add(
    path: str | Path, sources: Sequence[Source], options: BuildOptions | None = None, progress: Progress | None = None
) -> Change:
    """Add what the sources state to the store at `path`.

    Of the options, `base`, `columns`, `memory` and `strict` are of use; how statements are read is up to the store.
    """
    return _change(Path(path), sources, options or BuildOptions(), progress or Progress(), adding=True)


def remove(
    path: str | Path, sources: Sequence[Source], options: BuildOptions | None = None, progress: Progress | None = None
) -> Change:
    """Take what the sources state out of the store at `path`; options as of `add`."""
    return _change(Path(path), sources, options or BuildOptions(), progress or Progress(), adding=False)


def _change(path: Path, sources: Sequence[Source], options: BuildOptions, progress: Progress, adding: bool) -> Change:
    if not path.is_dir():
        read_manifest(path)  # which says what to do
    with _locked(path):
        store = open_store(path)
        work = _Work(store, store.axioms(), sources, _reading_as(store.manifest, options), progress, adding)
        return try_salts(work.attempt, progress)


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    folder = os.open(path, os.O_RDONLY)
    try:
        if not take_lock(folder):
            raise StoreError(f"another process is changing {path}. Wait until it is done, then try again.")
        yield
    finally:
        os.close(folder)


def _reading_as(manifest: Manifest, options: BuildOptions) -> BuildOptions:
    """The options with which the store was built; what filters entities by their degree, or needs names, is done."""
    if options.base is not None:
        check_base(options.base)
    told = manifest.get("options", {})
    known = {f.name: told[f.name] for f in fields(Interpretation) if f.name in told}
    known |= {"evidence": tuple(told.get("evidence", ())), "annotations": (), "min_degree": 0, "core": False}
    mode = InferenceMode(manifest.get("inference", {}).get("mode", "none"))
    base = options.base or told.get("base")
    return replace(options, interpretation=Interpretation(**known), infer=mode, seconds=told.get("seconds"), base=base)


@final
@dataclass(frozen=True, slots=True)
class _Work:
    """A change to be made."""

    store: Store
    axioms: tuple[Axiom, ...]
    sources: Sequence[Source]
    options: BuildOptions
    progress: Progress
    adding: bool

    def attempt(self, salt: int) -> Change:
        with writing(self.store.path) as writer:
            writer.shards = len(shards_of(self.store.manifest["files"]["entities"]))
            folder = writer.scratch / "change"
            folder.mkdir()
            part = StoreWriter(folder, folder)
            with staged(self.sources, folder, self.options, self.progress, salt, self._complete) as reading:
                write_tables(reading.engine, part)
                changed, axioms = self._merge(part)
                why = self._reach(reading.engine, changed, axioms) if self.adding else ""
            if why:
                self.progress.stage(f"building again: {why}")
                with staged(self.sources, writer.scratch, self.options, self.progress, salt, self._restate) as again:
                    annotate_and_write(again, writer, self.options, self.progress)
            else:
                self._write(writer, changed, axioms)
            facts = sum(len(part.table(name)) for name in KINDS[3:])
            return self._publish(writer, reading, facts, changed.keys(), why)

    def _complete(self, staging: Staging) -> None:
        note_declarations(staging)
        staging.as_context = True
        for piece in restate_mentioned(self.store, self.axioms, staging.engine, self.adding):
            staging.add(piece, 0)

    def _restate(self, staging: Staging) -> None:
        for piece in restate(self.store, self.axioms, self.options.interpretation.merge_same):
            staging.add(piece, -1)
        note_declarations(staging)

    def _merge(self, part: StoreWriter) -> tuple[dict[str, Any], list[str]]:
        """The tables that change, and all axioms as text."""
        self.progress.stage("merging")
        old, new = told_tables(self.store), {name: part.table(name) for name in TOLD_TABLES}
        stated = set(part.axioms())
        if self.adding:
            return put_in(old, new), sorted(map(write_axiom, {*self.axioms, *stated}))
        left = [axiom for axiom in self.axioms if axiom not in stated]
        used = {pair for axiom in left if axiom[0] not in NAMELESS for pair in axiom_names(axiom)}
        needed = {role: {name for kind, name in used if kind == role.value} for role in Role}
        return take_out(old, new, needed), sorted(map(write_axiom, left))

    def _reach(self, engine: TableEngine, changed: Mapping[str, Any], axioms: Sequence[str]) -> str:
        """Why what is added changes the meaning of what is there, if it does."""
        declared = engine.number(queries.properties_declared(engine, bool(self.axioms)))
        obsolete = engine.number(queries.KNOWN_OBSOLETE)
        both = engine.number(queries.new_in_both_roles(engine))
        annotated = bool(self.store.facts.annotations)
        reasons = {
            "it states axioms": len(axioms) > len(self.axioms),
            "it declares what kind of property a relation is": declared,
            "it marks names of the store as obsolete": obsolete,
            "same entities are merged": self.options.interpretation.merge_same,
            "the hierarchy links what annotation relations lead to": annotated and ("subsumptions" in changed or both),
        }
        return next((reason for reason, holds in reasons.items() if holds), "")

    def _write(self, writer: StoreWriter, changed: Mapping[str, Any], axioms: Sequence[str]) -> None:
        entries = self.store.manifest["files"]
        for name in TOLD_TABLES:
            table = changed.get(name, self.store.table(name))
            if name not in changed and "hash" in entries.get(name, ()):
                writer.keep(name, self.store)
            elif len(table) or name in STORE_TABLES:
                writer.write(name, table.combine_chunks().to_batches())
        if len(axioms) == len(self.axioms) and "hash" in entries.get(AXIOMS, ()):
            writer.keep(AXIOMS, self.store)
        else:
            writer.write_axioms(axioms)
        given = self.store.manifest.get("annotations", ())
        left = pc.is_in(pa.array(given, pa.string()), writer.table("relations")["iri"]).to_pylist()
        writer.annotations = tuple(iri for iri, is_left in zip(given, left, strict=True) if is_left)

    def _publish(
        self, writer: StoreWriter, reading: StagedSources, facts: int, changed: Collection[str], why: str
    ) -> Change:
        before, stated = self.store.manifest, reading.journal.rejected
        rest = reading.report, list_sources(reading), [asdict(rejection) for rejection in stated], why
        if writer.holds(self.store):
            return Change(self.store, False, {}, facts, *rest)
        inference, report = before.get("inference", {}), before.get("report", {})
        if why or writer.annotations or self.axioms or not _SHAPE.isdisjoint(changed):
            inference, hierarchy = write_consequences(writer, self.options, self.progress)
            report = report | hierarchy
        if not any(len(writer.table(role.plural)) for role in Role) and not writer.axioms():
            raise StoreError(f"nothing would be left of {self.store.path}: delete the folder if that is meant.")
        after, known = writer.counts(), {**before["counts"], AXIOMS: sum(before.get(AXIOMS, {}).values())}
        kinds = dict.fromkeys((*KINDS, *known, *after))
        counts = {name: n for name in kinds if (n := after.get(name, 0) - known.get(name, 0))}
        entry = {
            "change": "add" if self.adding else "remove",
            "sources": [source["name"] for source in rest[1]],
            "counts": counts,
            "content_hash": before["content_hash"],
        }
        kept = {key: value for key, value in before.items() if key not in _COMPUTED}
        history = [*before.get("history", ()), entry][-_REMEMBERED:]
        writer.publish({**kept, "inference": inference, "report": report, "history": history})
        idle = max(facts - sum(abs(counts.get(name, 0)) for name in KINDS[3:]), 0)
        return Change(open_store(self.store.path), True, counts, idle, *rest)
