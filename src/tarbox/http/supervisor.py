"""The process that keeps a server's workers alive (ADR 44).

Workers accept connections themselves, so that nothing waits for this process; it holds a copy of each connection. When
a worker dies, or does not move any more and is killed, whoever waits for its reply is told so (503), connections where
nobody waits go to another worker, and a new one takes its place. To reload is to start as many workers again, and when
all are ready, to let the old ones leave their connections to them (ADR 45).
"""

from __future__ import annotations

import json
import logging
import mmap
import os
import secrets
import selectors
import signal
import socket
import struct
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from tempfile import TemporaryDirectory, TemporaryFile
from typing import Final, final

from tarbox.core.errors import TarboxError
from tarbox.http.problems import problem_bytes
from tarbox.http.settings import ServerSettings

ONE_THREAD: Final = {"OMP_NUM_THREADS": "1"}
"""Unless the user says otherwise: threads of linear algebra that wait by spinning would take the others' processor."""
OPENED, ADOPTED, CLOSED, LEFT, READY, FAILED, RELOAD = b"+", b"a", b"-", b"l", b".", b"!", b"r"
"""What workers say: of a connection, in which slot; of themselves; and that somebody wants the facts read anew."""
GO, RETIRE = b"g", b"q"
"""What they are told, beside connections to adopt and why it FAILED: to serve, and to leave to others, and which facts
these have."""
SLOT: Final = struct.Struct("<cI")
IDLE, WAITING, SENDING = range(3)
"""Of a connection: nobody waits; the client waits for a reply, of which nothing was sent; a part may be on its way."""
LOST: Final = ("died", "hung")
LOG_FORMAT: Final = "%(asctime)s %(levelname)s %(name)s[%(process)d] %(message)s"
_TICK: Final = 0.1
_STOPPED: Final = 0.6
"""Seconds after which a worker that is stopped (SIGSTOP) is given up; a busy one has until requests run out of time."""
_LOADING: Final = 900.0
_GRACE: Final = 12.0
_LONGEST_PAUSE: Final = 30.0
_ENDED: Final = "The process that worked on this request has ended. Ask again."
log = logging.getLogger("tarbox.supervisor")


@final
class Board:
    """Memory that the supervisor and its workers share: of each worker `beats`, `open` connections, requests that have
    `taken` a place or are `waiting` for one, `pages` of memory; `states` of its connections; how many were `LOST`.
    There are two rows for each of the `workers`: the second is for the one that takes over. Without a file (-1) one
    process has it alone.

    >>> with TemporaryFile() as file:
    ...     board = Board(file.fileno(), 2, 10)
    >>> board.beats[1] += 1
    >>> board.states[1, 9] = WAITING
    >>> board.ready(), board.states[1, 9]
    ([1], 1)
    """

    def __init__(self, descriptor: int, workers: int, slots: int) -> None:
        self.workers, self.slots, self.rows = workers, slots, 2 * workers
        numbers = 20 * self.rows + 4 * len(LOST)
        self.is_shared = descriptor >= 0
        if self.is_shared:
            os.truncate(descriptor, numbers + self.rows * slots)
        whole = memoryview(mmap.mmap(descriptor, numbers + self.rows * slots))
        counts, self.states = whole[:numbers].cast("I"), whole[numbers:].cast("B", (self.rows, slots))
        self.by_worker = [counts[at : at + self.rows] for at in range(0, 5 * self.rows, self.rows)]
        self.beats, self.open, self.taken, self.waiting, self.pages = self.by_worker
        self.lost = counts[-len(LOST) :]

    def ready(self) -> list[int]:
        """The rows of the workers that serve."""
        return [row for row in range(self.rows) if self.beats[row]]


