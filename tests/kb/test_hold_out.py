"""Facts held out to fit probabilities on: about a share of them, and no name is left without a fact."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tarbox.kb.closure import Hierarchy
from tarbox.kb.facts import Facts
from tarbox.kb.splits import hold_out
from tarbox.kb.vocabulary import Vocabulary


def random_facts(seed: int, entities: int = 40, assertions: int = 200) -> Facts:
    random = np.random.default_rng(seed)
    words = Vocabulary.of(
        [f"e{n:03}" for n in range(entities)], [f"c{n:02}" for n in range(12)], [f"r{n}" for n in range(4)]
    )
    return Facts.of(
        words,
        map(tuple, random.integers(0, [entities, 4, entities], (assertions, 3)).tolist()),
        map(tuple, random.integers(0, [entities, 12], (2 * entities, 2)).tolist()),
        [(low, int(random.integers(0, low))) for low in range(1, 12)],
    )


def triples(facts: Facts) -> set[tuple[int, ...]]:
    return set(zip(facts.heads.tolist(), facts.relations.tolist(), facts.tails.tolist(), strict=True))


def typings(facts: Facts) -> set[tuple[int, ...]]:
    return set(zip(facts.typed.tolist(), facts.types.tolist(), strict=True))


def named(facts: Facts) -> tuple[set[int], set[int], set[int]]:
    """The entities, relations and concepts that assertions and typings are about."""
    entities = set(facts.heads.tolist()) | set(facts.tails.tolist()) | set(facts.typed.tolist())
    return entities, set(facts.relations.tolist()), set(facts.types.tolist())


def most_specific(facts: Facts) -> Facts:
    tree = Hierarchy.of(facts.subs, facts.supers, len(facts.vocabulary.concepts))
    return facts.with_typings(tree.most_specific(facts.typed, facts.types))


@settings(max_examples=50, deadline=None)
@given(st.integers(0, 1 << 30), st.sampled_from([0.01, 0.1, 0.5, 0.9]), st.integers(1, 60))
def test_every_name_keeps_a_fact(seed: int, share: float, assertions: int) -> None:
    facts = random_facts(seed, assertions=assertions)
    kept = hold_out(facts, seed, share)
    assert named(kept) == named(most_specific(facts))
    assert triples(kept) <= triples(facts)
    assert typings(kept) <= typings(most_specific(facts))
    assert (kept.subs.tolist(), kept.supers.tolist()) == (facts.subs.tolist(), facts.supers.tolist())


@pytest.mark.parametrize("share", [0.05, 0.1, 0.3])
def test_about_the_share_is_held_out(share: float) -> None:
    facts = random_facts(0, entities=400, assertions=8000)
    kept = hold_out(facts, 1, share)
    assert 1 - len(kept.heads) / len(facts.heads) == pytest.approx(share, abs=0.02)
    assert 1 - len(kept.typed) / len(most_specific(facts).typed) == pytest.approx(share, abs=0.04)


def test_a_name_keeps_a_fact_at_either_end() -> None:
    """Diseases with a gene or two that lead to them and phenotypes of their own: any of these facts may go."""
    genes, diseases = 200, 200
    words = Vocabulary.of([f"e{n:04}" for n in range(genes + diseases + 5)], [], ["of", "shows"])
    of = [(gene, 0, genes + gene) for gene in range(genes)] + [(gene, 0, genes + gene // 2) for gene in range(genes)]
    shows = [(genes + disease, 1, genes + diseases + way) for disease in range(diseases) for way in range(5)]
    kept = hold_out(Facts.of(words, of + shows), 0, 0.2)
    for relation in (0, 1):
        share = (kept.relations == relation).sum() / (len(of) if relation == 0 else len(shows))
        assert share == pytest.approx(0.8, abs=0.05)


def test_the_same_seed_holds_out_the_same() -> None:
    facts = random_facts(0)
    one, again, other = (hold_out(facts, seed, 0.2) for seed in (5, 5, 6))
    assert (triples(one), typings(one)) == (triples(again), typings(again))
    assert triples(one) != triples(other)


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 1 << 30), st.sampled_from([0.1, 0.5]))
def test_pairs_are_held_out_whole(seed: int, share: float) -> None:
    """Of two entities all facts are kept or none, in either direction, and every name keeps one."""
    facts = random_facts(seed, entities=12, assertions=300)
    kept = hold_out(facts, seed, share, pairs=True)
    lost = {frozenset((head, tail)) for head, _, tail in triples(facts) - triples(kept)}
    assert lost.isdisjoint(frozenset((head, tail)) for head, _, tail in triples(kept))
    assert named(kept) == named(most_specific(facts))


def test_about_the_share_is_held_out_in_pairs() -> None:
    facts = random_facts(0, entities=100, assertions=8000)
    kept = hold_out(facts, 1, 0.1, pairs=True)
    assert 1 - len(kept.heads) / len(facts.heads) == pytest.approx(0.1, abs=0.02)


def test_a_few_facts_or_none() -> None:
    words = Vocabulary.of(["a", "b"], ["c"], ["r"])
    assert len(hold_out(Facts.of(words), 0, 0.5).heads) == 0
    alone = Facts.of(words, [(0, 0, 1)], [(0, 0)])
    kept = hold_out(alone, 0, 0.99)
    assert (triples(kept), typings(kept)) == (triples(alone), typings(alone))
