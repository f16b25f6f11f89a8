"""A query as numbers: its shape, and one id per slot.

The id of an entity or concept is its row in the vocabulary; a relation slot stands for a relation with its direction,
`2 * relation + (1 if inverse else 0)`. Queries of one shape are thus a table of int32 with one column per slot. The
concept of all entities, which needs no row in the vocabulary, has the id `EVERYTHING`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np

from tarbox.core.errors import UnknownName
from tarbox.core.ids import Role
from tarbox.kb.arrays import Ids
from tarbox.kb.vocabulary import Vocabulary
from tarbox.query.algebra import Direction, Query, Slot, ground, lift, slots
from tarbox.query.names import ANYTHING, OWL_THING

EVERYTHING: Final = -1


def directed(relation: int, direction: Direction) -> int:
    """The id of a relation read in a direction."""
    return 2 * relation + (direction is Direction.INVERSE)


def undirected(directed_id: int) -> tuple[int, Direction]:
    """The inverse of `directed`."""
    return directed_id // 2, Direction.INVERSE if directed_id % 2 else Direction.FORWARD


def encode(query: Query, vocabulary: Vocabulary) -> tuple[Query, Ids]:
    """(shape, [slots] ids) of a query whose names are terms of the vocabulary.

    >>> from tarbox.query.algebra import Entity, Exists
    >>> vocabulary = Vocabulary.of(["a", "b"], relations=["p"])
    >>> encode(Exists("p", Direction.INVERSE, Entity("b")), vocabulary)[1]
    array([1, 1], dtype=int32)
    """
    shape, taken = lift(query)
    return shape, np.array([_slot_id(slot, vocabulary) for slot in taken], np.int32)


def decode(shape: Query, row: Ids | Sequence[int], vocabulary: Vocabulary) -> Query:
    """The query of a shape and one row of ids: the inverse of `encode`."""
    pairs = zip(slots(shape), row, strict=True)
    return ground(shape, [_filler(slot.role, int(number), vocabulary) for slot, number in pairs])


def means_everything(role: Role, term: str | None) -> bool:
    """Whether a term that the vocabulary lacks is the concept of all entities."""
    return role is Role.CONCEPT and term in (ANYTHING, OWL_THING)


def name_id(role: Role, name: str, vocabulary: Vocabulary) -> int:
    """The id of a name; `EVERYTHING` for the concept of all entities, and for owl:Thing where it has no row."""
    found = vocabulary.names(role).find(name)
    if found is not None:
        return found
    if means_everything(role, name):
        return EVERYTHING
    raise UnknownName(f"no {role.value} {name!r} in this knowledge base")


def _slot_id(slot: Slot, vocabulary: Vocabulary) -> int:
    found = name_id(slot.role, slot.name, vocabulary)
    return found if slot.direction is None else directed(found, slot.direction)


def _filler(role: Role, id: int, vocabulary: Vocabulary) -> Slot:
    if role is Role.CONCEPT and id == EVERYTHING:
        return Slot(role, ANYTHING)
    if role is not Role.RELATION:
        return Slot(role, vocabulary.names(role).iri(id))
    relation, direction = undirected(id)
    return Slot(role, vocabulary.relations.iri(relation), direction)
