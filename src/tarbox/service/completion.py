"""What a few letters may begin to name, over one role or all."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, final

from tarbox.core.ids import Role
from tarbox.kb.terms import from_ntriples, local_name
from tarbox.service.collections import Thing
from tarbox.service.knowledge_base import KnowledgeBase

_ORDER: Final = {Role.CONCEPT: 0, Role.RELATION: 1, Role.ENTITY: 2}


@final
@dataclass(frozen=True, slots=True)
class Completion:
    """A thing that may be meant; `name` is what a query can say."""

    name: str
    label: str
    iri: str
    role: Role


def complete(kb: KnowledgeBase, prefix: str, role: Role | None = None, limit: int = 10) -> list[Completion]:
    """Things that `prefix` may begin to name, best first; small typing errors are forgiven.

    Names that begin with it come first, then names with a word that does, then names that almost do; among equals
    the shorter name, then concepts, relations, entities.
    """
    sought = prefix.strip().strip("'\"<").rpartition(":")[2].casefold()
    things = {Role.ENTITY: kb.entities, Role.CONCEPT: kb.concepts, Role.RELATION: kb.relations}
    found = [thing for each in ([role] if role else Role) for thing in things[each].complete(sought, limit)]
    ranked = sorted(found, key=lambda thing: _rank(thing, sought))[:limit]
    return [
        Completion(kb.resolver.write(thing.role, from_ntriples(thing.iri)), thing.label, thing.iri, thing.role)
        for thing in ranked
    ]


def _rank(thing: Thing, sought: str) -> tuple[int, int, int]:
    """How well a thing fits, its length, its role; the sort is stable, so the look-up's own order decides the rest."""
    names = [thing.label.casefold(), local_name(from_ntriples(thing.iri)).casefold()]
    starts = [name for name in names if name.startswith(sought)]
    if starts:
        return 0, min(map(len, starts)), _ORDER[thing.role]
    inside = any(word.startswith(sought) for name in names for word in name.replace("_", " ").split())
    return (1, len(names[0]), _ORDER[thing.role]) if inside else (2, 0, _ORDER[thing.role])
