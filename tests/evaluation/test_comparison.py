"""Tables, JSON and pictures of a comparison, from fixed figures; and what the paper prints."""

from __future__ import annotations

import json
import re
import statistics
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from tarbox.benchmark.tables import QueryTable
from tarbox.core.errors import BenchmarkError, ConfigError
from tarbox.core.ids import Level
from tarbox.evaluation.comparison import (
    Comparison,
    Outcome,
    Selection,
    Statistic,
    TableRow,
    best_rows,
    common_templates,
)
from tarbox.evaluation.comparison_plots import draw_comparison
from tarbox.evaluation.comparison_tables import (
    comparison_latex,
    comparison_markdown,
    comparison_terminal,
    notes_of,
    tabulate_comparison,
)
from tarbox.evaluation.evaluator import Ranked
from tarbox.evaluation.metrics import LevelResults, MetricSummary, Results, Scoreboard, measure
from tarbox.evaluation.published import choose_published, matches, read_published
from tarbox.evaluation.reports import from_json, to_json
from tarbox.kb.vocabulary import Vocabulary

Golden = Callable[[str, str], None]


def results(model: str, figures: Mapping[str, float]) -> Results:
    """The same figures at both levels; Hits are twice the MRR."""
    found = {
        name: MetricSummary({"mrr": mrr, "hits@1": mrr / 2, "hits@3": 2 * mrr, "hits@10": 3 * mrr}, 10, (mrr, mrr))
        for name, mrr in figures.items()
    }
    board = Scoreboard(next(iter(found.values())), found)
    return Results(model, "paper", {level: LevelResults(board, {}) for level in Level})


def row(key: str, *runs: Mapping[str, float], ablation_of: str | None = None, failure: str | None = None) -> TableRow:
    outcomes = [Outcome(seed, results(key, figures)) for seed, figures in enumerate(runs)]
    if failure is not None:
        outcomes.append(Outcome(len(outcomes), None, failure))
    return TableRow.of((key, key, key.partition("-")[0]), outcomes, ablation_of)


@pytest.fixture
def comparison() -> Comparison:
    figures = {"1p": 0.2, "2i": 0.1, "2in": 0.3}
    counting = TableRow.of(("counting", "counting", "counting"), [Outcome(None, results("counting", figures))])
    return Comparison(
        (
            counting,
            row("gqe", {"1p": 0.1, "2i": 0.3}, {"1p": 0.2, "2i": 0.3}),
            row("tar", {"1p": 0.25, "2i": 0.2, "2in": 0.1}, {"1p": 0.35, "2i": 0.24, "2in": 0.1}),
            row("tar-no-sub", {"1p": 0.2, "2i": 0.2, "2in": 0.1}, ablation_of="tar"),
            row("q2b", failure="the loss is not a number"),
            *read_published()["yago4"].rows()[-1:],
        ),
        {"benchmark": "b", "protocol": "paper", "split": "test"},
        ("A note.",),
    )


def test_markdown(comparison: Comparison, golden: Golden) -> None:
    golden("comparison.md", comparison_markdown(comparison, "b: test"))


def test_latex(comparison: Comparison, golden: Golden) -> None:
    golden("comparison.tex", comparison_latex(comparison, "b: test"))


def test_latex_is_well_formed(comparison: Comparison) -> None:
    text = comparison_latex(comparison, "50% & more")
    code = "\n".join(line for line in text.splitlines() if not line.startswith("%"))
    assert text.splitlines()[0].startswith("%")
    assert code.count("{") == code.count("}")
    assert code.isascii()
    for table in re.findall(r"\\begin\{tabular\}\{(l?r+)\}(.*?)\\bottomrule", code, re.S):
        rows = [line for line in table[1].splitlines() if line.endswith(r"\\")]
        assert {line.count("&") for line in rows} == {len(table[0]) - 1}


