"""The tables of a store with those of a change put in or taken out (ADR 46).

Ids are rows sorted by IRI: a name that comes or goes moves those behind it, but never past each other. So rows stay
sorted under their new ids, and a change is merged, not sorted in. A table that stays as it is is not in the result.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from functools import reduce
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from tarbox.core.ids import Role
from tarbox.kb.arrays import Flags, Ids, Keys, Places
from tarbox.kb.rows import contains, pair_keys
from tarbox.kb.store import INFERRED_TABLES, SCHEMAS, Store, numbers
from tarbox.kb.vocabulary import Names, one_array

Tables = Mapping[str, pa.Table]
Moves = Mapping[Role, Ids]
"""The new id of each name; -1 where it has none."""
FACT_ROLES: Final = {
    "assertions": (Role.ENTITY, Role.RELATION, Role.ENTITY),
    "typings": (Role.ENTITY, Role.CONCEPT),
    "subsumptions": (Role.CONCEPT, Role.CONCEPT),
}
TOLD_TABLES: Final = [name for name in SCHEMAS if name not in INFERRED_TABLES]
_ROLES: Final = sorted(Role, key=lambda role: role.value)
_Said = tuple[int, int, str]
"""The place of a role in `_ROLES`, an id, and what the name is called."""


def told_tables(store: Store) -> Tables:
    """The tables of what sources state; of a store that does not say which names they declare, all are."""
    tables = {name: store.table(name) for name in TOLD_TABLES}
    if "hash" not in store.manifest["files"]["entities"]:
        every = pa.array(np.arange(sum(len(tables[role.plural]) for role in Role)), pa.int32())
        tables["declared"] = pa.table([every], schema=SCHEMAS["declared"])
    return tables


def put_in(old: Tables, new: Tables) -> dict[str, pa.Table]:
    """Add all of `new`. What it calls its names is all that they are called, old ones too."""
    moves, ids, found = dict[Role, Ids](), dict[Role, Ids](), dict[str, pa.Table]()
    for role in Role:
        names, more = old[role.plural], new[role.plural]
        places, there = _find(role, old, one_array(more["iri"]).to_numpy(zero_copy_only=False))
        width = len(more) + 1  # an old name is the last at its place, and equals the new one there
        at = places * width + np.where(there, len(more), np.arange(len(more)))
        order, last, result = _merge(np.append(np.arange(len(names)) * width + len(more), at))
        moves[role], ids[role] = result[: len(names)], result[len(names) :]
        if not (there.all() and one_array(names["label"]).take(pa.array(places)).equals(one_array(more["label"]))):
            found[role.plural] = pa.concat_tables([names, more]).combine_chunks().take(pa.array(order[last]))
    sizes = {role: len(found.get(role.plural, old[role.plural])) for role in Role}
    rows: Ids = np.empty(0, np.int32)
    for table, roles in FACT_ROLES.items():
        columns = [
            np.append(a, b) for a, b in zip(fact_columns(old, table, moves), fact_columns(new, table, ids), strict=True)
        ]
        order, last, result = _merge(fact_keys(columns, roles, sizes))
        kept: list[NDArray[Any]] = [column[order[last]] for column in columns]
        if table == "assertions":
            rows, splits = result, np.append(*(numbers(tables[table], "split") for tables in (old, new)))
            kept.append(
                np.minimum.reduceat(splits[order], np.flatnonzero(np.append(True, last[:-1]))) if len(order) else splits
            )
        found |= _if_other(table, old[table], pa.table(kept, schema=SCHEMAS[table]))
    split, called = len(old["assertions"]), new["synonyms"]
    touched = by_role(old["synonyms"], {role: np.isin(moves[role], ids[role]) for role in Role})
    extra = called.set_column(1, called.field("id"), pa.array(by_role(called, ids), pa.int32()))
    said = [(int(rows[split + row["fact"]]), row["name"], row["value"]) for row in new["attributes"].to_pylist()]
    declared = {
        role: np.union1d(moves[role][own], ids[role][more])
        for (role, own), more in zip(declared_ids(old).items(), declared_ids(new).values(), strict=True)
    }
    found |= _synonyms(old["synonyms"], moves, touched, extra) | _attributes(old["attributes"], rows[:split], said)
    return found | _declare(old["declared"], declared, sizes)


def take_out(old: Tables, less: Tables, needed: Mapping[Role, Collection[str]]) -> dict[str, pa.Table]:
    """Take all of `less` away, and the names that then no fact has, nobody declares and `needed` has not."""
    ids, keeps, sizes = dict[Role, Ids](), dict[str, Flags](), {role: len(old[role.plural]) for role in Role}
    for role in Role:
        places, there = _find(role, old, one_array(less[role.plural]["iri"]).to_numpy(zero_copy_only=False))
        ids[role] = np.where(there, places, -1).astype(np.int32)
    for table, roles in FACT_ROLES.items():
        wanted = fact_columns(less, table, ids)
        known = np.logical_and.reduce([column >= 0 for column in wanted])
        gone = np.sort(fact_keys([column[known] for column in wanted], roles, sizes))
        keeps[table] = ~contains(gone, fact_keys(fact_columns(old, table), roles, sizes))
    declared, undeclared = declared_ids(old), declared_ids(less)
    declared = {role: np.setdiff1d(own, ids[role][undeclared[role]]) for role, own in declared.items()}
    stays = {role: np.isin(np.arange(sizes[role]), declared[role]) for role in Role}
    for table, roles in FACT_ROLES.items():
        for role, column in zip(roles, fact_columns(old, table), strict=True):
            stays[role][column[keeps[table]]] = True
    for role, names in needed.items():
        places, there = _find(role, old, np.array(sorted(names), object))
        stays[role][places[there]] = True
    moves = {role: _places(flags) for role, flags in stays.items()}
    left = {role: int(np.count_nonzero(flags)) for role, flags in stays.items()}
    found = _without(old, moves, keeps, _said(less, ids))
    return found | _declare(old["declared"], {role: moves[role][own] for role, own in declared.items()}, left)


def _without(old: Tables, moves: Moves, keeps: Mapping[str, Flags], said: set[_Said]) -> dict[str, pa.Table]:
    found = dict[str, pa.Table]()
    for place, role in enumerate(_ROLES):
        names, stays = old[role.plural], moves[role] >= 0
        rows = [id for where, id, text in said if where == place and names["label"][id].as_py() == text]
        if rows:
            unnamed = np.isin(np.arange(len(names)), rows)
            label = pc.if_else(pa.array(unnamed), pa.scalar(None, pa.string()), one_array(names["label"]))
            names = names.set_column(1, names.field("label"), label)
        if rows or not stays.all():
            found[role.plural] = names.filter(pa.array(stays))
    for table in FACT_ROLES:
        columns: list[NDArray[Any]] = [column[keeps[table]] for column in fact_columns(old, table, moves)]
        if table == "assertions":
            columns.append(numbers(old[table], "split")[keeps[table]])
        found |= _if_other(table, old[table], pa.table(columns, schema=SCHEMAS[table]))
    called = old["synonyms"]
    flags = {
        role: np.isin(np.arange(len(moves[role])), [i for w, i, _ in said if w == p]) for p, role in enumerate(_ROLES)
    }
    gone = by_role(called, flags)
    for row in np.flatnonzero(gone).tolist():
        role, id, text = (called[name][row].as_py() for name in called.column_names)
        gone[row] = (_ROLES.index(Role(role)), id, text) in said
    found |= _synonyms(called, moves, gone, called.slice(0, 0))
    return found | _attributes(old["attributes"], _places(keeps["assertions"]), [])


def declared_ids(tables: Tables) -> dict[Role, Ids]:
    """The ids of the declared names."""
    sizes = [len(tables[role.plural]) for role in Role]
    every = numbers(tables["declared"], "name")
    ends = np.searchsorted(every, np.cumsum([0, *sizes]).astype(np.int32))
    starts = np.cumsum([0, *sizes]).tolist()
    return {role: every[ends[i] : ends[i + 1]] - np.int32(starts[i]) for i, role in enumerate(Role)}


def _declare(table: pa.Table, declared: Moves, sizes: Mapping[Role, int]) -> dict[str, pa.Table]:
    starts = np.cumsum([0, *sizes.values()])
    every = np.concatenate([declared[role] + starts[i] for i, role in enumerate(Role)])
    return _if_other("declared", table, pa.table([pa.array(every, pa.int32())], schema=SCHEMAS["declared"]))


def _find(role: Role, tables: Tables, terms: NDArray[np.object_]) -> tuple[Places, Flags]:
    return Names(role, tables[role.plural]["iri"], tables[role.plural]["label"]).find_all(terms)


def fact_columns(tables: Tables, table: str, moves: Moves | None = None) -> list[Ids]:
    """The columns of ids of a table of facts, moved."""
    columns = [numbers(tables[table], name) for name in tables[table].column_names[: len(FACT_ROLES[table])]]
    return [
        column if moves is None else moves[role][column]
        for role, column in zip(FACT_ROLES[table], columns, strict=True)
    ]


def fact_keys(columns: Sequence[Ids], roles: Sequence[Role], sizes: Mapping[Role, int]) -> Keys:
    """Rows as numbers that sort as they do."""
    pairs = zip(columns[1:], roles[1:], strict=True)
    return reduce(lambda keys, pair: pair_keys(keys, pair[0], sizes[pair[1]]), pairs, columns[0].astype(np.int64))


def _merge(keys: Keys) -> tuple[Places, Flags, Ids]:
    """Their order; which of these is the last of its equals; and for each key its place among the different ones."""
    order = np.argsort(keys, kind="stable")  # in linear time: there are two runs
    ordered = keys[order]
    last = np.append(ordered[1:] != ordered[:-1], True)[: len(keys)]
    result = np.empty(len(keys), np.int32)
    result[order] = np.cumsum(last) - last
    return order, last, result


def _places(stays: Flags) -> Ids:
    """The new place of each row; -1 for those that do not stay."""
    return np.where(stays, np.cumsum(stays) - 1, -1).astype(np.int32)


def _if_other(name: str, old: pa.Table, table: pa.Table) -> dict[str, pa.Table]:
    return {} if table.equals(old) else {name: table}


def _role_places(synonyms: pa.Table) -> Places:
    places: Places = pc.index_in(synonyms["role"], pa.array([role.value for role in _ROLES])).to_numpy()
    return places


def by_role(synonyms: pa.Table, values: Mapping[Role, NDArray[Any]]) -> NDArray[Any]:
    """What each row's name has among the values."""
    roles, ids = _role_places(synonyms), synonyms["id"].to_numpy()
    found = np.zeros(len(ids), values[Role.ENTITY].dtype)
    for place, role in enumerate(_ROLES):
        found[roles == place] = values[role][ids[roles == place]]
    return found


