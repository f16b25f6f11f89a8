"""A benchmark on disk.

::

    BENCH/
      manifest.json     protocol, counts, options, sources, checksums, the excluded candidates, the vocabulary hash
      store/            the training store
      train.parquet     query tables with ids of that store (any of the three may be missing)
      valid.parquet
      test.parquet
      calibration.parquet    queries for checking degrees, under the honest protocol (docs/adr/0024)
      held_out.parquet       the assertions that valid and test add, where they are known

It is made in a scratch folder beside its place and renamed, so that a killed process leaves the old one or none.
"""

from __future__ import annotations

import json
import os
import shutil
import tempfile
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, final

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from tarbox.benchmark.options import CALIBRATION, QUERY_TABLES
from tarbox.benchmark.tables import QueryTable, read_table, write_table
from tarbox.core.errors import BenchmarkError
from tarbox.core.ids import Level
from tarbox.kb.arrays import Ids
from tarbox.kb.axioms import Axiom
from tarbox.kb.facts import SPLITS, Facts
from tarbox.kb.rows import TripleKeys, contains
from tarbox.kb.splits import Split
from tarbox.kb.store import MANIFEST, Manifest, Store, checksum, manifest_bytes, open_store
from tarbox.kb.terms import from_ntriples, to_ntriples
from tarbox.kb.writing import replace_file, write_store

BENCHMARK_FORMAT: Final = "tarbox-benchmark"
BENCHMARK_VERSION: Final = 1
STORE: Final = "store"
"""The folder of the training store, in a benchmark and in a run; also what a run calls such a source."""
HELD_OUT_FACTS: Final = "held_out"
FACT_KINDS: Final = ("assertions", "typings", "subsumptions")
UNTOLD: Final = frozenset(["", "bench", "benchmark", "graph", "kb", "run", "runs", "store", "train"])
"""Names of files and folders that do not name a knowledge base."""


@final
@dataclass(frozen=True, slots=True)
class Benchmark:
    """An opened benchmark; tables are read when asked for."""

    path: Path
    manifest: Manifest
    store: Store

    @property
    def protocol(self) -> str:
        """`honest`, `paper`, or `imported` for tables that came from elsewhere."""
        return str(self.manifest["protocol"])

    @property
    def splits(self) -> tuple[str, ...]:
        """The splits that have a table, of train, valid and test."""
        return tuple(split for split in SPLITS if split in self.manifest["files"])

    @property
    def filled(self) -> tuple[str, ...]:
        """Those of them that have a query."""
        return tuple(split for split in self.splits if self.manifest["counts"][split])

    @property
    def held_out(self) -> int | None:
        """How many facts its training store lacks; None where it does not say, as imported ones do not."""
        stages = [sum(counts[kind] for kind in FACT_KINDS) for counts in self.manifest.get("facts", {}).values()]
        return max(stages) - min(stages) if stages else None

    def calibration(self) -> QueryTable | None:
        """The queries to check degrees with; older benchmarks, imported ones and the paper's have none."""
        return self.table(CALIBRATION) if CALIBRATION in self.manifest["files"] else None

    def table(self, split: str) -> QueryTable:
        """The queries of one split, or `calibration`."""
        if split not in self.manifest["files"]:
            there = ", ".join(self.splits) or "none"
            raise BenchmarkError(f"{self.path} has no {split} queries; it has: {there}")
        return read_table(self._file(split))

    def held_out_facts(self, split: str) -> Ids | None:
        """[A, 3] the assertions (head, relation, tail) that a split adds; None where the benchmark does not know."""
        if HELD_OUT_FACTS not in self.manifest["files"]:
            return None
        found = pq.read_table(self._file(HELD_OUT_FACTS))
        own = np.array(found["split"].to_pylist()) == split
        return np.stack([found[name].to_numpy()[own] for name in ("head", "relation", "tail")], axis=1)

    def _file(self, name: str) -> Path:
        entry = self.manifest["files"][name]
        file = self.path / str(entry["name"])
        if not file.exists() or checksum(file) != entry["checksum"]:
            raise BenchmarkError(
                f"{file} is damaged or missing: it is not what was written. Build the benchmark again."
            )
        return file

    def excluded(self) -> dict[Level, Ids]:
        """The ids that are no candidates, by level: the top concepts under the honest protocol."""
        vocabulary = self.store.facts.vocabulary
        found = {}
        for level, terms in self.manifest["excluded"].items():
            names = vocabulary.names(Level(level).role)
            ids = [names.find(from_ntriples(term)) for term in terms]
            found[Level(level)] = np.array([number for number in ids if number is not None], np.int32)
        return found


def is_benchmark(path: str | os.PathLike[str]) -> bool:
    """Whether there is a benchmark (not merely a store) at `path`."""
    try:
        return bool(json.loads((Path(path) / MANIFEST).read_bytes()).get("format") == BENCHMARK_FORMAT)
    except (OSError, ValueError, AttributeError):
        return False


