"""The best short class expressions for a set of entities, by beam search over exact answers.

Parts are found from the members alone: their concepts, and what their links lead to, as `r some C`, `r some owl:Thing`
and `r value e`. Conjunctions of parts are tried level by level from the best ones on. What counts is the
hypergeometric test (`tarbox.service.enrichment`) against a population of entities; a part more must be worth more than
the choice among all parts.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final, final

import numpy as np

from tarbox.execution.exact import answer_rows
from tarbox.execution.graph import Index
from tarbox.execution.rows import EVERYTHING, decode
from tarbox.kb.arrays import Flags, Ids, Places
from tarbox.kb.rows import ranges
from tarbox.query.algebra import Concept, Direction, Entity, Exists, Query, conjunction, lift, operands
from tarbox.query.rewrites import canonical
from tarbox.service.answers import Expression
from tarbox.service.enrichment import upper_tail
from tarbox.service.knowledge_base import KnowledgeBase
from tarbox.service.set_descriptions import own_background

MOST_PARTS: Final = 3
"""The most parts of a conjunction."""
_TRIED: Final = 400
"""The most parts of each kind whose answers are looked up."""
_JOINED: Final = 60
_BEAM: Final = 30
_NEIGHBOURS: Final = 100
"""Of one entity by one relation: so many are looked at."""
_SHAPES: Final = tuple(
    lift(query)[0]
    for query in (
        Concept("c"),
        Exists("r", Direction.FORWARD, Concept("c")),
        Exists("r", Direction.FORWARD, Entity("e")),
    )
)


@final
@dataclass(frozen=True, slots=True, eq=False)
class FoundExpression:
    """Parts whose conjunction has the entities `extension`, `inside` of them in the set."""

    parts: tuple[Query, ...]
    extension: Ids
    inside: int
    p_value: float
    price: float
    """The p-value times the number of choices for every part beyond the first."""

    @property
    def query(self) -> Query:
        return conjunction(self.parts)

    def rank(self, members: int) -> tuple[Any, ...]:
        overlap = self.inside / (len(self.extension) + members - self.inside)
        return self.price, -overlap, len(self.parts), repr(self.parts)


def express(kb: KnowledgeBase, members: Ids, without: Query | None, background: Ids | None) -> list[Expression]:
    """The best expressions for a set, as people read them: see `KnowledgeBase.express`."""
    index = kb.index
    if background is None:
        own, kinds = own_background(index, members)
        background = own if kinds else None
    most = np.log2(max(index.entities, 2))
    return [
        Expression(
            kb.render(each.query),
            kb.describe(each.query),
            len(each.extension),
            each.inside / max(len(members), 1),
            float(np.log2(index.entities / len(each.extension)) / most),
            each.p_value,
        )
        for each in search_expressions(index, members, [] if without is None else [without], background)
    ]


def search_expressions(
    index: Index, members: Ids, without: Iterable[Query] = (), background: Ids | None = None
) -> list[FoundExpression]:
    """The best expressions for a set of entities (increasing ids), the best first; single concepts are left out, and
    parts of the queries `without`. The members are drawn from the background, or from all entities."""
    population = np.ones(index.entities, np.bool_)
    if background is not None:
        population = np.isin(np.arange(index.entities), background)
        members = members[population[members]]
    search = _Search(index, members, population)
    banned = {canonical(part) for query in without for part in (query, *operands(query))}
    parts = [found for found in search.parts() if canonical(found.query) not in banned]
    joined = parts[:_JOINED]
    found, beam = {frozenset(part.parts): part for part in parts}, parts[:_BEAM]
    for _ in range(MOST_PARTS - 1):
        beam = search.join(beam, joined)[:_BEAM]
        found |= {frozenset(part.parts): part for part in beam}
    kept = [part for part in found.values() if not isinstance(part.query, Concept) and _is_worth(part, found)]
    return sorted(kept, key=lambda part: part.rank(len(members)))


def _is_worth(part: FoundExpression, found: Mapping[frozenset[Query], FoundExpression]) -> bool:
    """Whether it is no chance, and better than it is without any one of its parts."""
    shorter = (found.get(frozenset(part.parts) - {one}) for one in part.parts)
    return part.price < 1 and all(part.price < other.price for other in shorter if other is not None)


@final
class _Search:
    def __init__(self, index: Index, members: Ids, population: Flags) -> None:
        self._index, self._members, self._population = index, members, population
        self._least = max(min(2, len(members)), len(members) // 10)
        self._own = np.zeros(index.entities, np.bool_)
        self._own[members] = True
        self._choices = 1

    def parts(self) -> list[FoundExpression]:
        """Single parts, the best first; of those with the same entities the plainest."""
        made: list[tuple[tuple[Query, ...], Ids]] = []
        for shape, ids in zip(_SHAPES, self._candidates(), strict=True):
            extensions, _, _ = answer_rows(shape, ids, self._index)
            made += [
                ((decode(shape, row, self._index.facts.vocabulary),), extensions[place])
                for place, row in enumerate(ids)
            ]
        plainest: dict[bytes, tuple[tuple[Query, ...], Ids]] = {}
        for query, extension in made:
            plainest.setdefault(extension.tobytes(), (query, extension))
        found = self._judge(list(plainest.values()))
        self._choices = max(len(found), 1)
        return found

    def join(self, beam: list[FoundExpression], parts: list[FoundExpression]) -> list[FoundExpression]:
        """Every conjunction of one of the beam and one more part that is narrower than both, the best first."""
        made: dict[bytes, tuple[tuple[Query, ...], Ids]] = {}
        for part in parts:
            inside = np.zeros(self._index.entities, np.bool_)
            inside[part.extension] = True
            for start in beam:
                if part.parts[0] not in start.parts:
                    both = start.extension[inside[start.extension]]
                    if len(both) < min(len(start.extension), len(part.extension)):
                        key = tuple(sorted((*start.parts, *part.parts), key=_order))
                        made.setdefault(both.tobytes(), (key, both))
        return self._judge(list(made.values()))

    def _judge(self, made: list[tuple[tuple[Query, ...], Ids]]) -> list[FoundExpression]:
        inside = np.array([int(np.count_nonzero(self._own[extension])) for _, extension in made], np.int64)
        sizes = np.array([int(np.count_nonzero(self._population[extension])) for _, extension in made], np.int64)
        p_values = upper_tail(inside, sizes, len(self._members), int(np.count_nonzero(self._population)))
        found = [
            FoundExpression(parts, extension, int(count), float(p), float(p) * self._choices ** (len(parts) - 1))
            for (parts, extension), count, p in zip(made, inside, p_values, strict=True)
            if count >= self._least
        ]
        return sorted(found, key=lambda part: part.rank(len(self._members)))

    def _candidates(self) -> Iterator[Ids]:
        """[N, slots] the ids of each shape: what enough members have, most of them first."""
        instances = self._index.instances
        _, own = instances.concepts_of.gather(self._members)
        yield self._most(own.astype(np.int64)[:, None])
        member, way, other = self._links()
        to_all = np.unique(np.stack([member, way, np.full_like(way, EVERYTHING)], 1), axis=0)
        origin, concepts = instances.concepts_of.gather(other)
        to_some = np.unique(np.stack([member[origin], way[origin], concepts.astype(np.int64)], 1), axis=0)
        yield self._most(np.concatenate([to_all, to_some])[:, 1:])
        yield self._most(np.stack([way, other], 1))

    def _links(self) -> tuple[Places, Places, Places]:
        """(member, directed relation of the restriction, other end) of the members' links."""
        graph = self._index.graph
        first, last = graph.node_starts[self._members], graph.node_starts[self._members + 1]
        member, places = ranges(first, last - first)
        asserted = graph.node_relations[places] < graph.typing
        member, places = member[asserted], places[asserted]
        groups = graph.node_groups[places]
        sizes = np.minimum(graph.starts[groups + 1] - graph.starts[groups], _NEIGHBOURS)
        origin, ends = ranges(graph.starts[groups], sizes)
        way = (graph.node_relations[places] ^ 1).astype(np.int64)
        return member[origin], way[origin], graph.members[ends].astype(np.int64)

    def _most(self, rows: Places) -> Ids:
        """The rows that occur often enough, each once, the commonest first."""
        values, counts = np.unique(rows, axis=0, return_counts=True)
        values, counts = values[counts >= self._least], counts[counts >= self._least]
        return values[np.argsort(-counts, kind="stable")][:_TRIED].astype(np.int32)


def _order(part: Query) -> tuple[bool, str]:
    """Concepts stand before restrictions."""
    return not isinstance(part, Concept), repr(part)
