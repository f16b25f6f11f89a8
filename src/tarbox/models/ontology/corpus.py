"""Ontologies as text: sentences of names and words, word vectors of them (word2vec), and a similarity of vectors.

A subclass makes the sentences. Tokens are `e7`, `c7` and `r7` for the rows of the vocabulary, and the words of labels
as they are (a word has letters or digits, never both). The vectors are those of skip-gram with negative sampling
(Mikolov et al. 2013, by gensim) and stay as they are. What is learnt upon them, from typings and subsumptions, is how
a similarity becomes log-odds: of the cosine a scale and an offset; or a network over both vectors, which is a
classifier.

Shape letters: E entities, C concepts, D numbers of a vector.
"""

# ruff: noqa: N803, N806 (shape suffixes)

from __future__ import annotations

import abc
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, ClassVar, Final, cast, final

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from tarbox.core.config import check_settings
from tarbox.core.errors import MissingDependency
from tarbox.core.ids import Role
from tarbox.kb.arrays import Floats
from tarbox.kb.closure import Instances
from tarbox.kb.vocabulary import Vocabulary
from tarbox.models.base import Sizes, Task
from tarbox.models.learning.batches import SampleSource
from tarbox.models.learning.seam import RunContext, TrainingData
from tarbox.models.learning.sources import subsumption_pairs, typing_pairs
from tarbox.models.ontology.describing import DescribingModel, Platt, in_parts

LETTERS: Final = {Role.ENTITY: "e", Role.CONCEPT: "c", Role.RELATION: "r"}


@dataclass(frozen=True, slots=True)
class CorpusConfig:
    """Word vectors of `dimension` numbers from `passes` over the sentences with this `window`; where `labels` are read,
    a name has the mean vector of its words beside its own. `similarity` is network, with `hidden` units, or cosine.
    `answers` of a query are compared at most."""

    dimension: int = 100
    window: int = 5
    passes: int = 5
    labels: bool = True
    similarity: str = "network"
    hidden: int = 100
    answers: int = 32

    def __post_init__(self) -> None:
        positive = ("dimension", "window", "passes", "hidden", "answers")
        check_settings(self, {"similarity": tuple(SIMILARITIES)}, positive)


class Similarity(nn.Module):
    """Log-odds that what has one vector is below what has the other: `forward` of pairs that broadcast [.., D]."""

    @abc.abstractmethod
    def __init__(self, width: int, hidden: int) -> None:
        super().__init__()

    @abc.abstractmethod
    def table(self, near_UD: Tensor, far_CD: Tensor) -> Tensor:
        """[U, C] of each with each."""


@final
class Cosine(Similarity):
    """Log-odds from the cosine."""

    def __init__(self, width: int, hidden: int) -> None:
        super().__init__(width, hidden)
        self.odds = Platt()

    def forward(self, near: Tensor, far: Tensor) -> Tensor:
        return cast(Tensor, self.odds((direction(near) * direction(far)).sum(-1)))

    def table(self, near_UD: Tensor, far_CD: Tensor) -> Tensor:
        return cast(Tensor, self.odds(direction(near_UD) @ direction(far_CD).T))


@final
class Classifier(Similarity):
    """Log-odds from both vectors: one hidden layer."""

    def __init__(self, width: int, hidden: int) -> None:
        super().__init__(width, hidden)
        self.near, self.far = nn.Linear(width, hidden), nn.Linear(width, hidden, bias=False)
        self.outer = nn.Linear(hidden, 1)

    def forward(self, near: Tensor, far: Tensor) -> Tensor:
        return self._odds(self.near(near) + self.far(far))

    def table(self, near_UD: Tensor, far_CD: Tensor) -> Tensor:
        far_CH = self.far(far_CD)
        return in_parts(self.near(near_UD), far_CH.numel(), lambda part: self._odds(part[:, None] + far_CH))

    def _odds(self, inner: Tensor) -> Tensor:
        return cast(Tensor, self.outer(functional.relu(inner, inplace=True))).squeeze(-1)


def direction(vectors: Tensor) -> Tensor:
    """Of length 1; a vector of 0 has none and stays."""
    return functional.normalize(vectors, dim=-1)


SIMILARITIES: Final[Mapping[str, type[Similarity]]] = MappingProxyType({"cosine": Cosine, "network": Classifier})


