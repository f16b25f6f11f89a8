"""Hold-out fitting: what is compared with what, against plain versions."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from uncertain import Maker, World

from tarbox.benchmark.tables import OUTSIDE, QueryTable
from tarbox.execution.exact import answer_rows
from tarbox.execution.graph import Index
from tarbox.kb.facts import Facts
from tarbox.kb.splits import hold_out
from tarbox.kb.vocabulary import Vocabulary
from tarbox.models.credo import holdout
from tarbox.models.credo.concepts import SetModel
from tarbox.models.credo.holdout import (
    SHAPES,
    FittingQueries,
    HeldOut,
    asks_for_unjoined,
    fit_ranking,
    ranking_loss,
)
from tarbox.models.credo.model import MISSING, Credo, CredoConfig
from tarbox.models.learning.seam import TrainingData


@pytest.fixture(scope="module")
def facts() -> HeldOut:
    whole = Maker(1, entities=30, concepts=8).world(uncertain=False, dense=1.5).facts
    return HeldOut(whole, hold_out(whole, 0, 0.2))


@pytest.fixture(scope="module")
def reasoner(facts: HeldOut) -> Credo:
    """Of the kept facts; some others have probabilities, and more of those that were held out."""
    random, missing = np.random.default_rng(0), triples(facts.whole) - triples(facts.kept)
    others = {tuple(row) for row in random.integers(0, [3, 30, 30], (60, 3)).tolist()} - triples(facts.whole)
    links = dict.fromkeys(sorted(missing)[::2], 0.6) | dict.fromkeys(sorted(others), 0.3)
    world = World(facts.kept, links, {(n, n % 8): 0.3 for n in range(30)})
    return Credo.of(world.index, world.probabilities, SetModel.of(world.index, 0))


@pytest.fixture(scope="module")
def queries(reasoner: Credo, facts: HeldOut) -> FittingQueries:
    return FittingQueries.of(reasoner, facts, 40, seed=0)


def triples(facts: Facts) -> set[tuple[int, ...]]:
    return set(zip(facts.relations.tolist(), facts.heads.tolist(), facts.tails.tolist(), strict=True))


@pytest.mark.parametrize(("joined", "count", "wanted"), [(False, 60, True), (True, 60, False), (False, 15, False)])
def test_what_validation_asks_for(joined: bool, count: int, wanted: bool) -> None:
    """Links between entities that no fact joins, though facts often join the same two: as if pairs were missing. With
    as many links between entities that are joined already, or with a few, it tells nothing."""
    words = Vocabulary.of([f"e{n:03}" for n in range(200)], [], ["r", "s"])
    stated = [(n, relation, n + 100) for n in range(100) for relation in (0, 1)]
    rows = [[0, n + 100] for n in range(count)]
    targets = [[n if joined else (n + 1) % 100, OUTSIDE] for n in range(count)]
    column = {"id": list(map(str, range(count))), "shape": ["?r1 value ?e1"] * count, "slots": rows, "target": targets}
    table = QueryTable.of(column | {"level": ["entity"] * count, "known": [[]] * count})
    facts = Facts.of(words, stated)
    assert asks_for_unjoined(facts, table) is wanted

    def resolved(missing: str, asked: QueryTable | None) -> str:
        return Credo.resolve(CredoConfig(missing=missing), TrainingData(facts, asked), torch.device("cpu")).missing

    found = {name: resolved(name, table) for name in MISSING}
    assert found == {"auto": "pairs" if wanted else "facts", "facts": "facts", "pairs": "pairs"}
    assert resolved("auto", None) == "facts"  # a store asks for nothing
    single = Facts.of(words, [(n, 0, n + 100) for n in range(100)])
    assert not asks_for_unjoined(single, table)  # nothing is joined twice, so this is as usual


def test_what_is_true(facts: HeldOut) -> None:
    decoded = {(key // 900, key // 30 % 30, key % 30) for key in facts.true_links().tolist()}
    assert decoded == triples(facts.whole)
    typings = World(facts.whole, {}, {}).all_typings()
    assert {divmod(key, 8) for key in facts.true_typings().tolist()} == set(typings)
    ends = set(zip(*(column.tolist() for column in holdout._held_out_ends(facts)), strict=True))
    wanted = set()
    for relation, head, tail in triples(facts.whole) - triples(facts.kept):
        wanted |= {(head, 2 * relation, tail), (tail, 2 * relation + 1, head)}
    assert ends == wanted


def test_queries_that_lost_an_answer_lost_one(queries: FittingQueries, reasoner: Credo, facts: HeldOut) -> None:
    later = Index.of(facts.whole)
    assert len(queries.usual) == len(queries.lacking) == len(SHAPES)
    for shape, ids in queries.lacking:
        before, after = (answer_rows(shape, ids, index) for index in (reasoner.index, later))
        for row in range(len(ids)):
            lost = set(after[0][row].tolist()) - set(before[0][row].tolist())
            assert lost or set(after[1][row].tolist()) - set(before[1][row].tolist())
    for shape, ids in queries.usual:
        assert 0 < len(ids) <= 40
        assert (answer_rows(shape, ids, later)[0].sizes() > 0).all()


def test_the_loss_of_a_ranking() -> None:
    random = torch.Generator().manual_seed(0)
    logits = torch.randn(3, 4, generator=random)
    true = torch.tensor([[1, 0, 1, 0], [0, 0, 0, 0], [0, 1, 0, 0]], dtype=torch.bool)
    used = torch.tensor([[1, 1, 1, 1], [1, 1, 1, 0], [1, 1, 0, 0]], dtype=torch.bool)
    weights = torch.tensor([[1, 2, 1, 1], [1, 1, 5, 0], [0, 0, 0, 0]], dtype=torch.float32)
    pointwise, lists = 0.0, []
    for row in range(3):
        shares = logits[row][used[row]].softmax(0).log()
        own = [float(shares[int(used[row][:place].sum())]) for place in range(4) if true[row, place]]
        lists += [-sum(own) / len(own)] if own else []
        for place in range(4):
            likely = float(logits[row, place].sigmoid())
            pointwise -= float(weights[row, place]) * np.log(likely if true[row, place] else 1 - likely)
    wanted = pointwise / float(weights.sum()) + holdout.LISTWISE * sum(lists) / len(lists)
    assert float(ranking_loss(logits, true, used, weights)) == pytest.approx(wanted, rel=1e-5)


def test_of_many_concepts_each_that_is_chosen_stands_for_others() -> None:
    random = np.random.default_rng(0)
    strength = random.normal(size=4000).astype(np.float32)
    true = np.zeros(4000, np.bool_)
    true[np.argsort(strength)[:3]] = True  # those that look least like it
    chosen, weights = holdout._choose(strength, true, random)
    assert len(set(chosen.tolist())) == len(chosen) == holdout._SHORTLIST
    assert set(np.flatnonzero(true)) <= set(chosen.tolist())
    strongest = set(np.argsort(-strength)[: holdout._SHORTLIST // 2].tolist())
    assert strongest <= set(chosen.tolist())
    assert all(
        weight == 1 for place, weight in zip(chosen.tolist(), weights.tolist(), strict=True) if place in strongest
    )
    assert weights.sum() == pytest.approx(4000, rel=0.3)  # in all, as many as there are
    few, ones = holdout._choose(strength[:10], true[:10], random)
    assert (few.tolist(), ones.tolist()) == (list(range(10)), [1.0] * 10)


def test_a_ranking_puts_true_concepts_first(queries: FittingQueries, reasoner: Credo) -> None:
    found = fit_ranking(reasoner, queries, 0, torch.device("cpu"))
    assert found is not None
    shape, ids = queries.lacking[0]
    lists = holdout._lists(reasoner, queries.later, shape, ids, (True, np.random.default_rng(0)))
    degrees = found.apply(lists.features[lists.used])
    assert degrees[lists.true[lists.used]].mean() > 1.5 * degrees[~lists.true[lists.used]].mean()
    nothing = FittingQueries(queries.usual, (), reasoner.index)  # nothing is true that is not known
    assert fit_ranking(reasoner, nothing, 0, torch.device("cpu")) is None