def test_terminal_shows_everything_at_any_width(comparison: Comparison) -> None:
    for width in (40, 60, 200):
        shown = comparison_terminal(comparison, width)
        assert max(len(line) for line in shown.splitlines()) <= width
        assert "…" not in shown
        assert "±7.1" in shown


def test_bold_goes_by_the_mean_and_published_rows_do_not_compete(comparison: Comparison) -> None:
    table = tabulate_comparison(comparison)[0]
    assert table.header == ("model", "1p", "2i", "2in", "avg", "common")
    names = [line[0] for line in table.rows]
    assert names == ["counting", "gqe", "tar", "q2b (failed)", "TAR (published)"]
    assert table.bold == {(2, 1), (1, 2), (0, 3), (2, 5)}  # no average is bold: gqe has no 2in
    assert table.rules == {4}
    assert table.rows[3][1:] == ("-",) * 5
    assert table.rows[1] == ("gqe", "15.0 ± 7.1", "30.0 ± 0.0", "-", "22.5 ± 3.5", "22.5 ± 3.5")
    assert table.rows[2][4:] == ("20.7 ± 3.3", "26.0 ± 4.9")


def test_where_all_have_the_same_templates_there_is_one_average() -> None:
    table = tabulate_comparison(Comparison((row("a", {"1p": 0.1}), row("b", {"1p": 0.1}))))[0]
    assert table.header == ("model", "1p", "avg")
    assert table.bold == {(0, 1), (1, 1), (0, 2), (1, 2)}  # equal figures are bold together


def test_ablations_stand_apart(comparison: Comparison) -> None:
    titles = [table.title for table in tabulate_comparison(comparison)]
    assert len(titles) == 8
    assert titles[4] == "Ablations of tar: TBox answers (concepts), MRR"
    assert [line[0] for line in tabulate_comparison(comparison)[4].rows] == ["tar-no-sub (1 run)", "tar (2 runs)"]


def test_notes_say_what_failed_and_what_cannot_be_compared(comparison: Comparison) -> None:
    notes = " ".join(notes_of(comparison))
    assert "q2b, seed 0: failed. the loss is not a number" in notes
    assert "'avg' cannot be compared and nothing in it is bold" in notes
    assert "1p 2i." in notes


def test_json_holds_everything(comparison: Comparison) -> None:
    found = json.loads(json.dumps(comparison.json()))
    assert found["common_templates"] == {"concept": ["1p", "2i"], "entity": ["1p", "2i"]}
    gqe = next(entry for entry in found["models"] if entry["key"] == "gqe")
    assert gqe["levels"]["entity"]["templates"]["1p"]["mrr"]["mean"] == pytest.approx(0.15)
    assert gqe["levels"]["entity"]["templates"]["1p"]["mrr"]["deviation"] == pytest.approx(statistics.stdev([0.1, 0.2]))
    assert gqe["runs"][1]["levels"]["entity"]["templates"]["1p"]["ci"] == [0.2, 0.2]
    failed = next(entry for entry in found["models"] if entry["key"] == "q2b")
    assert failed["runs"][0]["failure"] == "the loss is not a number"
    assert [entry["key"] for entry in found["published"]["rows"]] == ["published-tar"]


def test_the_deviation_is_the_samples() -> None:
    assert Statistic.of([0.5]) == Statistic(0.5, None, 1)
    assert best_rows([Statistic.of([0.5]), None], [True, True]) == frozenset()


def test_a_template_answered_in_part_is_not_had() -> None:
    runs = [Outcome(0, results("a", {"1p": 0.2, "other": 0.3}))]  # of 10 queries each
    found = TableRow.of(("a", "a", "a"), runs, asked={"entity": {"1p": 10, "other": 12}})
    assert found.templates(Level.ENTITY) == ["1p"]


def test_a_row_without_figures_takes_no_template_from_the_others() -> None:
    rows = (row("a", {"1p": 0.1}), row("b", failure="no"))
    assert common_templates(rows, Level.ENTITY) == ["1p"]


