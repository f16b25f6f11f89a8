"""What training tells the world, and two of its listeners: metrics.jsonl and TensorBoard."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Final, final

METRICS_FILE: Final = "metrics.jsonl"


@final
@dataclass(frozen=True, slots=True)
class Started:
    """Training begins, or begins again, after so many epochs.

    `left_out` names the templates that the model has no meaning for: it neither learns them nor is validated on them.
    `part` is the stage of a model that is trained in parts.
    """

    epoch: int
    epochs: int
    steps: int
    samples: int
    left_out: tuple[str, ...] = ()
    part: str = ""


@final
@dataclass(frozen=True, slots=True)
class Ticked:
    """About once a second within an epoch: how far it is, and the mean loss of each task so far.

    `seconds_left` is an estimate for the whole training, None as long as there is none.
    """

    epoch: int
    step: int
    losses: Mapping[str, float]
    samples_per_second: float
    seconds_left: float | None


@final
@dataclass(frozen=True, slots=True)
class EpochEnded:
    """The mean loss of each task; `seconds` is the time trained in all, without validation."""

    epoch: int
    losses: Mapping[str, float]
    samples: int
    seconds: float
    samples_per_second: float
    seconds_left: float | None
    rate: float
    part: str = ""


@final
@dataclass(frozen=True, slots=True)
class Validated:
    """The MRR of each level and their mean; `best` says whether no earlier one was as good."""

    epoch: int
    seconds: float
    mrr: float
    levels: Mapping[str, float]
    best: bool
    validation_seconds: float


@final
@dataclass(frozen=True, slots=True)
class Finished:
    """Training has ended; `reason` says why."""

    epoch: int
    seconds: float
    reason: str
    best_epoch: int | None
    best_mrr: float | None


@final
@dataclass(frozen=True, slots=True)
class PartBegan:
    """A model that is trained in parts begins the next one."""

    part: str


@final
@dataclass(frozen=True, slots=True)
class PartProgressed:
    """This share (0 to 1) of a part is done; the estimate is for the whole training, None as long as there is none."""

    part: str
    done: float
    seconds_left: float | None


@final
@dataclass(frozen=True, slots=True)
class Estimated:
    """Told once, when it is known: how long the whole training takes, and the memory in use, in bytes."""

    seconds: float
    host_bytes: int
    device_bytes: int


@final
@dataclass(frozen=True, slots=True)
class MemoryPlanned:
    """Before training begins: about how many more bytes it takes, of the machine and of its device."""

    host_bytes: int
    device_bytes: int


@final
@dataclass(frozen=True, slots=True)
class TablesAtHome:
    """A link predictor is held in the machine's memory, in so many shards, two of which are on the device at a time."""

    device: str
    shards: int


Event = (
    MemoryPlanned
    | TablesAtHome
    | Started
    | Ticked
    | EpochEnded
    | Validated
    | Finished
    | PartBegan
    | PartProgressed
    | Estimated
)
Listener = Callable[[Event], None]

_NAMES: Final[Mapping[type[Any], str]] = {EpochEnded: "epoch", Validated: "validation", Finished: "end"}


@final
class MetricsFile:
    """Appends a line of JSON for every epoch, validation and end; each is on disk before the next step begins."""

    def __init__(self, folder: Path) -> None:
        """A run that trains has not ended: the line that says so is dropped."""
        self._folder, self._path = folder, folder / METRICS_FILE
        self._keep(lambda line: line["event"] != "end")

    def __call__(self, event: Event) -> None:
        name = _NAMES.get(type(event))
        if isinstance(event, Started):
            self._drop_after(event)
        elif name is not None:
            with self._path.open("a", encoding="utf-8") as file:
                file.write(json.dumps({"event": name, **asdict(event)}) + "\n")

    def _drop_after(self, begun: Started) -> None:
        """A part that begins again makes the lines about its later epochs again, and what follows it its own."""
        if begun.part:
            self._keep(lambda line: line["event"] != "validation")  # the whole is validated after its parts
        self._keep(lambda line: line.get("part", "") != begun.part or line["epoch"] <= begun.epoch)

    def _keep(self, wanted: Callable[[dict[str, Any]], bool]) -> None:
        lines = read_metrics(self._folder) if self._path.is_file() else []
        kept = [line for line in lines if wanted(line)]
        if len(kept) < len(lines):
            self._path.write_text("".join(json.dumps(line) + "\n" for line in kept), encoding="utf-8")


def read_metrics(folder: Path) -> list[dict[str, Any]]:
    """The lines of a run's metrics; a line cut off by a crash is left out."""
    found = []
    for line in (folder / METRICS_FILE).read_text(encoding="utf-8").splitlines():
        try:
            found.append(json.loads(line))
        except ValueError:
            continue
    return found


@final
class TensorBoard:
    """Writes TensorBoard events into the run folder, where tensorboard is installed."""

    def __init__(self, folder: Path) -> None:
        self._writer: Any = None
        try:
            from torch.utils.tensorboard import SummaryWriter
        except ImportError:
            return
        self._writer = SummaryWriter(str(folder))

    def __call__(self, event: Event) -> None:
        if self._writer is None:
            return
        match event:
            case EpochEnded():
                self._write({f"loss/{task}": loss for task, loss in event.losses.items()}, event.epoch)
                self._write({"samples per second": event.samples_per_second, "rate": event.rate}, event.epoch)
            case Validated():
                self._write({f"mrr/{level}": mrr for level, mrr in event.levels.items()}, event.epoch)
            case _:
                pass

    def __enter__(self) -> TensorBoard:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        if self._writer is not None:
            self._writer.close()

    def _write(self, numbers: Mapping[str, float], epoch: int) -> None:
        for name, number in numbers.items():
            self._writer.add_scalar(name, number, epoch)
