"""The tables of the documentation, made from the records in docs/results/ (ADR 51).

    python docs/tools/results.py            writes them into the pages
    python docs/tools/results.py --check    fails where a page is not as it would be written

A record is a measurement: `command`, `commit`, `hardware`, `seeds` and `figures`, a list of rows; a row has labels
(texts) and figures (numbers; `mrr_sd` is the deviation of `mrr`). A page asks for a table by a comment:

    <!-- table: from a-record, another-*; where set=codex-m; rows system; entity MRR = mrr.1% level=entity -->

The table below it is written by this program: a line for each value of the label after `rows`, and a column
for each `HEADER = FIGURE[.DIGITS[%]] [LABEL=VALUE ...]`, where % stands for times 100; `*LABEL = ...` is a column for
each value of a label. Rows that differ in their seed are given as mean and deviation. `<!-- bars: PAGE -->` holds what
is asked for (bars.json) against what was measured; `<!-- records -->` lists the records that a page names, with their
commands.
"""

from __future__ import annotations

import fnmatch
import json
import os
import re
import shlex
import statistics
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias, final

ROOT = Path(__file__).parents[2]
RECORDS = ROOT / "docs" / "results"
BLOCK = re.compile(r"<!-- (table: [^>]*?|bars: [^>]*?|records) -->\n(?:(?:\||- \[).*\n)*")

Record: TypeAlias = Mapping[str, Any]
Labels: TypeAlias = Mapping[str, str]


def read_records(folder: Path = RECORDS) -> dict[str, Record]:
    return {file.stem: json.loads(file.read_text(encoding="utf-8")) for file in sorted(folder.glob("*.json"))}


def read_pages(root: Path = ROOT) -> list[Path]:
    """Every page of the documentation."""
    return [root / "README.md", root / "CONTRIBUTING.md", *sorted((root / "docs").rglob("*.md"))]


@final
@dataclass(frozen=True, slots=True)
class Column:
    header: str
    figure: str
    digits: int | None
    percent: bool
    where: Labels

    @classmethod
    def parse(cls, clause: str) -> Column:
        header, _, rest = clause.partition(" = ")
        figure, *labels = shlex.split(rest)
        name, digits, percent = re.fullmatch(r"(.+?)(?:\.(\d)(%)?)?", figure).groups()  # type: ignore[union-attr]
        return cls(header.strip(), name, None if digits is None else int(digits), bool(percent), parse_labels(labels))

    def cell(self, rows: Iterable[Mapping[str, Any]]) -> str:
        """The figure of these rows; of several, their mean and its deviation over seeds."""
        found = [row for row in rows if self.figure in row and matches(row, self.where)]
        if not found:
            return ""
        if len(found) == 1 and (self.digits is None or isinstance(found[0][self.figure], str)):
            return str(found[0][self.figure])
        finer = {"template", "part"} - self.where.keys()
        whole = [row for row in found if not finer & row.keys()] or found
        seeds: dict[Any, list[float]] = {}
        for row in whole:
            seeds.setdefault(row.get("seed"), []).append(float(row[self.figure]))
        means = [statistics.fmean(values) for values in seeds.values()]
        deviation = statistics.stdev(means) if len(means) > 1 else whole[0].get(f"{self.figure}_sd")
        return " ± ".join(self.show(value) for value in (statistics.fmean(means), deviation) if value is not None)

    def show(self, value: float) -> str:
        return f"{100 * value if self.percent else value:,.{self.digits or 0}f}"


def parse_labels(words: Iterable[str]) -> Labels:
    return dict(word.split("=", 1) for word in words)


def matches(row: Mapping[str, Any], where: Labels) -> bool:
    return all(str(row.get(key)) == value for key, value in where.items())


def make_table(clauses: Sequence[str], records: Mapping[str, Record]) -> list[str]:
    names, where, key = select(clauses, records), {}, ""
    columns: list[Column] = []
    rows = [row for name in names for row in records[name]["figures"]]
    for clause in clauses:
        word, _, rest = clause.partition(" ")
        if word == "where":
            where = dict(parse_labels(shlex.split(rest)))
        elif word == "rows":
            key = rest
        elif clause.startswith("*"):
            label, _, figure = clause[1:].partition(" = ")
            values = dict.fromkeys(str(row[label]) for row in rows if label in row and matches(row, where))
            columns += [Column.parse(f"{value} = {figure} {shlex.quote(f'{label}={value}')}") for value in values]
        elif word != "from":
            columns.append(Column.parse(clause))
    rows = [row for row in rows if key in row and matches(row, where)]
    if not rows:
        raise SystemExit(f"no record has a row for: {'; '.join(clauses)}")
    lines = [f"| {key} | {' | '.join(column.header for column in columns)} |", "|---|" + "---:|" * len(columns)]
    for value in dict.fromkeys(row[key] for row in rows):
        cells = [column.cell(row for row in rows if row[key] == value) for column in columns]
        if any(cells):
            lines.append(f"| {value} | {' | '.join(cells)} |")
    return lines


