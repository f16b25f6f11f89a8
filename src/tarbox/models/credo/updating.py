"""A run follows its store: new facts are known, what is new is folded in, and only what is touched is predicted again.

Names are matched by IRI, since ids are rows of a sorted table and move. A question is a directed relation and an
entity; it is touched where a fact of it was added or removed between entities that were there before. Questions of new
entities are all asked; every other question only whether it leads to a new entity (`tarbox.models.credo.candidates`).
What was predicted and is neither touched nor known keeps its probability.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Final, final

import numpy as np
import torch
from numpy.typing import NDArray

from tarbox.core.config import read_config
from tarbox.core.errors import ConfigError
from tarbox.core.ids import Role
from tarbox.execution.graph import Index
from tarbox.kb.arrays import Flags, Floats, Ids, Keys
from tarbox.kb.closure import Hierarchy
from tarbox.kb.facts import Facts
from tarbox.kb.rows import Rows, TripleKeys, contains, distinct, pair_keys
from tarbox.kb.vocabulary import Vocabulary
from tarbox.models.complex import Complex
from tarbox.models.credo.candidates import Scope, Totals, one_thread
from tarbox.models.credo.concepts import SetModel
from tarbox.models.credo.evidence import Evidence
from tarbox.models.credo.folding import Folding, Unseen
from tarbox.models.credo.holdout import Predicted
from tarbox.models.credo.model import Credo, CredoConfig
from tarbox.models.credo.network import CERTAIN
from tarbox.models.credo.predictor import (
    MEASURED,
    FittedPredictor,
    build_predictor,
    draw,
    mean_reciprocal_rank,
    open_predictor,
)
from tarbox.models.credo.probabilities import FactProbabilities
from tarbox.models.saved import SavedRun, own_settings, sizes_of
from tarbox.models.scorer import Scorer

_CPU: Final = torch.device("cpu")
_ROLES: Final = (Role.ENTITY, Role.CONCEPT, Role.RELATION)
_FORGOTTEN: Final = 100
"""The most facts of an entity that is folded in anew because it lost one: of more, one leaves little trace."""
_MOST_MISSING: Final = 0.5
"""The greatest share of their facts that new entities are taken to lack."""
_MEASURED_AT: Final = 0.67
"""The share of the folding after which they are."""


@final
@dataclass(frozen=True, slots=True)
class MatchedNames:
    """The old ids of the new entities, concepts and relations, -1 for those that are new; and the new ids of the old
    ones, -1 for those that are gone."""

    entities: Ids
    concepts: Ids
    relations: Ids
    entities_now: Ids
    concepts_now: Ids
    relations_now: Ids

    @classmethod
    def of(cls, old: Vocabulary, new: Vocabulary) -> MatchedNames:
        pairs = [(one.names(role), other.names(role)) for one, other in ((old, new), (new, old)) for role in _ROLES]
        return cls(*(one.match(other) for one, other in pairs))

    def without(self, entities: Flags) -> MatchedNames:
        """As if these entities were new, and had not been there before."""
        now, gone = np.where(entities, -1, self.entities), self.entities_now.copy()
        gone[self.entities[entities]] = -1
        return replace(self, entities=now, entities_now=gone)

    def unseen(self) -> Unseen:
        return Unseen(
            np.append(self.entities < 0, self.concepts < 0), np.append(_directed(self.relations) < 0, [False] * 3)
        )

    def links(self, relations: Ids | Keys, heads: Ids, tails: Ids) -> tuple[Flags, Keys]:
        """(which old links have all their names still, the new keys of these)"""
        relation, head, tail = self.relations_now[relations], self.entities_now[heads], self.entities_now[tails]
        there = (relation >= 0) & (head >= 0) & (tail >= 0)
        return there, TripleKeys(max(len(self.entities), 1)).encode(relation[there], head[there], tail[there])

    def typings(self, entities: Ids, concepts: Ids) -> tuple[Flags, Keys]:
        """The same of typings."""
        entity, concept = self.entities_now[entities], self.concepts_now[concepts]
        there = (entity >= 0) & (concept >= 0)
        return there, pair_keys(entity[there], concept[there], len(self.concepts))


def _directed(relations: Ids) -> Ids:
    """[2N] the two directions of relations, -1 for -1."""
    both = np.stack([2 * relations, 2 * relations + 1], axis=1)
    both[relations < 0] = -1
    return both.ravel()


@final
@dataclass(frozen=True, slots=True)
class Changes:
    """What differs between two stores, in the ids of the new one: which of its assertions [A] and typings [T] were
    added; the keys of those removed whose names are still there; how many facts were removed in all."""

    links: Flags
    typings: Flags
    removed_links: Keys
    removed_typings: Keys
    removed: int

    @classmethod
    def of(cls, old: Facts, new: Facts, names: MatchedNames) -> Changes:
        links = names.links(old.relations, old.heads, old.tails)[1], _link_keys(new)
        types = names.typings(old.typed, old.types)[1], pair_keys(new.typed, new.types, len(names.concepts))
        added, typed = (~contains(np.sort(before), now) for before, now in (links, types))
        removed, untyped = (before[~contains(np.sort(now), before)] for before, now in (links, types))
        kept = int((~added).sum() + (~typed).sum())
        return cls(added, typed, removed, untyped, len(old.heads) + len(old.typed) - kept)

    def unlearnt(self, facts: Facts, names: MatchedNames) -> Flags:
        """[E] the old entities that are folded in anew: the ends of removed facts, so that what was learnt from these
        is forgotten; and those that at least half of the facts of are new."""
        size = len(names.entities)
        ends, flags = np.concatenate([facts.heads, facts.tails, facts.typed]), (self.links, self.links, self.typings)
        degree, more = (np.bincount(own, minlength=size) for own in (ends, ends[np.concatenate(flags)]))
        found: Flags = (more > 0) & (2 * more >= degree)
        _, head, tail = TripleKeys(max(size, 1)).decode(self.removed_links)
        ends = np.append(head, tail)
        found[ends[degree[ends] <= _FORGOTTEN]] = True
        found[self.removed_typings // max(len(names.concepts), 1)] = True
        return found & (names.entities >= 0)


def _link_keys(facts: Facts) -> Keys:
    return TripleKeys(max(len(facts.vocabulary.entities), 1)).encode(facts.relations, facts.heads, facts.tails)


@final
@dataclass(frozen=True, slots=True)
class Followed:
    """A run after an update: the model, what it keeps for the next one, and what has changed. `mrr` is that of
    `measured` added assertions before they were known; NaN where there were none to rank."""

    model: Credo
    predictor: FittedPredictor
    names: MatchedNames
    changes: Changes
    mrr: float
    measured: int


def follow_run(saved: SavedRun, model: Scorer, facts: Facts, device: torch.device = _CPU) -> Followed:
    """A run, whose model this is, follows other facts than it has learnt; its link predictor works on the device.
    Raises `ConfigError` where it cannot."""
    if not isinstance(model, Credo):
        raise ConfigError(
            f"{saved.path} is a run of {saved.model_name}: only runs of credo take new facts. Train again."
        )
    config = read_config(CredoConfig, own_settings(saved.settings.get("model", {})), "model")
    return follow(model, open_predictor(saved), facts, config, (int(saved.settings.get("seed", 0)), device))


@one_thread()
def follow(
    model: Credo, fitted: FittedPredictor, facts: Facts, config: CredoConfig, work: tuple[int, torch.device] = (0, _CPU)
) -> Followed:
    """The model of the changed facts; `work` is a seed and the device of the link predictor."""
    old, (seed, device) = model.index.facts, work
    names = MatchedNames.of(old.vocabulary, facts.vocabulary)
    given, changes = names, Changes.of(old, facts, names)
    names = names.without(changes.unlearnt(facts, names))
    predictor = _gather_predictor(fitted, names, config, facts, seed).to(device)
    mrr, measured = _fold_in(predictor, facts, changes.links, names.unseen(), seed)
    concepts, columns = _match_columns(fitted.arrays["concepts"], names, len(old.vocabulary.relations))
    weights = _take(_take(fitted.floats("weights"), columns).T, columns).T.copy()
    evidence = Evidence.of(facts, (concepts, torch.from_numpy(weights)))
    scope = _scope(fitted.totals, facts, names, changes)
    links = fitted.calibration.links
    calibration = replace(fitted.calibration, links=replace(links, effects=_take(links.effects, names.relations)))
    predicted = calibration.predict(predictor.eval(), evidence, scope)
    predicted = presume_missing(predicted, facts, given.entities < 0, config.held_out)
    probabilities = _join(model.probabilities, predicted, facts, names, scope)
    index = Index.of(facts)
    found = Credo.of(index, probabilities, _match_sets(model.features.sets, names), model.ranking)
    if model.subsumptions is not None:
        found = replace(found, subsumptions=_match_subsumptions(model.subsumptions, index.instances.hierarchy, names))
    told = fitted.mrr, np.append(fitted.arrays["folded"], True)[names.entities]
    kept = FittedPredictor.of(predictor, calibration, evidence, predicted.totals, told)
    return Followed(found, kept, given, changes, mrr, measured)


def _take(table: NDArray[Any], rows: Ids) -> NDArray[Any]:
    """The given rows of a table, 0 for -1."""
    found = table[np.maximum(rows, 0)] if len(table) else np.zeros((len(rows), *table.shape[1:]), table.dtype)
    found[rows < 0] = 0
    return found


def _gather_predictor(
    fitted: FittedPredictor, names: MatchedNames, config: CredoConfig, facts: Facts, seed: int
) -> Complex:
    """With the embeddings of all that was there, and small random ones, as training begins with, of all that is new."""
    random = np.random.default_rng(seed)
    concepts = np.where(names.concepts < 0, -1, names.concepts + len(names.entities_now))
    special = 2 * len(names.relations_now) + np.arange(3)
    rows = {"nodes": np.append(names.entities, concepts), "relations": np.append(_directed(names.relations), special)}
    tables = {name: _take(fitted.floats(name), own.astype(np.int32)) for name, own in rows.items()}
    for name, own in rows.items():
        new = own < 0
        tables[name][new] = config.initial * random.standard_normal((int(new.sum()), tables[name].shape[1]))
    return build_predictor(config, sizes_of(facts), tables)


def _fold_in(predictor: Complex, facts: Facts, added: Flags, unseen: Unseen, seed: int) -> tuple[float, int]:
    """Fold in. For most of the way a tenth of the added assertions is left out: (their MRR, how many they are)."""
    size = len(unseen.nodes)
    degree = sum(np.bincount(ends, minlength=size) for ends in (facts.heads, facts.tails, facts.typed))
    alone = unseen.nodes & (degree <= 2)
    usable = added & ~alone[facts.heads] & ~alone[facts.tails]
    chosen = draw(usable, min(MEASURED, -(-int(usable.sum()) // 10)), seed)
    folding = Folding(predictor, unseen, seed)
    folding.fit(facts.with_assertions(~chosen), (0.0, _MEASURED_AT))
    mrr = mean_reciprocal_rank(predictor, facts, chosen)
    folding.fit(facts, (_MEASURED_AT, 1.0))
    return mrr, int(chosen.sum())


def _scope(totals: Totals, facts: Facts, names: MatchedNames, changes: Changes) -> Scope:
    width, earlier, new = max(len(names.entities), 1), max(len(names.entities_now), 1), names.entities < 0
    changed = np.append(_link_keys(facts)[changes.links], changes.removed_links)
    relation, head, tail = TripleKeys(width).decode(changed)
    between = ~new[head] & ~new[tail]
    asked = np.append(pair_keys(2 * relation, tail, width), pair_keys(2 * relation + 1, head, width))
    directed, near = np.divmod(totals.keys, earlier)
    way, entity = _directed(names.relations_now)[directed], names.entities_now[near]
    there = (way >= 0) & (entity >= 0)
    keys = pair_keys(way[there], entity[there], width)
    order = np.argsort(keys)
    typed = new.copy()
    typed[facts.typed[changes.typings]] = True
    moved = Totals(keys[order], totals.values[there][order])
    return Scope(new, distinct(asked[np.append(between, between)]), moved, typed)


def presume_missing(predicted: Predicted, facts: Facts, new: Flags, held_out: float) -> Predicted:
    """A probability is that of a fact where facts are missing at the rate of the hold-out. New entities that have fewer
    facts than others lack more of them: the odds of what they may have grow as what is missing does."""
    width, concepts = max(len(new), 1), max(len(facts.vocabulary.concepts), 1)

    def shifted(degrees: Floats, chosen: Flags, ends: Ids) -> Floats:
        owned = np.bincount(ends, minlength=len(new))
        share = owned[new].mean() / max(owned[~new].mean(), 1e-9) if new.any() and not new.all() else 1.0
        missing = np.clip(1 - share * (1 - held_out), held_out, max(held_out, _MOST_MISSING))
        odds = missing / held_out * degrees / (1 - degrees)
        return np.where(chosen, np.minimum(odds / (1 + odds), CERTAIN), degrees).astype(np.float32)

    (keys, links), (pairs, typings) = predicted.links, predicted.typings
    _, head, tail = TripleKeys(width).decode(keys)
    links = shifted(links, new[head] | new[tail], np.append(facts.heads, facts.tails))
    typings = shifted(typings, new[pairs // concepts], facts.typed)
    return Predicted((keys, links), (pairs, typings), predicted.totals)


def _join(
    before: FactProbabilities, predicted: Predicted, facts: Facts, names: MatchedNames, scope: Scope
) -> FactProbabilities:
    """What is predicted now, and of what was predicted before that which is neither predicted anew nor known."""
    directed = np.repeat(np.arange(len(before.starts) - 1), np.diff(before.starts))
    chosen = np.flatnonzero((directed % 2 == 1) & (before.degrees < 1))
    there, keys = names.links(directed[chosen] // 2, before.near[chosen], before.far[chosen])
    left = ~contains(np.sort(np.append(_link_keys(facts), predicted.links[0])), keys)
    degrees = before.degrees[chosen[there]][left]
    links = np.append(predicted.links[0], keys[left]), np.append(predicted.links[1], degrees)
    entities, concepts = before.concepts.coordinates()
    chosen = np.flatnonzero(before.concepts.values < 1)
    there, keys = names.typings(entities[chosen], concepts[chosen])
    left = ~scope.typed[keys // max(len(names.concepts), 1)]
    degrees = before.concepts.values[chosen[there]][left]
    typings = np.append(predicted.typings[0], keys[left]), np.append(predicted.typings[1], degrees)
    return FactProbabilities.of(facts, sizes_of(facts), links, typings)


def _match_columns(kept: Ids, names: MatchedNames, relations: int) -> tuple[Ids, Ids]:
    """(the new ids, increasing, of the concepts of a linear model, [F] the old column of each new one, -1 for new
    relations): columns are directed relations, then concepts."""
    now = names.concepts_now[kept]
    order = np.argsort(now)[int((now < 0).sum()) :]
    return now[order].astype(np.int32), np.append(_directed(names.relations), 2 * relations + order).astype(np.int32)


def _match_sets(sets: SetModel, names: MatchedNames) -> SetModel:
    first = len(sets.weights) - len(sets.kept)
    kept, columns = _match_columns(sets.kept, names, first // 2)
    return SetModel(kept, _take(sets.weights, columns)[:, columns[len(columns) - len(kept) :] - first])


def _match_subsumptions(before: Rows, tree: Hierarchy, names: MatchedNames) -> Rows:
    """Without those that are known now."""
    lower, upper = before.coordinates()
    sub, above = names.concepts_now[lower], names.concepts_now[upper]
    size = len(names.concepts)
    known = pair_keys(*tree.ancestors.coordinates(), size)
    keys = pair_keys(sub, above, size)
    left = (sub >= 0) & (above >= 0) & ~contains(known, keys)
    order = np.argsort(keys[left])
    return Rows.of_keys(keys[left][order], size, size, before.values[left][order])
