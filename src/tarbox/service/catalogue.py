"""Finds what the cards and lists of `tarbox.service.cards` say."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import cached_property
from typing import Final, NamedTuple, final

import numpy as np

from tarbox.core.ids import Role
from tarbox.kb.arrays import Flags, Ids, Places
from tarbox.kb.closure import Hierarchy
from tarbox.kb.rows import Rows, ranges
from tarbox.kb.terms import from_ntriples
from tarbox.query.algebra import Direction, Entity, Exists
from tarbox.service import cards
from tarbox.service.answering import Answerer, Question
from tarbox.service.answers import PREDICTED, EntityAnswer
from tarbox.service.concept_paths import paths_to

ROOT_CONCEPTS: Final = "top"
"""In place of a parent: what has none."""
TYPES_SHOWN: Final = 6
_WEIGHED: Final = 64
_AS_MANY: Final = 0.95


class Page(NamedTuple):
    """A part of a list."""

    limit: int = 20
    offset: int = 0

    def of(self, rows: Ids | Places) -> list[int]:
        found: list[int] = rows[self.offset : self.offset + self.limit].tolist()
        return found


FIRST_PAGE: Final = Page()


@final
class Catalogue:
    """The cards and lists of what one answerer knows, and of what it predicts. Names raise `UnknownName` or
    `AmbiguousName`."""

    def __init__(self, answerer: Answerer) -> None:
        self._answerer = answerer
        self.kb = answerer.kb

    def entity(
        self, name: str, page: Page = FIRST_PAGE, relation: str | None = None, predicted: bool = False
    ) -> cards.EntityCard:
        """The card of an entity, with a page of the values of each relation, or of one `relation` alone."""
        kb, row = self.kb, self.kb.entities.id(name)
        wanted = None if relation is None else kb.relations.id(relation)
        groups = {way: tuple(self._groups(row, way, page, wanted)) for way in Direction}
        guesses = self._guess(row, page.limit) if predicted and self._answerer.model else {}
        types = kb.index.instances.concepts_of[row]
        types = types[np.argsort(self._sizes[types], kind="stable")]
        return cards.EntityCard(
            *self._names(Role.ENTITY, row),
            kb.facts.vocabulary.synonyms_of(Role.ENTITY, row),
            int(kb.use_counts[Role.ENTITY][row]),
            len(types),
            tuple(self._item(Role.CONCEPT, each) for each in page.of(types)),
            groups[Direction.FORWARD],
            groups[Direction.INVERSE],
            tuple(guesses.get(Direction.FORWARD, ())),
            tuple(guesses.get(Direction.INVERSE, ())),
        )

    def concept(self, name: str, page: Page = FIRST_PAGE) -> cards.ConceptCard:
        """The card of a concept, with a page of its children and one of its instances."""
        kb, row = self.kb, self.kb.concepts.id(name)
        tree, children = self._tree, self._children[row]
        members = self._by_use(Role.ENTITY, kb.index.instances.entities_of[row])
        guesses = self._answerer.members(kb.concepts.at(row).iri, page.limit) if self._answerer.model else []
        alike = [each for each in tree.equivalents(row).tolist() if each != row]
        return cards.ConceptCard(
            *self._names(Role.CONCEPT, row),
            kb.facts.vocabulary.synonyms_of(Role.CONCEPT, row),
            len(kb.index.instances.entities_of[row]),
            int(self._sizes[row]),
            float(kb.specificity[row]),
            self._lines([each for each in tree.parents[row].tolist() if each != row]),
            self._lines(page.of(self._by_use(Role.CONCEPT, children))),
            len(children),
            tuple(self._lines(path) for path in paths_to(row, tree)),
            self._lines(alike),
            tuple(self._item(Role.ENTITY, each) for each in page.of(members)),
            tuple(self._guesses(guesses)),
        )

    def relation(self, name: str, page: Page = FIRST_PAGE) -> cards.RelationCard:
        """The card of a relation, with a page of its facts."""
        kb, row = self.kb, self.kb.relations.id(name)
        facts = np.flatnonzero(kb.facts.relations == row)
        pairs = [(int(kb.facts.heads[fact]), int(kb.facts.tails[fact])) for fact in page.of(facts)]
        return cards.RelationCard(
            self._relation(2 * row + 1),
            kb.facts.vocabulary.synonyms_of(Role.RELATION, row),
            tuple(
                cards.RelationFact(self._item(Role.ENTITY, head), self._value(head, tail, 2 * row + 1))
                for head, tail in pairs
            ),
        )

    def concepts(self, parent: str | None = None, page: Page = FIRST_PAGE) -> cards.ConceptList:
        """All concepts, or those directly below `parent`; below `ROOT_CONCEPTS` are those that nothing is above."""
        if parent is None or parent == ROOT_CONCEPTS:
            rows = np.flatnonzero(~self._below if parent else np.ones(len(self.kb.concepts)))
        else:
            rows = self._children[self.kb.concepts.id(parent)].astype(np.int64)
        return cards.ConceptList(len(rows), self._lines(page.of(self._by_use(Role.CONCEPT, rows))))

    def relations(self, concept: str | None = None, page: Page = FIRST_PAGE) -> cards.RelationList:
        """All relations; or those that instances of `concept` have, in either direction, with what holds of these
        instances alone."""
        if concept is None:
            rows = self._by_use(Role.RELATION, np.arange(len(self.kb.relations)))
            return cards.RelationList(len(rows), tuple(self._relation(2 * row + 1) for row in page.of(rows)))
        graph = self.kb.index.graph
        members = self.kb.index.instances.entities_of[self.kb.concepts.id(concept)]
        _, places = ranges(graph.node_starts[members], graph.node_starts[members + 1] - graph.node_starts[members])
        places = places[graph.node_relations[places] < graph.typing]
        ways, groups = graph.node_relations[places], graph.node_groups[places]
        counts = np.bincount(ways, graph.starts[groups + 1] - graph.starts[groups], graph.typing)
        shown = np.flatnonzero(counts)
        shown = shown[np.argsort(-counts[shown], kind="stable")]
        return cards.RelationList(len(shown), tuple(self._relation(way, groups[ways == way]) for way in page.of(shown)))

    def _relation(self, way: int, groups: Places | Ids | None = None) -> cards.RelationLine:
        """A directed relation (`tarbox.execution.graph`), by some of the groups at its ends; else by all."""
        graph = self.kb.index.graph
        if groups is None:
            groups = np.arange(*graph.relation_groups[way : way + 2])
        _, places = ranges(graph.starts[groups], graph.starts[groups + 1] - graph.starts[groups])
        reached = np.zeros(graph.entities, np.bool_)
        reached[graph.members[places]] = True
        near, far = graph.group_nodes[groups].astype(np.int64), np.flatnonzero(reached)
        subjects, objects = (near, far) if way % 2 else (far, near)
        return cards.RelationLine(
            *self._names(Role.RELATION, way // 2),
            len(places),
            len(subjects),
            len(objects),
            tuple(self._typical(subjects)),
            tuple(self._typical(objects)),
            (Direction.FORWARD if way % 2 else Direction.INVERSE).value,
        )

    def _typical(self, entities: Ids | Places) -> Iterator[cards.CardItem]:
        """The concepts of the most of some entities, without those that have hardly more than one below them."""
        _, inside = self.kb.index.instances.concepts_of.gather(entities)
        counts = np.bincount(inside, minlength=len(self.kb.concepts))
        found = np.flatnonzero(counts)
        best = found[np.lexsort((self._sizes[found], -counts[found]))][:_WEIGHED]
        groups = self._tree.group[best]
        above = np.array([np.isin(best, self._tree.ancestors[row]) for row in best], np.bool_).reshape(
            len(best), len(best)
        )
        above &= (groups[:, None] != groups) & (counts[best][:, None] >= _AS_MANY * counts[best])
        for row in best[~above.any(0)][:TYPES_SHOWN].tolist():
            yield self._item(Role.CONCEPT, row, int(counts[row]))

    def _groups(self, entity: int, way: Direction, page: Page, wanted: int | None) -> Iterator[cards.FactGroup]:
        """The facts of an entity in one direction, by relation; those with the most facts first."""
        graph = self.kb.index.graph
        places = range(graph.node_starts[entity], graph.node_starts[entity + 1])
        found = [(int(graph.node_relations[place]), int(graph.node_groups[place])) for place in places]
        sized = [(int(graph.starts[group + 1] - graph.starts[group]), directed, group) for directed, group in found]
        for count, directed, group in sorted(sized, key=lambda each: (-each[0], each[1])):
            if directed >= graph.typing or directed % 2 != (way is Direction.FORWARD):
                continue
            if wanted is None or directed // 2 == wanted:
                members = self._by_use(Role.ENTITY, graph.members[graph.starts[group] : graph.starts[group] + count])
                values = tuple(self._value(entity, each, directed) for each in page.of(members))
                yield cards.FactGroup(self._item(Role.RELATION, directed // 2), count, values)

    def _guess(self, entity: int, limit: int) -> dict[Direction, list[cards.FactGroup]]:
        """What a model predicts of an entity: the likeliest values of each relation, both ways."""
        names = self.kb.facts.vocabulary
        asked = [(relation, way) for way in Direction for relation in range(len(names.relations))]
        leaf = Entity(names.entities.iri(entity))
        found = self._answerer.answer_many(
            [Question(Exists(names.relations.iri(row), way.opposite, leaf), limit) for row, way in asked]
        )
        groups: dict[Direction, list[cards.FactGroup]] = {}
        for (row, way), answers in zip(asked, found, strict=True):
            values = tuple(self._guesses(answers.entities))
            if values:
                count = answers.entity_counts.predicted
                groups.setdefault(way, []).append(cards.FactGroup(self._item(Role.RELATION, row), count, values))
        return groups

    def _guesses(self, answers: Iterable[EntityAnswer]) -> Iterator[cards.FactValue]:
        for each in answers:
            if each.status == PREDICTED:
                yield cards.FactValue(each.iri, each.label, self._name(Role.ENTITY, each.iri), each.degree)

    @property
    def _sizes(self) -> Places:
        return self.kb.use_counts[Role.CONCEPT]

    @property
    def _tree(self) -> Hierarchy:
        return self.kb.index.instances.hierarchy

    @cached_property
    def _children(self) -> Rows:
        """The concepts directly below each; equivalents are not below each other."""
        below, above = self._tree.parents.coordinates()
        strict = self._tree.group[below] != self._tree.group[above]
        return Rows.of(above[strict], below[strict], len(self._tree), len(self._tree))

    @cached_property
    def _below(self) -> Flags:
        """[C] whether some concept is above, one that is no equivalent."""
        groups = self._tree.group
        return np.isin(groups, groups[self._children.columns])

    def _by_use(self, role: Role, rows: Ids | Places) -> Ids | Places:
        return rows[np.argsort(-self.kb.use_counts[role][rows], kind="stable")]

    def _names(self, role: Role, row: int) -> tuple[str, str, str]:
        thing = self.kb.things(role).at(int(row))
        return thing.iri, thing.label, self._name(role, thing.iri)

    def _name(self, role: Role, iri: str) -> str:
        return self.kb.naming.write(role, from_ntriples(iri))

    def _item(self, role: Role, row: int, count: int | None = None) -> cards.CardItem:
        return cards.CardItem(*self._names(role, row), int(self.kb.use_counts[role][row]) if count is None else count)

    def _value(self, near: int, far: int, way: int) -> cards.FactValue:
        """The far end of the fact of a directed relation."""
        said, (head, tail) = self.kb.attributes, (near, far) if way % 2 else (far, near)
        return cards.FactValue(
            *self._names(Role.ENTITY, far), attributes=said.of(head, way // 2, tail) if said is not None else {}
        )

    def _lines(self, rows: Iterable[int]) -> tuple[cards.ConceptLine, ...]:
        return tuple(
            cards.ConceptLine(
                *self._names(Role.CONCEPT, row),
                len(self.kb.index.instances.entities_of[row]),
                int(self._sizes[row]),
                len(self._children[row]),
            )
            for row in rows
        )