def open_benchmark(path: str | os.PathLike[str]) -> Benchmark:
    """Open the benchmark at `path` and verify its manifest and its store."""
    folder = Path(path)
    if not is_benchmark(folder):
        raise BenchmarkError(
            f"no benchmark at {folder}. Build one with `tarbox bench build KB -o BENCH` or `tarbox bench import`."
        )
    written = (folder / MANIFEST).read_bytes()
    manifest: Manifest = json.loads(written)
    if manifest_bytes(manifest) != written:
        raise BenchmarkError(f"{folder / MANIFEST} is damaged: it is not what was written. Build the benchmark again.")
    if manifest["version"] != BENCHMARK_VERSION:
        raise BenchmarkError(
            f"{folder} has benchmark format {manifest['version']}, this tarbox reads {BENCHMARK_VERSION}."
        )
    store = open_store(folder / STORE)
    if store.vocabulary_hash != manifest["vocabulary_hash"]:
        raise BenchmarkError(f"{folder / STORE} is not the store of this benchmark. Build the benchmark again.")
    return Benchmark(folder, manifest, store)


def name_of(store: Store) -> str | None:
    """What a store is called: as its manifest says, else by its folder or its only source, where these tell."""
    sources = store.manifest.get("sources", [])
    names = [
        str(store.manifest.get("name", "")),
        store.path.resolve().name,
        *(Path(str(source["name"])).name.partition(".")[0] for source in sources if len(sources) == 1),
    ]
    return next((name for name in names if name not in UNTOLD), None)


def write_benchmark(
    path: str | os.PathLike[str],
    facts: Facts | Split,
    tables: Mapping[str, QueryTable],
    details: Manifest,
    excluded: Mapping[Level, Ids] | None = None,
    axioms: Iterable[Axiom] = (),
) -> Manifest:
    """Write the benchmark of training facts, or of graphs that begin with them, and tables by name; its manifest.

    `details` go into the manifest and must hold `protocol`; `store` among them goes into the store's own manifest.
    """
    folder = Path(path)
    check_place(folder)
    folder.parent.mkdir(parents=True, exist_ok=True)
    scratch = Path(tempfile.mkdtemp(prefix=f".{folder.name}.building-", dir=folder.parent))
    training = facts.train if isinstance(facts, Split) else facts
    try:
        store = write_store(scratch / STORE, training, details.get("store"), axioms)
        files = {split: _write_split(scratch, split, tables[split]) for split in QUERY_TABLES if split in tables}
        counts = {split: len(tables[split]) for split in files}
        if isinstance(facts, Split) and len(facts.stages) > 1:
            pq.write_table(_held_out(facts), scratch / f"{HELD_OUT_FACTS}.parquet", compression="zstd")
            files[HELD_OUT_FACTS] = _entry(scratch / f"{HELD_OUT_FACTS}.parquet")
        manifest = {
            **{key: value for key, value in details.items() if key != "store"},
            "format": BENCHMARK_FORMAT,
            "version": BENCHMARK_VERSION,
            "vocabulary_hash": store["vocabulary_hash"],
            "counts": counts,
            "excluded": _names(training, excluded or {}),
            "files": files,
        }
        replace_file(scratch / MANIFEST, manifest_bytes(manifest))
        _move(scratch, folder)
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
    return manifest


def _write_split(folder: Path, split: str, table: QueryTable) -> dict[str, Any]:
    file = folder / f"{split}.parquet"
    write_table(file, table)
    return _entry(file)


def _held_out(graphs: Split) -> pa.Table:
    """The assertions of each graph that the one before it lacks."""
    keys = TripleKeys(len(graphs.train.vocabulary.entities))
    parts: list[pa.Table] = []
    for split, stage in graphs.stages.items():
        if stage.earlier is not None:
            own, before = stage.facts, stage.earlier
            there = np.sort(keys.encode(before.relations, before.heads, before.tails))
            new = ~contains(there, keys.encode(own.relations, own.heads, own.tails))
            columns = [own.heads[new], own.relations[new], own.tails[new]]
            parts.append(pa.table([[split] * int(new.sum()), *columns], ["split", "head", "relation", "tail"]))
    return pa.concat_tables(parts)


def _entry(file: Path) -> dict[str, Any]:
    return {"name": file.name, "checksum": checksum(file), "bytes": file.stat().st_size}


def _names(facts: Facts, excluded: Mapping[Level, Ids]) -> dict[str, list[str]]:
    return {
        level.value: [to_ntriples(facts.vocabulary.names(level.role).iri(number)) for number in ids.tolist()]
        for level, ids in excluded.items()
    }


def check_place(folder: Path) -> None:
    """Refuse a place for a benchmark where something else is, or is beside one."""
    if folder.exists() and not folder.is_dir():
        raise BenchmarkError(f"{folder} is a file. Name a folder for the benchmark.")
    if folder.is_dir() and any(folder.iterdir()) and not is_benchmark(folder):
        raise BenchmarkError(f"{folder} is not empty and holds no benchmark. Name another folder, or empty it.")
    own = {MANIFEST, STORE, *(f"{name}.parquet" for name in (*QUERY_TABLES, HELD_OUT_FACTS))}
    others = sorted(place.name for place in folder.iterdir() if place.name not in own) if folder.is_dir() else []
    if others:
        raise BenchmarkError(
            f"{folder} holds a benchmark, which would be replaced, and {others[0]}, which would be lost. "
            "Name another folder, or move what is no part of the benchmark."
        )


def _move(scratch: Path, folder: Path) -> None:
    """Put the scratch folder in its place; an older benchmark there is moved aside first."""
    scratch.chmod(0o755)
    if not folder.exists():
        scratch.rename(folder)
        return
    aside = Path(tempfile.mkdtemp(prefix=f".{folder.name}.building-", dir=folder.parent))
    folder.rename(aside / "old")
    scratch.rename(folder)
    shutil.rmtree(aside, ignore_errors=True)
