"""Everything about one entity, concept or relation, and the lists of concepts and of relations.

Lists are complete: a page has `limit` things from `offset` on, beside the count of all. What is used most comes first.
`name` is what a query can say, `iri` the term in N-Triples form.
"""

from __future__ import annotations

from abc import ABC
from dataclasses import dataclass, field
from typing import final

from tarbox.query.algebra import Direction


@dataclass(frozen=True, slots=True)
class NamedCard(ABC):
    """What all have."""

    iri: str
    label: str
    name: str


@final
@dataclass(frozen=True, slots=True)
class CardItem(NamedCard):
    """A thing in a list; `count` is how much it is used (`KnowledgeBase.use_counts`), at the ends of a relation how
    often."""

    count: int


@final
@dataclass(frozen=True, slots=True)
class FactValue(NamedCard):
    """What stands at the other end of a fact or typing, with its probability and its attributes."""

    degree: float = 1.0
    attributes: dict[str, tuple[str, ...]] = field(default_factory=dict)


@final
@dataclass(frozen=True, slots=True)
class FactGroup:
    """The facts of one entity with one relation, in one direction: `count` in all, some of the values."""

    relation: CardItem
    count: int
    values: tuple[FactValue, ...]


@final
@dataclass(frozen=True, slots=True)
class EntityCard(NamedCard):
    """An entity. `types` are its concepts, those of the fewest instances first. `predicted_outgoing` and
    `predicted_incoming` are what a run predicts, where that was asked for."""

    synonyms: tuple[str, ...]
    count: int
    type_count: int
    types: tuple[CardItem, ...]
    outgoing: tuple[FactGroup, ...]
    incoming: tuple[FactGroup, ...]
    predicted_outgoing: tuple[FactGroup, ...] = ()
    predicted_incoming: tuple[FactGroup, ...] = ()


@final
@dataclass(frozen=True, slots=True)
class ConceptLine(NamedCard):
    """A concept in a list: how many instances it has under closure, how many entities it describes (these, and those
    that annotation relations lead to one of them), and how many concepts are directly below it."""

    count: int
    described: int
    children: int


@final
@dataclass(frozen=True, slots=True)
class ConceptCard(NamedCard):
    """A concept with what stands around it in the hierarchy: the asserted `parents` and `children`, and `paths`, chains
    of super-concepts from a root down to it. `instances` is a page of `count`; `predicted` is what a run adds."""

    synonyms: tuple[str, ...]
    count: int
    described: int
    specificity: float
    parents: tuple[ConceptLine, ...]
    children: tuple[ConceptLine, ...]
    child_count: int
    paths: tuple[tuple[ConceptLine, ...], ...]
    equivalents: tuple[ConceptLine, ...]
    instances: tuple[CardItem, ...]
    predicted: tuple[FactValue, ...]


@final
@dataclass(frozen=True, slots=True)
class RelationLine(NamedCard):
    """A relation in a list: its facts, their distinct subjects and objects, and the concepts that most of these are
    in; a concept is left out where one below it has about as many. `direction` is how a concept's instances have it."""

    count: int
    subjects: int
    objects: int
    domain: tuple[CardItem, ...]
    range: tuple[CardItem, ...]
    direction: str = Direction.FORWARD.value


@final
@dataclass(frozen=True, slots=True)
class RelationFact:
    subject: CardItem
    object: FactValue


@final
@dataclass(frozen=True, slots=True)
class RelationCard:
    """A relation, and a page of its facts."""

    relation: RelationLine
    synonyms: tuple[str, ...]
    facts: tuple[RelationFact, ...]


@final
@dataclass(frozen=True, slots=True)
class ConceptList:
    total: int
    concepts: tuple[ConceptLine, ...]


@final
@dataclass(frozen=True, slots=True)
class RelationList:
    total: int
    relations: tuple[RelationLine, ...]
