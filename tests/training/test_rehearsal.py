"""What a rehearsal is made of: what is hidden, the lists that teach the ranking, and their loss."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from tarbox.benchmark.folder import open_benchmark
from tarbox.core.ids import Level
from tarbox.execution.exact import answer_rows
from tarbox.execution.graph import Index
from tarbox.kb.facts import Facts
from tarbox.kb.splits import hide
from tarbox.models.credo import Credo
from tarbox.models.describing import Describer
from tarbox.models.probabilities import FactProbabilities
from tarbox.models.saved import sizes_of
from tarbox.query.templates import TEMPLATES
from tarbox.training import rehearsal, tempering
from tarbox.training.rehearsal import (
    LISTWISE,
    SHAPES,
    Rehearsal,
    choose,
    draw_lacking,
    draw_usual,
    list_concepts,
    ranking_loss,
    rehearse_queries,
    rehearsed_shapes,
    sample_answers,
    set_weights,
)
from tarbox.training.session import lessons_of
from tarbox.training.tempering import Sample

NONE = (np.empty(0, np.int64), np.empty(0, np.float32))


@pytest.fixture(scope="module")
def facts(bench: object) -> Facts:
    return open_benchmark(bench).store.facts  # type: ignore[arg-type]


@pytest.fixture(scope="module")
def rest(facts: Facts) -> Facts:
    return hide(facts, seed=0, share=0.1)


@pytest.fixture(scope="module")
def reasoner(rest: Facts) -> Credo:
    """It believes nothing beyond the rest of the facts."""
    index = Index.of(rest)
    describer = Describer.of(index, set_weights(index, 0))
    return Credo.of(index, FactProbabilities.of(rest, sizes_of(rest), NONE, NONE), describer, None, "strongest")


def pairs(*columns: NDArray[np.int32]) -> set[tuple[int, ...]]:
    return set(zip(*(column.tolist() for column in columns), strict=True))


@pytest.mark.parametrize("share", [0.05, 0.1, 0.2])
def test_a_share_of_assertions_and_typings_is_hidden(facts: Facts, share: float) -> None:
    rest = hide(facts, seed=3, share=share)
    whole, kept = (pairs(given.heads, given.relations, given.tails) for given in (facts, rest))
    assert kept < whole
    assert 1 - len(kept) / len(whole) == pytest.approx(share, abs=0.01)
    assert pairs(rest.typed, rest.types) < pairs(facts.typed, facts.types)
    assert pairs(rest.subs, rest.supers) == pairs(facts.subs, facts.supers)
    assert set(rest.relations.tolist()) == set(facts.relations.tolist())
    again, other = hide(facts, seed=3, share=share), hide(facts, seed=4, share=share)
    assert pairs(again.heads, again.relations, again.tails) == kept
    assert pairs(other.heads, other.relations, other.tails) != kept


def test_the_loss_of_the_ranking() -> None:
    """The mean of cross entropy by weight, and of lists with a true candidate by softmax."""
    random = np.random.default_rng(0)
    logits = random.normal(size=(4, 5))
    used = np.array([[1, 1, 1, 0, 1], [1, 1, 0, 1, 1], [1, 1, 1, 1, 1], [0, 0, 0, 0, 0]], np.bool_)
    true = np.array([[1, 0, 1, 0, 0], [0, 0, 0, 1, 0], [0, 0, 0, 0, 0], [0, 0, 0, 0, 0]], np.bool_)
    weights = random.random((4, 5)) * used
    each, lists = [], []
    for row in range(4):
        total = math.fsum(math.exp(logits[row, k]) for k in range(5) if used[row, k])
        each += [
            weights[row, k] * math.log1p(math.exp(-logits[row, k] if true[row, k] else logits[row, k]))
            for k in range(5)
        ]
        right = [math.log(total) - logits[row, k] for k in range(5) if true[row, k]]
        lists += [sum(right) / len(right)] if right else []
    wanted = sum(each) / weights.sum() + LISTWISE * sum(lists) / len(lists)
    found = ranking_loss(*map(torch.from_numpy, (logits, true, used, weights)))
    assert found.item() == pytest.approx(wanted)


def test_a_list_of_which_everything_is_known_has_no_gradient() -> None:
    logits = torch.randn(2, 3, requires_grad=True)
    nothing = torch.zeros(2, 3, dtype=torch.bool)
    ranking_loss(logits, nothing, nothing, torch.zeros(2, 3)).backward()
    assert logits.grad is not None
    assert (logits.grad == 0).all()


@pytest.mark.parametrize("width", [10, 1000])
def test_a_shortlist_has_what_is_true_and_nothing_known(
    facts: Facts, rest: Facts, reasoner: Credo, width: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rehearsal, "SHORTLIST", width)
    later, shape = Index.of(facts, rest), TEMPLATES["1p"].shape
    ids = next(ids for given, ids in draw_lacking(later, None, 40, seed=1) if given == shape)
    features, true, valid, weights = list_concepts(reasoner, np.random.default_rng(0))(shape, ids, later)
    missing = [
        len(set(after.tolist()) - set(before.tolist()))
        for before, after in zip(
            *(
                [concepts[row] for row in range(len(ids))]
                for concepts in (answer_rows(shape, ids, index)[1] for index in (reasoner.index, later))
            ),
            strict=True,
        )
    ]
    assert any(missing)
    if width >= reasoner.index.concepts:
        assert true.sum(1).tolist() == missing
        assert (weights == 1).all()
    assert (true.sum(1) <= missing).all()
    assert (valid >= true).all()
    assert features.shape[:2] == (len(ids), min(width, reasoner.index.concepts))
    known = answer_rows(shape, ids, reasoner.index)[1].sizes()
    assert (valid.sum(1) <= np.minimum(reasoner.index.concepts - known, width)).all()


def test_the_weights_of_what_is_chosen_stand_for_all(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rehearsal, "SHORTLIST", 40)
    random = np.random.default_rng(3)
    strength = random.normal(size=(4000, 200)).astype(np.float32)
    true = random.random(strength.shape) < 0.01
    chosen, weights = choose(strength, true, random)
    assert chosen.shape == weights.shape == (4000, 40)
    assert weights.sum(1).mean() == pytest.approx(200, rel=0.02)
    stood_for = (np.take_along_axis(true, chosen, 1) * weights).sum() / weights.sum()
    assert stood_for == pytest.approx(true.mean(), rel=0.1)
    best = np.argsort(-strength, axis=1)[:, :20]
    assert all(set(best[row]) <= set(chosen[row]) for row in range(100))


@pytest.mark.parametrize("level", Level)
def test_samples_are_not_known_and_true_in_the_whole(
    facts: Facts, rest: Facts, reasoner: Credo, level: Level, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rehearsal, "BLOCK", 16)
    monkeypatch.setattr(tempering, "STRONGEST", 1 << 20)
    later, shape = Index.of(facts, rest), TEMPLATES["2i"].shape
    ids = draw_usual(later, shape, 40, seed=1)
    parts = list(sample_answers(reasoner, later, [(shape, ids)], level))
    assert [len(part.surveys) for part in parts] == [16, 16, 8]
    place = 0 if level is Level.ENTITY else 1
    before, after = (answer_rows(shape, ids, index)[place].sizes() for index in (reasoner.index, later))
    sample = Sample.join(parts)
    # what is known has degree 0, so that it is no candidate, whether or not it is true
    surveys, open_ = reasoner.consider(shape, ids, level)
    np.testing.assert_array_equal(sample.surveys, surveys)
    np.testing.assert_array_equal(sample.degrees, -np.sort(-open_, axis=1))
    assert sample.true.sum(1).tolist() == after.tolist()
    assert ((sample.degrees > 0).sum(1) <= open_.shape[1] - before).all()
    hidden = np.flatnonzero(after > before)
    assert len(hidden)


def test_what_the_ranking_is_rehearsed_with(bench: object, facts: Facts, rest: Facts, reasoner: Credo) -> None:
    """All queries as they come, and of those that lack an answer at most so many of each shape."""
    train, later = lessons_of(open_benchmark(bench)).train, Index.of(facts, rest)  # type: ignore[arg-type]
    usual = [(shape, draw_usual(later, shape, 7, seed=1)) for shape in rehearsed_shapes(train)]
    lists = list(rehearse_queries(reasoner, Rehearsal(facts, rest, train), later, usual, 3, seed=1))
    as_they_come = [one for one in lists if one.usual.all()]
    lacking = [one for one in lists if not one.usual.any()]
    assert len(as_they_come) + len(lacking) == len(lists)
    assert sum(len(one.usual) for one in as_they_come) == sum(len(ids) for _, ids in usual)
    assert all(len(one.usual) <= 3 for one in lacking)
    assert any(one.true.any() for one in lacking)
    assert all(one.features.shape[:2] == one.true.shape == one.valid.shape == one.weights.shape for one in lists)


def test_queries_are_those_of_the_benchmark_and_one_hop_ones(bench: object, facts: Facts, rest: Facts) -> None:
    train, later = lessons_of(open_benchmark(bench)).train, Index.of(facts, rest)  # type: ignore[arg-type]
    assert train is not None
    drawn = dict(draw_lacking(later, train, 5, seed=1))
    assert set(drawn) == {batch.shape for batch in train.batches()} | {TEMPLATES["1p"].shape}
    again = dict(draw_lacking(later, train, 5, seed=1))
    for shape, ids in drawn.items():
        np.testing.assert_array_equal(ids, again[shape])
        assert len(np.unique(ids, axis=0)) == len(ids)
    assert set(dict(draw_lacking(later, None, 5, seed=1))) == set(SHAPES.values())


def test_the_linear_model_of_sets(rest: Facts) -> None:
    """A regression of each concept on the others and on the relation, over what each relation leads to."""
    index = Index.of(rest)
    relations, concepts = 2 * len(rest.vocabulary.relations), index.concepts
    groups: dict[tuple[int, int], set[int]] = {}
    for h, r, t in zip(rest.heads.tolist(), rest.relations.tolist(), rest.tails.tolist(), strict=True):
        groups.setdefault((2 * r, t), set()).add(h)
        groups.setdefault((2 * r + 1, h), set()).add(t)
    rows = np.zeros((len(groups), relations + concepts))
    for row, ((relation, _), members) in enumerate(groups.items()):
        rows[row, relation] = 1
        for member in members:
            rows[row, relations + index.instances.concepts_of[member]] = 1
    found = set_weights(index, seed=0)
    assert found.shape == (relations + concepts, concepts)
    for concept in range(0, concepts, 9):
        others = np.delete(np.arange(relations + concepts), relations + concept)
        products = rows[:, others].T @ rows[:, others] + 20.0 * np.eye(len(others))
        wanted = np.linalg.solve(products, rows[:, others].T @ rows[:, relations + concept])
        np.testing.assert_allclose(found[others, concept], wanted, rtol=1e-3, atol=1e-5)
        assert found[relations + concept, concept] == 0
