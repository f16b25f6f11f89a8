"""What is proposed: everything with a noticeable share of the softmax, nothing that is known, nothing twice."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from probability_models import triple_keys, typing_keys

import tarbox.models.proposals
from tarbox.kb.closure import Instances
from tarbox.kb.facts import Facts
from tarbox.kb.vocabulary import Vocabulary
from tarbox.models.complex import Complex, ComplexConfig
from tarbox.models.evidence import Evidence
from tarbox.models.proposals import (
    FLOOR,
    LEAST_LIKELY,
    LEAST_SHARE,
    ConceptShape,
    _strongest,
    _strongest_by_looking,
    _strongest_by_sorting,
    link_features,
    propose_links,
    propose_typings,
    split_triples,
)
from tarbox.models.saved import sizes_of

ENTITIES, CONCEPTS, RELATIONS = 40, 9, 3


@pytest.fixture(scope="module")
def facts() -> Facts:
    random = np.random.default_rng(6)
    words = Vocabulary.of(
        [f"e{n:02}" for n in range(ENTITIES)],
        [f"c{n}" for n in range(CONCEPTS)],
        [f"r{n}" for n in range(RELATIONS)],
    )
    assertions = random.integers(0, [ENTITIES, RELATIONS, ENTITIES], (120, 3)).tolist()
    typings = random.integers(0, [ENTITIES, CONCEPTS], (50, 2)).tolist()
    return Facts.of(words, map(tuple, assertions), map(tuple, typings), [(0, 1), (1, 2), (3, 2), (4, 0), (4, 3)])


def predictor(facts: Facts) -> Complex:
    torch.manual_seed(1)
    return Complex(ComplexConfig(rank=4, initial=1.0), sizes_of(facts)).eval()


@pytest.fixture(scope="module")
def links(facts: Facts) -> Complex:
    return predictor(facts)


@pytest.fixture(scope="module")
def evidence(facts: Facts) -> Evidence:
    return Evidence.of(facts)


def naive_row(links: Complex, relation: int, entity: int, hidden: set[int], reached: slice) -> tuple[set[int], float]:
    """(what has a share above the least, the logarithm of the sum) of one row of the softmax over what is not known."""
    given = (torch.tensor([relation]), torch.tensor([entity]))
    scores = links.scores(links.questions(*given), reached)[0].detach().double().numpy()
    open_ = [place for place in range(len(scores)) if place not in hidden]
    total = float(np.logaddexp.reduce(scores[open_])) if open_ else -np.inf
    return {place for place in open_ if scores[place] - total > np.log(LEAST_SHARE)}, total


def test_links_are_those_with_a_share_in_either_direction(facts: Facts, links: Complex, evidence: Evidence) -> None:
    known = list(zip(facts.heads.tolist(), facts.relations.tolist(), facts.tails.tolist(), strict=True))
    wanted: set[tuple[int, int, int]] = set()
    triples, sums = propose_links(links, evidence)
    for relation in range(RELATIONS):
        for entity in evidence.plausible(2 * relation, LEAST_LIKELY).tolist():  # to heads
            hidden = {h for h, r, t in known if (r, t) == (relation, entity)}
            found, total = naive_row(links, 2 * relation, entity, hidden, links.places.entities)
            wanted |= {(relation, head, entity) for head in found}
            assert sums[np.array([2 * relation * ENTITIES + entity])][0] == pytest.approx(total, rel=1e-4)
        for entity in evidence.plausible(2 * relation + 1, LEAST_LIKELY).tolist():  # to tails
            hidden = {t for h, r, t in known if (r, h) == (relation, entity)}
            found, _ = naive_row(links, 2 * relation + 1, entity, hidden, links.places.entities)
            wanted |= {(relation, entity, tail) for tail in found}
    assert set(zip(*(part.tolist() for part in split_triples(triples, ENTITIES)), strict=True)) == wanted


def test_a_fact_is_proposed_once_and_never_one_that_is_known(facts: Facts, links: Complex, evidence: Evidence) -> None:
    triples, _ = propose_links(links, evidence)
    typings, _ = propose_typings(links, evidence)
    for keys, known in ((triples, triple_keys(facts)), (typings, typing_keys(facts))):
        assert len(keys) > 0
        assert (np.diff(keys) > 0).all()
        assert not np.isin(keys, known).any()


def test_typings_are_those_with_a_share_and_those_that_are_likely(links: Complex, evidence: Evidence) -> None:
    wanted = set()
    for entity in range(ENTITIES):
        hidden = set(evidence.instances.concepts_of[entity].tolist())
        found, _ = naive_row(links, links.places.concepts_of, entity, hidden, links.places.concepts)
        likely = set(np.flatnonzero(evidence.concepts_EC[entity] >= LEAST_LIKELY).tolist()) - hidden
        wanted |= {entity * CONCEPTS + concept for concept in found | likely}
    assert propose_typings(links, evidence)[0].tolist() == sorted(wanted)


@pytest.mark.parametrize("cells", [60, 700, 1 << 26])
def test_blocks_change_nothing(links: Complex, evidence: Evidence, cells: int, monkeypatch: pytest.MonkeyPatch) -> None:
    wanted = (*_everything(links, evidence),)
    monkeypatch.setattr(tarbox.models.proposals, "_CELLS", cells)
    for found, expected in zip(_everything(links, evidence), wanted, strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-4)


def _everything(links: Complex, evidence: Evidence) -> tuple[np.ndarray, ...]:
    triples, sums = propose_links(links, evidence)
    return triples, link_features(links, evidence, triples, sums), *propose_typings(links, evidence)


def test_features_are_finite_and_as_many_of_nothing(facts: Facts, links: Complex, evidence: Evidence) -> None:
    triples, about, typings, types = _everything(links, evidence)
    assert len(about) == len(triples)
    assert len(types) == len(typings)
    assert np.isfinite(about).all()
    assert np.isfinite(types).all()
    nothing = Facts.of(facts.vocabulary)
    none, features, no_typings, no_types = _everything(predictor(nothing), Evidence.of(nothing))
    assert (len(none), features.shape) == (0, (0, about.shape[1]))
    assert no_types.shape == (len(no_typings), types.shape[1])
    bare = Facts.of(Vocabulary.of(["a", "b"], relations=["p"]), [(0, 0, 1)])
    assert _everything(predictor(bare), Evidence.of(bare))[3].shape == (0, types.shape[1])


def test_features_of_links(facts: Facts, links: Complex, evidence: Evidence) -> None:
    """The first are shares and scores in both directions; then come counts."""
    triples, sums = propose_links(links, evidence)
    found = link_features(links, evidence, triples, sums)
    known = list(zip(facts.heads.tolist(), facts.relations.tolist(), facts.tails.tolist(), strict=True))
    for row, (r, h, t) in list(
        enumerate(zip(*(part.tolist() for part in split_triples(triples, ENTITIES)), strict=True))
    )[::7]:
        scores = []
        for d, near, far in ((2 * r + 1, h, t), (2 * r, t, h)):
            question = links.questions(torch.tensor([d]), torch.tensor([near]))
            scores.append(links.scores(question, slice(far, far + 1)).item())
            total = sums[np.array([d * ENTITIES + near])][0]
            share = FLOOR if np.isnan(total) else np.clip(scores[-1] - total, FLOOR, 0)
            assert found[row, len(scores) - 1] == pytest.approx(share, abs=1e-4)
        assert found[row, 2] == pytest.approx(np.logaddexp(found[row, 0], found[row, 1]), abs=1e-5)
        assert found[row, 3:5].tolist() == pytest.approx(scores, abs=1e-4)
        own = [(head, tail) for head, relation, tail in known if relation == r]
        assert found[row, 5] == pytest.approx(np.log1p(sum(head == h for head, _ in own)))
        assert found[row, 6] == pytest.approx(np.log1p(sum(tail == t for _, tail in own)))
        assert found[row, 9] == pytest.approx(np.log1p(sum(tail == t for _, tail in own)))
        assert found[row, 10] == pytest.approx(np.log1p(sum(head == h for head, _ in own)))
        counts = [np.log1p(len({pair[place] for pair in own})) for place in (0, 1)]
        assert found[row, 11] == pytest.approx(np.log1p(len(own)))
        assert found[row, 12:14].tolist() == pytest.approx([np.log1p(len(own)) - count for count in counts], abs=1e-6)


def test_relatives_of_a_typing(facts: Facts, evidence: Evidence) -> None:
    shape, instances = ConceptShape.of(evidence), Instances.of(facts)
    parents = {c: set(instances.hierarchy.parents[c].tolist()) for c in range(CONCEPTS)}
    members = instances.entities_of.sizes()
    pairs = [(e, c) for e in range(ENTITIES) for c in range(CONCEPTS)]
    entities, concepts = (np.array(column) for column in zip(*pairs, strict=True))
    found = shape._relatives(entities.astype(np.int32), concepts.astype(np.int64))
    for row, (e, c) in enumerate(pairs):
        own = set(instances.concepts_of[e].tolist())
        share = len(parents[c] & own) / len(parents[c]) if parents[c] else 1.0
        siblings = sum(any(parent in parents[other] for other in own) for parent in parents[c])
        smallest = min((int(members[parent]) for parent in parents[c]), default=0)
        wanted = [share, siblings, np.log1p(members[c]) - np.log1p(smallest)]
        assert [part[row] for part in found] == pytest.approx(wanted, abs=1e-6)


@given(st.integers(0, 1000), st.integers(0, 6), st.integers(1, 9), st.integers(1, 5), st.floats(0.25, 4))
def test_the_strongest_by_sorting_and_by_looking(seed: int, height: int, width: int, most: int, spread: float) -> None:
    """Both are what a naive sort finds."""
    random = np.random.default_rng(seed)
    scores = torch.from_numpy((spread * random.normal(size=(height, width))).astype(np.float32))
    total = torch.logsumexp(scores, 1)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tarbox.models.proposals, "MOST", most)
        patch.setattr(tarbox.models.proposals, "LEAST_SHARE", 0.1)
        wanted = []
        for row in range(height):
            order = sorted(range(width), key=lambda column: -scores[row, column].item())
            limit = total[row] + float(np.log(0.1))
            wanted += [(row, column) for column in order[:most] if scores[row, column] > limit]
        limits = (total + float(np.log(0.1)))[:, None]
        for rows, columns in (
            _strongest(scores, total),
            _strongest_by_looking(scores, limits),
            _strongest_by_sorting(scores, limits),
        ):
            assert list(zip(rows.tolist(), columns.tolist(), strict=True)) == wanted


def test_where_all_is_known_nothing_is_proposed() -> None:
    words = Vocabulary.of(["a", "b"], ["C"], ["p"])
    facts = Facts.of(words, [(h, 0, t) for h in (0, 1) for t in (0, 1)], [(0, 0), (1, 0)])
    evidence, links = Evidence.of(facts), predictor(facts)
    assert len(propose_links(links, evidence)[0]) == 0
    assert len(propose_typings(links, evidence)[0]) == 0
