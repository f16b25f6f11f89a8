"""Facts that say the same: both ways of a symmetric relation, a relation and its inverse, two names of one relation."""

from __future__ import annotations

import numpy as np

from tarbox.kb.arrays import Places
from tarbox.kb.facts import Facts
from tarbox.kb.rows import pair_keys, ranges, unordered_keys


def first_saying(facts: Facts, least: float) -> Places:
    """[A] of each assertion the place of the first that says the same of the same two entities, mostly itself.

    Relations say the same where a greater share than `least` of the facts of each has its counterpart (ADR 49).
    What axioms make symmetric, inverse or equivalent is seen by the facts that were inferred.
    """
    heads, relations, tails = facts.heads, facts.relations, facts.tails
    pairs = unordered_keys(heads, tails, len(facts.vocabulary.entities))
    order = np.lexsort((relations, pairs))
    order = order[heads[order] != tails[order]]
    here, width = np.arange(len(order)), len(facts.vocabulary.relations)
    last = np.searchsorted(pairs[order], pairs[order], side="right")
    one, other = (order[places] for places in ranges(here + 1, last - here - 1))
    turned = (heads[one] < tails[one]) != (heads[other] < tails[other])
    kinds = 2 * pair_keys(relations[one], relations[other], width) + turned
    kinds, kind, counts = np.unique(kinds, return_inverse=True, return_counts=True)
    first, second = np.divmod(kinds // 2, max(width, 1))
    sizes = np.bincount(relations, minlength=width)
    share = np.where(first == second, 2, 1) * counts / np.maximum(sizes[first], sizes[second])
    same = (share > least)[kind]
    one, other, found = one[same], other[same], np.arange(len(heads))
    while np.any(found[one] != found[other]):
        np.minimum.at(found, other, found[one])
        np.minimum.at(found, one, found[other])
    return found
