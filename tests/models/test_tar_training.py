"""Laws of TAR in training: candidates are scored as all are, and every parameter learns."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

from tarbox.core.ids import Level
from tarbox.execution.rows import decode, encode
from tarbox.kb.vocabulary import Vocabulary
from tarbox.models.base import Sizes
from tarbox.models.fuzzy import T_NORMS
from tarbox.models.tar import Tar, TarConfig
from tarbox.models.translation import ATTENTIONS
from tarbox.query.algebra import And, Or, Query, operands, slots, with_operands
from tarbox.query.templates import TEMPLATES, template

SIZES = Sizes(entities=12, concepts=5, relations=3)
VOCABULARY = Vocabulary.of([f"e{n:02}" for n in range(12)], [f"c{n}" for n in range(5)], [f"r{n}" for n in range(3)])
BASE = TarConfig(dimension=5, initial_range=0.8)
SHAPES = {name: template.shape for name, template in TEMPLATES.items()} | {
    "ci": template("ci", "?c1 and (?r1 value ?e1)").shape,
    "ui": template("ui", "(?r1 value ?e1) and ((?r2 value ?e2) or (?r3 some (?r4 value ?e3)))").shape,
    "mixed": template("mixed", "?r1 some (?c1 and not (?r2 value ?e1)) or (?r3 some ?c2)").shape,
}
VARIANTS = {
    "paper": BASE,
    "published": replace(BASE, projection="dot", detach_entities=True, attention="invariant", instantiation="logit"),
    "softmax": replace(BASE, attention="softmax", union="vector", offset=-1.0, p=2.0),
    "scaled": replace(BASE, similarity_scale=20.0, distance_scale=2.0, membership_scale=5.0),
}
LEVELS = pytest.mark.parametrize("level", Level)
NAMES = pytest.mark.parametrize("name", SHAPES)


def model_of(config: TarConfig, sizes: Sizes = SIZES) -> Tar:
    torch.manual_seed(4)
    return Tar(config, sizes).double()


def rows_of(shape: Query, size: int = 6) -> torch.Tensor:
    limits = [{"entity": 12, "concept": 5, "relation": 6}[slot.role.value] for slot in slots(shape)]
    return torch.from_numpy(np.random.default_rng(3).integers(0, limits, (size, len(limits))))


def reverse(query: Query) -> Query:
    parts = [reverse(part) for part in operands(query)]
    return with_operands(query, parts[::-1] if isinstance(query, And | Or) else parts)


@LEVELS
@NAMES
@pytest.mark.parametrize("variant", [name for name in VARIANTS if name != "scaled"])
def test_candidates_are_scored_as_all_are(variant: str, name: str, level: Level) -> None:
    shape, model = SHAPES[name], model_of(VARIANTS[variant])
    ids = rows_of(shape)
    everyone = model.score(shape, ids, level)
    for width in (2, model.candidates(level)):
        candidates = torch.randint(model.candidates(level), (len(ids), width))
        found = model.score_candidates(shape, ids, level, candidates)
        torch.testing.assert_close(found.detach(), everyone.gather(1, candidates))


@LEVELS
@NAMES
def test_scales_stretch_what_the_loss_sees(name: str, level: Level) -> None:
    """By 20 for similarities, 2 for distances or 5 for degrees, and by nothing else."""
    shape = SHAPES[name]
    candidates = torch.arange(5).expand(6, 5)
    plain, scaled = (
        model_of(VARIANTS[variant]).score_candidates(shape, rows_of(shape), level, candidates).detach()
        for variant in ("paper", "scaled")
    )
    apart, wanted = (scores[:, 1:] - scores[:, :1] for scores in (scaled, plain))
    scale = (apart / wanted).median().round().item()
    assert scale in ({20.0} if level is Level.CONCEPT else {2.0, 5.0})
    torch.testing.assert_close(apart, scale * wanted)


@LEVELS
@NAMES
@pytest.mark.parametrize("attention", ATTENTIONS)
@pytest.mark.parametrize("t_norm", T_NORMS)
def test_the_order_of_operands_changes_nothing(name: str, level: Level, attention: str, t_norm: str) -> None:
    model, shape = model_of(replace(BASE, attention=attention, t_norm=t_norm)), SHAPES[name]
    for row in rows_of(shape, 3).numpy().astype(np.int32):
        turned, ids = encode(reverse(decode(shape, row, VOCABULARY)), VOCABULARY)
        torch.testing.assert_close(model.score(shape, row[None], level), model.score(turned, ids[None], level))


@LEVELS
@NAMES
@pytest.mark.parametrize("t_norm", T_NORMS)
def test_a_batch_equals_its_rows(name: str, level: Level, t_norm: str) -> None:
    model, shape = model_of(replace(BASE, t_norm=t_norm)), SHAPES[name]
    ids = rows_of(shape)
    alone = torch.cat([model.score(shape, ids[n : n + 1], level) for n in range(len(ids))])
    torch.testing.assert_close(model.score(shape, ids, level), alone)


@pytest.mark.parametrize("variant", VARIANTS)
def test_every_parameter_gets_a_gradient(variant: str) -> None:
    """None is frozen."""
    model = model_of(VARIANTS[variant])
    total = model.subsumption(torch.randint(5, (9, 4)), torch.randint(5, (9, 4))).square().sum()
    total = total + model.instantiation(torch.randint(12, (30, 2)), torch.randint(5, (30, 2))).square().sum()
    for shape in SHAPES.values():
        for level in Level:
            candidates = torch.randint(model.candidates(level), (40, 5))
            total = total + model.score_candidates(shape, rows_of(shape, 40), level, candidates).square().sum()
    total.backward()
    for name, parameter in model.named_parameters():
        assert parameter.grad is not None, name
        assert parameter.grad.isfinite().all(), name
        assert (parameter.grad.abs().sum(-1) > 0).any(), name


@LEVELS
@pytest.mark.parametrize("name", ["1p", "2i", "ip", "up", "2in", "ci", "mixed"])
@pytest.mark.parametrize("variant", ["paper", "published"])
def test_gradients_against_differences(variant: str, name: str, level: Level) -> None:
    sizes = Sizes(entities=6, concepts=3, relations=2)
    model = model_of(replace(VARIANTS[variant], dimension=2, detach_entities=False), sizes)
    shape = SHAPES[name]
    limits = [{"entity": 6, "concept": 3, "relation": 4}[slot.role.value] for slot in slots(shape)]
    ids = torch.from_numpy(np.random.default_rng(5).integers(0, limits, (2, len(limits))))
    candidates = torch.tensor([[0, 2], [1, 0]])
    names = [key for key, _ in model.named_parameters()]

    def scores(*values: torch.Tensor) -> torch.Tensor:
        def call(module: Tar) -> torch.Tensor:
            return module.score_candidates(shape, ids, level, candidates)

        bound = dict(zip(names, values, strict=True))
        return torch.func.functional_call(_Call(model, call), {f"model.{key}": v for key, v in bound.items()}, ())

    parameters = tuple(value.detach().clone().requires_grad_() for _, value in model.named_parameters())
    assert torch.autograd.gradcheck(scores, parameters)


class _Call(torch.nn.Module):
    """A module whose forward pass is any method of the model."""

    def __init__(self, model: Tar, call: object) -> None:
        super().__init__()
        self.model, self.call = model, call

    def forward(self) -> torch.Tensor:
        return self.call(self.model)  # type: ignore[operator]


def test_detached_entities_learn_as_anchors_only() -> None:
    """The universe gets no gradient in concept retrieval; the entities that a query names do."""
    shape, ids = SHAPES["2i"], torch.tensor([[0, 3, 1, 4]])
    grads = {}
    for detach in (False, True):
        model = model_of(replace(BASE, detach_entities=detach))
        model.score_candidates(shape, ids, Level.CONCEPT, torch.tensor([[0, 1]]))[0, 0].backward()
        assert model.entities.grad is not None
        grads[detach] = (model.entities.grad.abs().sum(1) > 0).tolist()
    assert all(grads[False])
    assert [entity for entity, learns in enumerate(grads[True]) if learns] == [3, 4]


def test_few_steps_of_the_loss_separate_answers_from_others() -> None:
    """Eq. 17 for one query at each level."""
    torch.manual_seed(0)
    model = Tar(TarConfig(dimension=16), SIZES)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.05)
    shape, ids = SHAPES["2i"], torch.tensor([[0, 3, 1, 4]])
    chosen = torch.tensor([[2, 0, 1, 3, 4]])
    for _ in range(60):
        loss = torch.zeros(())
        for level in Level:
            scores = model.score_candidates(shape, ids, level, chosen)
            loss = loss - torch.nn.functional.logsigmoid(scores[:, :1] - scores[:, 1:]).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    for level in Level:
        assert model.score(shape, ids, level)[0, :5].argmax().item() == 2


@LEVELS
@pytest.mark.parametrize("name", ["1p", "2i", "up", "2in", "ci"])
@pytest.mark.parametrize("variant", ["paper", "published"])
def test_bfloat16_matrix_products_keep_scores_in_single_precision(variant: str, name: str, level: Level) -> None:
    shape, model = SHAPES[name], model_of(VARIANTS[variant]).float()
    candidates = torch.arange(5).expand(6, 5)
    plain = model.score_candidates(shape, rows_of(shape), level, candidates)
    with torch.autocast("cpu", torch.bfloat16):
        rounded = model.score_candidates(shape, rows_of(shape), level, candidates)
        pairs = model.subsumption(candidates, candidates), model.instantiation(candidates, candidates)
    assert {scores.dtype for scores in (rounded, *pairs)} == {torch.float32}
    torch.testing.assert_close(rounded, plain, rtol=0.05, atol=0.05)
