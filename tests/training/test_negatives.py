"""Negatives are never true, and corrupt what Algorithm 1 says."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from tarbox.benchmark.folder import open_benchmark
from tarbox.core.errors import ConfigError
from tarbox.core.ids import Level
from tarbox.execution.exact import answer_rows
from tarbox.execution.graph import Index
from tarbox.kb.closure import Instances
from tarbox.models.base import Task
from tarbox.models.learning.batches import BatchConfig, QuerySource, SampleSource
from tarbox.models.learning.negatives import NegativesConfig, Sampler, Truths, corrupt_answers
from tarbox.models.learning.sources import build_sources
from tarbox.query.templates import TEMPLATES

CPU = torch.device("cpu")


@pytest.fixture(scope="module")
def index(bench: Path) -> Index:
    return Index.of(open_benchmark(bench).store.facts)


def sources_of(bench: Path, config: BatchConfig) -> dict[str, SampleSource]:
    benchmark = open_benchmark(bench)
    found = build_sources(benchmark.store.facts, benchmark.table("train"), config, Task, CPU)
    return {source.name: source for source in found}


@pytest.fixture(scope="module")
def sources(bench: Path) -> dict[str, SampleSource]:
    return sources_of(bench, BatchConfig())


def sampler(count: int = 4, rounds: int = 3) -> Sampler:
    return Sampler(NegativesConfig(count, rounds), torch.Generator().manual_seed(5))


def test_answers_of_queries_are_true_and_their_negatives_are_not(
    sources: dict[str, SampleSource], index: Index
) -> None:
    seen = 0
    for source in sources.values():
        if not isinstance(source, QuerySource):
            continue
        draw = source.draw(torch.arange(len(source)), sampler())
        level = Level.ENTITY if source.task is Task.ENTITY else Level.CONCEPT
        shape = source._shape
        entities, concepts, _ = answer_rows(shape, draw.first.numpy().astype(np.int32), index)
        answers = {Level.ENTITY: entities, Level.CONCEPT: concepts}[level]
        for row in range(len(draw.first)):
            true = set(answers[row].tolist())
            assert int(draw.second[row, 0]) in true
            negatives = draw.second[row, 1:][draw.valid_BM[row]].tolist()
            assert not true & set(negatives)
            seen += len(negatives)
    assert seen > 10_000


def test_what_describes_an_answer_is_learnt(bench: Path) -> None:
    """Where relations annotate, the concepts of one-hop answers are their descriptions."""
    facts = replace(open_benchmark(bench).store.facts, annotations=(0, 1))
    index = Index.of(facts)
    assert len(index.descriptions.concepts_of.columns) > len(index.instances.concepts_of.columns)
    found = build_sources(facts, None, BatchConfig(), [Task.CONCEPT], CPU)
    (source,) = (source for source in found if isinstance(source, QuerySource))
    draw = source.draw(torch.arange(len(source)), sampler())
    _, concepts, _ = answer_rows(source._shape, draw.first.numpy().astype(np.int32), index)
    places = {tuple(query): row for row, query in enumerate(draw.first.tolist())}
    assert len(source) == sum(len(concepts[row]) for row in places.values())
    for row in range(len(draw.first)):
        assert int(draw.second[row, 0]) in concepts[row]
        assert not set(concepts[row].tolist()) & set(draw.second[row, 1:][draw.valid_BM[row]].tolist())


def test_false_subsumptions_replace_either_side(sources: dict[str, SampleSource], index: Index) -> None:
    source = sources["subsumption"]
    draw = source.draw(torch.arange(len(source)).repeat(20), sampler())
    ancestors = index.instances.hierarchy.ancestors
    subs, supers = draw.first.numpy(), draw.second.numpy()
    for row, column in zip(*np.nonzero(draw.valid_BM.numpy()), strict=True):
        assert supers[row, column + 1] not in ancestors[subs[row, column + 1]]
        assert (subs[row, column + 1] == subs[row, 0]) or (supers[row, column + 1] == supers[row, 0])
    kept_sub = (subs[:, 1:] == subs[:, :1]).mean()
    assert 0.4 < kept_sub < 0.6


def test_false_typings_are_half_concepts_and_half_entities(sources: dict[str, SampleSource], index: Index) -> None:
    source = sources["instantiation"]
    draw = source.draw(torch.arange(len(source)), sampler(count=6))
    entities, concepts = draw.first.numpy(), draw.second.numpy()
    assert (entities[:, 1:4] == entities[:, :1]).all()
    assert (concepts[:, 4:] == concepts[:, :1]).all()
    for row, column in zip(*np.nonzero(draw.valid_BM.numpy()), strict=True):
        assert concepts[row, column + 1] not in index.instances.concepts_of[entities[row, column + 1]]
    for row in range(len(entities)):
        assert concepts[row, 0] in index.instances.concepts_of[entities[row, 0]]


def test_what_is_true_of_everything_has_no_valid_negative() -> None:
    truths = Truths.of_keys(np.arange(7), 7, CPU)
    drawn = corrupt_answers(sampler(), truths, torch.zeros(3, dtype=torch.int64))
    assert not drawn.valid_BM.any()


def test_without_a_truth_everything_is_valid() -> None:
    truths = Truths.of_keys(np.empty(0, np.int64), 7, CPU)
    assert corrupt_answers(sampler(), truths, torch.zeros(3, dtype=torch.int64)).valid_BM.all()


def test_one_hop_queries_come_from_all_assertions(bench: Path) -> None:
    facts = open_benchmark(bench).store.facts
    one_hop = f"entity: {TEMPLATES['1p'].text}"
    both = sources_of(bench, BatchConfig())
    tails = sources_of(bench, BatchConfig(directions="tails"))
    assert len(both[one_hop]) == 2 * len(facts.heads)
    assert len(tails[one_hop]) == len(facts.heads)
    typings = Instances.of(facts).concepts_of
    pairs = {
        (head, relation, concept)
        for head, relation, tail in zip(
            facts.heads.tolist(), facts.relations.tolist(), facts.tails.tolist(), strict=True
        )
        for concept in typings[tail].tolist()
    }
    assert len(tails[f"concept: {TEMPLATES['1p'].text}"]) == len(pairs)


def test_a_one_hop_query_may_be_one_sample_that_draws_its_answers(bench: Path, index: Index) -> None:
    facts = open_benchmark(bench).store.facts
    config = BatchConfig(one_hop_samples="queries", directions="tails")
    source = sources_of(bench, config)[f"entity: {TEMPLATES['1p'].text}"]
    asked = set(zip(facts.relations.tolist(), facts.heads.tolist(), strict=True))
    assert len(source) == len(asked) < len(facts.heads)
    drawer, rows = sampler(), torch.arange(len(source))
    draws = [source.draw(rows, drawer) for _ in range(64)]
    found = {(row, int(draw.second[row, 0])) for draw in draws for row in range(len(source))}
    answers, _, _ = answer_rows(TEMPLATES["1p"].shape, draws[0].first.numpy().astype(np.int32), index)
    true = {(row, answer) for row in range(len(source)) for answer in answers[row].tolist()}
    assert found <= true
    few = {pair for pair in true if len(answers[pair[0]]) <= 3}
    assert few <= found  # 64 draws miss one of three with a chance of 1e-11 each


def test_the_number_of_negatives_is_checked() -> None:
    with pytest.raises(ConfigError, match="at least 1"):
        NegativesConfig(count=0)
