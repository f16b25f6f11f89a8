"""What the tests of the knowledge base share: a builder from a text, and the toy ontology."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tarbox.kb.build import BuildOptions, build
from tarbox.kb.interpretation import Interpretation
from tarbox.kb.presets import PRESETS
from tarbox.kb.sources import find_sources
from tarbox.kb.store import Store

PREFIXES = """@prefix : <http://example.org/> .
@prefix owl: <http://www.w3.org/2002/07/owl#> .
@prefix rdf: <http://www.w3.org/1999/02/22-rdf-syntax-ns#> .
@prefix rdfs: <http://www.w3.org/2000/01/rdf-schema#> .
@prefix skos: <http://www.w3.org/2004/02/skos/core#> .
@prefix oio: <http://www.geneontology.org/formats/oboInOwl#> .
"""
BuildTurtle = Callable[..., Store]


@pytest.fixture
def build_turtle(tmp_path: Path) -> BuildTurtle:
    """Builds a store from Turtle without its prefixes; keywords are those of `Interpretation`."""

    def make(text: str, **options: object) -> Store:
        file = tmp_path / "source.ttl"
        file.write_text(PREFIXES + text)
        sources, _ = find_sources([str(file)])
        return build(sources, tmp_path / "kb", BuildOptions(Interpretation(**options)))  # type: ignore[arg-type]

    return make


@pytest.fixture
def toy() -> Path:
    return Path(__file__).parent / "toy"


@pytest.fixture(scope="session")
def biomed(tmp_path_factory: pytest.TempPathFactory) -> Store:
    """The preset `biomed` from the real files, for all tests with the mark `biomed`."""
    preset = PRESETS["biomed"]
    return build(preset.sources(None), tmp_path_factory.mktemp("biomed") / "kb", BuildOptions(preset.interpretation))
