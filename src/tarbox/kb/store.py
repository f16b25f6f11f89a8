"""A knowledge base on disk: a folder of Arrow tables and a manifest (ADR 2).

The data files carry their checksum in their names and are never changed once written; `manifest.json` lists them and
is replaced by a rename. So the manifest is the moment of change: a process killed at any point leaves the old store
or the new one, and whoever has the old one open keeps it.
"""

from __future__ import annotations

import gzip
import json
import os
import zlib
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import cached_property, partial
from itertools import chain
from pathlib import Path
from typing import Any, Final, final

import numpy as np
import pyarrow as pa

from tarbox.core.errors import StoreDamaged, StoreMissing, StoreVersion
from tarbox.core.ids import Role
from tarbox.kb.attributes import FactAttributes
from tarbox.kb.axioms import Axiom, read_axioms
from tarbox.kb.facts import Facts, join_facts
from tarbox.kb.vocabulary import SYNONYMS, Names, Vocabulary

MANIFEST: Final = "manifest.json"
STORE_FORMAT: Final = "tarbox-store"
STORE_VERSION: Final = 1
SHARDED_VERSION: Final = 2
"""Of a store with shards; one without is what it was before there were any."""
AXIOMS: Final = "axioms"
INDEX: Final = "sparql-1-"
"""How the folder of a SPARQL engine's index begins, with the version of what it holds; the content hash follows."""

_NAMES = pa.schema([("iri", pa.string()), ("label", pa.string())])
_ID = pa.int32()
STORE_TABLES: Final[Mapping[str, pa.Schema]] = {
    "entities": _NAMES,
    "concepts": _NAMES,
    "relations": _NAMES,
    "synonyms": SYNONYMS,
    "assertions": pa.schema([("head", _ID), ("relation", _ID), ("tail", _ID), ("split", pa.int8())]),
    "typings": pa.schema([("entity", _ID), ("concept", _ID)]),
    "subsumptions": pa.schema([("sub", _ID), ("super", _ID)]),
}
INFERRED_TABLES: Final[Mapping[str, pa.Schema]] = {
    "inferred_assertions": pa.schema([("head", _ID), ("relation", _ID), ("tail", _ID)]),
    "inferred_typings": STORE_TABLES["typings"],
    "inferred_subsumptions": STORE_TABLES["subsumptions"],
}
"""What follows from the axioms, in the same columns; all of them or none are there."""
ATTRIBUTE_TABLE: Final[Mapping[str, pa.Schema]] = {
    "attributes": pa.schema(
        [("fact", _ID), *((name, pa.dictionary(pa.int32(), pa.string())) for name in ("name", "value"))]
    )
}
"""What is said of assertions, by their row; not there where no source says anything."""
DECLARED_TABLE: Final[Mapping[str, pa.Schema]] = {"declared": pa.schema([("name", _ID)])}
"""The names that a source declares, be they in a fact or not: entities, then concepts, then relations, numbered in one
row. It decides which names a change may take away, and is no part of the content."""
SHARDED_TABLES: Final[Mapping[str, str]] = {
    "entities": "",
    "assertions": "head",
    "typings": "entity",
    "inferred_assertions": "head",
    "inferred_typings": "entity",
    "attributes": "fact",
}
"""The tables that may be in several files, by ranges of entities, and the column that says whose a row is."""
SCHEMAS: Final = {**STORE_TABLES, **INFERRED_TABLES, **ATTRIBUTE_TABLE, **DECLARED_TABLE}
Manifest = dict[str, Any]
StoreFiles = Mapping[str, Sequence[pa.Buffer]]


