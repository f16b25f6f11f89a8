"""UltraQuery: which relations meet, what tells them apart, and weights that answer over any vocabulary."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from entity_models import FACTS, SHAPES, SIZES, model_of, rows_of

from tarbox.core.ids import Level
from tarbox.kb.facts import Facts
from tarbox.kb.vocabulary import Vocabulary
from tarbox.models.base import Model, Sizes
from tarbox.models.messages import links_both_ways
from tarbox.models.ultraquery import UltraQuery, UltraQueryConfig, relation_links
from tarbox.query.algebra import slots

EVERYONE = slice(0, SIZES.entities)
SETTINGS = UltraQueryConfig(dimension=4, layers=2, relation_layers=2)


def meetings(facts: torch.Tensor, relations: int) -> list[tuple[int, int, int]]:
    """The links between directed relations, by looking at every two of them."""
    sides = [(set(), set()) for _ in range(2 * relations)]
    for head, relation, tail in facts.tolist():
        sides[2 * relation + 1][0].add(head)
        sides[2 * relation + 1][1].add(tail)
    for inverse in range(0, 2 * relations, 2):
        sides[inverse] = sides[inverse + 1][::-1]
    return sorted(
        (one, 2 * first + second, two)
        for one, own in enumerate(sides)
        for two, other in enumerate(sides)
        for first in (0, 1)
        for second in (0, 1)
        if own[first] & other[second]
    )


@pytest.mark.parametrize("count", [0, 1, 40, 400])
def test_relations_that_share_an_entity_meet_once(count: int) -> None:
    facts = torch.from_numpy(np.random.default_rng(count).integers(0, [50, 12, 50], (count, 3)))
    found = relation_links(links_both_ways(facts), 24)
    assert found.shape[0] == 3
    assert sorted(map(tuple, found.T.tolist())) == meetings(facts, 12)


def test_the_vectors_of_relations_against_dense_tables() -> None:
    model, asked = model_of("ultraquery"), torch.tensor([3, 0, 5])
    tables = torch.zeros(4, SIZES.directed, SIZES.directed, dtype=torch.float64)
    for one, kind, two in meetings(FACTS, SIZES.relations):
        tables[kind, one, two] = 1
    source = torch.eye(SIZES.directed, dtype=torch.float64)[:, asked, None].expand(-1, -1, 4)
    state = source
    for layer, kinds in zip(model.relation_layers, model.kinds, strict=True):
        sums = torch.einsum("kst,sbd,kd->tbd", tables, state, kinds) + source
        state = state + torch.relu(layer.norm(layer.update(torch.cat([state, sums], -1))))
    torch.testing.assert_close(model.represent(asked), state)


def renamed(sizes: Sizes) -> tuple[torch.Tensor, torch.Tensor]:
    """New ids of entities, and of directed relations, the first of which is turned round."""
    directed = 2 * torch.randperm(sizes.relations).repeat_interleave(2) + torch.tensor([0, 1]).repeat(sizes.relations)
    directed[:2] = directed[:2].flip(0)
    return torch.randperm(sizes.entities), directed


@pytest.mark.parametrize("name", ["1p", "pi", "2in", "up"])
def test_a_renaming_of_entities_and_relations_renames_the_answers(name: str) -> None:
    model, shape = model_of("ultraquery"), SHAPES[name]
    ids = rows_of(shape)
    found = model.score(shape, ids, EVERYONE)
    entities, directed = renamed(SIZES)
    heads, relations, tails = FACTS.T
    along = directed[2 * relations + 1]
    ends = torch.stack([entities[heads], entities[tails]])
    ends = torch.where(along % 2 == 1, ends, ends.flip(0))
    model.observe(torch.stack([ends[0], along // 2, ends[1]], 1))
    names = {"entity": entities, "relation": directed}
    turned = torch.stack([names[slot.role.value][ids[:, place]] for place, slot in enumerate(slots(shape))], 1)
    torch.testing.assert_close(model.score(shape, turned, EVERYONE)[:, entities], found)


def test_what_no_fact_names_changes_nothing() -> None:
    """The same weights over a greater vocabulary: other sizes, the same answers."""
    model = model_of("ultraquery")
    greater = model_of("ultraquery", Sizes(entities=40, concepts=0, relations=9))
    greater.load_state_dict(model.state_dict())
    for shape in SHAPES.values():
        ids = rows_of(shape)
        torch.testing.assert_close(greater.score(shape, ids, EVERYONE), model.score(shape, ids, EVERYONE))


def facts_of(entities: int, concepts: int, relations: int) -> Facts:
    random = np.random.default_rng(entities)
    vocabulary = Vocabulary.of(
        [f"urn:e{n:03}" for n in range(entities)],
        [f"urn:c{n:03}" for n in range(concepts)],
        [f"urn:r{n:03}" for n in range(relations)],
    )
    return Facts.of(
        vocabulary,
        map(tuple, random.integers(0, [entities, relations, entities], (5 * entities, 3)).tolist()),
        map(tuple, random.integers(0, [entities, concepts], (2 * entities, 2)).tolist()),
        [(0, 1)],
    )


@pytest.mark.parametrize("level", Level)
def test_weights_answer_over_another_knowledge_base(level: Level) -> None:
    """They have the same names and shapes there, and tell its candidates apart by its facts."""
    torch.manual_seed(0)
    trained: Model = UltraQuery.begin(SETTINGS, facts_of(14, 4, 3))
    other: Model = UltraQuery.begin(SETTINGS, facts_of(60, 9, 7)).eval()
    shapes = [{name: weight.shape for name, weight in model.state_dict().items()} for model in (trained, other)]
    assert shapes[0] == shapes[1]
    other.load_state_dict(trained.state_dict())
    shape = SHAPES["2i"]
    scores = other.score(shape, torch.tensor([[13, 50, 4, 33], [2, 59, 13, 8]]), level)
    assert scores.shape == (2, {Level.ENTITY: 60, Level.CONCEPT: 9}[level])
    assert scores.isfinite().all()
    assert all(len(row.unique()) > 0.8 * len(row) for row in scores)


def test_traversed_facts_are_left_out_of_the_messages_of_entities_alone() -> None:
    """With a dropout of 1 the answer is what it would be without these links; relations meet as before."""
    model = model_of("ultraquery", dropout=1.0)
    shape, asked, everyone = SHAPES["1p"], torch.tensor([[3, 0]]), torch.arange(SIZES.entities)[None]
    followed = (FACTS[:, 0] == 0) & (FACTS[:, 1] == 1)
    assert followed.any()
    training = model.score_candidates(shape, asked, everyone).detach()
    answers = model.score(shape, asked, EVERYONE)
    assert not torch.allclose(training, answers)
    torch.testing.assert_close(model.eval().score_candidates(shape, asked, everyone).detach(), answers)
    model.links_3A = links_both_ways(FACTS[~followed])
    torch.testing.assert_close(model.score(shape, asked, EVERYONE), training)
