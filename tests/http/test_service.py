"""What stands behind the routes: batches, many answers at once, examples, cards."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

import pytest

from tarbox.core.errors import UnknownName
from tarbox.kb.closure import Hierarchy
from tarbox.kb.facts import Facts
from tarbox.kb.presets import PRESETS
from tarbox.kb.vocabulary import Vocabulary
from tarbox.service.answering import Answerer, Question
from tarbox.service.batching import Batcher
from tarbox.service.catalogue import Catalogue
from tarbox.service.concept_paths import paths_to
from tarbox.service.examples import examples
from tarbox.service.knowledge_base import KnowledgeBase

TEXTS = [
    "interestedIn some ((inverse investigates value GeoffreyHinton) and (inverse uses value Google))",
    "Person and (worksAt some (University and locatedIn value Canada)) and not (bornIn value Canada)",
    "inverse investigates value GeoffreyHinton",
    "inverse investigates value YannLeCun",
    "inverse uses value Google",
    "not Person",
    "Person and University",
    "{Google}",
]


@pytest.mark.parametrize("k", [None, 1, 3])
def test_many_answers_are_those_of_each(answerer: Answerer, kb: KnowledgeBase, k: int | None) -> None:
    for text, found in zip(TEXTS, answerer.answer_many(TEXTS, k), strict=True):
        expected = kb.answer(text, k)
        assert found.query == text
        assert list(found.entities) == list(expected.entities)
        assert list(found.concepts) == list(expected.concepts)
        assert (found.entity_count, found.concept_count) == (expected.entity_count, expected.concept_count)
    assert answerer.answer_many([]) == []


def test_threads_share_one_answerer(kb: KnowledgeBase) -> None:
    fresh = KnowledgeBase(kb.facts, "academia")  # nothing is built yet: all threads build at once
    expected = [[answer.iri for answer in kb.answer(text, 5).entities] for text in TEXTS]
    start = threading.Barrier(8)

    def ask(_: int) -> list[list[str]]:
        start.wait()
        return [[answer.iri for answer in found.entities] for found in fresh.answer_many(TEXTS, 5)]

    with ThreadPoolExecutor(8) as pool:
        assert list(pool.map(ask, range(8))) == [expected] * 8


def test_the_next_batch_waits_for_those_just_answered() -> None:
    sizes: list[int] = []

    def answer(questions: Sequence[int]) -> Sequence[int]:
        time.sleep(0.1)
        return questions

    async def client(batcher: Batcher[int, int], number: int) -> None:
        await asyncio.sleep(0.02 * (number % 2))  # half of them come when the first batch is under way
        for _ in range(3):
            await batcher.ask(number)

    async def ask() -> None:
        batcher: Batcher[int, int] = Batcher(answer, report=sizes.append)
        await asyncio.gather(*(client(batcher, number) for number in range(8)))
        await asyncio.wait_for(batcher.ask(0), 60)  # alone, nobody waits for others
        batcher.close()

    asyncio.run(ask())
    assert sizes[0] == 4
    assert 8 in sizes
    assert sum(sizes) == 25


def test_a_batch_is_what_was_waiting() -> None:
    sizes: list[int] = []
    go = threading.Event()

    def double(numbers: Sequence[int]) -> list[int]:
        go.wait(5)
        return [2 * number for number in numbers]

    async def ask() -> list[int]:
        batcher = Batcher(double, most=4, report=sizes.append)
        first = asyncio.create_task(batcher.ask(0))
        while not sizes:
            await asyncio.sleep(0)
        rest = [asyncio.create_task(batcher.ask(number)) for number in range(1, 8)]
        await asyncio.sleep(0)
        rest[6].cancel()
        go.set()
        found = await asyncio.gather(first, *rest[:6])
        assert await batcher.ask(7) == 14
        batcher.close()
        return found

    assert asyncio.run(ask()) == [0, 2, 4, 6, 8, 10, 12]
    assert sizes == [1, 4, 2, 1]


def test_a_failure_reaches_the_one_who_asked() -> None:
    def invert(numbers: Sequence[int]) -> list[float]:
        return [1 / number for number in numbers]

    async def ask() -> list[float | BaseException]:
        batcher = Batcher(invert)
        return await asyncio.gather(*map(batcher.ask, (1, 2, 0, 4)), return_exceptions=True)

    found = asyncio.run(ask())
    assert [found[place] for place in (0, 1, 3)] == [1, 0.5, 0.25]
    assert isinstance(found[2], ZeroDivisionError)


def test_examples_are_the_same_each_time(kb: KnowledgeBase) -> None:
    found = examples(kb)
    assert found == examples(KnowledgeBase(kb.facts, "again"))
    assert len({example.query for example in found}) == len(found) >= 3
    assert found[0].query == TEXTS[0]  # the preset's own question
    for example in found:
        answers = kb.answer(example.query)
        assert answers.entity_count == example.entity_count >= 2
        assert answers.concept_count > 0


def test_every_example_of_a_preset_is_offered_where_its_names_are_known(kb: KnowledgeBase) -> None:
    own = [kb.render(kb.parse(text)) for text in PRESETS["academia"].examples]
    assert [example.query for example in examples(kb)][: len(own)] == own


def test_a_knowledge_base_without_facts_has_no_examples() -> None:
    assert examples(KnowledgeBase(Facts.of(Vocabulary.of(["urn:a"], ["urn:C"], ["urn:p"])))) == []


def test_paths_to_a_concept() -> None:
    subs = Facts.of(Vocabulary.of([], [f"urn:{i}" for i in range(7)]), [], [], [(2, 1), (1, 0), (2, 3), (3, 2), (3, 4)])
    tree = Hierarchy.of(subs.subs, subs.supers, 7)
    assert paths_to(2, tree) == [[4, 2], [0, 1, 2]]  # 2 and 3 are equivalent: what is above one is above both
    assert paths_to(0, tree) == [[0]]
    assert paths_to(2, tree, most=1) == [[4, 2]]


def test_a_page_of_equivalent_concepts() -> None:
    vocabulary = Vocabulary.of(["urn:x:a"], ["urn:x:A", "urn:x:B", "urn:x:Top"])
    kb = KnowledgeBase(Facts.of(vocabulary, [], [(0, 0)], [(0, 1), (1, 0), (1, 2)]))
    cards = Catalogue(kb)
    card = cards.concept("A")
    assert [line.label for line in card.equivalents] == ["B"]
    assert [line.label for line in card.paths[0]] == ["Top", "A"]
    assert [member.label for member in card.instances] == ["a"]
    assert [(line.label, line.children) for line in cards.concepts("top").concepts] == [("Top", 1)]
    with pytest.raises(UnknownName):
        cards.concept("C")


def test_wrong_questions_do_not_spoil_the_right_ones(answerer: Answerer, kb: KnowledgeBase) -> None:
    from tarbox.service.answer_schema import AnswerRequest
    from tarbox.service.dispatcher import Asked, Dispatcher
    from tarbox.service.sparql_engine import EngineLimits

    dispatcher = Dispatcher(answerer, EngineLimits(), (20_000, 8_000), lambda _: None)
    nowhere = kb.parse("SELECT ?x { ?x a <urn:nothing> }", sparql=True)
    asked = [("Person", None), ("Persn", None), ("x", nowhere)]
    batch = [Asked(AnswerRequest.model_validate({"query": text, "k": 1}), query, 0.0) for text, query in asked]
    found = dispatcher.answer_batch(batch)
    assert [type(outcome).__name__ for outcome in found] == ["bytes", "QuerySyntaxError", "UnknownName"]
    dispatcher.close()
    assert Question(nowhere, 1) == Question(nowhere, 1)
