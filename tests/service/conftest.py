"""A small academia as a knowledge base."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tarbox.core.ids import Role
from tarbox.kb.facts import Facts
from tarbox.kb.vocabulary import SYNONYMS, Names, Vocabulary
from tarbox.service.knowledge_base import KnowledgeBase
from tarbox.service.reasoner import Reasoner

sys.path.insert(0, str(Path(__file__).parent))
from predicting import SmallPredictor

NS = "https://tarbox.example/academia#"
ENTITIES = ["Canada", "GeoffreyHinton", "Google", "MIT", "NeuralNetworks", "Search", "Toronto", "YannLeCun"]
CONCEPTS = ["Agent", "Organisation", "Person", "Technique", "University"]
RELATIONS = ["interestedIn", "investigates", "locatedIn", "uses", "worksAt"]
ASSERTIONS = """
    GeoffreyHinton investigates NeuralNetworks
    GeoffreyHinton worksAt Toronto
    Google uses NeuralNetworks
    Google uses Search
    Toronto locatedIn Canada
    YannLeCun interestedIn NeuralNetworks
    MIT interestedIn NeuralNetworks
    MIT interestedIn Search
"""
TYPINGS = """
    GeoffreyHinton Person
    YannLeCun Person
    Google Organisation
    MIT University
    Toronto University
    NeuralNetworks Technique
    Search Technique
"""
SUBSUMPTIONS = "Person Agent\nOrganisation Agent\nUniversity Organisation"


@pytest.fixture(scope="session")
def facts() -> Facts:
    vocabulary = Vocabulary(
        Names.of(
            Role.ENTITY, [NS + e for e in ENTITIES], ["Yann LeCun" if e == "YannLeCun" else None for e in ENTITIES]
        ),
        Names.of(Role.CONCEPT, [NS + c for c in CONCEPTS]),
        Names.of(Role.RELATION, [NS + r for r in RELATIONS]),
        SYNONYMS.empty_table(),
    )
    assertions = [(ENTITIES.index(h), RELATIONS.index(r), ENTITIES.index(t)) for h, r, t in _rows(ASSERTIONS)]
    typings = [(ENTITIES.index(e), CONCEPTS.index(c)) for e, c in _rows(TYPINGS)]
    subsumptions = [(CONCEPTS.index(a), CONCEPTS.index(b)) for a, b in _rows(SUBSUMPTIONS)]
    return Facts.of(vocabulary, assertions, typings, subsumptions)


def _rows(text: str) -> list[list[str]]:
    return [line.split() for line in text.splitlines() if line.strip()]


@pytest.fixture
def kb(facts: Facts) -> KnowledgeBase:
    return KnowledgeBase(facts, "academia")


@pytest.fixture
def predictor(facts: Facts) -> SmallPredictor:
    return SmallPredictor(facts)


@pytest.fixture
def reasoner(kb: KnowledgeBase, predictor: SmallPredictor) -> Reasoner:
    return Reasoner(kb, predictor, "small")
