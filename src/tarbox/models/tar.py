"""TAR: neural logical reasoning across TBox and ABox, equation by equation (see docs/tar.md for the walk).

Concepts and queries are fuzzy sets over all entities (`tarbox.models.sets`, Eq. 6-11). Concept retrieval compares them
(`tarbox.models.divergence`, Eq. 12-13), entity retrieval translates (`tarbox.models.translation`, Eq. 14); subsumption
and instantiation are Eq. 15 and 16, here.
"""

# ruff: noqa: N803, N806 (shape suffixes)

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Final, Self, final

import torch
from torch import Tensor, nn

from tarbox.core.config import check_settings
from tarbox.core.errors import ConfigError
from tarbox.core.ids import Level
from tarbox.execution.interpreter import evaluate
from tarbox.models.base import ALL_TASKS, Model, Sizes, Task, columns, on_device
from tarbox.models.divergence import Halves, pair_similarity, similarity
from tarbox.models.fuzzy import T_NORMS
from tarbox.models.sets import Embeddings, FuzzyAlgebra, FuzzySet, Universe, widen
from tarbox.models.translation import ATTENTIONS, UNIONS, TranslationAlgebra, xavier
from tarbox.query.algebra import And, Concept, Not, Query, walk

if TYPE_CHECKING:
    from tarbox.kb.arrays import Ids

_TERMS_AT_A_TIME: Final = 1 << 25
_CHOICES: Final = {
    "t_norm": T_NORMS,
    "attention": ATTENTIONS,
    "union": UNIONS,
    "projection": ("fuzzy", "dot"),
    "instantiation": ("sigmoid", "logit"),
}


@final
@dataclass(frozen=True, slots=True)
class TarConfig:
    """The settings of `Tar`; the defaults are the paper's (Section 4.1).

    Choices: `t_norm` product, godel, lukasiewicz. `projection` fuzzy (fuzzy sets for every query) or dot (a dot product
    where a query has projections and unions only, as the published code; ADR 0007). `detach_entities`: no gradient into
    the entities as members of fuzzy sets in concept retrieval (ADR 0008). `attention` ordered, softmax, invariant (ADR
    0010). `union` score or vector (ADR 0011). `instantiation` sigmoid as Eq. 16, or logit as the published code (ADR
    0013).

    Scales multiply what the loss sees, never what is ranked or shown (ADR 0012): `similarity_scale` S_Con,
    `distance_scale` the distance in S_Ent, `membership_scale` degrees of membership. `offset` is added to every
    similarity before the sigmoid. `initial_range`: uniform initial embeddings in +-range; 0 means Xavier's.
    """

    dimension: int = 256
    margin: float = 12.0
    p: float = 1.0
    epsilon: float = 1e-12
    t_norm: str = "product"
    projection: str = "fuzzy"
    detach_entities: bool = False
    attention: str = "ordered"
    union: str = "score"
    instantiation: str = "sigmoid"
    similarity_scale: float = 1.0
    distance_scale: float = 1.0
    membership_scale: float = 1.0
    offset: float = 0.0
    initial_range: float = 0.0

    def __post_init__(self) -> None:
        scales = ("similarity_scale", "distance_scale", "membership_scale")
        check_settings(self, _CHOICES, ("dimension", "epsilon", *scales))
        if not self.p >= 1:
            raise ConfigError(f"p = {self.p}: a norm needs p of 1 or more")


