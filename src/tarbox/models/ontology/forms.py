"""Learning from normal forms: what geometric embeddings of ontologies share.

A model says by how much a row of each form is violated (its *gap*, 0 or less where the row holds) and what a gap costs
beside those of false rows. Rows of the first four forms have false rows drawn beside them: either node replaced by
another of its kind, never by one that makes a true row. The degree of membership is a logistic function of the gap of
{a} ⊑ C, fitted to true and false rows without a gradient into the embeddings.

Shape letters: B rows, M false rows for each, N nodes, W numbers of a node.
"""

# ruff: noqa: N803, N806 (shape suffixes)

from __future__ import annotations

import abc
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar, Final, TypeAlias, cast, final

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from tarbox.kb.arrays import Keys, Places
from tarbox.kb.closure import Instances
from tarbox.kb.facts import Facts
from tarbox.kb.normal_forms import NormalForm, Normalised, normalise
from tarbox.kb.rows import TripleKeys
from tarbox.models.base import Sizes, Task
from tarbox.models.learning.batches import Draw, SampleSource
from tarbox.models.learning.negatives import Sampler, Truths, distinct
from tarbox.models.learning.objective import Objective
from tarbox.models.learning.seam import RunContext, TrainingData
from tarbox.models.links import lift
from tarbox.models.ontology.describing import DescribingModel, Platt, in_parts

Gap: TypeAlias = Callable[..., Tensor]
"""(model, columns of ids that broadcast) to how much each row is violated."""

TASK_OF: Final = {NormalForm.TYPING: Task.INSTANTIATION, NormalForm.ASSERTION: Task.ENTITY}
"""What a form teaches; all others are the ontology's."""


class NormalFormModel(DescribingModel):
    """Nodes [N, W] and relations [R, W'] as tables; forms that are not in `gaps` are not learnt.

    `against` has the gap of false rows, where it is another.
    """

    gaps: ClassVar[Mapping[NormalForm, Gap]]
    against: ClassVar[Mapping[NormalForm, Gap]] = {}

    def __init__(self, sizes: Sizes, most: int, widths: tuple[int, int]) -> None:
        super().__init__(sizes, most)
        self.nodes = nn.Parameter(self.initial(max(sizes.entities + sizes.concepts, 1), widths[0]))
        self.relations = nn.Parameter(self.initial(max(sizes.relations, 1), widths[1]))
        self.membership = Platt()
        self.register_load_state_dict_pre_hook(_make_room)  # type: ignore[no-untyped-call]

    @staticmethod
    def initial(rows: int, width: int) -> Tensor:
        """[rows, width] first values."""
        return torch.empty(rows, width).uniform_(-1, 1).div_(width**0.5)

    @abc.abstractmethod
    def cost(self, own_B1: Tensor, others_BM: Tensor, valid_BM: Tensor) -> Tensor:
        """[B] what the gaps of true rows and of false ones cost; a form without false rows has M = 0."""

    @abc.abstractmethod
    def regularization(self, nodes_BN: Tensor) -> Tensor:
        """What nodes cost by themselves."""

    @final
    def instantiation(self, entities_BK: Tensor, concepts_BK: Tensor) -> Tensor:
        gap = self.gaps[NormalForm.TYPING](self, entities_BK, self.sizes.entities + concepts_BK)
        return cast(Tensor, self.membership(-gap))

    @final
    def memberships(self, entities_U: Tensor, concepts: slice) -> Tensor:
        concepts_1N = torch.arange(concepts.start, concepts.stop, device=entities_U.device)[None]
        width = concepts_1N.numel() * self.nodes.shape[1]
        return in_parts(entities_U, width, lambda part: self.instantiation(part[:, None], concepts_1N))

    @final
    def subsumption(self, subs_BK: Tensor, supers_BK: Tensor) -> Tensor:
        first = self.sizes.entities
        return -self.gaps[NormalForm.SUBSUMPTION](self, first + subs_BK, first + supers_BK)

    @final
    def sources(self, data: TrainingData, context: RunContext) -> Sequence[SampleSource]:
        """The forms that the model learns, of the facts and the axioms of the store; makes room for fresh nodes."""
        forms = normalise(data.facts, data.axioms())
        self.reserve(self.sizes.entities + self.sizes.concepts + len(forms.fresh))
        tasks = context.objective.tasks(self.tasks)
        return [one for one in form_sources(data.facts, forms, self.gaps, context.device) if one.task in tasks]

    @final
    def reserve(self, rows: int) -> None:
        """Have so many nodes at least: those that are not there yet get first values."""
        if rows > len(self.nodes):
            more = self.initial(rows - len(self.nodes), self.nodes.shape[1]).to(self.nodes)
            self.nodes = nn.Parameter(torch.cat([self.nodes.detach(), more]))

    @final
    def loss(self, form: NormalForm, rows_BC: Tensor, others_BMC: Tensor, valid_BM: Tensor) -> Tensor:
        """The mean cost of rows, each with the false ones beside it."""
        all_BN = self.gaps[form](self, *torch.cat([rows_BC[:, None], others_BMC], 1).unbind(-1))
        own_B1, others_BM = all_BN[:, :1], all_BN[:, 1:]
        if form in self.against:
            others_BM = self.against[form](self, *others_BMC.unbind(-1))
        found = self.cost(own_B1, others_BM, valid_BM).mean()
        if form.relations < form.width:
            found = found + self.regularization(rows_BC[:, form.relations :])
        return found + self._calibration(own_B1, others_BM, valid_BM) if form is NormalForm.TYPING else found

    def _calibration(self, own_B1: Tensor, others_BM: Tensor, valid_BM: Tensor) -> Tensor:
        """Cross entropy of true and false typings, half each: no gradient goes into the gaps."""
        true_B1, false_BM = self.membership(-own_B1.detach()), self.membership(-others_BM.detach())
        return functional.softplus(-true_B1).mean() + mean_of(functional.softplus(false_BM), valid_BM).mean()


