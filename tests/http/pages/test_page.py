"""The web page, used as people use it: in a browser, against a server, by mouse and by keyboard."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qs, urlsplit

import pytest

from tarbox.service.knowledge_base import KnowledgeBase

if TYPE_CHECKING:
    from conftest import Visit

PHONE = (360, 780)
NS = "https://tarbox.example/academia#"
FIGURE_1 = "interestedIn some ((inverse investigates value GeoffreyHinton) and (inverse uses value Google))"
ENGLISH = "everything that is interested in something that Geoffrey Hinton investigates and Google uses"
MISSPELLED = "Person and worksAt value Gogle and not (bornIn value Canada)"

Open = Callable[..., "Visit"]


def parameters(page: Any) -> dict[str, list[str]]:
    return parse_qs(urlsplit(page.url).query)


def choose(page: Any, level: str, label: str) -> None:
    page.locator(f"#{level} .row", has=page.get_by_text(label, exact=True)).click()


def test_figure_1_typed_drawn_and_answered(visit: Open, academia: KnowledgeBase) -> None:
    page = (seen := visit()).page
    seen.go()
    page.wait_for_selector("#example-list button")
    seen.shoot("welcome")
    assert page.evaluate("document.activeElement.id") == "query"
    page.keyboard.type(FIGURE_1)
    page.wait_for_selector("#drawing svg")  # before anything is asked
    assert page.locator("#results").is_hidden()
    assert page.locator("#english").text_content() == ENGLISH
    assert page.locator("#drawing svg desc").text_content() == ENGLISH
    assert {"Geoffrey Hinton", "Google", "∧", "?"} <= set(page.locator("#drawing text").all_text_contents())
    assert page.locator("#drawing .tb-entity").count() == 2
    page.keyboard.press("Enter")
    page.wait_for_selector("#entities .row")
    expected = academia.answer(FIGURE_1)
    assert seen.texts("#entities .row .label") == [answer.label for answer in expected.entities[:10]]
    assert seen.texts("#concepts .row .label") == [answer.label for answer in expected.concepts[:10]]
    assert set(seen.texts(".row .badge")) == {"known"}
    assert (
        f"{len(expected.entities)} entities and {len(expected.concepts)} concepts"
        in page.locator("#summary").inner_text()
    )
    assert page.locator("#status").text_content().endswith("answer the question")
    assert page.locator("#entities .shape.circle").count() == page.locator("#concepts .shape.square").count() == 11
    assert parameters(page) == {"q": [FIGURE_1]}
    seen.shoot("results")


def test_concepts_show_degree_coverage_and_specificity(visit: Open, academia: KnowledgeBase) -> None:
    page = (seen := visit()).page
    seen.ask(FIGURE_1)
    shown = [re.findall(r"[01]\.\d\d", text) for text in seen.texts("#concepts .row")]
    expected = academia.answer(FIGURE_1, 10).concepts
    assert shown == [[f"{c.degree:.2f}", f"{c.coverage:.2f}", f"{c.specificity:.2f}"] for c in expected]
    shares = page.eval_on_selector_all(
        "#concepts .measure:nth-of-type(3) .bar",
        "bars => bars.map(bar => parseFloat(getComputedStyle(bar, '::after').width) / bar.clientWidth)",
    )
    assert shares == pytest.approx([concept.coverage for concept in expected], abs=0.02)


def test_explanation_of_an_entity(visit: Open) -> None:
    page = (seen := visit()).page
    seen.ask(FIGURE_1)
    choose(page, "entities", "Amazon")
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
    assert parameters(page)["entity"] == [f"<{NS}Amazon>"]
    seen.shoot("explanation")
    page.go_back()
    page.wait_for_selector("#details.empty")
    page.go_forward()
    page.wait_for_selector("#details .sentence")
    page.get_by_role("button", name="Close").click()
    assert page.evaluate("document.activeElement.dataset.iri") == f"<{NS}Amazon>"


def painted(page: Any) -> bool:
    """Whether the graph's canvases have a pixel that is not transparent."""
    found: bool = page.evaluate(
        """() => Array.from(document.querySelectorAll('#details canvas')).some(canvas => {
            const pixels = canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height).data;
            return pixels.some((value, index) => index % 4 === 3 && value > 0);
        })"""
    )
    return found


def test_a_long_explanation_stays_readable(visit: Open) -> None:
    page = (seen := visit(PHONE)).page
    long = (
        "Person and (worksAt some (University and locatedIn value Canada)) and (received some Award) "
        "and (investigates value ArtificialNeuralNetwork) and not (bornIn value Canada)"
    )
    seen.ask(long)
    choose(page, "entities", "Geoffrey Hinton")
    page.wait_for_selector("#details canvas")
    page.locator("#details summary").click()
    steps = len(seen.texts("#details .steps li"))
    assert page.locator("#details .graph").bounding_box()["height"] > 40 * (steps - 1)  # a line for each fact
    assert painted(page)
    seen.shoot("phone-long-explanation")


