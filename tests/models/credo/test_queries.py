"""Queries to fit with: each has the answer that it was drawn from, and none is degenerate."""

from __future__ import annotations

import numpy as np
import pytest
from uncertain import Maker, World

from tarbox.core.errors import QueryError
from tarbox.execution.exact import answer_rows
from tarbox.execution.graph import Index
from tarbox.kb.facts import Facts
from tarbox.kb.vocabulary import Vocabulary
from tarbox.models.credo.holdout import SHAPES
from tarbox.models.credo.queries import QueryGraph, draw_queries
from tarbox.query.algebra import Query
from tarbox.query.templates import TEMPLATES

ALL = {name: TEMPLATES[name].shape for name in ("1p", "2p", "3p", "2i", "3i", "ip", "pi")}
EACH = pytest.mark.parametrize("name", ALL)


@pytest.fixture(scope="module")
def world() -> World:
    return Maker(1, entities=30, relations=4).world(uncertain=False)


@pytest.fixture(scope="module")
def graph(world: World) -> QueryGraph:
    return QueryGraph.of(world.index.graph)


def draw(shape: Query, graph: QueryGraph, count: int = 200, seed: int = 0) -> np.ndarray:
    return draw_queries(shape, graph, count, np.random.default_rng(seed))


def test_what_is_fitted_on_can_be_drawn() -> None:
    assert set(SHAPES) <= set(ALL)


@EACH
def test_every_query_has_answers_and_is_there_once(name: str, world: World, graph: QueryGraph) -> None:
    found = draw(ALL[name], graph)
    assert 0 < len(found) <= 200
    assert len({tuple(row) for row in found.tolist()}) == len(found)
    assert (answer_rows(ALL[name], found, world.index)[0].sizes() > 0).all()


@EACH
def test_a_link_that_is_given_is_the_last_step_to_an_answer(name: str, world: World, graph: QueryGraph) -> None:
    facts = world.facts
    first = (facts.heads[:9], 2 * facts.relations[:9], facts.tails[:9])
    found = draw_queries(ALL[name], graph, 100, np.random.default_rng(0), first)
    entities = answer_rows(ALL[name], found, world.index)[0]
    ways = {(way, head) for head, way in zip(first[0].tolist(), first[1].tolist(), strict=True)}
    assert len(found)
    for row, ids in enumerate(found.tolist()):
        assert any((ids[0], answer) in ways for answer in entities[row].tolist()), ids


def test_steps_go_from_an_entity_to_one_that_leads_to_it(world: World, graph: QueryGraph) -> None:
    entities = np.repeat(graph.connected, 20)
    relations, others = graph.step(entities, np.random.default_rng(0))
    links = world.all_links()
    for entity, way, other in zip(entities.tolist(), relations.tolist(), others.tolist(), strict=True):
        assert ((way // 2, entity, other) if way % 2 == 0 else (way // 2, other, entity)) in links


def test_none_goes_to_and_fro_or_says_a_thing_twice(graph: QueryGraph) -> None:
    for row in draw(ALL["2i"], graph).tolist():
        assert row[:2] != row[2:]
    for row in draw(ALL["3i"], graph).tolist():
        assert len({tuple(row[n : n + 2]) for n in (0, 2, 4)}) == 3


def test_to_and_fro_by_one_link_is_left_out() -> None:
    """Of two entities with one link, there is no way of two steps but back."""
    facts = Facts.of(Vocabulary.of(["a", "b"], [], ["p"]), [(0, 0, 1)])
    graph = QueryGraph.of(Index.of(facts).graph)
    assert len(draw(ALL["2p"], graph)) == 0
    assert sorted(draw(ALL["1p"], graph).tolist()) == [[0, 1], [1, 0]]


def test_the_same_seed_draws_the_same(graph: QueryGraph) -> None:
    one, again, other = (draw(ALL["2i"], graph, 50, seed).tolist() for seed in (1, 1, 2))
    assert one == again
    assert one != other


def test_typings_are_not_followed() -> None:
    facts = Facts.of(Vocabulary.of(["a", "b", "c"], ["d"], ["p"]), [(0, 0, 1)], [(2, 0), (0, 0)])
    graph = QueryGraph.of(Index.of(facts).graph)
    assert graph.connected.tolist() == [0, 1]
    assert graph.relations.tolist() == [1, 1, 0]
    empty = QueryGraph.of(Index.of(Facts.of(facts.vocabulary)).graph)
    assert draw(ALL["2i"], empty).shape == (0, 4)


def test_other_shapes_are_refused(graph: QueryGraph) -> None:
    with pytest.raises(QueryError, match="only entities, relations and conjunctions"):
        draw(TEMPLATES["2u"].shape, graph)
