"""TAR's equations against slow versions, one number at a time."""

from __future__ import annotations

import math
import re
from dataclasses import replace
from functools import reduce
from itertools import product

import pytest
import torch

from similarity import reference
from tarbox.core.errors import ConfigError
from tarbox.core.ids import Level
from tarbox.execution.rows import EVERYTHING
from tarbox.models import tar as tar_module
from tarbox.models.base import Sizes, columns
from tarbox.models.tar import Tar, TarConfig
from tarbox.models.translation import OrderedAttention
from tarbox.query.algebra import And, Concept, Entity, Exists, Not, Or, Query, lift, slots
from tarbox.query.templates import TEMPLATES, template

SIZES = Sizes(entities=9, concepts=4, relations=3)
CONFIG = TarConfig(dimension=6, initial_range=0.9)
LOGICS = {
    "product": lambda x, y: x * y,
    "godel": min,
    "lukasiewicz": lambda x, y: max(0.0, x + y - 1),
}
MORE = {
    "ci": template("ci", "?c1 and (?r1 value ?e1)").shape,
    "pc": template("pc", "?r1 some ?c1").shape,
    "cn": template("cn", "?c1 and not (?r1 some ?c2)").shape,
    "eu": lift(Or((Entity("a"), Exists("r", TEMPLATES["1p"].shape.direction, Entity("b")))))[0],
}
SHAPES = {name: template.shape for name, template in TEMPLATES.items()} | MORE
Vector = list[float]


def model_of(config: TarConfig = CONFIG, sizes: Sizes = SIZES) -> Tar:
    torch.manual_seed(1)
    return Tar(config, sizes).double()


def rows_of(shape: Query, size: int = 4) -> torch.Tensor:
    limits = {"entity": SIZES.entities, "concept": SIZES.concepts, "relation": SIZES.directed}
    generator = torch.Generator().manual_seed(7)
    drawn = [torch.randint(limits[slot.role.value], (size,), generator=generator) for slot in slots(shape)]
    return torch.stack(drawn, 1)


class Slow:
    """The fuzzy set of one query by recursion over lists of floats."""

    def __init__(self, model: Tar, ids: dict[str, int]) -> None:
        self.entities, self.concepts, self.relations = (
            table.tolist() for table in (model.entities, model.concepts, model.relations)
        )
        self.ids, self.config = ids, model.config

    def sigma(self, generator: Vector) -> Vector:
        """Eq. 6 and 8."""
        products = (sum(a * b for a, b in zip(generator, e, strict=True)) for e in self.entities)
        return [1 / (1 + math.exp(-(value + self.config.offset))) for value in products]

    def meet(self, sets: list[Vector]) -> Vector:
        """Eq. 9."""
        return [reduce(LOGICS[self.config.t_norm], degrees) for degrees in zip(*sets, strict=True)]

    def degrees(self, query: Query, shift: Vector | None = None) -> Vector:  # noqa: PLR0911
        """The set that a relation with vector `shift` leads to from the query's."""
        match query:
            case Entity(name):
                if shift is None:
                    return [float(e == self.ids[name]) for e in range(len(self.entities))]
                return self.sigma(plus(self.entities[self.ids[name]], shift))
            case Concept(name):
                if self.ids[name] == EVERYTHING:
                    return [1.0] * len(self.entities) if shift is None else self.sigma(shift)
                own = self.concepts[self.ids[name]]
                return self.sigma(own if shift is None else plus(own, shift))
            case Exists(name, _, operand):
                relation = self.relations[self.ids[name]]
                return self.degrees(operand, relation if shift is None else plus(relation, shift))
            case And(operands):
                return self.meet([self.degrees(operand, shift) for operand in operands])
            case Or(operands):
                negated = [[1 - degree for degree in self.degrees(operand, shift)] for operand in operands]
                return [1 - degree for degree in self.meet(negated)]
            case Not(operand):
                return [1 - degree for degree in self.degrees(operand, shift)]


def plus(first: Vector, second: Vector) -> Vector:
    return [a + b for a, b in zip(first, second, strict=True)]


def slow_degrees(model: Tar, shape: Query, ids_BS: torch.Tensor) -> torch.Tensor:  # noqa: N803
    by_name = {name: ids.tolist() for name, ids in columns(shape, ids_BS).items()}
    rows = [Slow(model, {name: ids[row] for name, ids in by_name.items()}).degrees(shape) for row in range(len(ids_BS))]
    return torch.tensor(rows, dtype=torch.float64)


@pytest.mark.parametrize("t_norm", LOGICS)
@pytest.mark.parametrize("name", SHAPES)
def test_fuzzy_sets_of_queries(name: str, t_norm: str) -> None:
    """Eq. 6-11."""
    shape = SHAPES[name]
    model = model_of(replace(CONFIG, t_norm=t_norm, offset=-0.3))
    found = model.degrees(shape, rows_of(shape))
    torch.testing.assert_close(found, slow_degrees(model, shape, rows_of(shape)))
    assert ((found >= 0) & (found <= 1)).all()


