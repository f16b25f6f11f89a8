"""FuzzQE's own mathematics: fuzzy sets of blocks, the laws that its authors ask for, and the basis decomposition."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from entity_models import SHAPES, SIZES, model_of, rows_of

from tarbox.models.fuzzy import T_NORMS
from tarbox.query.templates import template

EVERYONE = slice(0, SIZES.entities)
NORMS = pytest.mark.parametrize("t_norm", T_NORMS)
FUNCTIONS = {
    "clamp": lambda values: np.clip(values, 0, 1),
    "sigmoid": lambda values: 1 / (1 + np.exp(-values)),
    "steep": lambda values: 1 / (1 + np.exp(4 - 8 * values)),
}
REGULATORS = pytest.mark.parametrize("regulator", FUNCTIONS)


@REGULATORS
@NORMS
def test_queries_are_degrees_and_entities_distributions(t_norm: str, regulator: str) -> None:
    model = model_of("fuzzqe", t_norm=t_norm, regulator=regulator, norm=1)
    for shape in SHAPES.values():
        degrees = model.sets(shape, rows_of(shape))
        assert ((degrees >= 0) & (degrees <= 1)).all()
    blocks = model.blocks(model.entities)
    assert (blocks >= 0).all()
    torch.testing.assert_close(blocks.sum(1), torch.ones(SIZES.entities).double())


@REGULATORS
@pytest.mark.parametrize("norm", [1, 2])
def test_the_score_of_a_projection_in_numpy(norm: int, regulator: str) -> None:
    """g(LayerNorm(W_r S + b_r)) p, with the relation's own matrix written out."""
    settings = {"scale": 7.0, "margin": 2.0, "norm": norm, "regulator": regulator}
    model, ids = model_of("fuzzqe", **settings), rows_of(SHAPES["1p"])
    projection, regulate = model.projection, FUNCTIONS[regulator]
    weights, bases, shifts = (
        part.detach().numpy() for part in (projection.weights, projection.bases, projection.shifts)
    )
    values = regulate(model.entities.detach().numpy())
    found = model.score(SHAPES["1p"], ids, EVERYONE).numpy()
    for row, (relation, anchor) in enumerate(ids.tolist()):
        matrix = sum(weight * basis.T for weight, basis in zip(weights[relation], bases, strict=True))
        moved = matrix @ values[anchor] + weights[relation] @ shifts
        moved = (moved - moved.mean()) / np.sqrt(moved.var() + 1e-5)
        degrees = regulate(moved)
        for entity in range(SIZES.entities):
            lengths = [values[entity].sum(), np.linalg.norm(values[entity]) * np.linalg.norm(degrees)]
            wanted = 7.0 * (degrees @ values[entity] / lengths[norm - 1]) - 2.0
            assert found[row, entity] == pytest.approx(wanted)


def test_relations_begin_as_rotations_and_clamped_entities_as_degrees() -> None:
    model = model_of("fuzzqe")
    for basis in model.projection.bases.detach():
        torch.testing.assert_close(basis @ basis.T, torch.eye(5).double(), rtol=0, atol=1e-5)
    assert ((model.entities >= 0) & (model.entities <= 1)).all()
    assert not list(model.projection.norm.parameters())


def test_only_the_product_of_a_projection_is_rounded_to_bfloat16() -> None:
    """What LayerNorm gets, the degrees and the cosines are in single precision, and near those without rounding."""
    model, ids = model_of("fuzzqe", dimension=200, bases=4).float(), rows_of(SHAPES["2p"], 40)
    seen: list[torch.Tensor] = []
    model.projection.norm.register_forward_pre_hook(lambda _, given: seen.append(given[0]))
    candidates = torch.arange(SIZES.entities).expand(40, SIZES.entities)
    plain = model.score_candidates(SHAPES["2p"], ids, candidates)
    with torch.autocast("cpu", torch.bfloat16):
        sets = model.sets(SHAPES["2p"], ids)
        rounded = model.score_candidates(SHAPES["2p"], ids, candidates)
    assert {tensor.dtype for tensor in (*seen, sets, rounded)} == {torch.float32}
    assert (rounded - plain).abs().max() < 0.02 * model.config.scale
    assert (rounded - plain).std() < 0.1 * plain.std()
    rounded.sum().backward()
    assert all(parameter.grad.dtype is torch.float32 for parameter in model.parameters())


@NORMS
def test_the_laws_of_logic(t_norm: str) -> None:
    """Elimination of a conjunct, amplification by a disjunct, involution of negation (Table 1 of the paper)."""
    model, ids = model_of("fuzzqe", t_norm=t_norm, norm=1), rows_of(SHAPES["2i"])
    one = model.score(SHAPES["1p"], ids[:, :2], EVERYONE)
    assert (model.score(SHAPES["2i"], ids, EVERYONE) <= one + 1e-9).all()
    assert (model.score(SHAPES["2u"], ids, EVERYONE) >= one - 1e-9).all()
    twice = template("nn", "not not (?r1 value ?e1)").shape
    torch.testing.assert_close(model.score(twice, ids[:, :2], EVERYONE), one)
    once = model.score(template("n", "not (?r1 value ?e1)").shape, ids[:, :2], EVERYONE)
    settings = model.config
    torch.testing.assert_close(once + one, torch.full_like(one, settings.scale - 2 * settings.margin))


@NORMS
def test_de_morgan(t_norm: str) -> None:
    model = model_of("fuzzqe", t_norm=t_norm)
    texts = ("not ((?r1 value ?e1) or (?r2 value ?e2))", "(not (?r1 value ?e1)) and not (?r2 value ?e2)")
    shapes = [template("x", text).shape for text in texts]
    torch.testing.assert_close(*(model.score(shape, rows_of(shape), EVERYONE) for shape in shapes))
