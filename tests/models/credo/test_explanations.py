"""What an explanation says of an answer and of the parts of a query is what the model says when it is asked."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from uncertain import Maker

from tarbox.execution.rows import encode
from tarbox.models.credo.concepts import SetModel
from tarbox.models.credo.model import Credo
from tarbox.query.algebra import Query, operands
from tarbox.service.proofs import Traced, trace


@settings(max_examples=30, deadline=None, derandomize=True)
@given(st.integers(0, 1 << 32))
def test_every_part_has_the_degrees_of_its_own_answers(seed: int) -> None:
    maker = Maker(seed)
    world = maker.world()
    model = Credo.of(world.index, world.probabilities, SetModel.of(world.index, 0))

    def check(query: Query, traced: Traced) -> None:
        shape, ids = encode(query, world.facts.vocabulary)
        found = model.predict(shape, ids[None])
        assert np.array_equal(traced.degrees, found.entities[0])
        assert [traced.has(entity) for entity in range(7)] == [e in found.known_entities[0] for e in range(7)]
        for part, own in zip(operands(query), traced.parts, strict=True):
            check(part, own)

    query = maker.query()
    check(query, trace(query, world.index, model))
