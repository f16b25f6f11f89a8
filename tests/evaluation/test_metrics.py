"""Averages in the protocol's order, parts, and intervals."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from tarbox.benchmark.tables import QueryTable
from tarbox.core.ids import Level
from tarbox.evaluation.evaluator import Ranked
from tarbox.evaluation.metrics import METRICS, Bootstrap, Results, measure, resample


def results_of(ranked: Ranked, **options: int) -> Results:
    return measure(ranked, "m", "honest", Bootstrap(**options))


def test_averages_go_over_answers_then_queries_then_templates(ranked: Ranked) -> None:
    board = results_of(ranked).levels[Level.ENTITY].overall
    one_hop = ((1 + 1 / 4) / 2 + 1 / 2) / 2
    assert board.templates["1p"].values["mrr"] == pytest.approx(one_hop)
    assert board.templates["2p"].values["mrr"] == 0
    assert board.templates["other"].values["mrr"] == pytest.approx(1 / 1.5)
    assert board.average.values["mrr"] == pytest.approx((one_hop + 0 + 1 / 1.5) / 3)
    assert board.average.n == 4


def test_hits_count_ranks_up_to_k(ranked: Ranked) -> None:
    values = results_of(ranked).levels[Level.ENTITY].overall.templates["1p"].values
    assert values["hits@1"] == pytest.approx((1 / 2 + 0) / 2)
    assert values["hits@3"] == pytest.approx((1 / 2 + 1) / 2)
    assert values["hits@10"] == 1
    assert METRICS["hits@1"](np.array([1.0, 1.5])).tolist() == [1, 0]


def test_parts_average_over_their_own_answers(ranked: Ranked) -> None:
    parts = results_of(ranked).levels[Level.ENTITY].parts
    assert parts["missing"]["1"].templates["1p"].values["mrr"] == pytest.approx((1 + 1 / 2) / 2)
    assert parts["missing"]["2"].average.values["mrr"] == pytest.approx(1 / 4)
    assert parts["missing"]["3"].average.values["mrr"] == 0
    assert list(parts["answers"]) == ["hard"]
    assert parts["answers"]["hard"].average.n == 3
    concept = results_of(ranked).levels[Level.CONCEPT].parts
    assert {name: board.average.values["mrr"] for name, board in concept["answers"].items()} == {"easy": 1, "hard": 0.2}
    assert "missing" not in concept


def test_targets_outside_the_vocabulary_are_counted(ranked: Ranked) -> None:
    assert results_of(ranked).outside == 1


def test_a_level_without_queries_is_left_out(ranked: Ranked) -> None:
    table = ranked.table.take(np.array([4, 5]))
    assert list(results_of(Ranked(table, ranked.ranks[-2:])).levels) == [Level.CONCEPT]


def test_intervals_depend_on_the_seed_alone(ranked: Ranked) -> None:
    first = results_of(ranked, seed=1).levels[Level.ENTITY].overall.average.ci
    assert first == results_of(ranked, seed=1).levels[Level.ENTITY].overall.average.ci
    values = np.random.default_rng(0).random(50)
    assert resample(values, "2p", Bootstrap(seed=1)).tolist() != resample(values, "2p", Bootstrap(seed=2)).tolist()


def test_intervals_cover_the_mean_as_the_normal_approximation_says() -> None:
    values = np.random.default_rng(3).random(2000)
    means = resample(values, "2p", Bootstrap(draws=2000))
    assert means.mean() == pytest.approx(values.mean(), abs=0.001)
    assert means.std() == pytest.approx(values.std() / np.sqrt(2000), rel=0.08)


def test_the_order_of_templates_is_the_literatures(ranked: Ranked) -> None:
    columns = ranked.table.columns.to_pydict() | {"template": ["zz", "up", "1p", "3in", "1p", "2p"]}
    board = results_of(replace(ranked, table=QueryTable.of(columns))).levels[Level.ENTITY].overall
    assert list(board.templates) == ["1p", "up", "3in", "zz"]
