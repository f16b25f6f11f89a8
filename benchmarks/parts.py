"""What each part of credo is worth: the same link predictor, with one part at a time left out of what comes after it.

    PYTHONPATH=src python3 benchmarks/parts.py scratch/codex-m
    PYTHONPATH=src python3 benchmarks/parts.py scratch/dbpedia77k --only rules,neighbours --set rank=64

The link predictor is trained once, and for `the second expert` once more; calibration, predictions and the ranking of
concepts are made anew without each part. Features that are left out are 0 everywhere, so that nothing can be read from
them. Test queries of an honest benchmark, nine templates. A table, and $OUT/parts.json.
"""

from __future__ import annotations

import argparse
import json
import os
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, Final
from unittest.mock import patch

import numpy as np
from torch import Tensor, nn

from reasoner import average, chosen, per_query
from tarbox.benchmark.folder import open_benchmark
from tarbox.models.credo import holdout, learning
from tarbox.models.credo.compatibility import Compatibility
from tarbox.models.credo.concepts import CONCEPT_FEATURES
from tarbox.models.credo.evidence import Signatures
from tarbox.models.credo.features import LINK_FEATURES, TYPING_FEATURES
from tarbox.models.learning.seam import Stage
from tarbox.models.saved import open_run
from tarbox.training.context import TrainingContext
from tarbox.training.session import Listeners, start
from tarbox.training.settings import read_assignments, read_recipe, resolve

RULES: Final = ("best rule of one step", "best rule of two steps", "all rules of two steps", "paths of two steps")
NEIGHBOURS: Final = (
    "neighbours of the head that have it",
    "neighbours of the tail that have it",
    "neighbours that have it",
    "their share of those that have any",
    "their share of those that have one",
)
SHARES: Final = ("share of the tail", "share of the head", "both shares", "share of the concept")
SETS: Final = ("linear model of sets",)
ALL_TABLES: Final[tuple[Any, ...]] = (LINK_FEATURES, TYPING_FEATURES, CONCEPT_FEATURES)


def zeros_of(function: Callable[[Any], Any]) -> Callable[[Any], Any]:
    return lambda view: np.zeros_like(function(view), np.float32)


@contextmanager
def without_features(left_out: Callable[[str], bool], tables: tuple[Any, ...] = ALL_TABLES) -> Iterator[None]:
    with ExitStack() as stack:
        for table in tables:
            own = {name: zeros_of(function) for name, function in table.items() if left_out(name)}
            stack.enter_context(patch.dict(table, own))
        yield


@contextmanager
def without_signatures() -> Iterator[None]:
    """Nothing is likely to have a relation or a concept that it is not known to have."""

    def relation(self: Signatures, directed: int) -> Any:  # noqa: ARG001
        return np.zeros(len(self.rows), np.float32)

    def concepts(self: Signatures, entities: Any) -> Any:
        return np.zeros((len(entities), len(self.kept)), np.float32)

    with patch.object(Signatures, "relation", relation), patch.object(Signatures, "concepts", concepts):
        yield


@contextmanager
def without_compatibility() -> Iterator[None]:
    def allow_typings(self: Compatibility, entities: Any, concepts: Any) -> Any:  # noqa: ARG001
        return np.ones(len(entities), np.bool_)

    def allow_links(self: Compatibility, relations: Any, heads: Any, tails: Any) -> Any:  # noqa: ARG001
        return np.ones(len(heads), np.bool_)

    with (
        patch.object(Compatibility, "allow_typings", allow_typings),
        patch.object(Compatibility, "allow_links", allow_links),
    ):
        yield


def no_effects(logits: Any, true: Any, group: Any, count: int) -> Any:  # noqa: ARG001
    return np.zeros((count, 2), np.float32)


VARIANTS: Final[Mapping[str, Callable[[], Any]]] = {
    "nothing": ExitStack,
    "rules": lambda: without_features(RULES.__contains__),
    "neighbours": lambda: without_features(NEIGHBOURS.__contains__),
    "rules and neighbours": lambda: without_features((*RULES, *NEIGHBOURS).__contains__),
    "signatures": without_signatures,
    "compatibility": without_compatibility,
    "all but shares of the softmax": lambda: without_features(
        lambda name: name not in SHARES, (LINK_FEATURES, TYPING_FEATURES)
    ),
    "effects of relations": lambda: patch.object(holdout, "fit_effects", no_effects),
    "linear model of sets": lambda: without_features(SETS.__contains__),
    "ranking of concepts": lambda: patch.object(learning, "fit_ranking", lambda *_: None),
    "the second expert": ExitStack,
}
SETTINGS: Final = {"the second expert": ("experts=1",)}


def remembering(fit: Callable[..., dict[str, Tensor]]) -> Callable[..., dict[str, Tensor]]:
    """A fit that is made once for each stage of a number of experts, and remembered."""
    kept: dict[tuple[str, int], dict[str, Tensor]] = {}

    def fit_once(self: TrainingContext, module: nn.Module, sources: Any, stage: Stage) -> dict[str, Tensor]:
        key = stage.name, int(self.settings.model["experts"])
        if key not in kept:
            fit(self, module, sources, stage)
            kept[key] = {name: tensor.clone() for name, tensor in module.state_dict().items()}
        module.load_state_dict(kept[key])
        return kept[key]

    return fit_once


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("benchmark", type=Path)
    parser.add_argument("--only", default=",".join(VARIANTS), help="parts, separated by commas; nothing: the whole")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--set", action="append", default=[], help="a setting")
    options = parser.parse_args()
    benchmark = open_benchmark(options.benchmark)
    table = chosen(benchmark.table("test"), True)
    rows: list[dict[str, Any]] = []
    with patch.object(TrainingContext, "fit", remembering(TrainingContext.fit)):
        for name in options.only.split(","):
            began = time.monotonic()
            given = [f"seed={options.seed}", "validation.queries=1", *options.set, *SETTINGS.get(name, ())]
            settings = resolve([read_recipe("credo"), read_assignments(given, "credo")], "credo")
            with tempfile.TemporaryDirectory() as scratch, VARIANTS[name]():
                start(options.benchmark, Path(scratch) / "run", settings, Listeners())
                found = per_query(open_run(Path(scratch) / "run").scorer(), table, benchmark)
            rows += [
                {"set": options.benchmark.name, "without": name, "level": level, "mrr": average(own)}
                for level, own in found.items()
            ]
            mrrs = "  ".join(f"{level} {100 * average(own):.2f}" for level, own in found.items())
            print(f"{options.benchmark.name} without {name}: {mrrs} ({time.monotonic() - began:.0f} s)", flush=True)
            if out := os.environ.get("OUT"):
                (Path(out) / "parts.json").write_text(json.dumps(rows, indent=1), encoding="utf-8")


if __name__ == "__main__":
    main()
