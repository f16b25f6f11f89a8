"""The examples of docs/query-language.md have answers."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tarbox.core.errors import NotAnswerable, QuerySyntaxError
from tarbox.kb.build import build
from tarbox.kb.presets import academia
from tarbox.kb.sources import Source
from tarbox.query.templates import TEMPLATES, template
from tarbox.service.knowledge_base import KnowledgeBase

PAGE = (Path(__file__).parents[2] / "docs" / "query-language.md").read_text(encoding="utf-8")
FILE = Path(str(academia.__file__)).with_name("academia.ttl")


@pytest.fixture(scope="module")
def kb(tmp_path_factory: pytest.TempPathFactory) -> KnowledgeBase:
    folder = tmp_path_factory.mktemp("store") / "academia"
    build([Source(FILE, FILE.name, "turtle")], folder)
    return KnowledgeBase.load(folder)


def _blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)


def test_every_manchester_example_has_answers(kb: KnowledgeBase) -> None:
    texts = [line for block in _blocks("manchester") for line in block.splitlines()]
    assert len(texts) >= 5
    for text in texts:
        assert kb.answer(text).entity_count, text


def test_the_first_example_shows_what_is_answered(kb: KnowledgeBase) -> None:
    shown = _blocks("console")[0]
    asked = re.search(r'"(.*)"', shown)
    assert asked is not None
    answers = kb.answer(asked.group(1), k=4)
    assert kb.describe(asked.group(1)) in shown
    assert f"4 of {answers.entity_count} entities" in shown
    assert f"4 of {answers.concept_count} concepts" in shown
    for answer in [*answers.entities, *answers.concepts]:
        assert answer.label in shown
    for concept in answers.concepts:
        assert f"{concept.coverage:.2f}" in shown
        assert f"{concept.specificity:.2f}" in shown


def test_the_error_is_the_one_shown(kb: KnowledgeBase) -> None:
    shown = next(block for block in _blocks("console") if "Gogle" in block)
    asked = re.search(r'"(.*)"', shown)
    assert asked is not None
    with pytest.raises(QuerySyntaxError) as caught:
        kb.answer(asked.group(1))
    assert str(caught.value) in shown


def test_the_sparql_example_is_the_first_query(kb: KnowledgeBase) -> None:
    (text,) = _blocks("sparql")
    assert kb.answer(text, sparql=True).entity_count == 7


def test_what_the_page_says_is_not_answerable(kb: KnowledgeBase) -> None:
    with pytest.raises(NotAnswerable, match="has no order"):
        kb.answer('worksAt some xsd:string[>= "A"]')


def test_the_templates_of_the_page(kb: KnowledgeBase) -> None:
    for name in ("1p", "pi", "ip", "inp"):
        assert f"`{TEMPLATES[name].text}`" in PAGE
    own = re.search(r"is a template: `(.*)`", PAGE)
    assert own is not None
    assert template("own", own.group(1)).text in PAGE