@pytest.mark.parametrize("p", [1.0, 2.0])
@pytest.mark.parametrize("name", SHAPES)
def test_concept_retrieval(name: str, p: float) -> None:
    """Eq. 12 and 13 between the sets of the query and of each concept."""
    shape, model = SHAPES[name], model_of(replace(CONFIG, p=p))
    leaf = Concept("?c1")
    concepts = slow_degrees(model, leaf, torch.arange(SIZES.concepts)[:, None])
    wanted = reference(concepts, slow_degrees(model, shape, rows_of(shape)), p, 1e-12)
    torch.testing.assert_close(model.score(shape, rows_of(shape), Level.CONCEPT), wanted)


def vector_by_hand(model: Tar, query: Query, ids: dict[str, int]) -> list[torch.Tensor]:
    """The alternatives of a query without intersection: each an entity and its translations."""
    match query:
        case Entity(name):
            return [model.entities[ids[name]]]
        case Exists(name, _, operand):
            return [vector + model.relations[ids[name]] for vector in vector_by_hand(model, operand, ids)]
        case Or(operands):
            return [vector for operand in operands for vector in vector_by_hand(model, operand, ids)]
    raise AssertionError(query)


@pytest.mark.parametrize(
    ("name", "union"), [*product(["1p", "2p", "3p", "2u", "eu"], ["score", "vector"]), ("up", "score")]
)
def test_entity_retrieval_by_translation(name: str, union: str) -> None:
    """Eq. 14 and the appendix: x + r, and the greatest over a union's alternatives."""
    shape, model = SHAPES[name], model_of(replace(CONFIG, union=union))
    scores = model.score(shape, rows_of(shape), Level.ENTITY)
    for row, ids in enumerate(rows_of(shape).tolist()):
        named = dict(zip((slot.name for slot in slots(shape)), ids, strict=True))
        alternatives = vector_by_hand(model, shape, named)
        if union == "vector":
            alternatives = [torch.stack(alternatives).max(0).values]
        for entity in range(SIZES.entities):
            near = min((vector - model.entities[entity]).abs().sum().detach().item() for vector in alternatives)
            assert scores[row, entity].item() == pytest.approx(12 - near)


def test_the_vector_of_a_union_is_its_greatest_per_dimension() -> None:
    model = model_of(replace(CONFIG, union="vector"))
    shape, ids = SHAPES["up"], rows_of(SHAPES["up"], 1)
    r1, r2, e1, r3, e2 = ids[0].tolist()
    inner = torch.maximum(model.entities[e1] + model.relations[r2], model.entities[e2] + model.relations[r3])
    wanted = 12 - (inner + model.relations[r1] - model.entities).abs().sum(1)
    torch.testing.assert_close(model.score(shape, ids, Level.ENTITY)[0], wanted.detach())


def test_the_ordered_attention_of_the_appendix() -> None:
    """q = a(q1, q2)_1 * q1 + a(q1, q2)_2 * q2, a two-layer ReLU network, folded from the left."""
    torch.manual_seed(0)
    attention = OrderedAttention(3, normalised=False).double()
    q1, q2, q3 = torch.randn(3, 1, 3, dtype=torch.float64)

    def binary(left: torch.Tensor, right: torch.Tensor) -> torch.Tensor:
        joined = torch.cat([left, right], dim=1)
        inner = (joined @ attention.inner.weight.T + attention.inner.bias).clamp_min(0)
        weights = inner @ attention.outer.weight.T + attention.outer.bias
        return weights[:, :3] * left + weights[:, 3:] * right

    torch.testing.assert_close(attention.combine(torch.stack([q1, q2, q3])), binary(binary(q1, q2), q3))


@pytest.mark.parametrize("attention", ["softmax", "invariant"])
def test_normalised_attention_stays_between_its_operands(attention: str) -> None:
    model = model_of(replace(CONFIG, attention=attention))
    vectors = torch.randn(3, 5, 6, dtype=torch.float64)
    combined = model.attention.combine(vectors)
    assert (combined <= vectors.amax(0) + 1e-12).all()
    assert (combined >= vectors.amin(0) - 1e-12).all()


@pytest.mark.parametrize("name", ["2in", "pni", "ci", "cn"])
def test_entities_of_a_query_with_negation_or_a_concept_are_its_members(name: str) -> None:
    shape, model = SHAPES[name], model_of()
    found = model.score(shape, rows_of(shape), Level.ENTITY)
    torch.testing.assert_close(found, slow_degrees(model, shape, rows_of(shape)))


def test_all_entities_as_a_concept() -> None:
    model, leaf = model_of(), Concept("?c1")
    everything = torch.tensor([[EVERYTHING]])
    assert (model.degrees(leaf, everything) == 1).all()
    beyond = Exists("?r1", TEMPLATES["1p"].shape.direction, leaf)
    ids = torch.tensor([[2, EVERYTHING]])
    torch.testing.assert_close(model.degrees(beyond, ids), slow_degrees(model, beyond, ids))