def _make_room(module: Any, state: Mapping[str, Any], prefix: str, *_: Any) -> None:
    """A run has nodes for expressions, of which the vocabulary says nothing."""
    module.reserve(len(state.get(f"{prefix}nodes", ())))


def mean_of(values_BM: Tensor, valid_BM: Tensor) -> Tensor:
    """[B] the mean over what is drawn; what is not valid counts 0, and nothing drawn is 0."""
    return (values_BM * valid_BM).sum(1) / max(values_BM.shape[1], 1)


def form_sources(
    facts: Facts, forms: Normalised, learnt: Mapping[NormalForm, Gap], device: torch.device
) -> list[SampleSource]:
    """One source for each form that has rows."""
    vocabulary = facts.vocabulary
    entities, concepts = len(vocabulary.entities), len(vocabulary.concepts)
    width = entities + concepts + len(forms.fresh)
    of_entities, of_concepts = (0, entities), (entities, concepts)
    kinds = {
        NormalForm.TYPING: (of_entities, of_concepts),
        NormalForm.SUBSUMPTION: (of_concepts, of_concepts),
        NormalForm.ASSERTION: (of_entities, of_entities),
        NormalForm.LINK: (of_concepts, of_concepts),
    }
    instances = Instances.of(facts)
    closed = _closed(facts, instances)
    ancestors = instances.hierarchy.ancestors
    above = torch.from_numpy(ancestors.offsets).to(device), torch.from_numpy(ancestors.columns).to(device)
    found: list[SampleSource] = []
    for form, rows in forms.rows.items():
        if form not in learnt or not len(rows):
            continue
        false = None
        if form in kinds:
            keys = distinct(np.concatenate([_keys(rows, width), _keys(closed.get(form, rows[:0]), width)]))
            false = FalseRows(Truths.of_keys(keys, width, device), torch.tensor(kinds[form], device=device))
        lifted = (entities, above) if form is NormalForm.TYPING else None
        found.append(FormSource(form, torch.from_numpy(rows).to(device), false, lifted))
    return found


