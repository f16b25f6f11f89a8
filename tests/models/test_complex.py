"""The link predictor against complex arithmetic, and beam search with a wide beam against trying everything."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.nn import functional

from tarbox.core.errors import ConfigError
from tarbox.core.ids import Level
from tarbox.execution.rows import EVERYTHING
from tarbox.models.base import Sizes
from tarbox.models.complex import Complex, ComplexConfig, NodePlaces, conjugate, cubed_modulus, multiply
from tarbox.models.cqd import Cqd, CqdConfig
from tarbox.query.algebra import And, Concept, Entity, Exists, Not, Or, Query, slots, walk
from tarbox.query.templates import TEMPLATES, template

SIZES = Sizes(entities=7, concepts=4, relations=2)
PLACES = NodePlaces(SIZES)
SHAPES = {name: given.shape for name, given in TEMPLATES.items()} | {
    "ci": template("ci", "?c1 and (?r1 value ?e1)").shape,
    "mixed": template("mixed", "?r1 some (?c1 and not (?r2 value ?e1)) or (?r3 some ?c2)").shape,
}
LEVELS = pytest.mark.parametrize("level", Level)
NAMES = pytest.mark.parametrize("name", SHAPES)


def links_with(**settings: float) -> Complex:
    torch.manual_seed(3)
    return Complex(ComplexConfig(rank=5, initial=0.7, **settings), SIZES)  # type: ignore[arg-type]


def numbers(table: Tensor) -> Tensor:
    """The complex numbers of a table of real and imaginary parts."""
    return torch.complex(*table.detach().chunk(2, -1))


def score(links: Complex, relation: int, near: int, far: int) -> float:
    """Re(<y, d, conjugate of x>), as Trouillon et al. define it."""
    nodes, relations = numbers(links.nodes), numbers(links.relations)
    return float((nodes[near] * relations[relation] * nodes[far].conj()).sum().real)


def all_scores(links: Complex) -> Tensor:
    """[D, nodes, nodes]"""
    nodes, relations = numbers(links.nodes), numbers(links.relations)
    return torch.einsum("yk,dk,xk->dyx", nodes, relations, nodes.conj()).real


def test_arithmetic_is_that_of_complex_numbers() -> None:
    left, right = torch.randn(2, 6, 8).unbind(0)
    torch.testing.assert_close(numbers(multiply(left, right)), numbers(left) * numbers(right))
    torch.testing.assert_close(numbers(conjugate(left)), numbers(left).conj())
    torch.testing.assert_close(cubed_modulus(left), numbers(left).abs() ** 3)
    zero = torch.zeros(1, 4, requires_grad=True)
    cubed_modulus(zero).sum().backward()
    assert zero.grad is not None
    assert zero.grad.abs().sum() == 0


def test_scores_are_those_of_complex_numbers() -> None:
    links = links_with()
    for relation in range(PLACES.directed):
        near = torch.arange(PLACES.nodes)
        questions = links.questions(torch.full_like(near, relation), near)
        found = links.scores(questions, slice(0, PLACES.nodes)).detach()
        wanted = [[score(links, relation, y, x) for x in range(PLACES.nodes)] for y in range(PLACES.nodes)]
        torch.testing.assert_close(found, torch.tensor(wanted))
        torch.testing.assert_close(found, all_scores(links)[relation])


def test_typing_reads_the_same_backwards() -> None:
    links = links_with()
    concepts = torch.arange(PLACES.concepts.start, PLACES.concepts.stop)
    found = links.scores(links.members(concepts), PLACES.entities).detach()
    wanted = all_scores(links)[PLACES.concepts_of, PLACES.entities, PLACES.concepts]
    torch.testing.assert_close(found, wanted.T)


def some_links(to: slice, count: int = 9) -> Tensor:
    random = np.random.default_rng(1)
    limits = [PLACES.directed, PLACES.nodes, to.stop - to.start]
    return torch.from_numpy(random.integers(0, limits, (count, 3))) + torch.tensor([0, 0, to.start])


@pytest.mark.parametrize("reached", [PLACES.entities, PLACES.concepts])
def test_the_loss_has_three_parts(reached: slice) -> None:
    given = some_links(reached)
    relation, near, far = given.unbind(1)
    plain = links_with(regularization=0.0, relation_weight=0.0)
    scores = all_scores(plain)
    entropy = functional.cross_entropy(scores[relation, near, reached], far - reached.start)
    torch.testing.assert_close(plain.loss(given, reached, None).detach(), entropy)
    guessed = functional.cross_entropy(scores[:, near, far].T, relation)
    with_relations = links_with(regularization=0.0, relation_weight=0.3)
    torch.testing.assert_close(with_relations.loss(given, reached, None).detach(), entropy + 0.3 * guessed)
    nodes, relations = numbers(plain.nodes).abs() ** 3, numbers(plain.relations).abs() ** 3
    cubes = (nodes[near] + relations[relation] + nodes[far]).sum(1).mean()
    regularized = links_with(regularization=0.2, relation_weight=0.0)
    torch.testing.assert_close(regularized.loss(given, reached, None).detach(), entropy + 0.2 * cubes)


@pytest.mark.parametrize("drawn", [None, [9, 10, 8, 10]])
def test_experts_learn_apart_and_are_averaged(drawn: list[int] | None) -> None:
    """Two of rank 3 are one of rank 6: the same mean of losses, and the mean of their scores."""
    torch.manual_seed(5)
    reached = PLACES.concepts
    given, rivals = some_links(reached), None if drawn is None else torch.tensor(drawn)
    both = Complex(ComplexConfig(rank=6, initial=0.7, experts=2), SIZES)
    each = [Complex(ComplexConfig(rank=3), SIZES) for _ in range(2)]
    with torch.no_grad():
        for place, own in enumerate(each):
            own.nodes.copy_(both.nodes[:, 6 * place : 6 * place + 6])
            own.relations.copy_(both.relations[:, 6 * place : 6 * place + 6])
    losses = [own.loss(given, reached, rivals) for own in each]
    torch.testing.assert_close(both.loss(given, reached, rivals), (losses[0] + losses[1]) / 2)
    relation, near, far = given.unbind(1)
    wanted = (all_scores(each[0]) + all_scores(each[1])) / 2
    found = both.scores(both.questions(relation, near), reached)
    torch.testing.assert_close(found.detach(), wanted[relation, near, reached])
    pairs = both.pair_scores(0, near, far).detach()
    torch.testing.assert_close(pairs, torch.stack([wanted[1, near, far], wanted[0, far, near]], 1))


@pytest.mark.parametrize("reached", [PLACES.entities, PLACES.concepts])
def test_of_all_rivals_the_sampled_loss_is_the_whole_one(reached: slice) -> None:
    links, given = links_with(), some_links(reached)
    everyone = torch.arange(reached.start, reached.stop)
    whole = links.loss(given, reached, None)
    torch.testing.assert_close(links.loss(given, reached, everyone), whole)
    torch.testing.assert_close(links.loss(given, reached, everyone.repeat(3)), whole)


def test_rivals_stand_for_those_not_drawn() -> None:
    links, given = links_with(regularization=0.0, relation_weight=0.0), some_links(PLACES.entities)
    relation, near, far = given.unbind(1)
    rivals = torch.tensor([2, 5, 5])
    wanted = []
    for d, y, x in zip(relation.tolist(), near.tolist(), far.tolist(), strict=True):
        own = math.exp(score(links, d, y, x))
        others = sum(math.exp(score(links, d, y, rival)) for rival in rivals.tolist() if rival != x)
        wanted.append(math.log(own + SIZES.entities / 3 * others) - math.log(own))
    found = links.loss(given, PLACES.entities, rivals)
    assert found.item() == pytest.approx(sum(wanted) / len(wanted), rel=1e-5)
    only = torch.full((4,), int(far[0]))
    alone = links.loss(given[:1], PLACES.entities, only)
    alone.backward()
    assert alone.item() == pytest.approx(0, abs=1e-6)
    assert links.nodes.grad is not None
    assert links.nodes.grad.isfinite().all()


@pytest.mark.parametrize("rivals", [0, 3])
def test_a_gradient_reaches_every_parameter(rivals: int) -> None:
    links = links_with()
    for reached in (PLACES.entities, PLACES.concepts):
        drawn = torch.arange(reached.start, reached.stop)[:rivals] if rivals else None
        links.loss(some_links(reached, 60), reached, drawn).backward()
    for name, parameter in links.named_parameters():
        assert parameter.grad is not None, name
        assert (parameter.grad.abs().sum(1) > 0).all(), name


def test_mistakes_in_the_settings() -> None:
    with pytest.raises(ConfigError, match="rank is 0"):
        ComplexConfig(rank=0)
    with pytest.raises(ConfigError, match="must be 0 or more"):
        ComplexConfig(candidates=-1)
    with pytest.raises(ConfigError, match="experts must divide the rank"):
        ComplexConfig(rank=5, experts=2)
    with pytest.raises(ConfigError, match="beam is 0"):
        CqdConfig(beam=0)


def cqd(beam: int, sizes: Sizes = SIZES) -> Cqd:
    torch.manual_seed(3)
    return Cqd(CqdConfig(beam=beam, rank=5, initial=0.7), sizes).double()


def rows_of(shape: Query, size: int = 5) -> Tensor:
    limits = [{"entity": 7, "concept": 4, "relation": 4}[slot.role.value] for slot in slots(shape)]
    return torch.from_numpy(np.random.default_rng(3).integers(0, limits, (size, len(limits))))


class Exhaustive:
    """Every assignment of entities to variables, the best of them."""

    def __init__(self, model: Cqd, shape: Query, row: list[int]) -> None:
        self.degrees = torch.sigmoid(all_scores(model.links)).tolist()
        self.ids = {slot.name: number for slot, number in zip(slots(shape), row, strict=True)}
        self.shape = shape

    def answers(self, level: Level) -> list[float]:
        entities = self.evaluate(self.shape)
        if level is Level.ENTITY:
            return entities
        return [self.reach(PLACES.concepts_of, entities, SIZES.entities + concept) for concept in range(SIZES.concepts)]

    def reach(self, relation: int, inner: list[float], node: int) -> float:
        return max(inner[y] * self.degrees[relation][y][node] for y in range(SIZES.entities))

    def member(self, x: int, concept: int) -> float:
        return 1.0 if concept == EVERYTHING else self.degrees[PLACES.concepts_of][x][SIZES.entities + concept]

    def evaluate(self, query: Query) -> list[float]:
        everyone = range(SIZES.entities)
        match query:
            case Entity(name):
                return [float(x == self.ids[name]) for x in everyone]
            case Concept(name):
                return [self.member(x, self.ids[name]) for x in everyone]
            case Exists(name, _, operand):
                inner = self.evaluate(operand)
                return [self.reach(self.ids[name], inner, x) for x in everyone]
            case And(parts):
                return [math.prod(column) for column in zip(*map(self.evaluate, parts), strict=True)]
            case Or(parts):
                columns = zip(*map(self.evaluate, parts), strict=True)
                return [1 - math.prod(1 - value for value in column) for column in columns]
            case Not(operand):
                return [1 - value for value in self.evaluate(operand)]


@LEVELS
@NAMES
def test_a_beam_of_all_entities_is_exhaustive(name: str, level: Level) -> None:
    shape, model = SHAPES[name], cqd(beam=SIZES.entities)
    ids = rows_of(shape)
    wanted = [Exhaustive(model, shape, row).answers(level) for row in ids.tolist()]
    torch.testing.assert_close(model.score(shape, ids, level), torch.tensor(wanted, dtype=torch.float64))


@LEVELS
@NAMES
def test_a_narrow_beam_finds_no_more(name: str, level: Level) -> None:
    shape = SHAPES[name]
    ids = rows_of(shape)
    narrow, wide, wider = (cqd(beam).score(shape, ids, level) for beam in (2, SIZES.entities, 50))
    torch.testing.assert_close(wide, wider)
    if not any(isinstance(node, Not) for node in walk(shape)):
        assert (narrow <= wide + 1e-12).all()


@LEVELS
def test_everything_is_a_concept_of_all(level: Level) -> None:
    shape = template("ec", "?r1 some (?c1 and ?c2)").shape
    model = cqd(beam=50)
    ids = torch.tensor([[1, EVERYTHING, 2], [1, 2, EVERYTHING], [0, EVERYTHING, EVERYTHING]])
    wanted = [Exhaustive(model, shape, row).answers(level) for row in ids.tolist()]
    torch.testing.assert_close(model.score(shape, ids, level), torch.tensor(wanted, dtype=torch.float64))


@pytest.mark.parametrize(
    "sizes", [Sizes(3, 0, 1), Sizes(1, 1, 1), Sizes(3, 2, 0)], ids=["no concepts", "one entity", "no relations"]
)
def test_a_vocabulary_with_little_in_it(sizes: Sizes) -> None:
    shape = template("everything", "?c1").shape
    for level in Level:
        found = cqd(4, sizes).score(shape, torch.tensor([[EVERYTHING]]), level)
        assert found.shape == (1, {Level.ENTITY: sizes.entities, Level.CONCEPT: sizes.concepts}[level])
        assert found.isfinite().all()
    assert (cqd(4, sizes).score(shape, torch.tensor([[EVERYTHING]]), Level.ENTITY) == 1).all()


@LEVELS
@NAMES
def test_candidates_are_scored_as_all_are_with_a_gradient(name: str, level: Level) -> None:
    shape, model = SHAPES[name], cqd(beam=3)
    ids = rows_of(shape)
    candidates = torch.randint(model.candidates(level), (len(ids), 3))
    found = model.score_candidates(shape, ids, level, candidates)
    torch.testing.assert_close(found.detach(), model.score(shape, ids, level).gather(1, candidates))
    found.sum().backward()
    assert model.links.relations.grad is not None
    assert model.links.relations.grad.abs().sum() > 0


def test_pairs_are_scored_as_links() -> None:
    model, wanted = cqd(beam=3), all_scores(links_with())
    subs, supers = torch.tensor([[0, 1]]), torch.tensor([[2, 3]])
    found = model.subsumption(subs, supers).detach()
    torch.testing.assert_close(found, wanted[PLACES.wider, subs + 7, supers + 7].double())
    typed = model.instantiation(torch.tensor([[6, 0]]), supers).detach()
    torch.testing.assert_close(typed, wanted[PLACES.concepts_of, torch.tensor([[6, 0]]), supers + 7].double())
