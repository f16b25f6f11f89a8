"""A small ranked table: two levels, two templates and a query without one, easy and hard, missing links."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from tarbox.benchmark.tables import OUTSIDE, QueryTable
from tarbox.evaluation.evaluator import Ranked
from tarbox.kb.vocabulary import Vocabulary

GOLDEN = Path(__file__).parent / "golden"

ROWS = [
    # id, template, level, slots, targets, missing, ranks
    ("a", "1p", "entity", [1, 0], [1, 2], [1, 2], [1.0, 4.0]),
    ("b", "1p", "entity", [1, 1], [3], [1], [2.0]),
    ("c", "2p", "entity", [1, 1, 0], [OUTSIDE], [3], [np.inf]),
    ("d", None, "entity", [0, 3], [0], None, [1.5]),
    ("e", "1p", "concept", [1, 0], [0], None, [1.0]),
    ("f", "1p", "concept", [1, 2], [1], None, [5.0]),
]
SHAPES = {2: "?r1 value ?e1", 3: "?r1 some (?r2 value ?e1)"}


@pytest.fixture
def vocabulary() -> Vocabulary:
    return Vocabulary.of(["urn:a", "urn:b", "urn:c", "urn:d"], ["urn:C", "urn:D"], ["urn:p"])


@pytest.fixture
def ranked() -> Ranked:
    ids, templates, levels, slots, targets, missing, ranks = zip(*ROWS, strict=True)
    table = QueryTable.of(
        {
            "id": ids,
            "template": templates,
            "level": levels,
            "shape": [SHAPES[len(row)] for row in slots],
            "slots": slots,
            "target": targets,
            "known": [[] for _ in ids],
            "derivable": [False, False, False, None, True, False],
            "missing": missing,
            "outside": [['"1977"'] if row == [OUTSIDE] else None for row in targets],
        }
    )
    return Ranked(table, np.concatenate([np.array(row) for row in ranks]))


@pytest.fixture
def golden() -> Callable[[str, str], None]:
    """Compares a text with a file of tests/evaluation/golden; TARBOX_UPDATE_GOLDEN=1 writes the file instead."""

    def check(name: str, text: str) -> None:
        file = GOLDEN / name
        if os.environ.get("TARBOX_UPDATE_GOLDEN") == "1":
            file.write_text(text, encoding="utf-8")
        assert text == file.read_text(encoding="utf-8"), f"differs from {file}; TARBOX_UPDATE_GOLDEN=1 accepts it"

    return check
