"""The process that keeps a server's workers alive (ADR 56).

Workers accept connections themselves, so that nothing waits for this process; it holds a copy of each connection. When
a worker dies, or does not move any more and is killed, whoever waits for its reply is told so (503), connections where
nobody waits go to another worker, and a new one takes its place.
"""

from __future__ import annotations

import json
import logging
import mmap
import os
import selectors
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Final, final

from tarbox.core.errors import TarboxError
from tarbox.http.metrics import resident_bytes, save_samples
from tarbox.http.problems import problem_bytes
from tarbox.http.settings import ServerSettings

WORKER_MODULE: Final = "tarbox.http.worker"
ONE_THREAD: Final = {"OMP_NUM_THREADS": "1"}
"""Unless the user says otherwise: threads of linear algebra that wait by spinning would take the others' processor."""
OPENED, ADOPTED, CLOSED, READY, FAILED = b"+", b"a", b"-", b".", b"!"
SLOT: Final = struct.Struct("<cI")
IDLE, WAITING, SENDING = range(3)
"""Of a connection: nobody waits; the client waits for a reply, of which nothing was sent; a part may be on its way."""
LOG_FORMAT: Final = "%(asctime)s %(levelname)s %(name)s[%(process)d] %(message)s"
_TICK: Final = 0.1
_STOPPED: Final = 0.6
"""Seconds after which a worker that is stopped (SIGSTOP) is given up; a busy one has until requests run out of time."""
_LOADING: Final = 900.0
_GRACE: Final = 12.0
_LONGEST_PAUSE: Final = 30.0
_LOST: Final = "The process that worked on this request has ended. Ask again."
log = logging.getLogger("tarbox.supervisor")


@final
class Board:
    """Memory that the supervisor and its workers share: `beats` and `open` connections of each worker, and `states` of
    its connections, by slot.

    >>> with tempfile.TemporaryFile() as file:
    ...     board = Board(file.fileno(), 2, 10)
    >>> board.beats[1] += 1
    >>> board.states[1, 9] = WAITING
    >>> board.ready(), board.states[1, 9]
    ([1], 1)
    """

    def __init__(self, descriptor: int, workers: int, slots: int) -> None:
        self.workers, self.slots, size = workers, slots, workers * (8 + slots)
        os.truncate(descriptor, size)
        whole = memoryview(mmap.mmap(descriptor, size))
        self.beats, self.open = whole[: 4 * workers].cast("I"), whole[4 * workers : 8 * workers].cast("I")
        self.states = whole[8 * workers :].cast("B", (workers, slots))

    def ready(self) -> list[int]:
        """The workers that have begun to serve."""
        return [row for row in range(self.workers) if self.beats[row]]


@final
@dataclass(slots=True)
class WorkerProcess:
    """One worker as the supervisor knows it; `held` are copies of its connections, by slot, and `handed` are those of
    others that it was given and has not taken yet."""

    row: int
    process: subprocess.Popen[bytes]
    channel: socket.socket
    heard: float
    beats: int = 0
    failure: str = ""
    held: dict[int, socket.socket] = field(default_factory=dict)
    handed: list[socket.socket] = field(default_factory=list)


