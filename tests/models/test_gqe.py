"""GQE's own mathematics against numpy, one query at a time."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from entity_models import SHAPES, SIZES, model_of, rows_of

from tarbox.query.templates import template

EVERYONE = slice(0, SIZES.entities)


def test_a_chain_moves_a_point() -> None:
    model, ids = model_of("gqe"), rows_of(SHAPES["2p"])
    entities, relations = model.entities.detach().numpy(), model.relations.detach().numpy()
    found = model.score(SHAPES["2p"], ids, EVERYONE).numpy()
    for row, (last, first, anchor) in enumerate(ids.tolist()):
        point = entities[anchor]
        for relation in (first, last):
            point = point + relations[relation]
        for entity in range(SIZES.entities):
            assert found[row, entity] == pytest.approx(24.0 - sum(abs(point - entities[entity])))


def test_an_intersection_is_a_mean_under_attention() -> None:
    """In every dimension the weights of the operands are a softmax of a two-layer network."""
    model = model_of("gqe")
    operands = torch.randn(3, 1, 5, dtype=torch.float64)
    inner, bias = (part.detach().numpy() for part in model.attention.inner.parameters())
    (outer,) = (part.detach().numpy() for part in model.attention.outer.parameters())
    logits = [outer @ np.maximum(inner @ operand[0].numpy() + bias, 0) for operand in operands]
    weights = np.exp(logits) / np.exp(logits).sum(0)
    wanted = (weights * operands[:, 0].numpy()).sum(0)
    np.testing.assert_allclose(model.attention.combine(operands)[0].detach().numpy(), wanted)


def test_of_a_union_the_nearest_alternative_counts() -> None:
    """Also where it stands inside: `(a or b) and c` is the better of `a and c` and `b and c`."""
    model, ids = model_of("gqe"), rows_of(SHAPES["2u"])
    branches = [model.score(SHAPES["1p"], ids[:, columns], EVERYONE) for columns in ([0, 1], [2, 3])]
    torch.testing.assert_close(model.score(SHAPES["2u"], ids, EVERYONE), torch.maximum(*branches))
    nested = template("un", "((?r1 value ?e1) or (?r2 value ?e2)) and (?r3 value ?e3)").shape
    ids = rows_of(nested)
    parts = [model.score(SHAPES["2i"], ids[:, columns], EVERYONE) for columns in ([0, 1, 4, 5], [2, 3, 4, 5])]
    torch.testing.assert_close(model.score(nested, ids, EVERYONE), torch.maximum(*parts))
