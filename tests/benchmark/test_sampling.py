"""The compiled sampler against the one over dictionaries of sets, and the rules of PROTOCOL.md."""

from __future__ import annotations

import importlib.util
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from oracle import Costs, Oracle
from tarbox.benchmark.kernels import ACCEPTED
from tarbox.benchmark.options import BenchmarkOptions, Protocol, choose_shapes
from tarbox.benchmark.sampling import (
    Collector,
    SamplingGraph,
    SamplingTask,
    most_links,
    sample_all,
    sample_task,
    sampling_graphs,
    tasks_of,
)
from tarbox.benchmark.selection import DrawnQueries
from tarbox.core.errors import BenchmarkError, ConfigError
from tarbox.core.ids import Level, Role
from tarbox.execution.graph import Index
from tarbox.execution.interpreter import evaluate
from tarbox.execution.rows import decode
from tarbox.kb.closure import Instances
from tarbox.kb.facts import Facts
from tarbox.kb.splits import split_honestly
from tarbox.kb.vocabulary import Vocabulary
from tarbox.query.algebra import And, Exists, Not, Or, slots, walk
from tarbox.query.templates import TEMPLATES, template


def load_dict_sampler():
    path = Path(__file__).parents[2] / "benchmarks" / "dict_sampler.py"
    spec = importlib.util.spec_from_file_location("dict_sampler", path)
    module = importlib.util.module_from_spec(spec)
    sys.modules["dict_sampler"] = module
    spec.loader.exec_module(module)
    return module


