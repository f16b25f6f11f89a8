"""How training credo grows: seconds and memory of each of its parts, against facts, entities and concepts.

    PYTHONPATH=src python3 benchmarks/growth.py --axis facts                              # 0.1 to 10 million, a GPU
    PYTHONPATH=src python3 benchmarks/growth.py --axis concepts --sizes 100,1000,10000 --facts 100000 --device cpu
    PYTHONPATH=src python3 benchmarks/growth.py --axis entities --answer                  # and how fast it answers
    PYTHONPATH=src python3 benchmarks/growth.py --store scratch/kb-biomed --epochs 15     # a store, of one size

The knowledge base is generated. Entities are of 20 kinds, and of 16 groups within a kind; each of 100 relations leads
from one kind to another, mostly to the group that it leads the head's group to: that is what can be learnt. Degrees
follow a power law. Concepts are a random tree below each kind; an entity has one or two of those of its group.

Every size is a process of its own, so that its memory is its own. Memory is the greatest within a part, of the process
(as far as the system can be told to forget the part before) and, on a GPU, of torch. `--answer` asks the trained run
in one more process, on one processor and one thread. A table comes last: behind each figure stands how many times
as much it is as linear growth from the size before would make it. $OUT/growth.json has everything, and these two
figures of the whole of each size.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from tarbox.core.ids import Role
from tarbox.kb.facts import NO_SPLIT, Facts
from tarbox.kb.store import open_store
from tarbox.kb.vocabulary import SYNONYMS, Names, Vocabulary
from tarbox.kb.writing import write_store

AXES: Final = {
    "facts": (100_000, 300_000, 1_000_000, 3_000_000, 10_000_000),
    "entities": (10_000, 30_000, 100_000, 300_000, 1_000_000),
    "concepts": (100, 1_000, 10_000, 100_000),
}
KINDS: Final = 20
GROUPS: Final = 16
RELATIONS: Final = 100
REGULAR: Final = 0.8
"""The share of assertions that lead to the group that their relation says; the others lead to any of the kind."""
DRAWN: Final = 1 << 21
"""Assertions drawn at a time."""
HOPS: Final = ("1p", "2p", "3p")
SHORT: Final = ("links", "kept", "calibration", "concepts", "all facts", "predicting", "subsumptions")
"""The parts of `tarbox.models.credo.plan.plan`, in short."""


@dataclass(frozen=True, slots=True)
class Size:
    """How much of each there is."""

    facts: int = 1_000_000
    entities: int = 100_000
    concepts: int = 1_000


TINY: Final = Size(1_000, 100, 20)


def generate(size: Size, seed: int = 0) -> Facts:
    """A knowledge base of about this size; with far more facts than its kinds have pairs it has fewer."""
    random = np.random.default_rng(seed)
    kinds = min(KINDS, max(1, size.concepts // 4))
    weights = 1 / np.sqrt(np.arange(kinds) + 1.0)
    starts = np.append(0, np.round(np.cumsum(weights / weights.sum()) * size.entities)).astype(np.int64)
    heads, relations, tails = _assertions(size, starts, random)
    typed, types = _typings(size, starts, random)
    subs, supers = _hierarchy(size.concepts, kinds, random)
    entities, concepts, named_relations = (
        Names(role, pa.array([f"urn:x:{role.value[0]}{row:08}" for row in range(count)]), pa.nulls(count, pa.string()))
        for role, count in zip(Role, (size.entities, size.concepts, RELATIONS), strict=True)
    )
    splits = np.full(len(heads), NO_SPLIT, np.int8)
    vocabulary = Vocabulary(entities, concepts, named_relations, SYNONYMS.empty_table())
    return Facts(vocabulary, heads, relations, tails, typed, types, subs, supers, splits)


def _assertions(
    size: Size, starts: NDArray[np.int64], random: np.random.Generator
) -> tuple[NDArray[np.int32], NDArray[np.int32], NDArray[np.int32]]:
    """Heads, relations and tails, sorted; relations differ in how frequent they are, as entities do."""
    kinds = len(starts) - 1
    domain, reached = random.integers(0, kinds, (2, RELATIONS))
    turn, shift = 2 * random.integers(0, GROUPS // 2, RELATIONS) + 1, random.integers(0, GROUPS, RELATIONS)
    frequency = np.cumsum(1 / (np.arange(RELATIONS) + 5.0))
    keys = np.empty(0, np.int64)
    for _ in range(60):
        missing = size.facts - len(keys)
        if missing <= 0:
            break
        count = min(DRAWN, 3 * missing + 1000)
        relation = np.searchsorted(frequency, random.random(count) * frequency[-1])
        head = _pick(starts, domain[relation], random.random(count) ** 2)
        group = (turn[relation] * head + shift[relation]) % GROUPS
        group = np.where(random.random(count) < REGULAR, group, random.integers(0, GROUPS, count))
        tail = _pick(starts, reached[relation], random.random(count) ** 3)
        tail = np.minimum(tail - tail % GROUPS + group, starts[reached[relation] + 1] - 1)
        drawn = (head * RELATIONS + relation) * size.entities + tail
        keys = np.unique(np.concatenate([keys, drawn]))
    if len(keys) > size.facts:
        keys = keys[np.sort(random.permutation(len(keys))[: size.facts])]
    rest, tail = np.divmod(keys, size.entities)
    head, relation = np.divmod(rest, RELATIONS)
    return head.astype(np.int32), relation.astype(np.int32), tail.astype(np.int32)


def _pick(starts: NDArray[np.int64], kinds: NDArray[Any], place: NDArray[np.float64]) -> NDArray[np.int64]:
    """The entities at these places (0 to 1) of their kinds."""
    width = starts[kinds + 1] - starts[kinds]
    found: NDArray[np.int64] = starts[kinds] + np.minimum((place * width).astype(np.int64), np.maximum(width - 1, 0))
    return found


def _typings(
    size: Size, starts: NDArray[np.int64], random: np.random.Generator
) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
    """One or two concepts of each entity: of its kind, and of the part of these that its group has."""
    kinds = len(starts) - 1
    entities = np.arange(size.entities)
    entities = np.concatenate([entities, entities[random.random(size.entities) < 0.5]])
    kind = np.searchsorted(starts, entities, side="right") - 1
    room = (size.concepts - 2 - kind) // kinds + 1
    place = (entities % GROUPS + random.random(len(entities)) ** 2) / GROUPS
    concepts = 1 + kind + kinds * (place * room).astype(np.int64)
    keys = np.unique(entities * size.concepts + concepts)
    typed, types = np.divmod(keys, size.concepts)
    return typed.astype(np.int32), types.astype(np.int32)


def _hierarchy(concepts: int, kinds: int, random: np.random.Generator) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
    """Each concept of a kind below an earlier one of it, at random; the first of each below concept 0."""
    subs = np.arange(1, concepts)
    kind, place = (subs - 1) % kinds, (subs - 1) // kinds
    above = (place * random.random(len(subs))).astype(np.int64)
    supers = np.where(place == 0, 0, 1 + kind + kinds * above)
    return subs.astype(np.int32), supers.astype(np.int32)


@dataclass(slots=True)
class Meter:
    """Listens to a training: seconds and greatest memory, in GB, of each part of it."""

    cuda: bool
    parts: dict[str, dict[str, float]] = field(default_factory=dict)
    part: str = "opening the store"
    began: float = field(default_factory=time.monotonic)

    def __call__(self, event: Any) -> None:
        from tarbox.training.events import Finished, PartBegan

        if isinstance(event, PartBegan):
            self.close(event.part)
        elif isinstance(event, Finished):
            self.close("writing the run")

    def close(self, following: str = "") -> None:
        """The part under way ends, and the next one begins."""
        import torch

        from tarbox.training.memory import resident_peak

        now = time.monotonic()
        print(f"    {self.part}: {now - self.began:.1f} s", file=sys.stderr, flush=True)
        self.parts[self.part] = {"seconds": now - self.began, "GB": resident_peak() / 1e9}
        if self.cuda:
            self.parts[self.part]["device GB"] = torch.cuda.max_memory_allocated() / 1e9
            torch.cuda.reset_peak_memory_stats()
        forget_peak()
        self.part, self.began = following, now


def forget_peak() -> None:
    """From now on the greatest memory of this process is that since now, where Linux lets it be set back."""
    try:
        Path("/proc/self/clear_refs").write_text("5", encoding="ascii")
    except OSError:
        return


def work(options: argparse.Namespace) -> None:
    """One size: generate, train, ask; prints JSON."""
    import torch

    from tarbox.training.session import Listeners, start
    from tarbox.training.settings import read_assignments, read_recipe, resolve

    given = [f"stopping.epochs={options.epochs}", f"hardware.device={options.device}", *options.set]
    settings = resolve([read_recipe("credo"), read_assignments(given, "credo")], "credo")
    with tempfile.TemporaryDirectory() as scratch:
        store, run = options.store or Path(scratch) / "kb", Path(scratch) / "run"
        began = time.monotonic()
        if options.store is None:
            write_store(store, generate(Size(**json.loads(options.worker))))
        generated = time.monotonic() - began
        forget_peak()
        meter = Meter(options.device != "cpu" and torch.cuda.is_available())
        start(store, run, settings, Listeners([meter]))
        meter.close()
        found = {
            "counts": open_store(store).facts.counts(),
            "seconds to generate": generated,
            "parts": meter.parts,
            "bytes": (run / "model.safetensors").stat().st_size,
        }
        if options.answer:
            found["answers"] = ask_alone(run)
    print(json.dumps(found))


def ask_alone(run: Path) -> Any:
    """What `answer` finds, in a process with one thread."""
    single = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS"), "1")
    command = [sys.executable, __file__, "--answer-run", str(run)]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, env=os.environ | single, check=True)
    return json.loads(done.stdout.strip().splitlines()[-1])


def answer(run: Path, count: int = 200) -> dict[str, Any]:
    """Milliseconds (median, 99th percentile) of one query at both levels, and of loading the run."""
    from tarbox.models.credo.model import Credo
    from tarbox.models.credo.queries import QueryGraph, draw_queries
    from tarbox.models.saved import open_run
    from tarbox.query.templates import TEMPLATES
    from tarbox.training.memory import resident_peak

    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:1])
    began = time.monotonic()
    credo = open_run(run).scorer()
    assert isinstance(credo, Credo)
    found: dict[str, Any] = {"seconds to load": time.monotonic() - began}
    random, graph = np.random.default_rng(0), QueryGraph.of(credo.index.graph)
    for name in HOPS:
        shape = TEMPLATES[name].shape
        queries = draw_queries(shape, graph, count, random)
        credo.predict(shape, queries[:1])  # compiles
        taken = []
        for row in range(len(queries)):
            began = time.perf_counter()
            credo.predict(shape, queries[row : row + 1])
            taken.append(1000 * (time.perf_counter() - began))
        found[name] = np.percentile(taken, [50, 99]).tolist()
    return {**found, "GB": resident_peak() / 1e9}


def training_figures(found: dict[str, Any]) -> dict[str, float]:
    """Seconds by part and in all, and the greatest memory."""
    parts = found["parts"]
    names = [name for name in parts if name not in ("opening the store", "writing the run")]
    figures = {short: parts[name]["seconds"] for short, name in zip(SHORT, names, strict=True)}
    figures["all s"] = sum(part["seconds"] for part in parts.values())
    figures["GB"] = max(part["GB"] for part in parts.values())
    if any("device GB" in part for part in parts.values()):
        figures["device GB"] = max(part.get("device GB", 0.0) for part in parts.values())
    return figures


def answer_figures(found: dict[str, Any]) -> dict[str, float]:
    """Milliseconds, and what loading takes."""
    asked = found["answers"]
    times = {f"{name} {kind}": asked[name][place] for name in HOPS for place, kind in enumerate(("ms", "p99"))}
    return {**times, "loading s": asked["seconds to load"], "GB": asked["GB"]}


def show(axis: str, results: Sequence[dict[str, Any]], figures: Callable[[dict[str, Any]], dict[str, float]]) -> str:
    """The table: each figure, and behind it its ratio to linear growth."""
    key = "assertions" if axis == "facts" else axis
    rows = [(found["counts"][key], figures(found)) for found in results]
    lines = [f"{axis:>11}" + "".join(f"{name:>15}" for name in rows[0][1])]
    before: tuple[int, dict[str, float]] | None = None
    for size, own in rows:
        line = f"{size:11,}"
        for name, value in own.items():
            linear = before[1][name] * size / before[0] if before is not None else 0.0
            ratio = f"({value / linear:.2f})" if linear > 0 else ""
            line += f"{value:8.2f} {ratio:>6}"
        lines.append(line)
        before = size, own
    return "\n".join(lines)


def summary(axis: str, results: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Of each size what it takes in all, and how many times as much that is as linear growth from the size before."""
    key = "assertions" if axis == "facts" else axis
    rows: list[dict[str, Any]] = []
    before: dict[str, float] = {}
    for found in results:
        figures, size = training_figures(found), found["counts"][key]
        own = {"size": float(size), "seconds": figures["all s"], "GB": figures["GB"]}
        row: dict[str, Any] = {"axis": axis, "size": f"{size:,} {axis}", "seconds": own["seconds"], "GB": own["GB"]}
        if before:
            linear = own["size"] / before["size"]
            row |= {f"{name}_to_linear": own[name] / before[name] / linear for name in ("seconds", "GB")}
        rows.append(row)
        before = own
    return rows


