"""The process that keeps a server's workers alive (ADR 56).

Workers accept connections themselves, so that nothing waits for this process; it holds a copy of each connection. When
a worker dies, or does not move any more and is killed, whoever waited for its reply is told so (503), connections where
nobody waited go to another worker, and a new one takes its place.
"""

from __future__ import annotations

import json
import logging
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
from tarbox.http.board import IDLE, WAITING, Board
from tarbox.http.metrics import Samples, resident_bytes, save_samples
from tarbox.http.problems import problem_bytes
from tarbox.http.settings import ServerSettings

WORKER_MODULE: Final = "tarbox.http.worker"
ONE_THREAD: Final = {"OMP_NUM_THREADS": "1"}
"""Unless the user says otherwise: threads of linear algebra that wait by spinning would take the others' processor."""
OPENED: Final = b"+"
CLOSED: Final = b"-"
READY: Final = b"."
FAILED: Final = b"!"
SLOT: Final = struct.Struct("<cI")
LOG_FORMAT: Final = "%(asctime)s %(levelname)s %(name)s[%(process)d] %(message)s"
_TICK: Final = 0.1
_STOPPED: Final = 1.0
"""Seconds after which a worker that is stopped (SIGSTOP) is given up; a busy one has until requests run out of time."""
_LOADING: Final = 900.0
_GRACE: Final = 12.0
_LONGEST_PAUSE: Final = 30.0
_LOST: Final = "The process that worked on this request has ended. Ask again."
log = logging.getLogger("tarbox.supervisor")


@final
@dataclass(slots=True)
class WorkerProcess:
    """One worker as the supervisor knows it; `held` are copies of its connections, by slot."""

    row: int
    process: subprocess.Popen[bytes]
    channel: socket.socket
    began: float
    beats: int = 0
    heard: float = 0.0
    failure: str = ""
    held: dict[int, socket.socket] = field(default_factory=dict)


