"""What a benchmark is built with."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, Final, final

from tarbox.core.errors import ConfigError
from tarbox.kb.facts import SPLITS, Facts
from tarbox.kb.splits import Split, SplitBy, keep_connected, split_as_paper, split_honestly
from tarbox.query.algebra import Query
from tarbox.query.templates import TEMPLATES, template

EVALUATION_ONLY: Final = frozenset({"pi", "ip", "2u", "up"})
"""Templates that no model is trained on, as in the paper."""

CALIBRATION: Final = "calibration"
"""The table of queries drawn whether or not they have a hard answer (docs/adr/0024)."""

CALIBRATED: Final = ("1p", "2p")
"""The templates of that table."""

QUERY_TABLES: Final = (*SPLITS, CALIBRATION)
"""The query tables that a benchmark may have."""

PAPER_TEMPLATES: Final = ("1p", "2p", "3p", "2i", "3i", "pi", "ip", "2u", "up")


class Protocol(Enum):
    """How facts are divided and which answers are asked for (docs/benchmarks.md)."""

    HONEST = "honest"
    PAPER = "paper"


def default_shapes(protocol: Protocol = Protocol.HONEST) -> Mapping[str, Query]:
    """The fourteen templates; for the paper's protocol the nine of its tables."""
    names = TEMPLATES if protocol is Protocol.HONEST else PAPER_TEMPLATES
    return {name: TEMPLATES[name].shape for name in names}


def choose_shapes(names: str | None, own: Sequence[str], protocol: Protocol) -> Mapping[str, Query]:
    """The templates of a comma-separated list (the default where None) and those written as ``NAME=EXPRESSION``."""
    chosen = dict(default_shapes(protocol))
    if names is not None:
        chosen = dict(default_shapes())
        wanted = [name.strip() for name in names.split(",") if name.strip()]
        unknown = [name for name in wanted if name not in chosen]
        if unknown:
            raise ConfigError(f"no template {unknown[0]!r}; there are {', '.join(chosen)}")
        chosen = {name: chosen[name] for name in wanted}
    for definition in own:
        name, equals, text = definition.partition("=")
        if not equals or not name.strip():
            raise ConfigError(
                f"a template is NAME=EXPRESSION, such as 'ci=?c1 and (?r1 value ?e1)', not {definition!r}"
            )
        chosen[name.strip()] = template(name.strip(), text.strip()).shape
    return chosen


@final
@dataclass(frozen=True, slots=True)
class BenchmarkOptions:
    """The settings of `tarbox bench build`.

    `counts` are the queries wanted per template and level for train, valid and test. A query with more than
    `max_answers` answers to rank is left out. `calibration` are the queries of each template and level that degrees are
    checked with, and as many that they are fitted to, under the honest protocol alone. Entities in fewer than
    `min_degree` assertions are left out. Where `balanced`, valid and test ask for one answer at a time, and as many
    times for an answer with each number of missing links (ADR 50). The result depends on everything here but `workers`.
    """

    protocol: Protocol = Protocol.HONEST
    split: SplitBy = SplitBy.RANDOM
    counts: tuple[int, int, int] = (10_000, 1_000, 1_000)
    max_answers: int = 100
    seed: int = 0
    shapes: Mapping[str, Query] = field(default_factory=default_shapes)
    workers: int = 2
    calibration: int = 2_000
    min_degree: int = 0
    balanced: bool = False

    def __post_init__(self) -> None:
        if min(self.counts) < 0:
            raise ConfigError(f"the number of queries cannot be negative: {', '.join(map(str, self.counts))}")
        bounds = (
            ("max_answers", self.max_answers, 1),
            ("workers", self.workers, 1),
            (CALIBRATION, self.calibration, 0),
        )
        for name, value, least in bounds:
            if value < least:
                raise ConfigError(f"{name} is {value}; it must be at least {least}")
        if self.protocol is Protocol.PAPER and self.balanced:
            raise ConfigError("the paper's protocol asks for any answer; leave out --balance missing")
        if self.protocol is Protocol.PAPER and self.split is SplitBy.COLUMN:
            raise ConfigError("the paper's protocol divides 95/5 at random; leave out --split column")

    def wanted(self, name: str, part: str) -> int:
        """How many queries of a template a part of the benchmark gets, at each level."""
        return 0 if part == "train" and name in EVALUATION_ONLY else self.counts[SPLITS.index(part)]

    def divide(self, facts: Facts) -> Split:
        """The nested graphs of this benchmark."""
        facts = keep_connected(facts, self.min_degree) if self.min_degree else facts
        if self.protocol is Protocol.PAPER:
            return split_as_paper(facts, self.seed)
        return split_honestly(facts, self.seed, self.split)

    def derive_seed(self, *names: str) -> int:
        """A seed of 63 bits for one use, the same on every machine."""
        text = "/".join([str(self.seed), self.protocol.value, *names])
        return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest()) >> 1

    def describe(self) -> dict[str, Any]:
        """The settings as the manifest records them."""
        return {
            "protocol": self.protocol.value,
            "split": self.split.value,
            "counts": dict(zip(SPLITS, self.counts, strict=True)),
            "max_answers": self.max_answers,
            "seed": self.seed,
            **({"min_degree": self.min_degree} if self.min_degree else {}),
            **({"balance": "missing"} if self.balanced else {}),
            **({CALIBRATION: self.calibration} if self.protocol is Protocol.HONEST else {}),
        }
