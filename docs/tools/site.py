"""The pages of the site that are no files in docs/, and links that hold there and on GitHub.

mkdocs calls these hooks (mkdocs.yml). README.md is the first page; notebooks become pages; the reference is made from
the command line, the settings and the HTTP service themselves; code that a page links to is a page, and a link whose
text is a name, such as [`Tar.subsumption`](../src/tarbox/models/tar.py), leads to the line where it is defined.
"""

from __future__ import annotations

import asyncio
import dataclasses
import inspect
import json
import posixpath
import re
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import griffe
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

ROOT = Path(__file__).parents[2]
LINK = re.compile(r"(?<!!)\[([^\]]*)\]\((?!https?:|#|mailto:)([^)\s#]+)(#[^)\s]*)?\)")
OUTSIDE = {"README.md": "index.md", "CONTRIBUTING.md": "contributing.md", "CHANGELOG.md": "changelog.md"}


class Examples(griffe.Extension):
    """Examples of docstrings are code."""

    def on_object(self, *, obj: griffe.Object, **kwargs: Any) -> None:
        del kwargs
        if obj.docstring:
            example = re.compile(r"(^>>> .*(?:\n(?!\s*$).*)*)", re.M)
            obj.docstring.value = example.sub(r"\n```pycon\n\1\n```\n", obj.docstring.value)


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Completes the order of pages: notebooks that are not there are left out; what it does not name is added."""
    parts = {name: pages for part in config.nav or [] for name, pages in part.items()}
    notebooks = {f"notebooks/{file.stem}.md" for file in (ROOT / "docs/notebooks").glob("*.ipynb")}
    parts["Tutorials"] = [page for page in parts["Tutorials"] if notebooks & set(page.values())]
    parts["Explanations"][-1] = {"Decisions": ["adr/index.md", *(f"adr/{file.name}" for file in adrs())]}
    named = {path for part in parts.values() for page in part for path in page.values() if isinstance(path, str)}
    parts["Tutorials"] += sorted(notebooks - named)
    parts["How to"] += sorted({file.name for file in (ROOT / "docs").glob("*.md")} - named)
    config.nav = [{name: pages} for name, pages in parts.items()]
    return config


def adrs() -> list[Path]:
    return sorted((ROOT / "docs/adr").glob("*.md"))


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Adds the pages that are made, and those of the code that any page links to."""
    made = {site: (ROOT / path).read_text(encoding="utf-8") for path, site in OUTSIDE.items()}
    made |= {f"notebooks/{file.stem}.md": show_notebook(file) for file in (ROOT / "docs/notebooks").glob("*.ipynb")}
    made |= {"reference/commands.md": show_commands(), "reference/settings.md": "\n".join(show_settings())}
    made |= {"reference/http.md": "\n".join(show_http()), "reference/python.md": "\n".join(show_python())}
    titles = ((file.name, file.read_text(encoding="utf-8").partition("\n")[0][2:]) for file in adrs())
    made["adr/index.md"] = "# Decisions\n\n" + "".join(f"- [{title}]({name})\n" for name, title in titles)
    waiting = [(file.src_uri, file.content_string) for file in files.documentation_pages()] + list(made.items())
    while waiting:
        site, text = waiting.pop()
        for _, target, _ in LINK.findall(text):
            path = place_of(site, target)
            page = site_path(path)
            if page.startswith("code/") and page not in made and (ROOT / path).is_file():
                made[page] = show_code(path)
                waiting += [(page, made[page])] if path.endswith(".md") else []
    for site, text in made.items():
        files.append(File.generated(config, site, content=text))
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Links as the site has them; bars of tables within code as they are, which GitHub wants escaped."""
    del config, files
    site = page.file.src_uri
    markdown = re.sub(
        r"(?m)^\|.*$", lambda row: re.sub(r"`[^`]*`", lambda m: m[0].replace("\\|", "|"), row[0]), markdown
    )

    def lead(match: re.Match[str]) -> str:
        path = place_of(site, match[2])
        anchor = match[3] or (find_line(path, match[1]) if path.endswith(".py") else "")
        return f"[{match[1]}]({posixpath.relpath(site_path(path), posixpath.dirname(site) or '.')}{anchor})"

    return markdown if site.endswith(".py.md") else LINK.sub(lead, markdown)


def on_page_content(html: str, page: Page, config: MkDocsConfig, files: Files) -> None:
    """Lines of code are anchors, which mkdocs does not see."""
    del config, files
    page.present_anchor_ids = {*(page.present_anchor_ids or ()), *re.findall(r'id="(__codelineno-[\d-]+)"', html)}


def place_of(site: str, target: str) -> str:
    """Where a link of a page leads, as a path in the repository."""
    outside = {value: key for key, value in OUTSIDE.items()}
    code = site.removeprefix("code/").replace("readme.md", "README.md")
    origin = code if site.startswith("code/") else outside.get(site, f"docs/{site}")
    return posixpath.normpath(posixpath.join(posixpath.dirname(origin), target))


def site_path(path: str) -> str:
    """The page of a file of the repository. A README in small letters is no index of its folder."""
    if path.startswith("docs/"):
        return re.sub(r"^adr$", "adr/index.md", path.removeprefix("docs/").replace(".ipynb", ".md"))
    page = path.replace("README.md", "readme.md") if path.endswith(".md") else f"{path}.md"
    return OUTSIDE.get(path, f"code/{page}")


def find_line(path: str, text: str) -> str:
    """The anchor of the definition that the text of a link names; none where it names none."""
    name = re.escape(text.strip("`").rpartition(".")[2])
    lines = (ROOT / path).read_text(encoding="utf-8").splitlines()
    found = [n for n, line in enumerate(lines, 1) if re.match(rf"\s*(?:class|def) {name}\b|{name}\b.* = ", line)]
    return f"#__codelineno-0-{found[0]}" if found else ""


def show_code(path: str) -> str:
    text = (ROOT / path).read_text(encoding="utf-8")
    language = {".py": "python", ".toml": "toml"}.get(Path(path).suffix, "text")
    shown = f'# {Path(path).name}\n\n`{path}`\n\n~~~~{language} linenums="1"\n{text}~~~~\n'
    return text if path.endswith(".md") else shown


def show_notebook(file: Path) -> str:
    """Cells in their order, with what they printed and drew."""
    parts = []
    for cell in json.loads(file.read_text(encoding="utf-8"))["cells"]:
        source = "".join(cell["source"])
        parts.append(source if cell["cell_type"] == "markdown" else f"~~~~python\n{source}\n~~~~")
        for output in cell.get("outputs", ()):
            data = output.get("data", {})
            text = "".join(output.get("text") or data.get("text/plain", ()))
            if "image/png" in data:
                parts.append(f"![](data:image/png;base64,{''.join(data['image/png']).strip()})")
            elif text.strip():
                parts.append(f"~~~~text\n{text.rstrip()}\n~~~~")
    return "\n\n".join([*parts, f"This page is `docs/notebooks/{file.name}`, as it ran."]) + "\n"


def show_commands() -> str:
    import typer
    from typer.cli import get_docs_for_click

    from tarbox.cli.main import app

    command = typer.main.get_command(app)
    context: Any = command.make_context("tarbox", [], resilient_parsing=True)
    text = get_docs_for_click(obj=command, ctx=context, name="tarbox", title="Commands")
    return re.sub(r"\*\*Commands\*\*:\n\n(?:\* .*\n)+", "", text)  # they follow in full


def show_settings() -> Iterator[str]:
    from tarbox.models.registry import MODELS, find_model
    from tarbox.training.settings import COMPONENTS

    yield "# Settings\n\nOf `tarbox train --set key=value` and `--config FILE.toml` ([how](../training.md#settings)).\n"
    for table, kind in [*COMPONENTS.items(), *((f"model, name = {name}", find_model(name).Config) for name in MODELS)]:
        yield f"## {table}\n\n{inspect.getdoc(kind)}\n\n| setting | type | default |\n|---|---|---|"
        for one in dataclasses.fields(kind):
            yield f"| `{one.name}` | {one.type} | `{getattr(one.default, 'value', one.default)!r}` |"
        yield ""


def show_http() -> Iterator[str]:
    import httpx

    from tarbox.http.app import create_app
    from tarbox.kb.build import BuildOptions, build
    from tarbox.kb.presets import PRESETS
    from tarbox.service.answering import open_answerer

    with tempfile.TemporaryDirectory() as folder:
        build(PRESETS["academia"].sources(None), Path(folder, "kb"), BuildOptions(PRESETS["academia"].interpretation))
        transport = httpx.ASGITransport(create_app(open_answerer(Path(folder, "kb"))))
        reply = asyncio.run(httpx.AsyncClient(transport=transport, base_url="http://localhost").get("/openapi.json"))
    yield "# HTTP\n\nWhat `/openapi.json` says; [how to serve](../http.md) has examples, limits and errors.\n"
    for path, methods in reply.json()["paths"].items():
        for method, about in methods.items():
            yield f"## {method.upper()} {path}\n\n{about.get('description') or about.get('summary', '')}\n"
            asked = [(one["name"], one["schema"], one.get("description", "")) for one in about.get("parameters", ())]
            rows = [f"| `{name}` | {kind.get('default', '')} | {meaning} |" for name, kind, meaning in asked]
            yield "\n".join(["| parameter | default | meaning |", "|---|---|---|", *rows, ""]) if rows else ""
            yield "".join(f"- {status}: {one.get('description', '')}\n" for status, one in about["responses"].items())


def show_python() -> Iterator[str]:
    yield "# Python\n\n`KnowledgeBase`, `Reasoner` and `TarboxError` are in `tarbox`; `Answers` is what they give.\n"
    for name in ("service.knowledge_base.KnowledgeBase", "service.reasoner.Reasoner", "service.answers.Answers"):
        yield f"::: tarbox.{name}\n"
    yield "::: tarbox.core.errors.TarboxError\n"
