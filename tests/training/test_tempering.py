"""Tempers recover the probabilities that labels were drawn with, from all of the labels or a share of them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from tarbox.benchmark.folder import open_benchmark
from tarbox.benchmark.tables import QueryTable
from tarbox.core.ids import Level
from tarbox.execution.graph import Index
from tarbox.kb.closure import Instances
from tarbox.models.credo import Credo
from tarbox.models.describing import Describer
from tarbox.models.probabilities import FactProbabilities
from tarbox.models.saved import sizes_of
from tarbox.models.tempering import SURVEYED, Temper
from tarbox.training import tempering
from tarbox.training.rehearsal import set_weights
from tarbox.training.tempering import ENOUGH, STRONGEST, Sample, fit_temper, sample_strongest, temper_on

Floats = np.ndarray


def drawn(count: int, seed: int, share: float = 1.0) -> tuple[Sample, Floats, Floats]:
    """(queries, the probability of each candidate, which are true): a share of what is true is labelled so.

    Long queries are predicted too much here, and those with many known answers too little.
    """
    random = np.random.default_rng(seed)
    surveys = random.normal(size=(count, SURVEYED)).astype(np.float32)
    surveys[:, 0] = random.integers(1, 4, count)
    degrees = np.sort(random.beta(0.5, 1.5, (count, 30)), axis=1)[:, ::-1].astype(np.float32)
    degrees[:, 25:] = 0
    logits = np.log(np.maximum(degrees, 1e-9) / (1 - degrees))
    chance = 1 / (1 + np.exp(-(0.8 * logits - surveys[:, :1] + 1 + 0.7 * surveys[:, 3:4])))
    chance[degrees == 0] = 0
    true = random.random(chance.shape) < chance
    return Sample(surveys, degrees, true & (random.random(chance.shape) < share)), chance, true


def calibration_error(degrees: Floats, true: Floats, bins: int = 15) -> float:
    """The expected calibration error over bins of equal mass."""
    parts = np.array_split(np.argsort(degrees), bins)
    return sum(len(part) * abs(degrees[part].mean() - true[part].mean()) for part in parts) / len(degrees)


@pytest.mark.parametrize("share", [1.0, 0.5])
def test_probabilities_are_recovered_from_a_share_of_the_labels(share: float) -> None:
    temper = fit_temper([drawn(1500, 0, share)[0], drawn(1500, 1, share)[0]], share, 0, "cpu")
    assert temper is not None
    fresh, chance, true = drawn(2000, 2)
    found, used = temper.bend(fresh.surveys, fresh.degrees), fresh.degrees > 0
    assert (found[~used] == 0).all()
    left, before = (np.abs(degrees - chance)[used].mean() for degrees in (found, fresh.degrees))
    assert left < 0.25 * before
    assert calibration_error(found[used], true[used]) < 0.02 < calibration_error(fresh.degrees[used], true[used])
    for hops in (1, 2, 3):
        own = used & (fresh.surveys[:, :1] == hops)
        assert calibration_error(found[own], true[own]) < 0.03


def test_what_is_labelled_is_no_candidate_once_it_is_known() -> None:
    """Labels are what a larger graph has; where that is known, the others are true as often as `seen` says."""
    share = 0.47
    temper = fit_temper([drawn(3000, 0, share)[0]], share, 0, "cpu")
    assert temper is not None
    later, _, true = drawn(2000, 5, share)
    open_ = (later.degrees > 0) & ~later.true
    found = replace(temper, seen=share).bend(later.surveys, later.degrees)
    assert calibration_error(found[open_], true[open_]) < 0.02
    blind = temper.bend(later.surveys, later.degrees)
    assert calibration_error(blind[open_], true[open_]) > 0.05
    used = later.degrees > 0
    labelled = replace(temper, labelled=share).bend(later.surveys, later.degrees)
    assert calibration_error(labelled[used], later.true[used]) < 0.02


def test_too_little_is_left_as_it_is() -> None:
    sample = drawn(100, 0)[0]
    places = np.flatnonzero(sample.true)
    few = np.zeros(sample.true.size, np.bool_)
    few[places[: ENOUGH - 1]] = True
    assert fit_temper([], 1.0, 0, "cpu") is None
    assert fit_temper([replace(sample, true=few.reshape(sample.true.shape))], 1.0, 0, "cpu") is None
    unbelieved = replace(sample, true=sample.degrees == 0)
    assert unbelieved.true.sum() > ENOUGH
    assert fit_temper([unbelieved], 1.0, 0, "cpu") is None


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempering, "STEPS", 40)


def weights(temper: Temper | None) -> list[list[float]]:
    assert temper is not None
    return [array.ravel().tolist() for array in temper.arrays("").values()]


@pytest.mark.usefixtures("quick")
def test_the_seed_decides() -> None:
    sample = drawn(300, 0)[0]
    first, again, other = (weights(fit_temper([sample], 1.0, seed, "cpu")) for seed in (1, 1, 2))
    assert first == again != other


@pytest.mark.usefixtures("quick")
def test_samples_of_different_widths_and_degrees_of_0() -> None:
    """Candidates of degree 0 are none: whether they are true makes no difference."""
    sample = drawn(300, 0)[0]
    narrow = Sample(sample.surveys, sample.degrees[:, :10], sample.true[:, :10])
    joined = Sample.join([sample, narrow])
    assert joined.degrees.shape == joined.true.shape == (600, 10)
    assert joined.surveys.shape == (600, SURVEYED)
    other = replace(sample, true=sample.true | (sample.degrees == 0))
    assert weights(fit_temper([sample], 1.0, 0, "cpu")) == weights(fit_temper([other], 1.0, 0, "cpu"))


@pytest.mark.parametrize("width", [3, STRONGEST, 3 * STRONGEST])
def test_the_strongest_are_those_of_a_sort(width: int) -> None:
    random = np.random.default_rng(width)
    open_ = random.random((20, width)).astype(np.float32)
    true = random.random(open_.shape) < 0.3
    surveys = random.normal(size=(20, SURVEYED)).astype(np.float32)
    found = sample_strongest(surveys, open_, true)
    order = np.argsort(-open_, axis=1)[:, :STRONGEST]
    np.testing.assert_array_equal(found.degrees, np.take_along_axis(open_, order, 1))
    np.testing.assert_array_equal(found.true, np.take_along_axis(true, order, 1))
    assert found.surveys is surveys


@pytest.fixture(scope="module")
def tuning(bench: Path) -> tuple[QueryTable, float]:
    found = open_benchmark(bench).tuning()
    assert found is not None
    return found


@pytest.fixture(scope="module")
def reasoner(bench: Path) -> Credo:
    """It believes facts at random, beside those of the training graph."""
    facts = open_benchmark(bench).store.facts
    index, sizes, random = Index.of(facts), sizes_of(facts), np.random.default_rng(0)
    known = (facts.relations.astype(np.int64) * sizes.entities + facts.heads) * sizes.entities + facts.tails
    links = np.setdiff1d(random.integers(0, sizes.relations * sizes.entities**2, 60_000), known)
    typed, types = Instances.of(facts).concepts_of.coordinates()
    typings = np.setdiff1d(
        random.integers(0, sizes.entities * sizes.concepts, 4_000), typed.astype(np.int64) * sizes.concepts + types
    )
    drawn_ = [(keys, random.uniform(0.01, 0.9, len(keys)).astype(np.float32)) for keys in (links, typings)]
    describer = Describer.of(index, set_weights(index, 0))
    return Credo.of(index, FactProbabilities.of(facts, sizes, *drawn_), describer, None, "strongest")


@pytest.mark.usefixtures("quick")
def test_truth_is_what_the_table_says(
    reasoner: Credo, tuning: tuple[QueryTable, float], monkeypatch: pytest.MonkeyPatch
) -> None:
    """No candidate is true but a target, and none is known; every query takes part, by the untempered degrees."""
    table, share = tuning
    given: dict[Level, list[Sample]] = {}
    asked = iter(dict.fromkeys(batch.level for batch in table.batches()))

    def remember(parts: list[Sample], *rest: object) -> Temper | None:
        given[next(asked)] = list(parts)
        assert rest == (share, 3, "cpu")
        return fit_temper(parts, *rest)  # type: ignore[arg-type]

    monkeypatch.setattr(tempering, "fit_temper", remember)
    monkeypatch.setattr(tempering, "STRONGEST", 1 << 20)
    tempers = temper_on(reasoner, table, share, 3, "cpu")
    assert set(given) == set(Level)
    for level, parts in given.items():
        batches = [batch for batch in table.batches() if batch.level is level]
        assert sum(len(part.surveys) for part in parts) == sum(len(batch.ids) for batch in batches)
        assert sum(int(part.true.sum()) for part in parts) == sum(len(batch.targets.values) for batch in batches)
        known = sum(len(batch.known.values) for batch in batches)
        cells = sum(part.degrees.size for part in parts)
        assert sum(int((part.degrees > 0).sum()) for part in parts) <= cells - known
    assert set(tempers) == set(Level)


@pytest.mark.usefixtures("quick")
def test_what_was_tempered_before_makes_no_difference(reasoner: Credo, tuning: tuple[QueryTable, float]) -> None:
    table = tuning[0].take(np.arange(0, len(tuning[0]), 10))
    first = temper_on(reasoner, table, 0.5, 0, "cpu")
    again = temper_on(replace(reasoner, tempers=first), table, 0.5, 0, "cpu")
    assert {level: weights(temper) for level, temper in again.items()} == {
        level: weights(temper) for level, temper in first.items()
    }


@pytest.mark.usefixtures("quick")
def test_a_level_without_targets_has_no_temper(reasoner: Credo, tuning: tuple[QueryTable, float]) -> None:
    table = tuning[0]
    kept = np.array(
        [
            level == "concept" or not size
            for level, size in zip(table.texts("level"), table.lists("target").sizes(), strict=True)
        ]
    )
    assert set(temper_on(reasoner, table.take(np.flatnonzero(kept)), 0.5, 0, "cpu")) == {Level.CONCEPT}
    assert temper_on(reasoner, table.take(np.arange(0)), 0.5, 0, "cpu") == {}
