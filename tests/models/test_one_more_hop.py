"""One-more-hop: what is asked of the enlarged graph, by hand."""

from __future__ import annotations

import pytest
import torch
from entity_models import SMALL

from tarbox.core.errors import QueryError
from tarbox.core.ids import Level
from tarbox.execution.rows import EVERYTHING
from tarbox.models.base import Sizes, Task
from tarbox.models.one_more_hop import OneMoreHop
from tarbox.models.registry import find_model
from tarbox.models.saved import build_model
from tarbox.query.algebra import Concept, Entity
from tarbox.query.templates import TEMPLATES, template

SIZES = Sizes(entities=10, concepts=4, relations=2)
MEMBERS, TYPES = 4, 5  # `instanceOf` is relation 2: from a concept to its members, from an entity to its concepts
EACH = pytest.mark.parametrize("name", SMALL)
CONCEPTS, ENTITIES = slice(10, 14), slice(0, 10)


def model_of(name: str) -> OneMoreHop:
    torch.manual_seed(1)
    model = build_model(find_model(name), {"name": name, **SMALL[name]}, SIZES)
    assert isinstance(model, OneMoreHop)
    return model.double()


@EACH
def test_the_enlarged_graph(name: str) -> None:
    model = model_of(name)
    assert (model.inner.sizes, model.sizes) == (Sizes(14, 0, 3), SIZES)
    assert (model.candidates(Level.ENTITY), model.candidates(Level.CONCEPT)) == (10, 4)
    assert model.tasks == {Task.ENTITY, Task.CONCEPT, Task.INSTANTIATION}


@EACH
def test_concepts_are_one_hop_further(name: str) -> None:
    model, ids = model_of(name), torch.tensor([[1, 7], [3, 2]])
    longer = torch.tensor([[TYPES, 1, 7], [TYPES, 3, 2]])
    shape = TEMPLATES["1p"].shape
    wanted = model.inner.score(TEMPLATES["2p"].shape, longer, CONCEPTS)
    torch.testing.assert_close(model.score(shape, ids, Level.CONCEPT), wanted)
    torch.testing.assert_close(model.score(shape, ids.numpy(), Level.ENTITY), model.inner.score(shape, ids, ENTITIES))


@EACH
def test_a_concept_inside_a_query_is_a_hop_from_its_node(name: str) -> None:
    model = model_of(name)
    shape, ids = template("ci", "?c1 and (?r1 value ?e1)").shape, torch.tensor([[3, 1, 7], [0, 2, 9]])
    wanted = torch.tensor([[MEMBERS, 13, 1, 7], [MEMBERS, 10, 2, 9]])
    found = model.score(shape, ids, Level.ENTITY)
    torch.testing.assert_close(found, model.inner.score(TEMPLATES["2i"].shape, wanted, ENTITIES))
    candidates = torch.tensor([[0, 3, 3], [2, 1, 0]])
    some = model.score_candidates(shape, ids, Level.CONCEPT, candidates)
    torch.testing.assert_close(some.detach(), model.score(shape, ids, Level.CONCEPT).gather(1, candidates))


@EACH
def test_typings_are_asked_in_both_directions(name: str) -> None:
    model = model_of(name)
    entities, concepts = torch.tensor([[7, 7], [2, 5]]), torch.tensor([[0, 3], [1, 1]])
    found = model.instantiation(entities, concepts).detach()
    types, members = (torch.empty(2, 2, dtype=torch.float64) for _ in range(2))
    for row in range(2):
        for column in range(2):
            entity, concept = entities[row, column], concepts[row, column]
            types[row, column] = model.score(Entity("?e1"), entity.view(1, 1), Level.CONCEPT)[0, concept]
            members[row, column] = model.score(Concept("?c1"), concept.view(1, 1), Level.ENTITY)[0, entity]
    torch.testing.assert_close(found, (types + members) / 2)


def test_what_has_no_node_is_refused() -> None:
    model = model_of("gqe")
    with pytest.raises(QueryError, match="gqe has no node for the concept of all entities"):
        model.score(Concept("?c1"), torch.tensor([[1], [EVERYTHING]]), Level.ENTITY)
    with pytest.raises(QueryError, match="gqe learns no subsumptions"):
        model.subsumption(torch.zeros(1, 1), torch.zeros(1, 1))
    with pytest.raises(
        QueryError, match=r"gqe does not support negation \('not'\)\. Leave it out, or ask a model that has"
    ):
        model.score_candidates(
            TEMPLATES["2in"].shape, torch.zeros(1, 4).long(), Level.CONCEPT, torch.zeros(1, 1).long()
        )


def test_without_concepts_there_is_still_a_model() -> None:
    model = build_model(find_model("gqe"), {"dimension": 4}, Sizes(5, 0, 1))
    assert model.score(TEMPLATES["1p"].shape, torch.tensor([[0, 1]]), Level.CONCEPT).shape == (1, 0)
