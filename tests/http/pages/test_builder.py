"""The question in words: built with the mouse, found by a few letters, in step with the text."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from tarbox.service.knowledge_base import KnowledgeBase

if TYPE_CHECKING:
    from conftest import Visit

PHONE = (360, 780)
HINTON = "uses some (inverse investigates value GeoffreyHinton)"
COMPANIES = "Company and (uses some (Technique and (inverse investigates value GeoffreyHinton)))"

Open = Callable[..., "Visit"]


class Mouse:
    """Clicks, and counts them."""

    def __init__(self, page: Any) -> None:
        self.page = page
        self.clicks = 0

    def open(self, place: str) -> None:
        """The chip at a place of the question: `:head` is what to find, `:more` what adds a condition."""
        self.page.locator(f'#builder [data-place="{place}"]').click()
        self.clicks += 1

    def choose(self, label: str) -> None:
        """An option of the menu that is open; the answers follow."""
        self.page.locator("#menu [role=option]", has=self.page.get_by_text(label, exact=True)).click()
        self.clicks += 1
        self.page.wait_for_selector("#builder:not(.stale)")
        self.page.wait_for_selector("#results:not([hidden]):not([aria-busy])")


def test_a_menu_says_what_keeps_it_empty(visit: Open) -> None:
    page = (seen := visit()).page
    seen.go()
    page.route("**/api/concepts**", lambda route: route.abort())
    Mouse(page).open(":head")
    page.wait_for_selector("#menu .none:has-text('The server does not answer')")
    page.unroute_all(behavior="wait")
    page.locator("#menu input").fill("hinton")
    page.wait_for_selector("#menu [role=option]:has-text('Geoffrey Hinton')")


def test_companies_that_use_what_hinton_investigates_in_eight_clicks(visit: Open, academia: KnowledgeBase) -> None:
    page = (seen := visit()).page
    seen.go()
    mouse = Mouse(page)
    mouse.open(":head")
    page.wait_for_selector("#menu [role=option]")
    seen.shoot("menu")
    mouse.choose("Company")
    mouse.open(":more")
    mouse.choose("uses …")  # what it leads to is asked for at once
    page.wait_for_selector("#menu .group:has-text('Values')")
    seen.shoot("menu-values")
    mouse.choose("Technique")
    mouse.open("0:more")
    mouse.choose("… investigates it")
    mouse.choose("Geoffrey Hinton")
    page.wait_for_function("text => document.getElementById('query').value === text", arg=COMPANIES)
    assert mouse.clicks <= 8
    page.wait_for_selector("#drawing canvas")
    assert seen.parameters() == {"q": [COMPANIES]}
    expected = academia.answer(COMPANIES).entities
    assert seen.texts("#entities .row .label") == [answer.label for answer in expected]
    assert seen.texts("#builder .chip:not(.more):not(.turn)") == [
        "Company",
        "uses",
        "Technique",
        "Geoffrey Hinton",
        "investigates",
    ]
    seen.shoot("built")


def test_hinton_typed_and_three_choices(visit: Open, academia: KnowledgeBase) -> None:
    page = (seen := visit()).page
    seen.go()
    page.keyboard.type("hinton")
    page.wait_for_selector("#completions >> text=what Geoffrey Hinton investigates")
    assert seen.texts("#completions .name")[0] == "Geoffrey Hinton"
    seen.shoot("hinton")
    page.get_by_text("what Geoffrey Hinton investigates").click()  # one
    page.wait_for_selector("#entities .row")
    mouse = Mouse(page)
    mouse.open("turn")
    mouse.choose("what uses them")  # two
    page.wait_for_selector("#menu .group:has-text('Kinds among the answers')")
    mouse.choose("Company")  # three
    page.wait_for_function("text => document.getElementById('query').value === text", arg=f"Company and ({HINTON})")
    page.wait_for_selector("#drawing canvas")
    expected = academia.answer(f"Company and ({HINTON})").entities
    page.wait_for_function("count => document.querySelectorAll('#entities .row').length === count", arg=len(expected))
    assert seen.texts("#entities .row .label") == [answer.label for answer in expected]


def test_the_words_follow_the_text_and_the_text_the_words(visit: Open) -> None:
    page = (seen := visit()).page
    seen.ask("Person and (worksAt value Google) and not (bornIn value Canada)")
    words = ["Person", "works at", "Google", "not", "born in", "Canada"]
    assert seen.texts("#builder .chip:not(.more):not(.turn)") == words
    page.locator("#query").fill("Person and ({Google, Meta} or (worksAt only University))")
    page.wait_for_selector("#builder:not(.stale)")
    page.wait_for_selector("#builder .chip.fixed")
    assert seen.texts("#builder .chip.fixed") == ["worksAt only University"]
    seen.ask("Person and (worksAt value Google) and not (bornIn value Canada)")
    page.locator("#builder .chip.not").click()
    said = "Person and (worksAt value Google) and (bornIn value Canada)"
    page.wait_for_function("text => document.getElementById('query').value === text", arg=said)
    page.locator("#builder .remove").first.click()
    said = "Person and (bornIn value Canada)"
    page.wait_for_function("text => document.getElementById('query').value === text", arg=said)
    page.go_back()
    page.wait_for_selector("#builder .chip:has-text('Google')")


def test_a_menu_by_keyboard_and_search(visit: Open) -> None:
    page = (seen := visit()).page
    seen.go()
    page.locator('#builder [data-place=":head"]').focus()
    page.keyboard.press("Enter")
    page.wait_for_selector("#menu [role=option]")
    page.keyboard.type("hinton")
    page.wait_for_selector("#menu >> text=what Geoffrey Hinton investigates")
    assert page.locator("#menu [aria-selected=true] .label").inner_text() == "Geoffrey Hinton"
    seen.shoot("menu-search")
    page.keyboard.press("Escape")
    assert page.locator("#menu").count() == 0
    assert page.evaluate("document.activeElement.dataset.place") == ":head"
    page.keyboard.press("Enter")
    page.wait_for_selector("#menu [role=option]")
    page.keyboard.type("compan")
    page.wait_for_selector("#menu [aria-selected=true] >> text=Company")
    page.keyboard.press("ArrowDown")
    page.keyboard.press("ArrowUp")
    page.keyboard.press("Enter")
    page.wait_for_selector("#entities .row")
    assert page.locator("#query").input_value() == "Company"


def test_a_name_that_is_no_question_offers_what_can_be_asked(visit: Open) -> None:
    page = (seen := visit()).page
    seen.go(q="hinton")
    page.wait_for_selector("#error .found")
    page.get_by_role("link", name="what Geoffrey Hinton investigates").click()
    page.wait_for_selector("#entities .row")
    assert seen.parameters() == {"q": ["inverse investigates value GeoffreyHinton"]}


def test_english_is_understood(visit: Open) -> None:
    page = (seen := visit()).page
    seen.go()
    page.keyboard.type("every Company that uses a Technique that Geoffrey Hinton investigates")
    page.wait_for_selector("#builder .chip:has-text('Technique')")
    page.keyboard.press("Escape")
    page.keyboard.press("Enter")
    page.wait_for_selector("#entities .row")
    assert seen.parameters() == {"q": [COMPANIES]}


def test_on_a_phone_everything_is_as_large_as_a_fingertip(visit: Open) -> None:
    page = (seen := visit(PHONE, "dark")).page
    seen.ask(COMPANIES)
    small = """() => Array.from(document.querySelectorAll('button, a, [role=option], summary, input'))
        .filter(each => each.checkVisibility() && !each.matches('.skip') && each.getBoundingClientRect().height < 43.5)
        .map(each => each.outerHTML.slice(0, 90))"""
    assert page.evaluate(small) == []
    page.locator('#builder [data-place=":more"]').click()
    page.wait_for_selector("#menu [role=option]")
    assert page.evaluate(small) == []
    seen.shoot("dark-phone-menu")
    for view in ("entity/GeoffreyHinton", "concept/Person", "relation/uses", "schema", "questions", "help", "api"):
        page.goto(f"{seen.address}#/{view}")
        page.wait_for_selector("#view:not([aria-busy]) h1")
        assert page.evaluate(small) == [], view
        seen.check_width()
