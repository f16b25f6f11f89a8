"""The tables between the sources and a store, as data: their columns with their types in SQL, and their keys.

A term is known by an id: 61 bits or more of its hash, and in the last two bits what kind of term it is. So everything
but the sorting of names runs on integers. Types are words that DuckDB and Spark share.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, final

_ID: Final = "BIGINT"
_TEXT: Final = "STRING"
_CODE: Final = "TINYINT"
_ROW: Final = "INT"


@final
@dataclass(frozen=True, slots=True)
class PreparedTable:
    """No two rows have the same `key`; without one, rows may be there twice."""

    columns: Mapping[str, str]
    key: tuple[str, ...] = ()


_TRIPLE: Final = {"s": _ID, "p": _ID, "o": _ID}
_SPO: Final = ("s", "p", "o")
_WORD: Final = {"id": _ID, "word": _TEXT}
_NAMES: Final = PreparedTable({"id": _ID}, ("id",))
_EDGES: Final = PreparedTable({"role": _ROW, "x": _ROW, "y": _ROW}, ("role", "x", "y"))
_MEMBERS: Final = PreparedTable({"x": _ROW, "concept": _ROW}, ("x", "concept"))
_ASSERTIONS: Final = PreparedTable({"head": _ROW, "relation": _ROW, "tail": _ROW}, ("head", "relation", "tail"))
_TYPINGS: Final = PreparedTable({"entity": _ROW, "concept": _ROW}, ("entity", "concept"))
_ABOVE: Final = PreparedTable({"concept": _ROW, "above": _ROW}, ("concept", "above"))
_ROWS: Final = PreparedTable({"id": _ID, "iri": _TEXT, "label": _TEXT, "row": _ROW}, ("id",))

PREPARED_TABLES: Final[Mapping[str, PreparedTable]] = {
    # as read
    "statement": PreparedTable({**_TRIPLE, "split": _CODE}),
    "term": PreparedTable({"id": _ID, "text": _TEXT}),
    "attribute": PreparedTable({**_TRIPLE, "name": _TEXT, "value": _TEXT}),
    "context": PreparedTable(_TRIPLE, _SPO),  # statements that no source makes
    "stated": PreparedTable({"id": _ID, "role": _TEXT}, ("id", "role")),  # what the sources declare for no other reason
    "name": PreparedTable({"id": _ID, "text": _TEXT}, ("id",)),
    # what they mean
    "meaning": PreparedTable(_WORD, ("id",)),  # of predicates, by their IRIs alone
    "class": PreparedTable(_WORD, ("id",)),
    "declared": PreparedTable(_WORD, ("id", "word")),
    "predicate": PreparedTable(_WORD, ("id",)),
    "obsolete": _NAMES,
    "fact": PreparedTable({**_TRIPLE, "split": _CODE, "verdict": _CODE}, (*_SPO, "verdict")),
    "member": PreparedTable({"id": _ID, "root": _ID}, ("id",)),
    "merged": PreparedTable({"id": _ID, "kept": _ID}, ("id",)),
    "reified": PreparedTable({"s": _ID}, ("s",)),
    "found": PreparedTable({"text": _TEXT}),
    "axiom": PreparedTable({"text": _TEXT}, ("text",)),
    "used": PreparedTable(_TRIPLE),
    "used_name": PreparedTable({"word": _TEXT, "text": _TEXT}),
    "entity": _NAMES,
    "concept": _NAMES,
    "relation": _NAMES,
    "weak": _NAMES,
    # what names are called
    "called": PreparedTable(
        {"id": _ID, "p": _ID, "o": _ID, "value": _TEXT, "language": _TEXT, "rank": _CODE, "is_label": "BOOLEAN"}
    ),
    "chosen": PreparedTable({"id": _ID, "label": _TEXT}, ("id",)),
    "revised": PreparedTable(
        {**_TRIPLE, "verdict": _CODE}, _SPO
    ),  # the verdicts on parts of axioms and on useless labels
    "said": PreparedTable({"id": _ID, "value": _TEXT}),
    # what annotation relations add
    "link": PreparedTable(_TRIPLE, _SPO),
    "added": PreparedTable({**_TRIPLE, "split": _CODE, "verdict": _CODE}, _SPO),
    # encoded: the row is the id of the store
    "entity_row": _ROWS,
    "concept_row": _ROWS,
    "relation_row": _ROWS,
    "assertion_row": PreparedTable(
        {"head": _ROW, "relation": _ROW, "tail": _ROW, "split": _CODE, "row": _ROW}, ("head", "relation", "tail")
    ),
    # what follows, by numbers of the store: individuals, concepts and relations beyond it come after its own
    "assertion": _ASSERTIONS,
    "typing": _TYPINGS,
    "rule": PreparedTable({"form": _TEXT, "a": _ROW, "b": _ROW, "c": _ROW, "axiom": _ROW}),
    "role_above": PreparedTable({"role": _ROW, "above": _ROW, "is_back": "BOOLEAN"}),
    "asked": _ABOVE,
    "told": _ABOVE,
    "edge": _EDGES,
    "new_edge": _EDGES,
    "next_edge": _EDGES,
    "membership": _MEMBERS,
    "new_membership": _MEMBERS,
    "next_membership": _MEMBERS,
    "same_as": PreparedTable({"x": _ROW, "root": _ROW}, ("x",)),  # of those alike, also who stands for them
    "concept_above": PreparedTable(
        {"concept": _ROW, "above": _ROW, "is_strict": "BOOLEAN"}, ("concept", "above")
    ),  # of the concepts of the store
    "concept_group": PreparedTable({"concept": _ROW, "root": _ROW}, ("concept",)),
    "known_typing": _TYPINGS,
    "fresh_typing": _TYPINGS,
    "inferred_assertion": _ASSERTIONS,
    "inferred_typing": _TYPINGS,
    "description": PreparedTable({"entity": _ROW, "concept": _ROW}),
}
