"""What a text may name: entities, concepts and relations together."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, final

from tarbox.core.ids import Role
from tarbox.execution.name_search import NameFit, NameMatch
from tarbox.kb.terms import from_ntriples
from tarbox.service.knowledge_base import KnowledgeBase

_ORDER: Final = {Role.CONCEPT: 0, Role.RELATION: 1, Role.ENTITY: 2}


@final
@dataclass(frozen=True, slots=True)
class SearchResult:
    """A thing that may be meant.

    `name` is what a query can say, `matched` the name that fits the text: a label, a local name, a synonym. `count`
    is how much the thing is used (`KnowledgeBase.use_counts`).
    """

    iri: str
    label: str
    name: str
    role: Role
    count: int
    matched: str


def search(kb: KnowledgeBase, text: str, limit: int = 20, role: Role | None = None) -> list[SearchResult]:
    """Things that `text` may name, the best first: by how a name fits (`NameFit`), labels before other names, then by
    use, then concepts, relations, entities. An IRI finds what it names; a prefix need not be a part of the name; where
    nothing fits, misspelled words are corrected."""
    roles, bare = [role] if role else list(Role), text.rpartition(":")[2]
    found = (
        _direct(kb, text, roles)
        or _named(kb, dict.fromkeys(roles, text), limit)
        or _named(kb, dict.fromkeys(roles, bare), limit)
        or _named(kb, _corrected(kb, bare, roles), limit)
    )

    def rank(found: tuple[Role, NameMatch]) -> tuple[int, ...]:
        role, match = found
        return match.fit, match.source, -int(kb.use_counts[role][match.id]), _ORDER[role]

    return [_result(kb, *each) for each in sorted(found, key=rank)[:limit]]


def _direct(kb: KnowledgeBase, text: str, roles: list[Role]) -> list[tuple[Role, NameMatch]]:
    """What is written in full."""
    term = from_ntriples(text.strip())
    found = [(role, kb.facts.vocabulary.names(role).find(term)) for role in roles]
    return [(role, NameMatch(row, term, NameFit.EXACT)) for role, row in found if row is not None]


def _named(kb: KnowledgeBase, texts: dict[Role, str], limit: int) -> list[tuple[Role, NameMatch]]:
    return [
        (role, match)
        for role, text in texts.items()
        for match in kb.resolver.lookup(role).index.search(text, limit, kb.use_counts[role])
    ]


def _corrected(kb: KnowledgeBase, text: str, roles: list[Role]) -> dict[Role, str]:
    """The text with its spelling corrected, by the roles where that takes the fewest edits."""
    found = {role: kb.resolver.lookup(role).index.correct(text) for role in roles}
    edits = {role: each for role, each in found.items() if each is not None}
    least = min((each[0] for each in edits.values()), default=0)
    return {role: corrected for role, (number, corrected) in edits.items() if number == least}


def _result(kb: KnowledgeBase, role: Role, match: NameMatch) -> SearchResult:
    thing = kb.things(role).at(match.id)
    name = kb.naming.write(role, from_ntriples(thing.iri))
    return SearchResult(thing.iri, thing.label, name, role, int(kb.use_counts[role][match.id]), match.name)
