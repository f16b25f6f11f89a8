"""The things of a knowledge base as Python collections, and its facts as tables with names."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Final, final

import numpy as np
import pyarrow as pa

from tarbox.core.errors import NameLookupError
from tarbox.core.ids import Role
from tarbox.execution.binding import VocabularyResolver
from tarbox.kb.facts import Facts, Ids
from tarbox.kb.terms import from_ntriples, is_literal, to_ntriples
from tarbox.kb.vocabulary import Names, Vocabulary
from tarbox.query.names import Name, NameForm

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
        try:
            return isinstance(name, str) and self.id(name) >= 0
        except NameLookupError:
            return False

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


def name_of(text: str) -> Name:
    """The name that a text outside a query writes: ``<iri>``, a literal, or a word or label without quotes."""
    if text.startswith("<") and text.endswith(">"):
        return Name(NameForm.IRI, text[1:-1])
    if is_literal(text):
        return Name(NameForm.LITERAL, text)
    return Name(NameForm.LABEL if " " in text else NameForm.WORD, text)


def tables(facts: Facts) -> dict[str, pa.Table]:
    """Assertions, typings and subsumptions, every id replaced by its term in N-Triples form."""
    names = facts.vocabulary
    entities, concepts, relations = (_terms(names.names(role)) for role in Role)
    return {
        "assertions": _table(
            head=(entities, facts.heads), relation=(relations, facts.relations), tail=(entities, facts.tails)
        ),
        "typings": _table(entity=(entities, facts.typed), concept=(concepts, facts.types)),
        "subsumptions": _table(sub=(concepts, facts.subs), super=(concepts, facts.supers)),
    }


def _terms(names: Names) -> pa.Array:
    return pa.array([to_ntriples(name) for name in names], pa.string())


def _table(**columns: tuple[pa.Array, Ids]) -> pa.Table:
    import pyarrow.compute as pc  # 0.1 s, and only tables need it

    return pa.table({name: pc.take(terms, pa.array(np.asarray(ids))) for name, (terms, ids) in columns.items()})
