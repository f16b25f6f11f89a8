"""The things of a knowledge base as Python collections, and its facts as tables with names."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Final, final

import numpy as np
import pyarrow as pa

from tarbox.core.ids import Role
from tarbox.execution.binding import VocabularyResolver
from tarbox.kb.facts import Facts, Ids
from tarbox.kb.terms import from_ntriples, is_literal, to_ntriples
from tarbox.kb.vocabulary import Names, Vocabulary
from tarbox.query.names import RDF_TYPE, SUBCLASS_OF, Name, NameForm
from tarbox.query.tokens import unquote_label
from tarbox.service.answers import require

if TYPE_CHECKING:
    import networkx as nx

_EDGES: Final = (
    ("assertions", "head", "tail", "", ""),
    ("typings", "entity", "concept", f"<{RDF_TYPE}>", "is a"),
    ("subsumptions", "sub", "super", f"<{SUBCLASS_OF}>", "is a kind of"),
)
CACHED: Final = 1 << 16
"""How many names are kept at hand; more are looked up again."""


@final
@dataclass(frozen=True, slots=True)
class Thing:
    """An entity, concept or relation: its id, its term in N-Triples form, and what a person reads."""

    role: Role
    id: int
    iri: str
    label: str


@final
class Things:
    """The things of one role, in the order of their ids; look-up by IRI, literal, local name, label or synonym."""

    def __init__(self, role: Role, vocabulary: Vocabulary, resolver: VocabularyResolver) -> None:
        self._role = role
        self._names: Names = vocabulary.names(role)
        self._resolver = resolver
        self._kept = lru_cache(CACHED)(self._make)

    def __len__(self) -> int:
        return len(self._names)

    def __iter__(self) -> Iterator[Thing]:
        return map(self.at, range(len(self)))

    def __getitem__(self, name: str) -> Thing:
        """The thing of this name; raises `UnknownName` or `AmbiguousName` with candidates."""
        return self.at(self.id(name))

    def __contains__(self, name: object) -> bool:
        """Whether anything has this name, be it one thing or several."""
        if not isinstance(name, str):
            return False
        return self._names.find(from_ntriples(name)) is not None or self._resolver.matches(self._role, name_of(name))

    def at(self, id: int) -> Thing:
        """The thing with this id."""
        return self._kept(id)

    def _make(self, id: int) -> Thing:
        return Thing(self._role, id, to_ntriples(self._names.iri(id)), self._names.show(id))

    def id(self, name: str) -> int:
        """The id of the thing of this name."""
        direct = self._names.find(from_ntriples(name))
        if direct is not None:
            return direct
        return self._resolver.find(self._role, name_of(name))

    def term(self, name: str) -> str:
        """The term of this name as queries have it; also of `owl:Thing`, which needs no row."""
        term = from_ntriples(name)
        return term if self._names.find(term) is not None else self._resolver.resolve(self._role, name_of(name))


def name_of(text: str) -> Name:
    """The name that a text outside a query writes: what a query could say, or a label without quotes."""
    if text.startswith("<") and text.endswith(">"):
        return Name(NameForm.IRI, text[1:-1])
    if is_literal(text):
        return Name(NameForm.LITERAL, text)
    if (label := unquote_label(text)) is not None:
        return Name(NameForm.LABEL, label)
    return Name(NameForm.LABEL if " " in text else NameForm.WORD, text)


def tables(facts: Facts) -> dict[str, pa.Table]:
    """Assertions, typings and subsumptions: of every id its term in N-Triples form, then of every id its label."""
    names = facts.vocabulary
    entities, concepts, relations = (
        [(to_ntriples(term), own.show(row)) for row, term in enumerate(own)] for own in map(names.names, Role)
    )
    return {
        "assertions": _table(
            head=(entities, facts.heads), relation=(relations, facts.relations), tail=(entities, facts.tails)
        ),
        "typings": _table(entity=(entities, facts.typed), concept=(concepts, facts.types)),
        "subsumptions": _table(sub=(concepts, facts.subs), super=(concepts, facts.supers)),
    }


def _table(**columns: tuple[list[tuple[str, str]], Ids]) -> pa.Table:
    """Of each column the terms, then of each the labels."""
    return pa.table(
        {
            name + suffix: pa.array([each[part] for each in names], pa.string()).take(pa.array(np.asarray(ids)))
            for part, suffix in enumerate(("", "_label"))
            for name, (names, ids) in columns.items()
        }
    )


def graph_of(facts: Facts) -> nx.MultiDiGraph:
    """The facts as a graph. Nodes are terms in N-Triples form, with a `label`, and `entity` or `concept` is true of
    them, or both; an edge has its relation's IRI as key, and a `label`: `is a` of typings, `is a kind of` of
    subsumptions."""
    require("networkx", "graphs need")
    import networkx as nx

    graph = nx.MultiDiGraph()
    for role in (Role.CONCEPT, Role.ENTITY):  # an entity's label stays where one IRI is both
        names = facts.vocabulary.names(role)
        for row, term in enumerate(names):
            graph.add_node(to_ntriples(term), **{"label": names.show(row), role.value: True})
    found = tables(facts)
    for table, head, tail, relation, label in _EDGES:
        for row in found[table].to_pylist():
            graph.add_edge(row[head], row[tail], row.get("relation", relation), label=row.get("relation_label", label))
    return graph
