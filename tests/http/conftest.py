"""The embedded academia, served on loopback."""

from __future__ import annotations

import importlib.util
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from types import ModuleType

import httpx
import pytest

from tarbox.cli.serve import bind
from tarbox.http.app import create_app
from tarbox.http.settings import ServerSettings
from tarbox.http.worker import Server
from tarbox.kb.build import BuildOptions, build
from tarbox.kb.presets import PRESETS
from tarbox.kb.reasoning.inference import InferenceMode
from tarbox.kb.sources import find_sources
from tarbox.service.answering import Answerer, open_answerer
from tarbox.service.knowledge_base import KnowledgeBase

PIZZAS = """Prefix(:=<http://pizza.example/>)
Ontology(<http://pizza.example/>
Declaration(Class(:Pizza)) Declaration(Class(:Topping)) Declaration(Class(:Cheese)) Declaration(Class(:CheesyPizza))
Declaration(Class(:Margherita)) Declaration(ObjectProperty(:hasTopping)) Declaration(NamedIndividual(:mine))
SubClassOf(:Cheese :Topping) SubClassOf(:Margherita :Pizza) DisjointClasses(:Pizza :Topping)
SubClassOf(:Margherita ObjectSomeValuesFrom(:hasTopping :Cheese))
EquivalentClasses(:CheesyPizza ObjectIntersectionOf(:Pizza ObjectSomeValuesFrom(:hasTopping :Cheese)))
ClassAssertion(:Margherita :mine) ClassAssertion(:Cheese :some) ObjectPropertyAssertion(:hasTopping :mine :some)
)
"""
Serve = Callable[..., AbstractContextManager[str]]


@pytest.fixture(scope="session")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    preset = PRESETS["academia"]
    path = tmp_path_factory.mktemp("http") / "academia"
    build(preset.sources(None), path, BuildOptions(preset.interpretation))
    return path


@pytest.fixture(scope="session")
def failures() -> ModuleType:
    """The program that serves, and asks while processes are killed."""
    spec = importlib.util.spec_from_file_location("failures", Path(__file__).parents[2] / "benchmarks" / "failures.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["failures"] = module
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="session")
def answerer(store: Path) -> Answerer:
    return open_answerer(store)


@pytest.fixture(scope="session")
def kb(answerer: Answerer) -> KnowledgeBase:
    return answerer.kb


@pytest.fixture(scope="session")
def serve(answerer: Answerer) -> Serve:
    """Serves an answerer while a `with` block runs, and gives the address."""

    @contextmanager
    def serving(settings: ServerSettings | None = None, by: Answerer | None = None) -> Iterator[str]:
        chosen = settings or ServerSettings(port=0)
        listener = bind("127.0.0.1", 0)
        address = f"http://127.0.0.1:{listener.getsockname()[1]}"
        server = Server(create_app(by or answerer, chosen), listener)
        thread = threading.Thread(target=server.run, daemon=True)
        thread.start()
        while not server.started:
            assert thread.is_alive()
            time.sleep(0.01)
        yield address
        server.should_exit = True
        thread.join(10)
        assert not thread.is_alive()

    return serving


@pytest.fixture(scope="session")
def address(serve: Serve) -> Iterator[str]:
    """The address of a server with the usual settings."""
    with serve() as found:
        yield found


@pytest.fixture(scope="session")
def client(address: str) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=address, timeout=30) as opened:
        yield opened


@pytest.fixture(scope="session")
def pizzas(tmp_path_factory: pytest.TempPathFactory) -> Answerer:
    """A small ontology with axioms, and what follows from them."""
    pytest.importorskip("rustdl")
    folder = tmp_path_factory.mktemp("pizzas")
    (folder / "pizzas.ofn").write_text(PIZZAS)
    build(find_sources([str(folder / "pizzas.ofn")])[0], folder / "pizzas", BuildOptions(infer=InferenceMode.OWL))
    return open_answerer(folder / "pizzas")
