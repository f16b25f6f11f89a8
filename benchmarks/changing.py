"""Changing a store against building it anew: the cost of adding and removing a thousandth of its facts.

`python benchmarks/changing.py [FACTS ...]` prints seconds, of the wall clock and of all processors together, and the
ratio of the latter to a build; without arguments for 100,000, 1,000,000 and 3,000,000 facts. A change "of old names" is
of facts between names that the store has; one "with new names" brings a new entity in every other fact.
"""

from __future__ import annotations

import resource
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

from tarbox.kb.build import build
from tarbox.kb.changing import add, remove
from tarbox.kb.namespaces import LABEL, TYPE
from tarbox.kb.sources import Source
from tarbox.kb.store import Store

EX = "http://example.org/"
TIMES = 2


def write_facts(path: Path, rows: np.ndarray, first: str = "entity") -> list[Source]:
    """N-Triples of (head, relation, tail)."""
    with path.open("w") as file:
        for head, relation, tail in rows.tolist():
            file.write(f"<{EX}{first}/{head:08}> <{EX}relation/{relation}> <{EX}entity/{tail:08}> .\n")
    return [Source(path, path.name, "ntriples")]


def write_names(path: Path, entities: int) -> list[Source]:
    """A typing of each entity, and a label of every other one."""
    with path.open("w") as file:
        for entity in range(entities):
            iri = f"<{EX}entity/{entity:08}>"
            file.write(f"{iri} <{TYPE}> <{EX}concept/{entity % 997}> .\n")
            if entity % 2:
                file.write(f'{iri} <{LABEL}> "entity number {entity}" .\n')
    return [Source(path, path.name, "ntriples")]


def measure(work: Callable[[], object]) -> tuple[float, float]:
    """Seconds of the wall clock and of the processors."""
    before, start = resource.getrusage(resource.RUSAGE_SELF), time.perf_counter()
    work()
    after = resource.getrusage(resource.RUSAGE_SELF)
    spent = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return time.perf_counter() - start, spent


def compare(folder: Path, facts: int) -> None:
    """One store: a build, then changes and their reverse; the best of several."""
    chance, entities, part = np.random.default_rng(facts), facts // 5, facts // 1000
    rows = np.stack([chance.integers(size, size=facts + part) for size in (entities, 50, entities)], axis=1)
    whole = [*write_facts(folder / "facts.nt", rows[:facts]), *write_names(folder / "names.nt", entities)]
    old = write_facts(folder / "old.nt", rows[facts:])
    new = [
        *write_facts(folder / "new.nt", rows[facts::2], "entity/1new"),
        *write_facts(folder / "half.nt", rows[facts + 1 :: 2]),
    ]
    built: list[Store] = []
    wall, spent = measure(lambda: built.append(build(whole, folder / "kb")))
    kb, content = built[0].path, built[0].manifest["content_hash"]
    size = sum(entry["bytes"] for entry in built[0].manifest["files"].values()) / 1e6
    print(f"{facts:,} facts, {size:.0f} MB: built in {wall:.1f} s, {spent:.1f} s of the processors")
    for title, change in (("of old names", old), ("with new names", new)):
        for verb, do in (("add", add), ("remove", remove)):
            timings = []
            for _ in range(TIMES):
                timings.append(measure(lambda do=do, change=change: do(kb, change)))  # type: ignore[misc]
                last = verb == "remove" and (kb / "manifest.json").read_text()
                assert not last or content in last, "removing what was added leads back"
                if len(timings) < TIMES:
                    (remove if verb == "add" else add)(kb, change)
            seconds, least = min(wall for wall, _ in timings), min(cpu for _, cpu in timings)
            shown = f"{seconds:.2f} s, {least:.2f} s of the processors: 1/{spent / least:.0f}"
            print(f"  {verb} {part:,} facts {title}: {shown}", flush=True)


def main() -> None:
    for facts in map(int, sys.argv[1:] or ["100000", "1000000", "3000000"]):
        with tempfile.TemporaryDirectory() as folder:
            compare(Path(folder), facts)


if __name__ == "__main__":
    main()