@final
class Supervisor:
    """Runs workers over a run or store, until it is told to stop; `report` hears the title when the first is ready."""

    def __init__(
        self, source: Path, settings: ServerSettings, listener: socket.socket, report: Callable[[str], None]
    ) -> None:
        self._source, self._settings, self._listener, self._report = source, settings, listener, report
        self._selector = selectors.DefaultSelector()
        self._workers: dict[int, WorkerProcess] = {}
        self._later: dict[int, float] = {}
        self._orphans: list[socket.socket] = []
        self._lost = {"died": 0, "hung": 0}
        self._failures = 0
        self._is_served = self._stopping = False

    def run(self) -> None:
        """Raises what is wrong where no worker can begin."""
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self._stop)
        slots = self._settings.bounds.connections + 64
        with tempfile.TemporaryFile() as shared, tempfile.TemporaryDirectory(prefix="tarbox-") as folder:
            shared.truncate(Board.size(self._settings.workers, slots))
            self._shared, self._folder = shared.fileno(), Path(folder)
            self._board = Board(self._shared, self._settings.workers, slots)
            self._later = dict.fromkeys(range(self._settings.workers), 0.0)
            try:
                while not self._stopping:
                    self._start_due()
                    for key, _ in self._selector.select(_TICK):
                        self._hear(key.data)
                    for worker in list(self._workers.values()):
                        self._check(worker)
            finally:
                self._end()

    def _stop(self, *_: object) -> None:
        self._stopping = True

    def _start_due(self) -> None:
        for row, due in list(self._later.items()):
            if time.monotonic() >= due:
                del self._later[row]
                self._start(row)

    def _start(self, row: int) -> None:
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        told = {
            "source": str(self._source),
            "settings": asdict(self._settings),
            "row": row,
            "descriptors": [self._listener.fileno(), theirs.fileno(), self._shared],
            "folder": str(self._folder),
        }
        with theirs:
            # -P: as for the server itself, what lies in the working folder is not imported
            process = subprocess.Popen(
                [sys.executable, "-P", "-m", WORKER_MODULE],
                stdin=subprocess.PIPE,
                pass_fds=told["descriptors"],  # type: ignore[arg-type]
                env={**ONE_THREAD, **os.environ},
            )
        assert process.stdin is not None
        with suppress(BrokenPipeError), process.stdin as sink:
            sink.write(json.dumps(told).encode())
        ours.setblocking(False)
        worker = WorkerProcess(row, process, ours, time.monotonic())
        self._workers[row] = worker
        self._selector.register(ours, selectors.EVENT_READ, worker)

    def _hear(self, worker: WorkerProcess) -> None:
        """Takes what a worker says: connections it has opened or closed, that it is ready, or why it cannot be."""
        try:
            said, descriptors, *_ = socket.recv_fds(worker.channel, 4_096, 1)
        except OSError:
            return
        kind = said[:1]
        if kind in (OPENED, CLOSED):
            _, slot = SLOT.unpack(said)
            if before := worker.held.pop(slot, None):
                before.close()
            if descriptors:
                worker.held[slot] = socket.socket(fileno=descriptors[0])
        elif kind == READY:
            self._failures = 0
            if not self._is_served:
                self._is_served = True
                self._report(said[1:].decode())
            self._save()
            self._place()
        elif kind == FAILED:
            worker.failure = said[1:].decode()
        else:  # nobody is there any more
            with suppress(subprocess.TimeoutExpired):
                worker.process.wait(1)

    def _check(self, worker: WorkerProcess) -> None:
        now, beats = time.monotonic(), self._board.beats(worker.row)
        if worker.process.poll() is not None:
            self._replace(worker, "died")
        elif beats != worker.beats:
            worker.beats, worker.heard = beats, now
        elif (beats == 0 and now - worker.began > _LOADING) or (beats and self._is_hung(worker, now - worker.heard)):
            worker.process.kill()
            worker.process.wait()
            self._replace(worker, "hung")

    def _is_hung(self, worker: WorkerProcess, silent: float) -> bool:
        if silent < _STOPPED:
            return False
        with suppress(OSError, IndexError):
            state = Path(f"/proc/{worker.process.pid}/stat").read_text().rpartition(")")[2].split()[0]
            return state in "Tt" or silent > self._settings.bounds.seconds
        return False

    def _replace(self, worker: WorkerProcess, reason: str) -> None:
        was_ready = worker.beats > 0 or self._board.beats(worker.row) > 0
        if not self._is_served:
            raise TarboxError(worker.failure or "the server could not start; what stands above says why")
        self._lost[reason] += 1
        self._failures = 0 if was_ready else self._failures + 1
        pause = min(2.0**self._failures - 1, _LONGEST_PAUSE)
        log.warning("worker %d (process %d) %s %s", worker.row, worker.process.pid, reason, worker.failure)
        self._release(worker)
        self._later[worker.row] = time.monotonic() + pause
        self._save()
        self._start_due()
        self._place()

    def _release(self, worker: WorkerProcess) -> None:
        """Tells those who wait for a reply, and keeps the connections of those who do not for another worker."""
        while self._has_word(worker):
            self._hear(worker)
        self._selector.unregister(worker.channel)
        worker.channel.close()
        del self._workers[worker.row]
        for slot, connection in worker.held.items():
            state = self._board.state(worker.row, slot)
            if state == IDLE:
                self._orphans.append(connection)
                continue
            if state == WAITING:
                with suppress(OSError):
                    connection.send(
                        problem_bytes("busy", _LOST, self._settings.origins, {"Retry-After": "1"}), socket.MSG_DONTWAIT
                    )
            with suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)
            connection.close()
        self._board.clear(worker.row)

    def _has_word(self, worker: WorkerProcess) -> bool:
        """Whether a worker that has ended has said something that was not heard."""
        with suppress(OSError):
            return bool(worker.channel.recv(1, socket.MSG_PEEK | socket.MSG_DONTWAIT))
        return False

    def _place(self) -> None:
        """Gives connections that nobody holds to the worker with the fewest, if any is ready."""
        while self._orphans and (ready := [row for row in self._board.ready() if row in self._workers]):
            counts, connection = self._board.connections(), self._orphans.pop()
            least = min(ready, key=counts.__getitem__)
            with suppress(OSError), connection:
                socket.send_fds(self._workers[least].channel, [OPENED], [connection.fileno()])

    def _save(self) -> None:
        """Writes what `/metrics` says of the workers."""
        kept: Samples = {
            f'tarbox_workers_lost_total{{reason="{reason}"}}': count for reason, count in self._lost.items()
        }
        kept["tarbox_workers_expected"] = self._settings.workers
        kept["process_resident_memory_bytes"] = resident_bytes()
        save_samples(self._folder / "supervisor.json", kept)

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
            for connection in worker.held.values():
                connection.close()
            worker.channel.close()
        for connection in self._orphans:
            connection.close()
        self._selector.close()
