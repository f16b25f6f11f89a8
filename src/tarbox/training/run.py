"""The run folder as training writes it (see `tarbox.models.saved` for what is in it).

Every file is written under a temporary name and renamed; a checkpoint is one file, so that a killed process leaves
the old one or the new one. Weights and states are safetensors; what is no tensor is JSON in its header.
"""

from __future__ import annotations

import json
import os
import platform
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final, final

import numpy as np
import safetensors
import safetensors.torch
import torch
from torch import Tensor

from tarbox.benchmark.folder import STORE, Benchmark, name_of
from tarbox.core.errors import ConfigError
from tarbox.core.locks import take_lock
from tarbox.kb.store import MANIFEST, Store, listed_files
from tarbox.kb.writing import replace_file
from tarbox.models.saved import BENCHMARK, CONFIG, FORMAT, RUN, VERSION, WEIGHTS, checksums, is_run
from tarbox.training.failures import TrainingError
from tarbox.training.settings import Settings
from tarbox.version import __version__

_LAST_STEM: Final = "last"
LAST: Final = f"{_LAST_STEM}.safetensors"
PARTS: Final = "parts"
SHARDS: Final = "shards"
"""In the header of a checkpoint: the files that hold the rest of it."""
PROVENANCE: Final = "provenance.json"
_HEADER: Final = "tarbox"


