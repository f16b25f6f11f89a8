"""`tarbox ask`, `tarbox concept` and HTTP on a run: known answers and predictions as lists of their own."""

from __future__ import annotations

import asyncio
import csv
import io
import json
from collections.abc import Callable

import httpx
import pytest
import typer
from typer.testing import CliRunner, Result

from tarbox.cli.ask import ask
from tarbox.cli.concept import concept
from tarbox.http.app import create_app
from tarbox.models.counting import Counting
from tarbox.service.knowledge_base import KnowledgeBase
from tarbox.service.ordering import Order
from tarbox.service.reasoner import Reasoner

Run = Callable[..., Result]
Fetch = Callable[..., httpx.Response]
HELD_OUT = "the training split of a benchmark: 12 facts were held out"
NS = "https://tarbox.example/academia#"


@pytest.fixture
def asked(reasoner: Reasoner, monkeypatch: pytest.MonkeyPatch) -> Run:
    monkeypatch.setattr(Reasoner, "load", lambda *_, **__: reasoner)
    monkeypatch.setattr("tarbox.cli.ask._open_reasoner", lambda *_: reasoner)
    monkeypatch.setattr("tarbox.models.saved.is_run", lambda _: True)
    app = typer.Typer()
    app.command()(ask)
    app.command()(concept)
    return lambda name, *arguments: CliRunner().invoke(app, [name, "RUN", *arguments], env={"COLUMNS": "200"})


@pytest.fixture
def fetch(reasoner: Reasoner) -> Fetch:
    app = create_app(reasoner)

    async def get(path: str, **parameters: str) -> httpx.Response:
        async with httpx.AsyncClient(transport=httpx.ASGITransport(app=app), base_url="http://localhost") as client:
            return await client.get(path, params=parameters)

    return lambda path, **parameters: asyncio.run(get(path, **parameters))


def names(shown: str) -> list[str]:
    """What stands at the left of a screen, without its first line."""
    return [line.split("  ")[0] for line in shown.splitlines()[1:] if line.strip() and not line.startswith(" ")]


def test_both_lists_stand_under_their_numbers(asked: Run) -> None:
    shown = asked("ask", "interestedIn value Search").stdout
    assert "everything that is interested in Search" in shown
    listed = names(shown)
    assert listed == ["1 known entity", "entity", "MIT", "1 predicted", "Google"]
    assert "3 known concepts" in shown
    assert "none predicted" in shown  # of concepts: all are known
    assert "known entities" not in asked("ask", "Person", "--tsv").stdout


def test_the_less_likely_are_counted(asked: Run) -> None:
    shown = asked("ask", "uses value Search").stdout
    assert names(shown) == ["1 known entity", "entity", "Google", "none predicted (1 less likely)"]
    more = asked("ask", "uses value Search", "--min-degree", "0.02").stdout
    assert names(more) == ["1 known entity", "entity", "Google", "1 predicted", "Toronto"]


def test_k_of_each(asked: Run) -> None:
    shown = asked("ask", "not University", "-k", "1", "--min-degree", "0").stdout
    assert names(shown)[0] == "1 of 6 known entities"
    content = json.loads(asked("ask", "(worksAt value MIT) or Organisation", "-k", "1", "--json").stdout)
    assert [item["status"] for item in content["entities"]] == ["known", "predicted"]
    assert (content["known_count"], content["predicted_count"]) == (3, 2)
    assert content["counts"]["entities"] == 5
    assert content["counts"]["known"]["entities"] == 3


def test_json_and_tsv_have_both_lists(asked: Run) -> None:
    content = json.loads(asked("ask", "uses value Search", "--json").stdout)
    assert [item["label"] for item in content["entities"]] == ["Google"]
    assert (content["known_count"], content["predicted_count"]) == (1, 0)
    assert content["counts"]["less_likely"]["entities"] == 1
    rows = list(csv.DictReader(io.StringIO(asked("ask", "interestedIn value Search", "--tsv").stdout), delimiter="\t"))
    entities = [(row["label"], row["degree"], row["status"]) for row in rows if row["level"] == "entity"]
    assert entities == [("MIT", "1", "known"), ("Google", "0.5", "predicted")]


def test_sparql_on_the_command_line_shows_both_lists(asked: Run) -> None:
    query = f"SELECT ?x {{ ?x <{NS}interestedIn> <{NS}Search> }}"
    content = json.loads(asked("ask", query, "--sparql", "--json").stdout)
    assert [item["status"] for item in content["entities"]] == ["known", "predicted"]


def test_what_the_run_was_trained_on(kb: KnowledgeBase, reasoner: Reasoner, monkeypatch: pytest.MonkeyPatch) -> None:
    def shown(trained_on: str | None, *options: str) -> str:
        told = Reasoner(kb, reasoner._scorer, "small", trained_on)
        monkeypatch.setattr("tarbox.cli.ask._open_reasoner", lambda *_: told)
        app = typer.Typer()
        app.command()(ask)
        return CliRunner().invoke(app, ["RUN", "worksAt value MIT", *options], env={"COLUMNS": "200"}).stdout

    assert f"The model was trained on {HELD_OUT}." in shown(HELD_OUT).splitlines()
    assert "trained" not in shown("all facts") + shown(None)
    assert json.loads(shown(HELD_OUT, "--json"))["trained_on"] == HELD_OUT
    assert json.loads(shown("all facts", "--json"))["trained_on"] == "all facts"