@final
class Supervisor:
    """Runs workers over a run or store, until it is told to stop; `report` hears the title when the first is ready."""

    def __init__(
        self, source: Path, settings: ServerSettings, listener: socket.socket, report: Callable[[str], None]
    ) -> None:
        self._source, self._settings, self._listener, self._report = source, settings, listener, report
        self._selector = selectors.DefaultSelector()
        self._workers: dict[int, WorkerProcess] = {}
        self._due = dict.fromkeys(range(settings.workers), 0.0)
        self._orphans: list[socket.socket] = []
        self._lost = {"died": 0, "hung": 0}
        self._failures = 0
        self._is_served = self._stopping = False

    def run(self) -> None:
        """Raises what is wrong where no worker can begin."""
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self._stop)
        with tempfile.TemporaryFile() as shared, tempfile.TemporaryDirectory(prefix="tarbox-") as folder:
            self._shared, self._folder = shared.fileno(), Path(folder)
            self._board = Board(self._shared, self._settings.workers, self._settings.slots)
            try:
                while not self._stopping:
                    for row in [row for row, due in self._due.items() if time.monotonic() >= due]:
                        self._start(row)
                    for key, _ in self._selector.select(_TICK):
                        self._hear(key.data)
                    for worker in list(self._workers.values()):
                        self._check(worker)
            finally:
                self._end()

    def _stop(self, *_: object) -> None:
        self._stopping = True

    def _start(self, row: int) -> None:
        del self._due[row]
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        ours.setblocking(False)
        descriptors = [self._listener.fileno(), theirs.fileno(), self._shared]
        told = {"source": str(self._source), "folder": str(self._folder), "row": row, "descriptors": descriptors}
        # -P: as for the server itself, what lies in the working folder is not imported
        command, environment = [sys.executable, "-P", "-m", WORKER_MODULE], {**ONE_THREAD, **os.environ}
        with theirs:
            process = subprocess.Popen(command, stdin=subprocess.PIPE, pass_fds=descriptors, env=environment)
        assert process.stdin is not None
        with suppress(BrokenPipeError), process.stdin as sink:
            sink.write(json.dumps(told | {"settings": asdict(self._settings)}).encode())
        self._workers[row] = worker = WorkerProcess(row, process, ours, time.monotonic())
        self._selector.register(ours, selectors.EVENT_READ, worker)

    def _hear(self, worker: WorkerProcess) -> bool:
        """Takes what a worker says: of connections, that it is ready, or why it cannot be; whether it said anything."""
        try:
            said, descriptors, *_ = socket.recv_fds(worker.channel, 4_096, 1)
        except OSError:
            return False
        if said[:1] in (OPENED, ADOPTED, CLOSED):
            kind, slot = SLOT.unpack(said)
            if kind == ADOPTED:
                worker.handed.pop(0).close()
            if before := worker.held.pop(slot, None):
                before.close()
            if descriptors:
                worker.held[slot] = socket.socket(fileno=descriptors[0])
        elif said[:1] == READY:
            if not self._is_served:
                self._report(said[1:].decode())
            self._is_served, self._failures = True, 0
            self._save()
            self._place_orphans()
        elif said[:1] == FAILED:
            worker.failure = said[1:].decode()
        else:  # nobody is there any more
            with suppress(subprocess.TimeoutExpired):
                worker.process.wait(1)
        return bool(said)

    def _check(self, worker: WorkerProcess) -> None:
        now, beats = time.monotonic(), self._board.beats[worker.row]
        if worker.process.poll() is not None:
            self._replace(worker, "died")
        elif beats != worker.beats:
            worker.beats, worker.heard = beats, now
        elif now - worker.heard > self._patience(worker, now - worker.heard):
            worker.process.kill()
            worker.process.wait()
            self._replace(worker, "hung")

    def _patience(self, worker: WorkerProcess, silent: float) -> float:
        """How long a worker may be silent: one that is stopped will not move by itself, a busy one may."""
        if silent > _STOPPED:
            with suppress(OSError, IndexError):
                state = Path(f"/proc/{worker.process.pid}/stat").read_text().rpartition(")")[2].split()[0]
                if state in "Tt":
                    return _STOPPED
        return self._settings.bounds.seconds if worker.beats else _LOADING

    def _replace(self, worker: WorkerProcess, reason: str) -> None:
        while self._hear(worker):  # what it said before it ended
            pass
        if not self._is_served:
            raise TarboxError(worker.failure or "the server could not start; what stands above says why")
        log.warning("worker %d (process %d) %s %s", worker.row, worker.process.pid, reason, worker.failure)
        self._lost[reason] += 1
        self._failures = 0 if self._board.beats[worker.row] else self._failures + 1
        self._due[worker.row] = time.monotonic() + min(2.0**self._failures - 1, _LONGEST_PAUSE)
        self._release(worker)
        self._save()
        self._place_orphans()

    def _release(self, worker: WorkerProcess) -> None:
        """Tells those who wait for a reply, and keeps the connections of those who do not for another worker."""
        self._selector.unregister(worker.channel)
        worker.channel.close()
        del self._workers[worker.row]
        lost = problem_bytes("busy", _LOST, self._settings.origins, {"Retry-After": "1"})
        for slot, connection in worker.held.items():
            state = self._board.states[worker.row, slot]
            if state == IDLE:
                self._orphans.append(connection)
                continue
            with suppress(OSError), connection:
                if state == WAITING:
                    connection.send(lost, socket.MSG_DONTWAIT)
                connection.shutdown(socket.SHUT_WR)
                while connection.recv(1 << 16, socket.MSG_DONTWAIT):  # unread, it would break the connection off
                    pass
        self._orphans += worker.handed
        self._board.beats[worker.row] = self._board.open[worker.row] = 0

    def _place_orphans(self) -> None:
        """Gives connections that nobody holds to the worker with the fewest, if any is ready."""
        while self._orphans and (ready := [row for row in self._board.ready() if row in self._workers]):
            least = min(ready, key=lambda row: self._board.open[row])
            try:
                socket.send_fds(self._workers[least].channel, [ADOPTED], [self._orphans[-1].fileno()])
            except OSError:  # it has ended too
                return
            self._workers[least].handed.append(self._orphans.pop())

    def _save(self) -> None:
        """Writes what `/metrics` says of the workers that were lost."""
        kept: dict[str, float] = {f'tarbox_workers_lost_total{{reason="{why}"}}': n for why, n in self._lost.items()}
        save_samples(self._folder / "supervisor.json", kept | {"process_resident_memory_bytes": resident_bytes()})

    def _end(self) -> None:
        """Lets the workers finish what they have begun."""
        self._listener.close()
        until = time.monotonic() + _GRACE
        for worker in self._workers.values():
            worker.process.terminate()
        for worker in self._workers.values():
            try:
                worker.process.wait(max(0.0, until - time.monotonic()))
            except subprocess.TimeoutExpired:
                worker.process.kill()
                worker.process.wait()
            for connection in (worker.channel, *worker.held.values(), *worker.handed):
                connection.close()
        for orphan in self._orphans:
            orphan.close()
        self._selector.close()
