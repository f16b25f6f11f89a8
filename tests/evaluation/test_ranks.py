"""Ranks against a sort done by hand, with ties, filters, excluded candidates and names outside the vocabulary."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tarbox.benchmark.tables import OUTSIDE, Lists
from tarbox.core.errors import BenchmarkError
from tarbox.evaluation.ranks import filtered_ranks


@dataclass(frozen=True)
class Case:
    scores: np.ndarray
    targets: list[list[int]]
    known: list[list[int]]
    excluded: list[int]


@st.composite
def cases(draw: st.DrawFn) -> Case:
    candidates = draw(st.integers(1, 12))
    queries = draw(st.integers(1, 5))
    levels = st.sampled_from([0.0, 0.5, 1.0, 2.0, -np.inf])
    scores = np.array(
        draw(st.lists(st.lists(levels, min_size=candidates, max_size=candidates), min_size=queries, max_size=queries))
    )
    answers = st.lists(st.integers(OUTSIDE, candidates - 1), max_size=4, unique=True)
    others = st.lists(st.integers(0, candidates - 1), max_size=4, unique=True)
    several = [draw(st.lists(kind, min_size=queries, max_size=queries)) for kind in (answers, others)]
    return Case(scores, several[0], several[1], draw(others))


def ranks_by_sorting(case: Case) -> list[float]:
    """PyKEEN's definition: the mean of the first and the last place that a sort could give the target."""
    found = []
    for scores, targets, known in zip(case.scores.tolist(), case.targets, case.known, strict=True):
        for target in targets:
            if target == OUTSIDE:
                found.append(float("inf"))
                continue
            hidden = {*targets, *known, *case.excluded} - {target}
            left = [(score, candidate) for candidate, score in enumerate(scores) if candidate not in hidden]
            first = sorted(left, key=lambda pair: (-pair[0], pair[1] != target)).index((scores[target], target)) + 1
            last = sorted(left, key=lambda pair: (-pair[0], pair[1] == target)).index((scores[target], target)) + 1
            found.append((first + last) / 2)
    return found


def rank(case: Case, scores: object) -> list[float]:
    excluded = np.array(case.excluded, np.int32)
    return filtered_ranks(scores, Lists.of(case.targets), Lists.of(case.known), excluded).tolist()


@given(cases())
@settings(deadline=None)
def test_ranks_agree_with_a_sort(case: Case) -> None:
    assert rank(case, case.scores) == ranks_by_sorting(case)


@given(cases())
@settings(deadline=None, max_examples=30)
def test_torch_agrees_with_numpy(case: Case) -> None:
    torch = pytest.importorskip("torch")
    assert rank(case, torch.tensor(case.scores, dtype=torch.float32)) == rank(case, case.scores)


def test_large_batch_with_many_ties_agrees_with_a_sort() -> None:
    random = np.random.default_rng(0)
    scores = random.integers(0, 6, (40, 300)).astype(float)
    targets = [random.choice(300, size, replace=False).tolist() for size in random.integers(0, 30, 40)]
    known = [random.choice(300, 40, replace=False).tolist() for _ in range(40)]
    case = Case(scores, targets, known, [0, 7])
    assert rank(case, scores) == ranks_by_sorting(case)


def test_scores_stay_as_they_were() -> None:
    scores = np.array([[3.0, 2.0, 1.0]])
    filtered_ranks(scores, Lists.of([[2]]), Lists.of([[0]]), np.array([1], np.int32))
    assert scores.tolist() == [[3.0, 2.0, 1.0]]


def test_a_score_that_is_no_number_is_refused() -> None:
    with pytest.raises(BenchmarkError, match="NaN"):
        filtered_ranks(np.array([[np.nan, 1.0]]), Lists.of([[1]]), Lists.of([[]]))
