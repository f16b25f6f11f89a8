"""Writing a store: tables first, the manifest last (see `tarbox.kb.store`)."""

from __future__ import annotations

import gzip
import hashlib
import os
import shutil
import sys
import tempfile
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path
from typing import Any, final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tarbox.core.errors import StoreError
from tarbox.core.ids import Role
from tarbox.core.locks import take_lock
from tarbox.kb.axioms import Axiom, write_axiom
from tarbox.kb.facts import Facts
from tarbox.kb.store import (
    ATTRIBUTE_TABLE,
    AXIOMS,
    DECLARED_TABLE,
    INDEX,
    INFERRED_TABLES,
    MANIFEST,
    SCHEMAS,
    SHARDED_TABLES,
    SHARDED_VERSION,
    STORE_FORMAT,
    STORE_TABLES,
    STORE_VERSION,
    Manifest,
    Store,
    checksum,
    listed_files,
    manifest_bytes,
    map_facts,
    map_file,
    numbers,
    read_axiom_file,
    read_manifest,
    shards_of,
    table_of,
)

_BLOCK = 1 << 20
_NAME_BLOCK = 1 << 18
_TEXTS = (*(role.plural for role in Role), "synonyms")


@final
class StoreWriter:
    """Collects the tables of a store in a scratch folder beside its place, then publishes them at once.

    `annotations` are the IRIs of its annotation relations, sorted, and `shards` the number of files of its large
    tables; whoever writes sets them.
    """

    def __init__(self, path: Path, scratch: Path) -> None:
        self.path = path
        self.scratch = scratch
        self.annotations: tuple[str, ...] = ()
        self.shards = 1
        self._hashes: dict[str, dict[str, str]] = {}
        self._kept: dict[str, Manifest] = {}
        self._rows: dict[str, int] = {}
        self._kinds: Counter[str] = Counter()

    def write(self, name: str, batches: Iterable[pa.RecordBatch]) -> None:
        """Write one table of the store; its rows come in the order in which they are stored."""
        _write_file(self._file(name), name, batches)
        table = table_of([map_file(self._file(name))])
        self._hashes[name], self._rows[name] = {"hash": content_hash(table)}, table.num_rows
        if name in (role.plural for role in Role):
            self._hashes[name]["names"] = content_hash(table.select(["iri"]))

    def keep(self, name: str, store: Store) -> None:
        """Let a file of `store`, which is to be replaced, be one of the new store too."""
        self._kept[name] = entry = store.manifest["files"][name]
        self._hashes[name] = {key: entry[key] for key in ("hash", "names") if key in entry}
        if name == AXIOMS:
            self._kinds.update(store.manifest[AXIOMS])
        else:
            self._rows[name] = store.manifest["counts"].get(name, 0)

    def write_axioms(self, lines: Iterable[str]) -> None:
        """Write axioms, each a line of functional syntax, sorted and distinct; without any there is no file."""
        digest = hashlib.blake2b(digest_size=16)
        with self._file(AXIOMS).open("wb") as raw, gzip.GzipFile("", "wb", mtime=0, fileobj=raw) as sink:
            for line in lines:
                self._kinds[line.partition("(")[0]] += 1
                digest.update(written := f"{line}\n".encode())
                sink.write(written)
        if self._kinds:
            self._hashes[AXIOMS] = {"hash": digest.hexdigest()}

    def write_inferred(self, facts: Facts) -> None:
        """Write what is marked as inferred among the facts, if anything is."""
        marks = facts.inferred
        if marks is None or not (marks.assertions.any() or marks.typings.any() or marks.subsumptions.any()):
            return
        columns = {
            "inferred_assertions": [c[marks.assertions] for c in (facts.heads, facts.relations, facts.tails)],
            "inferred_typings": [c[marks.typings] for c in (facts.typed, facts.types)],
            "inferred_subsumptions": [c[marks.subsumptions] for c in (facts.subs, facts.supers)],
        }
        for name, arrays in columns.items():
            self.write(name, pa.table(arrays, names=INFERRED_TABLES[name].names).to_batches())

    def facts(self, mode: str = "none") -> Facts:
        """The tables written so far, before they are published; `mode` as of `map_facts`."""
        return map_facts({name: self._contents(name) for name in self._hashes}, mode, self.annotations)

    def table(self, name: str) -> pa.Table:
        """A table as it was written; an empty one where none was."""
        return table_of(self._contents(name)) if name in self._hashes else SCHEMAS[name].empty_table()

    def counts(self) -> dict[str, int]:
        """The rows of the tables, and how many axioms there are."""
        rows = {name: rows for name, rows in self._rows.items() if name not in ("synonyms", *DECLARED_TABLE)}
        return rows | ({AXIOMS: self._kinds.total()} if self._kinds else {})

    def holds(self, store: Store) -> bool:
        """Whether the files are so far those of a store, but for what was inferred."""
        entries = store.manifest["files"].items()
        before = {name: entry.get("hash") for name, entry in entries if name not in INFERRED_TABLES}
        same = before == {name: hashes["hash"] for name, hashes in self._hashes.items()}
        return same and [*self.annotations] == store.manifest.get("annotations", [])

    def axioms(self) -> tuple[Axiom, ...]:
        return read_axiom_file(self._contents(AXIOMS)) if self._kinds else ()

    def publish(self, details: Manifest) -> Manifest:
        """Move the tables into place and replace the manifest; returns the manifest as written."""
        self.path.mkdir(parents=True, exist_ok=True)
        cuts = self._cuts() if self.shards > 1 else {}
        files = {name: self._shard(name, cuts) if name in cuts else self._place(name) for name in self._hashes}
        parts = [f"{name} {self._hashes[name]['hash']}" for name in sorted(self._hashes) if name not in DECLARED_TABLE]
        vocabulary = "".join(f"{role.plural} {self._hashes[role.plural]['names']}\n" for role in Role)
        everything = "\n".join([*parts, *(f"annotation {iri}" for iri in self.annotations)])
        manifest: Manifest = {
            **details,
            "format": STORE_FORMAT,
            "version": SHARDED_VERSION if cuts else STORE_VERSION,
            "counts": {name: rows for name, rows in self.counts().items() if name != AXIOMS},
            **({AXIOMS: dict(sorted(self._kinds.items()))} if self._kinds else {}),
            **({"annotations": list(self.annotations)} if self.annotations else {}),
            "content_hash": hashlib.blake2b(everything.encode(), digest_size=16).hexdigest(),
            "vocabulary_hash": hashlib.blake2b(vocabulary.encode(), digest_size=16).hexdigest(),
            "files": files,
        }
        replace_file(self.path / MANIFEST, manifest_bytes(manifest))
        index = f"{INDEX}{manifest['content_hash']}"
        _remove_strays(self.path, {index, *listed_files(manifest)})
        return read_manifest(self.path)

    def _cuts(self) -> dict[str, list[int]]:
        """[shards + 1] the rows at which shards of each table begin and end: ranges of as many entities, and theirs."""
        ids = np.arange(self.shards + 1) * self._rows[Role.ENTITY.plural] // self.shards
        rows = {Role.ENTITY.plural: ids}
        for name, column in SHARDED_TABLES.items():
            if name in self._hashes and column:
                bounds = rows["assertions"] if name in ATTRIBUTE_TABLE else ids
                rows[name] = np.searchsorted(numbers(self.table(name), column), bounds.astype(np.int32))
        return {name: bounds.tolist() for name, bounds in rows.items()}

    def _shard(self, name: str, cuts: Mapping[str, list[int]]) -> Manifest:
        """A table as one file for each range of entities; returns what the manifest says of them."""
        ids = [list(range) for range in pairwise(cuts[Role.ENTITY.plural])]
        if name in self._kept and [shard["ids"] for shard in shards_of(self._kept[name])] == ids:
            return self._kept[name]
        table, hashes, shards = self.table(name), self._hashes[name], list[Manifest]()
        for number, (start, end) in enumerate(pairwise(cuts[name])):
            file = self.scratch / f"{name}-{number}{_suffix(name)}"
            _write_file(file, name, table.slice(start, end - start).combine_chunks().to_batches())
            shards.append({**self._move(file, hashes["hash"]), "ids": ids[number]})
        self._file(name).unlink(missing_ok=True)
        return {"shards": shards, **hashes}

    def _place(self, name: str) -> Manifest:
        """A table, or the axioms, as one file; returns what the manifest says of it."""
        if name in self._kept:
            return self._kept[name]
        hashes = self._hashes[name]
        return self._move(self._file(name), hashes["hash"]) | hashes

    def _move(self, file: Path, hash: str) -> Manifest:
        """Let a file have the hash of its table and its checksum in its name, where it stays."""
        found, (name, dot, suffix) = checksum(file), file.name.partition(".")
        target = f"{name}-{hash[:8]}{found}{dot}{suffix}"
        entry = {"name": target, "checksum": found, "bytes": file.stat().st_size}
        _sync(file)
        file.replace(self.path / target)
        return entry

    def _file(self, name: str) -> Path:
        return self.scratch / f"{name}{_suffix(name)}"

    def _contents(self, name: str) -> list[pa.Buffer]:
        files = [self.path / shard["name"] for shard in shards_of(self._kept[name])] if name in self._kept else []
        return [map_file(file) for file in files or [self._file(name)]]


