"""Every figure of the documentation is found in a record, and every table is as its records say (ADR 51).

The rule: in README.md, CONTRIBUTING.md and docs/, a number with a decimal point is a measured figure, unless it is code
(`0.1`, as settings and thresholds are written) or a version. It is found, to the digits that are printed, in a record
that its section names by a table or a link; before the first section, in one that the page names.
"""

from __future__ import annotations

import importlib.util
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]


def load(path: str):
    spec = importlib.util.spec_from_file_location(Path(path).stem, ROOT / path)
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # dataclasses look their module up
    spec.loader.exec_module(module)
    return module


results, record = load("docs/tools/results.py"), load("benchmarks/record.py")
plots = load("docs/tools/plots.py")
RECORDS = results.read_records()
PAGES = results.read_pages()
CODE = re.compile(
    r"^```.*?^```|^> .*?$|`[^`]*`|\]\([^)]*\)|<!--.*?-->|<[^>\s]*>|^- \[[\w-]+\]\([^)]*\.json\):.*?$", re.M | re.S
)
VERSION = re.compile(
    r"\b(?:Python|SPARQL|GAF|BY|BY-SA|torch|Triton|Apache|Eq\.|RFC|reasonable)[ -]v?\d+(?:\.\d+)+(?: or \d+\.\d+)*"
)
FIGURE = re.compile(r"(?<![\w.,])(\d*)\.(\d+)(e[+-]?\d+)?(?!\w|\.\d)")


def sections(text: str) -> Iterator[tuple[str, str]]:
    """Parts of a page, each with what may name its records: itself, or for the opening the whole page."""
    opening, *parts = re.split(r"(?m)^(?=## )", text)
    yield opening, text
    yield from ((part, part) for part in parts)


def known(scope: str) -> tuple[set[float], str]:
    """The figures of the records that a text names, and its tables."""
    values = [
        value
        for name in results.records_of(scope, RECORDS)
        for row in RECORDS[name]["figures"]
        for value in row.values()
    ]
    numbers = {float(value) for value in values if isinstance(value, (int, float))}
    return numbers | {100 * value for value in numbers}, "".join(match[0] for match in results.BLOCK.finditer(scope))


def unfounded(text: str) -> list[str]:
    """Figures of a page that no record of theirs has."""
    found = []
    for part, scope in sections(text):
        numbers, tables = known(scope)
        prose = VERSION.sub("", CODE.sub("", results.BLOCK.sub("", part)))
        for whole, digits, power in FIGURE.findall(prose):
            figure = f"{whole or 0}.{digits}{power}"
            shown = {float(f"{value:.{len(digits)}{'e' if power else 'f'}}") for value in numbers}
            if float(figure) not in shown and f" {figure} " not in tables:
                found.append(figure)
    return found


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_figure_is_in_a_record(page: Path) -> None:
    assert unfounded(page.read_text(encoding="utf-8")) == []


def test_a_figure_without_a_record_is_found_out() -> None:
    page = "Credo has 25.7.\n\n## A\n25.7, `0.1`, Python 3.11\n\n## B\n[record](results/credo.json): 25.7, not 99.87\n"
    assert unfounded(page) == ["25.7", "99.87"]


