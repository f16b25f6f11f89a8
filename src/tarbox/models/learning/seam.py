"""The one seam of training: what a model learns from, what a run offers it, and what every model class is.

`tarbox.training` calls `learn`, writes the arrays that come back, and gives them to `of_arrays` when the run is asked.
A model that descends gradients calls `RunContext.fit`; one that only counts returns no arrays. Neither the session nor
the loop knows which is which.

Nothing here needs torch to be imported: counting is a model too.
"""

from __future__ import annotations

import abc
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, Protocol, final

if TYPE_CHECKING:
    import torch
    from numpy.typing import NDArray
    from torch import Tensor, nn

    from tarbox.benchmark.tables import QueryTable
    from tarbox.core.ids import Level
    from tarbox.kb.axioms import Axiom
    from tarbox.kb.facts import Facts, Ids
    from tarbox.models.learning.batches import BatchConfig, SampleSource
    from tarbox.models.learning.objective import ObjectiveConfig
    from tarbox.models.scorer import Scorer


def no_queries() -> QueryTable | None:
    return None


@final
@dataclass(frozen=True, slots=True)
class TrainingData:
    """What is learnt from, and what is validated on.

    `queries` makes the training queries when a model asks for them; each call gives the same. `valid` and `excluded`
    are a benchmark's: a run on a store has nothing to validate on. `axioms` reads those of the store.
    """

    facts: Facts
    valid: QueryTable | None = None
    excluded: Mapping[Level, Ids] = field(default_factory=dict)
    queries: Callable[[], QueryTable | None] = no_queries
    axioms: Callable[[], tuple[Axiom, ...]] = tuple


class Stage(NamedTuple):
    """How long one call of `fit` lasts; `name` is said in progress lines, and is the folder RUN/parts/NAME.

    What the optimizer knows of the module `after`, a copy of which is fitted, is kept, too. `span` is which share of
    the training the stage is, where several follow each other: the learning rate falls over all of it.
    """

    name: str
    epochs: int
    after: nn.Module | None = None
    span: tuple[float, float] = (0.0, 1.0)


class RunContext(Protocol):
    """What a run offers to a model that learns."""

    @property
    def seed(self) -> int:
        """Everything random comes from it; torch's global generator is seeded with it before `learn`."""
        ...

    @property
    def device(self) -> torch.device: ...

    @property
    def batches(self) -> BatchConfig:
        """How the run's settings draw samples."""
        ...

    @property
    def objective(self) -> ObjectiveConfig:
        """Which tasks the run's settings train, and by which loss."""
        ...

    @property
    def epochs(self) -> int:
        """How many the run's settings give to the model, or to its first part."""
        ...

    def plan(self, shares: Mapping[str, float]) -> None:
        """The parts of this training in order, each with its expected share of the whole time: what the one estimate
        for the whole is made from."""
        ...

    def begin(self, part: str) -> None:
        """The next part of the plan begins (a progress line in the words of the field)."""
        ...

    def progress(self, done: float) -> None:
        """This share (0..1) of the part is done."""
        ...

    def fit(self, module: nn.Module, sources: Sequence[SampleSource], stage: Stage | None = None) -> dict[str, Tensor]:
        """Gradient steps over the sources by the run's settings.

        Without a stage the module is the model itself: validated as the settings say, its best weights written to the
        run and returned. With one it is a part of the model, kept in RUN/parts/NAME until the run is complete, trained
        for `stage.epochs`, resumed from its checkpoint, and returned as after the last step. What the optimizer knows
        of a module from an earlier stage is kept when the same module is fitted again.
        """
        ...

    def save(self, name: str, arrays: Mapping[str, NDArray[Any]]) -> None:
        """Keep arrays in the file RUN/NAME, which answering never reads: for `tarbox update`."""
        ...

    def home_of_tables(self, resident: int, tables: int, others: int) -> torch.device:
        """Where a link predictor is to be: on the device if `resident` bytes are left there, else in the machine's
        memory, so that `fit` has but shards of it on the device: of `tables` bytes with the optimizer's, beside
        `others`."""
        ...

    def require_memory(self, host: int, device: int, advice: str) -> None:
        """Refuse, before it begins, what cannot fit: bytes wanted beyond what is in use now; `advice` names the
        setting that helps."""
        ...


class Learner(abc.ABC):
    """What every model class is.

    `Config` are its settings, a frozen dataclass; `recipe` names those that `tarbox train` takes where none are named.
    `tasks` are the tasks (`tarbox.models.base.Task`) that an ablation can leave out, `lacks` the kinds of query node
    that the model has no meaning for. Where `trained` is false the facts alone make the model: there is nothing to
    wait for. One that is fitted `in_processes` calls `fit` with links of a `tarbox.models.complex.Complex` alone.
    """

    Config: ClassVar[type[Any]]
    recipe: ClassVar[str | None] = None
    tasks: ClassVar[frozenset[Any]] = frozenset()
    lacks: frozenset[type[Any]] = frozenset()
    trained: ClassVar[bool] = True
    in_processes: ClassVar[bool] = False

    @classmethod
    def resolve(cls, config: Any, data: TrainingData, device: torch.device) -> Any:  # noqa: ARG003
        """The settings with what they leave to the data and the hardware decided; the run's config.toml has these."""
        return config

    @classmethod
    @abc.abstractmethod
    def learn(cls, config: Any, data: TrainingData, context: RunContext) -> Mapping[str, Tensor]:
        """The arrays of the model."""

    @classmethod
    @abc.abstractmethod
    def of_arrays(cls, facts: Facts, arrays: Mapping[str, NDArray[Any]], config: Any, device: str) -> Scorer:
        """The model of a run: `learn` made these arrays of these facts. Raises `StoreDamaged` where it cannot have."""