def _write_file(file: Path, name: str, batches: Iterable[pa.RecordBatch]) -> None:
    schema = SCHEMAS[name]
    blocks = _in_blocks(batches, schema) if name in _TEXTS else (batch.cast(schema) for batch in batches)
    with pa.OSFile(str(file), "wb") as sink, pa.ipc.new_file(sink, schema) as writer:
        for block in blocks:
            if len(block):
                writer.write(block)


def _suffix(name: str) -> str:
    return ".ofn.gz" if name == AXIOMS else ".arrow"


@contextmanager
def writing(path: str | os.PathLike[str]) -> Iterator[StoreWriter]:
    """A writer for the store at `path`; what it leaves behind when killed, the next one removes."""
    folder = Path(os.path.abspath(path))  # noqa: PTH100 (resolve() would follow a link that is about to be replaced)
    if folder.exists() and not folder.is_dir():
        raise StoreError(f"{folder} is a file. Name a folder for the store.")
    if folder.is_dir() and any(folder.iterdir()) and not (folder / MANIFEST).exists() and not _only_strays(folder):
        raise StoreError(f"{folder} is not empty and holds no store. Name another folder, or empty it.")
    folder.parent.mkdir(parents=True, exist_ok=True)
    prefix = f".{folder.name}.building-"
    for left in folder.parent.glob(f"{prefix}*"):
        if not _in_use(left):
            shutil.rmtree(left, ignore_errors=True)
    scratch = Path(tempfile.mkdtemp(prefix=prefix, dir=folder.parent))
    with (scratch / "lock").open("w") as lock:
        take_lock(lock)
        try:
            yield StoreWriter(folder, scratch)
        finally:
            shutil.rmtree(scratch, ignore_errors=True)


