"""A knowledge base as N-Triples, Turtle or JSON-LD (one file, lossless), as TSV tables or KGX (a folder)."""

from __future__ import annotations

import gzip
import io
from collections.abc import Iterable, Iterator
from itertools import chain
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tarbox.core.errors import ConfigError
from tarbox.core.ids import Role
from tarbox.kb.attributes import FactAttributes
from tarbox.kb.axioms import Axiom, axiom_names
from tarbox.kb.facts import NO_SPLIT, SPLITS, Facts
from tarbox.kb.kgx_export import kgx_lines
from tarbox.kb.namespaces import ANNOTATION_RELATION, DATA_DECLARATIONS, LABEL, OWL, SKOS, SUBCLASS, TYPE
from tarbox.kb.owl_statements import StatementMaker
from tarbox.kb.terms import literal, to_ntriples
from tarbox.kb.vocabulary import Names

_BLOCK = 1 << 18
_RDF = (".ttl", ".jsonld")
_CLASSES = {Role.ENTITY: "NamedIndividual", Role.CONCEPT: "Class", Role.RELATION: "ObjectProperty"}


def export(
    facts: Facts,
    path: Path,
    axioms: Iterable[Axiom] = (),
    kgx: str | None = None,
    attributes: FactAttributes | None = None,
) -> dict[Path, int]:
    """Write `facts` to `path`; returns the files written with their numbers of lines.

    A folder gets tables, or KGX (`kgx` is "tsv" or "jsonl"), which alone has `attributes`. Neither holds axioms.
    """
    suffixes = "".join(path.suffixes[-2:]).lower()
    if suffixes.endswith((".nt", ".nt.gz")):
        return {path: _write(path, write_triples(facts, axioms))}
    if suffixes.endswith(_RDF):
        return {path: _write(path, _serialize(write_triples(facts, axioms), path.suffix[1:]))}
    if path.suffix and not path.is_dir():
        raise ConfigError(
            f"cannot export to {path}: name a file that ends in .nt, .nt.gz, .ttl or .jsonld, or a folder for tables."
        )
    path.mkdir(parents=True, exist_ok=True)
    files = {name: _pieces(lines) for name, lines in _tables(facts).items()} if kgx is None else {}
    if kgx is not None:
        files = {f"{kind}.{kgx}": lines for kind, lines in kgx_lines(facts, attributes, kgx == "tsv").items()}
    return {path / name: _write(path / name, pieces) for name, pieces in files.items()}


def _serialize(pieces: Iterator[bytes], format: str) -> Iterator[bytes]:
    """N-Triples in another syntax of RDF, whole."""
    import pyoxigraph as ox

    triples = (quad.triple for piece in pieces for quad in ox.parse(piece, format=ox.RdfFormat.N_TRIPLES))
    yield ox.serialize(triples, format=ox.RdfFormat.from_extension(format)) or b""
    yield b"\n"


def write_triples(facts: Facts, axioms: Iterable[Axiom]) -> Iterator[bytes]:
    """The facts and axioms as N-Triples, in pieces of whole lines."""
    return _pieces(chain(_ntriples(facts), _axioms(axioms)))


def _write(path: Path, pieces: Iterator[bytes]) -> int:
    path.parent.mkdir(parents=True, exist_ok=True)
    number = 0
    with path.open("wb") as raw, io.BufferedWriter(_compressed(raw, path)) as sink:
        for piece in pieces:
            number += piece.count(b"\n")
            sink.write(piece)
    return number


def _pieces(lines: Iterator[pa.Array]) -> Iterator[bytes]:
    for block in lines:
        for start in range(0, len(block), _BLOCK):
            yield "\n".join(block.slice(start, _BLOCK).to_pylist()).encode() + b"\n"


def _compressed(raw: BinaryIO, path: Path) -> Any:
    return gzip.GzipFile(fileobj=raw, mode="wb", mtime=0) if path.suffix == ".gz" else raw


def written(names: Names) -> pa.Array:
    """The names in N-Triples form."""
    iris = names.iris.combine_chunks() if isinstance(names.iris, pa.ChunkedArray) else names.iris
    bracketed = pc.binary_join_element_wise("<", iris, ">", "")
    return pc.if_else(pc.starts_with(iris, '"'), iris, bracketed) if len(iris) else pa.array([], pa.string())


def _line(*terms: Any) -> pa.Array:
    return pc.binary_join_element_wise(*terms, ".", " ")


