"""What papers print about a dataset (published.toml), as rows beside measured ones.

A benchmark is matched to a dataset by a rule that anyone can check: its protocol is `paper` or `imported`, and more
than half of its entities that are no literals lie in a namespace of the dataset. A person may also name the dataset, or
none. Either way the row comes from other data and another protocol, and says so.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import Any, Final, final

import pyarrow as pa
import pyarrow.compute as pc

from tarbox.benchmark.folder import Benchmark
from tarbox.core.errors import ConfigError
from tarbox.core.ids import Level
from tarbox.evaluation.comparison import TableRow
from tarbox.kb.vocabulary import Vocabulary

MATCHING: Final = "auto"
NONE: Final = "none"
COMPARABLE: Final = ("paper", "imported")
"""The protocols whose figures are of the paper's kind."""

_ABLATIONS: Final[Mapping[str, str]] = {"tar-no-sub": "tar", "tar-no-ins": "tar"}
_METRICS: Final = ("mrr", "hits@3")


@final
@dataclass(frozen=True, slots=True)
class Published:
    """One dataset of the paper, or with a `source` of its own; `table` is its part of the data file."""

    dataset: str
    source: str
    table: Mapping[str, Any]
    names: Mapping[str, str]
    columns: tuple[str, ...]

    @property
    def title(self) -> str:
        return str(self.table["title"])

    def rows(self) -> tuple[TableRow, ...]:
        """A row for every model that the paper has figures of."""
        keys = dict.fromkeys(key for level in self.levels() for key in self.table[level.value]["mrr"])
        return tuple(
            TableRow(
                f"published-{key}",
                f"{self.names[key]} (published)",
                {level: {metric: self.figures(key, level, metric) for metric in _METRICS} for level in self.levels()},
                published=True,
                ablation_of=_ABLATIONS.get(key),
                model=_ABLATIONS.get(key, key),
            )
            for key in keys
        )

    def levels(self) -> list[Level]:
        return [level for level in Level if level.value in self.table]

    def figures(self, key: str, level: Level, metric: str) -> dict[str, tuple[float, ...]]:
        """By template, as fractions; printed averages are left out."""
        printed = self.table[level.value].get(metric, {}).get(key, ())
        return {name: (value / 100,) for name, value in zip(self.columns[:-1], printed, strict=False)}

    def note(self, vocabulary: Vocabulary) -> str:
        """What must be said where these rows stand."""
        if "note" in self.table:
            return str(self.table["note"])
        own = {"entities": vocabulary.entities, "concepts": vocabulary.concepts, "relations": vocabulary.relations}
        sizes = ", ".join(f"{self.table['sizes'][kind]:,} {kind} (here {len(names):,})" for kind, names in own.items())
        return (
            f"Rows marked 'published' are what the paper prints for {self.title}: other data ({sizes}), other queries "
            "and its own protocol. They compete for no bold figure; their averages are over the templates shown."
        )

    def json(self) -> dict[str, Any]:
        return {"dataset": self.dataset, "source": self.source, "tables": self.table["tables"]}


@cache
def read_published() -> Mapping[str, Published]:
    """The datasets of the paper, by name."""
    text = (resources.files("tarbox.evaluation") / "published.toml").read_text(encoding="utf-8")
    content = tomllib.loads(text)
    names, columns = content["names"], tuple(content["columns"])
    return {
        name: Published(name, table.get("source", content["source"]), table, names, columns)
        for name, table in content["datasets"].items()
    }


def choose_published(asked: str, benchmark: Benchmark) -> Published | None:
    """The dataset that a person names, or the one that the benchmark matches (`auto`), or none."""
    datasets = read_published()
    if asked == NONE:
        return None
    if asked == MATCHING:
        if benchmark.protocol not in COMPARABLE:
            return None
        return next((found for found in datasets.values() if matches(found, benchmark.store.facts.vocabulary)), None)
    if asked not in datasets:
        raise ConfigError(f"nothing is published about {asked!r}; choose {', '.join(datasets)}, {MATCHING} or {NONE}")
    return datasets[asked]


def matches(published: Published, vocabulary: Vocabulary) -> bool:
    """Whether more than half of the entities that are no literals lie in a namespace of the dataset."""
    iris = vocabulary.entities.iris
    named = len(iris) - _count(iris, '"')
    inside = sum(_count(iris, namespace) for namespace in published.table["namespaces"])
    return inside > named / 2


def _count(iris: pa.Array, start: str) -> int:
    return int(pc.sum(pc.starts_with(iris, start)).as_py() or 0)
