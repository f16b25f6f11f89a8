"""The web page's answers: both lists, explanations, concepts, predictions."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pytest

from tarbox.service.knowledge_base import KnowledgeBase

if TYPE_CHECKING:
    from conftest import Visit

PHONE = (360, 780)
NS = "https://tarbox.example/academia#"
ENGLISH = "everything that is interested in something that Geoffrey Hinton investigates and Google uses"

Open = Callable[..., "Visit"]


def test_figure_1_typed_drawn_and_answered(visit: Open, academia: KnowledgeBase) -> None:
    page = (seen := visit()).page
    seen.go()
    page.wait_for_selector("#example-list button")
    assert seen.texts("#example-list code")[0] == seen.figure_1  # the preset's own question comes first
    seen.shoot("welcome")
    assert page.evaluate("document.activeElement.id") == "query"
    page.keyboard.type(seen.figure_1)
    page.wait_for_selector("#drawing svg")  # before anything is asked
    assert page.locator("#results").is_hidden()
    assert page.locator("#english").text_content() == ENGLISH
    assert page.locator("#drawing svg desc").text_content() == ENGLISH
    assert {"Geoffrey Hinton", "Google", "∧", "?"} <= set(page.locator("#drawing text").all_text_contents())
    assert page.locator("#drawing .tb-entity").count() == 2
    page.keyboard.press("Enter")
    page.wait_for_selector("#entities .row")
    expected = academia.answer(seen.figure_1)
    assert seen.texts("#entities .row .label") == [answer.label for answer in expected.entities[:10]]
    assert seen.texts("#concepts .row .label") == [answer.label for answer in expected.concepts[:10]]
    assert set(seen.texts(".row .badge")) == {"known"}
    assert (
        f"{len(expected.entities)} entities and {len(expected.concepts)} concepts"
        in page.locator("#summary").inner_text()
    )
    assert page.locator("#status").text_content().endswith("answer the question")
    assert page.locator("#entities .shape.circle").count() == page.locator("#concepts .shape.square").count() == 11
    assert seen.parameters() == {"q": [seen.figure_1]}
    seen.shoot("results")


def test_concepts_show_degree_coverage_and_specificity(visit: Open, academia: KnowledgeBase) -> None:
    page = (seen := visit()).page
    seen.ask()
    shown = [re.findall(r"[01]\.\d\d", text) for text in seen.texts("#concepts .row")]
    expected = academia.answer(seen.figure_1, 10).concepts
    assert shown == [[f"{c.degree:.2f}", f"{c.coverage:.2f}", f"{c.specificity:.2f}"] for c in expected]
    shares = page.eval_on_selector_all(
        "#concepts .measure:nth-of-type(3) .bar",
        "bars => bars.map(bar => parseFloat(getComputedStyle(bar, '::after').width) / bar.clientWidth)",
    )
    assert shares == pytest.approx([concept.coverage for concept in expected], abs=0.02)


def pretend(page: Any, known: int, less_likely: int) -> None:
    """Makes the server's replies those of a run: all but the first `known` of each list are predicted."""

    def describe(route: Any) -> None:
        told = "the training split of a benchmark: 12 facts were held out"
        route.fulfill(json={**route.fetch().json(), "model": "credo", "trained_on": told})

    def predict(route: Any) -> None:
        content = route.fetch().json()
        for kind in ("entities", "concepts"):
            for row, answer in enumerate(content[kind][known:]):
                answer.update(status="predicted", degree=0.91 - 0.04 * row)
            counts = {"known": known, "predicted": len(content[kind][known:]), "less_likely": less_likely}
            for part, count in counts.items():
                content["counts"][part][kind] = count
        route.fulfill(json=content)

    page.route("**/api/kb", describe)
    page.route("**/api/answer", predict)


def test_predicted_answers_are_a_list_of_their_own(visit: Open) -> None:
    page = (seen := visit()).page
    pretend(page, known=4, less_likely=12)
    seen.ask()
    assert seen.texts("#entities .badge") == ["known"] * 4 + ["predicted"] * 6
    assert [page.locator(f"#entities .rows >> nth={place} >> .row").count() for place in (0, 1)] == [4, 6]
    assert seen.texts("#entities .total") == ["4 known"]
    assert seen.texts("#entities .part") == seen.texts("#concepts .part") == ["6 predicted (12 less likely)"]
    assert seen.texts("#entities .measure")[4].split()[-1] == "0.91"
    summary = page.locator("#summary").inner_text()
    assert summary.startswith("4 known entities (6 predicted) and 4 known concepts (6 predicted) in ")
    told = "predictions by credo, trained on the training split of a benchmark: 12 facts were held out"
    assert told in page.locator("#counts").inner_text()
    seen.shoot("predicted")


