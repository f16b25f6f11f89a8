"""What a graph says of its entities, against counting by hand and a regression for each column."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import tarbox.models.evidence
from tarbox.kb.closure import Instances
from tarbox.kb.facts import Facts
from tarbox.kb.vocabulary import Vocabulary
from tarbox.models.evidence import BLOCK, Counts, Evidence, distinct, fit_linear

ENTITIES, CONCEPTS, RELATIONS = 30, 6, 3


@pytest.fixture(scope="module")
def facts() -> Facts:
    random = np.random.default_rng(4)
    words = Vocabulary.of(
        [f"e{n:02}" for n in range(ENTITIES)],
        [f"c{n}" for n in range(CONCEPTS)],
        [f"r{n}" for n in range(RELATIONS)],
    )
    assertions = random.integers(0, [ENTITIES, RELATIONS, ENTITIES], (90, 3)).tolist()
    typings = random.integers(0, [ENTITIES, CONCEPTS], (40, 2)).tolist()
    return Facts.of(words, map(tuple, assertions), map(tuple, typings), [(0, 1), (1, 2)])


@pytest.fixture(scope="module")
def evidence(facts: Facts) -> Evidence:
    return Evidence.of(facts)


def directed(facts: Facts) -> list[tuple[int, int, int]]:
    """(directed relation, from, to) of every assertion, both ways."""
    triples = zip(facts.heads.tolist(), facts.relations.tolist(), facts.tails.tolist(), strict=True)
    return [link for h, r, t in triples for link in ((2 * r, t, h), (2 * r + 1, h, t))]


@given(st.lists(st.integers(0, 9)), st.lists(st.integers(0, 12)))
def test_counts(keys: list[int], asked: list[int]) -> None:
    counts = Counts.of(np.array(keys, np.int64))
    wanted = Counter(keys)
    assert counts[np.array(asked, np.int64)].tolist() == [wanted[key] for key in asked]
    assert distinct(np.array(keys, np.int64)).tolist() == sorted(wanted)


def test_links_and_how_often_they_occur(facts: Facts, evidence: Evidence) -> None:
    links = directed(facts)
    having, reached = Counter((d, y) for d, y, _ in links), Counter((d, x) for d, _, x in links)
    for relation in range(2 * RELATIONS):
        keys = relation * ENTITIES + np.arange(ENTITIES)
        assert evidence.having[keys].tolist() == [having[relation, entity] for entity in range(ENTITIES)]
        assert evidence.reached[keys].tolist() == [reached[relation, entity] for entity in range(ENTITIES)]
        near, far = evidence.links(relation)
        assert sorted(zip(near.tolist(), far.tolist(), strict=True)) == sorted(
            (y, x) for d, y, x in links if d == relation
        )
        assert (np.diff(near) >= 0).all()


def test_who_has_a_relation_is_plausible_and_who_is_likely_to(facts: Facts, evidence: Evidence) -> None:
    for relation in range(2 * RELATIONS):
        have = {y for d, y, _ in directed(facts) if d == relation}
        assert set(evidence.plausible(relation, 2.0).tolist()) == have
        likely = set(np.flatnonzero(evidence.relations_ED[:, relation] >= 0.3).tolist())
        assert set(evidence.plausible(relation, 0.3).tolist()) == have | likely


def regressions(rows: np.ndarray, shrinkage: float) -> np.ndarray:
    """[F, F] a ridge regression of every column on the others, one after the other."""
    width = rows.shape[1]
    found = np.zeros((width, width))
    for column in range(width):
        others = np.delete(np.arange(width), column)
        given = rows[:, others].astype(np.float64)
        products = given.T @ given + shrinkage * np.eye(width - 1)
        found[others, column] = np.linalg.solve(products, given.T @ rows[:, column])
    return found


@pytest.mark.parametrize("shrinkage", [0.5, 20.0])
@pytest.mark.parametrize("height", [3, 200, BLOCK + 5])
def test_weights_are_those_of_a_ridge_regression_for_each_column(height: int, shrinkage: float) -> None:
    rows = (np.random.default_rng(height).random((height, 9)) < np.linspace(0.1, 0.9, 9)).astype(np.uint8)
    found = fit_linear(torch.from_numpy(rows), shrinkage).numpy()
    np.testing.assert_allclose(found, regressions(rows, shrinkage), rtol=1e-4, atol=1e-5)


def test_of_no_columns_there_are_no_weights() -> None:
    assert fit_linear(torch.zeros(4, 0, dtype=torch.uint8)).shape == (0, 0)


def signature(facts: Facts) -> np.ndarray:
    found = np.zeros((ENTITIES, 2 * RELATIONS + CONCEPTS), np.uint8)
    for relation, near, _ in directed(facts):
        found[near, relation] = 1
    typed, types = Instances.of(facts).concepts_of.coordinates()
    found[typed, 2 * RELATIONS + types] = 1
    return found


def test_a_signature_is_predicted_from_the_rest_of_it(facts: Facts, evidence: Evidence) -> None:
    rows = signature(facts)
    wanted = rows @ regressions(rows, 20.0)
    np.testing.assert_allclose(evidence.relations_ED, wanted[:, : 2 * RELATIONS], rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(evidence.concepts_EC, wanted[:, 2 * RELATIONS :], rtol=1e-4, atol=1e-5)


def test_of_too_many_concepts_the_largest_are_kept(facts: Facts, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tarbox.models.evidence, "WIDEST", 2 * RELATIONS + 2)
    members = Instances.of(facts).entities_of.sizes()
    largest = np.sort(np.argsort(-members, kind="stable")[:2])
    rows = signature(facts)[:, [*range(2 * RELATIONS), *(2 * RELATIONS + largest)]]
    wanted = np.zeros((ENTITIES, CONCEPTS))
    wanted[:, largest] = (rows @ regressions(rows, 20.0))[:, 2 * RELATIONS :]
    np.testing.assert_allclose(Evidence.of(facts).concepts_EC, wanted, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("words", [([], [], []), (["a"], [], []), (["a", "b"], ["C"], ["p"])])
def test_a_graph_without_facts(words: tuple[list[str], list[str], list[str]]) -> None:
    evidence = Evidence.of(Facts.of(Vocabulary.of(*words)))
    assert evidence.relations_ED.shape == (len(words[0]), 2 * len(words[2]))
    assert (evidence.concepts_EC == 0).all()