def make_facts(seed: int, entities: int = 60, assertions: int = 400, annotations: tuple[int, ...] = ()) -> Facts:
    random = np.random.default_rng(seed)
    vocabulary = Vocabulary.of(
        [f"urn:e{i:03}" for i in range(entities)], [f"urn:c{i:02}" for i in range(12)], [f"urn:r{i}" for i in range(5)]
    )
    heavy = (entities * random.random((assertions, 2)) ** 2).astype(int)
    triples = [(int(h), int(r), int(t)) for (h, t), r in zip(heavy, random.integers(0, 5, assertions), strict=True)]
    typings = [(e, int(c)) for e in range(entities) for c in random.integers(1, 12, 2)]
    return Facts.of(vocabulary, triples, typings, [(i, i // 2) for i in range(1, 12)], annotations)


OWN = {"ci": "?c1 and (?r1 value ?e1)", "cn": "?c1 and not (?r1 some (?r2 value ?e1))"}
SHAPES = {
    **{name: known.shape for name, known in TEMPLATES.items()},
    **{name: template(name, text).shape for name, text in OWN.items()},
}
OPTIONS = BenchmarkOptions(counts=(60, 30, 30), max_answers=15, shapes=SHAPES)


@pytest.fixture(scope="module", params=[(), (3,)], ids=["types", "annotations"])
def facts(request: pytest.FixtureRequest) -> Facts:
    return make_facts(0, annotations=request.param)


@pytest.fixture(scope="module")
def split(facts):
    return split_honestly(facts, 0)


@pytest.fixture(scope="module")
def graphs(split):
    return sampling_graphs(split, OPTIONS)


@pytest.fixture(scope="module")
def sampled(graphs):
    return sample_all(graphs, OPTIONS)


@pytest.mark.parametrize("part", ["train", "valid"])
@pytest.mark.parametrize("name", SHAPES)
def test_every_attempt_equals_that_of_the_sampler_over_sets(split, graphs, part, name):
    slow = load_dict_sampler().DictSampler(split.stages[part], set(np.flatnonzero(graphs[part].never).tolist()), 15)
    collector = Collector(SamplingTask(name, SHAPES[name], part, 1), graphs[part], OPTIONS)
    collector._limit = attempts = 400
    collector.advance()
    drawn = DrawnQueries.of(collector._buffer, int(collector._outcomes[ACCEPTED]), graphs[part].hard)
    seed = OPTIONS.derive_seed(part, name)
    attempted = (slow.attempt(SHAPES[name], seed, number) for number in range(attempts))
    found = list({f.ids: f for f in attempted if f is not None}.values())
    assert [f.ids for f in found] == [tuple(row) for row in drawn.ids.tolist()]
    assert len(found) > 3
    for number, expected in enumerate(found):
        entity, concept = drawn.found[Level.ENTITY], drawn.found[Level.CONCEPT]
        assert entity.targets[number].tolist() == sorted(expected.targets)
        assert entity.others[number].tolist() == sorted(expected.others)
        assert concept.targets[number].tolist() == sorted(expected.concept_targets)
        assert concept.others[number].tolist() == sorted(expected.concept_others)
        if part == "valid":
            assert entity.missing[number].tolist() == [expected.missing[x] for x in sorted(expected.targets)]
            costs = [expected.concept_missing[c] for c in sorted(expected.concept_targets)]
            assert concept.missing[number].tolist() == costs


def test_hard_answers_are_those_of_the_larger_graph_alone(sampled, split):
    for queries in sampled:
        stage = split.stages[queries.task.part]
        larger = Oracle.of(stage.facts)
        smaller = Oracle.of(stage.earlier) if stage.earlier is not None else None
        asked = queries.levels[Level.ENTITY]
        for place, row in enumerate(asked.rows[:10]):
            query = decode(queries.task.shape, queries.ids[row], stage.facts.vocabulary)
            answers = larger.entities(query)
            hard = answers - smaller.entities(query) if smaller else answers
            assert set(asked.targets[place].tolist()) == hard
            assert set(asked.known[place].tolist()) == answers - hard
        asked = queries.levels[Level.CONCEPT]
        top = set(Instances.of(split.whole).describe(split.whole).top_concepts().tolist())
        for place, row in enumerate(asked.rows[:10]):
            query = decode(queries.task.shape, queries.ids[row], stage.facts.vocabulary)
            answers = set(larger.concepts(query))
            hard = (answers - set(smaller.concepts(query)) if smaller else answers) - top
            assert set(asked.targets[place].tolist()) == hard
            assert set(asked.known[place].tolist()) == answers - hard


def test_no_query_comes_twice_and_none_asks_for_too_much(sampled):
    for queries in sampled:
        assert len({row.tobytes() for row in queries.ids}) == len(queries.ids)
        for asked in queries.levels.values():
            assert (asked.targets.sizes() > 0).all()
            assert len(asked.rows) <= queries.task.wanted
        assert queries.levels[Level.ENTITY].targets.sizes().max(initial=0) <= OPTIONS.max_answers


def test_no_relation_leads_straight_back(sampled):
    for queries in sampled:
        chains = [(inner, outer) for outer, inner in nested_relations(queries.task.shape)]
        for inner, outer in chains:
            assert not (queries.ids[:, inner] == queries.ids[:, outer] ^ 1).any()


def nested_relations(shape):
    """(outer, inner) slots of relations that follow each other, across `and`, `or` and `not`."""
    places = {slot.name: number for number, slot in enumerate(slots(shape))}
    for node in walk(shape):
        if isinstance(node, Exists):
            below = [node.operand]
            while below:
                inner = below.pop()
                if isinstance(inner, Exists):
                    yield places[node.relation], places[inner.relation]
                elif isinstance(inner, And | Or):
                    below += inner.operands
                elif isinstance(inner, Not):
                    below.append(inner.operand)


def test_a_negated_branch_removes_something_but_not_everything(sampled, split):
    for queries in sampled:
        oracle = Oracle.of(split.stages[queries.task.part].facts)
        for row in queries.ids[:10]:
            query = decode(queries.task.shape, row, split.train.vocabulary)
            for node in walk(query):
                if isinstance(node, And) and any(isinstance(part, Not) for part in node.operands):
                    kept = [part for part in node.operands if not isinstance(part, Not)]
                    before = frozenset.intersection(*(oracle.entities(part) for part in kept))
                    assert 0 < len(oracle.entities(node)) < len(before)


def test_the_result_depends_on_the_seed_alone(graphs, sampled):
    again = sample_all(graphs, replace(OPTIONS, workers=5))
    other = sample_all(graphs, replace(OPTIONS, seed=1))
    same = [np.array_equal(one.ids, two.ids) for one, two in zip(sampled, again, strict=True)]
    assert all(same)
    assert not all(np.array_equal(one.ids, two.ids) for one, two in zip(sampled, other, strict=True))


def test_both_directions_are_drawn(sampled):
    for queries in sampled:
        relations = [n for n, slot in enumerate(slots(queries.task.shape)) if slot.role is Role.RELATION]
        assert set((queries.ids[:, relations] % 2).ravel().tolist()) == {0, 1}


def test_templates_for_evaluation_only_have_no_training_queries():
    trained = {task.template for task in tasks_of(BenchmarkOptions()) if task.part == "train"}
    assert trained == {"1p", "2p", "3p", "2i", "3i", "2in", "3in", "inp", "pin", "pni"}
    assert {task.template for task in tasks_of(BenchmarkOptions()) if task.part == "test"} == set(TEMPLATES)


@pytest.mark.parametrize("assertions", [[], [(0, 0, 1)], [(0, 0, 1), (1, 0, 2), (2, 0, 0)]])
def test_a_tiny_graph_yields_fewer_queries_and_says_so(assertions):
    facts = Facts.of(Vocabulary.of(["a", "b", "c"], ["C"], ["p"]), assertions, [(0, 0)])
    graph = SamplingGraph(Index.of(facts), False, np.zeros(1, np.bool_))
    for name, known in TEMPLATES.items():
        queries = sample_task(SamplingTask(name, known.shape, "train", 50), graph, BenchmarkOptions())
        assert len(queries.ids) < 50
        assert f"{name} train: " in queries.shortfall()
        assert "of the 50 wanted" in queries.shortfall()


def test_without_typings_entities_alone_decide_when_to_stop(facts):
    untyped = facts.with_typings(facts.typed < 0)
    graph = SamplingGraph(Index.of(untyped), False, np.zeros(12, np.bool_))
    queries = sample_task(SamplingTask("2p", TEMPLATES["2p"].shape, "train", 50), graph, BenchmarkOptions())
    assert queries.attempts < 5_000
    assert "50 at entity level and 0 at concept level of the 50 wanted" in queries.shortfall()


def test_an_empty_vocabulary_yields_nothing():
    graph = SamplingGraph(Index.of(Facts.of(Vocabulary.of([]))), False, np.zeros(0, np.bool_))
    queries = sample_task(SamplingTask("1p", TEMPLATES["1p"].shape, "train", 5), graph, BenchmarkOptions())
    assert len(queries.ids) == 0


def test_the_paper_asks_for_one_answer_and_filters_training_answers(facts):
    shapes = choose_shapes(None, [], Protocol.PAPER)
    options = BenchmarkOptions(protocol=Protocol.PAPER, counts=(40, 20, 20), shapes=shapes)
    split = options.divide(facts)
    assert len(split.train.typed) == len(facts.typed)
    train = Oracle.of(split.train)
    whole = Oracle.of(facts)
    rows = {}
    for queries in sample_all(sampling_graphs(split, options), options):
        rows.setdefault(queries.task.template, {})[queries.task.part] = {row.tobytes() for row in queries.ids}
        relations = [n for n, slot in enumerate(slots(queries.task.shape)) if slot.role is Role.RELATION]
        assert (queries.ids[:, relations] % 2 == 1).all()
        entity, concept = queries.levels[Level.ENTITY], queries.levels[Level.CONCEPT]
        chosen = dict(zip(entity.rows.tolist(), entity.targets.values.tolist(), strict=True))
        assert (entity.targets.sizes() == 1).all()
        assert (concept.targets.sizes() == 1).all()
        for place, row in enumerate(concept.rows.tolist()):
            query = decode(queries.task.shape, queries.ids[row], facts.vocabulary)
            target, type_ = chosen[row], int(concept.targets[place][0])
            assert target in whole.entities(query)
            assert type_ in whole.described_by[target]
            known = set(train.concepts(query))
            assert set(concept.known[place].tolist()) == known - {type_}
            if queries.task.part != "train":
                assert target not in train.entities(query)
                assert bool(concept.derivable[place]) == (type_ in known)
    assert all(not (parts["valid"] & parts["test"]) for parts in rows.values())


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"counts": (1, -1, 1)}, "cannot be negative"),
        ({"max_answers": 0}, "max_answers is 0; it must be at least 1"),
        ({"workers": 0}, "workers is 0"),
    ],
)
def test_options_out_of_range_are_refused(settings, message):
    with pytest.raises(ConfigError, match=message):
        BenchmarkOptions(**settings)