@final
class Tar(Model):
    """The model of the paper. Relations have an embedding for each direction.

    >>> _ = torch.manual_seed(0)
    >>> model = Tar(TarConfig(dimension=8), Sizes(entities=5, concepts=3, relations=2))
    >>> from tarbox.query.templates import TEMPLATES
    >>> model.score(TEMPLATES["2i"].shape, torch.tensor([[0, 1, 3, 2]]), Level.CONCEPT).shape
    torch.Size([1, 3])
    """

    Config: ClassVar[type[TarConfig]] = TarConfig
    tasks: ClassVar[frozenset[Task]] = ALL_TASKS

    def __init__(self, config: TarConfig, sizes: Sizes) -> None:
        super().__init__(sizes)
        self.config = config
        self._kept: tuple[object, Halves] | None = None
        self.entities = self._table(sizes.entities)
        self.concepts = self._table(sizes.concepts)
        self.relations = self._table(sizes.directed)
        self.attention = ATTENTIONS[config.attention](config.dimension)
        self.inclusion = nn.Sequential(
            nn.Linear(2 * config.dimension, config.dimension), nn.ReLU(), nn.Linear(config.dimension, 1)
        )
        xavier(self.inclusion)

    def train(self, mode: bool = True) -> Self:
        """Training changes the weights, by ways that their version does not tell: what was kept of them is stale."""
        self._kept = None
        return super().train(mode)

    def score(self, shape: Query, ids_BS: Ids | Tensor, level: Level) -> Tensor:
        """[B, N]: Eq. 12 or a dot product for concepts; Eq. 14 or a degree of membership for entities."""
        self.require(shape)
        with torch.no_grad():
            ids = on_device(ids_BS, self.entities.device)
            if level is Level.CONCEPT:
                return self._dot_all(shape, ids) if self._is_dot(shape) else self._similarity_all(shape, ids)
            return self._distance_all(shape, ids) if _is_translation(shape) else self._membership_all(shape, ids)

    def score_candidates(self, shape: Query, ids_BS: Tensor, level: Level, candidates_BK: Tensor) -> Tensor:
        """[B, K], with gradient and the scales of the config."""
        if level is Level.CONCEPT and self._is_dot(shape):
            return self._dot(shape, ids_BS, candidates_BK)
        if level is Level.CONCEPT:
            return self.config.similarity_scale * self._similarity(shape, ids_BS, candidates_BK)
        if _is_translation(shape):
            return self._distance(shape, ids_BS, candidates_BK)
        chosen_BKD = self._embeddings().entity(candidates_BK)
        universe = Universe(chosen_BKD, self.config.offset, candidates_BK)
        return self.config.membership_scale * self._set(shape, ids_BS).degrees(universe)

    def subsumption(self, subs_BK: Tensor, supers_BK: Tensor) -> Tensor:
        """Eq. 15: h(c1, c2; theta), a two-layer ReLU network over both embeddings."""
        embeddings = self._embeddings()
        both = torch.cat([embeddings.concept(subs_BK), embeddings.concept(supers_BK)], dim=-1)
        return widen(self.inclusion(both)).squeeze(-1)

    def instantiation(self, entities_BK: Tensor, concepts_BK: Tensor) -> Tensor:
        """Eq. 16: sigma(c e), or c e itself where the config says logit."""
        embeddings = self._embeddings()
        product = (embeddings.entity(entities_BK) * embeddings.concept(concepts_BK)).sum(-1) + self.config.offset
        return self.config.membership_scale * (
            torch.sigmoid(product) if self.config.instantiation == "sigmoid" else product
        )

    def degrees(self, shape: Query, ids_BS: Ids | Tensor) -> Tensor:
        """[B, E] the fuzzy set of each query (Eq. 8-11), for inference."""
        with torch.no_grad():
            return self._membership_all(shape, on_device(ids_BS, self.entities.device))

    def concept_halves(self, rows: Tensor | slice) -> Halves:
        """The fuzzy sets of the given concepts (Eq. 6), normalised (Eq. 13) and scaled."""
        sets = self._everyone().squash(self.concepts[: self.sizes.concepts][rows])
        return Halves.of(sets, self.config.p, self.config.epsilon)

    def query_halves(self, shape: Query, ids_BS: Tensor) -> Halves:
        """The fuzzy sets of the queries, normalised (Eq. 13) and scaled."""
        everyone = self._everyone()
        return Halves.of(self._set(shape, ids_BS).degrees(everyone), self.config.p, self.config.epsilon)

    def _similarity(self, shape: Query, ids_BS: Tensor, candidates_BK: Tensor) -> Tensor:
        """Eq. 12 for pairs. Few concepts: the sets of all, once. Many: those of the candidates."""
        if candidates_BK.numel() >= self.sizes.concepts:
            table, rows_BK = self.concept_halves(slice(None)), candidates_BK
        else:
            table = self.concept_halves(candidates_BK.flatten())
            rows_BK = torch.arange(candidates_BK.numel(), device=candidates_BK.device).view_as(candidates_BK)
        return pair_similarity(table, self.query_halves(shape, ids_BS), rows_BK)

    def _similarity_all(self, shape: Query, ids_BS: Tensor) -> Tensor:
        """Eq. 12 for all concepts, a block of concepts and of queries at a time: memory does not grow with either."""
        scores_BC = self.entities.new_empty(len(ids_BS), self.sizes.concepts)
        rows = max(1, _TERMS_AT_A_TIME // max(self.sizes.entities, 1))
        for concepts in _blocks(self.sizes.concepts, rows):
            table = self._kept_halves() if rows >= self.sizes.concepts else self.concept_halves(concepts)
            for queries in _blocks(len(ids_BS), rows):
                scores_BC[queries, concepts] = similarity(table, self.query_halves(shape, ids_BS[queries]))
        return scores_BC

    def _kept_halves(self) -> Halves:
        """The fuzzy sets of all concepts; a model in use, whose weights stay as they are, computes them once."""
        if self.training:
            return self.concept_halves(slice(None))
        weights = (self.entities, self.concepts)
        state = tuple((table.data_ptr(), table._version, table.dtype) for table in weights)
        if self._kept is None or self._kept[0] != state:
            self._kept = (state, self.concept_halves(slice(None)).settled())
        return self._kept[1]

    def _dot(self, shape: Query, ids_BS: Tensor, candidates_BK: Tensor) -> Tensor:
        """The best product of an alternative with the concept's embedding, as published."""
        concepts_BKD = self._embeddings().concept(candidates_BK)
        return widen(torch.einsum("ubd,bkd->ubk", self._vectors(shape, ids_BS), concepts_BKD)).amax(0)

    def _dot_all(self, shape: Query, ids_BS: Tensor) -> Tensor:
        return (self._vectors(shape, ids_BS) @ self.concepts[: self.sizes.concepts].T).amax(0)

    def _distance(self, shape: Query, ids_BS: Tensor, candidates_BK: Tensor) -> Tensor:
        """Eq. 14: gamma - |q - e|, of the nearest alternative."""
        chosen_BKD = self._embeddings().entity(candidates_BK)
        apart_UBK = (self._vectors(shape, ids_BS)[:, :, None] - chosen_BKD).abs().sum(-1)
        return self.config.margin - self.config.distance_scale * apart_UBK.amin(0)

    def _distance_all(self, shape: Query, ids_BS: Tensor) -> Tensor:
        """Eq. 14 for all entities."""
        vectors_UBD = self._vectors(shape, ids_BS)
        members_ED = self.entities[: self.sizes.entities]
        nearest_BE = torch.cdist(vectors_UBD[0], members_ED, p=1)
        for vectors_BD in vectors_UBD[1:]:
            torch.minimum(nearest_BE, torch.cdist(vectors_BD, members_ED, p=1), out=nearest_BE)
        return nearest_BE.neg_().add_(self.config.margin)

    def _membership_all(self, shape: Query, ids_BS: Tensor) -> Tensor:
        universe = Universe(self.entities[: self.sizes.entities], self.config.offset)
        return self._set(shape, ids_BS).degrees(universe)

    def _set(self, shape: Query, ids_BS: Tensor) -> FuzzySet:
        return evaluate(shape, FuzzyAlgebra(columns(shape, ids_BS), self._embeddings(), T_NORMS[self.config.t_norm]))

    def _vectors(self, shape: Query, ids_BS: Tensor) -> Tensor:
        """[U, B, D]"""
        algebra = TranslationAlgebra(
            columns(shape, ids_BS), self._embeddings(), self.attention, UNIONS[self.config.union]
        )
        return evaluate(shape, algebra).alternatives

    def _everyone(self) -> Universe:
        """All entities as the members of fuzzy sets in concept retrieval."""
        members_ED = self.entities[: self.sizes.entities]
        return Universe(members_ED.detach() if self.config.detach_entities else members_ED, self.config.offset)

    def _embeddings(self) -> Embeddings:
        return Embeddings(self.entities, self.concepts, self.relations)

    def _is_dot(self, shape: Query) -> bool:
        """Whether concepts are scored by a dot product: projections and unions only."""
        return self.config.projection == "dot" and not any(isinstance(node, And | Not) for node in walk(shape))

    def _table(self, rows: int) -> nn.Parameter:
        """[rows, D] initial embeddings; one row at least, since an empty table has no initial values."""
        table = torch.empty(max(rows, 1), self.config.dimension)
        if self.config.initial_range > 0:
            nn.init.uniform_(table, -self.config.initial_range, self.config.initial_range)
        else:
            nn.init.xavier_uniform_(table)
        return nn.Parameter(table)


def _is_translation(shape: Query) -> bool:
    """Whether Eq. 14 has a meaning for the query: without negation and concept leaves."""
    return not any(isinstance(node, Not | Concept) for node in walk(shape))


def _blocks(size: int, rows: int) -> Iterable[slice]:
    return (slice(start, min(start + rows, size)) for start in range(0, size, rows))