@pytest.fixture
def table(ranked: Ranked) -> QueryTable:
    return ranked.table


def test_selection(table: QueryTable) -> None:
    assert len(Selection("test").of(table)) == len(table)
    assert Selection("test", ("1p",), 1).of(table).texts("id") == ["a", "e"]
    with pytest.raises(BenchmarkError, match=r"no test queries of template '9p'; there are 1p, 2p, other"):
        Selection("test", ("9p",)).of(table)


def test_results_survive_json(ranked: Ranked) -> None:
    found = measure(ranked, "counting", "honest")
    assert from_json(json.loads(json.dumps(to_json(found)))) == found


def test_picture(comparison: Comparison, tmp_path: Path) -> None:
    draw_comparison(comparison, tmp_path / "bars.svg")
    text = (tmp_path / "bars.svg").read_text()
    assert "<!-- tar-no-sub -->" in text
    assert "published" not in text  # other data: in the tables alone
    with pytest.raises(BenchmarkError, match="no results"):
        draw_comparison(Comparison(()), tmp_path / "bars.png")


# One printed average is not the mean of its row in the paper itself.
MISPRINT = ("dbpedia", "entity", "hits@3", "q2b")


def test_printed_averages_are_the_means_of_their_rows() -> None:
    checked = 0
    for dataset, published in read_published().items():
        for level in published.levels():
            for metric, rows in published.table[level.value].items():
                for key, printed in rows.items():
                    assert len(printed) == 10
                    if (dataset, level.value, metric, key) != MISPRINT:
                        assert statistics.fmean(printed[:-1]) == pytest.approx(printed[-1], abs=0.051)
                        checked += 1
    assert checked == 48


def test_published_rows() -> None:
    rows = read_published()["dbpedia"].rows()
    assert [row.key.removeprefix("published-") for row in rows] == [
        "gqe", "q2b", "beta", "fuzzqe", "tar", "tar-no-sub", "tar-no-ins",
    ]  # fmt: skip
    assert rows[4].average(Level.CONCEPT, "hits@3", ["up"]) == Statistic(67.3 / 100, None, 1)
    assert rows[5].ablation_of == "tar"


class Bench:
    """As much of a benchmark as the rule looks at."""

    def __init__(self, protocol: str, *entities: str) -> None:
        self.protocol = protocol
        self.store = type("Store", (), {"facts": type("F", (), {"vocabulary": Vocabulary.of(entities)})})


YAGO = [f"http://yago-knowledge.org/resource/{name}" for name in "abc"]


@pytest.mark.parametrize(
    ("protocol", "entities", "found"),
    [
        ("imported", YAGO, "yago4"),
        ("paper", [*YAGO, "urn:x", '"1977"', '"1978"', '"1979"', '"1980"'], "yago4"),  # literals have no namespace
        ("imported", ["http://wikidata.dbpedia.org/resource/Q1", "http://dbpedia.org/resource/B", "urn:x"], "dbpedia"),
        ("honest", YAGO, None),
        ("imported", [YAGO[0], "urn:x"], None),
    ],
)
def test_a_benchmark_is_matched_by_protocol_and_namespace(
    protocol: str, entities: list[str], found: str | None
) -> None:
    chosen = choose_published("auto", Bench(protocol, *entities))  # type: ignore[arg-type]
    assert (chosen.dataset if chosen else None) == found


def test_a_dataset_may_be_named(comparison: Comparison) -> None:
    bench = Bench("honest", "urn:x")
    named = choose_published("dbpedia", bench)  # type: ignore[arg-type]
    assert named is not None
    assert not matches(named, Vocabulary.of(["urn:x"]))
    assert "other data (28,824 entities (here 1)" in named.note(Vocabulary.of(["urn:x"]))
    assert choose_published("none", Bench("paper", *YAGO)) is None  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match="nothing is published about 'fb15k'; choose yago4, dbpedia"):
        choose_published("fb15k", bench)  # type: ignore[arg-type]
