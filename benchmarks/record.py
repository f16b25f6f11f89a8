"""A measurement becomes a record, docs/results/NAME.json, of which `make results` makes the tables of the docs.

    python benchmarks/record.py counting-mine --label set=mine -- tarbox eval my-bench --model counting --json
    python benchmarks/record.py credo --label system=credo --rename name=set --seeds 0,1,2 --files OUT/reasoner.json \\
        --command 'python benchmarks/reasoner.py' --commit 1234567 --hardware 'one NVIDIA H200'    # it ran elsewhere

The command runs with $OUT, an empty folder. The JSON files that it leaves there are the figures; if there is none, its
output is, where that is JSON. Anything else is refused: what a program does not write as data is no record. Figures
become rows: texts are labels, numbers figures, `levels` and `templates` labels of what is below them, lists of numbers
their means. `--label key=value` says of all rows what the program does not.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import re
import shlex
import shutil
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
RECORDS = ROOT / "docs" / "results"
NESTED = {
    "levels": "level",
    "templates": "template",
    "parts": "part",
    "ranks": "level",
    "reliability": "template level",
}
"""Below these keys stand values of labels: {"levels": {"entity": {...}}} has rows with the label level=entity."""
LEFT_OUT = {"settings", "common", "runs", "bins", "ci", "published", "queries", "counting", "facts", "deviation"} | {
    "key", "content_hash", "vocabulary_hash", "tarbox", "interval"
}  # fmt: skip
"""What is no figure, or one of something else."""
RENAMED = {"model": "system", "benchmark": "set"}


def rows_of(content: Any, labels: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """Flat rows of what a program wrote."""
    if isinstance(content, list):
        for one in content:
            yield from rows_of(one, labels)
    if not isinstance(content, dict):
        return
    content = {key: value for key, value in content.items() if key not in LEFT_OUT}
    own = {RENAMED.get(key, key): value for key, value in content.items() if isinstance(value, str) or key == "seed"}
    labels = {**own, **labels}
    figures: dict[str, float] = {}
    for key, value in content.items():
        figures |= {} if key == "seed" else figures_of(key, value)
    if figures:
        yield {**labels, **figures}
    for key, value in content.items():
        if key in NESTED and isinstance(value, dict):
            for names, below in value.items():
                told = {**labels, **dict(zip(NESTED[key].split(), names.split(), strict=False))}
                if key == "parts" and all(isinstance(one, dict) for one in below.values()):
                    for name, part in below.items():  # of parts of one kind: missing=1, missing=2
                        yield from rows_of(part, {**told, names: name})
                else:
                    yield from rows_of({"templates": mean_ranks(below)} if key == "ranks" else below, told)
        elif not figures_of(key, value):
            yield from rows_of(value, labels)


def mean_ranks(templates: Mapping[str, list[float]]) -> dict[str, dict[str, float]]:
    """The MRR of each template, of reciprocal ranks by query."""
    return {template: {"mrr": statistics.fmean(values)} for template, values in templates.items()}


def figures_of(key: str, value: Any) -> dict[str, float]:
    """A number, a mean with its deviation, numbers by a name; nothing of other values."""
    match value:
        case bool():
            return {}
        case int() | float():
            return {key: round(value, 6)}
        case {"mean": mean, "deviation": deviation}:
            return figures_of(key, mean) | figures_of(f"{key}_sd", deviation)
        case {} if key not in NESTED and value and all(isinstance(one, (int, float)) for one in value.values()):
            return {f"{key} {name}": round(one, 6) for name, one in value.items()}
    return {}


def find_commit() -> str:
    def git(*words: str) -> str:
        return subprocess.run(["git", *words], cwd=ROOT, capture_output=True, text=True, check=True).stdout.strip()

    changed = git("status", "--porcelain", "src", "benchmarks")
    return git("rev-parse", "--short=7", "HEAD") + (" with changes" if changed else "")


def find_hardware() -> str:
    if shutil.which("nvidia-smi"):
        asked = ["nvidia-smi", "--query-gpu=name", "--format=csv,noheader"]
        return ", ".join(subprocess.run(asked, capture_output=True, text=True, check=True).stdout.splitlines())
    cpuinfo = Path("/proc/cpuinfo")
    models = re.findall(r"model name\s*: (.*)", cpuinfo.read_text()) if cpuinfo.exists() else []
    return f"{os.cpu_count()} cores ({models[0] if models else platform.machine()})"


def run(command: list[str]) -> list[Any]:
    """What the command leaves as JSON: in $OUT, or as its output."""
    with tempfile.TemporaryDirectory() as out:
        environment = {**os.environ, "OUT": out, "PYTHONPATH": str(ROOT / "src")}
        done = subprocess.run(command, env=environment, stdout=subprocess.PIPE, text=True, check=False)
        sys.stderr.write(done.stdout)
        if done.returncode:
            raise SystemExit(f"the command failed with status {done.returncode}: no record")
        if files := sorted(Path(out).rglob("*.json")):
            return [json.loads(file.read_text(encoding="utf-8")) for file in files]
        try:
            return [json.loads(done.stdout)]
        except json.JSONDecodeError:
            raise SystemExit("the command left no JSON, neither in $OUT nor as its output: no record") from None


def read_options() -> argparse.Namespace:
    layout = argparse.RawDescriptionHelpFormatter
    usage = "%(prog)s NAME [options] -- COMMAND"
    parser = argparse.ArgumentParser(usage=usage, description=__doc__, formatter_class=layout)
    parser.add_argument("name", help="of the record: letters, digits and hyphens")
    parser.add_argument("--label", action="append", default=[], metavar="KEY=VALUE", help="of all rows")
    parser.add_argument("--rename", action="append", default=[], metavar="OLD=NEW", help="a label of the program's")
    parser.add_argument("--note", help="what a reader must know to read the figures rightly")
    parser.add_argument("--seeds", default="0", help="of the runs, such as 0,1,2")
    parser.add_argument("--files", type=Path, nargs="+", default=[], help="what a command wrote elsewhere")
    parser.add_argument("--command", help="that command")
    parser.add_argument("--commit", help="its commit; here, that of this checkout")
    parser.add_argument("--hardware", help="its hardware; here, this machine")
    parser.add_argument("--replace", action="store_true", help="a record of this name")
    given = [*sys.argv[1:], "--"]
    place = given.index("--")
    options = parser.parse_args(given[:place], argparse.Namespace(words=given[place + 1 : -1]))
    if bool(options.words) == bool(options.files):
        parser.error("give a command after --, or --files that it wrote")
    if options.files and not (options.command and options.commit and options.hardware):
        parser.error("--files need --command, --commit and --hardware: they are not known here")
    if not re.fullmatch(r"[a-z0-9-]+", options.name):
        parser.error(f"the name is {options.name!r}: letters, digits and hyphens are allowed")
    return options


def main() -> None:
    options = read_options()
    target = RECORDS / f"{options.name}.json"
    if target.exists() and not options.replace:
        raise SystemExit(f"{target.relative_to(ROOT)} exists: name another one, or --replace it")
    RENAMED.update(pair.split("=", 1) for pair in options.rename)
    written = [json.loads(file.read_text(encoding="utf-8")) for file in options.files] or run(options.words)
    rows = list(rows_of(written, dict(label.split("=", 1) for label in options.label)))
    if not 0 < len(rows) <= 2_000:
        raise SystemExit(f"{len(rows)} rows of figures: a record has 1 to 2,000")
    words = ["python" if word == sys.executable else word.removeprefix(f"{ROOT}/") for word in options.words]
    record = {
        "command": options.command or shlex.join(words),
        "commit": options.commit or find_commit(),
        "hardware": options.hardware or find_hardware(),
        "seeds": [int(seed) for seed in options.seeds.split(",")],
        **({"note": options.note} if options.note else {}),
    }
    head = [f" {json.dumps(key)}: {json.dumps(value, ensure_ascii=False)}" for key, value in record.items()]
    body = ",\n".join(f"  {json.dumps(row, ensure_ascii=False)}" for row in rows)
    target.write_text("{\n" + ",\n".join(head) + ',\n "figures": [\n' + body + "\n ]\n}\n", encoding="utf-8")
    names = sorted({key for row in rows for key in row})
    print(f"{target.relative_to(ROOT)}: {len(rows)} rows with {', '.join(names)}")


if __name__ == "__main__":
    main()
