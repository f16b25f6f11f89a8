"""Several processes that train one model: how they find each other, and what becomes of them when one is lost.

The first process, the leader, runs the training; the others follow its orders (`tarbox.training.sharded`) and know of
the run what these say. `hardware.processes` starts them here; `torchrun` starts them on several machines. Messages go
by torch.distributed: gloo between processors, NCCL between GPUs; what is small and on the host by gloo always.
"""

from __future__ import annotations

import ctypes
import json
import multiprocessing
import os
import signal
import sys
import threading
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import timedelta
from multiprocessing.context import SpawnProcess
from typing import Any, Final, NoReturn, final

import torch
import torch.distributed as dist
import torch.distributed.nn  # imported later, by an optimizer, its functions would hold the group of that time for ever
from torch import Tensor
from torch.distributed import HashStore, PrefixStore, Store, TCPStore  # type: ignore[attr-defined]
from torch.distributed.rendezvous import rendezvous

from tarbox.core.errors import ConfigError
from tarbox.training.failures import TrainingError
from tarbox.training.hardware import HardwareConfig, find_device

_PATIENCE: Final = timedelta(days=7)
"""For a message: followers wait through parts of the training that one process does."""
_START: Final = 600.0
"""Seconds for a process to begin in."""
_LOOK: Final = timedelta(seconds=0.5)
"""Between two looks whether the others are there still, while a message is on its way."""
_FAILURE: Final = "failure"
_LENGTH: Final = 4
"""Numbers of an order."""


class ProcessLost(TrainingError):
    """A process of the group is gone, so that the others cannot go on."""


