"""Credo, the default reasoner: coherent probabilities at both levels (README.md in this folder says how).

What answers is here, without torch; how it is learnt is in `tarbox.models.credo.learning`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import TYPE_CHECKING, Any, ClassVar, Final, final

import numpy as np
from numpy.typing import NDArray

from tarbox.core.config import check_settings
from tarbox.core.errors import ConfigError, QueryTooLarge, StoreVersion
from tarbox.core.ids import Level
from tarbox.execution.exact import answer_rows
from tarbox.execution.graph import Index
from tarbox.execution.literals import find_literals
from tarbox.execution.program import data_ranges
from tarbox.kb.arrays import Floats, Ids
from tarbox.kb.closure import Hierarchy, Instances
from tarbox.kb.facts import Facts
from tarbox.kb.rows import Rows
from tarbox.models.credo.composition import Background, ProbabilityAlgebra, compose, join_alternatives
from tarbox.models.credo.concepts import CONCEPT_FEATURES, ConceptEvidence, ConceptFeatures, QueryBatch, SetModel
from tarbox.models.credo.network import Network
from tarbox.models.credo.probabilities import FactProbabilities
from tarbox.models.learning.seam import Learner, RunContext, TrainingData
from tarbox.models.priors import Priors
from tarbox.models.scorer import Prediction
from tarbox.query.algebra import Or, Query, slots
from tarbox.query.rewrites import disjunctive_normal_form

if TYPE_CHECKING:
    import torch
    from torch import Tensor

Scores = NDArray[np.float64]

_AT_ONCE: Final = 1 << 24
"""Cells of fuzzy sets held at a time."""
_FLOOR: Final = 1e-5
"""In scores: what an entity that an operand of `and` does not reach counts there, so that the others order it."""
_FREQUENT: Final = 1e-4
"""And what more it counts where the operand's relation leads there most often."""
_TIE: Final = 1e-12
"""What a prior adds to a score: it orders candidates that are equal otherwise."""
_FITTING: Final = {"cpu": (128, 512, 1024), "cuda": (1024, 16384, 1 << 15)}
"""By device, where the settings leave it open: the rank, the candidates drawn for a step, and the most entities or
concepts of which all are candidates."""
_SMALL: Final = 50_000
"""With more nodes than this the rank is half of that."""
_SUBSUMPTIONS: Final = {"offsets": "offsets", "concepts": "columns", "degrees": "values"}
"""What the arrays of predicted subsumptions are in a matrix; runs of earlier versions have none."""
MISSING: Final = ("auto", "facts", "pairs")
"""What may be missing of a knowledge base: single facts, or all facts between two entities."""
_ALTERNATIVES: Final = 8
"""A union of more is described as a whole."""


@final
@dataclass(frozen=True, slots=True)
class CredoConfig:
    """The settings of the link predictor (`tarbox.models.complex.ComplexConfig`), and three more.

    A `rank` of 0 and `candidates` of -1 leave the choice to the hardware and the size of the knowledge base. `held_out`
    is the share of the facts that calibration is fitted on; probabilities are those of being among facts that are
    missing at this rate. `missing` says whether they are held out one by one (`facts`), or all between two entities
    together (`pairs`); `auto` looks at what a benchmark's validation asks for. Concept scores are fitted on `queries`
    queries of each template. `continued` is the share of the epochs in which the link predictor goes on in two ways:
    with the kept facts, for calibration, and with all.
    """

    rank: int = 0
    regularization: float = 5e-2
    relation_weight: float = 0.5
    candidates: int = -1
    initial: float = 1e-3
    experts: int = 2
    held_out: float = 0.1
    missing: str = "auto"
    queries: int = 300
    continued: float = 0.34

    def __post_init__(self) -> None:
        check_settings(self, {"missing": MISSING})
        if self.rank < 0 or self.candidates < -1 or self.initial <= 0:
            raise ConfigError(
                f"rank = {self.rank}, candidates = {self.candidates}, initial = {self.initial}: "
                "rank must be 0 or more, candidates -1 or more, and initial greater than 0"
            )
        if self.experts < 1 or self.rank % self.experts:
            raise ConfigError(f"rank = {self.rank}, experts = {self.experts}: experts must divide the rank")
        if self.regularization < 0 or self.relation_weight < 0:
            raise ConfigError(
                f"regularization = {self.regularization}, relation_weight = {self.relation_weight}: "
                "both must be 0 or more"
            )
        if not 0 < self.held_out < 1 or not 0 < self.continued < 1:
            raise ConfigError(
                f"held_out = {self.held_out}, continued = {self.continued}: both must lie between 0 and 1"
            )
        if self.queries < 1:
            raise ConfigError(f"queries = {self.queries}: it must be at least 1")


