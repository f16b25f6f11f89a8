"""Pictures are written, show every bar, and refuse what they cannot do."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest

from tarbox.core.errors import BenchmarkError, ConfigError
from tarbox.evaluation.evaluator import Ranked
from tarbox.evaluation.metrics import measure
from tarbox.evaluation.plots import COLOURS, draw_degrees, draw_templates


def bars(svg: Path, colour: str) -> int:
    """The rectangles of a colour, less the one in the legend."""
    return len(re.findall(rf"fill: {colour.lower()}", svg.read_text()))


def test_one_bar_per_template_and_average(ranked: Ranked, tmp_path: Path) -> None:
    file = tmp_path / "bars.svg"
    draw_templates(measure(ranked, "counting", "honest"), file)
    entity, concept = 4, 2  # templates and the average
    assert bars(file, COLOURS[0]) == entity + concept


def test_a_picture_of_pixels(ranked: Ranked, tmp_path: Path) -> None:
    file = tmp_path / "bars.png"
    draw_templates(measure(ranked, "counting", "honest"), file)
    assert file.read_bytes().startswith(b"\x89PNG")


def test_degrees(tmp_path: Path) -> None:
    file = tmp_path / "kb.svg"
    draw_degrees({"entity degree": {0: 3, 1: 40, 200: 2}, "concept depth": {0: 1, 1: 4}, "nothing": {}}, file)
    assert bars(file, COLOURS[1]) == 2
    text = file.read_text()
    assert "<!-- entity degree -->" in text
    assert "<!-- nothing -->" not in text


def test_what_cannot_be_drawn_is_said(ranked: Ranked, tmp_path: Path) -> None:
    results = measure(ranked, "counting", "honest")
    with pytest.raises(ConfigError, match=r"must end in \.png, \.svg, \.pdf"):
        draw_templates(results, tmp_path / "bars.gif")
    with pytest.raises(ConfigError, match="cannot write"):
        draw_templates(results, tmp_path / "nowhere" / "bars.png")
    with pytest.raises(BenchmarkError, match="no results"):
        draw_templates(replace(results, levels={}), tmp_path / "bars.png")
    with pytest.raises(BenchmarkError, match="nothing to plot"):
        draw_degrees({"entity degree": {}}, tmp_path / "kb.png")
