"""The same stores prepared on DuckDB and on Spark: are they the same, and what does each cost?

    python benchmarks/engines.py                        # 10 million generated lines; --lines 1000000 for a quick look
    python benchmarks/engines.py --lines 0 --data DIR   # the real folders below DIR
    python benchmarks/engines.py --infer owl            # with what follows from some axioms about the generated names
    python benchmarks/engines.py --real-spark PYTHON --lines 100000 --lose 2

Spark is pysail, a Spark Connect server without Java, in a process of its own. `--real-spark` is Apache Spark: PYTHON is
that of an environment with `pyspark` (not the one with `pyspark-client`: they share a folder), and needs Java 17. It
runs with two executors, processes too; `--lose` kills so many of them while a store is built.
Each build is a process of its own, so that peak memory is that of the build; `server_GB` is that of the server, the
driver of a real Spark. `processor` are seconds of the processors, the server's among them (of a real Spark the
driver's): what others do on the machine changes them little. What is written to $OUT is for `record.py`.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, final

from ingest import RDF_TYPE, RDFS, SCHEMA, generate, peak_rss

SAIL = """
import sys
from pysail.spark import SparkConnectServer
server = SparkConnectServer("127.0.0.1", int(sys.argv[1]))
server.start(background=True)
sys.stdin.read()
"""
CONNECT = "org.apache.spark.sql.connect.service.SparkConnectServer"
OWL = "http://www.w3.org/2002/07/owl#"
AXIOMS = f"""<{SCHEMA}relation0> <{RDFS}subPropertyOf> <{SCHEMA}relation1> .
<{SCHEMA}relation2> <{OWL}inverseOf> <{SCHEMA}relation3> .
<{SCHEMA}relation4> <{RDF_TYPE}> <{OWL}TransitiveProperty> .
<{SCHEMA}relation5> <{RDF_TYPE}> <{OWL}SymmetricProperty> .
<{SCHEMA}relation6> <{RDFS}domain> <{SCHEMA}Concept7> .
<{SCHEMA}relation8> <{RDFS}range> <{SCHEMA}Concept9> .
<{SCHEMA}Concept10> <{OWL}disjointWith> <{SCHEMA}Concept11> .
_:n <{RDF_TYPE}> <{OWL}Restriction> .
_:n <{OWL}onProperty> <{SCHEMA}relation0> .
_:n <{OWL}someValuesFrom> <{SCHEMA}Concept7> .
<{SCHEMA}Concept12> <{OWL}equivalentClass> _:n .
"""
EXECUTOR = "CoarseGrainedExecutorBackend"
EXECUTORS, EXECUTOR_MB = 2, 2048
STRUCK = "interpreting"  # the stage at which executors are lost


@final
@dataclass(frozen=True, slots=True)
class Server:
    """A Spark Connect server that this program started."""

    name: str
    remote: str
    process: subprocess.Popen[bytes]

    def memory(self) -> float:
        """The most that its process has held, in GB."""
        status = Path(f"/proc/{self.process.pid}/status").read_text()
        return int(next(line.split()[1] for line in status.splitlines() if line.startswith("VmHWM"))) / 1e6

    def processor(self) -> float:
        """Seconds of the processors that it has taken."""
        fields = Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def lose(self, executors: int) -> int:
        """Kill some of its executors; returns how many there were to kill."""
        mark, struck = f"-Dtarbox.server={self.remote.rpartition(':')[2]}".encode(), 0
        for folder in Path("/proc").glob("[0-9]*"):
            try:
                command = (folder / "cmdline").read_bytes()
            except OSError:
                continue
            if struck < executors and EXECUTOR.encode() in command and mark in command:
                os.kill(int(folder.name), signal.SIGKILL)
                struck += 1
        return struck


@contextmanager
def sail(folder: Path) -> Iterator[Server]:
    port = free_port()
    with started([sys.executable, "-c", SAIL, str(port)], port, folder, dict(os.environ)) as process:
        yield Server("pysail", f"sc://127.0.0.1:{port}", process)


@contextmanager
def real_spark(folder: Path, python: str) -> Iterator[Server]:
    port = free_port()
    find = "import pyspark; print(pyspark.__path__[0])"
    home = subprocess.run([python, "-c", find], check=True, stdout=subprocess.PIPE, text=True).stdout.strip()
    options = {
        "spark.connect.grpc.binding.port": str(port),
        "spark.ui.enabled": "false",
        "spark.sql.shuffle.partitions": "4",
        "spark.executor.memory": f"{EXECUTOR_MB}m",
        "spark.executor.extraJavaOptions": f"-Dtarbox.server={port}",
        "spark.sql.warehouse.dir": str(folder / "warehouse"),
    }
    command = [f"{home}/bin/spark-submit", "--master", f"local-cluster[{EXECUTORS},1,{EXECUTOR_MB}]"]
    command += ["--driver-memory", "2g", "--class", CONNECT]
    for key, value in options.items():
        command += ["--conf", f"{key}={value}"]
    with started([*command, "spark-internal"], port, folder, os.environ | {"SPARK_HOME": home}) as process:
        yield Server("spark", f"sc://127.0.0.1:{port}", process)


@contextmanager
def started(
    command: list[str], port: int, folder: Path, environment: dict[str, str]
) -> Iterator[subprocess.Popen[bytes]]:
    """A server's process, once it listens; ended with what it started."""
    with (folder / "server.log").open("wb") as log:
        process = subprocess.Popen(
            command, cwd=folder, env=environment, stdin=subprocess.PIPE, stdout=log, stderr=log, start_new_session=True
        )
        try:
            deadline = time.monotonic() + 180
            while socket.socket().connect_ex(("127.0.0.1", port)):
                if process.poll() is not None or time.monotonic() > deadline:
                    sys.exit(f"the server did not start:\n{(folder / 'server.log').read_text()[-2000:]}")
                time.sleep(0.2)
            yield process
        finally:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def build(sources: list[str], out: str, remote: str, infer: str) -> None:
    """One build, its stages on stdout, then what it cost as JSON."""
    from tarbox.core.errors import TarboxError
    from tarbox.kb.build import BuildOptions, Progress
    from tarbox.kb.build import build as build_store
    from tarbox.kb.reasoning.inference import InferenceMode
    from tarbox.kb.sources import find_sources

    begun = time.perf_counter()
    try:
        store = build_store(
            find_sources(sources)[0],
            out,
            BuildOptions(infer=InferenceMode(infer), remote=remote or None),
            Progress(stage=lambda text: print(text, flush=True)),
        )
    except TarboxError as error:
        print(json.dumps({"error": str(error), "left": Path(out).exists()}))
        return
    seconds, manifest = time.perf_counter() - begun, store.manifest
    cost = {
        "seconds": round(seconds, 1),
        "processor": round(time.process_time(), 1),
        "client_GB": round(peak_rss() / 1e9, 2),
    }
    print(json.dumps({**cost, **{key: manifest[key] for key in SAME}}))


