"""A temper never changes an order, whatever its network says, and agrees with its formula."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from probability_models import random_ranking, random_temper

from tarbox.execution.interpreter import evaluate
from tarbox.models.calibration import Calibrator
from tarbox.models.tempering import BASIS, LEAST, MOST, SURVEYED, Proportions, Temper, basis, survey
from tarbox.query.templates import TEMPLATES, template

SHARES = pytest.mark.parametrize(("seen", "labelled"), [(0.0, 1.0), (0.47, 1.0), (0.0, 0.47), (0.9, 0.3)])


def surveys(seed: int, size: int = 6) -> np.ndarray:
    return (3 * np.random.default_rng(seed).normal(size=(size, SURVEYED))).astype(np.float32)


def constant(weights: tuple[float, ...], seen: float = 0.0, labelled: float = 1.0) -> Temper:
    """The same function for every query."""
    nothing = np.zeros((BASIS + 1, SURVEYED), np.float32)
    moments = np.zeros(SURVEYED, np.float32), np.ones(SURVEYED, np.float32)
    return Temper(Calibrator(*moments, (nothing, np.array(weights, np.float32))), seen, labelled)


def bend_slowly(temper: Temper, asked: np.ndarray, degree: float) -> float:
    """The formula, for one query and one degree."""
    if degree < float(np.float32(LEAST)):
        return degree * min(1.0, bend_slowly(temper, asked, LEAST) / LEAST)
    hidden, bias, last, shift = (layer.tolist() for layer in temper.network.layers)
    inputs = [
        (a - m) / d for a, m, d in zip(asked.tolist(), temper.network.mean, temper.network.deviation, strict=True)
    ]
    units = [max(0.0, float(np.dot(row, inputs)) + b) for row, b in zip(hidden, bias, strict=True)]
    outputs = [float(np.dot(row, units)) + b for row, b in zip(last, shift, strict=True)]
    held = min(degree, MOST)
    functions = (math.log(held), math.log(held / (1 - held)), 4 * held)
    logit = sum(math.log1p(math.exp(w)) * f for w, f in zip(outputs, functions, strict=False)) + outputs[BASIS]
    found = 1 / (1 + math.exp(-logit))
    return temper.labelled * (1 - temper.seen) * found / (1 - temper.seen * found)


@given(
    seed=st.integers(0, 10_000),
    seen=st.floats(0, 0.99),
    labelled=st.floats(0.01, 1),
    degrees=st.lists(st.floats(0, 1, width=32), min_size=2, max_size=40),
)
def test_a_greater_degree_never_becomes_a_smaller_one(
    seed: int, seen: float, labelled: float, degrees: list[float]
) -> None:
    network = random_temper(seed).network
    untempered = np.tile(np.sort(np.array(degrees, np.float32)), (6, 1))
    found = Temper(network, seen, labelled).bend(surveys(seed), untempered)
    assert (np.diff(found, axis=1) >= 0).all()
    assert (found[untempered == 0] == 0).all()
    assert ((found >= 0) & (found <= 1)).all()


@SHARES
@pytest.mark.parametrize("seed", range(5))
def test_orders_on_a_fine_grid(seed: int, seen: float, labelled: float) -> None:
    """Also around `LEAST`, where two functions meet, and between neighbouring numbers."""
    random = np.random.default_rng(seed)
    near = np.float32(LEAST) * (1 + 1e-6 * random.normal(size=300))
    grid = np.concatenate([10 ** random.uniform(-12, 0, 2000), random.random(2000), near, [0, LEAST, MOST, 1]])
    grid = np.unique(grid.astype(np.float32))
    grid = np.unique(np.concatenate([grid, np.nextafter(grid, np.float32(1))]))
    found = Temper(random_temper(seed).network, seen, labelled).bend(surveys(seed), np.tile(grid, (6, 1)))
    assert (np.diff(found, axis=1) >= 0).all()
    assert (np.diff(found[:, (grid > 1e-3) & (grid < 0.99)][:, ::40], axis=1) > 0).mean() > 0.9
    shuffled = random.permutation(len(grid))
    again = Temper(random_temper(seed).network, seen, labelled).bend(surveys(seed), np.tile(grid[shuffled], (6, 1)))
    np.testing.assert_array_equal(again, found[:, shuffled])  # equal degrees stay equal, wherever they stand


@SHARES
def test_the_formula(seen: float, labelled: float) -> None:
    temper = Temper(random_temper(3).network, seen, labelled)
    degrees = np.array([0, 1e-9, 3e-6, LEAST, 2e-5, 1e-3, 0.04, 0.3, 0.5, 0.97, MOST, 0.99995, 1], np.float32)
    asked = surveys(8)
    found = temper.bend(asked, np.tile(degrees, (6, 1)))
    wanted = [[bend_slowly(temper, row, float(degree)) for degree in degrees] for row in asked]
    np.testing.assert_allclose(found, wanted, rtol=2e-4, atol=1e-30)


def test_nothing_below_the_edge_is_raised() -> None:
    """A candidate that no way leads to stays unlikely, however the network bends those with one."""
    below, above = (np.nextafter(np.float32(LEAST), np.float32(end)) for end in (0, 1))
    found = random_temper(2).bend(surveys(1), np.tile(np.array([1e-6, below, LEAST, above], np.float32), (6, 1)))
    assert (found[:, :2] <= [1e-6, LEAST]).all()
    assert (np.diff(found, axis=1) >= 0).all()
    assert (found[:, 2] > LEAST).any()
    np.testing.assert_allclose(found[:, 2], found[:, 3], rtol=1e-3)


def test_what_is_known_now_is_taken_out() -> None:
    """100 candidates of probability p, of whose truths the share s was hidden: of the others (1 - s) p are true."""
    degrees = np.array([[0.05, 0.4, 0.8]], np.float32)
    weights = (0.3, 0.2, -1.0, 0.5)
    asked = np.zeros((1, SURVEYED), np.float32)
    plain = constant(weights).bend(asked, degrees)
    for share in (0.25, 0.5):
        left = 100 * plain * (1 - share) / (100 - 100 * plain * share)
        np.testing.assert_allclose(constant(weights, seen=share).bend(asked, degrees), left, rtol=1e-5)
        found = constant(weights, labelled=share).bend(asked, degrees)
        np.testing.assert_allclose(found, share * plain, rtol=1e-5)


def test_the_basis_increases() -> None:
    grid = np.linspace(LEAST, MOST, 1000)
    assert basis(grid).shape == (1000, BASIS)
    assert (np.diff(basis(grid), axis=0) > 0).all()
    assert np.isfinite(basis(np.array([0.0, 1.0]))).all()


def test_without_queries_or_candidates() -> None:
    temper = random_temper()
    assert temper.bend(surveys(0, 0), np.zeros((0, 5), np.float32)).shape == (0, 5)
    assert temper.bend(surveys(0, 3), np.zeros((3, 0), np.float32)).shape == (3, 0)


def test_arrays_make_the_same_temper() -> None:
    temper = Temper(random_ranking(9, SURVEYED, outputs=BASIS + 1), 0.1, 0.7)
    arrays = temper.arrays("temper-entity/") | random_temper(1).arrays("temper-concept/")
    again = Temper.of_arrays(arrays, "temper-entity/")
    assert (again.seen, again.labelled) == (temper.seen, temper.labelled)
    degrees = np.random.default_rng(0).random((6, 30)).astype(np.float32)
    np.testing.assert_array_equal(again.bend(surveys(4), degrees), temper.bend(surveys(4), degrees))


def test_tempers_that_share_a_network_share_no_array_of_a_file() -> None:
    """Files of tensors refuse memory that has two names."""
    one = random_temper()
    arrays = [*one.arrays("a/").values(), *Temper(one.network, labelled=0.5).arrays("b/").values()]
    assert not any(np.shares_memory(x, y) for i, x in enumerate(arrays) for y in arrays[:i])


def test_a_survey() -> None:
    degrees = np.array([[0.5, 0.2, 0.05, 0.001, 0], [0, 0, 0, 0, 0]], np.float32)
    found = survey(TEMPLATES["pin"].shape, np.array([3, 0]), degrees)
    first = [2, 2, 1, math.log(4), math.log(1.751), math.log(0.5), math.log(3), math.log(4)]
    np.testing.assert_allclose(found, [first, [2, 2, 1, 0, 0, math.log(1e-6), 0, 0]], rtol=1e-4, atol=1e-6)
    assert found.shape[1] == SURVEYED
    assert np.isfinite(survey(TEMPLATES["1p"].shape, np.array([2]), np.zeros((1, 0), np.float32))).all()


PROPORTIONS = {
    "1p": (1, 1, 0),
    "2p": (2, 1, 0),
    "3p": (3, 1, 0),
    "2i": (1, 2, 0),
    "3i": (1, 3, 0),
    "pi": (2, 2, 0),
    "ip": (2, 2, 0),
    "2u": (1, 2, 0),
    "up": (2, 2, 0),
    "2in": (1, 2, 1),
    "3in": (1, 3, 1),
    "inp": (2, 2, 1),
    "pni": (2, 2, 1),
    "pin": (2, 2, 1),
}


@pytest.mark.parametrize("name", TEMPLATES)
def test_proportions(name: str) -> None:
    assert evaluate(TEMPLATES[name].shape, Proportions()) == PROPORTIONS[name]


def test_proportions_of_other_queries() -> None:
    for text, wanted in {
        "?c1": (0, 1, 0),
        "not ?c1": (0, 1, 1),
        "?c1 and not (?r1 some (?c2 and not (?r2 value ?e1)))": (2, 3, 2),
    }.items():
        assert evaluate(template("own", text).shape, Proportions()) == wanted


def test_a_query_larger_than_any_that_was_seen_looks_like_the_largest() -> None:
    known, open_ = np.array([2]), np.array([[0.5, 0.1]], np.float32)
    chain = "?r1 some (?r2 some (?r3 some (?r4 some (?r5 value ?e1))))"
    wide = " and ".join(f"(?r{n} value ?e{n})" for n in range(1, 9))
    denied = "?c1 and not (?r1 value ?e1) and not (?r2 value ?e2) and not (?r3 value ?e3)"
    seen = {text: survey(template("x", text).shape, known, open_)[0, :3].tolist() for text in (chain, wide, denied)}
    assert seen == {chain: [3, 1, 0], wide: [1, 3, 0], denied: [1, 3, 1]}
    for given_shape in (one.shape for one in TEMPLATES.values()):
        assert survey(given_shape, known, open_)[0, :3].tolist() == list(evaluate(given_shape, Proportions()))
