"""Queries that Python builds are those of the same text; names are found, completed and suggested."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from IPython.core.completer import Completer

from conftest import CONCEPTS, ENTITIES, NS, RELATIONS
from tarbox.core.errors import QueryError, TarboxError, UnknownName
from tarbox.core.ids import Role
from tarbox.kb.facts import Facts
from tarbox.kb.vocabulary import Vocabulary
from tarbox.query.algebra import And, Concept, Direction, Entity, Exists, Not
from tarbox.service.knowledge_base import KnowledgeBase
from tarbox.service.query_objects import QueryName
from tarbox.service.reasoner import Reasoner

VOCABULARY = Vocabulary.of([NS + e for e in ENTITIES], [NS + c for c in CONCEPTS], [NS + r for r in RELATIONS])
SMALL = KnowledgeBase(Facts.of(VOCABULARY, [(0, 0, 1)]), "academia")
Pair = tuple[Any, str, str]
"""An object, the text that says the same, and what binds the text's parts: `and`, `or`, or nothing."""


def _leaves() -> st.SearchStrategy[Pair]:
    relation = st.sampled_from(RELATIONS)
    return (
        st.sampled_from(CONCEPTS).map(lambda name: (SMALL[name], name, ""))
        | st.sampled_from(ENTITIES).map(lambda name: (SMALL[name], f"{{{name}}}", ""))
        | relation.map(lambda name: (SMALL[name].itself(), f"{name} Self", ""))
        | st.builds(lambda r, e: (SMALL[r].value(SMALL[e]), f"{r} value {e}", ""), relation, st.sampled_from(ENTITIES))
    )


def _larger(inner: st.SearchStrategy[Pair]) -> st.SearchStrategy[Pair]:
    def restricted(word: str, relation: str, turned: bool, count: int, operand: Pair) -> Pair:
        name = SMALL[relation].inverse if turned else SMALL[relation]
        said = f"{'inverse ' if turned else ''}{relation} {word}"
        if word in ("some", "only"):
            return getattr(name, word)(operand[0]), f"{said} ({operand[1]})", ""
        return getattr(name, word)(count, operand[0]), f"{said} {count} ({operand[1]})", ""

    def both(left: Pair, right: Pair) -> Pair:
        first = f"({left[1]})" if left[2] == "or" else left[1]
        return left[0] & right[0], f"{first} and {f'({right[1]})' if right[2] else right[1]}", "and"

    def either(left: Pair, right: Pair) -> Pair:
        return left[0] | right[0], f"{left[1]} or {f'({right[1]})' if right[2] == 'or' else right[1]}", "or"

    words = st.sampled_from(["some", "only", "min", "max", "exactly"])
    return (
        st.builds(restricted, words, st.sampled_from(RELATIONS), st.booleans(), st.integers(0, 3), inner)
        | st.builds(both, inner, inner)
        | st.builds(either, inner, inner)
        | inner.map(lambda each: (~each[0], f"not ({each[1]})", ""))
    )


@settings(suppress_health_check=[HealthCheck.too_slow])  # names are indexed when the first is looked up
@given(st.recursive(_leaves(), _larger, max_leaves=8))
def test_an_object_is_the_tree_of_the_text_with_the_same_parentheses(pair: Pair) -> None:
    built, text, _ = pair
    assert built.tree == SMALL.parse(text)
    assert SMALL.parse(SMALL.render(built.tree)) == built.tree


def test_the_query_of_the_documentation(kb: KnowledgeBase) -> None:
    built = kb.Person & kb.worksAt.some(kb.University & kb.locatedIn.value(kb.Canada)) & ~kb.worksAt.value("MIT")
    text = "Person and worksAt some (University and locatedIn value Canada) and not (worksAt value MIT)"
    assert built.tree == kb.parse(text)
    assert repr(built) == kb.render(kb.parse(text))
    assert list(kb.answer(built).entities) == list(kb.answer(text).entities) != []


def test_parts_may_be_texts_trees_and_answers(kb: KnowledgeBase) -> None:
    toronto = kb.answer("{Toronto}").entities[0]
    expected = kb.parse("Person and worksAt value Toronto")
    assert (kb.Person & kb.worksAt.value(toronto)).tree == expected
    assert (kb.Person & kb.worksAt.value(kb.entities["Toronto"])).tree == expected
    assert (kb.query("Person") & "worksAt value Toronto").tree == expected
    assert (kb.Person & Exists(NS + "worksAt", Direction.FORWARD, Entity(NS + "Toronto"))).tree == expected
    assert kb.worksAt.some().tree == kb.parse("worksAt some owl:Thing")
    assert (kb["owl:Thing"] & kb.Person).tree == kb.parse("owl:Thing and Person")


def test_numbers_and_truth_values_are_literals() -> None:
    xsd = "http://www.w3.org/2001/XMLSchema#"
    five, true = f'"5"^^<{xsd}integer>', f'"true"^^<{xsd}boolean>'
    kb = KnowledgeBase(Facts.of(Vocabulary.of([five, true, "urn:x:a"], [], ["urn:x:age"]), [(0, 0, 1)]), "people")
    assert kb.age.value(5).tree == Exists("urn:x:age", Direction.FORWARD, Entity(five))
    assert kb.age.value(True).tree == Exists("urn:x:age", Direction.FORWARD, Entity(true))


