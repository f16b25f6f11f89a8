"""The fast answers against the oracle's."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from oracle import Oracle
from tarbox.core.errors import UnknownName
from tarbox.execution.exact import answer_query, answer_rows
from tarbox.execution.graph import Index
from tarbox.execution.rows import decode, encode
from tarbox.kb.facts import Facts
from tarbox.kb.vocabulary import Vocabulary
from tarbox.query.algebra import And, Concept, Direction, Entity, Exists, Not, Or
from tarbox.query.names import OWL_THING
from tarbox.query.templates import TEMPLATES

QUERIES_PER_GRAPH, GRAPHS = 100, 100


@settings(max_examples=GRAPHS, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(seed=st.integers(0, 2**32), sizes=st.tuples(st.integers(0, 40), st.integers(0, 12), st.integers(0, 5)))
def test_ten_thousand_random_queries_have_the_oracle_answers(make_maker, seed, sizes):
    maker = make_maker(seed)
    facts = maker.facts(*sizes)
    index, oracle = Index.of(facts), Oracle.of(facts)
    for _ in range(QUERIES_PER_GRAPH):
        query = maker.query()
        answer = answer_query(query, index)
        assert answer.entities.tolist() == sorted(oracle.entities(query))
        assert dict(zip(answer.concepts.tolist(), answer.counts.tolist(), strict=True)) == oracle.concepts(query)


def test_a_batch_equals_its_rows(maker):
    facts = maker.facts(assertions=60)
    index = Index.of(facts)
    directed = 2 * len(facts.vocabulary.relations)
    for template in TEMPLATES.values():
        width = len(encode(decode_any(template.shape, facts.vocabulary), facts.vocabulary)[1])
        roles = [name[1] for name in placeholder_names(template.shape)]
        bound = [directed if role == "r" else len(facts.vocabulary.entities) for role in roles]
        rows = np.random.default_rng(0).integers(0, bound, (40, width), dtype=np.int32)
        entities, concepts, counts = answer_rows(template.shape, rows, index)
        for number, row in enumerate(rows):
            single = answer_query(decode(template.shape, row, facts.vocabulary), index)
            here = slice(*concepts.offsets[number : number + 2])
            assert entities[number].tolist() == single.entities.tolist()
            assert concepts[number].tolist() == single.concepts.tolist()
            assert counts[here].tolist() == single.counts.tolist()


def placeholder_names(shape):
    from tarbox.query.algebra import slots

    return [slot.name for slot in slots(shape)]


def decode_any(shape, vocabulary):
    return decode(shape, [0] * len(placeholder_names(shape)), vocabulary)


def test_a_batch_larger_than_its_sheet_is_answered_in_parts():
    size = 40_000
    vocabulary = Vocabulary.of([f"e{i:05}" for i in range(size)], ["c"], ["r"])
    facts = Facts.of(vocabulary, [(0, 0, 1)], [(i, 0) for i in range(0, size, 2)])
    shape, _ = encode(Not(Entity("e00000")), vocabulary)
    entities, concepts, counts = answer_rows(shape, np.arange(60, dtype=np.int32)[:, None], Index.of(facts))
    assert entities.sizes().tolist() == [size - 1] * 60
    assert concepts.sizes().tolist() == [1] * 60
    assert counts.tolist() == [size // 2 - (i % 2 == 0) for i in range(60)]


def test_a_query_two_hundred_levels_deep_is_answered(maker):
    facts = maker.facts()
    query = Entity("urn:e00")
    for level in range(200):
        wrapped = Or((Entity(f"urn:e{level % 12:02}"), query)) if level % 3 else Not(query)
        query = And((wrapped, Exists(f"urn:r{level % 3}", Direction.INVERSE, query))) if level < 8 else wrapped
    assert answer_query(query, Index.of(facts)).entities.tolist() == sorted(Oracle.of(facts).entities(query))


def test_coverage_is_the_share_of_answers_inside_a_concept():
    vocabulary = Vocabulary.of(["a", "b", "c"], ["C", "D"], ["p"])
    facts = Facts.of(vocabulary, [(0, 0, 1), (0, 0, 2)], [(1, 0), (2, 0), (2, 1)])
    answer = answer_query(Exists("p", Direction.INVERSE, Entity("a")), Index.of(facts))
    assert answer.concepts.tolist() == [0, 1]
    assert answer.coverage().tolist() == [1.0, 0.5]


def test_thing_means_every_entity_where_the_vocabulary_has_no_such_concept(maker):
    facts = maker.facts()
    assert len(answer_query(Concept(OWL_THING), Index.of(facts)).entities) == 12
    assert len(Oracle.of(facts).entities(Concept(OWL_THING))) == 12


def test_a_name_that_is_not_in_the_vocabulary_is_named(maker):
    index = Index.of(maker.facts())
    with pytest.raises(UnknownName, match="no entity 'urn:nobody'"):
        answer_query(Entity("urn:nobody"), index)


def test_encoding_and_decoding_are_inverse(make_maker):
    maker = make_maker(3)
    for _ in range(200):
        query = maker.query()
        shape, ids = encode(query, maker.vocabulary)
        assert decode(shape, ids, maker.vocabulary) == query