@pytest.mark.parametrize("name", ["1p", "3p", "2u", "up", "pc"])
def test_the_dot_product_of_the_published_code(name: str) -> None:
    shape, model = SHAPES[name], model_of(replace(CONFIG, projection="dot"))
    scores = model.score(shape, rows_of(shape), Level.CONCEPT)
    if name == "pc":
        relation, concept = rows_of(shape)[0].tolist()
        wanted = (model.concepts[concept] + model.relations[relation]) @ model.concepts.T
    else:
        named = dict(zip((slot.name for slot in slots(shape)), rows_of(shape)[0].tolist(), strict=True))
        wanted = torch.stack([vector @ model.concepts.T for vector in vector_by_hand(model, shape, named)]).amax(0)
    torch.testing.assert_close(scores[0], wanted.detach())


@pytest.mark.parametrize("name", ["2i", "ip", "2in"])
def test_queries_with_intersection_or_negation_stay_fuzzy(name: str) -> None:
    shape = SHAPES[name]
    scores = [
        model_of(replace(CONFIG, projection=p)).score(shape, rows_of(shape), Level.CONCEPT) for p in ("dot", "fuzzy")
    ]
    torch.testing.assert_close(*scores)


def test_subsumption() -> None:
    """Eq. 15."""
    model = model_of()
    first, second = model.inclusion[0], model.inclusion[2]
    found = model.subsumption(torch.tensor([[0, 1]]), torch.tensor([[2, 3]]))
    for place, (sub, super_) in enumerate([(0, 2), (1, 3)]):
        joined = torch.cat([model.concepts[sub], model.concepts[super_]])
        wanted = second.weight[0] @ (first.weight @ joined + first.bias).clamp_min(0) + second.bias[0]
        torch.testing.assert_close(found[0, place], wanted)


@pytest.mark.parametrize("form", ["sigmoid", "logit"])
def test_instantiation(form: str) -> None:
    """Eq. 16, which is also the degree of the entity in the concept's fuzzy set (Eq. 6)."""
    model = model_of(replace(CONFIG, instantiation=form, offset=0.2))
    found = model.instantiation(torch.tensor([[0, 8]]), torch.tensor([[3, 1]]))
    degrees = model.degrees(Concept("?c1"), torch.arange(SIZES.concepts)[:, None])
    wanted = torch.stack([degrees[3, 0], degrees[1, 8]])
    torch.testing.assert_close(found[0], wanted if form == "sigmoid" else torch.logit(wanted))


@pytest.mark.parametrize("range_", [0.0, 0.25])
def test_initial_values(range_: float) -> None:
    """Xavier's uniform bound, or the given one."""
    model = Tar(TarConfig(dimension=50, initial_range=range_), Sizes(400, 300, 200))
    for table in (model.entities, model.concepts, model.relations):
        bound = range_ or math.sqrt(6 / (len(table) + 50))
        assert 0.95 * bound < table.abs().max().item() <= bound


def test_relations_have_an_embedding_for_each_direction() -> None:
    model, shape = model_of(), SHAPES["1p"]
    assert len(model.relations) == SIZES.directed == 6
    forward, inverse = (model.score(shape, torch.tensor([[r, 0]]), Level.ENTITY) for r in (2, 3))
    assert not torch.allclose(forward, inverse)


@pytest.mark.parametrize(
    ("field", "value", "said"),
    [
        ("t_norm", "min", "t_norm = 'min': choose one of product, godel, lukasiewicz"),
        ("attention", "none", "choose one of ordered, softmax, invariant"),
        ("union", "sum", "choose one of score, vector"),
        ("projection", "cosine", "choose one of fuzzy, dot"),
        ("instantiation", "dot", "choose one of sigmoid, logit"),
        ("dimension", 0, "dimension = 0: it must be greater than 0"),
        ("p", 0.5, "p = 0.5: a norm needs p of 1 or more"),
    ],
)
def test_a_wrong_setting_is_said_with_what_is_allowed(field: str, value: object, said: str) -> None:
    with pytest.raises(ConfigError, match=re.escape(said)):
        replace(CONFIG, **{field: value})


def test_a_vocabulary_without_concepts_or_relations() -> None:
    model = model_of(sizes=Sizes(3, 0, 0))
    assert model.score(Entity("?e1"), torch.tensor([[1]]), Level.CONCEPT).shape == (1, 0)
    assert model.score(Entity("?e1"), torch.tensor([[1]]), Level.ENTITY).argmax().item() == 1


def test_blocks_of_concepts_and_queries_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    shape, model = SHAPES["2i"], model_of()
    whole = model.score(shape, rows_of(shape, 7), Level.CONCEPT)
    monkeypatch.setattr(tar_module, "_TERMS_AT_A_TIME", 2 * SIZES.entities)
    torch.testing.assert_close(model.score(shape, rows_of(shape, 7), Level.CONCEPT), whole)
