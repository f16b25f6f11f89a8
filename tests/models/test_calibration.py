"""Fitted degrees are frequencies: on data whose probabilities are known they come near them."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from tarbox.models.calibration import BLOCK, ENOUGH, Calibrator, Fit, fit_calibrator, fit_network, logit, sigmoid

Floats = np.ndarray


def drawn(count: int, seed: int, shift: float = 0.0) -> tuple[Floats, Floats, Floats]:
    """(features, which are true, their true probabilities), by a rule that is not linear."""
    random = np.random.default_rng(seed)
    features = (random.normal(size=(count, 4)) * [1, 5, 0.1, 1] + [0, 30, 0, 0]).astype(np.float32)
    logits = 1.5 * features[:, 0] + 2 * np.abs(features[:, 3]) - 10 * features[:, 2] + shift
    chance = 1 / (1 + np.exp(-logits))
    return features, random.random(count) < chance, chance


def calibration_error(degrees: Floats, true: Floats, bins: int = 15) -> float:
    """The expected calibration error over bins of equal mass."""
    order = np.argsort(degrees)
    parts = np.array_split(order, bins)
    return sum(len(part) * abs(degrees[part].mean() - true[part].mean()) for part in parts) / len(order)


@pytest.mark.parametrize("shift", [-1.0, -5.0], ids=["common", "rare"])
def test_degrees_are_the_frequencies_of_new_samples(shift: float) -> None:
    features, true, _ = drawn(6000, 0, shift)
    fitted = fit_calibrator(features, true, seed=1)
    fresh, outcome, chance = drawn(20_000, 7, shift)
    degrees = fitted.degrees(fresh)
    assert ((degrees > 0) & (degrees < 1)).all()
    assert calibration_error(degrees, outcome) < 0.02
    assert np.abs(degrees - chance).mean() < 0.04
    base = np.mean((true.mean() - outcome) ** 2)
    brier, best = (np.mean((found - outcome) ** 2) for found in (degrees, chance))
    assert best <= brier < 0.9 * base
    assert brier - best < 0.01


def test_few_true_samples_make_it_linear() -> None:
    features, true, _ = drawn(3000, 3, -7.0)
    assert 0 < true.sum() < ENOUGH
    fitted = fit_calibrator(features, true, seed=1)
    assert [layer.shape for layer in fitted.layers] == [(1, 4), (1,)]
    assert fitted.degrees(features).mean() == pytest.approx(true.mean(), rel=0.2)
    many, outcome, _ = drawn(3000, 3, 0.0)
    assert len(fit_calibrator(many, outcome, seed=1).layers) == 6


@pytest.mark.parametrize("truth", [False, True])
def test_where_all_samples_are_alike(truth: bool) -> None:
    features = drawn(500, 1)[0]
    degrees = fit_calibrator(features, np.full(500, truth), seed=0).degrees(features)
    assert np.abs(degrees - truth).max() < 0.05


def test_without_samples_nothing_is_believed() -> None:
    fitted = fit_calibrator(np.empty((0, 4), np.float32), np.empty(0, np.bool_), seed=0)
    degrees = fitted.degrees(drawn(50, 1)[0] * 0.01)
    assert np.isfinite(degrees).all()
    assert (degrees < 1e-3).all()
    assert fitted.degrees(np.empty((0, 4), np.float32)).shape == (0,)


def test_a_feature_that_never_changes_is_no_harm() -> None:
    features, true, _ = drawn(2000, 2)
    features[:, 1] = 3.0
    assert np.isfinite(fit_calibrator(features, true, seed=0).degrees(features)).all()


def test_arrays_make_the_same_calibrator() -> None:
    features, true, _ = drawn(1000, 5)
    fitted = fit_calibrator(features, true, seed=2)
    arrays = fitted.arrays("typings/") | {"other/mean": np.zeros(1)}
    assert all(array.dtype in (np.float32, np.float64) for array in arrays.values())
    again = Calibrator.of_arrays(arrays, "typings/")
    np.testing.assert_array_equal(again.degrees(features), fitted.degrees(features))


def test_the_same_seed_fits_the_same_and_the_global_generator_is_left_alone() -> None:
    features, true, _ = drawn(1000, 5)
    before = torch.get_rng_state()
    one, two, other = (fit_calibrator(features, true, seed=seed).logits(features) for seed in (2, 2, 3))
    np.testing.assert_array_equal(one, two)
    assert not np.array_equal(one, other)
    assert torch.equal(before, torch.get_rng_state())


def test_logits_are_those_of_the_network() -> None:
    random = np.random.default_rng(0)
    layers = tuple(random.normal(size=shape).astype(np.float32) for shape in ((5, 3), (5,), (1, 5), (1,)))
    mean, deviation = random.normal(size=3).astype(np.float32), np.array([1, 2, 3], np.float32)
    features = random.normal(size=(7, 3)).astype(np.float32)
    inputs = torch.from_numpy((features - mean) / deviation)
    first, last = torch.nn.Linear(3, 5), torch.nn.Linear(5, 1)
    with torch.no_grad():
        for place, parameter in enumerate([*first.parameters(), *last.parameters()]):
            parameter.copy_(torch.from_numpy(layers[place]))
        wanted = last(first(inputs).relu())[:, 0].numpy()
    found = Calibrator(mean, deviation, layers)
    np.testing.assert_allclose(found.logits(features), wanted, rtol=1e-5)
    np.testing.assert_allclose(found.degrees(features), 1 / (1 + np.exp(-wanted)), rtol=1e-5)
    many = np.tile(features, (BLOCK // 7 + 2, 1))
    np.testing.assert_allclose(found.logits(many), np.tile(wanted, BLOCK // 7 + 2), rtol=1e-4)


def test_a_sigmoid_without_overflow() -> None:
    found = sigmoid(np.array([-1e4, -2.0, 0.0, 2.0, 1e4], np.float32))
    assert found.tolist() == pytest.approx([0, 1 / (1 + np.exp(2)), 0.5, 1 / (1 + np.exp(-2)), 1])


def test_lists_of_features_are_fitted_row_by_row() -> None:
    """With features [N, K, F] the loss sees logits [b, K]: here the first of each list is to be the greatest."""
    random = np.random.default_rng(0)
    features = random.normal(size=(300, 4, 3)).astype(np.float32)
    features[:, 0, 1] += 2.0
    seen: list[tuple[int, ...]] = []

    def loss(logits: torch.Tensor, rows: torch.Tensor) -> torch.Tensor:
        seen.append((*logits.shape, *rows.shape))
        return -logits.log_softmax(1)[:, 0].mean()

    fitted = fit_network(features, loss, Fit(steps=80, batch=32, hidden=0, start=(logit(0.3),), seed=0, device="cpu"))
    assert set(seen) == {(32, 4, 32)}
    logits = fitted.logits(features.reshape(-1, 3)).reshape(300, 4)
    assert (logits.argmax(1) == 0).mean() > 0.7


def test_a_network_begins_with_the_degree_it_is_given() -> None:
    features = np.random.default_rng(0).normal(size=(400, 3)).astype(np.float32)
    for hidden in (0, 16):
        start = (logit(0.2),)
        fitted = fit_network(features, lambda logits, _: logits.sum(), Fit(0, 8, hidden, start, 0, "cpu"))
        assert fitted.degrees(features).mean() == pytest.approx(0.2, abs=0.02)


def test_several_outputs() -> None:
    """The loss sees [b, O]; each output begins where it is told to and learns what is its own."""
    random = np.random.default_rng(0)
    features = random.normal(size=(400, 3)).astype(np.float32)
    wanted = torch.from_numpy(features[:, :2] * np.array([1.0, -1.0], np.float32))
    start = (1.5, -0.5)
    begun = fit_network(features, lambda outputs, _: outputs.sum(), Fit(0, 8, 16, start, 0, "cpu"))
    np.testing.assert_allclose(begun.outputs(features).mean(0), start, atol=0.15)
    seen: list[tuple[int, ...]] = []

    def loss(outputs: torch.Tensor, rows: torch.Tensor) -> torch.Tensor:
        seen.append(tuple(outputs.shape))
        return (outputs - wanted[rows]).square().mean()

    fitted = fit_network(features, loss, Fit(600, 32, 0, start, 0, "cpu"))
    assert set(seen) == {(32, 2)}
    np.testing.assert_allclose(fitted.outputs(features), wanted.numpy(), atol=0.1)
    np.testing.assert_array_equal(fitted.logits(features), fitted.outputs(features)[:, 0])


def test_the_logit_of_a_share() -> None:
    assert sigmoid(np.array([logit(0.3)], np.float32))[0] == pytest.approx(0.3)
    assert logit(0.0) == pytest.approx(-logit(1.0))
    assert np.isfinite(logit(0.0))
