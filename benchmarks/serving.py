"""How a server holds up: loading, latency and throughput against the answers alone, hostile requests, kill -9.

    python benchmarks/serving.py demo/academia                    # load with 1, 8 and 32 clients, then kill -9
    python benchmarks/serving.py demo/academia --loading          # how long it takes until it answers
    python benchmarks/serving.py demo/academia --clients 64,200   # throughput with many clients against that with fewer
    python benchmarks/serving.py demo/academia --clients 1,8 --before OTHER/src      # against another version, in turns
    python benchmarks/serving.py demo/academia --hostile 10000    # hostile requests: does it answer, does memory stay

The path is a store or a run. The server is a process of its own on loopback; clients and the floor run here, in
turns, on the same processors. The *floor* is what answering costs without a server: the same questions, parsed and
answered in batches of 32 by one call each, every answer read, no JSON, no HTTP; it has the machine to itself, while the
server shares it with the clients. Linear algebra has one thread for the floor; a server decides for itself. Beside
times stands the processor time of each answer, of all the server's processes, which says more on a machine that others
use too. Two more figures tell what the others are worth: how fast the clients are against a server that answers
nothing, and, for a run, the model's scores alone. $OUT/serving.json has the figures of --clients and --hostile.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import replace
from itertools import cycle, islice
from pathlib import Path
from typing import Final
from urllib.parse import quote
from urllib.request import urlopen

import numpy as np
from numpy.typing import NDArray

from clients import THREADS, K, Load, load, questions, server, started
from hostile import attacks, launch
from tarbox.core.ids import Level, Role
from tarbox.execution.rows import encode
from tarbox.models.saved import is_run, open_run
from tarbox.query.algebra import Query
from tarbox.service.answering import Answerer, open_answerer, warm_up
from tarbox.service.knowledge_base import KnowledgeBase

NOTHING: Final = """
import asyncio, uvloop

REPLY = b"HTTP/1.1 200 OK\\r\\ncontent-length: 3000\\r\\n\\r\\n" + b"x" * 3000

class Nothing(asyncio.Protocol):
    def connection_made(self, transport):
        self.transport = transport

    def data_received(self, data):
        self.transport.write(REPLY * data.count(b"\\r\\n\\r\\n"))

async def main():
    server = await asyncio.get_running_loop().create_server(Nothing, "127.0.0.1", 0)
    print("http://%s:%d/" % server.sockets[0].getsockname(), flush=True)
    await server.serve_forever()

uvloop.run(main())
"""
LOADING: Final = """
import sys, time
began = time.perf_counter()
from pathlib import Path
from tarbox.models.registry import find_model
from tarbox.models.saved import is_run
if is_run(sys.argv[1]):
    import json
    import tarbox.service.reasoner
    find_model(json.loads((Path(sys.argv[1]) / "run.json").read_bytes())["model"])  # and torch, where it needs it
from tarbox.service.answering import open_answerer, warm_up
imported = time.perf_counter()
answerer = open_answerer(sys.argv[1])
answerer.kb.index
loaded = time.perf_counter()
warm_up(answerer)
print(imported - began, loaded - imported, time.perf_counter() - loaded)
"""
BATCH: Final = 32
BAR: Final = 0.7
LEVEL: Final = 0.97
"""The least share of another version's throughput; two turns of one version differ by more."""
CROWDED: Final = 0.9
"""The least share of the throughput of a few clients that many together have."""
LOADED: Final = 2.0
TURNS: Final = 7
SOUND: Final = 1.15
"""A server cannot outrun its floor; beyond this and noise, the floor was measured wrongly."""


def floor(answerer: Answerer, texts: list[str], seconds: float, size: int) -> tuple[float, float]:
    """Answers per second without a server, in batches of `size`; and the processor seconds of each.

    They are answered in a thread, as the server does: in the main thread torch shares its work among threads that wait
    for each other, which on a busy machine is many times slower and would flatter the server.
    """

    def measure() -> tuple[float, float]:
        stream, done = cycle(texts), 0
        began, used = time.perf_counter(), time.process_time()
        while time.perf_counter() - began < seconds:
            for answers in answerer.answer_many(list(islice(stream, size)), K):
                done += len([*answers.entities, *answers.concepts]) >= 0
        return done / (time.perf_counter() - began), (time.process_time() - used) / done

    with ThreadPoolExecutor(1) as thread:
        return thread.submit(measure).result()


