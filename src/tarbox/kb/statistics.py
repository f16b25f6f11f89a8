"""What `kb info` shows: counts, degrees, depth."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, final

import numpy as np
from numpy.typing import NDArray

from tarbox.kb.arrays import Places
from tarbox.kb.closure import Instances
from tarbox.kb.facts import KINDS, Facts
from tarbox.kb.store import Manifest, Store
from tarbox.kb.terms import local_name

_SHOWN = 5


@final
@dataclass(frozen=True, slots=True)
class StoreSummary:
    """`histograms` maps what was counted to {value: how many}: degrees, concept depths, instances per concept."""

    manifest: Manifest
    closure: dict[str, int]
    degree: dict[str, float]
    depth: dict[str, float]
    frequent: dict[str, list[tuple[str, int]]]
    top_concepts: list[str]
    histograms: dict[str, dict[int, int]]

    def to_json(self) -> dict[str, Any]:
        return {
            "counts": self.manifest["counts"],
            "axioms": self.manifest.get("axioms", {}),
            "annotations": self.manifest.get("annotations", []),
            "content_hash": self.manifest["content_hash"],
            "vocabulary_hash": self.manifest["vocabulary_hash"],
            "rejected": self.manifest["rejected"],
            "report": self.manifest.get("report", {}),
            "inference": self.manifest.get("inference", {}),
            "sources": self.manifest["sources"],
            "history": self.manifest.get("history", []),
            "options": self.manifest["options"],
            "closure": self.closure,
            "degree": self.degree,
            "depth": self.depth,
            "frequent": {
                what: [{"name": name, "count": count} for name, count in rows] for what, rows in self.frequent.items()
            },
            "top_concepts": self.top_concepts,
            "histograms": self.histograms,
        }

    def rows(self) -> Iterator[tuple[str, str]]:
        """(what, value) as a person reads them."""
        for name in KINDS:
            more = self.manifest["counts"].get(f"inferred_{name}", 0)
            yield name, f"{self.manifest['counts'][name]:,}" + (f" asserted, {more:,} inferred" if more else "")
        axioms = self.manifest.get("axioms", {})
        if axioms:
            kinds = ", ".join(f"{kind} {number:,}" for kind, number in axioms.items())
            yield "axioms", f"{sum(axioms.values()):,}: {kinds}"
        if self.manifest.get("annotations"):
            yield "annotation relations", ", ".join(local_name(iri) for iri in self.manifest["annotations"])
        for name, number in self.closure.items():
            yield f"{name} under closure", f"{number:,}"
        yield "assertions per entity", _spread(self.degree)
        yield "depth of concepts", _spread(self.depth)
        for what, rows in self.frequent.items():
            yield f"most frequent {what}", ", ".join(f"{name} {count:,}" for name, count in rows)
        if self.top_concepts:
            yield "top concepts", ", ".join(self.top_concepts)
        rejected = self.manifest.get("report", {}).get("rejections", 0)
        if rejected:
            yield "rejected lines", f"{rejected:,}"
        for source in self.manifest["sources"]:
            version = f", version {source['version']}" if "version" in source else ""
            yield "source", f"{source['name']} ({source['format']}, {source['statements']:,} statements{version})"
        for change in self.manifest.get("history", ()):
            counts = (f"{number:+,} {kind}" for kind, number in change["counts"].items())
            yield change["change"], f"{', '.join(change['sources'])}: {', '.join(counts)}"
        yield "content hash", self.manifest["content_hash"]


def _spread(values: dict[str, float]) -> str:
    return ", ".join(f"{name} {value:.1f}".replace(".0", "") for name, value in values.items())


def degrees(facts: Facts) -> Places:
    """[E] in how many assertions each entity takes part, on either side."""
    size = len(facts.vocabulary.entities)
    loops = np.bincount(facts.heads[facts.heads == facts.tails], minlength=size)
    return np.bincount(facts.heads, minlength=size) + np.bincount(facts.tails, minlength=size) - loops


def summarise(store: Store) -> StoreSummary:
    """Everything `kb info` says of a store."""
    facts = store.facts
    vocabulary = facts.vocabulary
    instances = Instances.of(facts)
    descriptions = instances.describe(facts)
    tree, degree, sizes = instances.hierarchy, degrees(facts), instances.entities_of.sizes()
    relations = np.bincount(facts.relations, minlength=len(vocabulary.relations))
    return StoreSummary(
        store.manifest,
        {
            "typings": len(instances.concepts_of.columns),
            "subsumptions": len(tree.ancestors.columns) - len(tree),
            "typed entities": instances.typed_entities(),
            **({} if descriptions is instances else {"descriptions": len(descriptions.concepts_of.columns)}),
        },
        _quantiles(degree),
        _quantiles(tree.depth),
        {
            "relations": [(vocabulary.relations.show(i), int(relations[i])) for i in _largest(relations)],
            "concepts": [(vocabulary.concepts.show(i), int(sizes[i])) for i in _largest(sizes)],
        },
        [vocabulary.concepts.show(int(concept)) for concept in descriptions.top_concepts()],
        {
            "assertions per entity": _histogram(degree),
            "depth of concepts": _histogram(tree.depth),
            "instances per concept": _histogram(sizes),
        },
    )


def _quantiles(values: NDArray[Any]) -> dict[str, float]:
    if not len(values):
        return {"median": 0.0, "mean": 0.0, "most": 0.0}
    return {"median": float(np.median(values)), "mean": float(values.mean()), "most": float(values.max())}


def _largest(values: Places) -> list[int]:
    return [int(i) for i in np.argsort(-values, kind="stable")[:_SHOWN] if values[i]]


def _histogram(values: NDArray[Any]) -> dict[int, int]:
    found, counts = np.unique(values, return_counts=True)
    return dict(zip(found.tolist(), counts.tolist(), strict=True))
