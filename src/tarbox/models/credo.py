"""Credo, the default reasoner: degrees of belief at both levels.

A link predictor (`tarbox.models.complex`) proposes facts, a calibrator turns its scores into probabilities, known facts
have 1 (`tarbox.models.probabilities`). A query is evaluated over these as a fuzzy set of entities. Concepts are scored by a
small network that has learnt, by hiding facts that are known, which concepts a query turns out to have
(`tarbox.models.describing`). How it is trained is in `tarbox.training.rehearsal`; here is what answers, without torch.
"""

# ruff: noqa: N803, N806 (shape suffixes, see STYLE.md)

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import lru_cache
from typing import Any, ClassVar, Final, NamedTuple, final

import numpy as np
from numpy.typing import NDArray

from tarbox.core.errors import ConfigError, QueryTooLarge, StoreVersion
from tarbox.core.ids import Level
from tarbox.execution.exact import answer_rows
from tarbox.execution.graph import Index
from tarbox.execution.interpreter import evaluate
from tarbox.kb.facts import Facts, Ids
from tarbox.kb.rows import Rows
from tarbox.models.calibration import Calibrator, sigmoid
from tarbox.models.counting import PriorAlgebra, Priors
from tarbox.models.describing import FEATURES, Asked, Describer, raise_to_narrower
from tarbox.models.probabilities import FactProbabilities, ProbabilityAlgebra
from tarbox.models.scorer import Prediction, Rehearsed
from tarbox.models.tempering import Temper, survey
from tarbox.query.algebra import Or, Query, slots
from tarbox.query.rewrites import disjunctive_normal_form

Floats = NDArray[np.float32]
Scores = NDArray[np.float64]
Surveyed = tuple[Floats, Floats]
"""[B, F] what queries look like, and [B, N] the degrees of what is not known of them."""

_CELLS: Final = 1 << 24
WAYS: Final = ("strongest", "independent")
WEIGHING: Final = "members"
"""The name, among the arrays of a run, of the temper of members that count towards concepts."""
MOST_ALTERNATIVES: Final = 8
"""A union of more is described as a whole."""
PRESUPPOSED: Final = 0.7
"""The degree of the likeliest concept of an alternative without a known answer: who asks supposes that there is one."""
TINY: Final = 1e-12
"""What a prior adds to a degree: it orders candidates that are equal otherwise."""


class Described(NamedTuple):
    """[B, C] each: the degrees of all concepts as if none were known, and their expected numbers of members.

    Of a union also what it is made from: its alternatives, and the degrees of each by itself.
    """

    degrees: Floats
    expected: Floats
    alternatives: Sequence[tuple[Asked, Floats]] = ()


@final
@dataclass(frozen=True, slots=True)
class CredoConfig:
    """The settings of the link predictor (`tarbox.models.complex.ComplexConfig`), and four more.

    A `rank` of 0 and `candidates` of -1 leave the choice to the hardware: a large rank and all candidates on a GPU.
    `ways`: an entity that several others lead to is reached by the `strongest` of these ways alone, or by each of them
    independently. `hidden` is the share of the facts that the rehearsal hides; degrees are probabilities of being among
    facts that are missing at this rate. `rehearsed` queries of each template teach the ranking of concepts. With
    `told` the links that training queries tell beyond the facts are learnt as well.
    """

    rank: int = 0
    regularization: float = 5e-2
    relation_weight: float = 0.5
    candidates: int = -1
    initial: float = 1e-3
    ways: str = "strongest"
    hidden: float = 0.1
    rehearsed: int = 400
    told: bool = True

    def __post_init__(self) -> None:
        if self.ways not in WAYS:
            raise ConfigError(f"ways = {self.ways!r}: choose one of {', '.join(WAYS)}")
        if self.rank < 0 or self.candidates < -1 or self.initial <= 0:
            raise ConfigError(
                f"rank = {self.rank}, candidates = {self.candidates}, initial = {self.initial}: "
                "rank must be 0 or more, candidates -1 or more, and initial greater than 0"
            )
        if self.regularization < 0 or self.relation_weight < 0:
            raise ConfigError(
                f"regularization = {self.regularization}, relation_weight = {self.relation_weight}: "
                "both must be 0 or more"
            )
        if not 0 < self.hidden < 1:
            raise ConfigError(f"hidden = {self.hidden}: it must lie between 0 and 1")
        if self.rehearsed < 1:
            raise ConfigError(f"rehearsed = {self.rehearsed}: it must be at least 1")


