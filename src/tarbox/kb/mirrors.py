"""Facts that say the same: both ways of a symmetric relation, a relation and its inverse, two names of one relation."""

from __future__ import annotations

from typing import Final

import numpy as np

from tarbox.kb.arrays import Places
from tarbox.kb.facts import Facts
from tarbox.kb.rows import pair_keys, ranges

MOSTLY: Final = 0.5
"""Relations say the same where more of the facts of each than this have their counterpart: it is likelier there than
not. Graphs leave a gap around it (ADR 61)."""


def first_saying(facts: Facts) -> Places:
    """[A] of each assertion the place of the first that says the same of the same two entities, mostly itself.

    What axioms make symmetric, inverse or equivalent is seen by the facts that were inferred.
    """
    heads, relations, tails = facts.heads, facts.relations, facts.tails
    low, high = np.minimum(heads, tails), np.maximum(heads, tails)
    pairs = pair_keys(low, high, len(facts.vocabulary.entities))
    order = np.lexsort((relations, pairs))
    order = order[heads[order] != tails[order]]
    here = np.arange(len(order))
    last = np.searchsorted(pairs[order], pairs[order], side="right")
    one, other = (order[places] for places in ranges(here + 1, last - here - 1))
    turned = (heads[one] < tails[one]) != (heads[other] < tails[other])
    kinds, kind, counts = np.unique(
        2 * pair_keys(relations[one], relations[other], len(facts.vocabulary.relations)) + turned,
        return_inverse=True,
        return_counts=True,
    )
    first, second = np.divmod(kinds // 2, max(len(facts.vocabulary.relations), 1))
    sizes = np.bincount(relations, minlength=1)
    share = np.where(first == second, 2, 1) * counts / np.maximum(sizes[first], sizes[second])
    same = (share > MOSTLY)[kind]
    found, before = np.arange(len(heads)), np.empty(0, np.int64)
    while not np.array_equal(found, before):
        before = found.copy()
        np.minimum.at(found, other[same], found[one[same]])
        np.minimum.at(found, one[same], found[other[same]])
    return found
