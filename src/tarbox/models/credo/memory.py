"""How much memory training takes, said before it begins: a formula of counts and settings.

The constants are fitted to peaks of trainings on a processor (docs/results/training-memory.json); how many candidates
of a question a predictor finds plausible depends on the data, so that it is about right and no bound.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from tarbox.kb.facts import Facts
from tarbox.kb.rows import distinct, pair_keys
from tarbox.models.credo.candidates import most_candidates
from tarbox.models.credo.features import LINK_FEATURES
from tarbox.models.credo.holdout import sampled_share
from tarbox.models.credo.model import CredoConfig
from tarbox.models.learning.batches import BatchConfig

_ALWAYS: Final = 200_000_000
"""Bytes that the smallest training takes: compiled code, threads, blocks of scores."""
_PLAUSIBLE: Final = 1.1
"""Candidates, about, as a multiple of the most of one question for each question that the facts answer: signatures
make more questions plausible."""
_FACT: Final = 600
"""Bytes for a fact, with its closure, as evidence, an index and a list of probabilities hold it."""
_CONCEPT: Final = 17_000
"""Bytes for a concept, with its neighbours and its candidates for super-concepts."""

_SCORES: Final = 1 << 26
"""Of a step, where candidates are drawn, unless that would be fewer than `_FEWEST_RIVALS` for a link."""
_FEWEST_RIVALS: Final = 2048


class TrainingSize(NamedTuple):
    """What there is to learn from; `questions` are the distinct pairs of an entity and a directed relation it has."""

    entities: int
    concepts: int
    relations: int
    assertions: int
    typings: int
    subsumptions: int
    questions: int

    @classmethod
    def of(cls, facts: Facts) -> TrainingSize:
        width = len(facts.vocabulary.entities)
        asked = sum(len(distinct(pair_keys(facts.relations, ends, width))) for ends in (facts.heads, facts.tails))
        return cls(**{name: count for name, count in facts.counts().items() if name in cls._fields}, questions=asked)

    @property
    def links(self) -> int:
        """About how many links an epoch has."""
        return 2 * self.assertions + self.typings + 2 * self.subsumptions


def step_size(size: TrainingSize, batches: BatchConfig) -> int:
    """About how many links a step has."""
    return max(batches.size, size.links // batches.most_steps if batches.most_steps else 0)


def rivals_of(config: CredoConfig, size: TrainingSize, batches: BatchConfig) -> int:
    """How many candidates are drawn for a step (0: all are taken). Fewer than the settings say where steps are so large
    that their scores would grow with the facts; a multiple of what the kernels of a GPU take at a time."""
    return min(config.candidates, max(_FEWEST_RIVALS, _SCORES // step_size(size, batches) // 256 * 256))


class MemoryNeeded(NamedTuple):
    """Bytes of each large thing; tables and a batch are on the device where that is a GPU."""

    tables: int
    batch: int
    features: int
    links: int
    others: int

    @classmethod
    def of(cls, config: CredoConfig, size: TrainingSize, batches: BatchConfig) -> MemoryNeeded:
        """`tables` is one table of embeddings: four of two predictors, with Adagrad's sums, are held at a time, and as
        many again by a checkpoint that is being written."""
        step = step_size(size, batches)
        nodes = max(size.entities, size.concepts)
        rivals = min(rivals_of(config, size, batches) or nodes, nodes)
        found = _PLAUSIBLE * most_candidates(size.assertions) * size.questions
        return cls(
            tables=8 * config.rank * (size.entities + size.concepts + 2 * size.relations + 3),
            batch=step * (20 * rivals + 112 * config.rank),
            features=int(found * sampled_share(size.assertions)) * 4 * len(LINK_FEATURES),
            others=_FACT * (size.assertions + size.typings + size.subsumptions) + _CONCEPT * size.concepts,
            links=20 * size.links,
        )

    def split(self, gpu: bool) -> tuple[int, int]:
        """(of the machine, of the device). Features are held about five times, when most of the tables are gone; on a
        GPU once more there, and tables on the machine by a checkpoint alone."""
        least = _ALWAYS + self.others + self.links
        if gpu:
            return least + max(6 * self.tables, 5 * self.features), 5 * self.tables + self.batch + self.features
        return least + max(8 * self.tables + self.batch, 3 * self.tables + 5 * self.features), 0

    @property
    def beside_shards(self) -> int:
        """Of the device, where tables come to it in shards: links, about twice, and a batch."""
        return self.batch + 2 * self.links

    def advice(self, config: CredoConfig, batches: BatchConfig) -> str:
        """The setting that helps most."""
        if self.batch > 8 * self.tables:
            return f"Take a smaller step: --set batches.size={max(1, batches.size // 2)}."
        half = config.rank // 2 // config.experts * config.experts
        most = 5 * self.features + self.others + self.links > 8 * self.tables
        more = " Most of it grows with the facts, whatever the rank: take fewer, or more memory." if most else ""
        return f"Lower the rank: --set rank={max(config.experts, half)}.{more}"
