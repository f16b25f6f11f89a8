"""From a link predictor's scores to degrees of belief: ways that the field knows, beside credo's calibrator.

    PYTHONPATH=src python3 benchmarks/degrees.py scratch/yago4

Two predictors are trained: one on nine tenths of the facts, which tells how often a proposal is true, and one on all
of them, whose proposals answer the valid queries of the benchmark. The proposals are the same for each way, so are the
typings; only the degrees differ. Printed: the entity MRR x 100 of the queries (every `--step`-th), and the expected
calibration error and the Brier score of degrees on proposals whose heads nothing was fitted to (15 bins of equal mass).

- `calibrator`: the network over 23 features, credo's own;
- `share`: the candidate's share of the softmax over what is not known, the greater of both directions;
- `share x known`: times the number of known answers, at least 1, as QTO has it (Bai et al. 2023);
- `one line`: a logistic function of the score; `line by relation`: one for each relation, drawn towards the common one
  where facts are few, which is how CQD-A adapts scores (Arakelyan et al. 2023), fitted to facts instead of queries.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from tarbox.models.calibration import fit_calibrator
from tarbox.models.evidence import Evidence
from tarbox.models.proposals import link_features, propose_links, propose_typings
from tarbox.training.rehearsal import assemble
from torch.nn import functional

from predictors import keys_of, say, train_complex
from tarbox.benchmark.folder import Benchmark, open_benchmark
from tarbox.core.ids import Level
from tarbox.evaluation.calibration import Predictions, reliability
from tarbox.evaluation.evaluator import rank_table
from tarbox.kb.closure import Instances
from tarbox.kb.facts import Facts
from tarbox.kb.splits import hide
from tarbox.models.complex import Complex
from tarbox.models.credo import CredoConfig
from tarbox.models.probabilities import LEAST, FactProbabilities

Floats = NDArray[np.float32]
Rows = NDArray[np.int64]
Way = Callable[[Rows, Floats, NDArray[np.bool_]], Callable[[Rows, Floats], Floats]]
"""Relations, features and truth of proposals to what gives the degrees of others."""
SHARES, SCORES, KNOWN = (0, 1), (3, 4), (5, 6)
"""Columns of the features of a link, seen from its head and from its tail."""
STRENGTH = 20.0
"""How many facts the common line is worth to a relation."""


def by_calibrator(_: Rows, features: Floats, true: NDArray[np.bool_]) -> Callable[[Rows, Floats], Floats]:
    fitted = fit_calibrator(features, true, 0, "cpu")
    return lambda _, others: fitted.degrees(others)


def by_share(*_: Any) -> Callable[[Rows, Floats], Floats]:
    return lambda _, others: np.exp(others[:, SHARES].max(1))


def by_share_and_known(*_: Any) -> Callable[[Rows, Floats], Floats]:
    def degrees(_: Rows, others: Floats) -> Floats:
        known = np.maximum(np.expm1(others[:, KNOWN]), 1.0)
        found: Floats = np.minimum((np.exp(others[:, SHARES]) * known).max(1), 0.999).astype(np.float32)
        return found

    return degrees


def by_lines(by_relation: bool) -> Way:
    def fit(relations: Rows, features: Floats, true: NDArray[np.bool_]) -> Callable[[Rows, Floats], Floats]:
        score = torch.from_numpy(features[:, SCORES].mean(1))
        middle, width = score.mean(), score.std()
        truth, places = torch.from_numpy(true).float(), torch.from_numpy(relations)
        common = torch.tensor([1.0, -3.0], requires_grad=True)
        own = torch.zeros(int(relations.max()) + 1, 2, requires_grad=by_relation)
        optimizer = torch.optim.LBFGS([common, own] if by_relation else [common], max_iter=200)

        def logits(scores: torch.Tensor, at: torch.Tensor) -> torch.Tensor:
            slope, shift = (common + own[at]).unbind(1)
            return slope * (scores - middle) / width + shift

        def loss() -> torch.Tensor:
            optimizer.zero_grad()
            total = functional.binary_cross_entropy_with_logits(logits(score, places), truth, reduction="sum")
            total = (total + 0.5 * STRENGTH * (own * own).sum()) / len(truth)
            total.backward()  # type: ignore[no-untyped-call]
            return total

        optimizer.step(loss)  # type: ignore[no-untyped-call]

        def degrees(others: Rows, wanted: Floats) -> Floats:
            with torch.no_grad():
                mean = torch.from_numpy(wanted[:, SCORES].mean(1))
                inside = torch.from_numpy(np.minimum(others, len(own) - 1))
                found: Floats = logits(mean, inside).sigmoid().numpy()
            return found

        return degrees

    return fit


WAYS: dict[str, Way] = {
    "calibrator": by_calibrator,
    "share": by_share,
    "share x known": by_share_and_known,
    "one line": by_lines(False),
    "line by relation": by_lines(True),
}


def proposals(links: Complex, facts: Facts) -> tuple[Evidence, Rows, Floats, Rows, Floats]:
    """(evidence, links and their features, typings and theirs)"""
    evidence = Evidence.of(facts)
    triples, sums = propose_links(links, evidence)
    return (evidence, triples, link_features(links, evidence, triples, sums), *propose_typings(links, evidence))


def answered(benchmark: Benchmark, probabilities: FactProbabilities, step: int) -> dict[str, float]:
    """The entity MRR of each template of the valid queries."""
    reasoner: Any = assemble(benchmark.store.facts, probabilities, None, CredoConfig(), 0)
    table = benchmark.table("valid")
    table = table.take(np.flatnonzero(np.array(table.texts("level")) == Level.ENTITY.value)[::step])
    found = rank_table(reasoner, table, benchmark.excluded())
    each = np.bincount(found.rows(), 1.0 / found.ranks, len(table)) / np.bincount(found.rows(), minlength=len(table))
    templates = np.array(table.texts("template"))
    return {name: float(each[templates == name].mean()) for name in dict.fromkeys(templates.tolist())}


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("benchmark", type=Path)
    parser.add_argument("--rank", type=int, default=64)
    parser.add_argument("--epochs", type=int, default=12)
    parser.add_argument("--rivals", type=int, default=2048)
    parser.add_argument("--step", type=int, default=2)
    options = parser.parse_args()
    benchmark = open_benchmark(options.benchmark)
    whole = benchmark.store.facts
    rest = hide(whole, 0, 0.1)
    _, triples, features, typings, about = proposals(train_complex(rest, options), rest)
    say(f"{len(triples):,} proposals of {len(rest.heads):,} assertions")
    evidence, others, wanted, kinds, described = proposals(train_complex(whole, options), whole)
    say(f"{len(others):,} proposals of {len(whole.heads):,} assertions")
    typed, types = Instances.of(whole).concepts_of.coordinates()
    truth = np.isin(typings, typed.astype(np.int64) * evidence.sizes.concepts + types)
    strengths = fit_calibrator(about, truth, 0, "cpu").degrees(described)
    true, width = np.isin(triples, keys_of(whole)), np.int64(evidence.sizes.entities)
    relations, heads = triples // (width * width), triples // width % width
    first = (np.random.default_rng(0).random(width) < 0.5)[heads]
    for name, way in WAYS.items():
        half = way(relations[first], features[first], true[first])(relations[~first], features[~first])
        error = reliability(Predictions(half.astype(np.float64), true[~first], 1))
        degrees = way(relations, features, true)(others // (width * width), wanted)
        held, kept = degrees >= LEAST, strengths >= LEAST
        predicted = (others[held], degrees[held]), (kinds[kept], strengths[kept])
        by_template = answered(benchmark, FactProbabilities.of(whole, evidence.sizes, *predicted), options.step)
        average = 100 * sum(by_template.values()) / len(by_template)
        shown = " ".join(f"{one} {100 * mrr:.1f}" for one, mrr in by_template.items())
        say(f"{name:17} MRR {average:.1f}  ECE {error.ece:.4f}  Brier {error.brier:.4f}  {shown}")


if __name__ == "__main__":
    main()