def test_follow_a_concept_through_the_hierarchy(visit: Open, academia: KnowledgeBase) -> None:
    page = (seen := visit()).page
    seen.ask(FIGURE_1)
    choose(page, "concepts", "AI researcher")
    page.wait_for_selector("#details .hierarchy")
    expected = next(answer for answer in academia.answer(FIGURE_1).concepts if answer.label == "AI researcher")
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
    assert parameters(page)["concept"] == [f"<{NS}Researcher>"]
    assert page.locator("#details-title").inner_text() == "Researcher"
    page.go_back()
    page.wait_for_selector("#details-title:has-text('AI researcher')")
    page.wait_for_selector("#details .facts")
    page.get_by_role("button", name="Ask for AI researcher").click()
    page.wait_for_selector("#summary:has-text('135 entities')")
    assert parameters(page) == {"q": ["AIResearcher"]}


def test_an_address_is_shared_and_reloaded(visit: Open) -> None:
    page = (seen := visit()).page
    seen.ask(FIGURE_1)
    choose(page, "concepts", "The academia")
    page.wait_for_selector("#details .sentence")
    page.get_by_role("button", name="Copy link").click()
    page.wait_for_selector("#share:has-text('Link copied')")
    link = page.evaluate("navigator.clipboard.readText()")
    assert link == page.url
    lists = seen.texts("#entities .row")
    other = visit().page
    for arrive in (lambda: other.goto(link), other.reload):
        arrive()
        other.wait_for_selector("#details .sentence")
        assert other.locator("#query").input_value() == FIGURE_1
        assert other.locator("#details-title").inner_text() == "The academia"
        assert [text.split("\n")[0] for text in other.locator("#entities .row").all_inner_texts()] == [
            text.split("\n")[0] for text in lists[:10]
        ]


def test_back_and_forward_walk_through_questions(visit: Open) -> None:
    page = (seen := visit()).page
    seen.go()
    first = page.locator("#example-list button").first
    query = first.locator("code").inner_text()
    first.click()
    page.wait_for_selector("#entities .row")
    assert page.locator("#query").input_value() == query
    page.locator("#query").fill("Person and City")
    page.get_by_role("button", name="Answer", exact=True).click()
    page.wait_for_selector("#entities .none")
    assert seen.texts(".answers .none") == ["No entity answers this.", "No concept describes the answers."]
    page.go_back()
    page.wait_for_selector("#entities .row")
    assert page.locator("#query").input_value() == query
    page.go_back()
    page.wait_for_selector("#results", state="hidden")
    assert page.locator("#query").input_value() == ""
    page.go_forward()
    page.wait_for_selector("#entities .row")


def test_an_error_has_its_caret_under_the_place(visit: Open) -> None:
    page = (seen := visit()).page
    seen.go()
    page.locator("#query").fill(MISSPELLED)
    page.keyboard.press("Enter")
    page.wait_for_selector("#error .pointer")
    assert "no entity 'Gogle' in academia" in page.locator("#error .message").text_content()
    line, caret = page.locator("#error .pointer").inner_text().splitlines()
    assert line == MISSPELLED
    assert caret.index("^") == MISSPELLED.index("Gogle")
    left = page.evaluate(
        """() => {
            const text = document.querySelector('#error .pointer').firstChild, range = document.createRange();
            const at = text.data.indexOf('Gogle');
            range.setStart(text, at); range.setEnd(text, at + 1);
            const caret = document.querySelector('#error .pointer b').getBoundingClientRect();
            return caret.left - range.getBoundingClientRect().left;
        }"""
    )
    assert abs(left) < 1
    assert seen.texts("#mirror .wrong") == ["Gogle"]
    assert page.locator("#query").get_attribute("aria-invalid") == "true"
    seen.shoot("error")
    page.locator("#error").get_by_role("button", name="Google", exact=True).click()
    assert page.locator("#query").input_value() == MISSPELLED.replace("Gogle", "Google")
    assert page.locator("#error").is_hidden()
    page.keyboard.press("Enter")
    page.wait_for_selector("#entities .row")


def test_positions_count_characters_not_units(visit: Open) -> None:
    page = (seen := visit()).page
    body = {"title": "wrong", "status": 400, "reason": "no concept 'B'", "position": 8, "candidates": []}
    page.route("**/api/answer", lambda route: route.fulfill(status=400, json=body))
    seen.go(q="'😀' and B or C")
    page.wait_for_selector("#error .pointer")
    assert seen.texts("#mirror .wrong") == ["B"]


