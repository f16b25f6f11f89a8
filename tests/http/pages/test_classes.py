"""The section with the classes around a question."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from tarbox.service.answering import Answerer

if TYPE_CHECKING:
    from conftest import Visit

PHONE = (360, 780)
SECTION = "#classes summary"
CHEESY = "Pizza and (hasTopping some Cheese)"

Open = Callable[..., "Visit"]


def test_the_classes_around_an_expression_and_the_way_to_them(visit: Open, serve: Any, pizzas: Answerer) -> None:
    with serve(by=pizzas) as address:
        for size, scheme, name in (((1360, 900), "light", "classes"), (PHONE, "dark", "dark-phone-classes")):
            page = (seen := visit(size, scheme, f"{address}/")).page
            seen.ask(CHEESY)
            assert not seen.texts("#class-lists *"), "nothing is asked for before it is opened"
            page.click(SECTION)
            page.wait_for_selector("#class-lists dl")
            # Where all are direct ones, they are listed once.
            assert seen.texts("#class-lists dt") == ["1 equivalent class", "1 direct superclass", "1 direct subclass"]
            assert seen.texts("#class-lists dd") == ["CheesyPizza", "Pizza", "Margherita"]
            seen.shoot(name)
        page.get_by_role("button", name="Margherita").last.click()
        page.locator("#class-lists dt", has_text="no equivalent classes").wait_for()
        assert seen.parameters() == {"q": ["Margherita"]}
        assert seen.texts("#class-lists dt")[1:] == ["1 direct superclass", "2 superclasses", "no direct subclasses"]
        page.fill("#query", "Pizza and Topping")
        page.keyboard.press("Enter")
        page.get_by_text("Nothing can be in it").wait_for()
        assert seen.texts("#class-lists dt") == ["no equivalent classes"]


def test_without_axioms_the_section_says_so(visit: Open) -> None:
    page = (seen := visit()).page
    seen.ask("Person and (worksAt some University)")
    page.click(SECTION)
    page.get_by_text("without a reasoner for OWL").wait_for()
    assert seen.texts("#class-lists dd") == ["Person", "Agent", "Person"]


def test_what_fails_in_the_section_is_said_there(visit: Open) -> None:
    page = (seen := visit()).page
    seen.ask("Person")
    page.route("**/api/concept?*", lambda route: route.fulfill(status=503, json={"detail": "Reasoning took too long."}))
    page.click(SECTION)
    page.get_by_text("Reasoning took too long.").wait_for()
    page.unroute("**/api/concept?*")
    page.click(SECTION)
    page.click(SECTION)
    page.wait_for_selector("#class-lists dl")