def make_bars(page: str, records: Mapping[str, Record]) -> list[str]:
    """What is asked for on a page beside what was measured: of `each` row, or the mean of all; and if it is met. What
    is aimed at beyond that has a column of its own."""
    bars = [bar for bar in records["bars"]["figures"] if bar["page"] == page]
    aims = any("aim" in bar for bar in bars)
    lines = [f"| asked for | wanted |{' aim |' * aims} measured | met |", f"|---|---:|{'---:|' * aims}---:|---|"]
    for bar in bars:
        column = Column.parse(f" = {bar['figure']} {bar['where']}")
        rows = [row for row in records[bar["record"]]["figures"] if column.figure in row and matches(row, column.where)]
        cells = [
            column.cell(group).partition(" ±")[0] for group in ([[row] for row in rows] if bar["each"] else [rows])
        ]
        cells.sort(key=lambda cell: float(cell.replace(",", "")))
        sign, limit, worst = ("≥", "at_least", cells[0]) if "at_least" in bar else ("≤", "at_most", cells[-1])
        short = float(worst.replace(",", "")) - float(column.show(bar[limit]).replace(",", ""))
        met = "yes" if short == 0 or (short > 0) == (sign == "≥") else "**no**"
        shown = " to ".join(dict.fromkeys((cells[0], cells[-1])))
        aim = f" {column.show(bar['aim']) if 'aim' in bar else ''} |" if aims else ""
        lines.append(f"| {bar['asked']} | {sign} {column.show(bar[limit])} |{aim} {shown} | {met} |")
    return lines


def select(clauses: Sequence[str], records: Mapping[str, Record]) -> list[str]:
    """The records after `from`, patterns resolved, in their order."""
    patterns = [text.strip() for clause in clauses if clause.startswith("from ") for text in clause[5:].split(",")]
    found = {pattern: fnmatch.filter(records, pattern) for pattern in patterns}
    if empty := [pattern for pattern, names in found.items() if not names]:
        raise SystemExit(f"no record {', '.join(empty)} in {RECORDS.relative_to(ROOT)}: run benchmarks/record.py")
    return list(dict.fromkeys(name for names in found.values() for name in names))


def split_clauses(comment: str) -> list[str]:
    return [" ".join(clause.split()) for clause in re.sub("^(table|plot): ", "", comment).split(";")]


def records_of(text: str, records: Mapping[str, Record]) -> list[str]:
    """The records that a text names: in its tables and in its links."""
    tables = [split_clauses(comment) for comment in re.findall(r"<!-- (table: .*?) -->", text)]
    pages = re.findall(r"<!-- bars: (.*?) -->", text)
    asked = [name for bar in records["bars"]["figures"] if bar["page"] in pages for name in ("bars", bar["record"])]
    linked = [name for name in re.findall(r"([\w-]+)\.json\b", text) if name in records]
    return list(dict.fromkeys([*(name for one in tables for name in select(one, records)), *asked, *linked]))


def describe(name: str, record: Record, folder: str) -> str:
    """A line of the list of records."""
    source = f"`{record['command']}`" if record.get("command") else record["source"]
    seeds = f"{len(record['seeds'])} seeds" if len(record["seeds"]) > 1 else ""
    commit = f"commit {record['commit']}" if record.get("commit") else ""
    facts = "; ".join(filter(None, (seeds, record["hardware"], commit, record.get("note"))))
    return f"- [{name}]({folder}{name}.json): {source}" + (f" ({facts})" if facts else "")


def write_page(text: str, folder: str, records: Mapping[str, Record]) -> str:
    """The page with its tables and its list of records anew; `folder` is where the records are, seen from it."""

    def fill(match: re.Match[str]) -> str:
        if match[1] == "records":
            named = records_of(re.sub(r"(?m)^- \[[\w-]+\]\([^)]*\.json\):.*$", "", text), records)
            lines = [describe(name, records[name], folder) for name in named]
        elif match[1].startswith("bars: "):
            lines = make_bars(match[1][6:], records)
        else:
            lines = make_table(split_clauses(match[1]), records)
        return "\n".join([f"<!-- {match[1]} -->", *lines, ""])

    return BLOCK.sub(fill, text)


def main() -> None:
    records, check, stale = read_records(), "--check" in sys.argv[1:], []
    for page in read_pages():
        text = page.read_text(encoding="utf-8")
        folder = os.path.relpath(RECORDS, page.parent) + "/"
        written = write_page(text, "" if folder == "./" else folder, records)
        if written != text:
            stale.append(str(page.relative_to(ROOT)))
            if not check:
                page.write_text(written, encoding="utf-8")
    if stale and check:
        raise SystemExit(f"not as their records say: {', '.join(stale)}. `make results` writes them")


if __name__ == "__main__":
    main()
