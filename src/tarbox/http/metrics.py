"""Counts and times of all workers together, for Prometheus (ADR 53).

Each worker counts into files that are named after its row on the board: one that takes the place of another goes on
from its counts, and whichever is asked adds up all. What is true of this moment alone is on the board.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any, Final, final

from prometheus_client import CollectorRegistry, Counter, Histogram, Metric, generate_latest, values
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.multiprocess import MultiProcessCollector
from prometheus_client.registry import Collector
from prometheus_client.values import MultiProcessValue

from tarbox.http.supervisor import LOST, Board
from tarbox.service.places import Places
from tarbox.version import __version__

_SECONDS: Final = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
_SIZES: Final = (1, 2, 4, 8, 16, 32, 64)


@final
class Metrics(Collector):
    """What the worker of a `row` counts, and what all on the board have. `places` are those of requests that are worked
    on.

    >>> metrics = Metrics(Board(-1, 1, 10))
    >>> metrics.note_request("/health", 200, 0.002)
    >>> 'tarbox_requests_total{route="/health",status="200"} 1.0' in metrics.render()
    True
    """

    def __init__(self, board: Board, row: int = 0) -> None:
        self.board, self.row, self.places = board, row, Places(1, 0, 0)
        if board.is_shared:
            values.ValueClass = MultiProcessValue(lambda: row)  # type: ignore[no-untyped-call]
        own = CollectorRegistry()
        counter, times = partial(Counter, registry=own), partial(Histogram, registry=own, buckets=_SECONDS)
        by_worker = counter("tarbox_worker_requests", "Requests answered by each worker.", ["worker"])
        self._answered = by_worker.labels(row % self.board.workers)
        self._requests = counter("tarbox_requests", "Requests answered, by route and status.", ["route", "status"])
        self.refusals = counter("tarbox_refusals", "Problems replied, by kind.", ["kind"])
        self._seconds = times("tarbox_request_seconds", "Time from request to reply, by route.", ["route"])
        self.batches = times("tarbox_batch_size", "Questions answered in one call.", buckets=_SIZES)
        self._registry = CollectorRegistry() if board.is_shared else own
        if board.is_shared:
            MultiProcessCollector(self._registry)  # type: ignore[no-untyped-call]
        self._registry.register(self)

    def note_request(self, route: str, status: int, seconds: float) -> None:
        """`route` is a pattern of the server's own, so that clients cannot make up new ones."""
        self._answered.inc()
        self._requests.labels(route, status).inc()
        self._seconds.labels(route).observe(seconds)

    def note_moment(self) -> None:
        """Shows on the board how many requests are worked on, how many wait, and what this process holds."""
        board, row = self.board, self.row
        board.taken[row], board.waiting[row], board.pages[row] = self.places.taken, self.places.waiting, _pages("self")

    def render(self) -> str:
        """The text that Prometheus reads."""
        self.note_moment()
        return generate_latest(self._registry).decode()

    def collect(self) -> Iterator[Metric]:
        """What is true of all workers at this moment."""
        board, names = self.board, range(self.board.workers)
        up = {row % board.workers for row in board.ready()}
        yield _gauge("tarbox_build_info", "The version that runs.", {__version__: 1}, "version")
        yield _gauge("tarbox_worker_up", "Whether each worker serves.", {name: name in up for name in names}, "worker")
        connections = {name: sum(board.open[name :: board.workers]) for name in names}
        yield _gauge("tarbox_worker_connections", "Open connections of each worker.", connections, "worker")
        yield _gauge("tarbox_requests_in_flight", "Requests that are worked on.", {"": sum(board.taken)})
        yield _gauge("tarbox_requests_waiting", "Requests that wait for a place.", {"": sum(board.waiting)})
        pages = sum(board.pages) + (_pages(str(os.getppid())) if board.is_shared else 0)
        memory = {"": pages * os.sysconf("SC_PAGE_SIZE")} if pages else {}
        yield _gauge("process_resident_memory_bytes", "Memory that the server holds.", memory)
        lost = CounterMetricFamily("tarbox_workers_lost", "Workers that were replaced, by reason.", labels=["reason"])
        for reason, number in zip(LOST, board.lost, strict=True):
            lost.add_metric([reason], number)
        yield lost


def _gauge(name: str, meaning: str, numbers: Mapping[Any, float], *labels: str) -> Metric:
    found = GaugeMetricFamily(name, meaning, labels=labels)
    for value, number in numbers.items():
        found.add_metric([str(value)] * len(labels), number)
    return found


def _pages(process: str) -> int:
    """The memory of a process, where the system says it as Linux does; else 0."""
    try:
        return int(Path(f"/proc/{process}/statm").read_text().split()[1])
    except OSError:
        return 0