def read_options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--store", type=Path, help="instead of what is generated")
    parser.add_argument("--axis", choices=tuple(AXES), default="facts")
    parser.add_argument("--sizes", type=lambda text: [int(float(part)) for part in text.split(",")], help="of the axis")
    for name, value in asdict(Size()).items():
        parser.add_argument(f"--{name}", type=int, default=value, help="where it is not the axis (%(default)s)")
    parser.add_argument("--device", default="auto", help="auto, cpu or cuda")
    parser.add_argument("--epochs", type=int, default=2, help="of the link predictor")
    parser.add_argument("--set", action="append", default=[], help="any setting, as for `tarbox train`")
    parser.add_argument("--answer", action="store_true", help="also time answers on one thread")
    parser.add_argument("--worker", help=argparse.SUPPRESS)
    parser.add_argument("--answer-run", type=Path, help=argparse.SUPPRESS)
    return parser.parse_args()


def run_worker(options: argparse.Namespace, size: Size, store: Path | None = None) -> dict[str, Any] | None:
    """What `work` finds of a size, or of a store, in a process of its own; None where that fails."""
    command = [sys.executable, __file__, "--worker", json.dumps(asdict(size)), "--device", options.device]
    command += ["--epochs", str(options.epochs), *(f"--set={text}" for text in options.set)]
    command += [] if store is None else ["--store", str(store)]
    done = subprocess.run([*command, *["--answer"] * options.answer], stdout=subprocess.PIPE, text=True, check=False)
    found: dict[str, Any] | None = None if done.returncode else json.loads(done.stdout.strip().splitlines()[-1])
    return found


