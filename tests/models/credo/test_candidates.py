"""Candidate facts and their features: none of them known, each of them once."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from uncertain import Maker, World

from tarbox.kb.facts import Facts
from tarbox.kb.rows import TripleKeys
from tarbox.kb.vocabulary import Vocabulary
from tarbox.models.complex import Complex, ComplexConfig
from tarbox.models.credo import candidates as module
from tarbox.models.credo.candidates import (
    LEAST_LIKELY,
    LEAST_SHARE,
    Pool,
    Scope,
    Totals,
    candidate_links,
    candidate_typings,
)
from tarbox.models.credo.evidence import Evidence
from tarbox.models.credo.features import LINK_FEATURES, TYPING_FEATURES
from tarbox.models.saved import sizes_of

seeds = st.integers(0, 1 << 32)
some = settings(max_examples=15, deadline=None, derandomize=True)


def given_(seed: int, **sizes: int) -> tuple[World, Complex, Evidence]:
    world = Maker(seed, **sizes).world(uncertain=False, dense=0.5)
    return world, predictor(world.facts), Evidence.of(world.facts)


def predictor(facts: Facts) -> Complex:
    torch.manual_seed(1)
    return Complex(ComplexConfig(rank=4, initial=0.7), sizes_of(facts))


def softmax(scores: np.ndarray) -> np.ndarray:
    shares: np.ndarray = np.exp(scores - scores.max())
    return shares / shares.sum()


def table(model: Complex) -> np.ndarray:
    """[D, nodes, nodes] the scores of all links."""
    nodes, ways = (torch.complex(*part.detach().chunk(2, -1)) for part in (model.nodes, model.relations))
    return torch.einsum("yk,dk,xk->dyx", nodes, ways, nodes.conj()).real.numpy().astype(np.float64)


@some
@given(seeds)
def test_links_are_those_with_a_share_seen_from_either_end(seed: int) -> None:
    """Of an entity that has the relation or may have it, every fact that is not known with the least share at least;
    none from an entity to itself where there is no such fact."""
    world, model, evidence = given_(seed)
    known = {(relation, head, tail) for relation, head, tail in world.all_links()}
    scores = table(model)
    for relation, (keys, features) in enumerate(candidate_links(model, evidence)):
        wanted = {}
        for way in (2 * relation, 2 * relation + 1):
            likely = evidence.signatures.relation(way)
            for near in range(7):
                pairs = [(far, near) if way % 2 == 0 else (near, far) for far in range(7)]
                has = any((relation, *pair) in known for pair in pairs)
                free = [far for far in range(7) if (relation, *pairs[far]) not in known]
                if free and (has or likely[near] >= module.LEAST_LIKELY):
                    for far, share in zip(free, softmax(scores[way, near, free]), strict=True):
                        if share > LEAST_SHARE:
                            wanted[pairs[far]] = max(wanted.get(pairs[far], 0.0), share)
        if not any((relation, near, near) in known for near in range(7)):
            wanted = {pair: share for pair, share in wanted.items() if pair[0] != pair[1]}
        of, head, tail = TripleKeys(7).decode(keys)
        found = list(zip(head.tolist(), tail.tolist(), strict=True))
        assert set(of.tolist()) <= {relation}
        assert found == sorted(set(found))
        assert set(found) == set(wanted)
        assert not any((relation, *pair) in known for pair in found)
        assert features.shape == (len(keys), len(LINK_FEATURES))
        names = list(LINK_FEATURES)
        shares = features[:, [names.index("share of the tail"), names.index("share of the head")]]
        for pair, row in zip(found, shares, strict=True):
            assert np.exp(row.max()) == pytest.approx(wanted[pair], rel=1e-3)


@some
@given(seeds)
def test_typings_are_not_known_and_each_is_there_once(seed: int) -> None:
    world, model, evidence = given_(seed, concepts=6)
    known, scores = world.all_typings(), table(model)
    members = {concept for _, concept in known}
    (keys, features), *more = candidate_typings(model, evidence)
    assert not more
    found = [divmod(key, 6) for key in keys.tolist()]
    assert found == sorted(set(found))
    assert not set(found) & set(known)
    assert {concept for _, concept in found} <= members  # a concept without instances is no candidate
    assert features.shape == (len(keys), len(TYPING_FEATURES))
    raw = features[:, list(TYPING_FEATURES).index("score of the concept")]
    for (entity, concept), score in zip(found, raw.tolist(), strict=True):
        assert score == pytest.approx(scores[6, entity, 7 + concept], rel=1e-3, abs=1e-4)
    for entity in range(7):
        free = [concept for concept in sorted(members) if (entity, concept) not in known]
        if free:
            shares = softmax(scores[6, entity, [7 + concept for concept in free]])
            strong = {(entity, c) for c, share in zip(free, shares, strict=True) if share > LEAST_SHARE}
            assert strong <= set(found)


@some
@given(seeds)
def test_features_are_finite_and_in_the_order_of_their_names(seed: int) -> None:
    world, model, evidence = given_(seed, concepts=6)
    sizes = np.bincount(world.facts.relations, minlength=3)
    for relation, (_, features) in enumerate(candidate_links(model, evidence)):
        assert np.isfinite(features).all()
        if len(features):
            column = features[:, list(LINK_FEATURES).index("assertions of the relation")]
            np.testing.assert_allclose(column, np.log1p(sizes[relation]), rtol=1e-5)
    members = [sum(concept == c for _, c in world.all_typings()) for concept in range(6)]
    for keys, features in candidate_typings(model, evidence):
        assert np.isfinite(features).all()
        column = features[:, list(TYPING_FEATURES).index("instances of the concept")]
        np.testing.assert_allclose(column, np.log1p([members[key % 6] for key in keys.tolist()]), rtol=1e-5)


def test_blocks_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    _, model, evidence = given_(5)
    whole = [*candidate_links(model, evidence)], [*candidate_typings(model, evidence)]
    monkeypatch.setattr(module, "_SCORES", {"cpu": 20})
    parts = [*candidate_links(model, evidence)], [*candidate_typings(model, evidence)]
    assert len(parts[1]) > 1
    for one, other in zip(whole, parts, strict=True):
        assert np.concatenate([keys for keys, _ in one]).tolist() == np.concatenate([k for k, _ in other]).tolist()
        np.testing.assert_allclose(
            *(np.concatenate([features for _, features in side]) for side in (one, other)), rtol=1e-4, atol=1e-5
        )


def test_the_pool_has_what_is_reached_most_often() -> None:
    counts = np.array([3, 0, 5, 1, 0, 4])
    whole = Pool.of(counts, 10, 6, needed=False)
    assert (whole.ids, len(whole)) == (None, 6)
    assert Pool.of(counts, 10, 6, needed=True).ids.tolist() == [0, 2, 3, 5]  # type: ignore[union-attr]
    pool = Pool.of(counts, 10, 2, needed=False)
    assert pool.ids is not None
    assert pool.ids.tolist() == [2, 5]
    assert pool.nodes(torch.zeros(1)).tolist() == [12, 15]  # type: ignore[union-attr]
    assert pool.names(np.array([1, 0])).tolist() == [5, 2]
    inside, columns = pool.columns(np.array([0, 5, 2], np.int32))
    assert (inside.tolist(), columns.tolist()) == ([False, True, True], [1, 0])


def test_beyond_the_pool_nothing_is_a_candidate(monkeypatch: pytest.MonkeyPatch) -> None:
    world, model, evidence = given_(4)
    monkeypatch.setattr(module, "_POOL", 2)
    monkeypatch.setattr(module, "_CELLS", {"cpu": (1, 1)})
    for relation, (keys, _) in enumerate(candidate_links(model, evidence)):
        _, head, tail = TripleKeys(7).decode(keys)
        own = world.facts.relations == relation
        pools = []
        for column in (world.facts.heads, world.facts.tails):
            counts = np.bincount(column[own], minlength=7)
            pools.append(set(np.argsort(-counts, kind="stable")[:2].tolist()))
        pairs = set(zip(head.tolist(), tail.tolist(), strict=True))
        assert all(h in pools[0] or t in pools[1] for h, t in pairs)
        known = set(zip(world.facts.heads[own].tolist(), world.facts.tails[own].tolist(), strict=True))
        assert not pairs & known


def test_a_question_has_a_limited_number_of_candidates(monkeypatch: pytest.MonkeyPatch) -> None:
    scores = torch.tensor([[3.0, 2.9, 2.8, -9.0], [0.0, 0.0, -20.0, 1.0]])
    rows, columns = module._strongest(scores, torch.logsumexp(scores, 1), 2)
    found = sorted(zip(rows.tolist(), columns.tolist(), strict=True))
    assert found[:2] == [(0, 0), (0, 1)]
    assert [row for row, _ in found] == [0, 0, 1, 1]
    assert (1, 3) in found


@pytest.mark.parametrize("concepts", [0, 1])
def test_little_or_nothing(concepts: int) -> None:
    words = Vocabulary.of(["a"], [f"c{n}" for n in range(concepts)], ["p"])
    for facts in (Facts.of(words), Facts.of(words, [(0, 0, 0)], [(0, 0)][:concepts])):
        model, evidence = predictor(facts), Evidence.of(facts)
        for keys, features in [*candidate_links(model, evidence), *candidate_typings(model, evidence)]:
            assert (len(keys), len(features)) == (0, 0)


@some
@given(seeds)
def test_a_scope_changes_nothing_but_what_is_asked(seed: int) -> None:
    """With every entity new, all is asked as without a scope. With one new and the totals of the others known, its
    facts are found with the same features, and no others."""
    _, model, evidence = given_(seed)
    sums: list[np.ndarray] = []
    whole = dict(enumerate(candidate_links(model, evidence, totals=sums)))
    nothing = np.empty(0, np.int64)
    for new in (np.ones(7, np.bool_), np.arange(7) == 3):
        scope = Scope(new, nothing, Totals.of(sums), new)
        for relation, (keys, features) in enumerate(candidate_links(model, evidence, scope=scope)):
            _, head, tail = TripleKeys(7).decode(whole[relation][0])
            likely = [
                (evidence.signatures.relation(way) >= LEAST_LIKELY)
                | np.isin(np.arange(7), evidence.known_links(way)[0])
                for way in (2 * relation + 1, 2 * relation)
            ]
            own = (new & likely[0])[head] | (new & likely[1])[tail]
            assert keys.tolist() == whole[relation][0][own].tolist()
            np.testing.assert_allclose(features, whole[relation][1][own], rtol=1e-4, atol=1e-5)