def write_store(
    path: str | os.PathLike[str], facts: Facts, details: Manifest | None = None, axioms: Iterable[Axiom] = ()
) -> Manifest:
    """Write `facts` as a store; `details` go into the manifest (options, sources, what was left out).

    Inferred facts go to tables of their own, with the axioms that they were inferred from.
    """
    every, facts = facts, facts.asserted()
    vocabulary = facts.vocabulary
    told: Manifest = {}
    if every.inferred is not None:
        axioms, told = every.inferred.axioms(), {"inference": {"mode": every.inferred.mode}}
    columns: dict[str, list[Any]] = {
        **{role.plural: [vocabulary.names(role).iris, vocabulary.names(role).labels] for role in Role},
        "synonyms": [vocabulary.synonyms[name] for name in STORE_TABLES["synonyms"].names],
        "assertions": [facts.heads, facts.relations, facts.tails, facts.splits],
        "typings": [facts.typed, facts.types],
        "subsumptions": [facts.subs, facts.supers],
    }
    with writing(path) as writer:
        writer.annotations = tuple(vocabulary.relations.iri(relation) for relation in facts.annotations)
        for name, arrays in columns.items():
            table = pa.table(arrays, names=STORE_TABLES[name].names)
            writer.write(name, table.combine_chunks().to_batches())
        writer.write_axioms(sorted({write_axiom(axiom) for axiom in axioms}))
        writer.write_inferred(every)
        return writer.publish({"options": {}, "sources": [], "rejected": [], **told, **(details or {})})