class CorpusModel(DescribingModel):
    """Vectors [E, D] and [C, D], frozen, and a similarity for typings and one for subsumptions."""

    tasks: ClassVar[frozenset[Task]] = frozenset({Task.SUBSUMPTION, Task.INSTANTIATION})
    recipe: ClassVar[str | None] = "ontology"
    entities: Tensor
    concepts: Tensor

    def __init__(self, config: CorpusConfig, sizes: Sizes) -> None:
        super().__init__(sizes, config.answers)
        width = config.dimension * (2 if config.labels else 1)
        self.register_buffer("entities", torch.zeros(sizes.entities, width))
        self.register_buffer("concepts", torch.zeros(sizes.concepts, width))
        self.words = config
        self.typing, self.inclusion = (SIMILARITIES[config.similarity](width, config.hidden) for _ in range(2))

    @abc.abstractmethod
    def corpus(self, data: TrainingData, seed: int) -> Iterable[Sequence[str]]:
        """The sentences; they are read several times."""

    @final
    def points(self) -> Tensor:
        return direction(self.entities)

    @final
    def instantiation(self, entities_BK: Tensor, concepts_BK: Tensor) -> Tensor:
        return cast(Tensor, self.typing(self.entities[entities_BK], self.concepts[concepts_BK]))

    @final
    def memberships(self, entities_U: Tensor, concepts: slice) -> Tensor:
        return self.typing.table(self.entities[entities_U], self.concepts[concepts])

    @final
    def subsumption(self, subs_BK: Tensor, supers_BK: Tensor) -> Tensor:
        return cast(Tensor, self.inclusion(self.concepts[subs_BK], self.concepts[supers_BK]))

    @final
    def sources(self, data: TrainingData, context: RunContext) -> Sequence[SampleSource]:
        """Trains the word vectors; what is left to learn are pairs."""
        context.plan({"training word vectors": 0.7, "fitting memberships": 0.3})
        context.begin("training word vectors")
        vectors = train_vectors(self.corpus(data, context.seed), self.words, context)
        words = data.facts.vocabulary
        for role, table in ((Role.ENTITY, self.entities), (Role.CONCEPT, self.concepts)):
            table.copy_(torch.from_numpy(vectors_of(words, role, vectors, self.words)))
        context.begin("fitting memberships")
        instances = Instances.of(data.facts)
        described = instances.describe(data.facts)
        pairs = [
            subsumption_pairs(data.facts, instances, context.device),
            typing_pairs(described, self.sizes.entities, context.device),
        ]
        tasks = context.objective.tasks(self.tasks)
        return [source for source in pairs if source.task in tasks]


def train_vectors(sentences: Iterable[Sequence[str]], config: CorpusConfig, context: RunContext) -> Mapping[str, Any]:
    """The vector of every token; one thread, so that the seed decides everything."""
    try:
        from gensim.models import Word2Vec
    except ImportError:
        raise MissingDependency("word vectors are trained by gensim: pip install 'tarbox[corpus]'") from None
    size = {"vector_size": config.dimension, "window": config.window}
    model = Word2Vec(**size, min_count=1, sg=1, negative=5, seed=context.seed, workers=1)
    model.build_vocab(sentences)
    for done in range(config.passes):
        rates = [model.alpha + (model.min_alpha - model.alpha) * end / config.passes for end in (done, done + 1)]
        given = {"total_examples": model.corpus_count, "epochs": 1}
        model.train(sentences, **given, start_alpha=rates[0], end_alpha=rates[1])
        context.progress((done + 1) / config.passes)
    return {token: model.wv[token] for token in model.wv.index_to_key}


def vectors_of(words: Vocabulary, role: Role, vectors: Mapping[str, Any], config: CorpusConfig) -> Floats:
    """[rows, D] of the names of a role; a token that no sentence has is 0."""
    nothing, names = np.zeros(config.dimension, np.float32), words.names(role)
    own = [vectors.get(token, nothing) for token in tokens_of(words, role)]
    if config.labels:
        spoken = [[vectors.get(word, nothing) for word in names.words(row)] or [nothing] for row in range(len(names))]
        own = [np.concatenate([vector, np.mean(said, 0)]) for vector, said in zip(own, spoken, strict=True)]
    width = config.dimension * (2 if config.labels else 1)
    return np.array(own, np.float32).reshape(len(names), width)


def tokens_of(words: Vocabulary, role: Role) -> list[str]:
    """What stands for each name of a role in sentences."""
    return [f"{LETTERS[role]}{row}" for row in range(len(words.names(role)))]