@pytest.mark.parametrize("tool", ["results.py", "plots.py"])
def test_tables_and_plots_are_as_their_records_say(tool: str) -> None:
    program = [sys.executable, str(ROOT / "docs/tools" / tool), "--check"]
    done = subprocess.run(program, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


def test_a_plot_has_a_bar_for_each_figure_on_one_scale() -> None:
    drawn = plots.draw(
        ["| system | a | b |", "|---|---:|---:|", "| counting | 1.0 ± 0.1 |  |", "| credo | 2.0 | 4.0 |"]
    )
    bars = [float(width) for width in re.findall(r'<rect [^>]*width="([\d.]+)"', drawn)]
    assert [bar / bars[0] for bar in bars] == pytest.approx([1, 2, 4], rel=0.01)
    assert re.findall(r'">([^<]+)</text>', drawn) == ["counting", "credo", "a", "1.0", "2.0", "b", "4.0"]


def test_every_picture_is_drawn_from_records() -> None:
    texts = {page: page.read_text("utf-8") for page in PAGES}
    asked = {(page.parent / name).resolve() for page, text in texts.items() for _, name in plots.PLOT.findall(text)}
    image = re.compile(r"!\[[^\]]*\]\(([^)\s]+)\)")
    shown = {(page.parent / name).resolve() for page, text in texts.items() for name in image.findall(text)}
    files = {file.resolve() for kind in ("svg", "png") for file in (ROOT / "docs").rglob(f"*.{kind}")}
    assert asked == shown == files


@pytest.mark.parametrize("name", RECORDS)
def test_a_record_says_how_it_was_made(name: str) -> None:
    one = RECORDS[name]
    assert all(
        any(isinstance(value, (int, float)) or value == "diverged" for value in row.values()) for row in one["figures"]
    )
    if one["command"] is None:
        assert one["source"]
        return
    assert one["commit"]
    assert one["hardware"]
    programs = re.findall(r"benchmarks/\w+\.py", one["command"])
    assert all((ROOT / program).exists() or "history" in one["note"] for program in programs)
    assert programs or "tarbox" in one["command"]


def test_every_record_is_used() -> None:
    named = {name for page in PAGES for name in results.records_of(page.read_text(encoding="utf-8"), RECORDS)}
    assert sorted(set(RECORDS) - named) == []


def test_result_pages_are_short_and_answer_first() -> None:
    pages = [*(ROOT / "docs/results").glob("*.md"), ROOT / "docs/what-did-not-work.md"]
    for page in pages:
        title, empty, answer, *_ = lines = page.read_text(encoding="utf-8").splitlines()
        assert len(lines) <= 150, page
        assert title.endswith("?"), page
        assert not empty
        assert answer[0].isalpha(), f"{page} does not begin with its answer"


def test_a_run_becomes_rows(tmp_path: Path) -> None:
    wrote = [
        {
            "name": "codex-m",
            "seed": seed,
            "settings": {"rank": 64},
            "ranks": {"entity": {"1p": [0.5, 1.0], "2p": [0.25 + seed / 10]}},
            "reliability": {"1p entity": {"ece": 0.1, "bins": [[1, 2, 3]]}},
        }
        for seed in (0, 1)
    ]
    rows = list(record.rows_of(wrote, {"set": "codex-m", "system": "credo"}))
    assert rows[0] == {
        "name": "codex-m",
        "seed": 0,
        "set": "codex-m",
        "system": "credo",
        "level": "entity",
        "template": "1p",
        "mrr": 0.75,
    }
    assert rows[2]["ece"] == 0.1
    records = {"mine": {"figures": rows}, "bars": {"figures": []}}
    clauses = ["from mine", "rows system", "entity = mrr.1% level=entity", "2p = mrr.2 template=2p"]
    assert results.make_table(clauses, records)[2:] == ["| credo | 52.5 ± 3.5 | 0.30 ± 0.07 |"]


def test_evaluations_become_rows() -> None:
    wrote = {
        "model": "counting",
        "levels": {"entity": {"mrr": 0.1, "templates": {"2p": {"mrr": 0.1, "ci": [0.0, 0.2]}}}},
    }
    assert list(record.rows_of(wrote, {})) == [
        {"system": "counting", "level": "entity", "mrr": 0.1},
        {"system": "counting", "level": "entity", "template": "2p", "mrr": 0.1},
    ]


def test_what_leaves_no_data_is_no_record() -> None:
    program = [
        sys.executable,
        str(ROOT / "benchmarks/record.py"),
        "never-written",
        "--",
        sys.executable,
        "-c",
        "print('fast')",
    ]
    done = subprocess.run(program, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert "no JSON" in done.stderr
    assert not (ROOT / "docs/results/never-written.json").exists()
