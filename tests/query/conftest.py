"""A small academia with labels, synonyms and traps, and a checker of golden files."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest

from tarbox.core.ids import Role
from tarbox.execution.binding import VocabularyResolver
from tarbox.kb.vocabulary import SYNONYMS, Names, Vocabulary

GOLDEN = Path(__file__).parent / "golden"
NS = "https://tarbox.example/academia#"
YEAR = '"1977"^^<http://www.w3.org/2001/XMLSchema#gYear>'
FIVE = '"5"^^<http://www.w3.org/2001/XMLSchema#integer>'


@pytest.fixture
def golden() -> Callable[[str, str], None]:
    """Compares a text with a file of tests/query/golden; TARBOX_UPDATE_GOLDEN=1 writes the file instead."""

    def check(name: str, text: str) -> None:
        file = GOLDEN / name
        if os.environ.get("TARBOX_UPDATE_GOLDEN") == "1":
            file.write_text(text, encoding="utf-8")
        assert text == file.read_text(encoding="utf-8"), f"differs from {file}; TARBOX_UPDATE_GOLDEN=1 accepts it"

    return check


@pytest.fixture
def vocabulary() -> Vocabulary:
    entities = {
        "GeoffreyHinton": "Geoffrey Hinton",
        "Google": None,
        "Canada": None,
        "London": "London",
        "London_Ontario": "London",
        "MAX": "MAX",
        "Rock%20%27n%27%20Roll": "Rock 'n' Roll",
        "GO_0008150": "biological process",
    }
    terms = {NS + name: label for name, label in entities.items()} | {YEAR: None, FIVE: None}
    concepts = {"Person": "Person", "University": "University", "Google": "Googler", "Value": None}
    relations = ("worksAt", "bornIn", "locatedIn", "investigates", "uses", "interestedIn", "age")
    named = Names.of(Role.ENTITY, list(terms), list(terms.values()))
    hinton = named.find(NS + "GeoffreyHinton")
    synonyms = pa.table({"role": ["entity"], "id": [hinton], "text": ["Geoff Hinton"]}, schema=SYNONYMS)
    return Vocabulary(
        named,
        Names.of(Role.CONCEPT, [NS + name for name in concepts], list(concepts.values())),
        Names.of(Role.RELATION, [NS + name for name in relations]),
        synonyms,
    )


@pytest.fixture
def resolver(vocabulary: Vocabulary) -> VocabularyResolver:
    return VocabularyResolver(vocabulary, "academia")
