"""A benchmark from files: a store and query tables as JSON lines, or a folder as the literature shares them."""

from __future__ import annotations

import gzip
import json
import os
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, final

import numpy as np

from tarbox.benchmark.exchange import Reading, read_queries
from tarbox.benchmark.folder import check_place, name_of, write_benchmark
from tarbox.benchmark.given_answers import read_tables
from tarbox.benchmark.query_folders import QueryFolder, read_query_folder
from tarbox.core.errors import BenchmarkError
from tarbox.core.ids import Level
from tarbox.execution.binding import VocabularyResolver
from tarbox.kb.build import BuildOptions, build
from tarbox.kb.facts import SPLITS
from tarbox.kb.interpretation import Interpretation
from tarbox.kb.reasoning.inference import InferenceMode
from tarbox.kb.sources import detect_format, find_sources
from tarbox.kb.store import Manifest, open_store
from tarbox.kb.terms import from_ntriples

IMPORTED = "imported"
ABOUT: Final = "benchmark.json"
"""What a folder of JSON lines says of itself, where tarbox wrote it: the protocol, who is no candidate, `infer`."""


@final
@dataclass(frozen=True, slots=True)
class Imported:
    """The manifest as written, what each file held, and in `notes` what a person should know of it."""

    manifest: Manifest
    readings: Mapping[str, Reading]
    notes: tuple[str, ...] = ()

    def rejected(self) -> list[str]:
        """The lines that are no queries, as ``FILE:LINE: reason``."""
        return [str(line) for reading in self.readings.values() for line in reading.rejected]


def import_folder(folder: str | os.PathLike[str], output: str | os.PathLike[str], as_given: bool = False) -> Imported:
    """Make a benchmark of a folder, recognised by what it holds: pickles of KGReasoning or Query2box, or JSON lines.

    The answers of pickles are computed where they can be, unless those given are to be kept (`as_given`).
    """
    path = Path(folder)
    if not path.is_dir():
        raise BenchmarkError(f"there is no folder {path} to import")
    if files := _json_lines(path):
        return _import_lines(path, files, output)
    if (found := read_query_folder(path, as_given)) is not None:
        return _import_pickles(found, output, as_given)
    raise BenchmarkError(
        f"{path} is no folder of queries that tarbox knows: it has neither train-queries.pkl, valid-queries.pkl or "
        "test-queries.pkl (BetaE), nor test_ans_1c.pkl and its like (Query2box), nor train.jsonl, valid.jsonl or "
        "test.jsonl (plain or .gz) beside the files of a knowledge base."
    )


def import_benchmark(
    kb: str | os.PathLike[str],
    files: Mapping[str, str | os.PathLike[str]],
    output: str | os.PathLike[str],
    about: Mapping[str, Any] | None = None,
) -> Imported:
    """Make a benchmark of the store at `kb` and the query files by split (train, valid, test; at least one).

    `about` may say the protocol, and by level the names that are no candidates (`excluded`).
    """
    if not files:
        raise BenchmarkError("there is nothing to import: name at least one of --train, --valid and --test")
    check_place(Path(output))
    store, told = open_store(kb), about or {}
    vocabulary = store.facts.vocabulary
    resolver = VocabularyResolver(vocabulary)
    readings = {split: read_queries(file, vocabulary, resolver) for split, file in files.items()}
    for split, reading in readings.items():
        if len(reading.table) == 0:
            first = f"; the first line rejected is {reading.rejected[0]}" if reading.rejected else ""
            raise BenchmarkError(f"{os.fspath(files[split])} holds no query of this knowledge base{first}")
    details = {
        "protocol": told.get("protocol", IMPORTED),
        "options": {},
        "sources": [{"split": split, "path": os.fspath(file)} for split, file in files.items()],
        "outside": {split: len(reading.table.outside()) for split, reading in readings.items()},
        "rejected": {split: len(reading.rejected) for split, reading in readings.items()},
        "store": {key: store.manifest[key] for key in ("options", "sources", "rejected") if key in store.manifest}
        | ({"name": name} if (name := name_of(store)) is not None else {}),
    }
    found = {
        Level(level): [vocabulary.names(Level(level).role).find(from_ntriples(term)) for term in terms]
        for level, terms in told.get("excluded", {}).items()
    }
    excluded = {level: np.array([id for id in ids if id is not None], np.int32) for level, ids in found.items()}
    tables = {split: reading.table for split, reading in readings.items()}
    return Imported(write_benchmark(output, store.facts, tables, details, excluded, store.axioms()), readings)


def _json_lines(folder: Path) -> dict[str, Path]:
    ends = (".jsonl", ".jsonl.gz")
    return {split: file for split in SPLITS for end in ends if (file := folder / f"{split}{end}").exists()}


def _import_lines(folder: Path, files: Mapping[str, Path], output: str | os.PathLike[str]) -> Imported:
    """Builds the knowledge base of the folder's other files; literals are entities where a query names one."""
    about = json.loads((folder / ABOUT).read_bytes()) if (folder / ABOUT).exists() else {}
    contents = (file.read_bytes() for file in files.values())
    literals = any(b'\\"' in (gzip.decompress(text) if text[:2] == b"\x1f\x8b" else text) for text in contents)
    apart = {*files.values(), folder / ABOUT}
    others = [file for file in sorted(folder.iterdir()) if file not in apart and detect_format(file)]
    if not others:
        raise BenchmarkError(
            f"{folder} has queries and no file of a knowledge base beside them. Build that with `tarbox kb build`, "
            "and name both: `tarbox bench import --kb KB --test FILE -o BENCH`."
        )
    options = BuildOptions(Interpretation(keep_literals=literals), InferenceMode(about.get("infer", "none")))
    with tempfile.TemporaryDirectory() as scratch:
        kb = Path(scratch) / folder.resolve().name
        build(find_sources([str(file) for file in others])[0], kb, options)
        return import_benchmark(kb, files, output, about)


def _import_pickles(folder: QueryFolder, output: str | os.PathLike[str], as_given: bool) -> Imported:
    check_place(Path(output))
    graphs, tables, notes = read_tables(folder, as_given)
    details = {
        "protocol": IMPORTED,
        "options": {"answers": "given" if as_given else "exact"},
        "sources": [{"path": os.fspath(folder.path)}],
        "notes": list(notes),
        "store": {"name": folder.path.resolve().name},
    }
    readings = {split: Reading(table, (), 0) for split, table in tables.items()}
    return Imported(write_benchmark(output, graphs, tables, details), readings, notes)
