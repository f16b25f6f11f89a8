"""A real server with academia, a real browser, and an accessibility check.

Without Chromium or Playwright the tests are skipped; where TARBOX_REQUIRE_BROWSER=1 is set, they fail instead.
"""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar, NoReturn
from urllib.parse import parse_qs, urlencode, urlsplit
from urllib.request import urlopen

import pytest

from tarbox.service.knowledge_base import KnowledgeBase

HERE = Path(__file__).parent
AXE = HERE.parent / "vendor" / "axe.min.js"
SHOTS = HERE.parents[2] / "test-output" / "page"
FLAGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]
IMPACTS = ("serious", "critical")
DESKTOP, PHONE = (1360, 900), (360, 780)


def refuse(reason: str) -> NoReturn:
    """Skips the test, or fails it where a browser is required."""
    if os.environ.get("TARBOX_REQUIRE_BROWSER") == "1":
        pytest.fail(f"TARBOX_REQUIRE_BROWSER=1, but {reason}")
    pytest.skip(reason)


@pytest.fixture(scope="session")
def chromium() -> str:
    """The path of the browser."""
    if importlib.util.find_spec("playwright") is None:
        refuse("Playwright is not installed: pip install playwright")
    program = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
    if program is None:
        refuse("there is no Chromium here: apt-get install chromium")
    return program


@pytest.fixture(scope="session")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("page") / "academia"
    command = [sys.executable, "-m", "tarbox", "kb", "build", "--preset", "academia", "-o", str(folder)]
    subprocess.run(command, check=True, capture_output=True, timeout=120)
    return folder


@pytest.fixture(scope="session")
def academia(store: Path) -> KnowledgeBase:
    return KnowledgeBase.load(store)


@pytest.fixture(scope="session")
def address(chromium: str, store: Path) -> Iterator[str]:
    """The address of `tarbox serve` on a free port."""
    command = [sys.executable, "-m", "tarbox", "serve", str(store), "--port", "0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as server:
        assert server.stdout is not None
        first = server.stdout.readline()
        found = re.search(r"http://127\.0\.0\.1:\d+/", first)
        try:
            assert found, f"tarbox serve says: {first}{server.communicate(timeout=15)[0]}"
            with urlopen(f"{found.group()}health", timeout=30) as reply:
                assert reply.status == 200
            yield found.group()
        finally:
            server.terminate()
            try:
                server.wait(15)
            except subprocess.TimeoutExpired:
                server.kill()
                raise


@pytest.fixture(scope="module")
def browser(chromium: str) -> Iterator[Any]:
    """Chromium, without a window. It ends with the module: Playwright's event loop would disturb other tests."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        running = playwright.chromium.launch(executable_path=chromium, args=FLAGS)
        yield running
        running.close()


@dataclass
class Visit:
    """A page of the browser on our server, and everything that went wrong in it."""

    figure_1: ClassVar[str] = (
        "interestedIn some ((inverse investigates value GeoffreyHinton) and (inverse uses value Google))"
    )
    page: Any
    address: str
    faults: list[str] = field(default_factory=list)
    strangers: list[str] = field(default_factory=list)

    def go(self, **parameters: str) -> None:
        self.page.goto(self.address + (f"?{urlencode(parameters)}" if parameters else ""))

    def ask(self, query: str = figure_1) -> None:
        """Opens the page at a question, the paper's if not told otherwise, and waits for its answers."""
        self.go(q=query)
        self.page.wait_for_selector("#entities .row, #entities .none")
        self.page.wait_for_selector("#drawing canvas")

    def choose(self, level: str, label: str) -> None:
        """Clicks the answer with this label, in `entities` or `concepts`."""
        self.why(self.page.locator(f"#{level} .row", has=self.page.get_by_text(label, exact=True)))

    def why(self, row: Any) -> None:
        """Clicks the end of a row: its beginning is a link."""
        box = row.bounding_box()
        row.locator(".why").click(position={"x": box["width"] - 10, "y": box["height"] / 2})

    def parameters(self) -> dict[str, list[str]]:
        """What the page's address says."""
        return parse_qs(urlsplit(self.page.url).query)

    def shoot(self, name: str) -> None:
        """Keeps a picture of the whole page, and holds the page to its width and to accessibility."""
        SHOTS.mkdir(parents=True, exist_ok=True)
        self.page.evaluate("new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))")
        self.page.screenshot(path=SHOTS / f"{name}.png", full_page=True)
        self.check_width()
        self.check_accessibility()

    def check_width(self) -> None:
        wide, window = self.page.evaluate(
            "[document.documentElement.scrollWidth, document.documentElement.clientWidth]"
        )
        assert wide <= window, f"the page is {wide} pixels wide in a window of {window}"

    def check_accessibility(self) -> None:
        """No serious or critical fault that axe-core finds."""
        if not self.page.evaluate("Boolean(window.axe)"):
            self.page.evaluate(AXE.read_text(encoding="utf-8") + "\n;undefined")
        told = "({passes, violations}) => ({passes: passes.length, violations})"  # the rest is long to bring here
        found = self.page.evaluate(f"axe.run(document, {{resultTypes: ['violations']}}).then({told})")
        assert found["passes"], "axe-core looked at nothing"
        bad = [
            f"{fault['impact']} {fault['id']}: {[node['html'][:150] for node in fault['nodes']]}"
            for fault in found["violations"]
            if fault["impact"] in IMPACTS
        ]
        assert bad == []

    def texts(self, selector: str) -> list[str]:
        found: list[str] = self.page.locator(selector).all_inner_texts()
        return found


@pytest.fixture
def visit(browser: Any, address: str) -> Iterator[Callable[..., Visit]]:
    """Opens pages of a size and a colour scheme; in the end none of them may have reported a fault."""
    opened: list[tuple[Visit, Any]] = []

    def open_page(size: tuple[int, int] = DESKTOP, scheme: str = "light", at: str = address) -> Visit:
        context = browser.new_context(
            viewport={"width": size[0], "height": size[1]},
            color_scheme=scheme,
            permissions=["clipboard-read", "clipboard-write"],
        )
        context.set_default_timeout(10_000)
        made = Visit(context.new_page(), at)
        made.page.on("pageerror", lambda error: made.faults.append(str(error)))
        made.page.on(
            "console", lambda line: made.faults.append(line.text) if line.type in ("error", "warning") else None
        )
        made.page.on("request", lambda sent: None if sent.url.startswith(at) else made.strangers.append(sent.url))
        opened.append((made, context))
        return made

    yield open_page
    for made, context in opened:
        context.close()
        # The browser itself notes every reply of 400 and above: those are the tests' own provocations.
        assert [fault for fault in made.faults if not fault.startswith("Failed to load resource")] == []
        assert [url for url in made.strangers if not url.startswith(("data:", "blob:"))] == []
