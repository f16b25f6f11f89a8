"""What must hold of the repository as a whole."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

import tarbox
from tarbox.core import errors

ROOT = Path(__file__).parents[1]
SOURCES = sorted((ROOT / "src" / "tarbox").rglob("*.py"))


def test_public_names() -> None:
    assert dir(tarbox) == ["KnowledgeBase", "Reasoner", "TarboxError", "__version__", "build", "open", "train"]
    assert tarbox.KnowledgeBase.__name__ == "KnowledgeBase"
    with pytest.raises(AttributeError, match="no attribute 'Nothing'"):
        tarbox.Nothing  # noqa: B018


def test_import_is_light() -> None:
    heavy = ["torch", "pyarrow", "numba", "duckdb", "rdflib", "matplotlib", "pandas"]
    code = f"import sys, tarbox; print([name for name in {heavy} if name in sys.modules])"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "[]\n"


def test_the_tree_of_errors_is_drawn_in_full() -> None:
    drawn = re.findall(r"[├└]── (\w+)", errors.__doc__ or "")
    defined = [
        name
        for name, value in vars(errors).items()
        if isinstance(value, type) and issubclass(value, errors.TarboxError) and value is not errors.TarboxError
    ]
    assert sorted(drawn) == sorted(defined)


def test_files_stay_small_and_named() -> None:
    files = [*SOURCES, *(ROOT / "tests").rglob("*.py"), *(ROOT / "benchmarks").glob("*.py")]
    assert [str(file) for file in files if len(file.read_text().splitlines()) > 400] == []
    assert not {file.stem for file in files} & {"utils", "helpers", "misc", "common"}


def test_a_class_or_type_means_one_thing() -> None:
    """Annotated parameters of routes are named as in requests; places in a queue are no places in arrays, either."""
    pattern = re.compile(r"^(?:class )?(_?[A-Z]\w*[a-z]\w*)\b(?:\(|:| = )", re.M)
    names = [name for source in SOURCES if source.parent.name != "http" for name in pattern.findall(source.read_text())]
    assert "_Reader" in names
    assert sorted({name for name in names if names.count(name) > 1}) == ["Places"]


def test_a_constant_means_one_thing() -> None:
    pattern = re.compile(r"^([A-Z][A-Z0-9_]*)\b(?::[^=\n]*)? = (?!(?:TypeVar|ParamSpec)\()", re.M)
    names = [name for source in SOURCES for name in pattern.findall(source.read_text())]
    assert sorted({name for name in names if names.count(name) > 1}) == []


def test_no_pickles() -> None:
    pattern = re.compile(r"pickle\.loads?\(|torch\.load\(")
    found = [str(path) for path in SOURCES if pattern.search(path.read_text())]
    assert found == []


def test_adrs_are_numbered_without_gaps_and_referred_to() -> None:
    pages = sorted((ROOT / "docs" / "adr").glob("*.md"))
    numbers = [int(page.name[:4]) for page in pages]
    assert [re.match(r"# ADR (\d+):", page.read_text())[1] for page in pages] == [str(number) for number in numbers]
    assert numbers == list(range(1, len(numbers) + 1))
    files = [*SOURCES, *(ROOT / "src").rglob("*.md"), *(ROOT / "src").rglob("*.toml"), *(ROOT / "docs").glob("*.md")]
    files += [
        *(ROOT / "docs/results").glob("*.md"),
        *(ROOT / "tests").rglob("*.py"),
        *(ROOT / "benchmarks").glob("*.py"),
        *(ROOT / "docs/tools").glob("*.py"),
    ]
    text = "\n".join(file.read_text() for file in files)
    lists = re.findall(r"ADRs? ((?:\d+(?:, | and )?)+)|adr/(\d+)-", text)
    named = {int(number) for pair in lists for number in re.findall(r"\d+", " ".join(pair))}
    assert [number for number in numbers if number not in named] == []


def test_makefile_serves_ci_and_readme() -> None:
    readme, ci = (ROOT / "README.md").read_text(), (ROOT / ".ci" / "run").read_text()
    for command in ("make demo", "make test"):
        assert command in readme
    assert "make test" in ci


def test_documentation_links_lead_somewhere() -> None:
    pages = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *(ROOT / "docs").rglob("*.md")]
    links = [(page, link) for page in pages for link in re.findall(r"\]\((?!https?:|#)([^)#\s]+)", page.read_text())]
    assert [f"{page.relative_to(ROOT)}: {link}" for page, link in links if not (page.parent / link).exists()] == []


def test_documentation_names_code_that_is_there() -> None:
    """A link from a page to a Python file has the name of something that the file defines, or the file's own."""
    pages = [*(ROOT / "docs").rglob("*.md"), *(ROOT / "src").rglob("*.md")]
    links = [(page, *link) for page in pages for link in re.findall(r"\[`([^`]+)`\]\(([^)#]+\.py)\)", page.read_text())]
    lost = []
    for page, name, target in links:
        last, text = re.escape(name.rpartition(".")[2]), (page.parent / target).read_text()
        if name != Path(target).name and not re.search(rf"(?m)^\s*(?:class|def) {last}\b|^{last}\b.* = ", text):
            lost.append(f"{page.relative_to(ROOT)}: {name}")
    assert links
    assert lost == []
