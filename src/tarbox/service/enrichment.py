"""Which concepts a set of entities is rich in: the hypergeometric test, corrected for many tests.

A set of n typed entities is drawn from N; a concept has K instances, k of them in the set. The p-value is the
probability of k or more under a draw without regard to the concept. Every concept with an instance is one test; the
q-values are Benjamini and Hochberg's (1995), which bound the expected share of false discoveries.
"""

from __future__ import annotations

import math

import numpy as np

from tarbox.kb.arrays import Doubles, Places

_log_gamma = np.vectorize(math.lgamma, otypes=[np.float64])


def upper_tail(drawn_inside: Places, inside: Places, drawn: int, population: int) -> Doubles:
    """[C] P(X >= k) where `drawn` of `population` are taken and `inside` [C] of them count; k is `drawn_inside` [C].

    Sums the terms from k upwards relative to the first one, whose logarithm is exact enough for any size.
    """
    k, size = drawn_inside.astype(np.float64), inside.astype(np.float64)
    first = (
        _log_choose(size, k)
        + _log_choose(population - size, drawn - k)
        - _log_choose(np.float64(population), np.float64(drawn))
    )
    log_tail = first + np.log(_relative_tail(k, size, drawn, population))
    tail: Doubles = np.where(drawn_inside <= 0, 1.0, np.exp(np.minimum(log_tail, 0.0)))
    return tail


def adjust(p_values: Doubles) -> Doubles:
    """[C] Benjamini-Hochberg q-values: p times the number of tests over the rank, made monotone."""
    tests = len(p_values)
    order = np.argsort(p_values)[::-1]
    scaled = p_values[order] * tests / np.arange(tests, 0, -1)
    adjusted = np.empty(tests)
    adjusted[order] = np.minimum(np.minimum.accumulate(scaled), 1.0)
    return adjusted


def _relative_tail(k: Doubles, size: Doubles, drawn: int, population: int) -> Doubles:
    """[C] the sum of the terms from k on, as a multiple of the term at k."""
    total, term = np.ones_like(k), np.ones_like(k)
    active = np.flatnonzero(k < np.minimum(size, drawn))
    at = k.copy()
    with np.errstate(over="ignore"):
        while len(active):
            i, inside = at[active], size[active]
            ratio = (inside - i) * (drawn - i) / ((i + 1) * (population - inside - drawn + i + 1))
            term[active] *= ratio
            total[active] += term[active]
            at[active] += 1
            more = (at[active] < np.minimum(inside, drawn)) & ((ratio >= 1) | (term[active] > 1e-17 * total[active]))
            active = active[more]
    return total


def _log_choose(n: Doubles | np.float64, k: Doubles | np.float64) -> Doubles:
    found: Doubles = _log_gamma(n + 1) - _log_gamma(k + 1) - _log_gamma(n - k + 1)
    return found
