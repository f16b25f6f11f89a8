"""A benchmark from files: a store, and query tables as JSON lines."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import final

from tarbox.benchmark.exchange import Reading, read_queries
from tarbox.benchmark.folder import check_place, name_of, write_benchmark
from tarbox.core.errors import BenchmarkError
from tarbox.execution.binding import VocabularyResolver
from tarbox.kb.store import Manifest, open_store

IMPORTED = "imported"


@final
@dataclass(frozen=True, slots=True)
class Imported:
    """The manifest as written, and what each file held."""

    manifest: Manifest
    readings: Mapping[str, Reading]

    def rejected(self) -> list[str]:
        """The lines that are no queries, as ``FILE:LINE: reason``."""
        return [str(line) for reading in self.readings.values() for line in reading.rejected]


def import_benchmark(
    kb: str | os.PathLike[str], files: Mapping[str, str | os.PathLike[str]], output: str | os.PathLike[str]
) -> Imported:
    """Make a benchmark of the store at `kb` and the query files by split (train, valid, test; at least one)."""
    if not files:
        raise BenchmarkError("there is nothing to import: name at least one of --train, --valid and --test")
    check_place(Path(output))
    store = open_store(kb)
    resolver = VocabularyResolver(store.facts.vocabulary)
    readings = {split: read_queries(file, store.facts.vocabulary, resolver) for split, file in files.items()}
    for split, reading in readings.items():
        if len(reading.table) == 0:
            first = f"; the first line rejected is {reading.rejected[0]}" if reading.rejected else ""
            raise BenchmarkError(f"{os.fspath(files[split])} holds no query of this knowledge base{first}")
    details = {
        "protocol": IMPORTED,
        "options": {},
        "sources": [{"split": split, "path": os.fspath(file)} for split, file in files.items()],
        "outside": {split: len(reading.table.outside()) for split, reading in readings.items()},
        "rejected": {split: len(reading.rejected) for split, reading in readings.items()},
        "store": {key: store.manifest[key] for key in ("options", "sources", "rejected") if key in store.manifest}
        | ({"name": name} if (name := name_of(store)) is not None else {}),
    }
    tables = {split: reading.table for split, reading in readings.items()}
    return Imported(write_benchmark(output, store.facts, tables, details, axioms=store.axioms()), readings)
