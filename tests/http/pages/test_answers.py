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
    page.wait_for_selector("#examples .card")
    assert seen.figure_1 in seen.texts("#examples code")
    assert seen.texts("#examples h2")[:2] == ["One step", "Several steps"]
    seen.shoot("welcome")
    assert page.evaluate("document.activeElement.id") == "query"
    page.keyboard.type(seen.figure_1)
    page.wait_for_selector("#drawing canvas")  # before anything is asked
    assert page.locator("#results").is_hidden()
    assert page.locator("#english").text_content() == ENGLISH
    assert page.locator("#drawing").get_attribute("aria-label") == f"The question as a graph: {ENGLISH}"
    assert painted(page, "#drawing")
    page.keyboard.press("Enter")
    page.wait_for_selector("#entities .row")
    expected = academia.answer(seen.figure_1)
    assert seen.texts("#entities .row .label") == [answer.label for answer in expected.entities[:15]]
    assert seen.texts("#concepts .row .label") == [answer.label for answer in expected.concepts[:15]]
    assert seen.texts(".part") == [f"{len(expected.entities)} known", f"{len(expected.concepts)} known"]
    assert (
        f"{len(expected.entities)} entities and {len(expected.concepts)} concepts"
        in page.locator("#summary").inner_text()
    )
    assert page.locator("#status").text_content().endswith("answer the question")
    assert page.locator("#entities .shape.circle").count() == page.locator("#concepts .shape.square").count() == 16
    assert seen.parameters() == {"q": [seen.figure_1]}
    seen.shoot("results")