def _closed(facts: Facts, instances: Instances) -> dict[NormalForm, Places]:
    """The rows that follow from subsumption: they are not false."""
    first = len(facts.vocabulary.entities)
    typed, types = instances.describe(facts).concepts_of.coordinates()
    subs, supers = instances.hierarchy.ancestors.coordinates()
    pairs = {NormalForm.TYPING: (typed, types + first), NormalForm.SUBSUMPTION: (subs + first, supers + first)}
    return {form: np.stack(columns, 1).astype(np.int64) for form, columns in pairs.items()}


def _keys(rows: Places, width: int) -> Keys:
    relations = rows[:, 0] if rows.shape[1] == NormalForm.LINK.width else np.zeros(len(rows), np.int64)
    return TripleKeys(width).encode(relations, rows[:, -2], rows[:, -1])


@final
class FalseRows:
    """Draws false rows: `kinds` [2, 2] are where the nodes of the last two columns begin, and how many there are."""

    def __init__(self, truths: Truths, kinds: Tensor) -> None:
        self._truths, self._kinds = truths, kinds

    def draw(self, rows_BC: Tensor, sampler: Sampler) -> tuple[Tensor, Tensor]:
        """([B, M, C], [B, M] whether each is false): one of both nodes, by the toss of a coin, replaced."""
        size = (len(rows_BC), sampler.config.count)
        first, last = rows_BC[:, None, -2], rows_BC[:, None, -1]
        side_BM = sampler.coins(size).long()
        starts_BM, counts_BM = self._kinds[side_BM].unbind(-1)
        relations = rows_BC[:, :1] if rows_BC.shape[1] == NormalForm.LINK.width else 0

        def drawn() -> Tensor:
            return starts_BM + (sampler.fractions(size) * counts_BM).long()

        def sides(ids_BM: Tensor) -> tuple[Tensor, Tensor]:
            return torch.where(side_BM == 0, ids_BM, first), torch.where(side_BM == 1, ids_BM, last)

        def is_true(ids_BM: Tensor) -> Tensor:
            near_BM, far_BM = sides(ids_BM)
            return self._truths.contains(relations * self._truths.width + near_BM, far_BM)

        ids_BM = drawn()
        for _ in range(sampler.config.rounds):
            ids_BM = torch.where(is_true(ids_BM), drawn(), ids_BM)
        pair = torch.stack(sides(ids_BM), -1)
        return torch.cat([rows_BC[:, None, :-2].expand(*size, -1), pair], -1), ~is_true(ids_BM)


@final
class FormSource(SampleSource):
    """The rows of one form. With `lifted`, the first concept and all ancestors, an epoch takes of a typing the concept
    or one above it, as link predictors do: a model need not deduce what follows from subsumption."""

    def __init__(
        self, form: NormalForm, rows: Tensor, false: FalseRows | None, lifted: tuple[int, tuple[Tensor, Tensor]] | None
    ) -> None:
        self.name, self.task = form.value, TASK_OF.get(form, Task.SUBSUMPTION)
        self._form, self._rows, self._false, self._lifted = form, rows, false, lifted

    def __len__(self) -> int:
        return len(self._rows)

    def draw(self, rows_B: Tensor, sampler: Sampler) -> Draw:
        """`first` are rows [B, C], `second` false ones [B, M, C]."""
        rows_BC = self._rows[rows_B]
        if self._lifted is not None:
            first, above = self._lifted
            rows_BC = torch.stack([rows_BC[:, 0], lift(rows_BC[:, 1] - first, above, sampler) + first], 1)
        if self._false is None:
            none_BMC = rows_BC[:, None][:, :0]
            return Draw(rows_BC, none_BMC, none_BMC[:, :, 0] == 0)
        return Draw(rows_BC, *self._false.draw(rows_BC, sampler))

    def loss(self, module: nn.Module, draw: Draw, objective: Objective) -> Tensor:  # noqa: ARG002
        """`module` is a `NormalFormModel`."""
        return cast(NormalFormModel, module).loss(self._form, draw.first, draw.second, draw.valid_BM)