def _in_blocks(batches: Iterable[pa.RecordBatch], schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    """The rows in blocks of one size, and copied: so the bytes of a file follow from its rows alone."""
    waiting = schema.empty_table()
    for batch in batches:
        waiting = pa.concat_tables([waiting, pa.Table.from_batches([batch.cast(schema)])])
        while len(waiting) >= _NAME_BLOCK:
            yield _copied(waiting.slice(0, _NAME_BLOCK))
            waiting = waiting.slice(_NAME_BLOCK)
    if len(waiting):
        yield _copied(waiting)


def _copied(table: pa.Table) -> pa.RecordBatch:
    return table.combine_chunks().take(pa.array(np.arange(len(table)))).combine_chunks().to_batches()[0]


def content_hash(table: pa.Table) -> str:
    """A hash of the rows of a table in order, whatever the blocks in which they are held."""
    digest = hashlib.blake2b(digest_size=16)
    for column in table.columns:
        for start in range(0, len(column), _BLOCK):
            block = column.slice(start, _BLOCK).combine_chunks()
            if pa.types.is_dictionary(block.type):
                block = block.dictionary_decode()
            if pa.types.is_string(block.type):
                lengths = pc.fill_null(pc.binary_length(block), -1)
                digest.update(np.ascontiguousarray(lengths.to_numpy(zero_copy_only=False)).data)
                digest.update(pc.binary_join(_one_list(pc.fill_null(block, "")), "")[0].as_buffer())
            else:
                digest.update(np.ascontiguousarray(block.to_numpy(zero_copy_only=False)).data)
    return digest.hexdigest()


def _one_list(strings: pa.Array) -> pa.Array:
    """A single list of all `strings` (their bytes must stay below 2 GiB, which a block's do)."""
    return pa.ListArray.from_arrays(pa.array([0, len(strings)], pa.int32()), strings)


def replace_file(path: Path, content: bytes) -> None:
    """Write `content` under a temporary name, make it durable, and rename it to `path`."""
    with tempfile.NamedTemporaryFile(dir=path.parent, prefix=f".{path.name}.", delete=False) as handle:
        handle.write(content)
        handle.flush()
        os.fsync(handle.fileno())
    Path(handle.name).chmod(0o644)
    Path(handle.name).replace(path)
    if sys.platform == "win32":  # which cannot open folders
        return
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


def _sync(file: Path) -> None:
    with file.open("r+b") as handle:  # Windows makes durable what is open for writing
        os.fsync(handle.fileno())


def _in_use(scratch: Path) -> bool:
    """Whether a living process holds the lock of this scratch folder."""
    try:
        with (scratch / "lock").open("w") as lock:
            return not take_lock(lock)
    except FileNotFoundError:
        return False


def _is_stray(file: Path) -> bool:
    """A file that an interrupted build may have left in a store's folder."""
    return file.name.endswith((".arrow", ".ofn.gz")) or file.name.startswith((f".{MANIFEST}.", INDEX, f".{INDEX}"))


def _only_strays(folder: Path) -> bool:
    return all(_is_stray(file) for file in folder.iterdir())


def _remove_strays(folder: Path, listed: set[str]) -> None:
    for file in folder.iterdir():
        if _is_stray(file) and file.name not in listed:
            file.unlink(missing_ok=True) if file.is_file() else shutil.rmtree(file, ignore_errors=True)