@final
@dataclass(frozen=True, slots=True)
class RunFolder:
    """A folder to write a run to. A part of a run is trained in a folder inside it; `whole` is then the run's.

    The folder of the parts is there from the beginning, and gone when the run is complete.
    """

    path: Path
    whole: Path | None = None

    @classmethod
    def create(
        cls, path: str | os.PathLike[str], settings: Settings, store: Store, benchmark: Benchmark | None = None
    ) -> RunFolder:
        """Begin a run on a store, or on the benchmark whose training store that is: its description, its settings, its
        store."""
        folder = Path(path)
        check_place(folder)
        (folder / PARTS).mkdir(parents=True)
        link_store(store.path, folder / STORE)
        replace_file(folder / CONFIG, settings.toml().encode())
        description = {
            "format": FORMAT,
            "version": VERSION,
            "model": settings.model_name,
            "vocabulary_hash": store.vocabulary_hash,
            "content_hash": store.manifest["content_hash"],
            "source": describe_source(store.path if benchmark is None else benchmark.path, benchmark, folder),
            "queries": {} if benchmark is None else checksums(benchmark),
        }
        if (title := name_of(store)) is not None:
            description["title"] = title
        replace_file(folder / RUN, as_json(description))
        return cls(folder)

    @property
    def named(self) -> Path:
        """The folder that a user knows: that of the whole run."""
        return self.whole or self.path

    @contextmanager
    def locked(self) -> Iterator[None]:
        """While this is open no other process trains the run; the system unlocks it when this one dies."""
        with (self.path / RUN).open("r+b") as handle:
            if not take_lock(handle):
                raise TrainingError(
                    f"another process is training or updating {self.path}. Wait until it has ended, or stop it."
                )
            yield

    def discard(self) -> None:
        """Remove a run in which nothing has been learnt yet."""
        if not any(self.path.rglob(LAST)):
            shutil.rmtree(self.path, ignore_errors=True)

    def part(self, name: str) -> RunFolder:
        """The folder of a part, which is there then."""
        folder = self.path / PARTS / name
        folder.mkdir(parents=True, exist_ok=True)
        return RunFolder(folder, self.path)

    def is_complete(self) -> bool:
        return (self.path / WEIGHTS).exists() and not (self.path / PARTS).exists()

    def reopen(self) -> None:
        """A complete run goes on."""
        (self.path / PARTS).mkdir(exist_ok=True)

    def complete(self) -> None:
        """Nothing is left to do: the parts are in the model."""
        shutil.rmtree(self.path / PARTS)

    def write_provenance(self, settings: Settings, hardware: Mapping[str, Any], now: datetime) -> None:
        """Where the run comes from; a resumed run adds to the list."""
        file = self.path / PROVENANCE
        earlier = json.loads(file.read_bytes()) if file.exists() else []
        description = json.loads((self.path / RUN).read_bytes())
        entry = {
            "began": now.astimezone(UTC).isoformat(timespec="seconds"),
            "seed": settings.seed,
            "vocabulary_hash": description["vocabulary_hash"],
            "content_hash": description["content_hash"],
            "commit": find_commit(Path(__file__).parent),
            "versions": {
                "tarbox": __version__,
                "python": platform.python_version(),
                "torch": torch.__version__,
                "numpy": np.__version__,
                "safetensors": safetensors.__version__,
            },
            "hardware": dict(hardware),
        }
        replace_file(file, as_json([*earlier, entry]))

    def write_settings(self, settings: Settings) -> None:
        replace_file(self.path / CONFIG, settings.toml().encode())

    def write_best(self, weights: Mapping[str, Tensor], about: Mapping[str, Any]) -> None:
        """The weights that `ask` and `eval` use."""
        write_tensors(self.path / WEIGHTS, weights, about)

    def write_last(self, tensors: Mapping[str, Tensor], state: Mapping[str, Any], shards: int = 1) -> None:
        """A checkpoint: one file, or with more shards one beside it for each, with as many rows of the longest tables.

        They are there when the one that names them is; those of an earlier checkpoint, which may be of as many steps,
        stay as they are and go after it has come.
        """
        tables = {name: tensor for name, tensor in tensors.items() if tensor.ndim > 1} if shards > 1 else {}
        longest = max(map(len, tables.values()), default=0)
        tables = {name: table for name, table in tables.items() if len(table) == longest}
        bounds = [longest * own // shards for own in range(shards + 1)]
        earlier = list(self.path.glob(f"{_LAST_STEM}-*.safetensors"))
        stem = f"{_LAST_STEM}-{state['epoch']}-{state['step']}"
        while any(file.name.startswith(f"{stem}-") for file in earlier):
            stem += "+"
        named = [f"{stem}-{own}.safetensors" for own in range(shards if tables else 0)]
        for name, first, last in zip(named, bounds, bounds[1:], strict=False):
            write_tensors(self.path / name, {key: table[first:last] for key, table in tables.items()}, {}, False)
        rest = {name: tensor for name, tensor in tensors.items() if name not in tables}
        write_tensors(self.path / LAST, rest, {**state, **({SHARDS: named} if named else {})}, False)
        for file in earlier:
            file.unlink()

    def has_checkpoint(self) -> bool:
        return (self.path / LAST).exists()

    def read_last(self) -> tuple[dict[str, Tensor], dict[str, Any]]:
        """(tensors on the CPU, state) of the last checkpoint, however many files it is."""
        tensors, state = read_tensors(self.path / LAST)
        parts = [read_tensors(self.path / name)[0] for name in state.pop(SHARDS, [])]
        return tensors | {
            name: torch.cat([part[name] for part in parts]) for name in (parts[0] if parts else ())
        }, state


def describe_source(path: Path, benchmark: Benchmark | None, run: Path) -> dict[str, Any]:
    """What run.json says of what it was told to train on."""
    described = {
        "kind": STORE if benchmark is None else BENCHMARK,
        "relative": os.path.relpath(path.resolve(), run.resolve()),
        "absolute": str(path.resolve()),
    }
    held_out = None if benchmark is None else benchmark.held_out
    return described if held_out is None else {**described, "held_out": held_out}


def check_place(folder: Path) -> None:
    """Refuse a place for a new run where something is."""
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        advice = "Continue it with --resume, or name another folder." if is_run(folder) else "Name another folder."
        raise ConfigError(f"{folder} exists and is not empty. {advice}")


def write_tensors(path: Path, tensors: Mapping[str, Tensor], about: Mapping[str, Any], durable: bool = True) -> None:
    """Write a safetensors file under a temporary name and rename it; on failure leave nothing.

    What is not `durable` outlives this process, and perhaps not the machine: to wait for the disk costs more than
    training where the tables of a checkpoint are large."""
    scratch = path.with_name(f".{path.name}.writing")
    plain = {name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}
    try:
        safetensors.torch.save_file(plain, scratch, {_HEADER: json.dumps(about)})
        if durable:
            with scratch.open("rb+") as file:
                os.fsync(file.fileno())
        scratch.replace(path)
    finally:
        scratch.unlink(missing_ok=True)


def read_tensors(path: Path) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """What `write_tensors` wrote."""
    try:
        with safetensors.safe_open(path, framework="pt") as file:
            about = json.loads((file.metadata() or {})[_HEADER])
            return {name: file.get_tensor(name) for name in file.keys()}, about  # noqa: SIM118 (not a dictionary)
    except FileNotFoundError:
        raise TrainingError(f"there is no checkpoint at {path}: the run has to begin again") from None
    except (safetensors.SafetensorError, KeyError, ValueError) as error:
        raise TrainingError(f"{path} is damaged: {error}") from None


def link_store(source: Path, target: Path) -> None:
    """The store at a second place: hard links where the disk allows, copies elsewhere. Its files never change."""
    target.mkdir(parents=True)
    manifest = json.loads((source / MANIFEST).read_bytes())
    for name in [*listed_files(manifest), MANIFEST]:
        try:
            (target / name).hardlink_to(source / name)
        except OSError:
            shutil.copyfile(source / name, target / name)


def find_commit(folder: Path) -> str | None:
    """The commit of the checkout that `folder` is in, marked where files differ from it; none outside of one."""
    try:
        commit = _git(folder, "rev-parse", "HEAD")
        return f"{commit}+changes" if _git(folder, "status", "--porcelain", "--untracked-files=no") else commit
    except (OSError, subprocess.SubprocessError):
        return None


def _git(folder: Path, *arguments: str) -> str:
    found = subprocess.run(["git", "-C", str(folder), *arguments], capture_output=True, check=True, timeout=10)
    return found.stdout.decode().strip()


def as_json(content: Any) -> bytes:
    return (json.dumps(content, indent=1, ensure_ascii=False) + "\n").encode()
