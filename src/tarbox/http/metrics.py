"""Counts and times in Prometheus' text format, written by hand: a few figures need no library.

Each worker counts for itself, and writes what it has to a file of its own every second; whichever is asked adds up all.
A worker that takes the place of another goes on from its counts.
"""

from __future__ import annotations

import json
import os
import threading
from collections import Counter
from contextlib import suppress
from functools import lru_cache
from pathlib import Path
from typing import Any, Final, final

from tarbox.http.supervisor import LOST, Board
from tarbox.service.places import Places
from tarbox.version import __version__

_SECONDS: Final = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
_SIZES: Final = (1, 2, 4, 8, 16, 32, 64)
_FAMILIES: Final = {
    "tarbox_build_info": ("gauge", "The version that runs."),
    "tarbox_worker_up": ("gauge", "Whether each worker serves."),
    "tarbox_worker_connections": ("gauge", "Open connections of each worker."),
    "tarbox_worker_requests_total": ("counter", "Requests answered by each worker."),
    "tarbox_workers_lost_total": ("counter", "Workers that were replaced, by reason."),
    "tarbox_requests_in_flight": ("gauge", "Requests that are worked on."),
    "tarbox_requests_waiting": ("gauge", "Requests that wait for a place."),
    "tarbox_requests_total": ("counter", "Requests answered, by route and status."),
    "tarbox_refusals_total": ("counter", "Problems replied, by kind."),
    "tarbox_request_seconds": ("histogram", "Time from request to reply, by route."),
    "tarbox_batch_size": ("histogram", "Questions answered in one call."),
    "process_resident_memory_bytes": ("gauge", "Memory that the server holds."),
}


@final
class Metrics:
    """What a worker counts, and what all of them have; every method may be called from any thread. `places` are those
    of requests that are worked on.

    >>> metrics = Metrics()
    >>> metrics.note_request("/health", 200, 0.002)
    >>> 'tarbox_requests_total{route="/health",status="200"} 1' in metrics.render()
    True
    """

    def __init__(self, folder: Path | None = None, board: Board | None = None, row: int = 0) -> None:
        self._folder, self._row, self._board = folder, row, board
        self._workers = board.workers if board else 1
        self._lock = threading.Lock()
        self._counts = Counter(_read(folder / f"{row}.json", is_up=False) if folder else {})
        self.places: Places | None = None

    def note_request(self, route: str, status: int, seconds: float) -> None:
        """`route` is a pattern of the server's own, so that clients cannot make up new ones."""
        by_worker = f'tarbox_worker_requests_total{{worker="{self._row % self._workers}"}}'
        by_status = f'tarbox_requests_total{{route="{route}",status="{status}"}}'
        self._add({by_worker: 1, by_status: 1} | _observed("tarbox_request_seconds", route, _SECONDS, seconds))

    def note_refusal(self, kind: str) -> None:
        self._add({f'tarbox_refusals_total{{kind="{kind}"}}': 1})

    def note_batch(self, size: int) -> None:
        self._add(_observed("tarbox_batch_size", "", _SIZES, size))

    def _add(self, counts: dict[str, Any]) -> None:
        with self._lock:
            for key, more in counts.items():
                self._counts[key] += more

    def workers(self) -> tuple[int, int]:
        """How many workers serve, and how many there should be."""
        return min(len(self._ready()), self._workers), self._workers

    def _ready(self) -> list[int]:
        return self._board.ready() if self._board else [self._row]

    def save(self) -> None:
        """Writes what this worker has counted where the others find it."""
        if self._folder:
            with suppress(OSError):
                scratch = self._folder / f".{self._row}.json"  # nobody ever reads a part
                scratch.write_text(json.dumps(self._samples()))
                scratch.replace(self._folder / f"{self._row}.json")

    def render(self) -> str:
        """The text that Prometheus reads: the samples of all workers together."""
        ready, found = self._ready(), self._samples()
        for file in self._folder.glob("[!.]*.json") if self._folder else ():
            if file.stem != str(self._row):
                found.update(_read(file, int(file.stem) in ready))
        if self._board:
            found["process_resident_memory_bytes"] += resident_bytes(os.getppid())
            lost = zip(LOST, self._board.lost, strict=True)
            found.update({f'tarbox_workers_lost_total{{reason="{reason}"}}': number for reason, number in lost})
        found[f'tarbox_build_info{{version="{__version__}"}}'] = 1
        for worker in range(self._workers):
            found[f'tarbox_worker_up{{worker="{worker}"}}'] = any(row % self._workers == worker for row in ready)
        text = ""
        for name, (kind, meaning) in _FAMILIES.items():
            lines = [f"{key} {value:.12g}\n" for key, value in found.items() if _family(key) == name]
            text += f"# HELP {name} {meaning}\n# TYPE {name} {kind}\n" + "".join(lines) if lines else ""
        return text

    def _samples(self) -> Counter[str]:
        with self._lock:
            found = self._counts.copy()
        if self._board:
            name = f'tarbox_worker_connections{{worker="{self._row % self._workers}"}}'
            found[name] = self._board.open[self._row]
        places = (self.places.taken, self.places.waiting) if self.places else (0, 0)
        found["tarbox_requests_in_flight"], found["tarbox_requests_waiting"] = places
        found["process_resident_memory_bytes"] = resident_bytes(os.getpid())
        return found


def resident_bytes(process: int) -> int:
    """The memory of a process, where the system says it as Linux does; else 0."""
    try:
        return int(Path(f"/proc/{process}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except OSError:
        return 0


def _read(file: Path, is_up: bool) -> dict[str, float]:
    """What a file says; of one who is there no more, what it has counted."""
    try:
        found = json.loads(file.read_text())
    except (OSError, ValueError):
        return {}
    return {key: value for key, value in found.items() if is_up or _FAMILIES[_family(key)][0] != "gauge"}


def _observed(name: str, route: str, edges: tuple[float, ...], value: float) -> dict[str, float]:
    """What a value adds to a histogram: to its buckets, the last for all values, to their number and to their sum."""
    return dict(zip(_buckets(name, route, edges), (*(value <= edge for edge in edges), 1, 1, value), strict=True))


@lru_cache(1 << 10)
def _buckets(name: str, route: str, edges: tuple[float, ...]) -> tuple[str, ...]:
    labels = f'route="{route}"' if route else ""
    comma, braces = "," if labels else "", f"{{{labels}}}" if labels else ""
    buckets = [f'{name}_bucket{{{labels}{comma}le="{edge}"}}' for edge in (*(f"{edge:g}" for edge in edges), "+Inf")]
    return *buckets, f"{name}_count{braces}", f"{name}_sum{braces}"


@lru_cache(1 << 12)
def _family(key: str) -> str:
    name = key.partition("{")[0]
    return name if name in _FAMILIES else name.rpartition("_")[0]
