"""Everything about one concept: its place in the hierarchy, how much it tells, its members."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final, final

import numpy as np

from tarbox.core.ids import Role
from tarbox.kb.closure import Hierarchy
from tarbox.kb.terms import from_ntriples
from tarbox.service.answering import Answerer
from tarbox.service.answers import EntityAnswer
from tarbox.service.knowledge_base import KnowledgeBase

MEMBERS: Final = 20
PATHS: Final = 5
LISTED: Final = 100
_LONGEST: Final = 50


@final
@dataclass(frozen=True, slots=True)
class ConceptLine:
    """A concept in a list; `name` is what a query can say, `instances` how many entities it has under closure."""

    iri: str
    label: str
    name: str
    instances: int


@final
@dataclass(frozen=True, slots=True)
class ConceptPage:
    """A concept with what stands around it in the hierarchy.

    `paths` are chains of super-concepts from a root down to the concept itself, the shortest first, at most `PATHS`.
    `parents` and `children` are the asserted ones, at most `LISTED`, the largest first; `child_count` counts them all.
    """

    concept: ConceptLine
    specificity: float
    parents: tuple[ConceptLine, ...]
    children: tuple[ConceptLine, ...]
    child_count: int
    paths: tuple[tuple[ConceptLine, ...], ...]
    equivalents: tuple[ConceptLine, ...]
    members: tuple[EntityAnswer, ...]


def concept_page(answerer: Answerer, name: str) -> ConceptPage:
    """The page of the concept of this name or IRI. Raises `UnknownName` or `AmbiguousName`."""
    kb = answerer.kb
    concept = kb.concepts.id(name)
    described = kb.index.descriptions
    tree = described.hierarchy
    below, above = tree.parents.coordinates()
    children = below[above == concept]
    sizes = described.entities_of.sizes()
    shown = children[np.argsort(-sizes[children], kind="stable")][:LISTED]
    alike = [int(row) for row in tree.equivalents(concept) if row != concept]
    thing = kb.concepts.at(concept)
    return ConceptPage(
        concept_line(kb, concept),
        float(described.specificity()[concept]),
        _lines(kb, [row for row in tree.parents[concept].tolist() if row != concept][:LISTED]),
        _lines(kb, [row for row in shown.tolist() if row != concept]),
        int(np.count_nonzero(children != concept)),
        tuple(_lines(kb, path) for path in paths_to(concept, tree)),
        _lines(kb, alike),
        tuple(answerer.members(thing.iri, MEMBERS)),
    )


def concept_line(kb: KnowledgeBase, concept: int) -> ConceptLine:
    """One concept as lists show it."""
    thing = kb.concepts.at(concept)
    count = len(kb.index.instances.entities_of[concept])
    return ConceptLine(thing.iri, thing.label, kb.resolver.write(Role.CONCEPT, from_ntriples(thing.iri)), count)


def paths_to(concept: int, tree: Hierarchy, most: int = PATHS) -> list[list[int]]:
    """Chains from a concept without super-concepts down to this one, shortest first.

    Equivalent concepts (a cycle of subsumptions) count as one.
    """
    found: list[list[int]] = []
    waiting: deque[list[int]] = deque([[concept]])
    seen = 0
    while waiting and len(found) < most and seen < 1_000:
        path = waiting.popleft()
        seen += 1
        groups = {int(tree.group[row]) for row in path}
        above = [row for row in _supers(path[0], tree) if int(tree.group[row]) not in groups]
        if not above or len(path) >= _LONGEST:
            found.append(path)
        waiting.extend([row, *path] for row in above)
    return found


def _supers(concept: int, tree: Hierarchy) -> list[int]:
    """The asserted super-concepts of a concept, and of its equivalents where it has some."""
    own: list[int] = tree.parents[concept].tolist()
    if not any(tree.group[row] == tree.group[concept] for row in own):
        return own
    return [row for alike in tree.equivalents(concept).tolist() for row in tree.parents[alike].tolist()]


def _lines(kb: KnowledgeBase, rows: Iterable[int]) -> tuple[ConceptLine, ...]:
    return tuple(concept_line(kb, row) for row in rows)
