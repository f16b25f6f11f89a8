"""Queries as Python writes them: `kb.Person & kb.worksAt.some(kb.University)` is the tree of the same text.

A name means what it means in a text at that place: before `some` and the like a relation, in `value` an entity,
elsewhere a concept, or an entity where no concept has the name. A chain of `&`, or of `|`, makes one node; parentheses
that Python needs make nodes of their own, as in Manchester syntax.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass, replace
from keyword import iskeyword
from typing import TYPE_CHECKING, Final, TypeAlias, final

from tarbox.core.errors import QueryError, UnknownAttribute, UnknownName
from tarbox.core.ids import Role
from tarbox.query.algebra import And, Concept, Direction, Entity, HasSelf, Not, Or, Query
from tarbox.query.names import ANYTHING
from tarbox.query.restrictions import restrict
from tarbox.service.answers import EntityAnswer
from tarbox.service.collections import Thing
from tarbox.service.notebook_views import query_view

if TYPE_CHECKING:
    from tarbox.service.knowledge_base import KnowledgeBase

COMPLETED: Final = 2_000
"""The most names of each role that Tab completes: those used most."""
_ROLES: Final = (Role.CONCEPT, Role.RELATION, Role.ENTITY)
_EVERYTHING: Final = Concept(ANYTHING)


class QueryObject(ABC):
    """A query over one knowledge base, to combine with others, to answer, and to look at in a notebook."""

    kb: KnowledgeBase
    _chain: type[And | Or] | None = None

    @property
    @abstractmethod
    def tree(self) -> Query:
        """The query as data (`tarbox.query.algebra`)."""

    @final
    def __and__(self, other: QueryLike) -> QueryExpression:
        return self._join(And, other)

    @final
    def __or__(self, other: QueryLike) -> QueryExpression:
        return self._join(Or, other)

    @final
    def __invert__(self) -> QueryExpression:
        return QueryExpression(self.kb, Not(self.tree))

    @final
    def __bool__(self) -> bool:
        raise QueryError("a query is neither true nor false: join queries by & and |, and negate one by ~")

    def _join(self, kind: type[And | Or], other: QueryLike) -> QueryExpression:
        tree = self.tree
        before = tree.operands if isinstance(tree, And | Or) and self._chain is kind else (tree,)
        return QueryExpression(self.kb, kind((*before, tree_of(self.kb, other))), kind)


QueryLike: TypeAlias = str | Query | QueryObject
"""What can be asked: a text in Manchester syntax, a tree, or what Python has built."""


@final
@dataclass(frozen=True, repr=False)
class QueryExpression(QueryObject):
    """A query that is built."""

    kb: KnowledgeBase
    built: Query
    _chain: type[And | Or] | None = None

    @property
    def tree(self) -> Query:
        return self.built

    def __repr__(self) -> str:
        return self.kb.render(self.built)

    def _repr_html_(self) -> str:
        return query_view(self.kb, self.built)


@final
@dataclass(frozen=True, repr=False)
class QueryName(QueryObject):
    """A name of a knowledge base: a concept or an entity, or a relation that a restriction makes a query of.

    `kb.investigates.inverse.value(kb.GeoffreyHinton)` is ``inverse investigates value GeoffreyHinton``.
    """

    kb: KnowledgeBase
    name: str
    direction: Direction = Direction.FORWARD

    @property
    def tree(self) -> Query:
        if self.direction is Direction.INVERSE:
            raise QueryError(f"the inverse of {self.name!r} is a relation: go on with .some(...) or .value(...)")
        if self.name in self.kb.entities and self.name not in self.kb.concepts:
            return Entity(self.kb.entities.term(self.name))
        return Concept(self.kb.concepts.term(self.name))

    def __repr__(self) -> str:
        return f"inverse {self.name}" if self.direction is Direction.INVERSE else self.name

    @property
    def inverse(self) -> QueryName:
        return replace(self, direction=self.direction.opposite)

    def some(self, operand: QueryLike = _EVERYTHING) -> QueryExpression:
        """What the relation leads from to a member of the operand."""
        return self._restrict("some", operand)

    def only(self, operand: QueryLike) -> QueryExpression:
        """What the relation leads from to members of the operand alone, or to nothing."""
        return self._restrict("only", operand)

    def min(self, count: int, operand: QueryLike = _EVERYTHING) -> QueryExpression:
        return self._restrict("min", operand, count)

    def max(self, count: int, operand: QueryLike = _EVERYTHING) -> QueryExpression:
        return self._restrict("max", operand, count)

    def exactly(self, count: int, operand: QueryLike = _EVERYTHING) -> QueryExpression:
        return self._restrict("exactly", operand, count)

    def value(self, entity: QueryName | Thing | EntityAnswer | str | float) -> QueryExpression:
        """What the relation leads from to one entity: its name, an answer, or a literal's value."""
        match entity:
            case QueryName():
                name = entity.name
            case Thing() | EntityAnswer():
                name = entity.iri
            case _:
                name = str(entity).lower() if isinstance(entity, bool) else str(entity)
        return self._restrict("some", Entity(self.kb.entities.term(name)))

    def itself(self) -> QueryExpression:
        """What the relation leads from to itself: ``relation Self``."""
        return QueryExpression(self.kb, HasSelf(self.kb.relations.term(self.name)))

    def _restrict(self, word: str, operand: QueryLike, count: int = 0) -> QueryExpression:
        if count < 0:
            raise QueryError(f"{word}({count}, ...): the number must be 0 or more")
        relation = self.kb.relations.term(self.name)
        return QueryExpression(self.kb, restrict(word, relation, self.direction, tree_of(self.kb, operand), count))


