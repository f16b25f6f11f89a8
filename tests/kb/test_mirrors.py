"""Facts that say the same, against a plain version, and how they are held out."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tarbox.kb.axioms import Axiom
from tarbox.kb.facts import Facts
from tarbox.kb.mirrors import first_saying
from tarbox.kb.reasoning.inference import InferenceMode, infer_individuals
from tarbox.kb.splits import hold_out
from tarbox.kb.vocabulary import Vocabulary

Triple = tuple[int, int, int]
MOSTLY = 0.5


def facts_of(triples: set[Triple], entities: int, relations: int = 3) -> Facts:
    words = Vocabulary.of([f"e{n:04}" for n in range(entities)], [], [f"r{n}" for n in range(relations)])
    return Facts.of(words, sorted(triples))


def triples(facts: Facts) -> list[Triple]:
    return list(zip(facts.heads.tolist(), facts.relations.tolist(), facts.tails.tolist(), strict=True))


def groups(facts: Facts) -> set[frozenset[Triple]]:
    found: dict[int, set[Triple]] = {}
    for triple, first in zip(triples(facts), first_saying(facts, MOSTLY).tolist(), strict=True):
        found.setdefault(first, set()).add(triple)
    return {frozenset(group) for group in found.values()}


def plain_groups(facts: Facts, relations: int) -> set[frozenset[Triple]]:
    every = set(triples(facts))
    own = [{(h, t) for h, r, t in every if r == relation and h != t} for relation in range(relations)]
    sizes = [sum(r == relation for _, r, _ in every) for relation in range(relations)]
    together = {triple: {triple} for triple in every}

    def join(one: Triple, other: Triple) -> None:
        if together[one] is not together[other]:
            together[one] |= together[other]
            for triple in together[other]:
                together[triple] = together[one]

    for one in range(relations):
        for other in range(one, relations):
            for turn in (False, True):
                seen = {(t, h) for h, t in own[other]} if turn else own[other]
                both = own[one] & seen
                if (one != other or turn) and len(both) > MOSTLY * max(sizes[one], sizes[other]):
                    for h, t in both:
                        join((h, one, t), (t, other, h) if turn else (h, other, t))
    return {frozenset(group) for group in together.values()}


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 1 << 30), st.integers(0, 40), st.integers(2, 8))
def test_what_says_the_same_as_a_plain_version_finds_it(seed: int, size: int, entities: int) -> None:
    random = np.random.default_rng(seed)
    drawn = {tuple(row) for row in random.integers(0, [entities, 3, entities], (size, 3)).tolist()}
    share, turned = random.random(), bool(random.integers(2))
    for head, relation, tail in sorted(drawn):
        if relation < 2 and random.random() < share:
            ends = (tail, head) if turned or relation == 0 else (head, tail)
            drawn.add((ends[0], 2 * relation, ends[1]))
    facts = facts_of(drawn, entities)
    assert groups(facts) == plain_groups(facts, 3)


def test_axioms_are_seen_by_what_they_infer() -> None:
    """Of a symmetric relation few facts are stated both ways, yet those are one statement."""
    pairs = list(combinations(range(20), 2))
    stated = {(a, 0, b) for a, b in pairs} | {(b, 0, a) for a, b in pairs[::4]}
    facts = facts_of(stated, 20)
    assert len(groups(facts)) == len(facts.heads)
    axioms: tuple[Axiom, ...] = (("SymmetricObjectProperty", facts.vocabulary.relations.iris[0].as_py()),)
    whole = infer_individuals(facts, axioms, InferenceMode.OWL)[0]
    assert len(groups(whole)) == len(pairs)
    shares = []
    for seed in range(10):
        kept = hold_out(whole, seed, 0.5)
        assert all((tail, relation, head) in set(triples(kept)) for head, relation, tail in triples(kept))
        shares.append(len(kept.heads) / len(whole.heads))
    assert np.mean(shares) == pytest.approx(0.5, abs=0.1)


@pytest.mark.parametrize("alone", [0.0, 0.05, 0.3])
@pytest.mark.parametrize("other", [0, 1], ids=["symmetric", "inverse"])
def test_mirrored_facts_are_missing_together_and_as_often_as_they_are_alone_apart(other: int, alone: float) -> None:
    random = np.random.default_rng(0)
    pairs = {(int(a), int(b)) for a, b in random.integers(0, 200, (6000, 2)) if a < b}
    single = set(sorted(pairs)[: round(len(pairs) * alone)])
    stated = {(a, 0, b) for a, b in pairs} | {(b, other, a) for a, b in pairs - single}
    kept = set(triples(hold_out(facts_of(stated, 200, 2 if other else 1), 0, 0.1)))
    missing = [((a, 0, b) not in kept) + ((b, other, a) not in kept) for a, b in pairs - single]
    both, one = (missing.count(count) / len(missing) for count in (2, 1))
    rates = [len(single) / (2 * len(pairs) - len(single))] * 2 if other == 0 else [len(single) / len(pairs), 0.0]
    low, high = rates
    if alone > 0.1:  # so many are alone that they are missing one by one
        assert both == pytest.approx(0.01, abs=0.01)
        assert one == pytest.approx(0.18, abs=0.03)
        return
    assert both == pytest.approx(0.1 + 0.9 * low * high, abs=0.03)
    assert one == pytest.approx(0.9 * (low + high - 2 * low * high), abs=0.03)


def test_a_name_gets_all_back_that_says_the_same() -> None:
    facts = facts_of({(0, 0, 1), (1, 0, 0), (2, 0, 3), (3, 0, 2)}, 4, 1)
    assert triples(hold_out(facts, 0, 0.99)) == triples(facts)
