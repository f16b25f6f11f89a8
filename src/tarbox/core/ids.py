"""Ids are rows of the vocabulary's tables, sorted by IRI; each kind of thing counts from zero."""

from __future__ import annotations

from enum import Enum
from typing import NewType

EntityId = NewType("EntityId", int)
ConceptId = NewType("ConceptId", int)
RelationId = NewType("RelationId", int)


class Role(Enum):
    """What a name is used as. One IRI may have several roles (punning)."""

    ENTITY = "entity"
    CONCEPT = "concept"
    RELATION = "relation"

    __hash__ = object.__hash__  # members are single: identity will do, and enum's own hash is slow Python

    @property
    def plural(self) -> str:
        return {"entity": "entities", "concept": "concepts", "relation": "relations"}[self.value]

    @property
    def with_article(self) -> str:
        return f"{'an' if self is Role.ENTITY else 'a'} {self.value}"


class Level(Enum):
    """Which kind of answer is ranked."""

    ENTITY = "entity"
    CONCEPT = "concept"

    @property
    def role(self) -> Role:
        """What its answers are."""
        return Role(self.value)
