"""Queries to fit with, drawn backwards from an answer: the answer, then a relation that it has, then a neighbour.

Only shapes of entities, relations and conjunctions are drawn.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

import numpy as np
from numpy.typing import NDArray

from tarbox.core.errors import QueryError
from tarbox.execution.graph import Graph
from tarbox.kb.arrays import Ids
from tarbox.query.algebra import And, Entity, Exists, Query, slots

Ends = tuple[Ids, Ids, Ids]
"""(entity, directed relation, other) of links."""


@final
@dataclass(frozen=True, slots=True)
class QueryGraph:
    """A graph, with the entities that have a link, and how many directed relations [E] each entity has."""

    graph: Graph
    connected: Ids
    relations: NDArray[np.int64]

    @classmethod
    def of(cls, graph: Graph) -> QueryGraph:
        nodes = np.repeat(np.arange(len(graph.node_starts) - 1), np.diff(graph.node_starts))
        asserted = nodes[(graph.node_relations < graph.typing) & (nodes < graph.entities)]
        relations = np.bincount(asserted, minlength=graph.entities)
        return cls(graph, np.flatnonzero(relations).astype(np.int32), relations)

    def step(self, entities: Ids, random: np.random.Generator) -> tuple[Ids, Ids]:
        """(directed relation, other) at random of entities that are connected: the relation leads from the other."""
        graph = self.graph
        place = graph.node_starts[entities] + (random.random(len(entities)) * self.relations[entities]).astype(np.int64)
        group = graph.node_groups[place]
        sizes = graph.starts[group + 1] - graph.starts[group]
        others = graph.members[graph.starts[group] + (random.random(len(entities)) * sizes).astype(np.int64)]
        return graph.node_relations[place] ^ 1, others


def draw_queries(
    shape: Query, graph: QueryGraph, count: int, random: np.random.Generator, first: Ends | None = None
) -> Ids:
    """[Q, slots] at most `count` distinct queries of a shape. Of the links `first`, where they are given, each query
    has one as the last step to its answer."""
    if not len(graph.connected):
        return np.empty((0, len(slots(shape))), np.int32)
    found = np.empty((0, len(slots(shape))), np.int32)
    for _ in range(4):
        if first is not None and len(first[0]):
            chosen = random.integers(0, len(first[0]), 2 * count)
            answers, link = first[0][chosen], (first[1][chosen], first[2][chosen])
        else:
            answers, link = random.choice(graph.connected, 2 * count), None
        columns, fine = _draw(shape, graph, answers, random, link)
        drawn = np.stack(columns, axis=1).astype(np.int32)[fine]
        _, places = np.unique(np.concatenate([found, drawn]), axis=0, return_index=True)
        found = np.concatenate([found, drawn])[np.sort(places)]
        if len(found) >= count:
            break
    return found[:count]


def _draw(
    shape: Query, graph: QueryGraph, entities: Ids, random: np.random.Generator, link: tuple[Ids, Ids] | None
) -> tuple[list[Ids], NDArray[np.bool_]]:
    """(the columns of queries that these entities answer, which of them are not degenerate)"""
    match shape:
        case Entity():
            return [entities], np.ones(len(entities), np.bool_)
        case Exists(operand=operand):
            relations, others = link or graph.step(entities, random)
            columns, fine = _draw(operand, graph, others, random, None)
            if isinstance(operand, Exists):  # to and fro by one link says nothing
                fine &= (columns[0] != relations ^ 1) | (columns[-1] != entities)
            return [relations, *columns], fine
        case And(operands):
            parts = [
                _draw(operand, graph, entities, random, None if row else link) for row, operand in enumerate(operands)
            ]
            fine = np.logical_and.reduce([own for _, own in parts])
            for row, (columns, _) in enumerate(parts):
                for other, _ in parts[:row]:
                    if len(other) == len(columns):
                        fine &= ~np.logical_and.reduce([a == b for a, b in zip(columns, other, strict=True)])
            return [column for columns, _ in parts for column in columns], fine
        case _:
            raise QueryError("only entities, relations and conjunctions are drawn")