@final
@dataclass(slots=True)
class WorkerProcess:
    """One worker as the supervisor knows it; `held` are copies of its connections, by slot, and `handed` are those of
    others that it was given and has not taken yet. It is `fresh` until it may serve, and has `until` to leave, if it
    must; `told` are the title and the version of its facts, when it is ready."""

    row: int
    process: subprocess.Popen[bytes]
    channel: socket.socket
    heard: float
    fresh: bool
    until: float | None = None
    told: tuple[str, ...] = ()
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
        self._failures = 0
        self._is_served = self._stopping = self._reloading = False

    def run(self) -> None:
        """Raises what is wrong where no worker can begin."""
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            signal.signal(number, self._note)
        with TemporaryFile() as shared, TemporaryDirectory(prefix="tarbox-") as folder, self._selector:
            self._shared, self._folder = shared.fileno(), folder
            self._board = Board(self._shared, self._settings.workers, self._settings.bounds.connections)
            try:
                while not self._stopping:
                    for row in [row for row, due in self._due.items() if time.monotonic() >= due]:
                        self._start(row)
                    if self._reloading and not any(each.fresh or each.until for each in self._workers.values()):
                        self._reload()
                    for key, _ in self._selector.select(_TICK):
                        self._hear(key.data)
                    self._place_orphans()
                    for worker in list(self._workers.values()):
                        if self._workers.get(worker.row) is worker:  # it may have been given up with another
                            self._check(worker)
            finally:
                self._end()

    def _note(self, number: int, _: object) -> None:
        self._reloading |= number == signal.SIGHUP
        self._stopping |= number != signal.SIGHUP

    def _reload(self) -> None:
        """Starts as many workers again, in the other rows; the old ones go on until all of these are ready."""
        self._reloading, self._settings = False, replace(self._settings, tag=secrets.token_hex(4))
        free = set(range(self._board.rows)).difference(self._workers, self._due)
        for row in sorted(free)[: self._settings.workers]:
            self._start(row, fresh=True)

    def _take_over(self, fresh: list[WorkerProcess]) -> None:
        """Lets new workers serve, and the old ones leave."""
        self._due.clear()
        longest = self._settings.bounds.seconds + self._settings.bounds.reading + _GRACE
        for worker in self._workers.values():
            self._tell(worker, GO if worker.fresh else RETIRE + "\n".join(fresh[0].told).encode())
            worker.until, worker.fresh = None if worker.fresh else time.monotonic() + longest, False
        log.info("the facts were read anew: %s, version %s", *fresh[0].told[:2])

    def _give_up(self, reason: str) -> None:
        """Ends new workers; the old ones stay."""
        log.error("the facts could not be read anew, the old ones stay: %s", reason)
        for worker in list(self._workers.values()):
            if worker.fresh:
                self._release(worker)
            else:
                self._tell(worker, FAILED + reason.encode()[:4_000])

    def _tell(self, worker: WorkerProcess, message: bytes) -> None:
        with suppress(OSError):  # it has ended: that is noticed elsewhere
            worker.channel.send(message)

    def _start(self, row: int, fresh: bool = False) -> None:
        self._due.pop(row, None)
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        ours.setblocking(False)
        descriptors = [self._listener.fileno(), theirs.fileno(), self._shared]
        told = {"source": str(self._source), "row": row, "descriptors": descriptors, "settings": asdict(self._settings)}
        command = [sys.executable, "-P", "-m", "tarbox.http.worker"]  # -P: not from the working folder
        environment = {**ONE_THREAD, **os.environ, "PROMETHEUS_MULTIPROC_DIR": self._folder}
        with theirs:
            process = subprocess.Popen(command, stdin=subprocess.PIPE, pass_fds=descriptors, env=environment)
        assert process.stdin is not None
        with suppress(BrokenPipeError), process.stdin as sink:
            sink.write(json.dumps(told).encode())
        self._workers[row] = worker = WorkerProcess(row, process, ours, time.monotonic(), fresh)
        self._selector.register(ours, selectors.EVENT_READ, worker)

    def _hear(self, worker: WorkerProcess) -> bool:
        """Takes what a worker says: of connections, that it is ready, or why it cannot be; whether it said anything."""
        try:
            said, descriptors, *_ = socket.recv_fds(worker.channel, 4_096, 1)
        except OSError:
            return False
        if said[:1] in (OPENED, ADOPTED, CLOSED, LEFT):
            kind, slot = SLOT.unpack(said)
            self._note_connection(worker, kind, slot, descriptors)
        elif said[:1] == READY:
            self._note_ready(worker, tuple(said[1:].decode().split("\n")))
        elif said[:1] == FAILED:
            worker.failure = said[1:].decode()
        elif said[:1] == RELOAD:
            self._reloading = True
        else:  # nobody is there any more
            with suppress(subprocess.TimeoutExpired):
                worker.process.wait(1)
        return bool(said)

    def _note_connection(self, worker: WorkerProcess, kind: bytes, slot: int, descriptors: list[int]) -> None:
        if kind == ADOPTED:
            worker.handed.pop(0).close()
        if before := worker.held.pop(slot, None):
            if kind == LEFT:
                self._orphans.append(before)
            else:
                before.close()
        if descriptors:
            worker.held[slot] = socket.socket(fileno=descriptors[0])

    def _note_ready(self, worker: WorkerProcess, told: tuple[str, ...]) -> None:
        """Where workers have read different facts, which others have changed meanwhile, all read them anew."""
        if not self._is_served:
            self._report(told[0])
        self._is_served, self._failures, worker.told = True, 0, told
        serving = [each for each in self._workers.values() if each.until is None]
        fresh = [each for each in serving if each.fresh]
        if not worker.fresh:
            self._tell(worker, GO)
        elif all(each.told for each in fresh):
            self._take_over(fresh)
        self._reloading |= len({each.told for each in (fresh or serving) if each.told}) > 1

    def _check(self, worker: WorkerProcess) -> None:
        now, beats = time.monotonic(), self._board.beats[worker.row]
        if worker.until is not None:
            if worker.process.poll() is not None or now > worker.until:
                self._release(worker)
        elif worker.process.poll() is not None:
            self._replace(worker, "died")
        elif beats != worker.beats:
            worker.beats, worker.heard = beats, now
        elif now - worker.heard > self._patience(worker):
            self._replace(worker, "hung")

    def _patience(self, worker: WorkerProcess) -> float:
        """How long a worker may be silent: one that is stopped will not move by itself, a busy one may."""
        if os.waitid(os.P_PID, worker.process.pid, os.WSTOPPED | os.WNOHANG | os.WNOWAIT):
            return _STOPPED
        return self._settings.bounds.seconds if worker.beats else _LOADING

    def _replace(self, worker: WorkerProcess, reason: str) -> None:
        self._finish(worker)
        if not self._is_served:
            raise TarboxError(worker.failure or "the server could not start; what stands above says why")
        if worker.fresh:
            self._give_up(worker.failure or f"a new worker {reason}")
            return
        log.warning("worker %d (process %d) %s %s", worker.row, worker.process.pid, reason, worker.failure)
        self._board.lost[LOST.index(reason)] += 1
        self._failures = 0 if self._board.beats[worker.row] else self._failures + 1
        self._due[worker.row] = time.monotonic() + min(2.0**self._failures - 1, _LONGEST_PAUSE)
        self._release(worker)

    def _finish(self, worker: WorkerProcess) -> None:
        """Ends a worker, and hears what it said before."""
        worker.process.kill()
        worker.process.wait()
        while self._hear(worker):
            pass

    def _release(self, worker: WorkerProcess) -> None:
        """Tells those who wait for a reply, and gives the connections of those who do not to another worker."""
        self._finish(worker)
        self._selector.unregister(worker.channel)
        worker.channel.close()
        del self._workers[worker.row]
        lost = problem_bytes("busy", _ENDED, self._settings.origins)
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
        for numbers in self._board.by_worker:
            numbers[worker.row] = 0

    def _place_orphans(self) -> None:
        """Gives connections that nobody holds to the worker with the fewest, if any is ready."""
        while self._orphans and (ready := [row for row in self._board.ready() if row in self._workers]):
            least = min(ready, key=lambda row: self._board.open[row])
            try:
                socket.send_fds(self._workers[least].channel, [ADOPTED], [self._orphans[-1].fileno()])
            except OSError:  # it has ended too
                return
            self._workers[least].handed.append(self._orphans.pop())

    def _end(self) -> None:
        """Lets the workers finish what they have begun."""
        self._listener.close()
        until = time.monotonic() + _GRACE
        for worker in self._workers.values():
            worker.process.terminate()
        for worker in list(self._workers.values()):
            with suppress(subprocess.TimeoutExpired):
                worker.process.wait(max(0.0, until - time.monotonic()))
            self._release(worker)
        for orphan in self._orphans:
            orphan.close()
