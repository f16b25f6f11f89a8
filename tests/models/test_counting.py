"""Counting against its definition, written down naively over Python sets and dictionaries."""

from __future__ import annotations

import math
from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from oracle import Oracle
from tarbox.core.ids import Level
from tarbox.execution.rows import decode, encode
from tarbox.kb.facts import Facts
from tarbox.kb.vocabulary import Vocabulary
from tarbox.models.counting import Counting
from tarbox.query.algebra import And, Concept, Direction, Entity, Exists, Not, Or, Query, slots
from tarbox.query.templates import TEMPLATES

ENTITIES, CONCEPTS, RELATIONS = 6, 4, 2
VOCABULARY = Vocabulary.of(
    [f"urn:e{n}" for n in range(ENTITIES)],
    [f"urn:c{n}" for n in range(CONCEPTS)],
    [f"urn:r{n}" for n in range(RELATIONS)],
)
entity, concept, relation = (st.integers(0, size - 1) for size in (ENTITIES, CONCEPTS, RELATIONS))


@st.composite
def graphs(draw: st.DrawFn) -> Facts:
    return Facts.of(
        VOCABULARY,
        draw(st.lists(st.tuples(entity, relation, entity), max_size=25)),
        draw(st.lists(st.tuples(entity, concept), max_size=10)),
        draw(st.lists(st.tuples(concept, concept), max_size=4)),
        draw(st.lists(relation, max_size=2)),
    )


def names(role: str, size: int) -> st.SearchStrategy[str]:
    return st.integers(0, size - 1).map(lambda n: f"urn:{role}{n}")


queries = st.recursive(
    names("e", ENTITIES).map(Entity) | names("c", CONCEPTS).map(Concept),
    lambda inner: (
        st.builds(Exists, names("r", RELATIONS), st.sampled_from(Direction), inner)
        | st.lists(inner, min_size=2, max_size=3).map(lambda several: And(tuple(several)))
        | st.lists(inner, min_size=2, max_size=3).map(lambda several: Or(tuple(several)))
        | inner.map(Not)
    ),
    max_leaves=5,
)


class Definition:
    """PROTOCOL.md, point 6, word by word."""

    def __init__(self, facts: Facts, level: Level) -> None:
        self.oracle = Oracle.of(facts)
        self.level = level
        self.size = {Level.ENTITY: ENTITIES, Level.CONCEPT: CONCEPTS}[level]

    def score(self, query: Query) -> list[float]:
        answers = self.oracle.entities(query)
        counts = Counter(answer for entity in answers for answer in self.as_candidates(entity))
        prior = self.prior(query)
        most = max(prior, default=0) if prior else 0
        return [counts[n] + (prior[n] / most if prior and most else 0) for n in range(self.size)]

    def as_candidates(self, entity: int) -> list[int]:
        return [entity] if self.level is Level.ENTITY else sorted(self.oracle.described_by.get(entity, ()))

    def prior(self, query: Query) -> list[float] | None:
        match query:
            case Entity() | Concept():
                return self.frequency(self.oracle.entities(query))
            case Exists(name, direction, _):
                wanted = VOCABULARY.relations.find(name)
                ends = [h if direction is Direction.FORWARD else t for h, r, t in self.oracle.assertions if r == wanted]
                return self.frequency(ends)
            case Not():
                return None
            case And(parts) | Or(parts):
                counted = [prior for part in parts if (prior := self.prior(part)) is not None]
                join = math.prod if isinstance(query, And) else math.fsum
                return [join(column) for column in zip(*counted, strict=True)] if counted else None

    def frequency(self, entities: object) -> list[float]:
        counts = Counter(answer for entity in entities for answer in self.as_candidates(entity))  # type: ignore[attr-defined]
        return [counts[n] for n in range(self.size)]


@pytest.mark.parametrize("level", Level)
@given(facts=graphs(), query=queries)
@settings(deadline=None, max_examples=150)
def test_scores_follow_the_definition(level: Level, facts: Facts, query: Query) -> None:
    shape, ids = encode(query, VOCABULARY)
    scores = Counting.from_facts(facts).score(shape, ids[None], level)
    assert scores[0].tolist() == pytest.approx(Definition(facts, level).score(query))


@pytest.mark.parametrize("template", TEMPLATES)
@pytest.mark.parametrize("level", Level)
def test_every_template_follows_the_definition(template: str, level: Level) -> None:
    random = np.random.default_rng(1)
    triples = random.integers(0, [ENTITIES, RELATIONS, ENTITIES], (18, 3)).tolist()
    typings = random.integers(0, [ENTITIES, CONCEPTS], (7, 2)).tolist()
    facts = Facts.of(VOCABULARY, map(tuple, triples), map(tuple, typings), [(0, 1), (1, 2)])
    shape = TEMPLATES[template].shape
    limits = [{"entity": ENTITIES, "relation": 2 * RELATIONS}[slot.role.value] for slot in slots(shape)]
    ids = random.integers(0, limits, (40, len(limits))).astype(np.int32)
    wanted = [Definition(facts, level).score(decode(shape, row, VOCABULARY)) for row in ids]
    np.testing.assert_allclose(Counting.from_facts(facts).score(shape, ids, level), wanted)


def test_the_prior_tells_equal_counts_apart_even_where_it_is_tiny() -> None:
    """One end in ten million of another's frequency: single precision would call it a tie."""
    size = 4000
    vocabulary = Vocabulary.of([f"urn:{n:05}" for n in range(size)], relations=["urn:p", "urn:q", "urn:r"])
    hub = [(head, relation, size - 1) for head in range(size - 1) for relation in range(3)]
    facts = Facts.of(vocabulary, [*hub, (0, 0, 1), (0, 1, 1), (0, 2, 1), (0, 0, 2), (0, 1, 2), (0, 2, 2), (1, 0, 2)])
    shape = TEMPLATES["3i"].shape
    ids = np.array([[1, 0, 3, 0, 5, 0]], np.int32)  # inverse p, q and r value 0
    scores = Counting.from_facts(facts).score(shape, ids, Level.ENTITY)[0]
    assert 1 < scores[1] < scores[2] < scores[size - 1]


def test_a_product_of_very_many_frequencies_is_a_number() -> None:
    facts = Facts.of(
        VOCABULARY, [(h, 0, t) for h in range(ENTITIES) for t in range(ENTITIES)], [(0, 0), (1, 0), (1, 1)]
    )
    links = tuple(Exists("urn:r0", Direction.FORWARD, Entity(f"urn:e{n % ENTITIES}")) for n in range(600))
    shape, ids = encode(And(links), VOCABULARY)
    for level, best in ((Level.ENTITY, 2.0), (Level.CONCEPT, 3.0)):
        scores = Counting.from_facts(facts).score(shape, ids[None], level)
        assert np.isfinite(scores).all()
        assert scores.max() == best
