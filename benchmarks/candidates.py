"""Candidates, measured: a tenth of one relation's facts is hidden; how many of the best candidates are hidden facts?

    PYTHONPATH=src python3 benchmarks/candidates.py scratch/biomed-kb gene_associated_with_condition
    PYTHONPATH=src python3 benchmarks/candidates.py scratch/kb-codex-m P463 P69 --seeds 3 --set rank=64

A run is trained on the other facts of the store. Of each relation (all of them are hidden for one run) `tarbox predict`
lists candidates by probability. Its rivals are two: *counting*, the product of how often each end has the relation, and
the *raw score* of the run's own link predictor, the mean of both directions; both over all pairs of a known subject and
a known object that are not known.

A hidden fact keeps both of its ends another assertion, as in a split. What the store does not know either is counted as
wrong, so a precision here is a lower bound; a probability is meant in the same way, as that of a fact that is missing
as facts are hidden. Calibration: the mean probability (*said*) and the share that is true with its standard error, of
the first 100, 1,000 and 10,000 and of ten parts of equal size, by probability; the mean distance of the two over the
parts, beside that of right probabilities, which is not 0 where candidates are few; and how many parts are within 0.05.
It is given of all candidates (0.01 or more) and of those that would be listed (0.1).

Facts derived from the hidden ones give these away: a gene's phenotypes in HPO's files are those of its diseases.
`--without has_phenotype` leaves out what the subjects of the relations have by it (genes; diseases keep theirs).

Needs torch, numpy, pyarrow, numba and safetensors alone. Results: a table, and $OUT/candidates.json.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import numpy as np
import torch
from numpy.typing import NDArray

from tarbox.core.config import read_config
from tarbox.kb.facts import Facts
from tarbox.kb.reasoning.inference import infer_again
from tarbox.kb.rows import contains, pair_keys
from tarbox.kb.store import Store, open_store
from tarbox.kb.writing import write_store
from tarbox.models.complex import Complex
from tarbox.models.credo.model import CredoConfig
from tarbox.models.credo.predictor import build_predictor, open_predictor
from tarbox.models.saved import open_run, own_settings, sizes_of
from tarbox.models.scorer import Scorer
from tarbox.service.candidates import CandidateFinder
from tarbox.service.knowledge_base import KnowledgeBase
from tarbox.training.events import Event, PartBegan
from tarbox.training.hardware import find_device
from tarbox.training.session import Listeners, start
from tarbox.training.settings import read_assignments, read_recipe, resolve

SIZES: Final = (100, 1_000, 10_000)
SHARE: Final = 0.1
LISTED: Final = 0.1
COUNTED: Final = 0.01
LEAST: Final = 1e-3
"""Candidates down to this probability have a place in the list; a run keeps no others."""
NEAR: Final = 0.05
"""What is said is to be so near to what is true."""
_PAIRS: Final = 1 << 22

Keys = NDArray[np.int64]
Doubles = NDArray[np.float64]


def hide(facts: Facts, relations: list[int], seed: int) -> tuple[Facts, dict[int, Keys]]:
    """(the other facts, with what follows from them alone; the pairs that are hidden of each relation).

    Of a relation that goes both ways, both are hidden, and a pair counts either way round.
    """
    asserted = facts.about_individuals()
    random = np.random.default_rng([seed, 18])
    entities = len(facts.vocabulary.entities)
    left = np.bincount(np.concatenate([asserted.heads, asserted.tails]), minlength=entities)
    keep = np.ones(len(asserted.heads), np.bool_)
    for relation in relations:
        own = np.flatnonzero(asserted.relations == relation)
        low, high = np.sort(np.stack([asserted.heads[own], asserted.tails[own]]), axis=0)
        pairs = pair_keys(low, high, entities) if is_symmetric(facts, relation) else own
        both_ways: dict[int, list[int]] = {}
        for place, pair in zip(own.tolist(), pairs.tolist(), strict=True):
            both_ways.setdefault(pair, []).append(place)
        groups = list(both_ways.values())
        quota = round(SHARE * len(own))
        for group in (groups[place] for place in random.permutation(len(groups))):
            if quota <= 0:
                break
            ends = asserted.heads[group[0]], asserted.tails[group[0]]
            if all(left[end] > len(group) for end in ends):
                keep[group] = False
                quota -= len(group)
                for end in ends:
                    left[end] -= len(group)
    kept = infer_again(asserted.with_assertions(keep))
    hidden = {}
    for relation in relations:
        gone, there = (pairs_of(part, relation) for part in (asserted.with_assertions(~keep), kept))
        if is_symmetric(kept, relation):
            head, tail = np.divmod(gone, entities)
            gone = np.unique(np.append(gone, pair_keys(tail, head, entities)))
        hidden[relation] = gone[~contains(there, gone)]
    return kept, hidden


def leave_out(facts: Facts, relations: list[int], without: list[int]) -> Facts:
    """Without what the subjects of some relations have by others."""
    subjects = np.unique(facts.heads[np.isin(facts.relations, relations)])
    return facts.with_assertions(~(np.isin(facts.relations, without) & np.isin(facts.heads, subjects)))


def is_symmetric(facts: Facts, relation: int) -> bool:
    """As `tarbox.service.candidates` sees it."""
    own, entities = facts.relations == relation, len(facts.vocabulary.entities)
    heads, tails = facts.heads[own], facts.tails[own]
    keys = np.sort(pair_keys(heads, tails, entities))
    return bool(len(keys)) and float(contains(keys, pair_keys(tails, heads, entities)).mean()) >= 0.9


def pairs_of(facts: Facts, relation: int) -> Keys:
    own = facts.relations == relation
    return np.sort(pair_keys(facts.heads[own], facts.tails[own], len(facts.vocabulary.entities)))


def train(facts: Facts, store: Store, folder: Path, given: list[str]) -> tuple[KnowledgeBase, Scorer, Complex, float]:
    """(the facts, what was trained on them, its link predictor, seconds)"""
    settings = resolve([read_recipe("credo"), read_assignments(given, "credo")], "credo")
    write_store(folder / "kb", facts, axioms=store.axioms())
    began = time.monotonic()

    def tell(event: Event) -> None:
        if isinstance(event, PartBegan):
            print(f"    {time.monotonic() - began:.0f} s: {event.part}", file=sys.stderr, flush=True)

    start(folder / "kb", folder / "run", settings, Listeners([tell]))
    seconds = time.monotonic() - began
    saved = open_run(folder / "run")
    fitted = open_predictor(saved)
    config = read_config(CredoConfig, own_settings(saved.settings["model"]), "model")
    tables = {name: fitted.floats(name) for name in ("nodes", "relations")}
    predictor = build_predictor(config, sizes_of(saved.facts), tables).to(find_device("auto"))
    return KnowledgeBase(saved.facts, store=saved.store), saved.scorer(), predictor, seconds


def best_pairs(facts: Facts, relation: int, score: Callable[[Keys, Keys], Doubles]) -> Keys:
    """The best pairs of a known head and a known tail that are not known, as `head * E + tail`, the best first."""
    own, entities = facts.relations == relation, len(facts.vocabulary.entities)
    heads, tails = np.unique(facts.heads[own]).astype(np.int64), np.unique(facts.tails[own]).astype(np.int64)
    known, symmetric = pairs_of(facts, relation), is_symmetric(facts, relation)
    keys, values = np.empty(0, np.int64), np.empty(0)
    step = max(1, _PAIRS // max(len(tails), 1))
    for start_ in range(0, len(heads), step):
        head, tail = (grid.ravel() for grid in np.meshgrid(heads[start_ : start_ + step], tails, indexing="ij"))
        new = pair_keys(head, tail, entities)
        fits = ~contains(known, new) & (head != tail)
        if symmetric:
            fits &= (head < tail) & ~contains(known, pair_keys(tail, head, entities))
        keys, values = np.append(keys, new[fits]), np.append(values, score(head[fits], tail[fits]))
        order = np.argsort(-values, kind="stable")[: SIZES[-1]]
        keys, values = keys[order], values[order]
    return keys


def by_counting(facts: Facts, relation: int) -> Keys:
    own, entities = facts.relations == relation, len(facts.vocabulary.entities)
    heads, tails = (np.bincount(ends[own], minlength=entities) for ends in (facts.heads, facts.tails))
    return best_pairs(facts, relation, lambda head, tail: (heads[head] * tails[tail]).astype(np.float64))


@torch.no_grad()
def by_raw_score(facts: Facts, relation: int, predictor: Complex) -> Keys:
    def score(head: Keys, tail: Keys) -> Doubles:
        found = np.empty(len(head))
        for at in range(0, len(head), 1 << 16):
            one, other = (torch.from_numpy(ids[at : at + (1 << 16)]).to(predictor.nodes.device) for ids in (head, tail))
            both = predictor.pair_scores(relation, one, other).double().sum(1)
            found[at : at + (1 << 16)] = both.cpu().numpy()
        return found

    return best_pairs(facts, relation, score)


def precision(found: Keys, hidden: Keys) -> dict[str, float]:
    true = contains(hidden, found)
    return {str(size): float(true[:size].mean()) for size in SIZES if size <= len(found)}


def tenths(said: Doubles, true: NDArray[np.bool_]) -> list[tuple[float, float, int]]:
    """(mean probability, share that is true, number) of ten parts of equal size, by probability."""
    parts = np.array_split(np.argsort(said, kind="stable"), 10)
    return [(float(said[part].mean()), float(true[part].mean()), len(part)) for part in parts if len(part)]


def error_of(bins: list[tuple[float, float, int]]) -> float:
    total = sum(size for _, _, size in bins)
    return sum(size * abs(said - true) for said, true, size in bins) / max(total, 1)


def by_chance(said: Doubles) -> float:
    """The error that right probabilities would have, on average: so few candidates say no more."""
    random = np.random.default_rng(0)
    return float(np.mean([error_of(tenths(said, random.random(len(said)) < said)) for _ in range(100)]))


def calibration(said: Doubles, true: NDArray[np.bool_]) -> dict[str, Any]:
    """Of all candidates, and of the listed."""
    told = {}
    for name, own in (("all", said >= COUNTED), ("listed", said >= LISTED)):
        bins = tenths(said[own], true[own])
        sums = (float(said[own].mean()), float(true[own].mean())) if own.any() else (0.0, 0.0)
        told[name] = {"n": int(own.sum()), "said": sums[0], "true": sums[1], "tenths": bins}
        told[name] |= {"error": error_of(bins), "by chance": by_chance(said[own])}
    return told


def measure(
    kb: KnowledgeBase, scorer: Scorer, predictor: Complex, relation: int, hidden: Keys
) -> tuple[dict[str, Any], Doubles, NDArray[np.bool_]]:
    """(figures, what is said of each candidate, whether it is hidden)"""
    facts = kb.facts
    entities = len(facts.vocabulary.entities)
    began = time.monotonic()
    _, (subjects, objects, said) = CandidateFinder(kb, scorer).rank(kb.relations.at(relation).iri, least=LEAST)
    seconds = time.monotonic() - began
    keys = pair_keys(subjects, objects, entities)
    true = contains(hidden, keys)
    told: dict[str, Any] = {
        "hidden": len(hidden) // (2 if is_symmetric(facts, relation) else 1),
        "among candidates": int(true.sum()),
        "candidates": len(keys),
        "seconds": seconds,
        "said": {str(size): float(said[:size].mean()) for size in SIZES if size <= len(keys)},
        "credo": precision(keys, hidden),
        "raw score": precision(by_raw_score(facts, relation, predictor), hidden),
        "counting": precision(by_counting(facts, relation), hidden),
        "calibration": calibration(said, true),
    }
    return told, said, true


def report(name: str, seed: int, told: dict[str, Any]) -> None:
    print(f"{name}, seed {seed}: {told['hidden']:,} hidden, {told['among candidates']:,} of them among", end=" ")
    print(f"{told['candidates']:,} candidates, listed in {told['seconds']:.1f} s")
    print("    first     said   true           raw score  counting")
    for size, said in told["said"].items():
        rivals = "".join(f"{told[rival].get(size, float('nan')):<11.3f}" for rival in ("raw score", "counting"))
        print(f"    {int(size):<8,}  {said:.3f}  {with_noise(told['credo'][size], int(size))}  {rivals.rstrip()}")
    report_calibration(told["calibration"])


def with_noise(true: float, size: int) -> str:
    """A share of so many, with its standard error."""
    return f"{true:.3f} ± {standard_error(true, size):.3f}"


def standard_error(true: float, size: int) -> float:
    """Of a share: as if one more were true and one more were not, so that none of a few is not certainly none."""
    share = (true * size + 1) / (size + 2)
    return float(np.sqrt(share * (1 - share) / size))


def report_calibration(told: dict[str, Any]) -> None:
    for name, one in told.items():
        parts = one["tenths"]
        off = [abs(said - true) for said, true, _ in parts]
        print(
            f"    {name} {one['n']:,}: said {one['said']:.3f}, true {with_noise(one['true'], max(one['n'], 1))};",
            end=" ",
        )
        print(f"mean distance in ten parts {one['error']:.3f} ({one['by chance']:.3f} by chance),", end=" ")
        print(f"{sum(distance <= NEAR for distance in off)} of {len(off)} parts within {NEAR}")
        if parts:
            print(
                "        "
                + "  ".join(f"{said:.2f}: {true:.2f}±{standard_error(true, n):.2f}" for said, true, n in parts)
            )
    sys.stdout.flush()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("store", type=Path)
    parser.add_argument("relations", nargs="+", help="names, labels or IRIs of relations")
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--without", action="append", default=[], help="a relation that gives hidden facts away")
    parser.add_argument("--set", action="append", default=[], help="a setting of training")
    options = parser.parse_args()
    store = open_store(options.store)
    names = KnowledgeBase(store.facts).relations
    relations, without = ([names.id(name) for name in given] for given in (options.relations, options.without))
    facts = leave_out(store.facts, relations, without)
    everything = []
    for seed in range(options.seeds):
        kept, hidden = hide(facts, relations, seed)
        with tempfile.TemporaryDirectory() as folder:
            kb, scorer, predictor, seconds = train(kept, store, Path(folder), [f"seed={seed}", *options.set])
            print(f"trained in {seconds:.0f} s", flush=True)
            pooled = []
            for name, relation in zip(options.relations, relations, strict=True):
                told, *list_ = measure(kb, scorer, predictor.eval(), relation, hidden[relation])
                report(name, seed, told)
                pooled.append(list_)
                everything.append({"store": options.store.name, "relation": name, "seed": seed, **told})
            if len(pooled) > 1:
                print(f"all {len(pooled)} relations together, seed {seed}")
                said, true = (np.concatenate(columns) for columns in zip(*pooled, strict=True))
                report_calibration(calibration(said, true.astype(np.bool_)))
        if out := os.environ.get("OUT"):
            Path(out).mkdir(parents=True, exist_ok=True)
            (Path(out) / "candidates.json").write_text(json.dumps(everything), encoding="utf-8")


if __name__ == "__main__":
    main()