@final
@dataclass(frozen=True, slots=True)
class ProcessGroup:
    """This process among `size`, the leader being 0; `children` are those that it has started."""

    rank: int
    size: int
    device: torch.device
    store: Store
    children: Sequence[SpawnProcess] = ()
    told: list[tuple[Any, Tensor]] = field(default_factory=list)
    """An order that is on its way."""

    @classmethod
    def alone(cls, device: torch.device) -> ProcessGroup:
        return cls(0, 1, device, HashStore())

    def tell(self, *order: float, wait: bool = True) -> None:
        """The leader's next order, to all. Unless it waits, it goes on before they have heard."""
        numbers = torch.zeros(_LENGTH, dtype=torch.float64)
        numbers[: len(order)] = torch.tensor(order, dtype=torch.float64)
        if self.size > 1:
            with self._watched():
                while self.told:
                    self._await(*self.told.pop())
                self.told.append((dist.broadcast(numbers, 0, async_op=True), numbers))
                if wait:
                    self._await(*self.told.pop())

    def hear(self) -> list[float]:
        numbers = torch.zeros(_LENGTH, dtype=torch.float64)
        self.broadcast(numbers)
        return [float(number) for number in numbers]

    def broadcast(self, tensor: Tensor) -> None:
        """What the leader has is then with all."""
        if self.size > 1:
            with self._watched():
                self._await(dist.broadcast(tensor, 0, async_op=True), tensor)

    def spread(self, content: Any = None, tensors: Sequence[Tensor] = ()) -> tuple[Any, list[Tensor]]:
        """JSON and tensors of the leader, with all."""
        about = json.dumps([content, [[str(own.dtype).removeprefix("torch."), list(own.shape)] for own in tensors]])
        text = torch.frombuffer(bytearray(about.encode()), dtype=torch.uint8)
        size = torch.tensor([len(text)])
        self.broadcast(size)
        text = text if self.rank == 0 else torch.empty(int(size), dtype=torch.uint8)
        self.broadcast(text)
        content, kinds = json.loads(text.numpy().tobytes())
        found = list(tensors) or [torch.empty(shape, dtype=getattr(torch, name)) for name, shape in kinds]
        found = [tensor.to(self.device).contiguous() for tensor in found]
        for tensor in found:
            if tensor.numel():
                self.broadcast(tensor)
        return content, found

    def add_up(self, tensor: Tensor) -> Callable[[], None]:
        """Begin the sum over all processes, in place; it is there when what this gives has been called."""
        if self.size == 1:
            return lambda: None
        with self._watched():
            work = dist.all_reduce(tensor, async_op=True)

        def wait() -> None:
            with self._watched():
                self._await(work, tensor)

        return wait

    def exchange(self, sent: Sequence[tuple[Tensor, int]], received: Sequence[tuple[Tensor, int]]) -> None:
        """Send tensors to ranks, and receive others from ranks, all at once; between two in the order given."""
        operations = [dist.P2POp(dist.isend, tensor, rank) for tensor, rank in sent]
        operations += [dist.P2POp(dist.irecv, tensor, rank) for tensor, rank in received]
        if operations:
            with self._watched():
                works = dist.batch_isend_irecv(operations)
                if self.device.type == "cuda":
                    for work in works:
                        work.wait()
                else:
                    self._await_between_two(works)

    def _await(self, work: Any, message: Tensor) -> None:
        """To the end of a message to, or from, all. Of what is on its way to a process that ends, gloo may never say
        that it did not arrive: the leader looks whether those that it started are there. Of torchrun's processes
        torchrun ends all."""
        if not self.children or message.is_cuda:
            work.wait()
            return
        while True:
            there = self._all_there()
            try:
                work.wait(_LOOK)
            except RuntimeError:
                if work.is_completed():
                    raise
                if not there:
                    self._give_up()
            else:
                return

    def _await_between_two(self, works: Sequence[Any]) -> None:
        """The same of messages that gloo takes back when their time is over, so that it must have none."""
        failures: list[RuntimeError] = []

        def wait() -> None:
            try:
                for work in works:
                    work.wait()
            except RuntimeError as error:
                failures.append(error)

        waiting = threading.Thread(target=wait, daemon=True)
        waiting.start()
        while waiting.is_alive():
            there = self._all_there()
            waiting.join(_LOOK.total_seconds())
            if waiting.is_alive() and not there:
                self._give_up()
        if failures:
            raise failures[0]

    def _all_there(self) -> bool:
        return all(child.is_alive() for child in self.children)

    def _give_up(self) -> NoReturn:
        """A message will never end, and who frees the group waits for it: it stays for ever."""
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(dist.group.WORLD))
        raise ProcessLost(self._why("it does not answer"))

    @contextmanager
    def _watched(self) -> Iterator[None]:
        """Where a message fails, a process is lost: say which, and why."""
        try:
            yield
        except RuntimeError as error:
            raise ProcessLost(self._why(str(error).splitlines()[0])) from error

    def _why(self, error: str) -> str:
        deadline = time.monotonic() + 1.0  # who was lost has perhaps not ended yet
        while time.monotonic() < deadline and all(child.is_alive() for child in self.children):
            time.sleep(0.02)
        ends = [child.exitcode or 0 for child in self.children]
        killed = [(1 + place, -code) for place, code in enumerate(ends) if code < 0]
        reason = f"the connection to another process is gone ({error})"
        if killed:
            reason = f"process {killed[0][0]} of {self.size} was killed (signal {killed[0][1]}; out of memory?)"
        else:
            with suppress(RuntimeError):
                if self.store.check([_FAILURE]):
                    reason = self.store.get(_FAILURE).decode()
        return f"{reason}. Training cannot go on without it; --resume continues from the last checkpoint."


def torchrun_rank() -> int | None:
    """This process's number under torchrun; None where it was not started so, or alone."""
    return int(os.environ["RANK"]) if int(os.environ.get("WORLD_SIZE", "1")) > 1 and "RANK" in os.environ else None


@contextmanager
def lead(config: HardwareConfig, follow: Callable[[ProcessGroup], None], quit_order: float) -> Iterator[ProcessGroup]:
    """The group that this process leads while it trains, perhaps alone. `follow` is what others do."""
    found = find_device(config.device)
    device = _own_device(found.type, found.index or 0)
    if torchrun_rank() is not None:
        with joined(*_torchrun_store(), device) as group:
            yield from _lead(group, quit_order)
        return
    if config.processes == 1:
        yield ProcessGroup.alone(device)
        return
    if device.type == "cuda" and torch.cuda.device_count() < config.processes:
        raise ConfigError(
            f"hardware.processes is {config.processes}, and there are {torch.cuda.device_count()} GPUs: one for each"
        )
    store = TCPStore("127.0.0.1", 0, config.processes, is_master=True, wait_for_workers=False)
    context = multiprocessing.get_context("spawn")
    children = [
        context.Process(target=_child, args=(rank, config.processes, store.port, device.type, follow), daemon=True)
        for rank in range(1, config.processes)
    ]
    for child in children:
        child.start()
    try:
        _wait_for(children, store)
        with joined(store, 0, config.processes, device, children) as group:
            yield from _lead(group, quit_order)
    finally:
        for child in children:
            child.join(2.0)
            child.kill()
            child.join()