def test_templates_are_chosen_by_name_or_written_out():
    assert list(choose_shapes("2p, 1p", [], Protocol.HONEST)) == ["2p", "1p"]
    assert "ci" in choose_shapes("1p", ["ci=?c1 and (?r1 value ?e1)"], Protocol.HONEST)
    with pytest.raises(ConfigError, match="no template '7p'; there are 1p"):
        choose_shapes("7p", [], Protocol.HONEST)
    with pytest.raises(ConfigError, match="NAME=EXPRESSION"):
        choose_shapes(None, ["?r1 value ?e1"], Protocol.HONEST)


@pytest.mark.parametrize("text", ["?r1 min 2 ?c1", "?r1 Self", "?r1 some xsd:integer"])
def test_what_a_walk_cannot_find_is_not_drawn(text: str) -> None:
    options = BenchmarkOptions()
    with pytest.raises(BenchmarkError, match="cannot be drawn"):
        Collector(SamplingTask("own", template("own", text).shape, "train", 1), None, options)


def test_balance_asks_as_often_for_each_number_of_missing_links(split):
    """Equal shares, one target at a time; all other answers are known, and the missing links are the judge's."""
    shapes = {name: SHAPES[name] for name in ("2p", "2i", "up", "ci")}
    options = replace(OPTIONS, balanced=True, counts=(0, 0, 12), shapes=shapes, max_answers=40)
    graphs = sampling_graphs(split, options)
    for queries in sample_all(graphs, options):
        stage = split.stages[queries.task.part]
        costs, oracle = Costs(Oracle.of(stage.facts), Oracle.of(stage.earlier)), Oracle.of(stage.facts)
        for level, asked in queries.levels.items():
            most = most_links(queries.task.shape) + (level is Level.CONCEPT)
            shares = np.bincount(asked.missing.values, minlength=most + 1)
            assert shares[0] == 0
            assert shares.max() <= -(-12 // most)
            if len(asked.rows) == 12:
                assert set(shares[1:].tolist()) <= {12 // most, -(-12 // most)}
            assert (asked.targets.sizes() == 1).all()
            for place in range(0, len(asked.rows), 5):
                query = decode(queries.task.shape, queries.ids[asked.rows[place]], split.train.vocabulary)
                found = evaluate(query, costs)
                found = found if level is Level.ENTITY else costs.concepts(found)
                target = int(asked.targets[place][0])
                assert found[target] == asked.missing[place][0]
                every = oracle.entities(query) if level is Level.ENTITY else oracle.concepts(query)
                assert set(asked.known[place].tolist()) | {target} == set(every)


@pytest.mark.parametrize(
    ("name", "most"), [("1p", 1), ("3p", 3), ("3i", 3), ("2u", 1), ("up", 2), ("pni", 1), ("pin", 2)]
)
def test_how_many_links_a_proof_can_miss(name, most):
    assert most_links(TEMPLATES[name].shape) == most
