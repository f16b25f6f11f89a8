"""What README.md, docs/python.md and docs/presets.md show is what the commands print."""

from __future__ import annotations

import doctest
import re
import shlex
from pathlib import Path

import pytest

from command import tarbox

ROOT = Path(__file__).parents[2]
README, PRESETS = ((ROOT / page).read_text(encoding="utf-8") for page in ("README.md", "docs/presets.md"))


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the commands of README.md run: it has `demo/academia`."""
    made = tmp_path_factory.mktemp("readme")
    run(made, "tarbox kb build --preset academia -o demo/academia")
    return made


def run(folder: Path, command: str, width: int = 100) -> str:
    """What a command prints, without the spaces at the ends of lines."""
    program, *arguments = shlex.split(command)
    assert program == "tarbox"
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        patch.setenv("COLUMNS", str(width))
        done = tarbox(*arguments)
    assert done.returncode == 0, done.stderr
    return "".join(f"{line.rstrip()}\n" for line in done.stdout.splitlines())


def test_the_first_question(folder: Path) -> None:
    block = re.search(r"^```\n\$ (tarbox ask .*?')\n(.*?)^```", README, re.MULTILINE | re.DOTALL)
    assert block is not None
    assert run(folder, block[1]) == block[2]


def test_the_questions_to_one_s_own_knowledge_base(folder: Path) -> None:
    """Their names are academia's."""
    asked = re.findall(r"^tarbox ask my-(?:kb|run) ('.*?')", README, re.MULTILINE)
    assert len(asked) == 2
    for question in asked:
        assert re.search(r"^[1-9]\d* entities", run(folder, f"tarbox ask demo/academia -k 0 {question}"), re.MULTILINE)


@pytest.mark.parametrize("page", ["README.md", "docs/python.md"])
def test_the_programs(folder: Path, page: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """What stands after >>> prints what stands below it; the programs of a page are one."""
    monkeypatch.chdir(folder)
    programs = re.findall(r"^```python\n(.*?)^```", (ROOT / page).read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
    written = doctest.DocTestParser().get_doctest("\n".join(programs), {}, page, page, 0)
    assert len(written.examples) >= 5
    told: list[str] = []
    doctest.DocTestRunner().run(written, out=told.append)
    assert "".join(told) == ""


def test_the_size_of_academia(folder: Path) -> None:
    row = re.search(r"^\| `kb build --preset academia` \|(.*)\|$", PRESETS, re.MULTILINE)
    assert row is not None
    shown = run(folder, "tarbox kb info demo/academia")
    kinds = ("entities", "concepts", "relations", "assertions", "typings", "subsumptions")
    for kind, count in zip(kinds, row[1].split("|"), strict=True):
        assert re.search(rf"^{kind} +{count.strip()}$", shown, re.MULTILINE), kind


def test_annotation_relations(tmp_path: Path) -> None:
    page = (ROOT / "docs" / "knowledge-bases.md").read_text(encoding="utf-8")
    block = re.search(r"^\$ cat genes.ttl\n(.*?)^```", page, re.MULTILINE | re.DOTALL)
    assert block is not None
    source, *asked = re.split(r"^\$ ", block[1], flags=re.MULTILINE)
    (tmp_path / "genes.ttl").write_text(source)
    (build, noted), (ask, answered) = (part.split("\n", 1) for part in asked)
    assert run(tmp_path, build).endswith(noted.removeprefix("...\n"))
    assert run(tmp_path, ask) == answered