@final
@dataclass(frozen=True, slots=True)
class Credo(Learner):
    """Facts with probabilities, and the scores of concepts. Without a `ranking`, a concept has the probability that
    it describes any answer. `subsumptions` are predicted ones, where there are concepts to predict them of."""

    Config: ClassVar[type[CredoConfig]] = CredoConfig
    recipe: ClassVar[str | None] = "credo"
    in_processes: ClassVar[bool] = True

    index: Index
    probabilities: FactProbabilities
    features: ConceptFeatures
    ranking: Network | None
    priors: Priors = field(repr=False)
    subsumptions: Rows | None = field(default=None, repr=False)

    @classmethod
    def of(
        cls,
        index: Index,
        probabilities: FactProbabilities,
        sets: SetModel,
        ranking: Network | None = None,
    ) -> Credo:
        priors = Priors.of(index, Level.ENTITY)
        return cls(index, probabilities, ConceptFeatures.of(index, sets), ranking, priors)

    def supports(self, shape: Query) -> bool:  # noqa: ARG002
        """Any query."""
        return True

    def candidates(self, level: Level) -> int:
        return {Level.ENTITY: self.index.entities, Level.CONCEPT: self.index.concepts}[level]

    def fuzzy_sets(self, shape: Query, ids: Ids, background: Background | None = None) -> Floats:
        """[B, E] the probabilities of all entities as answers."""
        columns = {slot.name: ids[:, place] for place, slot in enumerate(slots(shape))}
        size = len(ids), self.index.entities
        ranges = {own: find_literals(own, self.index) for own in data_ranges(shape)}
        return compose(shape, ProbabilityAlgebra(self.probabilities, columns, size, background, ranges))

    def ask(self, shape: Query, ids: Ids) -> QueryBatch:
        """The queries with their sets and known answers."""
        return QueryBatch(shape, ids, self.fuzzy_sets(shape, ids), *answer_rows(shape, ids, self.index))

    def predict(self, shape: Query, ids: Ids) -> Prediction:
        """Both levels from one fuzzy set and one exact evaluation of each query; all rows at once."""
        batch = self.ask(shape, np.asarray(ids, np.int32))
        evidence = self.features.describe(batch, self.probabilities)
        degrees = self._degrees(batch, evidence)
        concepts = Rows(evidence.concepts.offsets, evidence.concepts.columns, degrees)
        return Prediction(batch.sets_BE, concepts, evidence.expected, batch.entities, batch.concepts, batch.counts)

    def score(self, shape: Query, ids: Ids, level: Level) -> Scores:
        """[B, N] what `tarbox eval` ranks by: probabilities and, for concepts, the ranking's without the bounds of
        proofs; a known concept has 1 and its expected number of members more, so it ranks by coverage."""
        ids = np.asarray(ids, np.int32)
        make = self._entity_scores if level is Level.ENTITY else self._concept_scores
        parts = [make(shape, block) for block in self._blocks(ids)]
        return np.concatenate(parts) if parts else np.zeros((0, self.candidates(level)))

    def _entity_scores(self, shape: Query, ids: Ids) -> Scores:
        found = self.fuzzy_sets(shape, ids, self._background).astype(np.float64)
        return found + _TIE * self.priors.relative(shape, ids)

    def _background(self, relations: Ids | None) -> Floats | float:
        """[B, E] what a conjunct counts that is not predicted at all."""
        if relations is None:
            return _FLOOR
        often = self.priors.of_relations(relations)
        often /= np.maximum(often.max(axis=1, keepdims=True), 1.0)
        return (_FLOOR + _FREQUENT * np.sqrt(often)).astype(np.float32)

    def _concept_scores(self, shape: Query, ids: Ids) -> Scores:
        batch = self.ask(shape, ids)
        evidence = self.features.describe(batch, self.probabilities)
        likely = self._likely(batch, evidence, union=join_alternatives)
        rows, columns = evidence.concepts.coordinates()
        found = np.zeros((len(ids), self.index.concepts))
        found[rows, columns] = np.where(evidence.known, 1.0 + evidence.expected, likely)
        members, depth = self.index.descriptions.entities_of.sizes(), self.index.descriptions.hierarchy.depth
        wider: Scores = np.log1p(members) - 1e-2 * depth
        return found + _TIE * wider  # of equals the wider concept first

    def _degrees(self, batch: QueryBatch, evidence: ConceptEvidence) -> Floats:
        """[N] probabilities: the ranking's, within what proofs allow, and never below a sub-concept's."""
        likely = self._likely(batch, evidence, union=np.maximum)
        upper = np.maximum(evidence.noisy_or, evidence.best_proof)
        found = np.clip(likely, evidence.best_proof, upper).astype(np.float32)
        return self._raise_to_narrower(evidence, found)

    def _likely(self, batch: QueryBatch, evidence: ConceptEvidence, union: Any) -> Floats:
        """[N] what the ranking says. A union has what its alternatives have, each of which is ranked by itself."""
        parts = alternatives(batch.shape)
        if not parts:
            return self._rank(evidence)
        found = np.zeros((len(batch.ids), self.index.concepts), np.float32)
        for shape, columns in parts:
            part = self.features.describe(self.ask(shape, batch.ids[:, columns]), self.probabilities)
            places = part.concepts.coordinates()
            found[places] = union(found[places], self._rank(part))
        chosen: Floats = found[evidence.concepts.coordinates()]
        return chosen

    def _rank(self, evidence: ConceptEvidence) -> Floats:
        found = evidence.noisy_or if self.ranking is None else self.ranking.apply(evidence.features)
        return self._raise_to_narrower(evidence, found.copy())

    def _raise_to_narrower(self, evidence: ConceptEvidence, values: Floats) -> Floats:
        from tarbox.models.credo.concept_kernels import raise_to_narrower

        ancestors, rows = self.index.instances.hierarchy.ancestors, evidence.concepts
        space = np.zeros(self.index.concepts, np.float32)
        for row in range(len(rows)):
            own = slice(rows.offsets[row], rows.offsets[row + 1])
            raise_to_narrower((ancestors.offsets, ancestors.columns), rows.columns[own], values[own], space)
        return values

    def _blocks(self, ids: Ids) -> Iterator[Ids]:
        rows = max(1, _AT_ONCE // max(self.index.entities, self.index.concepts, 1))
        return (ids[start : start + rows] for start in range(0, len(ids), rows))

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Everything that is not in the facts, for `of_arrays`."""
        held = self.probabilities
        found: dict[str, NDArray[Any]] = {
            "links/starts": held.starts,
            "links/near": held.near,
            "links/far": held.far,
            "links/degrees": held.degrees,
            "typings/offsets": held.concepts.offsets,
            "typings/concepts": held.concepts.columns,
            "typings/degrees": held.concepts.values,
            "sets/concepts": self.features.sets.kept,
            "sets/weights": self.features.sets.weights.astype(np.float16),
        }
        if self.subsumptions is not None:
            found |= {f"subsumptions/{name}": getattr(self.subsumptions, key) for name, key in _SUBSUMPTIONS.items()}
        return found | (self.ranking.arrays("ranking/") if self.ranking is not None else {})

    @classmethod
    def of_arrays(cls, facts: Facts, arrays: Mapping[str, NDArray[Any]], config: CredoConfig, device: str) -> Credo:  # noqa: ARG003
        """The model of a run, on the CPU whatever the device."""
        if "sets/concepts" not in arrays:
            raise StoreVersion("an earlier version of tarbox trained this run: train it again.")
        concepts = Rows(*(arrays[f"typings/{name}"] for name in ("offsets", "concepts", "degrees")))
        starts, near, far, degrees = (arrays[f"links/{name}"] for name in ("starts", "near", "far", "degrees"))
        probabilities = FactProbabilities.described(facts.annotations, (starts, near, far, degrees), concepts)
        hierarchy = Hierarchy.of(facts.subs, facts.supers, len(facts.vocabulary.concepts))
        instances = _known(probabilities.concepts, hierarchy)
        described = _known(probabilities.descriptions, hierarchy) if facts.annotations else instances
        index = Index.of(facts, at_hand=(instances, described))
        ranking = Network.of_arrays(arrays, "ranking/") if "ranking/mean" in arrays else None
        if ranking is not None and len(ranking.mean) != len(CONCEPT_FEATURES):
            raise StoreVersion("another version of tarbox trained this run, with other features: train it again.")
        sets = SetModel(arrays["sets/concepts"], arrays["sets/weights"].astype(np.float32))
        known = cls.of(index, probabilities, sets, ranking)
        predicted = [arrays[f"subsumptions/{name}"] for name in _SUBSUMPTIONS if f"subsumptions/{name}" in arrays]
        return replace(known, subsumptions=Rows(*predicted) if predicted else None)

    @classmethod
    def resolve(cls, config: CredoConfig, data: TrainingData, device: torch.device) -> CredoConfig:
        """With the rank and the candidates that fit the hardware and the size of the knowledge base, and what is held
        out as what validation asks for is missing."""
        from tarbox.models.credo.holdout import asks_for_unjoined

        rank, candidates, most = _FITTING[device.type]
        nodes = len(data.facts.vocabulary.entities), len(data.facts.vocabulary.concepts)
        if max(nodes) <= most:
            candidates = 0
        if sum(nodes) > _SMALL:
            rank //= 2
        missing = config.missing
        if missing == "auto":
            in_pairs = data.valid is not None and asks_for_unjoined(data.facts, data.valid)
            missing = "pairs" if in_pairs else "facts"
        return replace(
            config,
            rank=config.rank or rank,
            candidates=candidates if config.candidates < 0 else config.candidates,
            missing=missing,
        )

    @classmethod
    def learn(cls, config: CredoConfig, data: TrainingData, context: RunContext) -> Mapping[str, Tensor]:
        """See `tarbox.models.credo.learning`."""
        from tarbox.models.credo.learning import learn

        return learn(config, data, context)


def _known(concepts: Rows, hierarchy: Hierarchy) -> Instances:
    """The closed ones of a run's facts, which are among those with probabilities: they have 1, and no others do."""
    known = concepts.values >= 1.0
    offsets = np.append(0, np.cumsum(known))[concepts.offsets]
    concepts_of = Rows(offsets, concepts.columns[known])
    return Instances(hierarchy, concepts_of, concepts_of.transpose(len(hierarchy)))


@lru_cache(1024)
def alternatives(shape: Query) -> tuple[tuple[Query, list[int]], ...]:
    """The conjunctive queries whose union a shape is, each with the places of its slots among those of the shape; none
    where it is no union, or one of too many.

    >>> from tarbox.query.templates import TEMPLATES
    >>> [columns for _, columns in alternatives(TEMPLATES["up"].shape)]  # ?r1 some ((?r2 value ?e1) or (?r3 value ?e2))
    [[0, 1, 2], [0, 3, 4]]
    """
    try:
        normal = disjunctive_normal_form(shape, _ALTERNATIVES)
    except QueryTooLarge:
        return ()
    places = {slot.name: place for place, slot in enumerate(slots(shape))}
    parts = normal.operands if isinstance(normal, Or) else ()
    return tuple((part, [places[slot.name] for slot in slots(part)]) for part in parts)
