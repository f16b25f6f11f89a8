"""The section with new facts, which a run's page has."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from tarbox.models.counting import Counting
from tarbox.service.knowledge_base import KnowledgeBase
from tarbox.service.reasoner import Reasoner

if TYPE_CHECKING:
    from conftest import Visit

Open = Callable[..., "Visit"]


def test_new_facts_of_a_relation(visit: Open, serve: Any, academia: KnowledgeBase) -> None:
    with serve(by=Reasoner(academia, Counting.from_facts(academia.facts), "counting")) as address:
        for size, scheme, name in (((1360, 900), "light", "candidates"), ((360, 780), "dark", "dark-phone-candidates")):
            page = (seen := visit(size, scheme, f"{address}/")).page
            seen.go()
            page.click("#candidates summary")
            page.select_option("#candidates select", label="works at")
            page.fill("#candidates input", "Researcher")
            page.click("#candidates form button")
            page.wait_for_selector(".candidates > li:nth-child(10)")
            assert "works at" in seen.texts(".candidates > li > span")[0]
            seen.shoot(name)
        page.get_by_role("button", name="Show more").click()
        page.wait_for_selector(".candidates > li:nth-child(20)")
        page.fill("#candidates input", "Reseacher")
        page.click("#candidates form button")
        page.get_by_text("Did you mean 'Researcher'").wait_for()


def test_a_store_has_no_such_section(visit: Open) -> None:
    page = (seen := visit()).page
    seen.go()
    page.wait_for_selector("#examples .card")
    assert not page.is_visible("#candidates")