@final
@dataclass(frozen=True, slots=True)
class Credo(Rehearsed):
    """Facts, probabilities and the ranking of concepts."""

    Config: ClassVar[type[CredoConfig]] = CredoConfig
    recipe: ClassVar[str | None] = "credo"

    index: Index
    probabilities: FactProbabilities
    describer: Describer
    ranking: Calibrator | None
    noisy: bool
    priors: Priors = field(repr=False)
    weighing: Temper | None = None
    tempers: Mapping[Level, Temper] = field(default_factory=dict)

    @classmethod
    def of(
        cls, index: Index, probabilities: FactProbabilities, describer: Describer, ranking: Calibrator | None, ways: str
    ) -> Credo:
        """Without a `ranking` concepts have the probability that any member is their instance."""
        priors = Priors.of_entities(index.facts, index.instances)
        return cls(index, probabilities, describer, ranking, ways == "independent", priors)

    def supports(self, shape: Query) -> bool:  # noqa: ARG002
        """Any query."""
        return True

    def candidates(self, level: Level) -> int:
        return {Level.ENTITY: self.index.entities, Level.CONCEPT: self.index.concepts}[level]

    def score(self, shape: Query, ids: Ids, level: Level) -> Scores:
        """[B, N] degrees; a known concept has 1 and its expected number of members more, so it ranks by coverage."""
        ids = np.asarray(ids, np.int32)
        parts = [
            self._entities(shape, block) if level is Level.ENTITY else self._concepts(shape, block)
            for block in self._blocks(ids)
        ]
        return np.concatenate(parts) if parts else np.zeros((0, self.candidates(level)))

    def predict(self, shape: Query, ids: Ids) -> Prediction:
        """Both levels from one fuzzy set and one exact evaluation of each query; all rows at once."""
        asked = self.ask(shape, np.asarray(ids, np.int32))
        members = _survey(shape, asked.sets_BE, asked.entities)
        weighed = self._weigh(asked, members)
        described = self._describe(weighed)
        entities = self._temper(Level.ENTITY, members, asked.entities)
        concepts = bound(self._temper_concepts(weighed, described), entities)
        size, width = concepts.shape
        every = np.tile(np.arange(width, dtype=np.int32), size)
        rows = Rows(np.arange(size + 1) * width, every, concepts.ravel())
        return Prediction(entities, rows, described.expected.ravel(), asked.entities, asked.concepts, asked.counts)

    def degrees(self, shape: Query, ids: Ids, level: Level) -> Floats:
        """[B, N] the probabilities of all candidates of one level; what is known has 1."""
        predicted = self.predict(shape, ids)
        return predicted.entities if level is Level.ENTITY else predicted.concepts.values.reshape(len(ids), -1)

    def consider(self, shape: Query, ids: Ids, level: Level) -> Surveyed:
        """([B, F] the survey of each query, [B, N] the degrees of what is not known), before they are tempered."""
        asked = self.ask(shape, np.asarray(ids, np.int32))
        if level is Level.ENTITY:
            return _survey(shape, asked.sets_BE, asked.entities)
        return _survey(shape, self._describe(self.weigh(asked)).degrees, asked.concepts)

    def fuzzy_sets(self, shape: Query, ids: Ids) -> Floats:
        """[B, E] the fuzzy sets of the queries."""
        columns = {slot.name: ids[:, place] for place, slot in enumerate(slots(shape))}
        return evaluate(shape, self.algebra(columns, len(ids)))

    def algebra(self, columns: dict[str, Ids], rows: int) -> ProbabilityAlgebra:
        """The meaning of nodes over fuzzy sets [rows, E]; `columns` gives the ids [rows] of each name."""
        return ProbabilityAlgebra(self.probabilities, columns, (rows, self.index.entities), self.noisy)

    def ask(self, shape: Query, ids: Ids) -> Asked:
        """The queries with their sets and known answers."""
        return Asked(shape, ids, self.fuzzy_sets(shape, ids), *answer_rows(shape, ids, self.index))

    def weigh(self, asked: Asked) -> Asked:
        """The same queries, with members that count towards concepts by how often such members are true."""
        return self._weigh(asked, _survey(asked.shape, asked.sets_BE, asked.entities))

    def _weigh(self, asked: Asked, members: Surveyed) -> Asked:
        if self.weighing is None or not asked.sets_BE.size:
            return asked
        weighed = self.weighing.bend(*members)
        known = asked.entities.coordinates()
        weighed[known] = asked.sets_BE[known]
        return replace(asked, sets_BE=weighed)

    def _temper(self, level: Level, surveyed: Surveyed, known: Rows) -> Floats:
        """[B, N] probabilities; what is known has 1."""
        _, found = surveyed
        if level in self.tempers and found.size:
            found = self.tempers[level].bend(*surveyed)
        found[known.coordinates()] = 1.0
        return found

    def _temper_concepts(self, asked: Asked, described: Described) -> Floats:
        """[B, C] probabilities in the order of the degrees described; what is known has 1.

        Tempers are fitted to queries without unions. Each alternative of a union is tempered by itself, and the greater
        counts, since what several of them lead to is seldom independent; the greatest is dealt to what is described as
        likeliest, and so on.
        """
        if not described.alternatives:
            surveyed = _survey(asked.shape, described.degrees, asked.concepts)
            return self._temper(Level.CONCEPT, surveyed, asked.concepts)
        order, known = described.degrees.copy(), asked.concepts.coordinates()
        likely = np.zeros_like(order)
        for part, degrees in described.alternatives:
            surveyed = _survey(part.shape, degrees, part.concepts)
            likely = np.maximum(likely, self._temper(Level.CONCEPT, surveyed, part.concepts))
        likely[known], order[known] = 0.0, -1.0
        found = rearrange(likely, order, self._wider())
        found[known] = 1.0
        hierarchy = self.index.instances.hierarchy
        return raise_to_narrower(hierarchy, found) if len(hierarchy) else found

    def _wider(self) -> Scores:
        """[C] greater for wider concepts, of equally wide ones for those that are less deep."""
        members, depth = self.index.instances.entities_of.sizes(), self.index.instances.hierarchy.depth
        found: Scores = np.log1p(members) - 1e-2 * depth
        return found

    def _entities(self, shape: Query, ids: Ids) -> Scores:
        columns = {slot.name: ids[:, place] for place, slot in enumerate(slots(shape))}
        found = self.ask(shape, ids).sets_BE.astype(np.float64)
        prior = evaluate(shape, PriorAlgebra(self.priors, columns))
        if prior is not None and found.size:
            frequency = prior()
            found += TINY * frequency / np.maximum(frequency.max(1, keepdims=True), 1.0)
        return found

    def _concepts(self, shape: Query, ids: Ids) -> Scores:
        asked = self.weigh(self.ask(shape, ids))
        described, known = self._describe(asked), asked.concepts.coordinates()
        scores = described.degrees.astype(np.float64)
        scores[known] = 1.0 + described.expected[known]
        scores += TINY * self._wider()  # of equals the wider concept first
        return scores

    def _describe(self, asked: Asked) -> Described:
        """The concepts of a union are those of its alternatives, each of which is judged by itself, and presupposed to
        have answers."""
        parts = [self.weigh(self.ask(shape, asked.ids[:, columns])) for shape, columns in alternatives(asked.shape)]
        if not parts:
            return Described(*self._judge(asked))
        judged = [(part, self._judge(part)[0]) for part in parts]
        lacking = np.ones((len(asked.ids), self.index.concepts), np.float32)
        for part, degrees in judged:
            lacking *= 1 - presuppose(degrees, part.entities.sizes() == 0)
        return Described(1 - lacking, self.describer.expect(asked, self.probabilities), judged)

    def _judge(self, asked: Asked) -> tuple[Floats, Floats]:
        features, expected = self.describer.describe(asked, self.probabilities)
        if self.ranking is None:
            found = np.minimum(np.exp(features[:, :, 3]), 1.0)
        else:
            flat = self.ranking.logits(features.reshape(-1, features.shape[2]))
            found = sigmoid(flat.reshape(features.shape[:2]))
        hierarchy = self.index.instances.hierarchy
        return raise_to_narrower(hierarchy, found) if len(hierarchy) else found, expected

    def _blocks(self, ids: Ids) -> Iterator[Ids]:
        rows = max(1, _CELLS // max(self.index.entities, 20 * self.index.concepts, 1))
        return (ids[start : start + rows] for start in range(0, len(ids), rows))

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Everything that is not in the facts, for `of_arrays`."""
        probabilities = self.probabilities
        found: dict[str, NDArray[Any]] = {
            "links/starts": probabilities.starts,
            "links/near": probabilities.near,
            "links/far": probabilities.far,
            "links/degrees": probabilities.degrees,
            "describer/weights": self.describer.weights.astype(np.float16),
        }
        for name, edges in (("concepts", probabilities.concepts), ("members", probabilities.members)):
            found |= {f"{name}/{part.name}": getattr(edges, part.name) for part in fields(Rows)}
        if self.ranking is not None:
            found |= self.ranking.arrays("ranking/")
        tempers = {WEIGHING: self.weighing, **{level.value: temper for level, temper in self.tempers.items()}}
        for name, temper in tempers.items():
            found |= temper.arrays(f"temper-{name}/") if temper is not None else {}
        return found

    @classmethod
    def of_arrays(cls, facts: Facts, arrays: Mapping[str, NDArray[Any]], config: CredoConfig) -> Credo:
        index = Index.of(facts)
        edges = {
            name: Rows(*(arrays[f"{name}/{part.name}"] for part in fields(Rows))) for name in ("concepts", "members")
        }
        starts, near, far, degrees = (arrays[f"links/{name}"] for name in ("starts", "near", "far", "degrees"))
        probabilities = FactProbabilities(starts, near, far, degrees, edges["concepts"], edges["members"])
        describer = Describer.of(index, arrays["describer/weights"].astype(np.float32))
        ranking = Calibrator.of_arrays(arrays, "ranking/") if "ranking/mean" in arrays else None
        if ranking is not None and len(ranking.mean) != FEATURES:
            raise StoreVersion("an earlier version of tarbox trained this run, with other features: train it again.")
        found = cls.of(index, probabilities, describer, ranking, config.ways)
        tempers = {
            name: Temper.of_arrays(arrays, f"temper-{name}/")
            for name in (WEIGHING, *(level.value for level in Level))
            if f"temper-{name}/mean" in arrays
        }
        levels = {level: tempers[level.value] for level in Level if level.value in tempers}
        return replace(found, weighing=tempers.get(WEIGHING), tempers=levels)


@lru_cache(1024)
def alternatives(shape: Query) -> tuple[tuple[Query, list[int]], ...]:
    """The conjunctive queries whose union a shape is, each with the places of its slots among those of the shape; none
    where it is no union, or one of too many.

    >>> from tarbox.query.templates import TEMPLATES
    >>> [columns for _, columns in alternatives(TEMPLATES["up"].shape)]  # ?r1 some ((?r2 value ?e1) or (?r3 value ?e2))
    [[0, 1, 2], [0, 3, 4]]
    """
    try:
        normal = disjunctive_normal_form(shape, MOST_ALTERNATIVES)
    except QueryTooLarge:
        return ()
    places = {slot.name: place for place, slot in enumerate(slots(shape))}
    parts = normal.operands if isinstance(normal, Or) else ()
    return tuple((part, [places[slot.name] for slot in slots(part)]) for part in parts)


def presuppose(degrees_BC: Floats, void_B: NDArray[np.bool_]) -> Floats:
    """Degrees, of void queries as shares of the greatest: alone they would keep their order, and in a union they stand
    beside those of an alternative with known answers, of which nothing need be missing."""
    greatest = degrees_BC.max(1, initial=1e-9, keepdims=True)
    found: Floats = np.where(void_B[:, None], np.float32(PRESUPPOSED) * degrees_BC / greatest, degrees_BC)
    return found


def bound(concepts_BC: Floats, answers_BE: Floats) -> Floats:
    """Degrees of concepts, those of a query lowered together until none is likelier than that there is an answer.

    That is at most the sum of the answers' probabilities, which is less than 1 only where no answer is known.

    >>> bound(np.float32([[0.8, 0.4], [1.0, 0.4]]), np.float32([[0.1, 0.1], [1.0, 0.1]])).round(1).tolist()
    [[0.2, 0.1], [1.0, 0.4]]
    """
    most = concepts_BC.max(1, initial=0.0, keepdims=True)
    some = np.minimum(answers_BE.sum(1, keepdims=True, dtype=np.float64), 1.0)
    found: Floats = (concepts_BC * np.minimum(some / np.maximum(most, TINY), 1.0)).astype(np.float32)
    return found


def rearrange(values_BN: Floats, order_BN: Floats, ties_N: Scores) -> Floats:
    """The values of each row, dealt out in the order of others; `ties_N` order what is equal there.

    >>> rearrange(np.float32([[0.2, 0.9, 0.4]]), np.float32([[3, 1, 3]]), np.array([1, 2, 3])).round(1).tolist()
    [[0.4, 0.2, 0.9]]
    """
    found = np.empty_like(values_BN)
    places_BN = np.lexsort((np.broadcast_to(ties_N, order_BN.shape), order_BN), axis=1)
    np.put_along_axis(found, places_BN, np.sort(values_BN, axis=1), axis=1)
    return found


def _survey(shape: Query, degrees_BN: Floats, known: Rows) -> Surveyed:
    """([B, F], [B, N]): what the queries look like, and the degrees with 0 for what is known."""
    open_BN = degrees_BN.copy()
    open_BN[known.coordinates()] = 0.0
    return survey(shape, known.sizes(), open_BN), open_BN
