"""One-more-hop: a model of entities alone, made to answer at both levels (the paper's Section 4.1, ADR 0015).

Concepts are degraded to entities: concept c is node E + c of an enlarged graph, in which the typings, closed under the
TBox, are assertions of one more relation, `instanceOf` (number R, directed 2R and 2R + 1). The concepts of a query are
what one more hop leads to, and a concept inside a query is one hop from its node. Every query of the benchmark is thus
a query of the enlarged graph that names no concept, and this module is all that has to know.

Shape letters: B queries, S slots, K candidates per query, N candidates of a level.
"""

# ruff: noqa: ARG002, N803, N806 (shape suffixes)

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, ClassVar, Final, final

import numpy as np
import torch
from torch import Tensor

from tarbox.core.errors import QueryError
from tarbox.core.ids import Level, Role
from tarbox.execution.rows import EVERYTHING
from tarbox.kb.closure import Instances
from tarbox.models.base import EntityModel, Model, Sizes, Task, on_device
from tarbox.query.algebra import Concept, Direction, Entity, Exists, Query, fold, lift, slots, with_operands

if TYPE_CHECKING:
    from tarbox.kb.arrays import Ids, Keys
    from tarbox.kb.facts import Facts

PAIR_BLOCK: Final = 1024
"""How many queries are scored at a time: what a model holds for each of them must not grow with the table."""
TYPES_SHAPE: Final = Entity("?e1")
"""The query {e}: at concept level one hop from e along `instanceOf`."""
MEMBERS_SHAPE: Final = Concept("?c1")
"""The query C: one hop from the node of C against `instanceOf`."""


def enlarged(sizes: Sizes) -> Sizes:
    """The sizes of the graph in which concepts are entities.

    >>> enlarged(Sizes(entities=10, concepts=3, relations=2))
    Sizes(entities=13, concepts=0, relations=3)
    """
    return Sizes(sizes.entities + sizes.concepts, 0, sizes.relations + 1)


def enlarged_facts(facts: Facts, sizes: Sizes) -> Keys:
    """[F, 3] (head, relation, tail): the assertions, then the closed typings as those of one more relation."""
    typed, types = Instances.of(facts).concepts_of.coordinates()
    typings = np.stack([typed, np.full_like(typed, sizes.relations), types + sizes.entities], 1)
    return np.concatenate([np.stack([facts.heads, facts.relations, facts.tails], 1), typings]).astype(np.int64)


@final
class OneMoreHop(Model):
    """An `EntityModel` of the enlarged graph, as a model of both levels. Subsumption is no task of it.

    `name` is what messages call it.
    """

    tasks: ClassVar[frozenset[Task]] = EntityModel.tasks
    asks_typings: ClassVar[bool] = True

    def __init__(self, inner: EntityModel, sizes: Sizes, name: str) -> None:
        super().__init__(sizes)
        self.inner, self.name = inner, name
        self.lacks = inner.lacks

    def observe(self, facts: Facts) -> None:
        """The facts of the enlarged graph."""
        self.inner.observe(torch.from_numpy(enlarged_facts(facts, self.sizes)))

    def score(self, shape: Query, ids_BS: Ids | Tensor, level: Level) -> Tensor:
        """[B, N] of the nodes that are entities, or of those that are concepts."""
        self.require(shape, self.name)
        with torch.no_grad():
            ids = on_device(ids_BS, next(self.inner.parameters()).device)
            self._refuse_everything(shape, ids)
            asked, rows = self._translate(shape, ids, level)
            blocks: Sequence[Tensor] = torch.split(rows, PAIR_BLOCK)
            return torch.cat([self.inner.score(asked, block, self._nodes(level)) for block in blocks])

    def score_candidates(self, shape: Query, ids_BS: Tensor, level: Level, candidates_BK: Tensor) -> Tensor:
        self.require(shape, self.name)
        nodes_BK = candidates_BK + self._nodes(level).start
        return self.inner.score_candidates(*self._translate(shape, ids_BS, level), nodes_BK)

    def subsumption(self, subs_BK: Tensor, supers_BK: Tensor) -> Tensor:
        raise QueryError(f"{self.name} learns no subsumptions (they are no task of it): the closed typings hold them")

    def instantiation(self, entities_BK: Tensor, concepts_BK: Tensor) -> Tensor:
        """[B, K] the mean of both one-hop queries: `{e}` asked for the concept, the concept asked for `e`."""
        pairs = entities_BK.reshape(-1, 1), concepts_BK.reshape(-1, 1)
        types = self.score_candidates(TYPES_SHAPE, pairs[0], Level.CONCEPT, pairs[1])
        members = self.score_candidates(MEMBERS_SHAPE, pairs[1], Level.ENTITY, pairs[0])
        return ((types + members) / 2).view_as(entities_BK)

    def _nodes(self, level: Level) -> slice:
        first = self.sizes.entities
        return {Level.ENTITY: slice(0, first), Level.CONCEPT: slice(first, first + self.sizes.concepts)}[level]

    def _translate(self, shape: Query, ids_BS: Tensor, level: Level) -> tuple[Query, Tensor]:
        """The query of the enlarged graph, and its ids."""
        members, types = self.sizes.directed, self.sizes.directed + 1
        columns = [ids_BS.new_full((len(ids_BS), 1), types)] if level is Level.CONCEPT else []
        for place, slot in enumerate(slots(shape)):
            own_B1 = ids_BS[:, place : place + 1]
            if slot.role is Role.CONCEPT:
                columns += [torch.full_like(own_B1, members), own_B1 + self.sizes.entities]
            else:
                columns.append(own_B1)
        named = fold(shape, _without_concepts)
        asked = Exists("?r", Direction.FORWARD, named) if level is Level.CONCEPT else named
        return lift(asked)[0], torch.cat(columns, 1)

    def _refuse_everything(self, shape: Query, ids_BS: Tensor) -> None:
        """owl:Thing without a row in the vocabulary is no node."""
        places = [place for place, slot in enumerate(slots(shape)) if slot.role is Role.CONCEPT]
        if places and bool((ids_BS[:, places] == EVERYTHING).any()):
            raise QueryError(
                f"{self.name} has no node for the concept of all entities. Leave owl:Thing out of the query, "
                "or ask counting or tar."
            )


def _without_concepts(node: Query, parts: list[Query]) -> Query:
    """A concept as what `instanceOf` leads to from its node."""
    if isinstance(node, Concept):
        return Exists("?r", Direction.FORWARD, Entity(node.name))
    return with_operands(node, parts)
