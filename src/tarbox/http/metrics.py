"""Counts and times in Prometheus' text format, written by hand: five figures need no library."""

from __future__ import annotations

import threading
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, final

METRICS_MEDIA_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"
_SECONDS: Final = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
_SIZES: Final = (1, 2, 4, 8, 16, 32, 64)


@final
@dataclass(slots=True)
class _Histogram:
    """Counts of values up to each edge; the last count is of what lies beyond all of them."""

    edges: tuple[float, ...]
    counts: Counter[int] = field(default_factory=Counter)
    total: float = 0.0
    number: int = 0

    def note(self, value: float) -> None:
        self.total += value
        self.number += 1
        self.counts[bisect_left(self.edges, value)] += 1

    def lines(self, name: str, labels: str = "") -> Iterator[str]:
        comma, below = "," if labels else "", 0
        for place, edge in enumerate(self.edges):
            below += self.counts[place]
            yield f'{name}_bucket{{{labels}{comma}le="{edge:g}"}} {below}'
        yield f'{name}_bucket{{{labels}{comma}le="+Inf"}} {self.number}'
        braces = f"{{{labels}}}" if labels else ""
        yield f"{name}_sum{braces} {self.total:.6f}"
        yield f"{name}_count{braces} {self.number}"


@final
class Metrics:
    """What a server counts; every method may be called from any thread.

    >>> metrics = Metrics("0.1")
    >>> metrics.note_request("/health", 200, 0.002)
    >>> 'tarbox_requests_total{route="/health",status="200"} 1' in metrics.render()
    True
    """

    def __init__(self, version: str, others: Sequence[int] = ()) -> None:
        """`others` are the processes, besides this one, that the server is made of."""
        self._version = version
        self._processes = ("self", *map(str, others))
        self._lock = threading.Lock()
        self._requests: Counter[tuple[str, int]] = Counter()
        self._seconds: dict[str, _Histogram] = {}
        self._batches = _Histogram(_SIZES)
        self.in_flight = 0
        """Requests that are worked on now; the event loop alone changes it."""

    def note_request(self, route: str, status: int, seconds: float) -> None:
        """`route` is a pattern of the server's own, so that clients cannot make up new ones."""
        with self._lock:
            self._requests[route, status] += 1
            self._seconds.setdefault(route, _Histogram(_SECONDS)).note(seconds)

    def note_batch(self, size: int) -> None:
        with self._lock:
            self._batches.note(size)

    def render(self) -> str:
        """The text that Prometheus reads."""
        with self._lock:
            return "\n".join(self._lines()) + "\n"

    def _lines(self) -> Iterator[str]:
        yield from _head("tarbox_build_info", "gauge", "The version that runs.")
        yield f'tarbox_build_info{{version="{self._version}"}} 1'
        yield from _head("tarbox_requests_in_flight", "gauge", "Requests that are worked on.")
        yield f"tarbox_requests_in_flight {self.in_flight}"
        yield from _head("tarbox_requests_total", "counter", "Requests answered, by route and status.")
        for (route, status), number in sorted(self._requests.items()):
            yield f'tarbox_requests_total{{route="{route}",status="{status}"}} {number}'
        yield from _head("tarbox_request_seconds", "histogram", "Time from request to reply, by route.")
        for route, histogram in sorted(self._seconds.items()):
            yield from histogram.lines("tarbox_request_seconds", f'route="{route}"')
        yield from _head("tarbox_batch_size", "histogram", "Questions answered in one call.")
        yield from self._batches.lines("tarbox_batch_size")
        resident = sum(map(resident_bytes, self._processes))
        if resident:
            yield from _head("process_resident_memory_bytes", "gauge", "Memory that the server holds.")
            yield f"process_resident_memory_bytes {resident}"


def resident_bytes(process: str = "self") -> int:
    """The memory of a process, where the system says it as Linux does; else 0."""
    try:
        pages = int(Path(f"/proc/{process}/statm").read_text().split()[1])
    except (OSError, ValueError, IndexError):
        return 0
    import resource

    return pages * resource.getpagesize()


def _head(name: str, kind: str, meaning: str) -> Iterator[str]:
    yield f"# HELP {name} {meaning}"
    yield f"# TYPE {name} {kind}"