def _ntriples(facts: Facts) -> Iterator[pa.Array]:
    vocabulary = facts.vocabulary
    names = {role: written(vocabulary.names(role)) for role in Role}
    entities, concepts, relations = names[Role.ENTITY], names[Role.CONCEPT], names[Role.RELATION]
    for role, terms in names.items():
        subjects = terms.filter(pc.invert(pc.starts_with(terms, '"')))
        if len(subjects):
            yield _line(subjects, f"<{TYPE}>", f"<{OWL}{_CLASSES[role]}>")
    if facts.annotations:
        yield _line(relations.take(facts.annotations), f"<{TYPE}>", f"<{ANNOTATION_RELATION}>")
    yield from _labels(facts, names)
    if len(facts.subs):
        yield _line(concepts.take(facts.subs), f"<{SUBCLASS}>", concepts.take(facts.supers))
    for start in range(0, len(facts.typed), _BLOCK):
        part = slice(start, start + _BLOCK)
        yield _line(entities.take(facts.typed[part]), f"<{TYPE}>", concepts.take(facts.types[part]))
    for start in range(0, len(facts.heads), _BLOCK):
        part = slice(start, start + _BLOCK)
        yield _line(
            entities.take(facts.heads[part]), relations.take(facts.relations[part]), entities.take(facts.tails[part])
        )


def _axioms(axioms: Iterable[Axiom]) -> Iterator[pa.Array]:
    """The statements of axioms, and the declarations without which RDF does not tell data from objects."""
    maker, declared = StatementMaker(), set[tuple[str, str]]()
    lines: list[str] = []
    for axiom in axioms:
        declared.update(axiom_names(axiom))
        lines += [" ".join([*map(to_ntriples, statement), "."]) for statement in maker.statements(axiom)]
    lines += [f"<{name}> <{TYPE}> <{DATA_DECLARATIONS[k]}> ." for k, name in sorted(declared) if k in DATA_DECLARATIONS]
    yield pa.array(lines, pa.string())


def _labels(facts: Facts, names: dict[Role, pa.Array]) -> Iterator[pa.Array]:
    for role, terms in names.items():
        labels = facts.vocabulary.names(role).labels
        rows = np.flatnonzero(pc.is_valid(labels).to_numpy(zero_copy_only=False))
        if len(rows):
            texts = pa.array([literal(text) for text in labels.take(rows).to_pylist()])
            yield _line(terms.take(rows), f"<{LABEL}>", texts)
    synonyms = facts.vocabulary.synonyms.to_pylist()
    if synonyms:
        subjects = pa.array([names[Role(row["role"])][row["id"]].as_py() for row in synonyms])
        yield _line(subjects, f"<{SKOS}altLabel>", pa.array([literal(row["text"]) for row in synonyms]))


def _tables(facts: Facts) -> dict[str, Iterator[pa.Array]]:
    vocabulary = facts.vocabulary
    entities, concepts, relations = (written(vocabulary.names(role)) for role in Role)

    def rows(*columns: pa.Array) -> Iterator[pa.Array]:
        if len(columns[0]):
            yield pc.binary_join_element_wise(*columns, "\t")

    assertions = [entities.take(facts.heads), relations.take(facts.relations), entities.take(facts.tails)]
    if len(facts.splits) and (facts.splits != NO_SPLIT).all():
        assertions.append(pa.array(SPLITS).take(facts.splits))
    return {
        "relations.tsv": rows(*assertions),
        "types.tsv": rows(entities.take(facts.typed), concepts.take(facts.types)),
        "subclass.tsv": rows(concepts.take(facts.subs), concepts.take(facts.supers)),
        "labels.tsv": _label_rows(facts, {role: written(vocabulary.names(role)) for role in Role}),
    }


def _label_rows(facts: Facts, names: dict[Role, pa.Array]) -> Iterator[pa.Array]:
    for role, terms in names.items():
        labels = facts.vocabulary.names(role).labels
        rows = np.flatnonzero(pc.is_valid(labels).to_numpy(zero_copy_only=False))
        if len(rows):
            clean = pc.replace_substring_regex(labels.take(rows).cast(pa.string()), r"[\t\r\n]+", " ")
            clean = clean.combine_chunks() if isinstance(clean, pa.ChunkedArray) else clean
            yield pc.binary_join_element_wise(terms.take(rows), clean, "\t")
