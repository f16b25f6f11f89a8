"""Embeddings of ontologies: geometry by points, scores by a slow mean, gradients, false rows, sentences."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from tarbox.core.ids import Level
from tarbox.execution.exact import answer_rows
from tarbox.execution.graph import Index
from tarbox.kb.closure import Instances
from tarbox.kb.facts import Facts
from tarbox.kb.normal_forms import NormalForm, normalise
from tarbox.kb.vocabulary import Vocabulary
from tarbox.models.base import Sizes
from tarbox.models.learning.negatives import NegativesConfig, Sampler
from tarbox.models.ontology.box2el import Box2El, Box2ElConfig, Region
from tarbox.models.ontology.describing import AnswerSets
from tarbox.models.ontology.elem import BallConfig, Elem, inside, joined, linked, overlapping
from tarbox.models.ontology.forms import form_sources
from tarbox.models.ontology.opa2vec import AxiomCorpus, Opa2VecConfig
from tarbox.models.ontology.owl2vec import WalkCorpus, WalkGraph, _texts
from tarbox.models.registry import find_model
from tarbox.query.algebra import slots
from tarbox.query.templates import TEMPLATES

GEOMETRIC = ("elem", "emel", "box2el", "joie")
CPU = torch.device("cpu")
AXIOMS: Any = (
    ("SubClassOf", "c0", ("ObjectSomeValuesFrom", "r0", ("ObjectIntersectionOf", "c1", "c2"))),
    ("EquivalentClasses", "c4", ("ObjectIntersectionOf", "c5", ("ObjectSomeValuesFrom", "r1", "c1"))),
    ("DisjointClasses", "c0", "c3"),
    ("SubObjectPropertyOf", "r0", "r1"),
    ("TransitiveObjectProperty", "r2"),
)


@pytest.fixture(scope="module")
def facts() -> Facts:
    random = np.random.default_rng(2)
    names = [[f"{letter}{n}" for n in range(size)] for letter, size in (("e", 10), ("c", 6), ("r", 3))]
    return Facts.of(
        Vocabulary.of(*names),
        map(tuple, random.integers(0, [10, 3, 10], (40, 3)).tolist()),
        map(tuple, random.integers(0, [10, 6], (14, 2)).tolist()),
        [(0, 1), (1, 2), (3, 2)],
    )


def made(name: str, facts: Facts, **settings: Any) -> Any:
    torch.manual_seed(3)
    kind: Any = find_model(name)
    model = kind.begin(kind.Config(dimension=5, **settings), facts)
    for buffer in model.buffers():
        buffer.normal_()
    return model.double()


def sampler(count: int = 6) -> Sampler:
    return Sampler(NegativesConfig(count, 20), torch.Generator().manual_seed(1))


@pytest.mark.parametrize("name", [*GEOMETRIC, "opa2vec", "owl2vec"])
@pytest.mark.parametrize("template", ["1p", "2i", "2in", "up"])
def test_a_concept_is_scored_by_the_mean_degree_of_the_known_answers(name: str, template: str, facts: Facts) -> None:
    """And an entity by its nearness to them; one query after the other, one answer after the other."""
    model, shape = made(name, facts), TEMPLATES[template].shape
    limits = [{"entity": 10, "relation": 6}[slot.role.value] for slot in slots(shape)]
    ids = np.random.default_rng(0).integers(0, limits, (12, len(limits)))
    known, _, _ = answer_rows(shape, ids.astype(np.int32), Index.of(facts))
    scores = {level: model.score(shape, ids, level) for level in Level}
    points = model.points()
    for row in np.flatnonzero(known.sizes()):
        answers = torch.from_numpy(known[row].astype(np.int64))
        for concept in range(6):
            odds = [model.instantiation(answer[None], torch.tensor([concept])) for answer in answers]
            wanted = torch.sigmoid(torch.cat(odds)).mean()
            torch.testing.assert_close(scores[Level.CONCEPT][row, concept], wanted)
        near = torch.stack([1 / (1 + (points - points[answer]).norm(dim=1)) for answer in answers]).mean(0)
        torch.testing.assert_close(scores[Level.ENTITY][row], near)


def test_a_query_without_known_answers_is_what_usually_stands_at_the_end_of_its_relation() -> None:
    words = Vocabulary.of(["a", "b", "c", "d"], ["C"], ["p"])
    sets = AnswerSets.of(Facts.of(words, [(0, 0, 1), (2, 0, 1), (2, 0, 3)]), most=2)
    found = sets.weights(TEMPLATES["1p"].shape, np.array([[1, 0], [1, 1], [0, 1]], np.int32))
    assert found[0].tolist() == [1]  # what a leads to
    assert found[1].tolist() == [1, 3]  # b leads to nothing: b is twice at the end, d once
    assert found.values_of(1).tolist() == pytest.approx([2 / 3, 1 / 3])
    assert found[2].tolist() == [0, 2]


def test_at_most_so_many_answers_are_compared() -> None:
    words = Vocabulary.of([f"e{n:02}" for n in range(30)], ["C"], ["p"])
    facts = Facts.of(words, [(0, 0, n) for n in range(1, 30)])
    found = AnswerSets.of(facts, most=7).weights(TEMPLATES["1p"].shape, np.array([[1, 0]], np.int32))
    assert len(found.columns) == 7
    assert found.values.sum() == pytest.approx(1)
    assert np.diff(found.columns).min() >= 4


def balls() -> Elem:
    """Of three concepts and an entity, in two dimensions; with a relation that moves to the right."""
    model = Elem(BallConfig(dimension=2), Sizes(entities=1, concepts=3, relations=1)).double()
    nodes = torch.tensor([[0.5, 0.0, 9.0], [0.0, 0.0, 1.0], [0.2, 0.0, 2.0], [5.0, 0.0, 0.5]])
    model.nodes.data.copy_(nodes)
    model.relations.data.copy_(torch.tensor([[5.0, 0.0]]))
    return model


@torch.no_grad()
def test_balls_lie_inside_meet_and_are_apart() -> None:
    model, (entity, small, large, far) = balls(), torch.arange(4)
    assert inside(model, small, large) <= 0 < inside(model, large, small)
    assert float(inside(model, entity, small)) == pytest.approx(-0.5)  # a point: its third number is no radius
    assert inside(model, entity, far) > 0
    relation = torch.tensor(0)
    assert float(linked(model, relation, entity, far)) == pytest.approx(0, abs=1e-5)
    assert linked(model, relation, small, far) > 0  # its ball is the larger one
    assert overlapping(model, small, far) < 0 < overlapping(model, small, large)
    assert joined(model, small, large, large) == 0


@pytest.mark.parametrize("seed", range(20))
def test_a_box_lies_in_another_where_all_of_its_points_do(seed: int) -> None:
    random = np.random.default_rng(seed)
    model = Box2El(Box2ElConfig(dimension=2, margin=0.0), Sizes(0, 1, 1)).double()
    centres, offsets = random.normal(0, 0.3, (2, 2)), random.random((2, 2))
    one, other = (Region(torch.tensor(c), torch.tensor(o)) for c, o in zip(centres, offsets, strict=True))
    corners = centres[0] + offsets[0] * np.array([[1, 1], [1, -1], [-1, 1], [-1, -1]])
    contained = (np.abs(corners - centres[1]) <= offsets[1]).all()
    assert (float(model.within(one, other)) < 1e-5) == contained


@pytest.mark.parametrize("name", GEOMETRIC)
def test_every_parameter_learns_from_some_form(name: str, facts: Facts) -> None:
    model = made(name, facts)
    forms = normalise(facts, AXIOMS)
    model.reserve(16 + len(forms.fresh))
    model.double()
    total = torch.zeros(())
    learnt = set()
    for source in form_sources(facts, forms, model.gaps, CPU):
        learnt.add(source.name)
        loss = source.loss(model, source.draw(torch.arange(len(source)), sampler()), None)  # type: ignore[arg-type]
        assert loss > 0
        total = total + loss
    assert learnt == {form.value for form in model.gaps if len(forms.rows[form])}
    total.backward()
    for label, parameter in model.named_parameters():
        assert parameter.grad is not None, label
        assert parameter.grad.abs().sum() > 0, label


def test_false_rows_are_of_the_right_kinds_and_never_true(facts: Facts) -> None:
    forms = normalise(facts, AXIOMS)
    closed = Instances.of(facts)
    for source in form_sources(facts, forms, Elem.gaps, CPU):
        draw = source.draw(torch.arange(len(source)), sampler(40))
        true = {tuple(row) for row in draw.first.tolist()}
        for row, false, valid in zip(draw.first.tolist(), draw.second.tolist(), draw.valid_BM.tolist(), strict=True):
            for other, fine in zip(false, valid, strict=True):
                assert sum(a != b for a, b in zip(row, other, strict=True)) <= 1
                assert not fine or tuple(other) not in true
                if source.name == NormalForm.TYPING.value:
                    assert other[0] < 10 <= other[1] < 16
                    assert not fine or other[1] - 10 not in closed.concepts_of[other[0]]
                if source.name == NormalForm.SUBSUMPTION.value and fine and other[0] < 16:
                    assert other[1] - 10 not in closed.hierarchy.ancestors[other[0] - 10]
        if source.name in (NormalForm.TYPING.value, NormalForm.ASSERTION.value):
            assert draw.valid_BM.float().mean() > 0.9


def test_a_run_keeps_the_nodes_of_expressions(facts: Facts) -> None:
    model = made("elem", facts)
    model.reserve(20)
    arrays = {name: tensor.float().numpy() for name, tensor in model.state_dict().items()}
    again = Elem.of_arrays(facts, arrays, BallConfig(dimension=5), "cpu")
    assert again.nodes.shape == (20, 6)  # type: ignore[attr-defined]
    torch.testing.assert_close(again.state_dict()["nodes"].double(), model.state_dict()["nodes"].float().double())


def test_walks_follow_edges_in_both_directions(facts: Facts) -> None:
    forms, words = normalise(facts, AXIOMS), facts.vocabulary
    edges = {(near, 16 + relation, far) for relation, near, far in forms.rows[NormalForm.ASSERTION].tolist()}
    edges |= {(near, 16 + relation, far) for relation, near, far in forms.rows[NormalForm.LINK].tolist()}
    edges |= {(near, 16 + 3, far) for near, far in forms.rows[NormalForm.TYPING].tolist()}
    edges |= {(near, 16 + 4, far) for near, far in forms.rows[NormalForm.SUBSUMPTION].tolist()}
    walks = WalkGraph.of(forms, words).walk(5, 3, np.random.default_rng(0))
    assert walks.shape == (16 * 5, 7)
    for walk in walks.tolist():
        for near, relation, far in zip(walk[:-2:2], walk[1::2], walk[2::2], strict=True):
            assert relation == -1 or (near, relation, far) in edges or (far, relation, near) in edges
    sentences = list(WalkCorpus(walks, *_texts(words), True, 0))
    assert len(sentences) == 3 * len(walks)
    assert sentences[0][0] == "e0"
    assert sentences[1][:2] == ["e", "0"]
    assert len(list(WalkCorpus(walks, *_texts(words), False, 0))) == len(walks)


def test_axioms_are_sentences(facts: Facts) -> None:
    plain, closed = (
        [" ".join(sentence) for sentence in AxiomCorpus(facts, AXIOMS, Opa2VecConfig(closed=given))]
        for given in (False, True)
    )
    assert "c0 SubClassOf c1" in plain
    assert "c0 SubClassOf c2" not in plain
    assert "c0 SubClassOf c2" in closed
    assert set(plain) <= set(closed)
    assert "SubClassOf c0 ObjectSomeValuesFrom r0 ObjectIntersectionOf c1 c2" in plain
    assert "c3 label c 3" in plain
    assert sum(" type " in sentence for sentence in plain) == len(facts.typed)
