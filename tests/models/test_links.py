"""Links as training samples: what they are made of, what is drawn, and gradients of the rows that take part alone."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from tarbox.kb.facts import Facts
from tarbox.kb.vocabulary import Vocabulary
from tarbox.models.base import Sizes, Task
from tarbox.models.complex import Complex, ComplexConfig, NodePlaces
from tarbox.models.learning.negatives import NegativesConfig, Sampler
from tarbox.models.links import LinkSource, link_sources

SIZES = Sizes(entities=7, concepts=5, relations=2)
PLACES = NodePlaces(SIZES)
CPU = torch.device("cpu")


def facts() -> Facts:
    words = Vocabulary.of([f"e{n}" for n in range(7)], [f"c{n}" for n in range(5)], ["p", "q"])
    return Facts.of(words, [(0, 0, 1), (2, 1, 2), (3, 0, 4)], [(0, 0), (5, 3), (6, 1)], [(0, 1), (1, 2), (4, 0)])


def sampler(seed: int = 0) -> Sampler:
    return Sampler(NegativesConfig(), torch.Generator().manual_seed(seed))


def drawn(source: LinkSource, times: int = 1) -> list[tuple[int, ...]]:
    """Every link of the source, as drawn so many times."""
    made, rows = sampler(), torch.arange(len(source))
    return [tuple(link) for _ in range(times) for link in source.draw(rows, made).first.tolist()]


def test_links_to_entities_are_assertions_in_both_directions() -> None:
    source, _ = link_sources(facts(), 0, CPU)
    assert source.task is Task.ENTITY
    assert sorted(drawn(source)) == [(0, 1, 0), (0, 4, 3), (1, 0, 1), (1, 3, 4), (2, 2, 2), (3, 2, 2)]


def test_typings_lead_to_the_concept_and_its_ancestors_and_to_nothing_else() -> None:
    _, source = link_sources(facts(), 0, CPU)
    assert source.task is Task.INSTANTIATION
    found = drawn(source, 50)
    typings = {(near, far - 7) for relation, near, far in found if relation == PLACES.concepts_of}
    assert typings == {(0, 0), (0, 1), (0, 2), (5, 3), (6, 1), (6, 2)}  # 4 is below 0, and never drawn
    counts = [sum(link[1] == entity for link in found if link[0] == PLACES.concepts_of) for entity in (0, 5, 6)]
    assert counts == [100, 50, 100]  # twice in an epoch where there are super-concepts
    wider = {(near - 7, far - 7) for relation, near, far in found if relation == PLACES.wider}
    narrower = {(near - 7, far - 7) for relation, near, far in found if relation == PLACES.narrower}
    assert wider == {(0, 1), (1, 2), (4, 0)}
    assert narrower == {(above, below) for below, above in wider}
    assert len(found) == 50 * (5 + 3 + 3)


def test_what_is_drawn_depends_on_the_generator_alone() -> None:
    _, source = link_sources(facts(), 2, CPU)
    rows = torch.arange(len(source))
    one, again, other = (source.draw(rows, sampler(seed)) for seed in (1, 1, 2))
    assert torch.equal(one.first, again.first)
    assert torch.equal(one.second, again.second)
    assert not (torch.equal(one.first, other.first) and torch.equal(one.second, other.second))


def test_facts_of_one_kind_alone_make_one_source() -> None:
    words = facts().vocabulary
    assert [source.task for source in link_sources(Facts.of(words, [(0, 0, 1)]), 0, CPU)] == [Task.ENTITY]
    assert [source.task for source in link_sources(Facts.of(words, [], [(0, 1)]), 0, CPU)] == [Task.INSTANTIATION]
    assert link_sources(Facts.of(words), 0, CPU) == []


@pytest.mark.parametrize(("candidates", "count"), [(3, 3), (5, 0), (9, 0), (0, 0)])
def test_candidates_are_of_the_kind_that_a_link_leads_to(candidates: int, count: int) -> None:
    """As many as there are, or more, are all of them."""
    _, source = link_sources(facts(), candidates, CPU)
    found = source.draw(torch.tensor([0, 2]), sampler()).second
    assert len(found) == count
    assert all(PLACES.concepts.start <= node < PLACES.concepts.stop for node in found.tolist())
    assert source.cells(0) == (count or 5)


@pytest.mark.parametrize("drawn_nodes", [None, [7, 8, 11, 8]])
def test_sparse_and_dense_gradients_agree(drawn_nodes: list[int] | None) -> None:
    torch.manual_seed(0)
    predictor = Complex(ComplexConfig(rank=4, initial=0.5), SIZES)
    random = np.random.default_rng(1)
    links = torch.from_numpy(random.integers(0, [PLACES.directed, 7, 5], (9, 3))) + torch.tensor([0, 0, 7])
    candidates = torch.tensor(drawn_nodes) if drawn_nodes else None
    gradients = []
    for sparse in (False, True):
        predictor.zero_grad()
        predictor.loss(links, PLACES.concepts, candidates, sparse).backward()
        grad = predictor.nodes.grad
        assert grad is not None
        assert grad.is_sparse == sparse
        gradients.append((grad.to_dense().clone(), predictor.relations.grad.clone()))  # type: ignore[union-attr]
    torch.testing.assert_close(*gradients)
    touched = set(links[:, 1:].flatten().tolist()) | set(drawn_nodes or range(7, 12))
    assert {row for row in range(12) if gradients[0][0][row].any()} <= touched