def main() -> None:
    options = read_options()
    if options.answer_run:
        print(json.dumps(answer(options.answer_run)))
        return
    if options.worker:
        work(options)
        return
    fixed = Size(options.facts, options.entities, options.concepts)
    run_worker(options, TINY)  # numba compiles once for a machine, which is no part of any size
    results: list[dict[str, Any]] = []
    for value in [getattr(fixed, options.axis)] if options.store else options.sizes or AXES[options.axis]:
        found = run_worker(options, replace(fixed, **{options.axis: value}), options.store)
        if found is None:
            print(f"{options.axis} {value:,} failed", flush=True)
            break
        results.append(found)
        parts = (f"{name} {part['seconds']:.1f} s, {part['GB']:.2f} GB" for name, part in found["parts"].items())
        print(f"{options.store or f'{options.axis} {value:,}'}: {'; '.join(parts)}", flush=True)
        if out := os.environ.get("OUT"):
            rows = [] if options.store else summary(options.axis, results)
            (Path(out) / "growth.json").write_text(json.dumps([*results, *rows], indent=1), encoding="utf-8")
    if options.answer and results:
        print("\n" + show(options.axis, results, answer_figures))
    if results:
        print("\n" + show(options.axis, results, training_figures))


if __name__ == "__main__":
    main()
