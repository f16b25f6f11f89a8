"""Updating a run, measured: entities that training has not seen, and new facts of those it has.

    PYTHONPATH=src python3 benchmarks/updating.py scratch/kb-codex-m scratch/kb-fb15k-237 --set stopping.epochs=15

A tenth of the entities are held out of training with all their facts. Then half of the facts of each are given by an
update, and the assertions among the other half are asked for: filtered MRR among all entities, from the new entity to
the other end (`of new`) and from the other end to the new entity (`to new`). Beside it stand a run trained on all facts
but those asked for, counting, and the facts of the nearest neighbours by the given facts. The calibration error is of
the ten best predictions of every question about a new entity (docs/evaluation.md). The cost is processor time: of an
update with 1,000 new entities, as a share of training. Last, one in a hundred facts of that graph is left out of
training and added by an update, and the same assertions are asked for again.

With `--shares 0.1,0.2,0.4` the question is how many entities may be folded in before training again pays: the store
after the update is always the same, half of the facts of a tenth of the entities are asked for, and that tenth and ever
more others are held out of training with all their facts, and folded in.

Results: a table, and $OUT/updating.json, the rows of a record.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from tarbox.core.ids import Level
from tarbox.evaluation.calibration import Predictions, reliability
from tarbox.execution.graph import Index
from tarbox.kb.arrays import Flags, Ids
from tarbox.kb.facts import Facts
from tarbox.kb.rows import TripleKeys, contains, ranges
from tarbox.kb.splits import keep_entities
from tarbox.kb.statistics import degrees
from tarbox.kb.store import open_store
from tarbox.kb.writing import write_store
from tarbox.models.counting import Counting
from tarbox.models.credo.model import Credo
from tarbox.models.credo.neighbours import Neighbours
from tarbox.models.saved import open_run
from tarbox.models.scorer import Scorer
from tarbox.query.templates import TEMPLATES
from tarbox.training.session import start
from tarbox.training.settings import read_assignments, read_recipe, resolve
from tarbox.training.updating import update

HELD_OUT: Final = 0.1
ADDED: Final = 0.01
COSTED: Final = 1000
NAMES: Final = {
    "scratch": "training again",
    "updated": "update: 10% new entities",
    "updated_1%": "update: 1% new facts",
    "neighbours": "what the nearest neighbours have",
    "counting": "counting",
}
BARS: Final = {"ratio": 0.85, "ece": 0.07, "cost": 0.05, "ratio_1%": 0.97}
_AT_ONCE: Final = 64
Scoring = Callable[[Ids], NDArray[np.float64]]
"""From 1p questions [B, 2] (directed relation, entity) to scores [B, E]."""


@dataclass(frozen=True)
class Protocol:
    """The graphs of the experiment over one vocabulary: all facts, those given by the time of the asking, and those
    that the run is trained on; `new` [E] are the entities held out, `asked` [N, 3] (head, relation, tail)."""

    whole: Facts
    given: Facts
    base: Facts
    new: Flags
    asked: Ids

    @classmethod
    def of(cls, facts: Facts, asked: int, seed: int) -> Protocol:
        random = np.random.default_rng(seed)
        size = len(facts.vocabulary.entities)
        new = np.zeros(size, np.bool_)
        new[random.choice(size, round(HELD_OUT * size), replace=False)] = True
        owner = np.where(new[facts.heads], facts.heads, np.where(new[facts.tails], facts.tails, -1))
        assertions = owner >= 0
        later = assertions & (_places(owner, random) % 2 == 1)
        typed = np.where(new[facts.typed], facts.typed, -1)
        typings = (typed >= 0) & (_places(typed, random) % 2 == 1)
        given = facts.with_assertions(~later).with_typings(~typings)
        base = facts.with_assertions(~assertions).with_typings(typed < 0)
        chosen = random.permutation(np.flatnonzero(later))[:asked]
        table = np.stack([facts.heads[chosen], facts.relations[chosen], facts.tails[chosen]], axis=1)
        return cls(facts, given, base, new, table)

    def older(self, share: float, seed: int) -> Facts:
        """What is given without this share of the entities, the new ones among them."""
        random = np.random.default_rng([seed, 1])
        left = ~self.new
        others = random.permutation(np.flatnonzero(left))[: max(round(share * len(left)) - int(self.new.sum()), 0)]
        left[others] = False
        return keep_entities(self.given, left)

    def some(self, count: int) -> Facts:
        """What is given of so many of the new entities, and of no other."""
        others = np.flatnonzero(self.new)[count:]
        left = np.ones(len(self.new), np.bool_)
        left[others] = False
        return keep_entities(self.given, left)


def _places(owners: Ids, random: np.random.Generator) -> NDArray[np.int64]:
    """[F] the place of each fact among those of its owner, in random order."""
    order = np.lexsort((random.random(len(owners)), owners))
    first = np.searchsorted(owners[order], owners[order])
    found = np.empty(len(owners), np.int64)
    found[order] = np.arange(len(owners)) - first
    return found


def by_model(model: Scorer) -> Scoring:
    return lambda questions: model.score(TEMPLATES["1p"].shape, questions, Level.ENTITY)


def by_neighbours(facts: Facts) -> Scoring:
    """What the nearest neighbours of an entity have, by their similarity; equals by counting."""
    index = Index.of(facts)
    neighbours, counting = Neighbours.of(facts, index.instances), by_model(Counting.from_facts(facts))

    def score(questions: Ids) -> NDArray[np.float64]:
        found = 1e-6 * counting(questions)
        for row, (directed, entity) in enumerate(questions.tolist()):
            own = slice(*neighbours.similar.offsets[entity : entity + 2])
            keys = directed * neighbours.width + neighbours.similar.columns[own].astype(np.int64)
            places = np.searchsorted(neighbours.links.keys, keys)
            there = contains(neighbours.links.keys, keys)
            first, last = neighbours.links.starts[places[there]], neighbours.links.starts[places[there] + 1]
            origin, links = ranges(first, last - first)
            np.add.at(found[row], neighbours.links.far[links], neighbours.similar.values[own][there][origin])
        return found

    return score


def reciprocal_ranks(score: Scoring, protocol: Protocol) -> dict[str, float]:
    """MRR from new entities, to new entities, and of all; every true answer but the asked one is left out."""
    facts, codec = protocol.whole, TripleKeys(len(protocol.new))
    head, relation, tail = protocol.asked.T
    questions = np.concatenate([np.stack([2 * relation + 1, head], 1), np.stack([2 * relation, tail], 1)])
    goals = np.append(tail, head)
    ways = ((2 * facts.relations + 1, facts.heads, facts.tails), (2 * facts.relations, facts.tails, facts.heads))
    known = np.sort(np.concatenate([codec.encode(*way) for way in ways]))
    found = []
    for start_at in range(0, len(goals), _AT_ONCE):
        own, goal = questions[start_at : start_at + _AT_ONCE], goals[start_at : start_at + _AT_ONCE]
        scores = score(own.astype(np.int32))
        first = codec.encode(own[:, 0], own[:, 1], np.zeros(len(own), np.int64))
        low, high = np.searchsorted(known, first), np.searchsorted(known, first + codec.width)
        row, places = ranges(low, high - low)
        reached = scores[np.arange(len(own)), goal][:, None].copy()
        scores[row, known[places] % codec.width] = -np.inf
        found.append(1 / (1 + (scores > reached).sum(1) + (scores == reached).sum(1) / 2))
    each, from_new, to_new = np.concatenate(found), protocol.new[questions[:, 1]], protocol.new[goals]
    return {"mrr": float(each.mean()), "of new": float(each[from_new].mean()), "to new": float(each[to_new].mean())}


def calibration_error(model: Credo, protocol: Protocol) -> dict[str, float]:
    """Of the ten best predictions of each question about a new entity that has an answer in the whole graph."""
    facts, codec = protocol.whole, TripleKeys(len(protocol.new))
    near = np.append(facts.heads, facts.tails)
    keys = np.append(2 * facts.relations + 1, 2 * facts.relations).astype(np.int64) * codec.width + near
    directed, entity = np.divmod(np.unique(keys[protocol.new[near]]), codec.width)
    true = np.sort(codec.encode(facts.relations, facts.heads, facts.tails))
    held = model.probabilities
    degrees, truth = [], []
    for way, own in zip(directed.tolist(), entity.tolist(), strict=True):
        first, last = held.starts[way : way + 2]
        low, high = first + np.searchsorted(held.near[first:last], [own, own + 1])
        far, likely = held.far[low:high], held.degrees[low:high]
        best = np.argsort(-np.where(likely < 1, likely, 0), kind="stable")[:10]
        best = best[likely[best] < 1]
        heads, tails = (np.full(len(best), own), far[best]) if way % 2 else (far[best], np.full(len(best), own))
        degrees.append(likely[best])
        truth.append(contains(true, codec.encode(np.full(len(best), way // 2), heads, tails)))
    found = reliability(Predictions(np.concatenate(degrees).astype(np.float64), np.concatenate(truth), len(directed)))
    return {"ece": found.ece, "degree": found.degree, "true": found.true, "predictions": found.n}


def most_connected(facts: Facts, count: int) -> Facts:
    """The facts among so many entities, those with the most; all, where the count is 0."""
    keep = np.zeros(len(facts.vocabulary.entities), np.bool_)
    keep[np.argsort(-degrees(facts), kind="stable")[: count or None]] = True
    return keep_entities(facts, keep)


@dataclass(frozen=True)
class Workshop:
    """Where the stores and runs of one knowledge base are, and how runs are trained."""

    place: Path
    settings: Sequence[str]
    seed: int

    def write(self, stores: Mapping[str, Facts]) -> None:
        for name, facts in stores.items():
            write_store(self.place / name, facts)

    def train(self, name: str) -> float:
        """A run on the store of that name, unless it is there; the processor time it took."""
        run = self.place / f"run-{name}"
        spent = run.with_suffix(".seconds")
        if not spent.exists():
            shutil.rmtree(run, ignore_errors=True)
            command = [sys.executable, __file__, str(self.place / name), "--worker", str(run), f"--seed={self.seed}"]
            subprocess.run([*command, *(f"--set={text}" for text in self.settings)], check=True)
        return float(spent.read_text())

    def updated(self, run: str, store: str) -> tuple[Credo, float, dict[str, Any]]:
        """(the model of a run that follows a store, the processor time of that, what run.json says of it)"""
        place = self.place / f"{run}-{store}"
        shutil.rmtree(place, ignore_errors=True)
        began = time.process_time()
        told = update(self.place / f"run-{run}", self.place / store, place)
        spent = time.process_time() - began
        assert told is not None
        told["held_out_mrr"] = open_run(place).description["held_out_mrr"]
        return self.model(place), spent, told

    def model(self, run: Path) -> Credo:
        found = open_run(run).scorer()
        assert isinstance(found, Credo)
        return found


def measure(kb: Path, given: argparse.Namespace) -> dict[str, Any]:
    protocol = Protocol.of(most_connected(open_store(kb).facts, given.entities), given.asked, given.seed)
    found: dict[str, Any] = {"kb": kb.name, "new": int(protocol.new.sum()), "asked": len(protocol.asked)}
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder) if given.keep is None else given.keep / kb.name
        shop = Workshop(place, given.settings, given.seed)
        if given.shares:
            return found | measure_shares(shop, protocol, [float(share) for share in given.shares.split(",")])
        return found | measure_update(shop, protocol, given)


def measure_update(shop: Workshop, protocol: Protocol, given: argparse.Namespace) -> dict[str, Any]:
    found: dict[str, Any] = {}
    few = protocol.given.with_assertions(np.random.default_rng(shop.seed).random(len(protocol.given.heads)) >= ADDED)
    base, some = keep_entities(protocol.base, ~protocol.new), protocol.some(COSTED)
    shop.write({"given": protocol.given, "base": base, "some": some, "few": few})
    with ThreadPoolExecutor(given.jobs) as pool:
        found["training"], *_ = pool.map(shop.train, ("given", "base", *["few"] * given.facts))
    scratch = shop.model(shop.place / "run-given")
    found["predictor_bytes"] = (shop.place / "run-given" / "predictor.safetensors").stat().st_size
    found["scratch"] = reciprocal_ranks(by_model(scratch), protocol) | calibration_error(scratch, protocol)
    model, found["updating"], told = shop.updated("base", "given")
    found["updated"] = reciprocal_ranks(by_model(model), protocol) | calibration_error(model, protocol)
    found["counting"] = reciprocal_ranks(by_model(Counting.from_facts(protocol.given)), protocol)
    found["neighbours"] = reciprocal_ranks(by_neighbours(protocol.given), protocol)
    found["updates"] = [told]
    found["ratio"] = found["updated"]["mrr"] / found["scratch"]["mrr"]
    found["ece"] = found["updated"]["ece"]
    found["cost"] = shop.updated("base", "some")[1] / found["training"]
    if given.facts:
        model, found["updating_1%"], _ = shop.updated("few", "given")
        found["updated_1%"] = reciprocal_ranks(by_model(model), protocol)
        found["ratio_1%"] = found["updated_1%"]["mrr"] / found["scratch"]["mrr"]
    return found


def measure_shares(shop: Workshop, protocol: Protocol, shares: Sequence[float]) -> dict[str, Any]:
    """By the share of entities folded in: the MRR, its ratio to that of training again, and what `tarbox info` goes by:
    the MRR of added facts before they were known as a share of that of facts held out of training."""
    shop.write({"given": protocol.given})
    found: dict[str, Any] = {"training": shop.train("given")}
    found["scratch"] = reciprocal_ranks(by_model(shop.model(shop.place / "run-given")), protocol)
    for share in shares:
        name = f"without-{share:.0%}"
        shop.write({name: protocol.older(share, shop.seed)})
        shop.train(name)
        model, spent, told = shop.updated(name, "given")
        ranks = reciprocal_ranks(by_model(model), protocol)
        ratios = {f"{key} ratio": ranks[key] / found["scratch"][key] for key in ("mrr", "of new", "to new")}
        told_ratio = told["mrr"] / told["held_out_mrr"]
        found[f"folded {share:g}"] = ranks | ratios | {"told": told_ratio, "seconds": spent}
    return found


def work(store: Path, given: argparse.Namespace) -> None:
    """Train on a store, and write beside the run how much processor time it took."""
    began = time.process_time()
    assignments = read_assignments([*given.settings, f"seed={given.seed}"], "credo")
    start(store, given.worker, resolve([read_recipe("credo"), assignments], "credo"))
    given.worker.with_suffix(".seconds").write_text(str(time.process_time() - began))


def rows_of(found: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """What a record has (benchmarks/record.py): labels and figures in flat rows."""
    name = found["kb"].removeprefix("kb-")
    shares = {key: f"{float(key.split()[1]):.0%} folded in" for key in found if key.startswith("folded ")}
    for key, system in (NAMES | shares).items():
        if key in found:
            figures = {figure.replace(" ", "_"): round(number, 4) for figure, number in found[key].items()}
            yield {"set": name, "system": system, "answers": f"{name}: {system}", **figures}
    ratios = {"entities": "ratio", "facts": "ratio_1%", "cost": "cost", "training_seconds": "training"}
    yield {"set": name, "part": "ratios", **{key: round(found[own], 4) for key, own in ratios.items() if own in found}}


def show(found: Sequence[dict[str, Any]]) -> None:
    print(f"{'':16}{'':14}{'MRR':>7}{'of new':>9}{'to new':>9}{'ECE':>8}")
    for each in found:
        rows = [*NAMES, *(name for name in each if name.startswith("folded "))]
        for name, part in ((name, each[name]) for name in rows if name in each):
            print(
                f"{each['kb']:16}{name:14}"
                + "".join(f"{100 * part[key]:{7 if key == 'mrr' else 9}.1f}" for key in ("mrr", "of new", "to new"))
                + (f"{part['ece']:8.3f}" if "ece" in part else "")
                + (f"  of training again {part['mrr ratio']:.3f}, told {part['told']:.3f}" if "told" in part else "")
            )
        print(
            f"{each['kb']:16}"
            + ", ".join(
                f"{key} {each[key]:.3f} ({'<=' if key in ('ece', 'cost') else '>='} {bar})"
                for key, bar in BARS.items()
                if key in each
            )
            + f"; training {each['training']:.0f} s of processor time"
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("stores", nargs="+", type=Path)
    parser.add_argument("--asked", type=int, default=2000, help="how many assertions are asked for")
    parser.add_argument("--entities", type=int, default=0, help="only so many entities, those with the most facts")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--set", action="append", default=[], dest="settings", help="a setting of training")
    parser.add_argument(
        "--keep", type=Path, help="a folder for stores and runs; runs that are there are not trained again"
    )
    parser.add_argument("--shares", help="shares of the entities to fold in, with commas between; instead of the rest")
    parser.add_argument("--no-facts", action="store_false", dest="facts", help="without the new facts of old entities")
    parser.add_argument("--jobs", type=int, default=1, help="how many of the three trainings of a store at a time")
    parser.add_argument("--worker", type=Path, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.worker:
        work(given.stores[0], given)
        return
    found = []
    for kb in given.stores:
        found.append(measure(kb, given))
        print(json.dumps(found[-1]), flush=True)
    rows = [row for each in found for row in rows_of(each)]
    (Path(os.environ.get("OUT", ".")) / "updating.json").write_text(json.dumps(rows, indent=1))
    show(found)


if __name__ == "__main__":
    main()
