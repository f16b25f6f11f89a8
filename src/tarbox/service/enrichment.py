"""Which concepts a set of entities is rich in: the hypergeometric test, corrected for many tests.

A set of n entities is drawn from N; a concept describes K of them, k in the set. The p-value is the probability of k or
more under a draw without regard to the concept. Every concept that describes one of the N is a test; the q-values are
Benjamini and Hochberg's (1995), which bound the expected share of false discoveries. Where descriptions are
probabilities, k and K are their sums, and the p-value is an approximation that errs upwards (ADR 41).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Final, final

import numpy as np
from numpy.typing import NDArray

from tarbox.kb.arrays import Doubles, Flags, Ids, Places
from tarbox.kb.closure import Hierarchy
from tarbox.kb.rows import Rows

SIGNIFICANT: Final = 0.05
_BINS: Final = 102
"""Weights are told apart to a hundredth."""
_STEPS: Final = 60
_log_gamma = np.vectorize(math.lgamma, otypes=[np.float64])
_normal_tail = np.vectorize(lambda z: math.erfc(z / math.sqrt(2)) / 2, otypes=[np.float64])


@final
@dataclass(frozen=True, slots=True)
class SetTests:
    """Of all concepts [C]: how much of the set (`inside`, k) and of the background (`sizes`, K) each describes, its
    p-value and q-value, 1 where there is no test; `drawn` and `population` are n and N, `tests` counts them."""

    inside: NDArray[Any]
    sizes: NDArray[Any]
    drawn: int
    population: int
    p_values: Doubles
    q_values: Doubles
    tests: int

    @classmethod
    def of(cls, descriptions: Rows, members: Ids, background: Ids, width: int) -> SetTests:
        """Of `members`, all of them in the `background`; `descriptions` [E, width] may have probabilities as values."""
        inside, sizes = (_sum_columns(descriptions, chosen, width) for chosen in (members, background))
        tested, hit = np.flatnonzero(sizes > 0), np.flatnonzero(inside > 0)
        p_values, q_values = np.ones(width), np.ones(width)
        if descriptions.values is None:
            p_values[hit] = upper_tail(inside[hit], sizes[hit], len(members), len(background))
        elif len(members) < len(background):
            histogram = _weight_histogram(descriptions, background, hit, width)
            p_values[hit] = weighted_tail(*histogram, inside[hit], len(members))
        q_values[tested] = adjust(p_values[tested])
        return cls(inside, sizes, len(members), len(background), p_values, q_values, len(tested))

    def row(self, concept: int) -> dict[str, Any]:
        """One concept, by the names of `tarbox.service.answers.ConceptAnswer`; the fold is k/n over K/N."""
        k, size, n, everything = int(self.inside[concept]), int(self.sizes[concept]), self.drawn, self.population
        tested = {"p_value": float(self.p_values[concept]), "q_value": float(self.q_values[concept])}
        counts = {"set_count": k, "set_size": n, "background_count": size, "background_size": everything}
        return {**counts, "fold": k * everything / max(n * size, 1), **tested}

    def expected_row(self, concept: int) -> dict[str, Any]:
        """The same, of tests of expected numbers."""
        names = "count", "background_count", "p_value", "q_value"
        values = self.inside, self.sizes, self.p_values, self.q_values
        return {f"expected_{name}": float(column[concept]) for name, column in zip(names, values, strict=True)}

    def redundant(self, hierarchy: Hierarchy) -> Flags:
        """[C] which significant concepts add nothing to a more specific one that is at least as significant: what they
        describe beyond it is not rich in members of the set (p of 0.05 or more). Of equivalents the first stays."""
        significant = np.flatnonzero(self.q_values < SIGNIFICANT)
        origin, below = hierarchy.descendants.gather(significant)
        above = significant[origin]
        equal = hierarchy.group[above] == hierarchy.group[below]
        kept = (
            (self.q_values[below] < SIGNIFICANT)
            & (self.p_values[below] <= self.p_values[above])
            & (~equal | (below < above))
        )
        above, below = above[kept], below[kept]
        inside, sizes = (np.rint(counts).astype(np.int64) for counts in (self.inside, self.sizes))
        rest = upper_tail(
            inside[above] - inside[below],
            sizes[above] - sizes[below],
            self.drawn - inside[below],
            self.population - sizes[below],
        )
        found = np.zeros(len(self.sizes), np.bool_)
        found[above[rest >= SIGNIFICANT]] = True
        return found


def upper_tail(drawn_inside: Places, inside: Places, drawn: int | Places, population: int | Places) -> Doubles:
    """[C] P(X >= k) where `drawn` of `population` are taken and `inside` [C] of them count; k is `drawn_inside` [C].

    Sums the terms from k upwards relative to the first one, whose logarithm is exact enough for any size.
    """
    first, tail = _tail_terms(drawn_inside, inside, drawn, population)
    found: Doubles = np.where(drawn_inside <= 0, 1.0, np.exp(np.minimum(first + np.log(tail), 0.0)))
    return found


def weighted_tail(weights: Doubles, counts: Doubles, drawn_weight: Doubles, drawn: int) -> Doubles:
    """[C] about P(S >= s), where S sums the weights of `drawn` entities: of the population `counts` [C, B] have
    `weights` [C, B], and s is `drawn_weight` [C].

    Skovgaard's double saddlepoint approximation in Barndorff-Nielsen's form (ADR 41), at half a member less than s: so
    it is the hypergeometric tail, to a few percent, where weights are 0 and 1, and errs upwards elsewhere.
    """
    population, goal = counts.sum(1), drawn_weight - 0.5
    chosen = np.flatnonzero(goal * population > drawn * (weights * counts).sum(1) * (1 + 1e-9))
    found = np.ones(len(goal))
    if not len(chosen):
        return found
    weights, counts, population, goal = weights[chosen], counts[chosen], population[chosen], goal[chosen]
    start = np.log(drawn / (population - drawn))
    shift, tilt = start.copy(), np.zeros(len(chosen))
    for _ in range(_STEPS):  # Newton's method for the tilted draw whose expected number and weight are those drawn
        inclusion = 1 / (1 + np.exp(-shift[:, None] - tilt[:, None] * weights))
        missing = drawn - (counts * inclusion).sum(1), goal - (counts * inclusion * weights).sum(1)
        spread = counts * inclusion * (1 - inclusion)
        one, both, two = (np.sum(spread * weights**power, 1) for power in range(3))
        determinant = np.maximum(one * two - both**2, 1e-300)
        steps = np.stack([two * missing[0] - both * missing[1], one * missing[1] - both * missing[0]]) / determinant
        steps /= np.maximum(np.abs(steps).max(0), 1)
        shift, tilt = shift + steps[0], tilt + steps[1]
        if np.abs(steps).max() < 1e-9:
            break
    exponents = np.logaddexp(0, shift[:, None] + tilt[:, None] * weights)
    likelihood = population * np.logaddexp(0, start) - (counts * exponents).sum(1)
    likelihood += (shift - start) * drawn + tilt * goal
    root = np.sqrt(np.maximum(2 * likelihood, 1e-12))
    scale = 2 * np.sinh(tilt / 2) * np.sqrt(determinant * population / (drawn * (population - drawn)))
    found[chosen] = _normal_tail(root - np.log(root / scale) / root)
    return found


def adjust(p_values: Doubles) -> Doubles:
    """[C] Benjamini-Hochberg q-values: p times the number of tests over the rank, made monotone."""
    tests = len(p_values)
    order = np.argsort(p_values)[::-1]
    scaled = p_values[order] * tests / np.arange(tests, 0, -1)
    adjusted = np.empty(tests)
    adjusted[order] = np.minimum(np.minimum.accumulate(scaled), 1.0)
    return adjusted


def _sum_columns(matrix: Rows, rows: Ids, width: int) -> NDArray[Any]:
    """[width] the sum of each column over some rows; whole numbers where the matrix is one of ones."""
    _, places = matrix.places(rows)
    weights = None if matrix.values is None else matrix.values[places]
    return np.bincount(matrix.columns[places], weights, width)


def _weight_histogram(matrix: Rows, rows: Ids, columns: Places, width: int) -> tuple[Doubles, Doubles]:
    """([C, B] mean weights, [C, B] counts) of some rows in some columns, by bins; the first has those without any."""
    place = np.full(width, -1)
    place[columns] = np.arange(len(columns))
    _, entries = matrix.places(rows)
    entries = entries[place[matrix.columns[entries]] >= 0]
    values: Doubles = np.minimum(matrix.values[entries], 1).astype(np.float64)
    bins = place[matrix.columns[entries]] * _BINS + np.ceil(values * (_BINS - 1)).astype(np.int64)
    size, shape = len(columns) * _BINS, (len(columns), _BINS)
    sums: Doubles = np.bincount(bins, values, size).reshape(shape).astype(np.float64)
    counts: Doubles = np.bincount(bins, minlength=size).reshape(shape).astype(np.float64)
    means = sums / np.maximum(counts, 1)
    counts[:, 0] += len(rows) - counts.sum(1)
    return means, counts


def _tail_terms(
    drawn_inside: NDArray[Any], inside: NDArray[Any], drawn: int | Places, population: int | Places
) -> tuple[Doubles, Doubles]:
    """[C] each: the logarithm of P(X = k), and P(X >= k) as a multiple of it."""
    k, size = drawn_inside.astype(np.float64), inside.astype(np.float64)
    n, everything = (np.broadcast_to(np.asarray(number, np.float64), k.shape) for number in (drawn, population))
    first = _log_choose(size, k) + _log_choose(everything - size, n - k) - _log_choose(everything, n)
    total, term = np.ones_like(k), np.ones_like(k)
    active = np.flatnonzero(k < np.minimum(size, n))
    at = k.copy()
    with np.errstate(over="ignore"):
        while len(active):
            i, own, taken = at[active], size[active], n[active]
            ratio = (own - i) * (taken - i) / ((i + 1) * (everything[active] - own - taken + i + 1))
            term[active] *= ratio
            total[active] += term[active]
            at[active] += 1
            more = (at[active] < np.minimum(own, taken)) & ((ratio >= 1) | (term[active] > 1e-17 * total[active]))
            active = active[more]
    return first, total


def _log_choose(n: Doubles, k: Doubles) -> Doubles:
    found: Doubles = _log_gamma(n + 1) - _log_gamma(k + 1) - _log_gamma(n - k + 1)
    return found