def _lead(group: ProcessGroup, quit_order: float) -> Iterator[ProcessGroup]:
    try:
        yield group
    finally:
        with suppress(ProcessLost):
            group.tell(quit_order)


def follow_torchrun(follow: Callable[[ProcessGroup], None], device: str) -> None:
    """What a process of torchrun does that is not the leader; `device` is what all were told."""
    store, rank, size = _torchrun_store()
    own = _own_device(find_device(device).type, int(os.environ.get("LOCAL_RANK", rank)))
    _serve((store, rank, size), own, follow)


def _torchrun_store() -> tuple[Store, int, int]:
    store, rank, size = next(iter(rendezvous("env://")))
    return PrefixStore("tarbox", store), rank, size


def _child(rank: int, size: int, port: int, kind: str, follow: Callable[[ProcessGroup], None]) -> None:
    """The whole life of a process that the leader has started."""
    store = TCPStore("127.0.0.1", port, size, is_master=False, wait_for_workers=False)
    store.add("here", 1)
    _serve((store, rank, size), _own_device(kind, rank), follow)


def _serve(place: tuple[Store, int, int], device: torch.device, follow: Callable[[ProcessGroup], None]) -> None:
    """Ctrl+C and torchrun's end reach every process: here the leader decides. Who is left alone goes quietly: it is
    the leader that says what happened."""
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)
    store, rank, size = place
    try:
        with joined(store, rank, size, device) as group:
            follow(group)
    except ProcessLost:
        os._exit(1)
    except (RuntimeError, MemoryError) as error:
        reason = f"process {rank} of {size} failed: {(str(error).splitlines() or [type(error).__name__])[0]}"
        with suppress(RuntimeError):
            store.set(_FAILURE, reason)
        os._exit(1)


def _own_device(kind: str, number: int) -> torch.device:
    return torch.device("cuda", number) if kind == "cuda" else torch.device(kind)


@contextmanager
def joined(
    store: Store, rank: int, size: int, device: torch.device, children: Sequence[SpawnProcess] = ()
) -> Iterator[ProcessGroup]:
    """A member of the group, as long as this is open."""
    if sys.platform == "linux" and (children or multiprocessing.parent_process() is not None):
        os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")  # the name of a machine may lead nowhere
    backend = "cpu:gloo,cuda:nccl" if device.type == "cuda" else "gloo"
    if device.type == "cuda":
        torch.cuda.set_device(device)
    try:
        dist.init_process_group(backend, store=store, rank=rank, world_size=size, timeout=_PATIENCE)
    except RuntimeError as error:
        raise ProcessLost(f"{size} processes cannot find each other: {str(error).splitlines()[0]}") from error
    try:
        yield ProcessGroup(rank, size, device, store, children)
    except BaseException as error:
        _let_go(error)
        raise
    finally:
        dist.destroy_process_group()


def _let_go(error: BaseException | None) -> None:
    """Of what the frames of an error hold, the group of torch.distributed among it, which ends its threads when nobody
    holds it any longer: one that had a tensor to free while Python ends would abort it."""
    while error is not None:
        traceback.clear_frames(error.__traceback__)
        error = error.__cause__ or error.__context__


def _wait_for(children: Sequence[SpawnProcess], store: TCPStore) -> None:
    """Until all have begun."""
    deadline = time.monotonic() + _START
    while store.add("here", 0) < len(children):
        ended = [child.exitcode for child in children if child.exitcode is not None]
        if ended or time.monotonic() > deadline:
            raise ProcessLost(
                f"a process of {1 + len(children)} did not begin (exit code {ended[0] if ended else '-'})"
            )
        time.sleep(0.02)
