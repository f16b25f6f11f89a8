"""What graphs of up to a billion facts would cost, from constants that records hold: every row is an extrapolation.

    python benchmarks/cost.py                     # reads docs/results/*.json, writes $OUT/cost.json

The graphs have five facts for each entity, and as many links in both directions. Seconds are counts over measured
rates, as if these stayed what they are; memory is counted. docs/scale.md says what the formulas are and where each one
ends.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

RECORDS: Final = Path(__file__).parents[1] / "docs" / "results"
FACTS: Final = {"10 million": 10**7, "100 million": 10**8, "1 billion": 10**9}
EACH: Final = 5
"""Facts for each entity."""
RANK: Final = 64
PASSES: Final = 15 * 1.34
"""Epochs of credo's recipe: all of them once, and the last 34% again with all facts."""


def figures(name: str) -> list[Mapping[str, Any]]:
    file = RECORDS / f"{name}.json"
    found: list[Mapping[str, Any]] = json.loads(file.read_text(encoding="utf-8"))["figures"] if file.exists() else []
    return found


def best(name: str, figure: str, **labels: str) -> float | None:
    """The greatest of a figure among the rows with these labels."""
    found = [row[figure] for row in figures(name) if figure in row and labels.items() <= row.items()]
    return float(max(found)) if found else None


def minutes(count: float, rate: float | None) -> dict[str, float]:
    return {} if rate is None else {"minutes": count / rate / 60}


def rows_of(size: str, facts: int) -> list[dict[str, Any]]:
    links, nodes = 2 * facts, facts / EACH
    table = nodes * 8 * RANK / 1e9
    cores, gpu = best("processes", "links_per_second", processes="2"), best("scale-gpu", "links_per_second")
    steps = [
        ("building", "two cores", minutes(facts, best("ingest", "lines_per_second", building="tarbox kb build"))),
        ("link predictor", "two cores, two processes", minutes(PASSES * links, cores)),
        ("link predictor", "one H200", minutes(PASSES * links, gpu)),
    ]
    memory = [
        ("table of nodes", {"gb": table}),
        ("link predictor, in one process", {"gb": 8 * table + 20 * links / 1e9}),
        ("a follower of 8 processes", {"gb": 2 * table / 8 + (12 + 20 / 8) * links / 1e9}),
    ]
    timed = [{"size": size, "step": step, "on": on, **found} for step, on, found in steps if found]
    return [*timed, *({"size": size, "held": held, **found} for held, found in memory)]


def main() -> None:
    rows = [row for size, facts in FACTS.items() for row in rows_of(size, facts)]
    for row in rows:
        print("  ".join(f"{value:,.1f}" if isinstance(value, float) else f"{value:32}" for value in row.values()))
    if "OUT" in os.environ:
        (Path(os.environ["OUT"]) / "cost.json").write_text(json.dumps(rows, indent=1) + "\n")


if __name__ == "__main__":
    main()
