"""The honest split holds out asserted facts and leaves every name something to learn from."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tarbox.core.errors import BenchmarkError
from tarbox.kb.closure import Instances
from tarbox.kb.facts import Facts
from tarbox.kb.splits import SplitBy, keep_connected, split_as_paper, split_honestly
from tarbox.kb.vocabulary import Vocabulary

ENTITIES, CONCEPTS, RELATIONS = 20, 6, 3
VOCABULARY = Vocabulary.of(
    [f"e{i:02}" for i in range(ENTITIES)], [f"c{i}" for i in range(CONCEPTS)], [f"r{i}" for i in range(RELATIONS)]
)
entity, concept, relation = (st.integers(0, size - 1) for size in (ENTITIES, CONCEPTS, RELATIONS))
graphs = st.builds(
    Facts.of,
    st.just(VOCABULARY),
    st.lists(st.tuples(entity, relation, entity), max_size=150),
    st.lists(st.tuples(entity, concept), max_size=60),
    st.lists(st.tuples(concept, concept), max_size=5),
)


def assertions(facts):
    return set(zip(facts.heads.tolist(), facts.relations.tolist(), facts.tails.tolist(), strict=True))


def typings(facts):
    return set(zip(facts.typed.tolist(), facts.types.tolist(), strict=True))


def names(facts):
    """Entities and relations of the assertions, then entities and concepts of all facts."""
    connected = {("e", e) for h, _, t in assertions(facts) for e in (h, t)}
    used = {("r", r) for _, r, _ in assertions(facts)} | {("c", c) for _, c in typings(facts)}
    return connected, connected | used | {("e", e) for e, _ in typings(facts)}


@settings(max_examples=150, deadline=None)
@given(facts=graphs, seed=st.integers(0, 5))
def test_the_graphs_are_nested_and_every_name_stays_in_train(facts, seed):
    split = split_honestly(facts, seed)
    train, valid, test = (split.stages[part].facts for part in ("train", "valid", "test"))
    assert assertions(train) <= assertions(valid) <= assertions(test) == assertions(facts)
    assert typings(train) <= typings(valid) <= typings(test) <= typings(facts)
    assert (split.stages["valid"].earlier, split.stages["test"].earlier) == (train, valid)
    for before, after in zip(names(test), names(train), strict=True):
        assert before == after
    closed = [Instances.of(graph).concepts_of for graph in (facts, test)]
    assert np.array_equal(closed[0].columns, closed[1].columns)
    for graph in (train, valid, test):
        assert np.array_equal(graph.subs, facts.subs)


def test_five_and_five_percent_are_held_out():
    random = np.random.default_rng(0)
    triples = [tuple(map(int, row)) for row in random.integers(0, [20, 3, 20], (3000, 3))]
    facts = Facts.of(VOCABULARY, triples, [(e, c) for e in range(20) for c in range(6)])
    split = split_honestly(facts, 0)
    size, sizes = len(facts.heads), [len(split.stages[part].facts.heads) for part in ("train", "valid", "test")]
    assert sizes == [size - 2 * round(size * 0.05), size - round(size * 0.05), size]
    assert len(split.train.typed) == 120 - 12
    paper = split_as_paper(facts, 0)
    assert (len(paper.train.heads), len(paper.train.typed)) == (size - round(size * 0.05), 120)
    assert assertions(paper.whole) == assertions(facts)


def test_the_seed_decides():
    facts = Facts.of(VOCABULARY, [(h, r, t) for h in range(20) for r in range(3) for t in range(3)])
    assert assertions(split_honestly(facts, 1).train) == assertions(split_honestly(facts, 1).train)
    assert assertions(split_honestly(facts, 1).train) != assertions(split_honestly(facts, 2).train)


def test_implied_typings_are_left_out_so_that_nothing_held_out_can_be_deduced():
    facts = Facts.of(VOCABULARY, [(0, 0, 1)], [(0, 0), (0, 1)], [(1, 0)])
    assert typings(split_honestly(facts, 0).whole) == {(0, 1)}


def test_the_split_column_decides_on_request():
    facts = Facts.of(VOCABULARY, [(h, 0, t) for h in range(5) for t in range(5)])
    column = np.array([0, 1, 2, -1, 0] * 5, np.int8)
    split = split_honestly(replace(facts, splits=column), 0, SplitBy.COLUMN)
    assert [len(split.stages[part].facts.heads) for part in ("train", "valid", "test")] == [15, 20, 25]
    with pytest.raises(BenchmarkError, match="no split column"):
        split_honestly(facts, 0, SplitBy.COLUMN)


@settings(max_examples=60, deadline=None)
@given(facts=graphs, least=st.integers(1, 8))
def test_entities_with_few_assertions_are_no_longer_names(facts, least):
    degree = {e: sum(e in (h, t) for h, _, t in assertions(facts)) for e in range(ENTITIES)}
    kept = keep_connected(facts, least)
    iris = kept.vocabulary.entities.iris.to_pylist()
    assert iris == [f"e{e:02}" for e in range(ENTITIES) if degree[e] >= least]
    given_names = VOCABULARY.entities.iris.to_pylist()
    assert {(iris[h], r, iris[t]) for h, r, t in assertions(kept)} == {
        (given_names[h], r, given_names[t]) for h, r, t in assertions(facts) if min(degree[h], degree[t]) >= least
    }
    assert {(iris[e], c) for e, c in typings(kept)} == {
        (given_names[e], c) for e, c in typings(facts) if degree[e] >= least
    }


def test_synonyms_follow_the_entities_that_are_kept():
    called = pa.table(
        {"role": ["concept", "entity", "entity"], "id": pa.array([0, 0, 2], pa.int32()), "text": ["x", "y", "z"]}
    )
    facts = Facts.of(replace(VOCABULARY, synonyms=called), [(1, 0, 2)])
    found = keep_connected(facts, 1).vocabulary.synonyms.to_pylist()
    assert found == [{"role": "concept", "id": 0, "text": "x"}, {"role": "entity", "id": 1, "text": "z"}]
