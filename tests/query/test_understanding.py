"""The way back from English: what the writer says is read as the query it was."""

from __future__ import annotations

from collections.abc import Iterable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tarbox.core.ids import Role
from tarbox.query.algebra import And, Concept, Direction, Entity, Exists, Not, Or, Query
from tarbox.query.english import describe
from tarbox.query.rewrites import canonical
from tarbox.query.understanding import LONGEST_SENTENCE, understand

RELATIONS = (
    *("worksAt", "uses", "interestedIn", "author", "bornIn", "partOf", "introducedBy", "receivedAward", "bornInCity"),
    *("knows", "memberOf", "worksInField"),
)
NAMES = {
    Role.ENTITY: ("Google", "Geoffrey Hinton", "Toronto", "Paris, Texas"),
    Role.CONCEPT: ("Person", "University", "The academia", "Methods", "Company"),
    Role.RELATION: RELATIONS,
}
ENTITIES = st.sampled_from(NAMES[Role.ENTITY]).map(Entity)
CONCEPTS = st.sampled_from(NAMES[Role.CONCEPT]).map(Concept)
LEAVES: st.SearchStrategy[Query] = ENTITIES | CONCEPTS


def show(_: Role, name: str) -> str:
    return name


def find(role: Role, text: str) -> Iterable[str]:
    return [name for name in NAMES[role] if name.casefold() == text.casefold()]


def read(text: str) -> Query | None:
    return understand(text, find, RELATIONS, show)


def links(operands: st.SearchStrategy[Query]) -> st.SearchStrategy[Query]:
    return st.builds(Exists, st.sampled_from(RELATIONS), st.sampled_from(Direction), operands)


def larger(parts: st.SearchStrategy[Query]) -> st.SearchStrategy[Query]:
    several = st.lists(parts, min_size=2, max_size=3).map(tuple)
    return links(parts) | several.map(And) | several.map(Or) | parts.map(Not)


@given(links(LEAVES | links(LEAVES)) | larger(LEAVES) | larger(links(LEAVES)))
def test_what_is_said_is_understood(query: Query) -> None:
    understood = read(describe(query, show))
    assert understood is not None
    assert canonical(understood) == canonical(query)


@given(st.recursive(LEAVES, larger, max_leaves=6))
def test_what_is_understood_is_said_in_the_same_words(query: Query) -> None:
    """Deep sentences may have two meanings; the one that is read is always one of them."""
    said = describe(query, show)
    understood = read(said)
    assert understood is not None
    assert describe(understood, show) == said


@pytest.mark.parametrize(
    "text", ["", "every", "everything that", "every Person that flies", "every Person that uses Google and", "x" * 9]
)
def test_other_words_are_not_understood(text: str) -> None:
    assert read(text) is None


def test_case_and_space_do_not_matter() -> None:
    assert read("  Every person  that works at GOOGLE ") == And(
        (Concept("Person"), Exists("worksAt", Direction.FORWARD, Entity("Google")))
    )


def test_an_endless_sentence_is_not_read() -> None:
    assert read("everything that uses " + "something that uses " * LONGEST_SENTENCE + "Google") is None