def test_concepts_show_degree_coverage_and_specificity(visit: Open, academia: KnowledgeBase) -> None:
    page = (seen := visit()).page
    seen.ask()
    shown = [re.findall(r"[01]\.\d\d", text) for text in seen.texts("#concepts .row")]
    expected = academia.answer(seen.figure_1, 15).concepts
    assert shown == [[f"{c.degree:.2f}", f"{c.coverage:.2f}", f"{c.specificity:.2f}"] for c in expected]
    shares = page.eval_on_selector_all(
        "#concepts .measure:nth-of-type(2) .bar",
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
    shown = [page.locator(f"#entities [data-status={status}] .row").count() for status in ("known", "predicted")]
    assert shown == [4, 11]
    parts = ["4 known", "11 predicted (12 less likely)"]
    assert seen.texts("#entities .part") == seen.texts("#concepts .part") == parts
    assert seen.texts("#entities .measure")[4].split()[-1] == "0.91"
    summary = page.locator("#summary").inner_text()
    assert summary.startswith("4 known entities (11 predicted) and 4 known concepts (11 predicted) in ")
    told = "predictions by credo, trained on the training split of a benchmark: 12 facts were held out"
    assert told in page.locator("#counts").inner_text()
    seen.shoot("predicted")


def test_the_page_says_that_nothing_is_predicted(visit: Open) -> None:
    page = (seen := visit()).page
    pretend(page, known=15, less_likely=82)
    seen.ask()
    assert seen.texts("#entities .part") == ["15 known", "None predicted (82 less likely)"]
    assert page.locator("#entities .shape.predicted").count() == 0


def test_twelve_rows_above_the_fold_and_more_below(visit: Open, academia: KnowledgeBase) -> None:
    page = (seen := visit((1280, 800))).page
    pretend(page, known=15, less_likely=3)
    seen.ask("AIResearcher")
    seen.shoot("dense")
    inside = "rows => rows.filter(row => row.getBoundingClientRect().bottom <= 800).length"
    assert page.eval_on_selector_all("#entities .row", inside) >= 12
    assert page.eval_on_selector_all("#concepts .row", inside) >= 10  # some names take two lines
    page.unroute("**/api/answer")
    seen.ask("AIResearcher")
    page.evaluate("document.querySelectorAll('.row').forEach(row => { row.marked = true; })")
    before = seen.texts("#entities .row .label")
    page.get_by_role("button", name="Show 50 of 120 more known entities").click()
    page.wait_for_selector("#entities .row >> nth=64")
    labels = seen.texts("#entities .row .label")
    assert labels[:15] == before
    assert labels == [answer.label for answer in academia.answer("AIResearcher", 65).entities]
    assert page.get_by_role("button", name="Show 50 of 70 more known entities").is_visible()
    marked = page.eval_on_selector_all("#entities .row", "rows => rows.map(row => Boolean(row.marked))")
    assert marked == [True] * 15 + [False] * 50  # those above are the same elements


def test_predictions_from_a_degree_that_one_drags(visit: Open) -> None:
    page = (seen := visit()).page
    pretend(page, known=4, less_likely=12)
    seen.ask()
    asked: list[float] = []
    page.on("request", lambda sent: asked.append(sent.post_data_json["min_degree"]) if sent.method == "POST" else None)
    page.locator("#min-degree").focus()
    page.keyboard.press("ArrowRight")
    page.wait_for_selector("#min-degree-shown >> text=0.15")
    page.wait_for_function("location.search.includes('min=0.15')")
    page.wait_for_selector("#results:not([aria-busy])")
    assert asked == [0.15]
    page.go_back()
    page.wait_for_selector("#min-degree-shown >> text=0.10")


def test_words_explain_themselves(visit: Open) -> None:
    page = (seen := visit()).page
    seen.ask()
    for word in ("degree", "coverage", "specificity"):
        page.locator("#concepts .term", has_text=word).click()
        page.wait_for_selector(f"#term-{word}:popover-open")
    seen.shoot("term")
    assert "a single thing" in page.locator("#term-specificity").inner_text()


def test_without_answers_the_part_that_leaves_none_is_named(visit: Open) -> None:
    page = (seen := visit()).page
    seen.ask("Person and (worksAt value Google) and (bornIn value France) and City")
    page.wait_for_selector("#empty .card")
    assert "“every City”" in page.locator("#empty").inner_text()
    seen.shoot("empty")
    page.locator("#empty .card").first.click()
    page.wait_for_selector("#entities .row")
    assert page.locator("#empty").is_hidden()
    assert seen.parameters() == {"q": ["Person and (worksAt value Google) and (bornIn value France)"]}


def test_on_a_phone_the_explanation_opens_below_its_answer(visit: Open) -> None:
    page = (seen := visit(PHONE)).page
    seen.ask()
    row = page.locator("#entities .row").nth(2)
    seen.why(row)
    page.wait_for_selector("#entities .here #details canvas")
    below = page.locator("#details").bounding_box()["y"] - row.bounding_box()["y"] - row.bounding_box()["height"]
    assert 0 <= below < 20
    seen.shoot("phone-here")
    page.get_by_role("button", name="Close").click()
    page.wait_for_selector("#details.empty")
    assert page.locator(".here").count() == 0


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
    assert page.evaluate("document.activeElement.parentElement.dataset.iri") == f"<{NS}Amazon>"


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


def painted(page: Any, frame: str = "#details") -> bool:
    """Whether the graph's canvases have a pixel that is not transparent."""
    found: bool = page.evaluate(
        """frame => Array.from(document.querySelectorAll(`${frame} canvas`)).some(canvas => {
            const pixels = canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height).data;
            return pixels.some((value, index) => index % 4 === 3 && value > 0);
        })""",
        frame,
    )
    return found


def test_follow_a_concept_through_the_hierarchy(visit: Open, academia: KnowledgeBase) -> None:
    page = (seen := visit()).page
    seen.ask()
    seen.choose("concepts", "AI researcher")
    page.wait_for_selector("#details .hierarchy")
    expected = next(answer for answer in academia.answer(seen.figure_1).concepts if answer.label == "AI researcher")
    instances = len(academia.members(f"{NS}AIResearcher"))
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
    page.wait_for_selector("#drawing canvas")
    assert page.locator("#english").text_content() == "everything that Geoffrey Hinton investigates"
    seen.why(page.locator("#entities .row").first)
    page.wait_for_selector("#details .sentence")