def test_names_are_completed_by_keyboard(visit: Open) -> None:
    page = (seen := visit()).page
    seen.go()
    box = page.locator("#query")
    page.keyboard.type("worksAt value Tor")
    page.wait_for_selector("#completions [role=option]")
    assert box.get_attribute("aria-expanded") == "true"
    assert set(seen.texts("#completions .role")) == {"entity"}
    assert box.get_attribute("aria-activedescendant") is None
    page.keyboard.press("ArrowDown")
    active = page.locator("#completions [aria-selected=true]")
    assert active.get_attribute("id") == box.get_attribute("aria-activedescendant")
    name = active.locator(".name").inner_text()
    seen.shoot("completion")
    page.keyboard.press("Enter")
    assert box.input_value() == f"worksAt value {name} "
    assert page.locator("#completions").is_hidden()
    assert page.locator("#results").is_hidden()
    page.keyboard.type("and inverse inv")
    page.wait_for_selector("#completions [role=option]")
    assert set(seen.texts("#completions .role")) == {"relation"}
    page.keyboard.press("Escape")
    assert page.locator("#completions").is_hidden()
    page.keyboard.press("Control+Space")
    page.wait_for_selector("#completions [role=option]")
    page.keyboard.press("ArrowUp")
    page.keyboard.press("ArrowDown")
    assert box.get_attribute("aria-activedescendant") is None  # past the end lies the text again
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Tab")
    assert box.input_value().startswith(f"worksAt value {name} and inverse inv")
    page.keyboard.press("Control+Space")
    page.wait_for_selector("#completions [role=option]")
    assert seen.texts("#completions .name") == ["some", "value"]


PLACES = [
    ("Per", "Per", ["concept", "relation", "not", "inverse"]),
    ("inverse inv", "inv", ["relation"]),
    ("inverse(inv", "inv", ["relation"]),
    ("inverse investigates ", "", ["some", "value"]),
    ("worksAt value 'Geoffrey H", "Geoffrey H", ["entity"]),
    ("worksAt value and", "and", ["entity"]),
    ("{Google, Me", "Me", ["entity"]),
    ("{Google} ", "", ["and", "or"]),
    ("(worksAt value MIT) and not (bo", "bo", ["concept", "relation", "not", "inverse"]),
    ("Person ", "", ["some", "value", "and", "or"]),
]


def test_what_can_stand_at_the_caret(visit: Open) -> None:
    page = (seen := visit()).page
    seen.go()
    context = "text => import('/tokens.js').then(tokens => tokens.context(text, text.length))"
    for text, prefix, offered in PLACES:
        found = page.evaluate(context, text)
        assert (found["prefix"], found["roles"] + found["keywords"]) == (prefix, offered), text


def test_everything_by_keyboard(visit: Open) -> None:
    page = (seen := visit()).page
    seen.ask(FIGURE_1)
    focus = "document.activeElement.innerText.split('\\n')[0]"
    page.locator("#query").focus()
    stops = []
    for _ in range(8):
        page.keyboard.press("Tab")
        stops.append(page.evaluate("document.activeElement.id || document.activeElement.className || 'summary'"))
        outline = page.evaluate("getComputedStyle(document.activeElement).outlineStyle")
        assert outline == "solid", f"no visible focus on {stops[-1]}"
    assert [stop for stop in stops if stop in ("submit", "drawing", "share", "row")][:4] == [
        "submit",
        "drawing",
        "share",
        "row",
    ]
    rows = seen.texts("#entities .row .label")
    page.locator("#entities .row").first.focus()
    page.keyboard.press("ArrowDown")
    assert page.evaluate(focus) == rows[1]
    page.keyboard.press("End")
    assert page.evaluate(focus) == rows[-1]
    page.keyboard.press("Enter")
    page.wait_for_selector("#details .sentence")
    assert page.evaluate("document.activeElement.id") == "details-title"
    page.keyboard.press("Escape")
    page.wait_for_selector("#details.empty")
    assert page.evaluate(focus) == rows[-1]
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")  # the button below the list
    page.wait_for_selector("#entities .row >> nth=10")
    assert page.evaluate(focus) == seen.texts("#entities .row .label")[10]


def test_phone(visit: Open) -> None:
    page = (seen := visit(PHONE)).page
    seen.go()
    page.wait_for_selector("#example-list button")
    seen.shoot("phone-welcome")
    seen.ask(FIGURE_1)
    seen.shoot("phone-results")
    choose(page, "entities", "Amazon")
    page.wait_for_selector("#details canvas")
    assert page.locator("#details-title").bounding_box()["y"] < PHONE[1]  # scrolled into sight
    seen.shoot("phone-explanation")
    choose(page, "concepts", "AI researcher")
    page.wait_for_selector("#details .members")
    seen.shoot("phone-concept")
    seen.go(q=MISSPELLED)
    page.wait_for_selector("#error .pointer")
    line, caret = page.locator("#error .pointer").inner_text().splitlines()
    assert line[caret.index("^") :].startswith("Gogle")
    seen.shoot("phone-error")


