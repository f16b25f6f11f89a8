"""Calibration: of the samples with probability 0.8, some 80% are true."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

from tarbox.core.errors import StoreVersion
from tarbox.models.credo.network import (
    Fitting,
    Network,
    adjust,
    complete,
    fit_effects,
    fit_network,
    fit_probabilities,
    sigmoid,
)

CPU = torch.device("cpu")


def samples(count: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(features, which are true, with which probability): it bends, and needs two features at once."""
    random = np.random.default_rng(seed)
    features = (random.normal(size=(count, 3)) * [1, 10, 0.1] + [0, 5, -3]).astype(np.float32)
    standard = (features - [0, 5, -3]) / [1, 10, 0.1]
    likely = 1 / (1 + np.exp(-(1.5 * standard[:, 0] * np.abs(standard[:, 1]) - 2)))
    return features, random.random(count) < likely, likely


def calibration_error(found: np.ndarray, true: np.ndarray) -> float:
    """Of ten groups of equal width, the mean difference of probability and frequency, by their sizes."""
    group = np.minimum((found * 10).astype(int), 9)
    errors = [abs(found[group == n].mean() - true[group == n].mean()) * (group == n).mean() for n in set(group)]
    return float(sum(errors))


def test_probabilities_are_calibrated_and_tell_cases_apart() -> None:
    features, true, _ = samples(20_000)
    network = fit_probabilities(features, true, 0, CPU)
    fresh, later, likely = samples(20_000, seed=1)
    found = network.apply(fresh)
    assert found.dtype == np.float32
    assert calibration_error(found, later) < 0.02
    assert np.abs(found - likely).mean() < 0.04
    assert calibration_error(np.full(len(later), 0.5), later) > 0.1  # the measure can tell


def test_few_true_samples_make_a_network_without_hidden_layers() -> None:
    features, true, _ = samples(300)
    assert len(fit_probabilities(features, true, 0, CPU).layers) == 2
    features, true, _ = samples(3000)
    assert len(fit_probabilities(features, true, 0, CPU).layers) == 6


@pytest.mark.parametrize("share", [0.0, 1.0])
def test_what_is_never_or_always_true(share: float) -> None:
    features = np.random.default_rng(0).normal(size=(500, 2)).astype(np.float32)
    found = fit_probabilities(features, np.full(500, share > 0), 0, CPU).apply(features)
    np.testing.assert_allclose(found, share, atol=0.01)


def test_nothing_to_fit_gives_probability_0() -> None:
    network = fit_probabilities(np.empty((0, 4), np.float32), np.empty(0, np.bool_), 0, CPU)
    assert network.apply(np.ones((3, 4), np.float32)).max() < 1e-3
    assert len(network.apply(np.empty((0, 4), np.float32))) == 0


def test_a_feature_that_is_the_same_everywhere_does_no_harm() -> None:
    features, true, _ = samples(1000)
    features[:, 1] = 4
    network = fit_probabilities(features, true, 0, CPU)
    features[:, 1] = 4.001
    assert np.isfinite(network.logits(features)).all()


def test_equal_seeds_give_equal_networks_to_the_bit() -> None:
    features, true, _ = samples(2000)
    one, again, other = (fit_probabilities(features, true, seed, CPU) for seed in (3, 3, 4))
    for name, array in one.arrays("x/").items():
        assert array.tobytes() == again.arrays("x/")[name].tobytes()
    assert one.layers[0].tobytes() != other.layers[0].tobytes()


def test_fitting_leaves_the_global_generator_alone() -> None:
    torch.manual_seed(7)
    expected = torch.rand(1).item()
    torch.manual_seed(7)
    fit_probabilities(*samples(300)[:2], 0, CPU)
    assert torch.rand(1).item() == expected


def test_arrays_round_trip() -> None:
    features, true, _ = samples(2000)
    network = fit_probabilities(features, true, 0, CPU)
    arrays = network.arrays("links/") | {"links_other": np.zeros(1), "layer9": np.zeros(1)}
    assert {"links/mean", "links/deviation", "links/layer0"} <= set(arrays)
    again = Network.of_arrays(arrays, "links/")
    assert again.apply(features).tobytes() == network.apply(features).tobytes()


