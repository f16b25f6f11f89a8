"""The web page's box: completion, errors and their caret, and everything else by keyboard."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from conftest import Visit

MISSPELLED = "Person and worksAt value Gogle and not (bornIn value Canada)"

Open = Callable[..., "Visit"]


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
    seen.ask()
    focus = "document.activeElement.closest('.row').querySelector('.label').innerText"
    page.locator("#query").focus()
    stops = []
    for _ in range(8):
        page.keyboard.press("Tab")
        stops.append(page.evaluate("document.activeElement.id || document.activeElement.className"))
        outline = page.evaluate("getComputedStyle(document.activeElement).outlineStyle")
        assert outline == "solid", f"no visible focus on {stops[-1]}"
    assert stops[:4] == ["submit", "save", "share", "export"]
    rows = seen.texts("#entities .row .label")
    page.locator("#entities .why").first.focus()
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
    page.wait_for_selector("#entities .row >> nth=15")
    assert seen.texts("#entities .row .label")[:15] == rows
    assert page.evaluate(focus) == seen.texts("#entities .row .label")[15]


def test_sparql_is_told_from_names_at_once(visit: Open) -> None:
    page = (seen := visit()).page
    seen.go()
    questions = [
        "SELECT ?x { ?x a <urn:C> }",
        "select*{}",
        "# one\n  # two # three\nPREFIX : <urn:> SELECT DISTINCT ?x {}",
        "BASE <urn:> ASK {}",
        "describe <urn:C>",
    ]
    others = ["Base and Person", "select", "Ask or (Describe and Prefix)", "# no comment here", "# " * 22]
    found = page.evaluate(
        "async texts => { const { isSparql } = await import('/api.js'); return texts.map(isSparql); }",
        questions + others,
    )
    assert found == [True] * len(questions) + [False] * len(others)