@final
@dataclass(frozen=True)  # without slots, for what is made when it is asked for
class Store:
    """An opened, verified store; the content of all `files` is mapped into memory: whoever has it open keeps all of it,
    also when the store is changed and its old files are removed. A table is one file, or its shards in order."""

    path: Path
    manifest: Manifest
    files: StoreFiles

    @cached_property
    def facts(self) -> Facts:
        """All facts (`map_facts`); a build, which may be of more than fits, does not ask for them."""
        mode = str(self.manifest.get("inference", {}).get("mode", "none"))
        return map_facts(self.files, mode, self.manifest.get("annotations", ()))

    @property
    def vocabulary_hash(self) -> str:
        """The hash that ties runs and benchmarks to the ids of this store."""
        return str(self.manifest["vocabulary_hash"])

    def version(self) -> tuple[str, str]:
        """The content hash, and when this was written, in UTC; the time is empty where it is gone already."""
        written = ""
        with suppress(OSError):
            stamp = datetime.fromtimestamp((self.path / MANIFEST).stat().st_mtime, UTC)
            written = stamp.strftime("%Y-%m-%dT%H:%M:%SZ")
        return str(self.manifest["content_hash"]), written

    @property
    def attributes(self) -> FactAttributes:
        """What is said of the asserted facts."""
        table, given = self.table("attributes"), self.table("assertions")
        names, values = (table[column].combine_chunks() for column in table.column_names[1:])
        heads, relations, tails = (numbers(given, column) for column in given.column_names[:3])
        return FactAttributes(heads, relations, tails, numbers(table, "fact"), names, values)

    def table(self, name: str) -> pa.Table:
        """One of the tables; an empty one where there is none."""
        return table_of(self.files[name]) if name in self.files else SCHEMAS[name].empty_table()

    def axioms(self) -> tuple[Axiom, ...]:
        """What the sources say of classes and relations beyond the tables, in order; read anew at each call."""
        return read_axiom_file(self.files[AXIOMS]) if AXIOMS in self.files else ()


def open_store(path: str | os.PathLike[str]) -> Store:
    """Open and verify the store at `path`: every byte of it is checked, and a damaged file is named."""
    folder = Path(path)
    manifest = read_manifest(folder)
    files = _open_files(folder, manifest)
    if files is None:  # replaced between the reading of the manifest and of a file: the new one is complete
        manifest = read_manifest(folder)
        files = _open_files(folder, manifest)
    if files is None:
        missing = [name for name in listed_files(manifest) if not (folder / name).exists()]
        raise StoreDamaged(f"{folder / missing[0]} is missing from the store. Build it again with `tarbox kb build`.")
    return Store(folder, manifest, files)


def read_manifest(folder: Path) -> Manifest:
    """The manifest of the store at `folder`, verified."""
    file = folder / MANIFEST
    try:
        written = file.read_bytes()
    except (FileNotFoundError, NotADirectoryError):
        raise StoreMissing(
            f"no store at {folder}: there is no {MANIFEST}. Build one with `tarbox kb build SOURCE... -o {folder}`."
        ) from None
    try:
        manifest: Manifest = json.loads(written)
        sound = isinstance(manifest, dict) and manifest_bytes(manifest) == written
    except (ValueError, KeyError):
        sound = False
    if not sound:
        raise StoreDamaged(f"{file} is damaged: it is not what was written. Build the store again.")
    if manifest.get("format") != STORE_FORMAT:
        raise StoreMissing(f"{folder} holds no store but a {manifest.get('format', 'folder of another kind')}.")
    if manifest.get("version") not in (STORE_VERSION, SHARDED_VERSION):
        raise StoreVersion(
            f"{folder} has store format {manifest.get('version')}, this tarbox reads {STORE_VERSION} and "
            f"{SHARDED_VERSION}. Build the store again."
        )
    return manifest


def shards_of(entry: Manifest) -> list[Manifest]:
    """What a manifest says of the files of one table, in order: one where it is not sharded."""
    shards: list[Manifest] = entry.get("shards", [entry])
    return shards


def listed_files(manifest: Manifest) -> list[str]:
    """The names of all files of a store but the manifest."""
    return [str(shard["name"]) for entry in manifest["files"].values() for shard in shards_of(entry)]


def manifest_bytes(manifest: Manifest) -> bytes:
    """The one way in which a manifest is written: sorted, indented, with a checksum of the rest as its last key."""
    rest = {key: value for key, value in manifest.items() if key != "~checksum"}
    rest["~checksum"] = f"{zlib.crc32(_canonical(rest)):08x}"
    return _canonical(rest)


