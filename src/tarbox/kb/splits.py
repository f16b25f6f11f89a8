"""Dividing the facts into what a model learns from and what it is asked about.

Asserted facts are divided, never what follows from them: each graph is closed on its own, and what the axioms imply is
inferred again from it alone, so that nothing held out can be deduced from what was not. Typings that another typing of
the same entity implies are left out beforehand, for the same reason. The subsumptions stay whole, and so do the
typings of terms to themselves (ADR 39). Every entity, relation and concept keeps a fact in the training graph.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import Enum
from typing import Final, final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from tarbox.core.errors import BenchmarkError
from tarbox.core.ids import Role
from tarbox.kb.arrays import Flags, Ids, Places
from tarbox.kb.closure import Hierarchy
from tarbox.kb.facts import NO_SPLIT, SPLITS, Facts
from tarbox.kb.mirrors import first_saying
from tarbox.kb.reasoning.inference import infer_again
from tarbox.kb.rows import unordered_keys
from tarbox.kb.statistics import degrees
from tarbox.kb.vocabulary import Names

HELD_OUT: Final = 0.05
"""The share of the facts held out for each of validation and test; the paper's for both together."""

NOBODY: Final = -1
FACTS_AT_A_TIME: Final = 1 << 16

Parts = NDArray[np.int8]
"""[facts] an index into `SPLITS`: the part that each fact belongs to."""


class SplitBy(Enum):
    """What decides the part of an assertion."""

    RANDOM = "random"
    COLUMN = "column"


@final
@dataclass(frozen=True, slots=True)
class SplitStage:
    """A graph to draw queries from, and the smaller graph that decides which of their answers are hard."""

    facts: Facts
    earlier: Facts | None


@final
@dataclass(frozen=True, slots=True)
class Split:
    """Nested graphs over one vocabulary: the stage of each name in `SPLITS`."""

    stages: Mapping[str, SplitStage]

    @property
    def train(self) -> Facts:
        return self.stages["train"].facts

    @property
    def whole(self) -> Facts:
        """The largest graph."""
        return self.stages["test"].facts


def keep_connected(facts: Facts, least: int) -> Facts:
    """The facts among entities with at least so many assertions, counted once; the others are no longer names."""
    return keep_entities(facts, degrees(facts) >= least)


def keep_entities(facts: Facts, keep: Flags) -> Facts:
    """The facts among these entities [E]; the others are no longer names."""
    kept = facts.with_assertions(keep[facts.heads] & keep[facts.tails]).with_typings(keep[facts.typed])
    number = (np.cumsum(keep) - 1).astype(np.int32)
    names, called = facts.vocabulary.entities, facts.vocabulary.synonyms
    of_entities = np.asarray(pc.equal(called["role"], Role.ENTITY.value))
    ids = called["id"].to_numpy().copy()
    ids[of_entities] = np.where(keep, number, NOBODY)[ids[of_entities]]
    synonyms = called.set_column(1, called.schema.field("id"), pa.array(ids, pa.int32())).filter(
        pa.array(ids != NOBODY)
    )
    entities = Names(Role.ENTITY, names.iris.filter(pa.array(keep)), names.labels.filter(pa.array(keep)))
    return replace(
        kept,
        vocabulary=replace(facts.vocabulary, entities=entities, synonyms=synonyms),
        heads=number[kept.heads],
        tails=number[kept.tails],
        typed=number[kept.typed],
    )


def split_honestly(facts: Facts, seed: int, by: SplitBy = SplitBy.RANDOM) -> Split:
    """90/5/5: the graphs of train, valid and test, each with all facts of those before it (docs/benchmarks.md).

    With `SplitBy.COLUMN` the assertions are divided as the store's split column says; the typings at random.
    """
    asserted = _most_specific(facts)
    random = np.random.default_rng([seed, 1])
    assertions = _column(asserted) if by is SplitBy.COLUMN else _divide_assertions(asserted, 2, random)
    typings = _divide_typings(asserted, assertions, random)
    train, valid, test = (
        infer_again(asserted.with_assertions(assertions <= part).with_typings(typings <= part))
        for part in range(len(SPLITS))
    )
    return Split({"train": SplitStage(train, None), "valid": SplitStage(valid, train), "test": SplitStage(test, valid)})


def _most_specific(facts: Facts) -> Facts:
    """What is divided: asserted facts, without typings that another one implies."""
    asserted = facts.about_individuals()
    hierarchy = Hierarchy.of(facts.subs, facts.supers, len(facts.vocabulary.concepts))
    return asserted.with_typings(hierarchy.most_specific(asserted.typed, asserted.types))


def hold_out(facts: Facts, seed: int, share: float, pairs: bool = False) -> Facts:
    """The kept facts: without about this share of the asserted assertions and of the most specific typings.

    Every entity, relation and concept keeps a fact, as in a benchmark, but at a cost that is linear: facts are drawn
    all at once, and a name that would be left with none gets one back. Facts that say the same are drawn together, and
    then one by one as often as such facts are alone (ADR 49). With `pairs` all facts between two entities are drawn
    together instead (ADR 63).
    """
    asserted = _most_specific(facts)
    random = np.random.default_rng([seed, 2])
    entities = len(facts.vocabulary.entities)
    asked = slice(None) if facts.inferred is None else ~facts.inferred.assertions
    if pairs:
        together, alone = _between(facts), 0.0
    else:
        together, alone = first_saying(facts, 1 - share), share  # more would be alone if they were missing one by one
    kept = _keep_names(_names_of_assertions(asserted), share, random, together[asked], alone)
    connected = np.zeros(entities, np.bool_)
    connected[asserted.heads[kept]] = True
    connected[asserted.tails[kept]] = True
    typed = np.where(connected[asserted.typed], NOBODY, asserted.typed)
    names = np.stack([typed, asserted.types + entities], axis=1)
    typings = _keep_names(names, share, random, np.arange(len(names)))
    typings |= asserted.term_typings()
    return infer_again(asserted.with_assertions(kept).with_typings(typings))