def _synonyms(old: pa.Table, moves: Moves, gone: Flags, extra: pa.Table) -> dict[str, pa.Table]:
    ids = by_role(old, moves)
    moved = old.set_column(1, old.field("id"), pa.array(ids, pa.int32())).filter(pa.array(~gone & (ids >= 0)))
    both = pa.concat_tables([moved, extra]).combine_chunks()
    order = np.argsort(pair_keys(_role_places(both), both["id"].to_numpy(), 1 << 32), kind="stable")
    return _if_other("synonyms", old, both.take(pa.array(order)))


def _said(less: Tables, ids: Moves) -> set[_Said]:
    """All that the names of `less` are called there, by their old ids."""
    said = set[_Said]()
    for place, role in enumerate(_ROLES):
        labels = less[role.plural]["label"].to_pylist()
        said |= {(place, id, text) for id, text in zip(ids[role].tolist(), labels, strict=True) if text is not None}
    for row in less["synonyms"].to_pylist():
        said.add((_ROLES.index(Role(row["role"])), int(ids[Role(row["role"])][row["id"]]), row["text"]))
    return {each for each in said if each[1] >= 0}


def _attributes(old: pa.Table, rows: Ids, said: Sequence[tuple[int, str, str]]) -> dict[str, pa.Table]:
    """`rows` are the new places of the old assertions; what is `said` of new ones comes to what was said of them."""
    facts, schema = rows[numbers(old, "fact")], SCHEMAS["attributes"]
    if not said and np.array_equal(facts, numbers(old, "fact")):
        return {}
    texts = [one_array(old[name]).cast(pa.string()) for name in schema.names[1:]]
    touched = np.isin(facts, [fact for fact, _, _ in said])
    again = zip(facts[touched].tolist(), *(c.filter(pa.array(touched)).to_pylist() for c in texts), strict=True)
    more = list(zip(*sorted({*said, *again}), strict=True)) or [(), (), ()]
    stays = pa.array(~touched & (facts >= 0))
    plain = [pa.array(facts).filter(stays), *(c.filter(stays) for c in texts)]
    both = [pa.concat_arrays([a, pa.array(b, a.type)]) for a, b in zip(plain, more, strict=True)]
    order = pa.array(np.argsort(both[0].to_numpy(), kind="stable"))
    fact, *named = (column.take(order) for column in both)
    encoded = [fact, *(column.dictionary_encode() for column in named)]
    return _if_other("attributes", old, pa.table(encoded, schema=schema))
