"""What there is to learn from: the sources of samples that a knowledge base and a table of training queries give.

One-hop queries are made from the assertions (the training queries that a benchmark samples are then left out): each
assertion at entity level; at concept level each distinct query with each concept of an answer, under closure. Queries
that the model has no meaning for are left out (ADR 0016). Typings are pairs of an entity and a concept or, where the
model asks them, two kinds of query: `{e}` for its concepts and `C` for its members (ADR 0015).
"""

# ruff: noqa: N803 (shape suffixes)

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from tarbox.benchmark.tables import OUTSIDE, Batch, Lists, QueryTable
from tarbox.core.ids import Level
from tarbox.kb.arrays import Ids, Keys
from tarbox.kb.closure import Instances
from tarbox.kb.facts import Facts
from tarbox.kb.rows import Rows
from tarbox.models.base import Model, Task
from tarbox.models.learning.batches import TASKS, BatchConfig, Kind, PairSource, QuerySource, SampleRows, SampleSource
from tarbox.models.learning.negatives import Truths, corrupt_subsumptions, corrupt_typings, distinct
from tarbox.models.one_more_hop import MEMBERS_SHAPE as MEMBERS
from tarbox.models.one_more_hop import TYPES_SHAPE as TYPES
from tarbox.query.templates import TEMPLATES

ONE_HOP: Final = TEMPLATES["1p"].shape


def build_sources(
    facts: Facts,
    table: QueryTable | None,
    config: BatchConfig,
    tasks: Iterable[Task],
    device: torch.device,
    model: Model | None = None,
) -> list[SampleSource]:
    """Everything there is to learn from, for the given tasks and, where one is given, the model."""
    wanted = frozenset(tasks)
    instances = Instances.of(facts)
    described = instances.describe(facts)
    widths = {Level.ENTITY: len(facts.vocabulary.entities), Level.CONCEPT: len(facts.vocabulary.concepts)}
    levels = [level for level in Level if TASKS[level] in wanted and widths[level]]
    sources: list[SampleSource] = [_one_hop(facts, described, level, config, device) for level in levels]
    for batch in table.batches() if table is not None else ():
        known = model is None or model.supports(batch.shape)
        if known and batch.level in levels and batch.shape != ONE_HOP:
            sources.append(_of_batch(batch, widths[batch.level], config, device))
    if Task.SUBSUMPTION in wanted and len(facts.subs):
        sources.append(subsumption_pairs(facts, instances, device))
    if Task.INSTANTIATION in wanted and len(facts.typed):
        asked = model is not None and model.asks_typings
        sources += (
            _asked_typings(instances, described, config, device)
            if asked
            else [typing_pairs(instances, len(facts.vocabulary.entities), device)]
        )
    return sources


def one_hop_pairs(facts: Facts, described: Instances, level: Level, directions: str) -> tuple[Keys, Keys]:
    """(queries [G] as `directed relation * E + anchor`, sorted pairs as `query number * candidates + answer`)."""
    entities = max(len(facts.vocabulary.entities), 1)
    heads, tails, relations = (column.astype(np.int64) for column in (facts.heads, facts.tails, facts.relations))
    asked, answers = [(2 * relations + 1) * entities + heads], [tails]
    if directions == "both":
        asked, answers = [*asked, 2 * relations * entities + tails], [*answers, heads]
    queries, numbers = np.unique(np.concatenate(asked), return_inverse=True)
    answer = np.concatenate(answers)
    if level is Level.CONCEPT:
        origin, concepts = described.concepts_of.gather(answer.astype(np.int32))
        return queries, distinct(numbers[origin] * len(described.hierarchy) + concepts)
    return queries, distinct(numbers * entities + answer)


def _one_hop(
    facts: Facts, described: Instances, level: Level, config: BatchConfig, device: torch.device
) -> QuerySource:
    queries, pairs = one_hop_pairs(facts, described, level, config.directions)
    width = {Level.ENTITY: len(facts.vocabulary.entities), Level.CONCEPT: len(facts.vocabulary.concepts)}[level]
    slots = np.stack(np.divmod(queries, max(len(facts.vocabulary.entities), 1)), axis=1)
    return _of_pairs(Kind(level, ONE_HOP), slots, (pairs, width), config, device, config.one_hop_samples)


