"""The web page as a whole: addresses, screens, waiting, failing, keys, hostile content."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from tarbox.service.knowledge_base import KnowledgeBase

if TYPE_CHECKING:
    from conftest import Visit

NS = "https://tarbox.example/academia#"
PHONE = (360, 780)
MISSPELLED = "Person and worksAt value Gogle and not (bornIn value Canada)"

Open = Callable[..., "Visit"]


def test_an_address_is_shared_and_reloaded(visit: Open) -> None:
    page = (seen := visit()).page
    seen.ask()
    seen.choose("concepts", "The academia")
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
        assert other.locator("#query").input_value() == seen.figure_1
        assert other.locator("#details-title").inner_text() == "The academia"
        assert [text.split("\n")[0] for text in other.locator("#entities .row").all_inner_texts()] == [
            text.split("\n")[0] for text in lists[:15]
        ]


def test_back_and_forward_walk_through_questions(visit: Open) -> None:
    page = (seen := visit()).page
    seen.go()
    first = page.locator("#examples .card").first
    query = first.locator("code").inner_text()
    first.click()
    page.wait_for_selector("#entities .row")
    assert page.locator("#query").input_value() == query
    page.locator("#query").fill("Person and City")
    page.get_by_role("button", name="Answer", exact=True).click()
    page.wait_for_selector("#entities .none")
    assert seen.texts(".answers .none") == ["No entity answers this.", "No concept describes the answers."]
    page.wait_for_selector("#empty .card")
    page.go_back()
    page.wait_for_selector("#entities .row")
    assert page.locator("#query").input_value() == query
    page.go_back()
    page.wait_for_selector("#results", state="hidden")
    assert page.locator("#query").input_value() == ""
    page.go_forward()
    page.wait_for_selector("#entities .row")


def test_phone(visit: Open) -> None:
    page = (seen := visit(PHONE)).page
    seen.go()
    page.wait_for_selector("#examples .card")
    seen.shoot("phone-welcome")
    seen.ask()
    seen.shoot("phone-results")
    seen.choose("entities", "Amazon")
    page.wait_for_selector("#details canvas")
    assert page.locator("#details-title").bounding_box()["y"] < PHONE[1]  # scrolled into sight
    seen.shoot("phone-explanation")
    seen.choose("concepts", "AI researcher")
    page.wait_for_selector("#details .members")
    seen.shoot("phone-concept")
    seen.go(q=MISSPELLED)
    page.wait_for_selector("#error .pointer")
    line, caret = page.locator("#error .pointer").inner_text().splitlines()
    assert line[caret.index("^") :].startswith("Gogle")
    seen.shoot("phone-error")


def test_dark(visit: Open) -> None:
    page = (seen := visit(scheme="dark")).page
    seen.ask()
    brightness = page.evaluate("getComputedStyle(document.body).backgroundColor.match(/\\d+/g).map(Number)")
    assert max(brightness) < 60
    seen.shoot("dark-results")
    seen.choose("concepts", "AI researcher")
    page.wait_for_selector("#details .members")
    seen.shoot("dark-concept")
    seen.go(q=MISSPELLED)
    page.wait_for_selector("#error .pointer")
    seen.shoot("dark-error")
    page.set_viewport_size({"width": PHONE[0], "height": PHONE[1]})
    seen.shoot("dark-phone-error")


def test_waiting_and_failing(visit: Open) -> None:
    page = (seen := visit()).page
    held: list[Any] = []

    def hold(route: Any) -> None:
        held.append(route)

    page.route("**/api/answer", hold)
    seen.go(q=seen.figure_1)
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
    seen.go(q=seen.figure_1)
    page.get_by_label("This server wants an API key").fill("open sesame")
    seen.shoot("key")
    page.keyboard.press("Enter")
    page.wait_for_selector("#entities .row")
    assert page.locator("#kb-title").inner_text() == "academia"


def test_hostile_names_stay_text(visit: Open) -> None:
    page = (seen := visit()).page
    bad = "<img src=x onerror='window.hit = 1'>"
    tree = {"kind": "concept", "iri": "<urn:x>", "label": bad}
    said = {"svg": "", "english": bad, "canonical": "Person", "tree": tree}
    page.route("**/api/drawing**", lambda route: route.fulfill(json=said))
    seen.ask("Person")
    assert seen.texts("#builder .chip")[0] == page.locator("#english").text_content() == bad
    assert page.locator("#asking img").count() == 0
    assert page.evaluate("window.hit") is None


def test_a_long_word_widens_no_page(visit: Open) -> None:
    page = (seen := visit(PHONE)).page

    def lengthen(route: Any) -> None:
        reply = route.fetch()
        route.fulfill(response=reply, body=reply.text().replace("AI researcher", "Pneumonoultramicroscopic" * 4))

    page.route("**/api/**", lengthen)
    seen.go(q="Person", concept=f"<{NS}AIResearcher>")
    page.wait_for_selector("#details .members")
    seen.shoot("phone-long-words")
    ask = page.url
    things = {"relation": "worksAt", "concept": "AIResearcher", "entity": "Google"}
    for view in ["schema", "questions", *(f"{role}/{quote(NS + name, safe='')}" for role, name in things.items())]:
        page.goto(f"{ask}#/{view}")
        page.wait_for_selector("#view[aria-busy]", state="detached")
        assert page.locator("#view h1").count() == 1
        seen.check_width()
    page.unroute_all(behavior="wait")


def test_the_footer_says_which_facts_are_served(visit: Open, academia: KnowledgeBase) -> None:
    from playwright.sync_api import expect

    seen = visit()
    seen.go()
    seen.page.wait_for_selector("#examples .card")
    footer, when = seen.page.locator("#facts"), academia.built.replace("T", " ").replace("Z", " UTC")
    assert footer.inner_text() == f"Facts of {when} · version {academia.version[:12]}"
    seen.page.route("**/api/**", _of_other_facts)  # of all requests: a later reply says what is served, too
    seen.ask()
    expect(footer).to_have_text("Facts of 2030-01-02 03:04:05 UTC · version 0123456789ab")
    seen.shoot("facts")


def _of_other_facts(route: Any) -> None:
    """A reply as after a reload: of another version."""
    reply = route.fetch()
    named = {"x-facts-version": "0123456789abcdef", "x-facts-built": "2030-01-02T03:04:05Z"}
    route.fulfill(response=reply, headers={**reply.headers, **named})
