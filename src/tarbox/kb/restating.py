"""What a store says, as statements again: all of it, or what it says of the names that other statements mention."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

import numpy as np
import pyarrow as pa

from tarbox.core.ids import Role
from tarbox.kb.axioms import Axiom, axiom_names
from tarbox.kb.export import StatementColumns, blocks_of, restrict_names, state_axioms, state_facts, state_names
from tarbox.kb.facts import NO_SPLIT
from tarbox.kb.namespaces import DATA_DECLARATIONS, OWL, TYPE
from tarbox.kb.preparation import queries
from tarbox.kb.preparation.engine import TableEngine
from tarbox.kb.statements import ATTRIBUTES, STATEMENTS, Piece, in_blocks
from tarbox.kb.store import Store
from tarbox.kb.table_changes import by_role, declared_ids, told_tables
from tarbox.kb.terms import valid_iri
from tarbox.kb.vocabulary import one_array


def restate(store: Store, axioms: Iterable[Axiom], merged: bool) -> Iterator[Piece]:
    """Everything that a store says, but for what was inferred; `merged` where same entities were made one."""
    facts = store.facts.asserted()
    names = {role: one_array(facts.vocabulary.names(role).iris) for role in Role}
    none = np.empty(0, np.int32)
    others = replace(facts, heads=none, relations=none, tails=none)
    for columns in (
        *state_names(facts, names, str, declared_ids(told_tables(store))),
        *state_facts(others, names, str),
    ):
        yield Piece(_batch(columns))
    yield from map(Piece, in_blocks(state_axioms(axioms)))
    said = store.attributes
    for part in blocks_of(len(facts.heads)):
        ids = (facts.heads, facts.relations, facts.tails)
        terms = [
            names[role].take(c[part]) for role, c in zip((Role.ENTITY, Role.RELATION, Role.ENTITY), ids, strict=True)
        ]
        first, last = np.searchsorted(said.facts, np.array([part.start, part.stop], said.facts.dtype)).tolist()
        rows = [said.facts[first:last] - np.int32(part.start), said.names[first:last], said.values[first:last]]
        attributes = [pa.array(c).cast(field.type) for c, field in zip(rows, ATTRIBUTES, strict=True)]
        statements = pa.record_batch([*terms, pa.array(facts.splits[part])], schema=STATEMENTS)
        yield Piece(statements, attributes=pa.record_batch(attributes, schema=ATTRIBUTES))
    if merged:
        called = facts.vocabulary.synonyms.to_pylist()
        same = [row for row in called if row["role"] == Role.ENTITY.value and valid_iri(row["text"])]
        iris = facts.vocabulary.entities
        yield from map(Piece, in_blocks((iris.iri(row["id"]), OWL + "sameAs", row["text"]) for row in same))


def restate_mentioned(store: Store, axioms: Iterable[Axiom], engine: TableEngine, named: bool) -> Iterator[Piece]:
    """What a store says of the names among the staged terms: their roles and, if `named`, labels and synonyms."""
    found = engine.fetch(queries.MENTIONED).read_all()
    terms = found["text"].to_numpy()
    facts = store.facts.asserted()
    found_ids = {}
    for role in Role:
        places, known = facts.vocabulary.names(role).find_all(terms)
        found_ids[role] = places[known]
    marks = {
        role: np.isin(np.arange(len(facts.vocabulary.names(role))), ids) & named for role, ids in found_ids.items()
    }
    own = restrict_names(facts, marks, by_role(facts.vocabulary.synonyms, marks))
    own = replace(own, annotations=tuple(set(facts.annotations) & set(found_ids[Role.RELATION].tolist())))
    for columns in state_names(
        own, {role: one_array(facts.vocabulary.names(role).iris) for role in Role}, str, found_ids
    ):
        yield Piece(_batch(columns))
    properties = {pair for axiom in axioms for pair in axiom_names(axiom) if pair[0] in DATA_DECLARATIONS}
    mentioned = set(terms)
    wanted = [(name, TYPE, DATA_DECLARATIONS[kind]) for kind, name in sorted(properties) if name in mentioned]
    yield from map(Piece, in_blocks(wanted))


def _batch(columns: StatementColumns) -> pa.RecordBatch:
    rows = len(columns[0])
    terms = [pa.repeat(c, rows) if isinstance(c, str) else c for c in columns]
    return pa.record_batch([*terms, pa.repeat(pa.scalar(NO_SPLIT, pa.int8()), rows)], schema=STATEMENTS)
