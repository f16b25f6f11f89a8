"""The hypergeometric tail and its correction, against their definitions."""

from __future__ import annotations

from fractions import Fraction
from math import comb

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tarbox.service.enrichment import adjust, upper_tail


@st.composite
def draws(draw: st.DrawFn) -> tuple[int, int, int, int]:
    population = draw(st.integers(1, 60))
    inside, drawn = draw(st.integers(0, population)), draw(st.integers(0, population))
    least, most = max(0, inside + drawn - population), min(inside, drawn)
    return draw(st.integers(least, most)), inside, drawn, population


@given(draws())
def test_tail_is_the_sum_of_its_terms(numbers: tuple[int, int, int, int]) -> None:
    k, inside, drawn, population = numbers
    ways = sum(comb(inside, i) * comb(population - inside, drawn - i) for i in range(k, min(inside, drawn) + 1))
    expected = float(Fraction(ways, comb(population, drawn)))
    found = upper_tail(np.array([k]), np.array([inside]), drawn, population)[0]
    assert found == pytest.approx(expected, rel=1e-9)


def test_large_sets_neither_overflow_nor_vanish() -> None:
    found = upper_tail(np.array([1, 0, 20_000]), np.array([90_000, 10, 20_000]), 20_000, 1_000_000)
    assert found.tolist() == [pytest.approx(1.0), 1.0, 0.0]  # the last is below the smallest number there is
    ways = sum(comb(400, i) * comb(4_600, 500 - i) for i in range(150, 401))
    small = upper_tail(np.array([150]), np.array([400]), 500, 5_000)[0]
    assert 0 < small < 1e-40
    assert small == pytest.approx(float(Fraction(ways, comb(5_000, 500))), rel=1e-8)


@given(st.lists(st.floats(0, 1), min_size=1, max_size=20))
def test_adjusted_values_keep_order_and_bound(p_values: list[float]) -> None:
    p = np.array(p_values)
    q = adjust(p)
    assert np.all(q >= p - 1e-12)
    assert np.all(q <= 1)
    assert np.all(np.diff(q[np.argsort(p, kind="stable")]) >= -1e-12)
    for level in (0.05, 0.2):
        ranked = np.sort(p)
        passing = np.flatnonzero(ranked <= level * np.arange(1, len(p) + 1) / len(p) + 1e-15)
        assert np.count_nonzero(q <= level + 1e-12) >= (passing[-1] + 1 if len(passing) else 0)


def test_a_worked_example() -> None:
    assert adjust(np.array([0.01, 0.04, 0.03, 0.005])).tolist() == pytest.approx([0.02, 0.04, 0.04, 0.02])