class QueryBuilder(ABC):
    """Names, as attributes and between brackets, to build queries of; what is an attribute already stays that."""

    @property
    @abstractmethod
    def kb(self) -> KnowledgeBase:
        """Where names are looked up."""

    def query(self, asked: QueryLike) -> QueryExpression:
        """What is asked, to look at and to build on: `kb.query("Person") & kb.worksAt.some()`."""
        return QueryExpression(self.kb, tree_of(self.kb, asked))

    def __getitem__(self, name: str) -> QueryName:
        """The name of an entity, concept or relation (an IRI, a local name, a label or a synonym), to build queries of.
        Raises `UnknownName`."""
        if any(name in self.kb.things(role) for role in _ROLES):
            return QueryName(self.kb, name)
        near = [each.name for each in self.kb.search(name, 3)]
        question = f". Did you mean {' or '.join(map(_quoted, near))}?" if near else ""
        raise UnknownName(f"no entity, concept or relation '{name}' in {self.kb.title}{question}", near)

    if not TYPE_CHECKING:  # to a type checker a misspelled attribute stays a mistake

        def __getattr__(self, name: str) -> QueryName:
            """What is no attribute is a name: `kb.Person` is `kb["Person"]`."""
            if hasattr(type(self), name):  # its own work has failed: say how
                return object.__getattribute__(self, name)
            if name.startswith("_") or "resolver" not in vars(self):
                raise AttributeError(f"KnowledgeBase has no attribute {name!r}")
            try:
                return self[name]
            except UnknownName as error:
                raise UnknownAttribute(str(error), error.candidates) from None

    def __dir__(self) -> list[str]:
        """With the names that can stand after a dot; Tab completes them."""
        return [*super().__dir__(), *(name for name in self._often() if name.isidentifier() and not iskeyword(name))]

    def _ipython_key_completions_(self) -> list[str]:
        return list(self._often())

    def _often(self) -> Iterator[str]:
        """The names used most."""
        return (each.name.strip("'") for role in _ROLES for each in self.kb.search("", COMPLETED, role))


def tree_of(kb: KnowledgeBase, asked: QueryLike) -> Query:
    """The query as data."""
    if isinstance(asked, str):
        return kb.parse(asked)
    if isinstance(asked, QueryObject):
        return asked.tree
    if not isinstance(asked, Query):
        raise QueryError(f"{asked!r} is no query: give a text, kb.Name or kb['any name'], or what is built of these")
    return asked


def _quoted(name: str) -> str:
    return name if name.startswith("'") else f"'{name}'"
