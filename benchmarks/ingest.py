"""How fast `tarbox kb build` takes in N-Triples, as ratios to pyoxigraph's own streaming parser in the same run.

    python benchmarks/ingest.py                  # 10 million lines; --lines 1000000 for a quick look

The input is generated: a graph with a few frequent and many rare entities, typings, labels and a small hierarchy.
Each measurement is a process of its own, so that peak memory is that of the build alone.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

THING = "http://example.org/resource/"
SCHEMA = "http://example.org/ontology/"
RDF_TYPE = "http://www.w3.org/1999/02/22-rdf-syntax-ns#type"
RDFS = "http://www.w3.org/2000/01/rdf-schema#"
CONCEPTS = 1000


def generate(path: Path, lines: int, seed: int = 0) -> None:
    """`lines` N-Triples: 80% assertions over lines / 10 entities, 15% typings, 5% labels, some subsumptions."""
    random = np.random.default_rng(seed)
    entities = lines // 10
    with path.open("w") as file:
        for c in range(1, CONCEPTS):
            file.write(f"<{SCHEMA}Concept{c}> <{RDFS}subClassOf> <{SCHEMA}Concept{c // 4}> .\n")
        left = lines - CONCEPTS + 1
        while left > 0:
            size = min(left, 200_000)
            left -= size
            kinds = random.random(size)
            heads = (entities * random.random(size) ** 2).astype(int).tolist()
            tails = (entities * random.random(size) ** 2).astype(int).tolist()
            relations = random.integers(0, 200, size).tolist()
            file.writelines(
                f"<{THING}Entity_number_{h}> <{SCHEMA}relation{r}> <{THING}Entity_number_{t}> .\n"
                if k < 0.8
                else f"<{THING}Entity_number_{h}> <{RDF_TYPE}> <{SCHEMA}Concept{t % CONCEPTS}> .\n"
                if k < 0.95
                else f'<{THING}Entity_number_{h}> <{RDFS}label> "the entity number {h}"@en .\n'
                for k, h, r, t in zip(kinds.tolist(), heads, relations, tails, strict=True)
            )


def measure(what: str, *arguments: str) -> dict[str, float]:
    """Run one measurement of this script in a process of its own."""
    output = subprocess.run(
        [sys.executable, __file__, "--measure", what, *arguments], check=True, stdout=subprocess.PIPE, text=True
    ).stdout
    found: dict[str, float] = json.loads(output.splitlines()[-1])
    return found


def peak_rss() -> float:
    """The most memory this process has held, in bytes."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024.0


def parse(path: str) -> None:
    """pyoxigraph's streaming parser, as a plain loop over its quads."""
    import pyoxigraph as ox

    for _ in ox.parse(path=path, format=ox.RdfFormat.N_TRIPLES):
        pass


def build(path: str, out: str, memory: str = "") -> None:
    from tarbox.kb.build import BuildOptions
    from tarbox.kb.build import build as build_store
    from tarbox.kb.preparation.staging import parse_memory
    from tarbox.kb.sources import find_sources

    build_store(find_sources([path])[0], out, BuildOptions(memory=parse_memory(memory) if memory else None))


def open_store(path: str) -> None:
    from tarbox.kb.store import open_store as load

    load(path)


MEASUREMENTS: dict[str, Callable[..., None]] = {"parse": parse, "build": build, "open": open_store}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--lines", type=int, default=10_000_000)
    parser.add_argument("--measure", nargs="+", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.measure:
        what, *arguments = options.measure
        started = time.perf_counter()
        MEASUREMENTS[what](*arguments)
        print(json.dumps({"seconds": time.perf_counter() - started, "rss": peak_rss()}))
        return
    with tempfile.TemporaryDirectory() as folder:
        run(Path(folder), options.lines)


def run(folder: Path, lines: int) -> None:
    large, small = folder / "large.nt", folder / "small.nt"
    generate(large, lines)
    generate(small, lines // 10)
    size = large.stat().st_size
    print(f"{lines:,} lines, {size / 1e6:,.0f} MB")
    parsed = measure("parse", str(large))
    built = measure("build", str(large), str(folder / "kb"))
    tenth = measure("build", str(small), str(folder / "kb-small"))
    bounded = measure("build", str(large), str(folder / "kb-bounded"), "1GB")
    opened = measure("open", str(folder / "kb"))
    rows = [
        ("pyoxigraph, streaming parse alone", parsed, ""),
        ("kb build", built, f"{parsed['seconds'] / built['seconds']:.2f} of its rate (bar: 0.50)"),
        ("kb build --memory 1GB", bounded, f"{parsed['seconds'] / bounded['seconds']:.2f} of its rate (bar: 0.25)"),
        (f"kb build of {lines // 10:,} lines", tenth, ""),
        ("opening the store", opened, "(bar: 1 s)"),
    ]
    for name, found, note in rows:
        rate = f"{lines / found['seconds'] / 1e3:8,.0f}k lines/s" if found in (parsed, built, bounded) else " " * 17
        print(f"{name:36} {found['seconds']:7.2f} s {rate} {found['rss'] / 1e6:7,.0f} MB peak  {note}")
    ratio = (built["seconds"] / lines) / (tenth["seconds"] / (lines // 10))
    print(f"cost per line at {lines:,} is {ratio:.2f} of that at {lines // 10:,} (bar: 1.3)")
    print(f"peak memory with --memory 1GB: {bounded['rss'] / 1e9:.2f} GB (bar: 1.5)")


if __name__ == "__main__":
    main()