def test_dark(visit: Open) -> None:
    page = (seen := visit(scheme="dark")).page
    seen.ask(FIGURE_1)
    brightness = page.evaluate("getComputedStyle(document.body).backgroundColor.match(/\\d+/g).map(Number)")
    assert max(brightness) < 60
    seen.shoot("dark-results")
    choose(page, "concepts", "AI researcher")
    page.wait_for_selector("#details .members")
    seen.shoot("dark-concept")
    seen.go(q=MISSPELLED)
    page.wait_for_selector("#error .pointer")
    seen.shoot("dark-error")
    page.set_viewport_size({"width": PHONE[0], "height": PHONE[1]})
    seen.shoot("dark-phone-error")


def test_predicted_answers_are_told_apart(visit: Open) -> None:
    page = (seen := visit()).page

    def predict(route: Any) -> None:
        content = route.fetch().json()
        for row, answer in enumerate([*content["entities"][4:], *content["concepts"][4:]]):
            answer.update(status="predicted", degree=0.91 - 0.04 * row)
        route.fulfill(json=content)

    page.route("**/api/answer", predict)
    seen.ask(FIGURE_1)
    assert seen.texts("#entities .badge") == ["known"] * 4 + ["predicted"] * 6
    assert seen.texts("#entities .measure")[4].split()[-1] == "0.91"
    seen.shoot("predicted")


def test_waiting_and_failing(visit: Open) -> None:
    page = (seen := visit()).page
    held: list[Any] = []

    def hold(route: Any) -> None:
        held.append(route)

    page.route("**/api/answer", hold)
    seen.go(q=FIGURE_1)
    page.wait_for_selector("#entities .skeleton")
    assert page.locator("#results").get_attribute("aria-busy") == "true"
    assert page.locator("#status").text_content() == "Looking for answers"
    seen.shoot("waiting")
    held[0].abort()
    page.wait_for_selector("#error .message")
    assert "The server does not answer" in page.locator("#error").inner_text()
    assert page.locator("#results").is_hidden()
    seen.shoot("no-server")
    page.unroute("**/api/answer")
    page.get_by_role("button", name="Try again").click()
    page.wait_for_selector("#entities .row")
    assert page.locator("#error").is_hidden()


def test_the_server_wants_a_key(visit: Open) -> None:
    page = (seen := visit()).page

    def guard(route: Any) -> None:
        if route.request.headers.get("x-api-key") == "open sesame":
            route.continue_()
        else:
            route.fulfill(status=401, content_type="application/problem+json", body=json.dumps({"detail": "no key"}))

    page.route("**/api/**", guard)
    seen.go(q=FIGURE_1)
    page.get_by_label("This server wants an API key").fill("open sesame")
    seen.shoot("key")
    page.keyboard.press("Enter")
    page.wait_for_selector("#entities .row")
    assert page.locator("#kb-title").inner_text() == "academia"


def test_sparql_is_answered_and_drawn(visit: Open) -> None:
    page = (seen := visit()).page
    seen.ask(f"PREFIX : <{NS}> SELECT ?x WHERE {{ :GeoffreyHinton :investigates ?x }}")
    page.wait_for_selector("#drawing svg")
    assert page.locator("#english").text_content() == "everything that Geoffrey Hinton investigates"
    page.locator("#entities .row").first.click()
    page.wait_for_selector("#details .sentence")


def test_a_hostile_drawing_stays_a_drawing(visit: Open) -> None:
    page = (seen := visit()).page
    svg = (
        '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 50 20" onload="window.hit = 1"><script>window.hit = 1'
        '</script><foreignObject><img xmlns="http://www.w3.org/1999/xhtml" src="x" onerror="window.hit = 1"/>'
        '</foreignObject><a href="javascript:window.hit = 1"><text>in a link</text></a>'
        '<text x="1" y="9" style="fill:red" onclick="window.hit = 1">kept</text></svg>'
    )
    page.route(
        "**/api/drawing**", lambda route: route.fulfill(json={"svg": svg, "english": "<b>x</b>", "canonical": ""})
    )
    seen.ask("Person")
    page.wait_for_selector("#drawing svg")
    kept = page.evaluate(
        "Array.from(document.querySelectorAll('#drawing *'), e => [e.localName, ...e.getAttributeNames()])"
    )
    assert kept == [["svg", "viewBox", "width", "height", "style"], ["text", "x", "y"]]
    assert page.locator("#english").text_content() == "<b>x</b>"
    assert page.evaluate("window.hit") is None
    assert all("has been blocked" in fault for fault in seen.faults)  # and the policy would have stopped the rest
    seen.faults.clear()
