"""OWL2Vec*: random walks over the graph of an ontology, in names and in words (Chen et al. 2021).

The graph has the assertions, typings, subsumptions and the links that axioms say of classes, all of them in both
directions. From every node so many `walks` of `depth` steps begin. A walk is a sentence three times: of names; of the
words of their labels; and of words with one name left, at random. Memberships and subsumptions are then told by a
classifier over both vectors, which is a network here (the paper has a random forest).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, final

import numpy as np
from numpy.typing import NDArray

from tarbox.core.config import check_settings
from tarbox.core.ids import Role
from tarbox.kb.arrays import Places
from tarbox.kb.normal_forms import NormalForm, Normalised, normalise
from tarbox.kb.rows import offsets_of
from tarbox.kb.vocabulary import Vocabulary
from tarbox.models.learning.seam import TrainingData
from tarbox.models.ontology.corpus import CorpusConfig, CorpusModel, tokens_of

TYPING_TOKEN, SUBSUMPTION_TOKEN = "type", "subClassOf"


@final
@dataclass(frozen=True, slots=True)
class Owl2VecConfig(CorpusConfig):
    """`walks` of `depth` steps begin at every node."""

    walks: int = 10
    depth: int = 4

    def __post_init__(self) -> None:
        CorpusConfig.__post_init__(self)
        check_settings(self, {}, ("walks", "depth"))


@final
class Owl2Vec(CorpusModel):
    """Vectors of walks, and a classifier."""

    Config: ClassVar[type[Owl2VecConfig]] = Owl2VecConfig

    def __init__(self, config: Owl2VecConfig, sizes: Any) -> None:
        super().__init__(config, sizes)
        self.config = config

    def corpus(self, data: TrainingData, seed: int) -> Iterable[Sequence[str]]:
        words = data.facts.vocabulary
        graph = WalkGraph.of(normalise(data.facts, data.axioms()), words)
        walks = graph.walk(self.config.walks, self.config.depth, np.random.default_rng(seed))
        return WalkCorpus(walks, *_texts(words), self.config.labels, seed)


@final
@dataclass(frozen=True, slots=True)
class WalkGraph:
    """The steps from node n are those from `offsets[n]` to `offsets[n + 1]`: along a relation, numbered after the
    nodes, to a node."""

    offsets: Places
    relations: Places
    ends: Places

    @classmethod
    def of(cls, forms: Normalised, words: Vocabulary) -> WalkGraph:
        """Expressions without a name are no nodes."""
        nodes, typing = len(words.entities) + len(words.concepts), len(words.relations)
        steps = []
        for form, relation in (
            (NormalForm.TYPING, typing),
            (NormalForm.SUBSUMPTION, typing + 1),
            (NormalForm.ASSERTION, None),
            (NormalForm.LINK, None),
        ):
            rows = forms.rows[form]
            along = rows[:, 0] if relation is None else np.full(len(rows), relation)
            steps += [np.stack([rows[:, near], along, rows[:, far]], 1) for near, far in ((-2, -1), (-1, -2))]
        table = np.concatenate(steps)
        table = table[(table[:, [0, 2]] < nodes).all(1)]
        table = table[np.argsort(table[:, 0], kind="stable")]
        return cls(offsets_of(np.bincount(table[:, 0], minlength=nodes)), table[:, 1] + nodes, table[:, 2])

    def walk(self, walks: int, depth: int, random: np.random.Generator) -> Places:
        """[nodes * walks, 2 * depth + 1] nodes and relations by turns; -1 after a node without a step."""
        at = np.tile(np.arange(len(self.offsets) - 1), walks)
        found = np.full((len(at), 2 * depth + 1), -1)
        found[:, 0] = at
        sizes = np.diff(self.offsets)
        moving = np.flatnonzero(sizes[at] > 0)
        for step in range(depth):
            places = self.offsets[at[moving]] + (random.random(len(moving)) * sizes[at[moving]]).astype(np.int64)
            at[moving] = self.ends[places]  # every step can be taken back: who moves once can always move on
            found[moving, 2 * step + 1], found[moving, 2 * step + 2] = self.relations[places], at[moving]
        return found


@final
@dataclass(frozen=True, slots=True)
class WalkCorpus:
    """Walks as sentences; `names` and `spoken` are the token and the words of each node and relation."""

    walks: Places
    names: NDArray[np.object_]
    spoken: Sequence[Sequence[str]]
    labels: bool
    seed: int

    def __iter__(self) -> Iterator[list[str]]:
        kept = np.random.default_rng(self.seed).random(len(self.walks))
        for walk, share in zip(self.walks, kept.tolist(), strict=True):
            parts = walk[walk >= 0].tolist()
            yield [self.names[part] for part in parts]
            if self.labels:
                yield [word for part in parts for word in self.spoken[part]]
                left = parts[2 * int(share * (len(parts) // 2 + 1))]
                yield [word for part in parts for word in ([self.names[part]] if part == left else self.spoken[part])]


def _texts(words: Vocabulary) -> tuple[NDArray[np.object_], list[list[str]]]:
    """Of nodes, then relations, then the two that typings and subsumptions are."""
    roles, more = (Role.ENTITY, Role.CONCEPT, Role.RELATION), [TYPING_TOKEN, SUBSUMPTION_TOKEN]
    tokens = [token for role in roles for token in tokens_of(words, role)]
    spoken = [words.names(role).words(row) for role in roles for row in range(len(words.names(role)))]
    return np.array([*tokens, *more], object), [*spoken, *([one] for one in more)]