def measure(sources: list[str], out: Path, server: Server | None, infer: str, lose: int = 0) -> dict[str, Any]:
    """A build in a process of its own; with `lose`, executors are killed in the middle of it."""
    remote = server.remote if server else ""
    command = [sys.executable, __file__, "--measure", str(out), remote, infer, *sources]
    last, before = "", server.processor() if server else 0.0
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        for last in process.stdout:
            if lose and server and last.startswith(STRUCK):
                print(f"  {server.lose(lose)} of {EXECUTORS} executors killed")
    found: dict[str, Any] = json.loads(last)
    if server and "processor" in found:
        found["processor"] = round(found["processor"] + server.processor() - before, 1)
        found["server_GB"] = round(server.memory(), 2)
    return found


def compare(
    name: str, sources: list[str], folder: Path, server: Server, infer: str, lose: int
) -> Iterator[dict[str, Any]]:
    """Both engines' costs; the program ends where their stores or accounts differ."""
    expected = measure(sources, folder / "kb-duckdb", None, infer)
    found = measure(sources, folder / "kb-spark", server, infer, lose)
    for engine, cost in (("duckdb", expected), (server.name, found)):
        row = {"set": name, "engine": engine, **{k: v for k, v in cost.items() if k in COSTS}}
        if engine != "duckdb":
            same = all(found.get(key) == expected[key] for key in SAME)
            row["same"] = int(same)
            if not same:
                print(f"{name}: not the same on {engine}: {found.get('error', found)}")
                sys.exit(0 if lose and "error" in found and not found["left"] else 1)
        print("  ".join(f"{key} {value}" for key, value in row.items()), flush=True)
        yield row


SAME = ("content_hash", "counts", "inference", "report")
COSTS = ("seconds", "processor", "client_GB", "server_GB")


def real_folders(data: Path) -> Iterator[tuple[str, list[str]]]:
    """Each folder's files but the queries; a folder of folders as a whole."""
    for folder in sorted(path for path in data.iterdir() if path.is_dir()):
        files = [str(file) for file in sorted(folder.iterdir()) if file.is_file() and ".jsonl" not in file.name]
        yield folder.name, files or [str(folder)]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--lines", type=int, default=10_000_000)
    parser.add_argument("--data", type=Path)
    parser.add_argument("--only", default="", help="sets whose name has this")
    parser.add_argument("--real-spark", metavar="PYTHON")
    parser.add_argument("--infer", default="none", help="none, rdfs or owl")
    parser.add_argument("--lose", type=int, default=0)
    parser.add_argument("--measure", nargs="+", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.measure:
        out, remote, infer, *sources = options.measure
        build(sources, out, remote, infer)
        return
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # a server ends with this program
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        sets = list(real_folders(options.data)) if options.data else []
        if options.lines:
            generate(folder / "generated.nt", options.lines)
            if options.infer != "none":
                with (folder / "generated.nt").open("a") as file:
                    file.write(AXIOMS)
            sets.insert(0, (f"{options.lines:,} lines", [str(folder / "generated.nt")]))
        with real_spark(folder, options.real_spark) if options.real_spark else sail(folder) as server:
            rows = [
                row
                for name, files in sets
                if options.only in name
                for row in compare(name, files, folder, server, options.infer, options.lose)
            ]
    if out := os.environ.get("OUT"):
        (Path(out) / "engines.json").write_text(json.dumps(rows))


if __name__ == "__main__":
    main()
