"""New entities with fewer facts than others are taken to lack more of theirs."""

from __future__ import annotations

import numpy as np
import pytest

from tarbox.kb.facts import Facts
from tarbox.kb.rows import TripleKeys
from tarbox.kb.vocabulary import Vocabulary
from tarbox.models.credo.candidates import Totals
from tarbox.models.credo.holdout import Predicted
from tarbox.models.credo.updating import presume_missing

RATE = 0.1
SIZE = 6
NEW = np.arange(SIZE) >= 4


def world(of_new: int) -> Facts:
    """Four old entities with eight facts each, and two new ones with so many, with each other."""
    words = Vocabulary.of([f"urn:e{n}" for n in range(SIZE)], ["urn:c0", "urn:c1"], [f"urn:r{n}" for n in range(16)])
    old = [(head, relation, (head + 1) % 4) for head in range(4) for relation in range(4)]
    new = [(4, relation, 5) for relation in range(of_new)]
    return Facts.of(words, old + new, [(entity, 0) for entity in range(SIZE)])


def shift(facts: Facts, new: np.ndarray = NEW) -> tuple[np.ndarray, np.ndarray]:
    """What becomes of 0.2, of a link between old entities, one to a new one, and of typings of both."""
    keys = TripleKeys(SIZE).encode(np.array([5, 5]), np.array([0, 0]), np.array([2, 4]))
    pairs = np.array([2 * 0 + 1, 2 * 4 + 1])
    fifths = np.full(2, 0.2, np.float32)
    totals = Totals(np.empty(0, np.int64), np.empty(0, np.float32))
    found = presume_missing(Predicted((keys, fifths), (pairs, fifths), totals), facts, new, RATE)
    assert (found.links[0] == keys).all()
    assert (found.typings[0] == pairs).all()
    return found.links[1], found.typings[1]


@pytest.mark.parametrize(("of_new", "missing"), [(8, 0.1), (12, 0.1), (6, 0.325), (2, 0.5)])
def test_odds_grow_as_what_is_missing_does(of_new: int, missing: float) -> None:
    """6 of 8 facts, of which a tenth was missing, leave 1 - 6 / 8 * 0.9 missing; more than half is not taken to be."""
    links, typings = shift(world(of_new))
    odds = 0.25 * missing / RATE
    np.testing.assert_allclose(links, [0.2, odds / (1 + odds)], rtol=1e-5)
    np.testing.assert_allclose(typings, 0.2, rtol=1e-6)  # of types all have as many


@pytest.mark.parametrize("new", [np.zeros(SIZE, np.bool_), np.ones(SIZE, np.bool_)])
def test_without_old_or_new_entities_nothing_changes(new: np.ndarray) -> None:
    links, typings = shift(world(2), new)
    np.testing.assert_allclose(np.concatenate([links, typings]), 0.2, rtol=1e-6)