def test_many_rows_are_as_each_alone() -> None:
    features, true, _ = samples(40_000)
    network = fit_probabilities(features[:1000], true[:1000], 0, CPU)
    chosen = [0, 16_383, 16_384, 39_999]
    np.testing.assert_allclose(network.logits(features)[chosen], network.logits(features[chosen]), rtol=1e-5)


def test_lists_of_features() -> None:
    """[N, K, F]: the loss sees a row of logits for each list."""
    random = np.random.default_rng(0)
    features = random.normal(size=(400, 5, 2)).astype(np.float32)
    true = features[:, :, 0] == features[:, :, 0].max(1, keepdims=True)
    labels = torch.from_numpy(true.argmax(1))

    def loss(logits: torch.Tensor, rows: torch.Tensor) -> torch.Tensor:
        return torch.nn.functional.cross_entropy(logits, labels[rows])

    network = fit_network(features, true, loss, Fitting(200, 64, 8, 0, CPU))
    found = network.logits(features.reshape(-1, 2)).reshape(400, 5).argmax(1)
    assert (found == labels.numpy()).mean() > 0.95


def test_sigmoid_of_extremes() -> None:
    assert sigmoid(np.array([-1000.0, 0.0, 1000.0], np.float32)).tolist() == [0.0, 0.5, 1.0]


def test_what_is_left_once_nothing_is_held_out() -> None:
    """Small probabilities stay as they are, greater ones grow, and none is certain."""
    degrees = np.linspace(0, 1, 50).astype(np.float32)
    found = complete(degrees)
    assert (np.diff(found) >= 0).all()
    assert (found[degrees <= 0.98] >= degrees[degrees <= 0.98]).all()
    assert found.max() < 1
    np.testing.assert_allclose(complete(np.float32([0.0, 0.01, 0.36])), [0.0, 0.010076, 0.50313], rtol=1e-3)


def test_groups_whose_odds_differ_get_an_effect_and_small_ones_hardly_any() -> None:
    random = np.random.default_rng(0)
    logits = random.normal(-1, 2, 60_000).astype(np.float32)
    group = random.integers(0, 3, len(logits))
    group[:20] = 3
    real = np.array([[0.9, -0.8], [0.0, 0.0], [-0.5, 0.7], [0.9, -0.8]], np.float32)
    true = random.random(len(logits)) < adjust(logits, real[group])
    found = fit_effects(logits, true, group, 5)
    np.testing.assert_allclose(found[:3], real[:3], atol=0.15)
    assert np.abs(found[3]).max() < 0.7
    assert not found[4].any()  # it has no samples
    for own in range(3):
        assert calibration_error(adjust(logits, found[group])[group == own], true[group == own]) < 0.02
    assert calibration_error(sigmoid(logits)[group == 0], true[group == 0]) > 0.04
    odds = adjust(logits, np.array([np.log(0.5), 0.5], np.float32)).astype(np.float64)
    p = sigmoid(logits).astype(np.float64)
    np.testing.assert_allclose(odds / (1 - odds), 0.5 * p / (1 - p) ** 1.5, rtol=1e-2)
    assert len(fit_effects(logits, true, np.zeros(len(logits), np.int64), 1)) == 1
    assert len(fit_effects(logits[:0], true[:0], group[:0], 0)) == 0


def test_effects_are_applied_and_saved() -> None:
    features, true, _ = samples(2000)
    plain = fit_probabilities(features, true, 0, CPU)
    network = replace(plain, effects=np.array([[0.0, 0.0], [0.0, -0.5]], np.float32))
    group = np.arange(2000) % 2
    again = Network.of_arrays(network.arrays("links/"), "links/")
    found = again.apply(features, group)
    np.testing.assert_array_equal(found[::2], plain.apply(features)[::2])
    assert (found[1::2] <= plain.apply(features)[1::2]).all()
    older = network.arrays("links/") | {"links/effects": np.zeros(2, np.float32)}
    with pytest.raises(StoreVersion, match="train it again"):
        Network.of_arrays(older, "links/")
