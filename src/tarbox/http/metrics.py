"""Counts and times in Prometheus' text format, written by hand: a few figures need no library.

Each worker counts for itself, and writes what it has to a file of its own every second; whichever is asked adds up all.
A worker that takes the place of another goes on from its counts.
"""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Final, final

if TYPE_CHECKING:
    from tarbox.http.supervisor import Board

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
    """What a worker counts, and what all of them have; every method may be called from any thread.

    >>> metrics = Metrics("0.1")
    >>> metrics.note_request("/health", 200, 0.002)
    >>> 'tarbox_requests_total{route="/health",status="200"} 1' in metrics.render()
    True
    """

    def __init__(self, version: str, folder: Path | None = None, board: Board | None = None, row: int = 0) -> None:
        self._version, self._folder, self._row, self._board = version, folder, row, board
        self._name = row % board.workers if board else row
        self._lock = threading.Lock()
        self._counts = _read(folder / f"{row}.json", is_up=False) if folder else {}
        self.in_flight = self.waiting = 0
        """Requests that are worked on and that wait now; the event loop alone changes these."""

    def note_request(self, route: str, status: int, seconds: float) -> None:
        """`route` is a pattern of the server's own, so that clients cannot make up new ones."""
        counted = (
            f'tarbox_worker_requests_total{{worker="{self._name}"}}',
            f'tarbox_requests_total{{route="{route}",status="{status}"}}',
        )
        self._add(counted + _buckets("tarbox_request_seconds", route, _SECONDS), (1, 1, *_split(_SECONDS, seconds)))

    def note_refusal(self, kind: str) -> None:
        self._add((f'tarbox_refusals_total{{kind="{kind}"}}',), (1,))

    def note_batch(self, size: int) -> None:
        self._add(_buckets("tarbox_batch_size", "", _SIZES), _split(_SIZES, size))

    def _add(self, keys: Sequence[str], counts: Sequence[float]) -> None:
        with self._lock:
            for key, more in zip(keys, counts, strict=True):
                self._counts[key] = self._counts.get(key, 0) + more

    def workers(self) -> tuple[int, int]:
        """How many workers serve, and how many there should be."""
        most = self._board.workers if self._board else 1
        return (min(len(self._board.ready()), most) if self._board else 1), most

    def save(self) -> None:
        """Writes what this worker has counted where the others find it."""
        if self._folder:
            with suppress(OSError):
                save_samples(self._folder / f"{self._row}.json", self._samples())

    def render(self) -> str:
        """The text that Prometheus reads: the samples of all workers together."""
        ready = self._board.ready() if self._board else [self._row]
        up, expected = {row % self.workers()[1] for row in ready}, self.workers()[1]
        found = {f'tarbox_build_info{{version="{self._version}"}}': 1.0}
        found |= {f'tarbox_worker_up{{worker="{row}"}}': float(row in up) for row in range(expected)}
        files = self._folder.glob("[!.]*.json") if self._folder else ()
        others = [file for file in files if file.stem != str(self._row)]
        told = [_read(file, not file.stem.isdigit() or int(file.stem) in ready) for file in others]
        for part in (self._samples(), *told):
            found |= {key: found.get(key, 0) + value for key, value in part.items()}
        text = ""
        for name, (kind, meaning) in _FAMILIES.items():
            if lines := [f"{key} {value:.12g}\n" for key, value in found.items() if _family(key) == name]:
                text += f"# HELP {name} {meaning}\n# TYPE {name} {kind}\n" + "".join(lines)
        return text

    def _samples(self) -> dict[str, float]:
        with self._lock:
            found = dict(self._counts)
        if self._board:
            found[f'tarbox_worker_connections{{worker="{self._name}"}}'] = self._board.open[self._row]
        gauges = {"tarbox_requests_in_flight": self.in_flight, "tarbox_requests_waiting": self.waiting}
        return found | gauges | {"process_resident_memory_bytes": resident_bytes()}


def resident_bytes() -> int:
    """The memory of this process, where the system says it as Linux does; else 0."""
    try:
        return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except OSError:
        return 0


def save_samples(place: Path, samples: Mapping[str, float]) -> None:
    """Writes samples, so that nobody ever reads a part of them."""
    scratch = place.with_name(f".{place.name}")
    scratch.write_text(json.dumps(samples))
    scratch.replace(place)


def _read(file: Path, is_up: bool) -> dict[str, float]:
    """What a file says; of one who is there no more, what it has counted."""
    try:
        found = json.loads(file.read_text())
    except (OSError, ValueError):
        return {}
    return {key: value for key, value in found.items() if is_up or _FAMILIES[_family(key)][0] != "gauge"}


def _split(edges: Sequence[float], value: float) -> tuple[float, ...]:
    """What a value adds to each of the `_buckets` of a histogram."""
    return *(value <= edge for edge in edges), 1, 1, value


@lru_cache(1 << 10)
def _buckets(name: str, route: str, edges: tuple[float, ...]) -> tuple[str, ...]:
    """The names of a histogram's buckets, the last for all values, of their number and of their sum."""
    labels = f'route="{route}"' if route else ""
    comma, braces = "," if labels else "", f"{{{labels}}}" if labels else ""
    buckets = [f'{name}_bucket{{{labels}{comma}le="{edge}"}}' for edge in (*(f"{edge:g}" for edge in edges), "+Inf")]
    return *buckets, f"{name}_count{braces}", f"{name}_sum{braces}"


@lru_cache(1 << 12)
def _family(key: str) -> str:
    name = key.partition("{")[0]
    return name if name in _FAMILIES else name.rpartition("_")[0]
