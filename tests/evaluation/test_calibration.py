"""Degrees against truth: by hand, against a naive count, and on made-up models whose calibration is known."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from tarbox.benchmark.building import build_benchmark
from tarbox.benchmark.folder import open_benchmark
from tarbox.benchmark.options import BenchmarkOptions
from tarbox.benchmark.tables import Lists, QueryTable
from tarbox.cli import evaluate as command
from tarbox.cli.main import app
from tarbox.core.errors import BenchmarkError, ConfigError
from tarbox.core.ids import Level
from tarbox.evaluation.calibration import (
    BINS,
    Predictions,
    best_predictions,
    best_sparse_predictions,
    measure_calibration,
    predict,
    reliability,
    summarise,
    to_json,
    wilson,
)
from tarbox.evaluation.calibration_plots import beside, draw_reliability
from tarbox.evaluation.plots import COLOURS
from tarbox.evaluation.reports import tabulate_calibration, to_markdown
from tarbox.execution.exact import answer_rows
from tarbox.execution.graph import Index
from tarbox.kb.facts import Facts
from tarbox.kb.rows import Rows
from tarbox.kb.vocabulary import Vocabulary
from tarbox.models.scorer import Prediction, Predictor

SHARE = 0.25


def predictions(degrees: object, true: object) -> Predictions:
    return Predictions(np.asarray(degrees, np.float64), np.asarray(true, np.bool_), 1)


def facts_of(entities: int = 60, assertions: int = 500) -> Facts:
    random = np.random.default_rng(0)
    vocabulary = Vocabulary.of(
        [f"urn:e{i:02}" for i in range(entities)], [f"urn:c{i}" for i in range(8)], [f"urn:r{i}" for i in range(3)]
    )
    triples = [tuple(map(int, row)) for row in random.integers(0, [entities, 3, entities], (assertions, 3))]
    typings = [(e, int(c)) for e in range(entities) for c in random.integers(1, 8, 2)]
    return Facts.of(vocabulary, triples, typings, [(i, 0) for i in range(1, 8)])


class Gambler:
    """Gives every candidate that is not known the degree `said`, by a small step less from candidate to candidate."""

    def __init__(self, facts: Facts, said: float = SHARE) -> None:
        self.index = Index.of(facts)
        self.probabilities = None
        self.said = said
        self.evaluated = 0

    def candidates(self, level: Level) -> int:
        return self.index.entities if level is Level.ENTITY else self.index.concepts

    def supports(self, shape) -> bool:  # noqa: ARG002
        return True

    def score(self, shape, ids, level: Level):  # noqa: ARG002
        return self._guess(ids)[level]

    def fuzzy_sets(self, shape, ids):  # noqa: ARG002
        raise AssertionError("nobody asks")

    def predict(self, shape, ids) -> Prediction:
        self.evaluated += len(ids)
        entities, concepts, counts = answer_rows(shape, ids, self.index)
        found = self._guess(ids)
        found[Level.ENTITY][entities.coordinates()] = 1.0
        found[Level.CONCEPT][concepts.coordinates()] = 1.0
        size, width = found[Level.CONCEPT].shape
        every = Rows(
            np.arange(size + 1) * width, np.tile(np.arange(width, dtype=np.int32), size), found[Level.CONCEPT].ravel()
        )
        return Prediction(found[Level.ENTITY], every, np.zeros_like(every.values), entities, concepts, counts)

    def _guess(self, ids):
        sizes = {level: self.candidates(level) for level in Level}
        return {
            level: np.tile(self.said - 1e-4 * np.arange(size, dtype=np.float32), (len(ids), 1))
            for level, size in sizes.items()
        }


@pytest.fixture(scope="module")
def bench(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("calibration") / "bench"
    shapes = {"1p": BenchmarkOptions().shapes["1p"]}
    build_benchmark(facts_of(), BenchmarkOptions(counts=(20, 10, 10), shapes=shapes, calibration=60), folder)
    return folder


@pytest.fixture(scope="module")
def table(bench: Path) -> QueryTable:
    found = open_benchmark(bench).calibration()
    assert found is not None
    return found


def test_degrees_that_are_probabilities_have_almost_no_error() -> None:
    random = np.random.default_rng(0)
    degrees = random.random(200_000)
    found = reliability(predictions(degrees, random.random(200_000) < degrees))
    assert found.ece < 0.005
    assert found.brier == pytest.approx(1 / 6, abs=0.003)  # the mean of p (1 - p)
    assert found.degree == pytest.approx(found.true, abs=0.005)
    assert all(low <= one.true <= high for one in (*found.bins, *found.widths) for low, high in [one.ci])


def test_an_overconfident_model_by_hand() -> None:
    found = reliability(predictions([0.9, 0.1, 0.8, 0.3, 1.0], [True, False, False, True, False]), bins=2)
    assert [one.n for one in found.bins] == [3, 2]
    low, high = found.bins
    assert (low.degree, low.true) == (pytest.approx(0.4), pytest.approx(1 / 3))
    assert (high.degree, high.true) == (pytest.approx(0.95), pytest.approx(1 / 2))
    assert found.ece == pytest.approx((3 * abs(0.4 - 1 / 3) + 2 * abs(0.95 - 0.5)) / 5)
    assert found.brier == pytest.approx((0.01 + 0.01 + 0.64 + 0.49 + 1.0) / 5)
    assert found.true == pytest.approx(2 / 5)
    always = reliability(predictions(np.full(1000, 0.9), np.arange(1000) % 2 == 0))
    assert always.ece == pytest.approx(0.4)
    assert always.brier == pytest.approx((0.81 + 0.01) / 2)


def test_bins_have_equal_mass_and_widths_do_not() -> None:
    random = np.random.default_rng(1)
    degrees = random.random(1000) ** 4
    found = reliability(predictions(degrees, random.random(1000) < degrees))
    assert len(found.bins) == BINS
    assert {one.n for one in found.bins} == {66, 67}
    assert sum(one.n for one in found.widths) == 1000
    assert found.widths[0].n > 400
    assert [one.degree for one in found.bins] == sorted(one.degree for one in found.bins)
    assert len(reliability(predictions([0.2, 0.4], [True, False])).bins) == 2


def test_the_order_of_equal_degrees_plays_no_part() -> None:
    degrees = np.repeat([0.2, 0.7], 500)
    true = np.concatenate([np.arange(500) < 100, np.arange(500) < 350])
    sorted_badly = reliability(predictions(degrees, true))
    order = np.random.default_rng(0).permutation(1000)
    assert sorted_badly.ece == pytest.approx(reliability(predictions(degrees[order], true[order])).ece)
    # both degrees are right; by order of appearance, the first bins would be all true and the next all false
    assert sorted_badly.ece == pytest.approx(0.0, abs=1e-12)


def test_nothing_predicted_is_no_perfect_calibration() -> None:
    found = reliability(predictions([], []))
    assert np.isnan(found.ece)
    record = to_json(summarise({}, "silent"))
    assert (record["ece"], record["n"], record["levels"]) == (None, 0, {})
    assert "| all | 0 | 0 | - |" in to_markdown([tabulate_calibration(summarise({}, "silent"))])


@pytest.mark.parametrize("best", [1, 3, 10])
def test_the_best_predictions_agree_with_a_naive_sort(best: int) -> None:
    random = np.random.default_rng(best)
    degrees = np.round(random.random((40, 12)), 1)  # many ties, many zeros
    degrees[degrees < 0.4] = 0.0
    known = Lists.of([sorted(set(random.integers(0, 12, 3).tolist())) for _ in range(40)])
    targets = Lists.of([[c for c in range(12) if c not in known[row] and random.random() < 0.3] for row in range(40)])
    said, was = [], []
    for row in range(40):
        rest = [c for c in range(12) if c not in known[row] and degrees[row, c] > 0]
        for c in sorted(rest, key=lambda c: (-degrees[row, c], c))[:best]:
            said.append(degrees[row, c])
            was.append(c in targets[row])
    owners, columns = np.nonzero(degrees)
    sparse = Rows.of_keys(owners * 12 + columns, 40, 12, degrees[owners, columns])
    for found in (
        best_predictions(degrees, known, targets, best),
        best_sparse_predictions(sparse, known, targets, best),
        best_sparse_predictions(sparse.take(np.arange(40)[::-1]).take(np.arange(40)[::-1]), known, targets, best),
    ):
        assert found.degrees.tolist() == said
        assert found.true.tolist() == was
        assert found.queries == 40


def test_known_answers_are_no_predictions_whatever_their_degree() -> None:
    degrees = np.array([[1.0, 1.0, 0.3], [0.2, 1.0, 0.0]])
    found = best_predictions(degrees, Lists.of([[0, 1], [1]]), Lists.of([[2], []]))
    assert (found.degrees.tolist(), found.true.tolist()) == ([0.3, 0.2], [True, False])
    assert degrees[0, 0] == 1.0  # the model's array is left as it was
    assert len(best_predictions(np.zeros((2, 0)), Lists.of([[], []]), Lists.of([[], []])).degrees) == 0
    nothing = Rows(np.zeros(3, np.int64), np.empty(0, np.int32), np.empty(0, np.float32))
    none = best_sparse_predictions(nothing, Lists.of([[], []]), Lists.of([[0], []]))
    assert (none.degrees.tolist(), none.true.tolist(), none.queries) == ([], [], 2)


def test_wilsons_interval_stays_inside() -> None:
    assert wilson(0.0, 10) == (0.0, pytest.approx(0.2775, abs=1e-3))
    assert wilson(1.0, 10) == (pytest.approx(0.7225, abs=1e-3), pytest.approx(1.0))


def test_a_model_on_a_table(table: QueryTable) -> None:
    gambler = Gambler(facts_of())  # it knows the held-out facts, which the table does not know
    assert isinstance(gambler, Predictor)
    seen: list[int] = []
    found = predict(gambler, table, progress=seen.append)
    assert list(found) == [(level, name) for name in ("1p", "2p") for level in (Level.ENTITY, Level.CONCEPT)]
    assert sum(seen) == len(table)
    assert gambler.evaluated == len(table) / 2  # once for both levels
    for (level, template), part in found.items():
        batch = next(b for b in table.batches() if b.level is level and len(b.ids[0]) == 1 + int(template[0]))
        assert part.queries == len(batch)
        possible = gambler.candidates(level) - batch.known.sizes()
        assert len(part.degrees) == np.minimum(possible, 10).sum()
        certain = part.degrees == 1.0
        assert part.true[certain].all()  # what the whole graph knows is true
        assert not part.true[~certain].any()  # and nothing else is


def test_results_as_json_and_as_a_table(table: QueryTable) -> None:
    calibration = measure_calibration(Gambler(facts_of()), table, "gambler")
    record = json.loads(json.dumps(to_json(calibration), allow_nan=False))
    assert (record["best"], record["bins"]) == (10, BINS)
    parts = [part for level in record["levels"].values() for part in level["templates"].values()]
    assert record["n"] == sum(part["n"] for part in parts)
    assert record["brier"] == pytest.approx(sum(part["brier"] * part["n"] for part in parts) / record["n"])
    assert all(len(part["reliability"]) == BINS for part in parts)
    assert parts[0]["ece"] == pytest.approx(
        sum(abs(one["degree"] - one["true"]) * one["n"] for one in parts[0]["reliability"]) / parts[0]["n"]
    )
    text = to_markdown([tabulate_calibration(calibration)])
    assert "gambler, calibration of the 10 best predictions" in text
    assert "| concept 2p | 60 |" in text


def test_diagrams(table: QueryTable, tmp_path: Path) -> None:
    calibration = measure_calibration(Gambler(facts_of()), table, "gambler")
    file = tmp_path / "reliability.svg"
    draw_reliability(calibration, file)
    text = file.read_text()
    for title in ("entity answers, 1p", "entity answers, 2p", "concept answers, 1p", "concept answers, 2p"):
        assert f"<!-- {title}" in text
    assert "15 bins of equal mass (ECE)" in text
    assert COLOURS[1].lower() in text
    pixels = tmp_path / "reliability.png"
    draw_reliability(calibration, pixels)
    assert pixels.read_bytes().startswith(b"\x89PNG")
    assert pixels.stat().st_size > 20_000
    width, height = np.frombuffer(pixels.read_bytes()[16:24], ">u4").tolist()
    assert (width, height) == (1072, 1440)
    with pytest.raises(BenchmarkError, match="no predictions"):
        draw_reliability(summarise({}, "silent"), file)
    with pytest.raises(ConfigError, match=r"must end in \.png"):
        draw_reliability(calibration, tmp_path / "reliability.gif")


def evaluate(bench: Path, *options: object) -> tuple[str, str]:
    result = CliRunner().invoke(app, ["eval", str(bench), *map(str, options)], catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result.stdout, result.stderr


def test_the_command_checks_degrees_that_are_probabilities(bench: Path, tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr(command, "_make_scorer", lambda _, __, facts, ___: Gambler(facts))
    plot = tmp_path / "bars.png"
    stdout, stderr = evaluate(bench, "--json", "--plot", plot)
    found = json.loads(stdout)["calibration"]
    assert {"best", "bins", "ece", "brier", "true", "n", "levels"} <= set(found)
    assert set(found["levels"]) == {"entity", "concept"}
    assert {"ece", "brier", "true", "degree", "n", "queries", "reliability"} == set(
        found["levels"]["entity"]["templates"]["2p"]
    )
    assert found["levels"]["entity"]["templates"]["1p"]["queries"] == 60
    assert f"reliability diagrams: {beside(plot)}" in stderr.replace("\n", "")
    assert plot.stat().st_size > 10_000
    assert beside(plot).stat().st_size > 20_000
    assert "counting, calibration of the 10 best predictions" in evaluate(bench)[0]
    assert "calibration" not in json.loads(evaluate(bench, "--json", "--split", "valid")[0])


def test_for_other_models_and_tables_nothing_changes(bench: Path, tmp_path: Path) -> None:
    plot = tmp_path / "bars.png"
    assert "calibration" not in json.loads(evaluate(bench, "--json", "--plot", plot)[0])
    assert plot.exists()
    assert not beside(plot).exists()
