"""Pages of names, the schema, the questions of this browser, files and programs, the API's description."""

from __future__ import annotations

import csv
import io
import json
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import pytest

from tarbox.service.knowledge_base import KnowledgeBase

if TYPE_CHECKING:
    from conftest import Visit

PHONE = (360, 780)
NS = "https://tarbox.example/academia#"
CANADIANS = "Person and (worksAt some (University and (locatedIn value Canada))) and not (bornIn value Canada)"

Open = Callable[..., "Visit"]


def view_of(role: str, name: str) -> str:
    return f"#/{role}/{quote(NS + name, safe='')}"


def open_view(seen: Visit, address: str) -> None:
    seen.page.goto(seen.address + address)
    seen.page.wait_for_selector("#view h1")


def test_an_entity_has_a_page_of_links(visit: Open, academia: KnowledgeBase) -> None:
    page = (seen := visit()).page
    open_view(seen, view_of("entity", "GeoffreyHinton"))
    assert page.locator("#view h1").inner_text() == "Geoffrey Hinton"
    assert page.locator("#asking").is_hidden()
    group = page.locator(".fact-group", has=page.get_by_role("link", name="investigates", exact=True)).first
    total = len(academia.answer("inverse investigates value GeoffreyHinton").entities)
    assert group.locator("h3 .count").inner_text() == str(total)
    group.get_by_role("button").click()
    page.wait_for_function(
        "([group, total]) => group.querySelectorAll('li').length === total", arg=[group.element_handle(), total]
    )
    page.wait_for_selector(".network canvas")
    seen.shoot("entity")
    group.get_by_role("link", name="ask").click()
    page.wait_for_selector("#entities .row")
    assert seen.parameters() == {"q": ["inverse investigates value GeoffreyHinton"]}
    assert page.locator("#view").is_hidden()
    page.go_back()
    page.wait_for_selector("#view h1:has-text('Geoffrey Hinton')")


def test_the_graph_grows_where_one_clicks(visit: Open) -> None:
    page = (seen := visit()).page
    open_view(seen, view_of("entity", "GeoffreyHinton"))
    page.wait_for_selector(".network[data-nodes]")
    before = int(page.locator(".network").get_attribute("data-nodes"))
    click_node(page, "Yann LeCun")
    page.wait_for_function("before => Number(document.querySelector('.network').dataset.nodes) > before", arg=before)
    seen.shoot("entity-grown")
    click_node(page, "Yann LeCun")
    page.wait_for_selector("#view h1:has-text('Yann LeCun')")


def click_node(page: Any, label: str) -> None:
    x, y = page.evaluate(
        """label => {
            const frame = document.querySelector('.network'), box = frame.getBoundingClientRect();
            const at = frame._cyreg.cy.nodes().filter(node => node.data('label') === label)[0].renderedPosition();
            return [box.left + at.x, box.top + at.y];
        }""",
        label,
    )
    page.mouse.click(x, y)


def test_concepts_and_relations_have_pages(visit: Open, academia: KnowledgeBase) -> None:
    page = (seen := visit(scheme="dark")).page
    open_view(seen, view_of("concept", "AIResearcher"))
    assert str(len(academia.members(f"{NS}AIResearcher"))) in page.locator(".card-facts").first.inner_text()
    seen.shoot("dark-concept-page")
    page.get_by_role("link", name="investigates").click()
    page.wait_for_selector("#view h1:has-text('investigates')")
    assert "Technique" in seen.texts(".card-facts a")
    assert page.locator(".fact-lines li").count() == 20
    seen.shoot("dark-relation-page")
    page.get_by_role("link", name="What investigates something").click()
    page.wait_for_selector("#entities .row")
    assert seen.parameters() == {"q": ["investigates some owl:Thing"]}


def test_the_schema_opens_level_by_level(visit: Open) -> None:
    for size, scheme, name in (((1280, 800), "light", "schema"), (PHONE, "dark", "dark-phone-schema")):
        page = (seen := visit(size, scheme)).page
        seen.go()
        page.get_by_role("link", name="Schema").click()
        page.wait_for_selector(".branch")
        page.get_by_label("Below Agent").click()
        page.wait_for_selector(".branch .branch >> text=Person")
        cells = page.locator("tbody tr", has=page.get_by_role("link", name="uses", exact=True)).inner_text()
        assert "Company" in cells
        assert "Technique" in cells
        seen.shoot(name)
    page.get_by_role("link", name="Person", exact=True).first.click()
    page.wait_for_selector("#view h1:has-text('Person')")


def test_names_in_answers_and_explanations_are_links(visit: Open) -> None:
    page = (seen := visit()).page
    seen.ask()
    seen.choose("entities", "Amazon")
    page.wait_for_selector("#details .sentence")
    page.locator("#details-title a").click()
    page.wait_for_selector("#view h1:has-text('Amazon')")
    page.get_by_role("link", name="Ask", exact=True).click()
    assert page.locator("#details-title").inner_text() == "Amazon"
    page.locator("#concepts .label").first.click()
    page.wait_for_selector("#view h1")
    assert "/concept/" in page.url


