"""A knowledge base as N-Triples, Turtle or JSON-LD (one file, lossless), as TSV tables or KGX (a folder)."""

from __future__ import annotations

import gzip
import io
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tarbox.core.errors import ConfigError
from tarbox.core.ids import Role
from tarbox.kb.arrays import Flags
from tarbox.kb.attributes import FactAttributes
from tarbox.kb.axioms import Axiom, axiom_names
from tarbox.kb.facts import NO_SPLIT, SPLITS, Facts
from tarbox.kb.kgx_export import kgx_lines
from tarbox.kb.namespaces import ANNOTATION_RELATION, DATA_DECLARATIONS, LABEL, OWL, SKOS, SUBCLASS, TYPE
from tarbox.kb.owl_statements import StatementMaker
from tarbox.kb.terms import literal, to_ntriples
from tarbox.kb.vocabulary import Names, one_array

_BLOCK = 1 << 18
_RDF = (".ttl", ".jsonld")
NAME_CLASSES = {Role.ENTITY: "NamedIndividual", Role.CONCEPT: "Class", Role.RELATION: "ObjectProperty"}


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
    names = {role: written(facts.vocabulary.names(role)) for role in Role}
    said = (_line(*columns) for columns in chain(state_names(facts, names), state_facts(facts, names)))
    told = (" ".join([*map(to_ntriples, statement), "."]) for statement in state_axioms(axioms))
    return _pieces(chain(said, [pa.array(told, pa.string())]))


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
    iris = one_array(names.iris)
    bracketed = pc.binary_join_element_wise("<", iris, ">", "")
    return pc.if_else(pc.starts_with(iris, '"'), iris, bracketed) if len(iris) else pa.array([], pa.string())


def _line(*terms: Any) -> pa.Array:
    return pc.binary_join_element_wise(*terms, ".", " ")


StatementColumns = tuple[Any, Any, Any]
"""Subjects, predicates and objects of statements: an array of terms, or one term for all."""


def state_names(
    facts: Facts,
    names: Mapping[Role, pa.Array],
    write: Callable[[str], str] = to_ntriples,
    declared: Mapping[Role, Any] | None = None,
) -> Iterator[StatementColumns]:
    """The statements that make names what they are: declarations, of these ids or of all, labels and synonyms.

    `names` are the terms as they are to be written, and `write` says how another one is.
    """
    for role, terms in names.items():
        own = terms if declared is None else terms.take(pa.array(declared[role]))
        subjects = own.filter(pc.invert(pc.starts_with(own, '"')))
        if len(subjects):
            yield subjects, write(TYPE), write(OWL + NAME_CLASSES[role])
    if facts.annotations:
        yield names[Role.RELATION].take(facts.annotations), write(TYPE), write(ANNOTATION_RELATION)
    for role, terms in names.items():
        labels = facts.vocabulary.names(role).labels
        rows = np.flatnonzero(pc.is_valid(labels).to_numpy(zero_copy_only=False))
        if len(rows):
            texts = pa.array([literal(text) for text in labels.take(rows).to_pylist()])
            yield terms.take(rows), write(LABEL), texts
    synonyms = facts.vocabulary.synonyms.to_pylist()
    if synonyms:
        called = pa.array([names[Role(row["role"])][row["id"]].as_py() for row in synonyms])
        yield called, write(SKOS + "altLabel"), pa.array([literal(row["text"]) for row in synonyms])


def state_facts(
    facts: Facts, names: Mapping[Role, pa.Array], write: Callable[[str], str] = to_ntriples
) -> Iterator[StatementColumns]:
    """The statements of subsumptions, typings and assertions, in blocks; `names` and `write` as of `state_names`."""
    entities, concepts, relations = names[Role.ENTITY], names[Role.CONCEPT], names[Role.RELATION]
    if len(facts.subs):
        yield concepts.take(facts.subs), write(SUBCLASS), concepts.take(facts.supers)
    for part in blocks_of(len(facts.typed)):
        yield entities.take(facts.typed[part]), write(TYPE), concepts.take(facts.types[part])
    for part in blocks_of(len(facts.heads)):
        ends = (entities.take(ids[part]) for ids in (facts.heads, facts.tails))
        yield next(ends), relations.take(facts.relations[part]), next(ends)


def blocks_of(rows: int) -> Iterator[slice]:
    """So many rows, in parts."""
    return (slice(start, start + _BLOCK) for start in range(0, rows, _BLOCK))


def restrict_names(facts: Facts, labels: Mapping[Role, Flags], synonyms: Flags) -> Facts:
    """The same facts without labels and synonyms but those that are flagged."""
    names = {
        f"{role.plural}": replace(own, labels=pc.if_else(pa.array(labels[role]), one_array(own.labels), None))
        for role in Role
        if (own := facts.vocabulary.names(role))
    }
    called = facts.vocabulary.synonyms.filter(pa.array(synonyms))
    return replace(facts, vocabulary=replace(facts.vocabulary, synonyms=called, **names))


def state_axioms(axioms: Iterable[Axiom], maker: StatementMaker | None = None) -> Iterator[tuple[str, str, str]]:
    """The statements of axioms, and the declarations without which RDF does not tell data from objects."""
    maker, declared = maker or StatementMaker(), set[tuple[str, str]]()
    for axiom in axioms:
        declared.update(axiom_names(axiom))
        yield from maker.statements(axiom)
    yield from ((name, TYPE, DATA_DECLARATIONS[kind]) for kind, name in sorted(declared) if kind in DATA_DECLARATIONS)


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
