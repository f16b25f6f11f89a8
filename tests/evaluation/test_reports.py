"""Tables in every form, against files."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest

from tarbox.evaluation.evaluator import Ranked
from tarbox.evaluation.metrics import Results, measure
from tarbox.evaluation.reports import (
    ReportTable,
    ranks_text,
    tabulate,
    to_json,
    to_latex,
    to_markdown,
    to_rich,
    to_terminal,
)
from tarbox.kb.vocabulary import Vocabulary

Golden = Callable[[str, str], None]


@pytest.fixture
def results(ranked: Ranked) -> Results:
    return measure(ranked, "counting", "honest")


def test_terminal(results: Results, golden: Golden) -> None:
    golden("terminal.txt", to_terminal(tabulate(results), width=100))


def test_markdown(results: Results, golden: Golden) -> None:
    golden("tables.md", to_markdown(tabulate(results)))


def test_latex(results: Results, golden: Golden) -> None:
    golden("tables.tex", to_latex(tabulate(results)))


def test_json(results: Results, golden: Golden) -> None:
    golden("results.json", json.dumps(to_json(results), indent=1) + "\n")


def test_json_keeps_the_contract(results: Results) -> None:
    found = json.loads(json.dumps(to_json(results)))
    assert {"model", "protocol", "levels"} <= set(found)
    assert set(found["levels"]) == {"entity", "concept"}
    for level in found["levels"].values():
        assert {"mrr", "hits@1", "hits@3", "hits@10", "templates"} <= set(level)
        for template in level["templates"].values():
            assert {"mrr", "hits@1", "hits@3", "hits@10", "n", "ci"} <= set(template)
            assert 0 <= template["ci"][0] <= template["mrr"] <= template["ci"][1] <= 1


def test_special_characters_are_escaped() -> None:
    table = ReportTable("50% of a_b", ("model", "x|y"), (("m&m", "1"),))
    assert r"\caption{50\% of a\_b}" in to_latex([table])
    assert r"m\&m & 1 \\" in to_latex([table])
    assert r"| model | x\|y |" in to_markdown([table])


def test_a_markup_like_name_is_shown_as_it_is() -> None:
    assert "[bold]x" in to_terminal([ReportTable("t", ("model", "n"), (("[bold]x", "1"),))], width=60)
    assert to_rich(ReportTable("t", ("a",), (("b",),))).row_count == 1


def test_every_rank_as_a_table(ranked: Ranked, vocabulary: Vocabulary, golden: Golden) -> None:
    golden("ranks.tsv", ranks_text(ranked, vocabulary, lines_of_json=False))


def test_every_rank_as_json_lines(ranked: Ranked, vocabulary: Vocabulary) -> None:
    records = [json.loads(line) for line in ranks_text(ranked, vocabulary, lines_of_json=True).splitlines()]
    assert len(records) == len(ranked.ranks)
    assert records[0] == {"id": "a", "template": "1p", "level": "entity", "target": "<urn:b>", "rank": 1.0}
    assert records[3] == {"id": "c", "template": "2p", "level": "entity", "target": '"1977"', "rank": None}
    assert records[-1]["target"] == "<urn:D>"