def test_questions_are_remembered_and_saved(visit: Open) -> None:
    page = (seen := visit()).page
    seen.ask(CANADIANS)
    seen.ask("Company")
    page.locator("#save").click()
    page.get_by_role("link", name="Questions").click()
    page.wait_for_selector("#view .cards")
    assert seen.texts("#view code") == ["Company", "Company", CANADIANS]
    seen.shoot("questions")
    page.get_by_role("button", name="Forget these").click()
    page.wait_for_selector("#view >> text=None yet.")
    assert seen.texts("#view code") == ["Company"]
    page.reload()
    page.wait_for_selector("#view .cards")
    page.locator("#view .card").click()
    page.wait_for_selector("#save[aria-pressed=true]")


def export(page: Any, name: str) -> None:
    page.locator("#export").click()
    page.locator("#menu [role=option]", has=page.get_by_text(name, exact=True)).click()


def test_answers_are_saved_as_files(visit: Open, academia: KnowledgeBase) -> None:
    rdflib = pytest.importorskip("rdflib")
    page = (seen := visit()).page
    seen.ask()
    expected = academia.answer(seen.figure_1)
    read = {}
    for name in ("CSV", "JSON", "Turtle"):
        with page.expect_download() as download:
            export(page, name)
        read[name] = Path(download.value.path()).read_text(encoding="utf-8")
    rows = list(csv.DictReader(io.StringIO(read["CSV"])))
    assert [row["iri"] for row in rows if row["level"] == "entity"] == [each.iri for each in expected.entities]
    assert [row["label"] for row in rows if row["level"] == "concept"] == [each.label for each in expected.concepts]
    assert len(json.loads(read["JSON"])["entities"]) == len(expected.entities)
    graph = rdflib.Graph().parse(data=read["Turtle"], format="turtle")
    known = graph.subjects(rdflib.RDF.type, rdflib.URIRef("urn:tarbox:answer:KnownEntity"))
    assert {f"<{each}>" for each in known} == {each.iri for each in expected.entities}


def test_a_question_as_curl_and_as_python(visit: Open, store: Path, academia: KnowledgeBase) -> None:
    page = (seen := visit()).page
    seen.ask(CANADIANS)
    export(page, "as curl")
    command = page.locator("dialog pre").inner_text()
    seen.shoot("curl")
    replied = subprocess.run(command, shell=True, check=True, capture_output=True, timeout=60).stdout
    known = [each.label for each in academia.answer(CANADIANS).entities]
    assert [each["label"] for each in json.loads(replied)["entities"]] == known
    page.get_by_role("button", name="Close").last.click()
    export(page, "as Python")
    program = page.locator("dialog pre").inner_text()
    printed: list[str] = []
    exec(program.replace('"KB"', repr(str(store))), {"print": lambda label, *_: printed.append(label)})
    assert printed == known


def test_help_and_the_api_are_a_click_away(visit: Open) -> None:
    for size, scheme, start in (((1280, 800), "light", ""), (PHONE, "dark", "dark-phone-")):
        page = (seen := visit(size, scheme)).page
        seen.go()
        page.get_by_role("link", name="Help").click()
        page.wait_for_selector("#view h2 >> text=With the mouse")
        seen.shoot(f"{start}help")
        page.get_by_role("link", name="API", exact=True).click()
        page.wait_for_selector(".operation")
        operation = page.locator(".operation", has=page.get_by_text("/api/answer", exact=True)).first
        operation.locator("summary").click()
        assert "min_degree" in operation.inner_text()
        seen.shoot(f"{start}api")


def test_the_window_is_called_by_what_it_shows(visit: Open) -> None:
    page = (seen := visit()).page
    called = "name => document.title.startsWith(name)"
    seen.ask("Person")
    page.wait_for_function(called, arg="Person")
    page.get_by_role("link", name="Help").click()
    page.wait_for_function(called, arg="Help")
    page.get_by_role("link", name="Ask", exact=True).click()
    page.wait_for_function(called, arg="Person")
    page.go_back()
    page.wait_for_function(called, arg="Help")
    page.go_back()
    page.wait_for_function(called, arg="Person")
    page.goto(f"{seen.address}?q=Person#/help")
    page.wait_for_selector("#entities .row", state="attached")
    page.wait_for_function(called, arg="Help")


def test_an_unknown_page_says_so(visit: Open) -> None:
    page = (seen := visit()).page
    page.goto(f"{seen.address}{view_of('entity', 'Nobody')}")
    page.wait_for_selector("#view .none >> text=Nobody")
    page.goto(f"{seen.address}#/nowhere")
    page.wait_for_selector("#view .none >> text=There is no such page.")
