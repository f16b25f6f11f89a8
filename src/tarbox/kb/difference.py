"""What one store states that another does not: names, labels, facts, what is said of facts, axioms."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import chain
from typing import final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tarbox.core.ids import Role
from tarbox.kb.arrays import Flags, Ids, Places
from tarbox.kb.axioms import Axiom, write_axiom
from tarbox.kb.export import restrict_names, state_axioms, state_facts, state_names, written
from tarbox.kb.owl_statements import StatementMaker
from tarbox.kb.rows import contains
from tarbox.kb.store import Store, numbers
from tarbox.kb.table_changes import FACT_ROLES, Tables, by_role, fact_columns, fact_keys, told_tables
from tarbox.kb.terms import local_name, to_ntriples
from tarbox.kb.vocabulary import one_array


@final
@dataclass(frozen=True, slots=True)
class Surplus:
    """What one store states and another does not: marks on the rows of its tables and on its labels, and axioms."""

    store: Store
    marks: Mapping[str, Flags]
    annotations: tuple[str, ...] = ()
    axioms: tuple[Axiom, ...] = ()

    def counts(self) -> dict[str, int]:
        """How many of each kind."""
        return {kind: int(np.count_nonzero(flags)) for kind, flags in self.marks.items()} | {
            "annotation relations": len(self.annotations),
            "axioms": len(self.axioms),
        }

    def lines(self) -> Iterator[tuple[str, str]]:
        """Each statement for a person, and in N-Triples; of attributes of facts there are none."""
        facts, marks = self.store.facts.asserted(), self.marks
        part = facts.with_assertions(marks["assertions"]).with_typings(marks["typings"])
        part = restrict_names(
            part.with_subsumptions(marks["subsumptions"]), _by_names(marks, "labels of "), marks["synonyms"]
        )
        relations = facts.vocabulary.relations
        part = replace(
            part, annotations=tuple(row for row in facts.annotations if relations.iri(row) in self.annotations)
        )
        declared = {role: np.flatnonzero(flags) for role, flags in _by_names(marks).items()}
        names = {role: written(facts.vocabulary.names(role)) for role in Role}
        shown = {role: pc.coalesce(one_array(facts.vocabulary.names(role).labels), names[role]) for role in Role}
        stated = (
            chain(state_names(part, names, write, declared), state_facts(part, names, write))
            for names, write in ((shown, local_name), (names, to_ntriples))
        )
        for for_person, for_computer in zip(*stated, strict=True):
            said = (pc.binary_join_element_wise(*columns, " ") for columns in (for_person, (*for_computer, ".")))
            yield from zip(*(lines.to_pylist() for lines in said), strict=True)
        maker = StatementMaker()
        for axiom in self.axioms:
            triples = (" ".join([*map(to_ntriples, statement), "."]) for statement in state_axioms([axiom], maker))
            yield write_axiom(axiom), "\n".join(triples)


def compare_stores(first: Store, second: Store) -> tuple[Surplus, Surplus]:
    """What was removed from the first store to make the second, and what was added; nothing that is inferred."""
    tables = [told_tables(store) for store in (first, second)]
    return _surplus(first, second, *tables), _surplus(second, first, *reversed(tables))


def _surplus(mine: Store, theirs: Store, ours: Tables, others: Tables) -> Surplus:
    annotations = dict.fromkeys(mine.manifest.get("annotations", ()))
    for iri in theirs.manifest.get("annotations", ()):
        annotations.pop(iri, None)
    known = set(theirs.axioms())
    axioms = tuple(axiom for axiom in mine.axioms() if axiom not in known)
    return Surplus(mine, _marks(ours, others), tuple(annotations), axioms)


def _marks(mine: Tables, theirs: Tables) -> dict[str, Flags]:
    """[rows] for each table what the other store has not, and for each table of names whose label it has not."""
    marks, ids = dict[str, Flags](), dict[Role, Ids]()
    for role in Role:
        names, others = mine[role.plural], theirs[role.plural]
        found = pc.index_in(one_array(names["iri"]), one_array(others["iri"]))
        ids[role] = pc.fill_null(found, -1).to_numpy()
        marks[role.plural] = ids[role] < 0
        label, there = one_array(names["label"]), one_array(others["label"]).take(found)
        other = pc.and_(pc.is_valid(label), pc.fill_null(pc.not_equal(label, there), True))
        marks[f"labels of {role.plural}"] = np.asarray(other)
    sizes = {role: len(theirs[role.plural]) for role in Role}
    places: Places = np.empty(0, np.int64)
    for table, roles in FACT_ROLES.items():
        columns, keys = fact_columns(mine, table, ids), fact_keys(fact_columns(theirs, table), roles, sizes)
        own = fact_keys(columns, roles, sizes)
        known = np.logical_and.reduce([column >= 0 for column in columns]) & contains(keys, own)
        marks[table] = ~known
        if table == "assertions":
            places = np.where(known, np.searchsorted(keys, own), -1)
    moved = {"synonyms": by_role(mine["synonyms"], ids), "attributes": places[numbers(mine["attributes"], "fact")]}
    return marks | {table: _missing(mine[table], column, theirs[table]) for table, column in moved.items()}


def _missing(mine: pa.Table, ids: Ids, theirs: pa.Table) -> Flags:
    """The rows that the other table has not, where `ids` are its numbers for the column of numbers."""
    ours = [pa.array(ids) if pa.types.is_integer(field.type) else mine[field.name] for field in mine.schema]
    texts = ([one_array(column).cast(pa.string()) for column in table] for table in (ours, theirs.columns))
    return ~np.asarray(pc.is_in(*(pc.binary_join_element_wise(*columns, "\t") for columns in texts)))


def _by_names(marks: Mapping[str, Flags], what: str = "") -> dict[Role, Flags]:
    return {role: marks[what + role.plural] for role in Role}
