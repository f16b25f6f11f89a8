"""Several runs at a time, a process each: one that crashes or is killed takes no other with it."""

from __future__ import annotations

import multiprocessing
import os
import signal
from collections.abc import Sequence
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from multiprocessing.context import SpawnProcess
from typing import Any, Final, final

from tarbox.training.comparison import Began, Ended, Job, Tell, Trained, try_job
from tarbox.training.failures import StopSignals, TrainingInterrupted

_LOOK: Final = 0.5
"""Seconds between two looks whether someone wants everything to stop."""


@final
@dataclass(frozen=True, slots=True)
class _Worker:
    job: Job
    process: SpawnProcess
    events: Connection


@final
@dataclass(frozen=True, slots=True)
class _Result:
    """How a worker ended."""

    failure: str | None
    interrupted: bool = False


def train_beside(jobs: Sequence[Job], tell: Tell, at_a_time: int) -> dict[tuple[str, int], str]:
    """Train so many runs at a time; returns why runs failed, by label and seed."""
    waiting, workers = list(jobs), list[_Worker]()
    failures: dict[tuple[str, int], str] = {}
    threads = max(1, (os.cpu_count() or 1) // at_a_time)
    with StopSignals() as signals:
        try:
            while waiting or workers:
                while waiting and len(workers) < at_a_time:
                    workers.append(_begin(waiting.pop(0), tell, threads))
                for ready in wait([worker.events for worker in workers], _LOOK):
                    worker = next(worker for worker in workers if worker.events is ready)
                    result = _listen(worker, tell)
                    if result is not None:
                        workers.remove(worker)
                        _note(worker, result, failures, tell)
                if signals.received:
                    raise TrainingInterrupted("interrupted")
        finally:
            _stop(workers)
    return failures


def _begin(job: Job, tell: Tell, threads: int) -> _Worker:
    context = multiprocessing.get_context("spawn")
    receiving, sending = context.Pipe(duplex=False)
    process = context.Process(target=_work, args=(job, sending, threads), daemon=True)
    tell(Began(job, job.is_begun()))
    process.start()
    sending.close()
    return _Worker(job, process, receiving)


def _work(job: Job, events: Connection, threads: int) -> None:
    """The worker's whole life. A Ctrl+C reaches every process of a terminal; here the parent alone decides."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    import torch

    torch.set_num_threads(threads)
    try:
        result = _Result(try_job(job, lambda step: events.send(step.event) if isinstance(step, Trained) else None))
    except TrainingInterrupted as error:
        result = _Result(str(error), interrupted=True)
    events.send(result)


def _listen(worker: _Worker, tell: Tell) -> _Result | None:
    """Pass an event on; returns the result, made up for a process that died without one."""
    try:
        message: Any = worker.events.recv()
    except (EOFError, ConnectionError):
        worker.process.join()
        return _Result(f"its process ended with exit code {worker.process.exitcode} and said nothing (out of memory?)")
    if isinstance(message, _Result):
        return message
    tell(Trained(worker.job, message))
    return None


def _note(worker: _Worker, result: _Result, failures: dict[tuple[str, int], str], tell: Tell) -> None:
    worker.process.join()
    worker.events.close()
    if result.interrupted:
        raise TrainingInterrupted(result.failure or "interrupted")
    tell(Ended(worker.job, result.failure))
    if result.failure is not None:
        failures[worker.job.label, worker.job.seed] = result.failure


def _stop(workers: Sequence[_Worker]) -> None:
    """Ask for a checkpoint and wait for it."""
    for worker in workers:
        worker.process.terminate()
    for worker in workers:
        worker.process.join()
        worker.events.close()
