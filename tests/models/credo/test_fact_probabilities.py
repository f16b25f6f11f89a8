"""Facts with probabilities: known and predicted, seen from both ends, and closed under subsumption."""

from __future__ import annotations

from itertools import product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from uncertain import Maker

from tarbox.execution.rows import directed
from tarbox.query.algebra import Direction

seeds = st.integers(0, 1 << 32)
many = settings(max_examples=60, deadline=None, derandomize=True)


@many
@given(seeds)
def test_the_probability_of_a_link(seed: int) -> None:
    world = Maker(seed).world()
    links = world.all_links()
    for relation, head, tail in product(range(3), range(7), range(7)):
        wanted = pytest.approx(links.get((relation, head, tail), 0.0))
        held = world.probabilities
        assert held.link(directed(relation, Direction.FORWARD), tail, head) == wanted
        assert held.link(directed(relation, Direction.INVERSE), head, tail) == wanted


@many
@given(seeds)
def test_typings_are_closed_under_subsumption(seed: int) -> None:
    """No concept of an entity is below one of its sub-concepts; what is known has 1."""
    world = Maker(seed, concepts=6).world()
    wanted = world.all_typings()
    for entity, concept in product(range(7), range(6)):
        found = world.probabilities.concepts.value(entity, concept)
        assert found == pytest.approx(wanted.get((entity, concept), 0.0))
        members = dict(zip(*map(list, world.probabilities.members(concept)), strict=True))
        assert found == members.get(entity, 0.0)
        for above in world.above(concept):
            assert found <= world.probabilities.concepts.value(entity, above)