def _between(facts: Facts) -> Places:
    """[A] the number of the two entities that each assertion is about, whatever its direction."""
    pairs = unordered_keys(facts.heads, facts.tails, len(facts.vocabulary.entities))
    return np.unique(pairs, return_inverse=True)[1]


def _keep_names(names: Ids, share: float, random: np.random.Generator, same: Places, most_alone: float = 0.0) -> Flags:
    """[F] which facts are kept, if about `share` are not, but one of each name is; `names` as of `_divide`, `same`
    numbers what is drawn together. Of that each is then drawn alone, as often as facts of its relation are found alone,
    at most at the rate `most_alone`."""
    order = random.random(int(same.max(initial=-1)) + 1)[same]
    several, kind = np.bincount(same)[same] > 1, names[:, -1]
    single = 1 - np.bincount(kind, several) / np.maximum(np.bincount(kind), 1)  # facts of a relation that are alone
    alone = random.random(int(several.sum())) < np.minimum(single[kind[several]], most_alone)
    order[several] *= ~alone
    kept = order >= share
    fact, column = np.nonzero(names != NOBODY)
    latest = np.argsort(order[fact], kind="stable")
    fact, name = fact[latest], names[fact, column][latest]
    last = np.full(int(names.max(initial=0)) + 1, -1, np.int64)
    last[name] = fact
    lost = last[(np.bincount(name, kept[fact], len(last)) == 0) & (last >= 0)]
    kept |= np.isin(same, same[lost])  # a name without a kept fact gets back the one that was drawn last
    return kept


def split_as_paper(facts: Facts, seed: int) -> Split:
    """95/5: assertions alone are held out; validation and test draw from the same whole graph (docs/benchmarks.md)."""
    asserted = facts.about_individuals()
    parts = _divide_assertions(asserted, 1, np.random.default_rng([seed, 1]))
    train = infer_again(asserted.with_assertions(parts == 0))
    return Split(
        {"train": SplitStage(train, None), "valid": SplitStage(facts, train), "test": SplitStage(facts, train)}
    )


def _column(facts: Facts) -> Parts:
    if not np.any(facts.splits != NO_SPLIT):
        raise BenchmarkError(
            "this knowledge base has no split column. Build it from a table with a fourth column of "
            f"{', '.join(SPLITS)}, or leave out --split column."
        )
    return np.where(facts.splits == NO_SPLIT, 0, facts.splits).astype(np.int8)


def _divide_assertions(facts: Facts, parts: int, random: np.random.Generator) -> Parts:
    """Holds out `HELD_OUT` of the assertions for each of that many parts."""
    return _divide(_names_of_assertions(facts), parts, random)


def _names_of_assertions(facts: Facts) -> Ids:
    """[A, 3] the names that each assertion is about, each once."""
    tails = np.where(facts.heads == facts.tails, NOBODY, facts.tails)
    relations = facts.relations + len(facts.vocabulary.entities)
    return np.stack([facts.heads, tails, relations], axis=1)


def _divide_typings(facts: Facts, assertions: Parts, random: np.random.Generator, parts: int = 2) -> Parts:
    """The same for typings; an entity that has an assertion in train may lose all of its typings."""
    entities = len(facts.vocabulary.entities)
    connected = np.zeros(entities, np.bool_)
    connected[facts.heads[assertions == 0]] = True
    connected[facts.tails[assertions == 0]] = True
    typed = np.where(connected[facts.typed], NOBODY, facts.typed)
    free, divided = ~facts.term_typings(), np.zeros(len(typed), np.int8)
    divided[free] = _divide(np.stack([typed, facts.types + entities], axis=1)[free], parts, random)
    return divided


def _divide(names: Ids, parts: int, random: np.random.Generator) -> Parts:
    """The part of each fact, drawn uniformly where every name of the fact keeps another fact in train.

    Row i of `names` [F, K] are the names that fact i is about, or `NOBODY`.
    """
    quota = round(len(names) * HELD_OUT) * parts
    left = np.bincount(names[names != NOBODY]).tolist()
    held_out: list[int] = []
    order = random.permutation(len(names))
    for start in range(0, len(order), FACTS_AT_A_TIME):  # in turn: what is held out decides what still may be
        chunk = order[start : start + FACTS_AT_A_TIME]
        for fact, about in zip(chunk.tolist(), names[chunk].tolist(), strict=True):
            if len(held_out) < quota and all(name == NOBODY or left[name] > 1 for name in about):
                held_out.append(fact)
                for name in about:
                    left[name] -= name != NOBODY
        if len(held_out) == quota:
            break
    result = np.zeros(len(names), np.int8)
    for part, facts in enumerate(np.array_split(np.array(held_out, np.int64), parts), start=1):
        result[facts] = part
    return result
