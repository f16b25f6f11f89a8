"""A run follows a store that has changed: what `tarbox update` does, callable from Python.

What is new is written to a folder of its own, and run.json, replaced last, says where: whoever opens the run meanwhile
has the old content or the new, never both. The content before the last is removed, the last one stays for those who
have just read where it is.
"""

from __future__ import annotations

import os
import shutil
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import torch

from tarbox.benchmark.folder import STORE, name_of
from tarbox.core.errors import ConfigError, StoreMissing
from tarbox.kb.store import Store, open_store
from tarbox.kb.writing import replace_file
from tarbox.models.credo.updating import Followed, follow_run
from tarbox.models.saved import CONFIG, CONTENT, PREDICTOR, RUN, WEIGHTS, SavedRun, open_run
from tarbox.training.hardware import AUTO, find_device
from tarbox.training.run import (
    PARTS,
    PROVENANCE,
    RunFolder,
    as_json,
    check_place,
    describe_source,
    link_store,
    write_tensors,
)


def update(
    run: str | os.PathLike[str], kb: str | os.PathLike[str] | None = None, output: str | os.PathLike[str] | None = None
) -> dict[str, Any] | None:
    """Have a run follow the store `kb`, which is that it was trained on where None; at `output`, or in its own place.
    Returns what run.json says of the update; None where the run has these facts already: then nothing is written."""
    saved = open_run(run)
    _check(saved)
    store = _find_store(saved) if kb is None else open_store(kb)
    if output is not None:
        check_place(Path(output))
        return _update(saved, store, Path(output))
    with RunFolder(saved.path).locked():
        saved = open_run(run)  # another process may have updated it meanwhile
        if store.manifest["content_hash"] == saved.description["content_hash"]:
            return None
        return _update(saved, store, saved.path)


def _check(saved: SavedRun) -> None:
    """Refuse a run that cannot follow a store."""
    if not saved.on_store:
        raise ConfigError(
            f"{saved.path} was trained on a benchmark, to be evaluated on what was held out. "
            "Train on the store (`tarbox train KB -o RUN`), and update that run."
        )
    if (saved.path / PARTS).exists():
        raise ConfigError(f"{saved.path} is not complete. Continue it with `tarbox train --resume -o {saved.path}`.")


def _find_store(saved: SavedRun) -> Store:
    source = saved.description["source"]
    for place in (saved.path / str(source["relative"]), Path(str(source["absolute"]))):
        if place.is_dir():
            return open_store(place)
    raise StoreMissing(f"the store of {saved.path} is not at {source['absolute']}. Name it: `tarbox update RUN KB`.")


def _update(saved: SavedRun, store: Store, target: Path) -> dict[str, Any]:
    began = time.monotonic()
    earlier = list(saved.description.get("updates", []))
    found = follow_run(saved, saved.scorer(), store.facts, find_device(AUTO))
    content = f"{CONTENT}{len(earlier) + 1}" if target == saved.path else ""
    _write(found, store, target / content)
    description = {
        **saved.description,
        "vocabulary_hash": store.vocabulary_hash,
        "content_hash": store.manifest["content_hash"],
        "source": describe_source(store.path, None, target),
        "content": content,
        "updates": [*earlier, _describe(found, store, time.monotonic() - began)],
        "held_out_mrr": _rounded(found.predictor.mrr),
    }
    if (title := name_of(store)) is not None:
        description["title"] = title
    if target != saved.path:
        for name in (CONFIG, PROVENANCE):
            shutil.copyfile(saved.path / name, target / name)
    replace_file(target / RUN, as_json(description))
    if target == saved.path:
        _remove_old(target, {content, saved.content.name if saved.content != saved.path else ""})
    told: dict[str, Any] = description["updates"][-1]
    return told


def _write(found: Followed, store: Store, folder: Path) -> None:
    shutil.rmtree(folder / STORE, ignore_errors=True)  # of an update that was killed
    folder.mkdir(parents=True, exist_ok=True)
    link_store(store.path, folder / STORE)
    for name, arrays in ((PREDICTOR, found.predictor.arrays), (WEIGHTS, found.model.arrays())):
        write_tensors(folder / name, {key: torch.from_numpy(array) for key, array in arrays.items()}, {})


def _describe(found: Followed, store: Store, seconds: float) -> dict[str, Any]:
    return {
        "at": datetime.now(UTC).isoformat(timespec="seconds"),
        "content_hash": store.manifest["content_hash"],
        "added": int(found.changes.links.sum() + found.changes.typings.sum()),
        "removed": found.changes.removed,
        "new_entities": int((found.names.entities < 0).sum()),
        "gone_entities": int((found.names.entities_now < 0).sum()),
        "folded_in": _rounded(float(np.mean(found.predictor.arrays["folded"]))),
        "mrr": _rounded(found.mrr),
        "measured": found.measured,
        "seconds": round(seconds, 2),
    }


def _rounded(number: float) -> float | None:
    return None if np.isnan(number) else round(number, 4)


def _remove_old(run: Path, kept: set[str]) -> None:
    """Remove contents but for the new one and that before it."""
    for folder in run.glob(f"{CONTENT}*"):
        if folder.name not in kept:
            shutil.rmtree(folder, ignore_errors=True)
    if "" not in kept:
        for name in (WEIGHTS, PREDICTOR):
            (run / name).unlink(missing_ok=True)
        shutil.rmtree(run / STORE, ignore_errors=True)