def test_columns_have_no_names_above_nothing(asked: Run) -> None:
    lines = asked("ask", "inverse worksAt value MIT").stdout.splitlines()
    assert "0 known entities" in lines[1]
    assert not any("status" in line for line in lines)


def test_orders_and_reasons(asked: Run) -> None:
    shown = asked("ask", "worksAt value MIT", "--explain").stdout
    assert "Yann LeCun is predicted\n└── Yann LeCun works at MIT (predicted, 0.60)" in shown
    assert "Person is predicted" in shown
    content = json.loads(asked("ask", "worksAt value MIT", "--explain", "--json", "--order", "similarity").stdout)
    assert content["entities"][0]["degree"] == pytest.approx(0.6)
    assert all("predicted" in sentence or "may describe" in sentence for sentence in content["predictions"].values())
    wrong = asked("ask", "worksAt value MIT", "--order", "best")
    assert wrong.exit_code == 2
    assert "descriptive, probability, similarity" in " ".join(wrong.stderr.split())


@pytest.mark.parametrize("command", ["ask", "concept"])
def test_a_least_degree_that_is_none(asked: Run, command: str) -> None:
    for wrong in ("1.5", "-0.1", "nan", "much"):
        result = asked(command, "Person", "--min-degree", wrong)
        assert result.exit_code == 2
        assert "--min-degree" in result.stderr


def test_members_of_a_concept(asked: Run) -> None:
    content = json.loads(asked("concept", "University", "-k", "1", "--json").stdout)
    found = [(item["label"], item["status"]) for item in content["members"]]
    assert found == [("MIT", "known"), ("Google", "predicted")]
    content = json.loads(asked("concept", "University", "--min-degree", "0.3", "--json").stdout)
    assert [item["label"] for item in content["members"]] == ["MIT", "Toronto"]


def test_answers_over_http(fetch: Fetch, reasoner: Reasoner) -> None:
    for order in Order:
        listed = fetch("/api/answer", query="not University", order=order.value, k="1000").json()["concepts"]
        wanted = reasoner.answer("not University", 1000, order=order).concepts
        assert [item["iri"] for item in listed] == [answer.iri for answer in wanted]
    assert fetch("/api/answer", query="Person", order="best").status_code == 400
    found = fetch("/api/answer", query="uses value Search").json()
    assert [item["label"] for item in found["entities"]] == ["Google"]
    assert (found["known_count"], found["predicted_count"], found["entity_count"]) == (1, 0, 1)
    assert found["counts"]["less_likely"]["entities"] == 1
    more = fetch("/api/answer", query="uses value Search", min_degree="0.05").json()
    assert [(item["label"], item["status"]) for item in more["entities"]] == [
        ("Google", "known"),
        ("Toronto", "predicted"),
    ]
    assert (more["predicted_count"], more["counts"]["less_likely"]["entities"]) == (1, 0)
    wrong = fetch("/api/answer", query="Person", min_degree="2")
    assert wrong.status_code == 400
    assert wrong.json()["detail"] == "min_degree: Input should be less than or equal to 1"
    told = fetch("/api/explain", query="worksAt value MIT", answer="YannLeCun").json()
    assert told["edges"][0]["degree"] == pytest.approx(0.6)
    assert told["edges"][0]["status"] == "predicted"


def test_sparql_over_http_gives_facts_unless_predictions_are_asked_for(fetch: Fetch) -> None:
    query = f"SELECT ?x {{ ?x <{NS}interestedIn> <{NS}Search> }}"

    def rows(reply: httpx.Response) -> list[tuple[str, str]]:
        bindings = reply.json()["results"]["bindings"]
        return [(row["x"]["value"].removeprefix(NS), row.get("status", {}).get("value", "")) for row in bindings]

    for more in ({}, {"predicted": "false"}):
        facts = fetch("/sparql", query=query, **more)
        assert rows(facts) == [("MIT", "")]
        assert facts.json()["head"]["vars"] == ["x"]
    both = fetch("/sparql", query=query, predicted="true")
    assert rows(both) == [("MIT", "known"), ("Google", "predicted")]
    assert both.headers["x-total-count"] == "2"
    likely = fetch("/sparql", query=query, predicted="true", **{"min-degree": "0.6"})
    assert rows(likely) == [("MIT", "known")]
    wrong = fetch("/sparql", query=query, predicted="perhaps")
    assert wrong.status_code == 400
    assert "predicted" in wrong.json()["detail"]


def test_the_server_says_what_the_run_was_trained_on(kb: KnowledgeBase) -> None:
    async def get() -> httpx.Response:
        told = Reasoner(kb, Counting.from_facts(kb.facts), "counting", HELD_OUT)
        transport = httpx.ASGITransport(app=create_app(told))
        async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as client:
            return await client.get("/api/kb")

    assert asyncio.run(get()).json()["trained_on"] == HELD_OUT
