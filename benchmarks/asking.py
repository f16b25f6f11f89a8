"""How fast `tarbox ask RUN --file QUERIES` answers many questions, by several processes and by one.

    python benchmarks/asking.py RUN                          # 100,000 questions, as many processes as processors
    python benchmarks/asking.py RUN --count 10000 --processes 2

Questions are made from random walks over the facts of the run, in equal parts of each template, and written as text.
The command is run as a user runs it, with --json, its output to a file: opening the run, reading names, answering with
ten of each kind, and printing are all in the time. Bar: two processes have 1.7 times the throughput of one, and print
the same bytes.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any, Final

from answering import Walks
from tarbox.execution.rows import decode
from tarbox.models.saved import open_run
from tarbox.query.render import render
from tarbox.query.templates import TEMPLATES

SHAPES: Final = ("1p", "2p", "2i", "3i", "pi", "2u", "2in")
FASTER: Final = 1.7


def write_queries(run: Path, count: int, file: Path) -> None:
    facts = open_run(run).facts
    walks = Walks(facts, 0)
    with file.open("w", encoding="utf-8") as out:
        for number in range(count):
            shape = TEMPLATES[SHAPES[number % len(SHAPES)]].shape
            out.write(render(decode(shape, walks.query(shape), facts.vocabulary)) + "\n")


def ask(run: Path, file: Path, processes: int, answers: Path) -> tuple[float, str]:
    """(seconds, a checksum of what was printed)"""
    command = [sys.executable, "-m", "tarbox", "ask", str(run), "--file", str(file), "--json"]
    began = time.perf_counter()
    with answers.open("wb") as out:
        subprocess.run([*command, "--processes", str(processes)], stdout=out, check=True)
    seconds = time.perf_counter() - began
    with answers.open("rb") as printed:
        return seconds, hashlib.file_digest(printed, "blake2b").hexdigest()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run", type=Path)
    parser.add_argument("--count", type=int, default=100_000)
    parser.add_argument("--processes", type=int, default=os.cpu_count() or 1)
    chosen = parser.parse_args()
    rows: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory() as folder:
        file, printed = Path(folder) / "queries.txt", set()
        write_queries(chosen.run, chosen.count, file)
        for processes in (1, chosen.processes):
            seconds, checksum = ask(chosen.run, file, processes, Path(folder) / "answers")
            printed.add(checksum)
            rate = chosen.count / seconds
            rows.append({"processes": f"{processes}", "questions_per_second": rate, "seconds": seconds})
            print(
                f"{processes} processes: {chosen.count:,} questions in {seconds:.1f} s, {rate:,.0f} a second",
                flush=True,
            )
    ratio = rows[1]["questions_per_second"] / rows[0]["questions_per_second"]
    rows.append({"compared": f"{chosen.processes} to 1", "questions": chosen.count, "speedup": ratio})
    met = ratio >= FASTER and len(printed) == 1
    print(f"{ratio:.2f} times one, {'the same' if len(printed) == 1 else 'OTHER'} bytes; bar {FASTER}: ", end="")
    print("met" if met else "MISSED")
    if "OUT" in os.environ:
        (Path(os.environ["OUT"]) / "asking.json").write_text(json.dumps(rows, indent=1) + "\n")
    sys.exit(0 if met else 1)


if __name__ == "__main__":
    main()