def model_rate(path: Path, kb: KnowledgeBase, texts: list[str], seconds: float) -> float | None:
    """Questions per second that the model alone scores, at both levels, in batches of 32; None for a store."""
    if not is_run(path):
        return None
    scorer = open_run(path).scorer()
    batches = [_by_shape(kb, texts[at : at + BATCH]) for at in range(0, len(texts) - BATCH + 1, BATCH)]

    def measure() -> float:
        stream, done, began = cycle(batches), 0, time.perf_counter()
        while time.perf_counter() - began < seconds:
            for shape, ids in next(stream):
                for level in Level:
                    scorer.score(shape, ids, level)
            done += BATCH
        return done / (time.perf_counter() - began)

    with ThreadPoolExecutor(1) as thread:
        return thread.submit(measure).result()


def _by_shape(kb: KnowledgeBase, texts: list[str]) -> list[tuple[Query, NDArray[np.int32]]]:
    rows: dict[Query, list[NDArray[np.int32]]] = {}
    for text in texts:
        shape, ids = encode(kb.parse(text), kb.facts.vocabulary)
        rows.setdefault(shape, []).append(ids)
    return [(shape, np.stack(ids)) for shape, ids in rows.items()]


def processor_seconds(process: int) -> float:
    """What a process and those that it started have used of the processor so far (Linux)."""
    fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    started = [child for file in Path("/proc").glob(f"{process}/task/*/children") for child in file.read_text().split()]
    own = (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
    return own + sum(processor_seconds(int(child)) for child in started)


def compare(path: Path, seconds: float) -> bool:
    """Prints the figures under load; returns whether the bar is met.

    Floor and server take turns in short slices, each compared with its neighbour: what else the machine does changes
    by the minute, and falls on both alike. The ratio is the median over the turns.
    """
    answerer = open_answerer(path)
    warm_up(answerer)
    texts = questions(answerer.kb, 500)
    answerer.answer_many(texts[: 2 * BATCH], K)  # what is built or compiled on first use is not measured
    print(f"{path.name}: {len(answerer.kb.entities):,} entities, {len(texts)} questions, k = {K}, {TURNS} turns")
    with started(NOTHING) as (address, _):
        print(f"clients alone {asyncio.run(load(address, texts, 32, 1.0)).rate:,.0f}/s, from a server of nothing")
    scored = model_rate(path, answerer.kb, texts, 1.0)
    if scored is not None:
        print(f"model alone   {scored:,.0f}/s: scores of all candidates at both levels, no answers made of them")
    with server(path) as (address, process):
        asyncio.run(load(address, texts, 8, 1.0))
        for clients in (1, 8, 32):
            ratio = _take_turns(answerer, texts, (address, process.pid), clients, seconds / TURNS)
    verdict = "met" if BAR <= ratio <= SOUND else "missed" if ratio < BAR else "NOT MEASURED: faster than its own floor"
    print(f"bar           {BAR} at 32 clients: {verdict}")
    return BAR <= ratio <= SOUND


def crowd(path: Path, counts: list[int], seconds: float, before: Path | None) -> bool:
    """Prints the throughput of each number of clients, in turns; returns whether more have as much as the first, or,
    with another version, whether each has as much as there."""
    texts = questions(open_answerer(path).kb, 500)
    sources = {"now": None} | ({"before": before} if before else {})
    loads: dict[tuple[int, str], list[Load]] = {(count, name): [] for count in counts for name in sources}
    with ExitStack() as stack:
        servers = {name: stack.enter_context(server(path, source=source)) for name, source in sources.items()}
        for address, _ in servers.values():
            asyncio.run(load(address, texts, counts[0], 2.0))
        for _ in range(TURNS):
            for (count, name), turns in loads.items():
                address, process = servers[name]
                used = processor_seconds(process.pid)
                found = asyncio.run(load(address, texts, count, seconds / TURNS))
                each = (processor_seconds(process.pid) - used) / max(found.requests, 1)
                turns.append(replace(found, processor=each))
    rows = list[dict[str, object]]()
    for (count, name), turns in loads.items():
        other = loads[count, "before"] if before else loads[counts[0], "now"]
        ratio = float(np.median([a.rate / b.rate for a, b in zip(turns, other, strict=True)]))
        rates, whole = [found.rate for found in turns], _together(turns)
        median = {"answers": float(np.median(rates)), "least": min(rates), "most": max(rates), "ratio": ratio}
        counted = {"clients": count, "us": whole.processor * 1e6, "failed": whole.failures}
        rows.append({"version": name, **counted, **median})
        print(f"{name:7}{whole}   {ratio:.2f} of {'before' if before else counts[0]}", flush=True)
    least = LEVEL if before else CROWDED
    met = all(row["ratio"] >= least and not row["failed"] for row in rows if row["version"] == "now")  # type: ignore[operator]
    print(f"bar           {least} of {before or f'{counts[0]} clients'}, none refused: {'met' if met else 'missed'}")
    write(rows)
    return met


def write(rows: list[dict[str, object]]) -> None:
    """Leaves the figures where `record.py` finds them."""
    if out := os.environ.get("OUT"):
        (Path(out) / "serving.json").write_text(json.dumps(rows, indent=1))


def _together(loads: list[Load]) -> Load:
    """What the same number of clients measured in several turns."""
    return Load(
        loads[0].clients,
        sum(found.requests for found in loads),
        sum(found.seconds for found in loads),
        tuple(latency for found in loads for latency in found.latencies),
        sum(found.failures for found in loads),
        float(np.median([found.processor for found in loads])),
    )


def _take_turns(answerer: Answerer, texts: list[str], served: tuple[str, int], clients: int, seconds: float) -> float:
    """The median ratio of throughputs; prints it with its range and what the clients saw."""
    floors, loads = list[tuple[float, float]](), list[Load]()
    for _ in range(TURNS):
        floors.append(floor(answerer, texts, seconds, BATCH))
        used = processor_seconds(served[1])
        found = asyncio.run(load(served[0], texts, clients, seconds))
        loads.append(replace(found, processor=(processor_seconds(served[1]) - used) / max(found.requests, 1)))
    ratios = [found.rate / rate for found, (rate, _) in zip(loads, floors, strict=True)]
    by_processor = [each / found.processor for found, (_, each) in zip(loads, floors, strict=True)]
    whole = _together(loads)
    rate, each = np.median([rate for rate, _ in floors]), np.median([each for _, each in floors])
    print(
        f"{whole}\n{'':14}floor {rate:,.0f}/s, {each * 1e6:.0f} us CPU; of the floor: {np.median(ratios):.2f} ", end=""
    )
    print(f"({min(ratios):.2f} to {max(ratios):.2f}), by CPU {np.median(by_processor):.2f}", flush=True)
    return float(np.median(ratios))


def measure_loading(path: Path) -> bool:
    """Prints what a fresh process takes until it answers, the median of three; returns whether loading meets its bar.

    Imports stand apart: Python, and torch for the models that need it, cost them once, whatever is loaded.
    """
    command = [sys.executable, "-c", LOADING, str(path)]
    runs = [subprocess.run(command, check=True, capture_output=True, text=True).stdout.split() for _ in range(3)]
    imports, loading, warming = np.median(np.array(runs, np.float64), axis=0).tolist()
    print(f"imports       {imports:.2f} s")
    print(f"loading       {loading:.2f} s: facts verified and mapped, index, names, weights")
    print(f"both          {imports + loading:.2f} s")
    print(f"first answers {warming:.2f} s: look-ups, compiled code")
    met = bool(loading < LOADED)
    print(f"bar           {LOADED:g} s for loading: {'met' if met else 'missed'}")
    return met


def kill(path: Path, seconds: float) -> bool:
    """kill -9 under load, start again at the same port: are the answers the same?"""
    answerer = open_answerer(path)
    texts = questions(answerer.kb, 100)

    def answers(address: str) -> list[object]:
        found = [json.load(urlopen(f"{address}/api/answer?query={quote(text)}")) for text in texts[:20]]
        return [{**each, "milliseconds": 0} for each in found]

    with server(path) as (address, process):
        before = answers(address)

        async def interrupted() -> Load:
            running = asyncio.create_task(load(address, texts, 8, seconds))
            await asyncio.sleep(seconds / 2)
            process.send_signal(signal.SIGKILL)
            return await running

        under = asyncio.run(interrupted())
    began = time.perf_counter()
    with server(path, int(address.rpartition(":")[2])) as (again, _):
        same = answers(again) == before
        took = time.perf_counter() - began
        verdict = "the same" if same else "NOT THE SAME"
        print(f"kill -9       after {under.requests:,} requests; {took:.1f} s later {verdict} {len(before)} replies")
    return same


def withstand(path: Path, count: int) -> bool:
    """Hostile requests in ten lots; prints what memory and an honest question take after each."""
    kb = open_answerer(path).kb
    words = tuple(kb.resolver.write(Role.CONCEPT, iri) for iri in islice(kb.facts.vocabulary.concepts, 5))
    words += tuple(kb.resolver.write(Role.RELATION, iri) for iri in islice(kb.facts.vocabulary.relations, 5))
    text = questions(kb, 1)[0]
    failures, held, sizes, statuses = 0, 0, list[float](), Counter[str]()
    with tempfile.TemporaryFile("w+") as log, server(path, log=log) as (address, _):
        for lot in range(10):
            outcome = asyncio.run(launch(address, attacks(count // 10, seed=lot, words=words), together=48))
            failures += outcome.failures()
            for (_, status), number in outcome.statuses.items():
                statuses[f"status {status}"] += number
            statuses["closed"] += sum(outcome.closed.values())
            began = time.perf_counter()
            held += urlopen(f"{address}/api/answer?query={quote(text)}").status == 200
            taken = (time.perf_counter() - began) * 1_000
            sizes.append(resident(address))
            sent = (lot + 1) * (count // 10)
            print(f"{sent:6,} sent   {sizes[-1]:6.0f} MB   honest {taken:6.1f} ms   {outcome}", flush=True)
        log.seek(0)
        tracebacks = log.read().count("Traceback")
    flat = sizes[-1] - sizes[1] < 0.1 * sizes[1]
    verdict = "flat" if flat else "GROWS"
    print(
        f"{failures} mistakes of the server, {tracebacks} tracebacks; {held} of 10 honest questions; memory {verdict}"
    )
    memory = {"mb_after_2": sizes[1], "mb_at_end": sizes[-1]}
    write([{"sent": count, "mistakes": failures, "tracebacks": tracebacks, "honest": held, **memory, **statuses}])
    return failures == 0 == tracebacks and held == 10 and flat


def resident(address: str) -> float:
    """The server's memory in megabytes, as it says itself."""
    text = urlopen(f"{address}/metrics").read().decode()
    found = re.search(r"^process_resident_memory_bytes (\S+)", text, re.MULTILINE)
    return float(found[1]) / 1e6 if found else 0.0


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("path", type=Path, help="a store or a run")
    parser.add_argument(
        "--seconds", type=float, default=7.0, help="how long each measurement takes, floor and server each"
    )
    parser.add_argument("--loading", action="store_true", help="measure loading instead")
    parser.add_argument("--clients", help="numbers of clients to compare instead, such as 64,200")
    parser.add_argument("--before", type=Path, metavar="SRC", help="with --clients: another version's folder src")
    parser.add_argument("--hostile", type=int, metavar="COUNT", help="send so many hostile requests instead")
    chosen = parser.parse_args()
    if (
        THREADS not in os.environ
    ):  # the floor is one thread; two that wait for each other are slower, and flatter servers
        os.execve(sys.executable, [sys.executable, *sys.argv], {**os.environ, THREADS: "1"})
    if chosen.loading:
        passed = measure_loading(chosen.path)
    elif chosen.clients:
        counts = [int(count) for count in chosen.clients.split(",")]
        passed = crowd(chosen.path, counts, chosen.seconds, chosen.before)
    elif chosen.hostile:
        passed = withstand(chosen.path, chosen.hostile)
    else:
        passed = all([compare(chosen.path, chosen.seconds), kill(chosen.path, chosen.seconds)])
    sys.exit(0 if passed else 1)


if __name__ == "__main__":
    main()
