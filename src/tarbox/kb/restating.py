"""What a store says, as statements again: all of it, or what it says of the names that other statements mention."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

import numpy as np
import pyarrow as pa

from tarbox.core.ids import Role
from tarbox.kb.arrays import Ids
from tarbox.kb.axioms import Axiom, axiom_names
from tarbox.kb.export import Columns, blocks_of, state_axioms, state_facts, state_names
from tarbox.kb.facts import NO_SPLIT, Facts
from tarbox.kb.namespaces import DATA_DECLARATIONS, OWL, TYPE
from tarbox.kb.staging import Staging
from tarbox.kb.statements import ATTRIBUTES, STATEMENTS, Piece, in_blocks
from tarbox.kb.store import Store
from tarbox.kb.table_changes import declared_ids, told_tables
from tarbox.kb.terms import valid_iri
from tarbox.kb.vocabulary import SYNONYMS, Names, Vocabulary, one_array


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


def restate_mentioned(store: Store, axioms: Iterable[Axiom], staging: Staging, named: bool) -> Iterator[Piece]:
    """What a store says of the names among the staged terms: their roles and, if `named`, labels and synonyms."""
    found = staging.reader("SELECT DISTINCT text FROM term WHERE id & 3 = 0 ORDER BY text").read_all()
    terms = found["text"].to_numpy()
    facts = _mentioned(store.facts, terms, named)
    for columns in state_names(facts, {role: facts.vocabulary.names(role).iris for role in Role}, str):
        yield Piece(_batch(columns))
    properties = {pair for axiom in axioms for pair in axiom_names(axiom) if pair[0] in DATA_DECLARATIONS}
    wanted = sorted((name, TYPE, DATA_DECLARATIONS[kind]) for kind, name in properties & _pairs(terms))
    yield from map(Piece, in_blocks(wanted))


def _pairs(terms: Iterable[str]) -> set[tuple[str, str]]:
    return {(kind, term) for kind in DATA_DECLARATIONS for term in terms}


def _mentioned(facts: Facts, terms: np.ndarray, named: bool) -> Facts:
    names, ids, texts = dict[Role, Names](), dict[Role, Ids](), [SYNONYMS.empty_table()]
    for role in Role:
        own = facts.vocabulary.names(role)
        places, known = own.find_all(terms)
        ids[role] = rows = places[known].astype(np.int32)
        labels = one_array(own.labels).take(pa.array(rows)) if named else pa.nulls(len(rows), pa.string())
        names[role] = Names(role, pa.array(terms[known], pa.string()), labels)
        if named:
            texts.append(_synonyms(facts.vocabulary.synonyms, role, rows))
    vocabulary = Vocabulary(names[Role.ENTITY], names[Role.CONCEPT], names[Role.RELATION], pa.concat_tables(texts))
    annotations = np.flatnonzero(np.isin(ids[Role.RELATION], facts.annotations)).tolist()
    return Facts.of(vocabulary, annotations=annotations)


def _synonyms(table: pa.Table, role: Role, ids: Ids) -> pa.Table:
    """The synonyms of some names, which are numbered anew in their order."""
    import pyarrow.compute as pc

    own = table.filter(pc.and_(pc.equal(table["role"], role.value), pc.is_in(table["id"], pa.array(ids))))
    return own.set_column(1, SYNONYMS.field("id"), pa.array(np.searchsorted(ids, own["id"].to_numpy()), pa.int32()))


def _batch(columns: Columns) -> pa.RecordBatch:
    rows = len(columns[0])
    terms = [pa.repeat(c, rows) if isinstance(c, str) else c for c in columns]
    return pa.record_batch([*terms, pa.repeat(pa.scalar(NO_SPLIT, pa.int8()), rows)], schema=STATEMENTS)
