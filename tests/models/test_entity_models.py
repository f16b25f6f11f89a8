"""Laws of the models of entities alone: candidates are scored as all are, and every parameter learns."""

from __future__ import annotations

import pytest
import torch
from entity_models import SHAPES, SIZES, VARIANTS, model_of, rows_of

from tarbox.core.errors import ConfigError, QueryError
from tarbox.models.base import EntityModel, Sizes
from tarbox.models.learning.objective import margin
from tarbox.models.registry import MODELS, find_model
from tarbox.query.algebra import Concept

EVERYONE = slice(0, SIZES.entities)
EACH = pytest.mark.parametrize("variant", VARIANTS)


def test_every_model_of_entities_is_under_test() -> None:
    found = {
        name for name in MODELS if isinstance(find_model(name), type) and issubclass(find_model(name), EntityModel)
    }
    assert found == {name for name, _ in VARIANTS.values()}


@EACH
def test_candidates_are_scored_as_all_are(variant: str) -> None:
    """Also where there are fewer of them than nodes, and for a range of the nodes."""
    model = model_of(variant)
    for shape in filter(model.supports, SHAPES.values()):
        ids = rows_of(shape)
        everyone = model.score(shape, ids, EVERYONE)
        for width in (1, 9):
            candidates = torch.randint(SIZES.entities, (len(ids), width))
            found = model.score_candidates(shape, ids, candidates).detach()
            torch.testing.assert_close(found, everyone.gather(1, candidates))
        torch.testing.assert_close(model.score(shape, ids, slice(4, 9)), everyone[:, 4:9])


@EACH
def test_every_parameter_gets_a_gradient(variant: str) -> None:
    """None is frozen."""
    model = model_of(variant)
    total = torch.zeros((), dtype=torch.float64)
    for shape in filter(model.supports, SHAPES.values()):
        candidates = torch.randint(SIZES.entities, (40, 5))
        total = total + model.score_candidates(shape, rows_of(shape, 40), candidates).square().sum()
    total.backward()
    for name, parameter in model.named_parameters():
        assert parameter.grad is not None, name
        assert parameter.grad.isfinite().all(), name
        assert (parameter.grad.abs().sum(-1) > 0).any(), name


@pytest.mark.parametrize("name", ["2p", "2i", "up", "2in"])
@EACH
def test_gradients_against_differences(variant: str, name: str) -> None:
    sizes = Sizes(entities=6, concepts=0, relations=2)
    model, shape = model_of(variant, sizes, dimension=2), SHAPES[name]
    if not model.supports(shape) or variant == "fuzzqe":  # of two dimensions LayerNorm makes 1 and -1: at the corners
        return
    ids, candidates = rows_of(shape, 2, sizes), torch.tensor([[0, 2], [1, 0]])
    names = [key for key, _ in model.named_parameters()]

    def scores(*values: torch.Tensor) -> torch.Tensor:
        bound = {f"model.{key}": value for key, value in zip(names, values, strict=True)}
        return torch.func.functional_call(Scores(model), bound, (shape, ids, candidates))

    parameters = tuple(value.detach().clone().requires_grad_() for _, value in model.named_parameters())
    assert torch.autograd.gradcheck(scores, parameters, fast_mode=True)


class Scores(torch.nn.Module):
    """A module whose forward pass scores candidates."""

    def __init__(self, model: EntityModel) -> None:
        super().__init__()
        self.model = model

    def forward(self, *given: object) -> torch.Tensor:
        return self.model.score_candidates(*given)  # type: ignore[arg-type]


@EACH
def test_bfloat16_matrix_products_keep_scores_in_single_precision(variant: str) -> None:
    model = model_of(variant).float()
    for name in ("1p", "2i", "up", "2in"):
        shape = SHAPES[name]
        if model.supports(shape):
            candidates = torch.arange(5).expand(6, 5)
            plain = model.score_candidates(shape, rows_of(shape), candidates)
            with torch.autocast("cpu", torch.bfloat16):
                rounded = model.score_candidates(shape, rows_of(shape), candidates)
            assert rounded.dtype is torch.float32
            torch.testing.assert_close(rounded, plain, rtol=0.05, atol=1.0)


@EACH
def test_few_steps_of_the_loss_separate_answers_from_others(variant: str) -> None:
    model = model_of(variant, dimension=24).float()  # clamped sets of fewer blocks have nothing in common
    optimizer = torch.optim.Adam(model.parameters(), lr=0.05)
    shape, ids, chosen = SHAPES["2i"], torch.tensor([[0, 3, 1, 4]]), torch.tensor([[2, 0, 1, 3, 4]])
    for _ in range(60):
        scores = model.score_candidates(shape, ids, chosen)
        loss = margin(scores[:, :1], scores[:, 1:], torch.ones(1, 4, dtype=torch.bool)).sum()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    assert model.score(shape, ids, EVERYONE)[0, :5].argmax().item() == 2


@EACH
def test_a_concept_has_to_become_a_node_first(variant: str) -> None:
    with pytest.raises(QueryError, match="one_more_hop"):
        model_of(variant).score(Concept("?c1"), torch.tensor([[0]]), EVERYONE)


@pytest.mark.parametrize(
    ("name", "settings", "message"),
    [
        ("gqe", {"margin": 0.0}, "must be greater than 0"),
        ("q2b", {"inside": 2.0}, "inside = 2.0: it must be between 0 and 1"),
        ("q2b", {"dimension": 0}, "must be greater than 0"),
        ("beta", {"start": "zero"}, "start = 'zero': choose one of random, identity"),
        ("beta", {"hidden": 0}, "hidden = 0: it must be greater than 0"),
        ("cone", {"inside": 1.0}, "inside = 1.0: it must be at least 0 and below 1"),
        ("cone", {"start": "identity", "hidden": 900}, "hidden = 900: the identity of 800 axes takes at least 1600"),
        ("hype", {"inside": -1.0}, "inside = -1.0: it must be between 0 and 1"),
        ("logice", {"t_norm": "min"}, "t_norm = 'min': choose one of product"),
        ("logice", {"start": "identity", "hidden": 5}, "hidden = 5: the identity of 400 intervals takes at least 800"),
        ("gnnqe", {"dropout": 2.0}, "dropout = 2.0: it must be between 0 and 1"),
        ("ultraquery", {"dropout": -1.0}, "dropout = -1.0: it must be between 0 and 1"),
        ("ultraquery", {"relation_layers": 0}, "relation_layers = 0: it must be greater than 0"),
        ("fuzzqe", {"t_norm": "min"}, "t_norm = 'min': choose one of product"),
        ("fuzzqe", {"norm": 3}, "norm = 3: choose one of 1, 2"),
        ("fuzzqe", {"bases": 0}, "bases = 0: it must be greater than 0"),
    ],
)
def test_settings_out_of_range_get_advice(name: str, settings: dict[str, object], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        find_model(name).Config(**settings)
