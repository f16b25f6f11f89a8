"""GNN-QE: who hears of the source, what training leaves out, and the logic of its sets."""

from __future__ import annotations

import pytest
import torch
from entity_models import FACTS, SHAPES, SIZES, model_of, rows_of

from tarbox.models import messages

EVERYONE = slice(0, SIZES.entities)
ASKED = torch.tensor([[3, 0]])  # what relation 1 leads to, along its direction, from entity 0


def test_only_what_messages_reach_tells_sources_apart() -> None:
    """After two layers a node three links away scores as it would from any other source as far away."""
    model = model_of("gnnqe")
    chain = torch.tensor([[0, 1, 1], [1, 1, 2], [2, 1, 3], [4, 1, 5], [5, 1, 6], [6, 1, 7]])
    model.observe(chain)
    one, other = (model.score(SHAPES["1p"], torch.tensor([[3, source]]), EVERYONE)[0] for source in (0, 8))
    changed = (one - other).abs() > 1e-9
    assert changed[[0, 1, 2]].all()
    assert not changed[[3, 4, 5, 6, 7]].any()


def test_a_renumbering_of_entities_changes_nothing() -> None:
    """Entities have no parameters: only the graph tells them apart."""
    model, order = model_of("gnnqe"), torch.randperm(SIZES.entities)
    ids = rows_of(SHAPES["pi"])
    found = model.score(SHAPES["pi"], ids, EVERYONE)
    renamed = FACTS.clone()
    renamed[:, [0, 2]] = order[FACTS[:, [0, 2]]]
    model.observe(renamed)
    turned = ids.clone()
    anchors = [2, 4]  # r1 r2 e1 r3 e2
    turned[:, anchors] = order[ids[:, anchors]]
    torch.testing.assert_close(model.score(SHAPES["pi"], turned, EVERYONE)[:, order], found)


def test_the_facts_that_a_query_follows_are_left_out_in_training_alone() -> None:
    """With a dropout of 1 the answer is what it would be without these facts, and with them where it is asked."""
    model = model_of("gnnqe", dropout=1.0)
    everyone = torch.arange(SIZES.entities)[None]
    followed = (FACTS[:, 0] == 0) & (FACTS[:, 1] == 1)
    assert followed.any()
    training = model.score_candidates(SHAPES["1p"], ASKED, everyone).detach()
    asked = model.score(SHAPES["1p"], ASKED, EVERYONE)
    assert not torch.allclose(training, asked)
    torch.testing.assert_close(model.eval().score_candidates(SHAPES["1p"], ASKED, everyone).detach(), asked)
    counts = model.messages_N.clone()
    model.observe(FACTS[~followed])
    model.messages_N = counts  # what is left out is counted all the same
    torch.testing.assert_close(model.score(SHAPES["1p"], ASKED, EVERYONE), training)


def test_a_share_of_the_facts_that_a_query_follows_is_left_out() -> None:
    model = model_of("gnnqe", dropout=0.25)
    torch.manual_seed(0)
    degrees = torch.zeros(400, SIZES.entities)
    degrees[:, 0] = 1.0
    kept = model.kept(degrees, torch.full((400,), 3))
    followed = ((FACTS[:, 0] == 0) & (FACTS[:, 1] == 1)).repeat(2)
    assert kept[~followed].all()
    assert 0.7 < kept[followed].float().mean() < 0.8
    assert torch.equal(*kept.chunk(2))


def test_queries_are_ranked_a_block_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    model, ids = model_of("gnnqe"), rows_of(SHAPES["up"])
    found = model.score(SHAPES["up"], ids, EVERYONE)
    monkeypatch.setattr(messages, "HELD", {"cpu": 1})
    torch.testing.assert_close(model.score(SHAPES["up"], ids, EVERYONE), found)


def test_degrees_obey_the_product_logic() -> None:
    """The odds of a conjunction are those of the product of degrees, of a negation those of the rest."""
    model = model_of("gnnqe")
    ids = rows_of(SHAPES["2in"])
    one, two = (torch.sigmoid(model.score(SHAPES["1p"], ids[:, part], EVERYONE)) for part in ([0, 1], [2, 3]))
    torch.testing.assert_close(torch.sigmoid(model.score(SHAPES["2in"], ids, EVERYONE)), one * (1 - two))
