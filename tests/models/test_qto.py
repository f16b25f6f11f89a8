"""QTO against whole matrices: every entry by the paper's formula, and every query by a maximum over all of them."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import pytest
import torch
from entity_models import SHAPES

from tarbox.core.errors import ConfigError
from tarbox.core.ids import Level
from tarbox.execution.interpreter import Algebra, evaluate
from tarbox.execution.rows import EVERYTHING
from tarbox.kb.closure import Instances
from tarbox.kb.facts import Facts
from tarbox.kb.vocabulary import Vocabulary
from tarbox.models import link_model
from tarbox.models.qto import Qto, QtoConfig
from tarbox.query.algebra import slots
from tarbox.query.templates import template

ENTITIES, CONCEPTS, RELATIONS = 12, 5, 3
CONFIG = QtoConfig(rank=4, threshold=0.05, neg_scale=2.0, initial=1.2)
MORE_SHAPES = {
    "np": template("np", "?r1 some (not (?r2 value ?e1))").shape,
    "nn": template("nn", "not (not (?r1 some (?c1 or (?r2 value ?e1))))").shape,
    "c": template("c", "?c1 and (?r1 some ?c2)").shape,
}


def some_facts() -> Facts:
    random = np.random.default_rng(1)
    vocabulary = Vocabulary.of(
        [f"urn:e{n:02}" for n in range(ENTITIES)],
        [f"urn:c{n}" for n in range(CONCEPTS)],
        [f"urn:r{n}" for n in range(RELATIONS)],
    )
    assertions = random.integers(0, [ENTITIES, RELATIONS, ENTITIES], (40, 3)).tolist()
    typings = random.integers(0, [ENTITIES, CONCEPTS], (9, 2)).tolist()
    return Facts.of(vocabulary, map(tuple, assertions), map(tuple, typings), [(0, 1), (1, 2)])


FACTS = some_facts()


@pytest.fixture(scope="module")
def model() -> Qto:
    torch.manual_seed(2)
    found = Qto.begin(CONFIG, FACTS).double()
    assert isinstance(found, Qto)
    return found


def matrix(scores: np.ndarray, known: np.ndarray, threshold: float) -> np.ndarray:
    """One neural adjacency matrix, entry by entry; `known` are the links that the facts have."""
    found = np.zeros_like(scores)
    for row, own in enumerate(scores):
        shares = np.exp(own - own.max()) / np.exp(own - own.max()).sum()
        for column, share in enumerate(shares):
            degree = share * max(1, known[row].sum())
            found[row, column] = 1.0 if known[row, column] else min(degree, 0.9999) if degree >= threshold else 0.0
    return found


@dataclass(frozen=True)
class Matrices:
    """All of them: [2R, E, E] of relations, [E, C] of typing, [C, E] of typing read backwards."""

    relations: np.ndarray
    concepts_of: np.ndarray
    instances_of: np.ndarray

    @classmethod
    def of(cls, model: Qto) -> Matrices:
        links, everyone, epsilon = model.links, torch.arange(ENTITIES), model.config.threshold
        known = np.zeros((2 * RELATIONS, ENTITIES, ENTITIES), bool)
        known[2 * FACTS.relations, FACTS.tails, FACTS.heads] = True
        known[2 * FACTS.relations + 1, FACTS.heads, FACTS.tails] = True
        typed = np.zeros((ENTITIES, CONCEPTS), bool)
        typed[Instances.of(FACTS).concepts_of.coordinates()] = True
        with torch.no_grad():
            asked = [links.questions(torch.full_like(everyone, d), everyone) for d in range(2 * RELATIONS)]
            scores = [links.scores(one, links.places.entities).numpy() for one in asked]
            types = links.scores(links.questions(torch.full_like(everyone, 2 * RELATIONS), everyone), slice(12, 17))
            members = links.scores(links.members(torch.arange(12, 17)), links.places.entities)
        return cls(
            np.stack([matrix(one, own, epsilon) for one, own in zip(scores, known, strict=True)]),
            matrix(types.numpy(), typed, epsilon),
            matrix(members.numpy(), typed.T, epsilon),
        )


@dataclass(frozen=True)
class SlowAlgebra(Algebra[np.ndarray]):
    """One query at a time: a fuzzy set [E]."""

    matrices: Matrices
    ids: dict[str, int]
    neg_scale: float

    def entity(self, name: str) -> np.ndarray:
        return np.eye(ENTITIES)[self.ids[name]]

    def concept(self, name: str) -> np.ndarray:
        return self.matrices.instances_of[self.ids[name]]

    def exists(self, relation: str, _: object, operand: np.ndarray) -> np.ndarray:
        return (operand[:, None] * self.matrices.relations[self.ids[relation]]).max(0)

    def intersection(self, operands: list[np.ndarray]) -> np.ndarray:
        return np.prod(operands, 0)

    def union(self, operands: list[np.ndarray]) -> np.ndarray:
        return 1 - np.prod(1 - np.array(operands), 0)

    def complement(self, operand: np.ndarray) -> np.ndarray:
        return 1 - np.minimum(1, self.neg_scale * operand)


@pytest.mark.parametrize("name", [*SHAPES, *MORE_SHAPES])
@pytest.mark.parametrize("block", [1 << 26, 40])
def test_every_query_against_whole_matrices(model: Qto, name: str, block: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """At both levels, and however few rows are made at a time."""
    monkeypatch.setattr(link_model, "_SCORES_AT_A_TIME", block)
    shape = {**SHAPES, **MORE_SHAPES}[name]
    limits = {"entity": ENTITIES, "concept": CONCEPTS, "relation": 2 * RELATIONS}
    ids = np.random.default_rng(3).integers(
        0, [limits[slot.role.value] for slot in slots(shape)], (8, len(slots(shape)))
    )
    entities, concepts = (model.score(shape, ids, level).numpy() for level in (Level.ENTITY, Level.CONCEPT))
    matrices = Matrices.of(model)
    for row, own in enumerate(ids.tolist()):
        named = {slot.name: id for slot, id in zip(slots(shape), own, strict=True)}
        wanted = evaluate(shape, SlowAlgebra(matrices, named, CONFIG.neg_scale))
        np.testing.assert_allclose(entities[row], wanted, atol=1e-12)
        np.testing.assert_allclose(concepts[row], (wanted[:, None] * matrices.concepts_of).max(0), atol=1e-12)


def test_the_matrices_are_sparse_and_hold_what_is_known(model: Qto) -> None:
    """The cases of the formula are all there: otherwise the test above says little."""
    found = Matrices.of(model).relations
    known = {(2 * r + 1, h, t) for h, r, t in zip(FACTS.heads, FACTS.relations, FACTS.tails, strict=True)}
    assert all(found[link] == 1.0 for link in known)
    assert (found == 1.0).sum() == 2 * len(FACTS.heads)
    assert (found == 0.9999).any()
    assert (found == 0.0).mean() > 0.3
    assert ((found > 0) & (found < 0.5)).any()


def test_known_answers_have_degree_one_and_none_has_more(model: Qto) -> None:
    ids = np.stack([2 * FACTS.relations, FACTS.tails], 1)
    degrees = model.score(SHAPES["1p"], ids, Level.ENTITY).numpy()
    assert (degrees[np.arange(len(ids)), FACTS.heads] == 1).all()
    assert degrees.min() >= 0
    assert degrees.max() <= 1


def test_a_concept_of_everything_has_all_entities(model: Qto) -> None:
    found = model.score(template("t", "?c1").shape, np.array([[EVERYTHING], [0]]), Level.ENTITY)
    assert (found[0] == 1).all()
    assert (found[1] < 1).any()


def test_candidates_are_scored_as_all_are(model: Qto) -> None:
    ids, chosen = torch.tensor([[1, 2, 3], [4, 0, 5]]), torch.tensor([[3, 1], [0, 11]])
    everyone = model.score(SHAPES["2p"], ids, Level.ENTITY)
    torch.testing.assert_close(
        model.score_candidates(SHAPES["2p"], ids, Level.ENTITY, chosen), everyone.gather(1, chosen)
    )


def test_what_it_knows_is_no_weight_but_comes_back_with_the_facts(model: Qto) -> None:
    arrays = {name: value.numpy() for name, value in model.state_dict().items()}
    assert set(arrays) == {"links.nodes", "links.relations"}
    again = Qto.of_arrays(FACTS, arrays, CONFIG, "cpu").double()
    ids = np.array([[1, 2, 3], [4, 0, 5]])
    found, wanted = (one.score(SHAPES["2p"], ids, Level.ENTITY) for one in (again, model))
    torch.testing.assert_close(found, wanted, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize(("name", "value"), [("threshold", 0.0), ("threshold", 1.5), ("neg_scale", -1.0), ("rank", 0)])
def test_settings_out_of_range_are_refused(name: str, value: float) -> None:
    with pytest.raises(ConfigError, match=name):
        replace(CONFIG, **{name: value}).links()