def _of_batch(batch: Batch, width: int, config: BatchConfig, device: torch.device) -> QuerySource:
    """The queries of a table that have an answer."""
    truths = distinct(np.concatenate([_keys(lists, width) for lists in (batch.targets, batch.known)]))
    return _of_pairs(Kind(batch.level, batch.shape), batch.ids, (truths, width), config, device, "queries")


def _of_pairs(
    kind: Kind, slots_GS: Ids | Keys, answers: tuple[Keys, int], config: BatchConfig, device: torch.device, samples: str
) -> QuerySource:
    """All true answers are positives: `answers` are the sorted keys `query * width + answer`, and the width.

    A sample is each of the answers, or each query that has any, which draws one of them.
    """
    pairs, width = answers
    groups, values = np.divmod(pairs, width)
    starts = np.arange(len(pairs)) if samples == "answers" else np.flatnonzero(np.diff(groups, prepend=-1))
    asked, sizes = groups[starts], np.diff(starts, append=len(pairs))
    weights = _weights(np.bincount(groups, minlength=len(slots_GS))[asked], config, device)
    asked_, starts_, sizes_, values_ = (_tensor(column, device) for column in (asked, starts, sizes, values))
    rows = SampleRows(asked_, starts_, sizes_, values_, weights)
    return QuerySource(kind, _tensor(slots_GS, device), rows, Truths.of_keys(pairs, width, device))


def _weights(answers: Keys, config: BatchConfig, device: torch.device) -> Tensor | None:
    """The weights of samples whose queries have so many answers; none where all weigh the same."""
    if not config.subsampling:
        return None
    return torch.from_numpy((answers + 4.0) ** -0.5).to(device=device, dtype=torch.float32)


def _keys(lists: Lists, width: int) -> Keys:
    """`query * width + answer` of all answers in the vocabulary."""
    inside = lists.values != OUTSIDE
    keys: Keys = lists.owners()[inside] * width + lists.values[inside].astype(np.int64)
    return keys


def subsumption_pairs(facts: Facts, instances: Instances, device: torch.device) -> PairSource:
    """What follows from them is no negative."""
    truths = _truths(instances.hierarchy.ancestors, len(instances.hierarchy), device)
    pairs = _tensor(facts.subs, device), _tensor(facts.supers, device)
    return PairSource(Task.SUBSUMPTION, pairs, lambda sampler, pair: corrupt_subsumptions(sampler, truths, pair))


def typing_pairs(instances: Instances, entities: int, device: torch.device) -> PairSource:
    truths = _truths(instances.concepts_of, len(instances.hierarchy), device)
    typed, types = (_tensor(column, device) for column in instances.concepts_of.coordinates())
    return PairSource(
        Task.INSTANTIATION, (typed, types), lambda sampler, pair: corrupt_typings(sampler, truths, pair, entities)
    )


def _truths(rows: Rows, width: int, device: torch.device) -> Truths:
    first, second = rows.coordinates()
    return Truths.of_keys(first.astype(np.int64) * width + second, width, device)


def _asked_typings(
    instances: Instances, described: Instances, config: BatchConfig, device: torch.device
) -> list[SampleSource]:
    """The typings as queries: from each entity to what describes it, and from each concept to its members."""
    sources: list[SampleSource] = []
    for kind, rows, width in (
        (Kind(Level.CONCEPT, TYPES, Task.INSTANTIATION), described.concepts_of, len(instances.hierarchy)),
        (Kind(Level.ENTITY, MEMBERS, Task.INSTANTIATION), instances.entities_of, len(instances.concepts_of)),
    ):
        asked, answers = (column.astype(np.int64) for column in rows.coordinates())
        slots = np.arange(len(rows), dtype=np.int64)[:, None]
        pairs = distinct(asked * width + answers)
        sources.append(_of_pairs(kind, slots, (pairs, width), config, device, config.one_hop_samples))
    return sources


def _tensor(column: NDArray[np.int32] | Keys, device: torch.device) -> Tensor:
    return torch.from_numpy(np.array(column, np.int64)).to(device)