@pytest.mark.parametrize("name", ["Yann LeCun", "yann lecun", NS + "YannLeCun", f"<{NS}YannLeCun>", "YannLeCun"])
def test_any_name_between_brackets(kb: KnowledgeBase, name: str) -> None:
    assert kb[name].tree == Entity(NS + "YannLeCun")


def test_a_name_means_what_it_means_at_its_place() -> None:
    punned = Vocabulary.of(["urn:x:Seizure", "urn:x:a"], ["urn:x:Seizure"], ["urn:x:seizure"])
    kb = KnowledgeBase(Facts.of(punned, [(1, 0, 0)], [(0, 0)]), "punned")
    some, value = kb.Seizure.some(kb.Seizure).tree, kb.seizure.value(kb.Seizure).tree
    assert some == Exists("urn:x:seizure", Direction.FORWARD, Concept("urn:x:Seizure"))
    assert value == Exists("urn:x:seizure", Direction.FORWARD, Entity("urn:x:Seizure"))


def test_attributes_that_exist_win(facts: Facts) -> None:
    own = Vocabulary.of([], ["urn:x:answer", "urn:x:class"], [])
    kb = KnowledgeBase(Facts.of(own), "words")
    assert kb.answer("owl:Thing").entity_count == 0
    assert kb["answer"].tree == Concept("urn:x:answer")
    assert kb["class"].tree == Concept("urn:x:class")
    assert "class" not in dir(kb)


def test_an_unknown_name_is_told_with_near_ones_of_every_role(kb: KnowledgeBase) -> None:
    with pytest.raises(UnknownName, match=r"no entity, concept or relation 'investigats' in academia\. Did you mean"):
        kb["investigats"]
    with pytest.raises(AttributeError, match="Did you mean 'University'"):
        kb.Univrsity  # noqa: B018
    with pytest.raises(TarboxError, match="Did you mean 'University'"):
        kb.Univrsity  # noqa: B018
    assert not hasattr(kb, "_ipython_canary_method_should_not_exist_")
    assert getattr(kb, "nothing_at_all", None) is None


def test_an_attribute_whose_own_work_fails_says_how(kb: KnowledgeBase, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tarbox.service.knowledge_base.Naming", lambda _: object().broken)  # type: ignore[attr-defined]
    with pytest.raises(AttributeError, match="'object' object has no attribute 'broken'"):
        kb.naming  # noqa: B018


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda kb: kb.worksAt & kb.Person, "'worksAt' is a relation in academia, not a concept"),
        (lambda kb: kb.Person.some(kb.University), "'Person' is a concept in academia, not a relation"),
        (lambda kb: kb.worksAt.value(kb.University), "'University' is a concept in academia, not an entity"),
        (lambda kb: kb.worksAt.inverse & kb.Person, "the inverse of 'worksAt' is a relation"),
        (lambda kb: kb.worksAt.some(3), "3 is no query"),
        (lambda kb: kb.worksAt.min(-1, kb.University), "the number must be 0 or more"),
        (lambda kb: kb.Person and kb.University, "join queries by & and"),
        (lambda kb: not kb.Person, "negate one by ~"),
    ],
)
def test_what_is_no_query_is_told(kb: KnowledgeBase, build: Any, message: str) -> None:
    with pytest.raises((QueryError, UnknownName), match=message):
        build(kb)


def test_tab_completes_names(kb: KnowledgeBase) -> None:
    completer = Completer(namespace={"kb": kb, "relation": kb.worksAt})
    assert completer.attr_matches("kb.Geof") == ["kb.GeoffreyHinton"]
    assert completer.attr_matches("kb.answer") == ["kb.answer", "kb.answer_many"]
    assert completer.attr_matches("relation.val") == ["relation.value"]
    assert {"GeoffreyHinton", "University", "worksAt"} <= set(kb._ipython_key_completions_())


def test_a_name_shows_itself_whatever_it_is(kb: KnowledgeBase) -> None:
    shown = [repr(each) for each in (kb.Person, kb.worksAt, kb.worksAt.inverse, kb["Yann LeCun"])]
    assert shown == ["Person", "worksAt", "inverse worksAt", "Yann LeCun"]


def test_a_reasoner_takes_objects(reasoner: Reasoner) -> None:
    kb = reasoner.kb
    asked = kb.interestedIn.some(kb.uses.inverse.value(kb.Google))
    text = "interestedIn some (inverse uses value Google)"
    assert reasoner.answer(asked).entities == reasoner.answer(text).entities
    assert reasoner.answer_many([asked, text])[0].entities == reasoner.answer(text).entities
    assert reasoner.explain(asked, "MIT", Role.ENTITY) == reasoner.explain(text, "MIT")


def test_chains_make_one_node_and_counts_stay_their_own(kb: KnowledgeBase) -> None:
    chain = (kb.Person & kb.Agent & kb.University).tree
    assert isinstance(chain, And)
    assert len(chain.operands) == 3
    counted = (kb.worksAt.exactly(1, kb.University) & kb.Person).tree
    assert counted == kb.parse("worksAt exactly 1 University and Person")
    assert isinstance(QueryName(kb, "Person").tree, Concept)
    assert (~kb.Person).tree == Not(Concept(NS + "Person"))
