"""What one store states that another does not: names, labels, facts, what is said of facts, axioms."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final, final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tarbox.core.ids import Role
from tarbox.kb.arrays import Ids, Places
from tarbox.kb.axioms import write_axiom
from tarbox.kb.export import NAME_CLASSES
from tarbox.kb.facts import KINDS
from tarbox.kb.namespaces import ANNOTATION_RELATION, LABEL, OWL, SKOS, SUBCLASS, TYPE
from tarbox.kb.owl_statements import StatementMaker
from tarbox.kb.rows import contains
from tarbox.kb.store import Store, numbers
from tarbox.kb.table_changes import FACT_ROLES, Tables, by_role, fact_columns, fact_keys, told_tables
from tarbox.kb.terms import literal, to_ntriples
from tarbox.kb.vocabulary import one_array

_VERBS: Final = {"typings": (TYPE, "is a"), "subsumptions": (SUBCLASS, "is a subclass of")}
Statement = tuple[str, str, str]


@final
@dataclass(frozen=True, slots=True)
class Difference:
    """One thing that only one of two stores states. An attribute of a fact has no statements."""

    added: bool
    kind: str
    text: str
    statements: Sequence[Statement] = ()

    def ntriples(self) -> list[str]:
        return [" ".join([*map(to_ntriples, statement), "."]) for statement in self.statements]

    def to_json(self) -> dict[str, Any]:
        return {"added": self.added, "kind": self.kind, "text": self.text, "statements": self.ntriples()}


@final
@dataclass(frozen=True, slots=True)
class StoreDifference:
    """Two stores compared: what only the first states is removed, what only the second does is added."""

    removed: _Side
    added: _Side

    def __bool__(self) -> bool:
        return any(any(counts) for counts in self.counts().values())

    def counts(self) -> dict[str, tuple[int, int]]:
        """How many of each kind are added and removed."""
        added, removed = self.added.sizes(), self.removed.sizes()
        return {kind: (added[kind], removed[kind]) for kind in added}

    def __iter__(self) -> Iterator[Difference]:
        yield from self.removed.differences()
        yield from self.added.differences()


def compare_stores(first: Store, second: Store) -> StoreDifference:
    """What was added to the first store, and removed from it, to make the second; nothing that is inferred."""
    if first.manifest["content_hash"] == second.manifest["content_hash"]:
        return StoreDifference(_Side(False, first, {}), _Side(True, second, {}))
    sides = ((False, first, second), (True, second, first))
    removed, added = (
        _Side(is_added, one, _own(told_tables(one), told_tables(other))) for is_added, one, other in sides
    )
    for side, other in ((removed, second), (added, first)):
        for kind, terms in (
            ("axioms", other.axioms()),
            ("annotation relations", other.manifest.get("annotations", ())),
        ):
            side.rows[kind] = [term for term in side.stated(kind) if term not in set(terms)]
    return StoreDifference(removed, added)


def _own(mine: Tables, theirs: Tables) -> dict[str, Any]:
    """The rows of each table that the other store has not; of attributes, those of facts that both have."""
    rows, ids = dict[str, Any](), dict[Role, Ids]()
    for role in Role:
        names, others = mine[role.plural], theirs[role.plural]
        found = pc.fill_null(pc.index_in(one_array(names["iri"]), one_array(others["iri"])), -1)
        ids[role] = found.to_numpy()
        rows[role.plural] = np.flatnonzero(ids[role] < 0)
        there = one_array(others["label"]).take(pc.if_else(pc.less(found, 0), None, found))
        label = one_array(names["label"])
        other = pc.and_(pc.is_valid(label), pc.fill_null(pc.not_equal(label, there), True))
        rows[f"labels of {role.plural}"] = np.flatnonzero(np.asarray(other))
    sizes = {role: len(theirs[role.plural]) for role in Role}
    places: Places = np.empty(0, np.int64)
    for table, roles in FACT_ROLES.items():
        columns, keys = fact_columns(mine, table, ids), fact_keys(fact_columns(theirs, table), roles, sizes)
        known = np.logical_and.reduce([column >= 0 for column in columns])
        own = fact_keys(columns, roles, sizes)
        known &= contains(keys, own)
        rows[table] = np.flatnonzero(~known)
        if table == "assertions":
            places = np.where(known, np.searchsorted(keys, own), -1)
    moved = {"attributes": places[numbers(mine["attributes"], "fact")], "synonyms": by_role(mine["synonyms"], ids)}
    return rows | {table: _missing(mine[table], column, theirs[table]) for table, column in moved.items()}


def _missing(mine: pa.Table, ids: Ids, theirs: pa.Table) -> Places:
    """The rows that the other table has not, where `ids` are its numbers for the column of numbers."""
    ours = [pa.array(ids) if pa.types.is_integer(field.type) else mine[field.name] for field in mine.schema]
    texts = [[one_array(column).cast(pa.string()) for column in table] for table in (ours, theirs.columns)]
    joined = [pc.binary_join_element_wise(*columns, "\t") for columns in texts]
    return np.flatnonzero(~np.asarray(pc.is_in(*joined)))


@final
@dataclass(frozen=True, slots=True)
class _Side:
    """A store and what only it states, by kind: rows of its tables, or axioms and annotation relations."""

    added: bool
    store: Store
    rows: dict[str, Any]

    def sizes(self) -> dict[str, int]:
        labels = {"labels": sum(len(self.rows.get(f"labels of {role.plural}", ())) for role in Role)}
        return (
            {kind: len(self.rows.get(kind, ())) for kind in KINDS}
            | labels
            | {
                kind: len(self.rows.get(kind, ()))
                for kind in ("synonyms", "attributes", "axioms", "annotation relations")
            }
        )

    def stated(self, kind: str) -> Sequence[Any]:
        return self.store.axioms() if kind == "axioms" else self.store.manifest.get("annotations", ())

    def differences(self) -> Iterator[Difference]:
        """One by one: names, then what is said of them."""
        if not self.rows:
            return
        for role in Role:
            names = self.store.facts.vocabulary.names(role)
            for row in self.rows[role.plural].tolist():
                iri = names.iri(row)
                yield self._of(role.value, f"{names.show(row)} <{iri}>", (iri, TYPE, OWL + NAME_CLASSES[role]))
            for row in self.rows[f"labels of {role.plural}"].tolist():
                yield self._call("label", LABEL, role, row, names.label(row) or "")
        for row in self.rows["synonyms"].tolist():
            role, id, text = (column[row].as_py() for column in self.store.facts.vocabulary.synonyms.columns)
            yield self._call("synonym", SKOS + "altLabel", Role(role), id, text)
        yield from self._facts()
        attributes = self.store.table("attributes")
        for row in self.rows["attributes"].tolist():
            fact, name, value = (column[row].as_py() for column in attributes.columns)
            yield self._of("attribute", f"{name} {value}: {self._fact('assertions', fact)[0]}")
        for iri in self.rows["annotation relations"]:
            yield self._of("annotation relation", f"<{iri}>", (iri, TYPE, ANNOTATION_RELATION))
        maker = StatementMaker()
        for axiom in self.rows["axioms"]:
            yield self._of("axiom", write_axiom(axiom), *maker.statements(axiom))

    def _of(self, kind: str, text: str, *statements: Statement) -> Difference:
        return Difference(self.added, kind, text, statements)

    def _call(self, kind: str, predicate: str, role: Role, id: int, text: str) -> Difference:
        iri = self.store.facts.vocabulary.names(role).iri(id)
        return self._of(kind, f"{text!r} of <{iri}>", (iri, predicate, literal(text)))

    def _facts(self) -> Iterator[Difference]:
        for table in reversed(FACT_ROLES):
            for row in self.rows[table].tolist():
                text, statement = self._fact(table, row)
                yield self._of(table.removesuffix("s"), text, statement)

    def _fact(self, table: str, row: int) -> tuple[str, Statement]:
        ids = [column[row].as_py() for column in self.store.table(table).columns]
        names = [self.store.facts.vocabulary.names(role) for role in FACT_ROLES[table]]
        terms = [(each.iri(id), each.show(id)) for each, id in zip(names, ids, strict=False)]
        terms[1:1] = [_VERBS[table]] if table in _VERBS else []
        return " ".join(text for _, text in terms), tuple(iri for iri, _ in terms)  # type: ignore[return-value]
