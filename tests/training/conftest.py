"""A benchmark of academia, small enough to train on in a second."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import torch

from tarbox.benchmark.building import build_benchmark
from tarbox.benchmark.options import BenchmarkOptions
from tarbox.kb.build import BuildOptions, build
from tarbox.kb.presets import PRESETS
from tarbox.kb.store import open_store
from tarbox.query.templates import TEMPLATES
from tarbox.training.checkpoints import State
from tarbox.training.session import Listeners, start
from tarbox.training.settings import Settings, read_assignments, resolve

TINY = "tiny_model:Tiny"


@pytest.fixture(scope="session", autouse=True)
def one_thread() -> Iterator[None]:
    """Small tensors gain nothing from threads, and tests run beside each other."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    sys.path.insert(0, str(Path(__file__).parent))
    yield
    sys.path.remove(str(Path(__file__).parent))
    torch.set_num_threads(before)


@pytest.fixture(scope="session")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("academia") / "store"
    preset = PRESETS["academia"]
    build(preset.sources(None), folder, BuildOptions(preset.interpretation))
    return folder


@pytest.fixture(scope="session")
def bench(store: Path) -> Path:
    folder = store.with_name("bench")
    shapes = {name: TEMPLATES[name].shape for name in ("1p", "2p", "2i", "2in", "2u")}
    options = BenchmarkOptions(counts=(60, 15, 15), shapes=shapes, workers=1)
    build_benchmark(open_store(store).facts, options, folder)
    return folder


@pytest.fixture
def settings() -> Callable[..., Settings]:
    """Settings of the tiny model from assignments, for a very short training."""

    def make(*assignments: str, model: str = TINY) -> Settings:
        short = ["stopping.epochs=4", "validation.every=2", "batches.size=1024", "optimizer.rate=0.02"]
        return resolve([read_assignments([*short, *assignments], model)], model)

    return make


@pytest.fixture
def train(bench: Path, settings: Callable[..., Settings]) -> Callable[..., State]:
    """Trains the tiny model into a folder."""

    def make(folder: Path, *assignments: str, listeners: Listeners | None = None) -> State:
        return start(bench, folder, settings(*assignments), listeners or Listeners())

    return make


@pytest.fixture
def ticking() -> Callable[[], float]:
    """A clock on which every reading is two seconds after the last."""
    now = [0.0]

    def read() -> float:
        now[0] += 2.0
        return now[0]

    return read