def _canonical(value: Manifest) -> bytes:
    return (json.dumps(value, indent=1, sort_keys=True, ensure_ascii=False) + "\n").encode("utf-8", "replace")


def checksum(file: Path) -> str:
    """CRC-32 of a file, in hexadecimal: fast, and sure to notice any change within four bytes."""
    return _checksum(map_file(file))


def _checksum(content: pa.Buffer) -> str:
    return f"{zlib.crc32(content):08x}"


def _open_files(folder: Path, manifest: Manifest) -> StoreFiles | None:
    """The files, mapped and verified, or None when one is not there."""
    entries = {name: shards_of(entry) for name, entry in manifest["files"].items()}
    try:
        files = {name: [map_file(folder / shard["name"]) for shard in shards] for name, shards in entries.items()}
    except FileNotFoundError:
        return None
    every, contents = chain.from_iterable(entries.values()), chain.from_iterable(files.values())
    with ThreadPoolExecutor() as pool:  # zlib releases the GIL
        for entry, found in zip(every, pool.map(_checksum, contents), strict=True):
            if found != entry["checksum"]:
                raise StoreDamaged(
                    f"{folder / entry['name']} is damaged: checksum {found}, written {entry['checksum']}. "
                    "Build the store again."
                )
    return files


def map_file(file: Path) -> pa.Buffer:
    """The content of a file, mapped into memory: it stays when the file is removed."""
    with pa.memory_map(str(file)) as source:
        return source.read_buffer()


def table_of(contents: Iterable[pa.Buffer]) -> pa.Table:
    """The rows of all files, one after the other; nothing is copied."""
    return pa.concat_tables([pa.ipc.open_file(content).read_all() for content in contents])


def read_axiom_file(contents: Iterable[pa.Buffer]) -> tuple[Axiom, ...]:
    [content] = contents
    return tuple(read_axioms(gzip.decompress(content).decode()))


def map_facts(files: StoreFiles, mode: str = "none", annotations: Iterable[str] = ()) -> Facts:
    """The facts in these files, memory-mapped and not verified: those of `STORE_TABLES`, and the inferred ones.

    What was inferred, in this `mode`, is merged with the rest; that copies the columns. `annotations` are the IRIs of
    annotation relations.
    """
    tables = {name: table_of(files[name]) for name in STORE_TABLES}
    names = {role: _names(role, tables[role.plural]) for role in Role}
    vocabulary = Vocabulary(names[Role.ENTITY], names[Role.CONCEPT], names[Role.RELATION], tables["synonyms"])
    facts = Facts.of_columns(vocabulary, _columns(tables, ""), numbers(tables["assertions"], "split"))
    ids = (vocabulary.relations.find(iri) for iri in annotations)
    facts = replace(facts, annotations=tuple(sorted(number for number in ids if number is not None)))
    if not set(INFERRED_TABLES) <= set(files):
        return facts
    columns = _columns({name: table_of(files[name]) for name in INFERRED_TABLES}, "inferred_")
    more = Facts.of_columns(vocabulary, columns)
    return join_facts(facts, more, mode, partial(read_axiom_file, files[AXIOMS]))


def _columns(tables: Mapping[str, pa.Table], prefix: str) -> list[Any]:
    """The seven columns of ids, of asserted or of inferred facts."""
    return [
        numbers(tables[prefix + table], column)
        for table in ("assertions", "typings", "subsumptions")
        for column in INFERRED_TABLES[f"inferred_{table}"].names
    ]


def _names(role: Role, table: pa.Table) -> Names:
    return Names(role, table["iri"], table["label"])


def numbers(table: pa.Table, column: str) -> Any:
    """A column as numpy, without a copy when it was written as one block: shards are put together in memory."""
    chunks = table[column]
    single = chunks.chunk(0) if chunks.num_chunks == 1 else chunks.combine_chunks()
    if single.null_count or pa.types.is_dictionary(single.type):
        return single.to_numpy(zero_copy_only=False)
    return np.from_dlpack(single)  # Arrow's own conversion imports pandas where that is installed: 0.15 s