def test_the_page_says_that_nothing_is_predicted(visit: Open) -> None:
    page = (seen := visit()).page
    pretend(page, known=10, less_likely=82)
    seen.ask()
    assert seen.texts("#entities .part") == ["None predicted (82 less likely)"]
    assert set(seen.texts("#entities .badge")) == {"known"}


def test_explanation_of_an_entity(visit: Open) -> None:
    page = (seen := visit()).page
    seen.ask()
    seen.choose("entities", "Amazon")
    page.wait_for_selector("#details .graph canvas")
    sentence = page.locator("#details .sentence").inner_text()
    assert sentence.startswith("Amazon is an answer because Amazon is interested in")
    assert "Geoffrey Hinton investigates" in sentence
    assert "Google uses" in sentence
    assert sentence in page.locator("#details .graph").get_attribute("aria-label")
    assert painted(page)
    page.locator("#details summary").click()
    assert len(seen.texts("#details .steps li")) == 3
    assert page.locator(".row[aria-current=true] .label").all_inner_texts() == ["Amazon"]
    assert seen.parameters()["entity"] == [f"<{NS}Amazon>"]
    seen.shoot("explanation")
    page.go_back()
    page.wait_for_selector("#details.empty")
    page.go_forward()
    page.wait_for_selector("#details .sentence")
    page.get_by_role("button", name="Close").click()
    assert page.evaluate("document.activeElement.dataset.iri") == f"<{NS}Amazon>"


def test_a_long_explanation_stays_readable(visit: Open) -> None:
    page = (seen := visit(PHONE)).page
    long = (
        "Person and (worksAt some (University and locatedIn value Canada)) and (received some Award) "
        "and (investigates value ArtificialNeuralNetwork) and not (bornIn value Canada)"
    )
    seen.ask(long)
    seen.choose("entities", "Geoffrey Hinton")
    page.wait_for_selector("#details canvas")
    page.locator("#details summary").click()
    steps = len(seen.texts("#details .steps li"))
    assert page.locator("#details .graph").bounding_box()["height"] > 40 * (steps - 1)  # a line for each fact
    assert painted(page)
    seen.shoot("phone-long-explanation")


def painted(page: Any) -> bool:
    """Whether the graph's canvases have a pixel that is not transparent."""
    found: bool = page.evaluate(
        """() => Array.from(document.querySelectorAll('#details canvas')).some(canvas => {
            const pixels = canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height).data;
            return pixels.some((value, index) => index % 4 === 3 && value > 0);
        })"""
    )
    return found


def test_follow_a_concept_through_the_hierarchy(visit: Open, academia: KnowledgeBase) -> None:
    page = (seen := visit()).page
    seen.ask()
    seen.choose("concepts", "AI researcher")
    page.wait_for_selector("#details .hierarchy")
    expected = next(answer for answer in academia.answer(seen.figure_1).concepts if answer.label == "AI researcher")
    instances = len(academia.instances_of(f"{NS}AIResearcher"))
    facts = [f"{expected.coverage:.2f}", f"{expected.specificity:.2f}", str(instances)]
    assert seen.texts("#details .facts dd") == facts
    assert "12 of 28 answers" in page.locator("#details .sentence").inner_text()
    assert page.locator("#details .concept-here").inner_text() == "AI researcher"
    assert "Deep learning researcher" in seen.texts("#details .concept-link")
    assert page.locator("#details .members li").count() == 10
    seen.shoot("concept")
    page.locator("#details .hierarchy").get_by_role("button", name="Researcher", exact=True).click()
    page.wait_for_selector("#details .concept-here:has-text('Researcher') >> text=/^Researcher$/")
    assert seen.parameters()["concept"] == [f"<{NS}Researcher>"]
    assert page.locator("#details-title").inner_text() == "Researcher"
    page.go_back()
    page.wait_for_selector("#details-title:has-text('AI researcher')")
    page.wait_for_selector("#details .facts")
    page.get_by_role("button", name="Ask for AI researcher").click()
    page.wait_for_selector("#summary:has-text('135 entities')")
    assert seen.parameters() == {"q": ["AIResearcher"]}


def test_sparql_is_answered_and_drawn(visit: Open) -> None:
    page = (seen := visit()).page
    seen.ask(f"PREFIX : <{NS}> SELECT ?x WHERE {{ :GeoffreyHinton :investigates ?x }}")
    page.wait_for_selector("#drawing svg")
    assert page.locator("#english").text_content() == "everything that Geoffrey Hinton investigates"
    page.locator("#entities .row").first.click()
    page.wait_for_selector("#details .sentence")
