"""Witnesses against the oracle: every edge is a fact, and the facts alone prove the answer."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from oracle import Oracle
from tarbox.core.errors import QueryError, UnknownName
from tarbox.core.ids import Role
from tarbox.kb.facts import Facts
from tarbox.kb.vocabulary import Vocabulary
from tarbox.query.algebra import And, Concept, Direction, Entity, Exists, Not, Or, Query, walk
from tarbox.service.explanations import explain_answer
from tarbox.service.knowledge_base import KnowledgeBase
from tarbox.service.proofs import trace
from tarbox.service.witnesses import AbsenceStep, AssertionStep, SubsumptionStep, TypingStep, Walk

SIZE, CONCEPTS, RELATIONS = 12, 6, 3
VOCABULARY = Vocabulary.of(
    [f"urn:e{i:02}" for i in range(SIZE)],
    [f"urn:c{i}" for i in range(CONCEPTS)],
    [f"urn:r{i}" for i in range(RELATIONS)],
)
ids = {
    "entity": st.integers(0, SIZE - 1),
    "concept": st.integers(0, CONCEPTS - 1),
    "relation": st.integers(0, RELATIONS - 1),
}
facts_strategy = st.builds(
    lambda a, t, s: Facts.of(VOCABULARY, a, t, s),
    st.sets(st.tuples(ids["entity"], ids["relation"], ids["entity"]), min_size=10, max_size=50),
    st.sets(st.tuples(ids["entity"], ids["concept"]), min_size=5, max_size=20),
    st.sets(st.tuples(ids["concept"], ids["concept"]), max_size=8),
)
leaves = st.one_of(
    st.builds(lambda i: Entity(VOCABULARY.entities.iri(i)), ids["entity"]),
    st.builds(lambda i: Concept(VOCABULARY.concepts.iri(i)), ids["concept"]),
)
positive: st.SearchStrategy[Query] = st.recursive(
    leaves,
    lambda inner: st.one_of(
        st.builds(
            lambda r, d, q: Exists(VOCABULARY.relations.iri(r), d, q),
            ids["relation"],
            st.sampled_from(Direction),
            inner,
        ),
        st.lists(inner, min_size=2, max_size=3).map(lambda parts: And(tuple(parts))),
        st.lists(inner, min_size=2, max_size=3).map(lambda parts: Or(tuple(parts))),
    ),
    max_leaves=6,
)
queries = st.one_of(positive, st.builds(lambda a, b: And((a, Not(b))), positive, positive))


def only(walked: Walk) -> Facts:
    """A knowledge base of nothing but the facts of a walk."""
    steps = walked.steps
    return Facts.of(
        VOCABULARY,
        [(s.head, s.relation, s.tail) for s in steps if isinstance(s, AssertionStep)],
        [(s.entity, s.concept) for s in steps if isinstance(s, TypingStep)],
        [(s.sub, s.super) for s in steps if isinstance(s, SubsumptionStep)],
    )


def as_sets(facts: Facts) -> tuple[set[tuple[int, ...]], ...]:
    return (
        set(zip(facts.heads.tolist(), facts.relations.tolist(), facts.tails.tolist(), strict=True)),
        set(zip(facts.typed.tolist(), facts.types.tolist(), strict=True)),
        set(zip(facts.subs.tolist(), facts.supers.tolist(), strict=True)),
    )


@given(facts_strategy, queries)
@settings(max_examples=150, deadline=None)
def test_the_facts_of_a_walk_prove_the_answer(facts: Facts, query: Query) -> None:
    kb, oracle = KnowledgeBase(facts), Oracle.of(facts)
    root = trace(query, kb.index)
    answers = oracle.entities(query)
    assert set(root.members.tolist()) == answers
    for answer in answers:
        walked = Walk(kb.index)
        walked.visit(root, answer)
        used = only(walked)
        assert all(few <= many for few, many in zip(as_sets(used), as_sets(facts), strict=True))
        assert all(step.known for step in walked.steps)
        assert answer in Oracle.of(used).entities(query)
        for step in walked.steps:
            if isinstance(step, AbsenceStep):
                assert step.entity not in oracle.entities(step.part)


@given(facts_strategy, queries)
@settings(max_examples=60, deadline=None)
def test_the_predicted_is_told_from_the_known(facts: Facts, query: Query) -> None:
    kb, oracle = KnowledgeBase(facts), Oracle.of(facts)
    names = VOCABULARY.entities
    answers = oracle.entities(query)
    for entity in range(SIZE):
        support = explain_answer(query, kb, names.iri(entity), Role.ENTITY, predicted=True)
        assert support.nodes[0].kind == "answer"
        assert len({node.id for node in support.nodes}) == len(support.nodes)
        by_id = {node.id: node.iri[1:-1] for node in support.nodes}
        assert all(edge.source in by_id and edge.target in by_id for edge in support.edges)
        assert entity not in answers or all(edge.status == "known" for edge in support.edges)
        if entity not in answers:
            with pytest.raises(QueryError):
                explain_answer(query, kb, names.iri(entity), Role.ENTITY)


@given(facts_strategy, positive)
@settings(max_examples=60, deadline=None)
def test_a_concept_s_support(facts: Facts, query: Query) -> None:
    kb, oracle = KnowledgeBase(facts), Oracle.of(facts)
    counts, total = oracle.concepts(query), len(oracle.entities(query))
    for concept in range(CONCEPTS):
        iri = VOCABULARY.concepts.iri(concept)
        if concept not in counts:
            with pytest.raises(QueryError, match="no answer to this query"):
                explain_answer(query, kb, iri, Role.CONCEPT)
            continue
        support = explain_answer(query, kb, iri, Role.CONCEPT)
        assert support.steps[0].startswith(f"{counts[concept]} of {total} answers are instances of c{concept}")
        assert support.nodes[0].iri == f"<{iri}>"
        ends = {edge.target for edge in support.edges} | {edge.source for edge in support.edges}
        assert support.nodes[0].id in ends


def test_the_paper_s_figure_1(kb: KnowledgeBase) -> None:
    query = kb.parse("interestedIn some ((inverse investigates value GeoffreyHinton) and (inverse uses value Google))")
    answer = kb.answer(query).entities[0]
    support = explain_answer(query, kb, answer.iri, Role.ENTITY)
    assert len(support.edges) == 3
    assert [node.kind for node in support.nodes].count("entity") == 2
    assert support.sentence.startswith(f"{answer.label} is an answer because {answer.label} is interested in ")
    with pytest.raises(UnknownName):
        explain_answer(query, kb, "Nobody", Role.ENTITY)
    assert explain_answer(kb.parse("{Google}"), kb, "Google", Role.ENTITY).sentence == (
        "Google is an answer because the query names it or asks for everything."
    )


def test_walks_are_of_any_depth(kb: KnowledgeBase) -> None:
    query: Query = kb.parse("{GeoffreyHinton}")
    for _ in range(40):
        query = Exists("https://tarbox.example/academia#collaboratesWith", Direction.FORWARD, query)
    assert sum(1 for _ in walk(query)) == 41
    answers = kb.answer(query).entities
    assert np.all([len(explain_answer(query, kb, a.iri, Role.ENTITY).edges) > 0 for a in answers[:3]])
