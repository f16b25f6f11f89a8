"""ComplEx over all nodes of a knowledge base: the link predictor that `cqd` and `credo` share.

Trouillon et al. 2016, with reciprocal relations and the nuclear 3-norm of Lacroix et al. 2018 and the relation
prediction of Chen et al. 2021. The nodes are the entities and, after them, the concepts; three more directed relations
lead from an entity to its concepts and from a concept to wider and narrower ones. A *link* (d, y, x) says that directed
relation d leads from y to x; what it can lead to is one kind of node, entities or concepts.

Embeddings are tables of reals [.., 2 * rank]: of each expert in turn the real parts, then the imaginary parts.
"""

# ruff: noqa: N803, N806 (shape suffixes)

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Final, final

import torch
from torch import Tensor, nn
from torch.nn import functional

from tarbox.core.errors import ConfigError
from tarbox.models.base import Sizes
from tarbox.models.pairs import runs_triton

_HIDDEN: Final = -1e9
"""The score of what is no rival."""


@final
@dataclass(frozen=True, slots=True)
class NodePlaces:
    """Where entities, concepts and the relations that lead to them are, for the sizes of a vocabulary."""

    sizes: Sizes

    @property
    def nodes(self) -> int:
        return self.sizes.entities + self.sizes.concepts

    @property
    def concepts_of(self) -> int:
        """The relation from an entity to its concepts."""
        return self.sizes.directed

    @property
    def wider(self) -> int:
        """The relation from a concept to its super-concepts."""
        return self.sizes.directed + 1

    @property
    def narrower(self) -> int:
        """The relation from a concept to its sub-concepts."""
        return self.sizes.directed + 2

    @property
    def directed(self) -> int:
        """How many directed relations there are with these three."""
        return self.sizes.directed + 3

    @property
    def entities(self) -> slice:
        return slice(0, self.sizes.entities)

    @property
    def concepts(self) -> slice:
        return slice(self.sizes.entities, self.nodes)


@final
@dataclass(frozen=True, slots=True)
class ComplexConfig:
    """The settings of the link predictor.

    `rank` complex numbers for each node and relation. `regularization` weighs the cubes of their moduli (N3),
    `relation_weight` the prediction of the relation from both nodes. `candidates` limits the rivals of a link to so
    many of its kind, drawn for each step; 0 takes them all. `initial` is the deviation of the first values. The rank is
    divided among `experts`, each of which learns by a softmax of its own; the score of a link is the mean of theirs, so
    that the softmax over scores is the product of theirs (Hinton 2002).
    """

    rank: int = 512
    regularization: float = 5e-2
    relation_weight: float = 0.5
    candidates: int = 0
    initial: float = 1e-3
    experts: int = 1

    def __post_init__(self) -> None:
        if self.experts < 1 or self.rank % self.experts:
            raise ConfigError(f"rank is {self.rank} and experts {self.experts}: experts must divide the rank")
        if self.rank < 1 or self.initial <= 0:
            raise ConfigError(f"rank is {self.rank} and initial {self.initial}; both must be greater than 0")
        if self.regularization < 0 or self.relation_weight < 0 or self.candidates < 0:
            raise ConfigError("regularization, relation_weight and candidates must be 0 or more")


@final
class Complex(nn.Module):
    """The embeddings of all nodes and directed relations.

    >>> _ = torch.manual_seed(0)
    >>> links = Complex(ComplexConfig(rank=4), Sizes(entities=5, concepts=3, relations=2))
    >>> links.scores(links.questions(torch.tensor([1]), torch.tensor([0])), links.places.entities).shape
    torch.Size([1, 5])
    """

    def __init__(self, config: ComplexConfig, sizes: Sizes) -> None:
        super().__init__()
        self.config, self.places = config, NodePlaces(sizes)
        self.nodes = nn.Parameter(config.initial * torch.randn(max(self.places.nodes, 1), 2 * config.rank))
        self.relations = nn.Parameter(config.initial * torch.randn(self.places.directed, 2 * config.rank))

    def questions(self, relations_B: Tensor | int, nodes_B: Tensor) -> Tensor:
        """[B, 2 * rank] the products of nodes and relations, or one: what the nodes they lead to are compared with."""
        return self._join(multiply(self._split(self.nodes[nodes_B]), self._split(self.relations[relations_B])))

    def scores(self, questions_BD: Tensor, reached: slice | Tensor) -> Tensor:
        """[B, N] the scores of the nodes given."""
        return questions_BD @ self.nodes[reached].T

    def members(self, concepts_B: Tensor) -> Tensor:
        """[B, 2 * rank] what the instances of these concept nodes are compared with: typing read backwards."""
        way = self._split(self.relations[self.places.concepts_of])
        return self._join(multiply(self._split(self.nodes[concepts_B]), conjugate(way)))

    def pair_scores(self, relation: int, heads_B: Tensor, tails_B: Tensor) -> Tensor:
        """[B, 2] the scores of assertions by one relation: of the tail seen from the head, and of the head seen from
        the tail. Both are sums over the same products of the two nodes."""
        (a, b), (c, d) = (self._split(self.nodes[ids]).chunk(2, -1) for ids in (heads_B, tails_B))
        products_BD = torch.cat([a * c + b * d, a * d - b * c], -1).flatten(1)
        to_tail, to_head = self._split(self.relations[2 * relation + 1]), self._split(self.relations[2 * relation])
        ways = torch.stack([to_tail.flatten(), conjugate(to_head).flatten()], 1)
        return products_BD @ ways / self.config.experts

    def _split(self, table: Tensor) -> Tensor:
        """[.., experts, 2 * rank / experts] what each expert has."""
        return table.reshape(*table.shape[:-1], self.config.experts, table.shape[-1] // self.config.experts)

    def _join(self, questions: Tensor) -> Tensor:
        """[.., 2 * rank] so that a product with nodes is the mean of the experts' scores."""
        joined = questions.flatten(-2)
        return joined if self.config.experts == 1 else joined / self.config.experts

    def loss(
        self,
        links_B3: Tensor,
        reached: slice,
        candidates_K: Tensor | None,
        sparse: bool = False,
        share: float = 1.0,
    ) -> Tensor:
        """The mean over links (relation, from, to) of cross entropy, N3 and the prediction of the relation.

        With candidates the sum of the softmax over all others is estimated from those drawn. With `sparse` the gradient
        of the nodes is of the rows that take part alone. The nodes `reached` stand for `share` times as many, of which
        the others are not here.
        """
        relation_B, from_B, to_B = links_B3.unbind(1)
        size, rivals = len(links_B3), reached if candidates_K is None else candidates_K
        rows = [from_B, to_B]
        if sparse or candidates_K is not None:
            rows.append(_numbers(rivals, from_B.device))
        ends_BXD = self._split(functional.embedding(torch.cat(rows), self.nodes, sparse=sparse))
        near_BXD, far_BXD, rivals_KXD = torch.split(ends_BXD, [size, size, len(ends_BXD) - 2 * size])
        if len(rows) == 2:
            rivals_KXD = self._split(self.nodes[reached])
        way_BXD = self._split(functional.embedding(relation_B, self.relations))
        *products, cubes_BX = link_products(near_BXD, way_BXD, far_BXD)
        parts = (*products, rivals_KXD, self._split(self.relations))
        stand_for = share * (reached.stop - reached.start) / len(rivals_KXD)
        losses: list[Tensor] = []
        for question_BD, guess_BD, own_B, rivals_KD, ways_RD in zip(*(part.unbind(1) for part in parts), strict=True):
            losses.append(cross_entropy(question_BD @ rivals_KD.T, own_B, to_B, rivals, stand_for))
            if self.config.relation_weight:
                every = slice(0, len(ways_RD))
                guessed = cross_entropy(guess_BD @ ways_RD.T, own_B, relation_B, every)
                losses.append(self.config.relation_weight * guessed)
        return (sum(losses[1:], losses[0]) + self.config.regularization * cubes_BX.sum() / size) / self.config.experts


def link_products(near_BXD: Tensor, way_BXD: Tensor, far_BXD: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Of links from `near` by `way` to `far`, for each expert: the questions [B, X, D] that `far` answers, those
    [B, X, D] that `way` answers, the scores [B, X] of the links, and the third powers [B, X] of all moduli."""
    if runs_triton(near_BXD):
        from tarbox.models.link_kernels import link_products as in_one_pass

        return in_one_pass(near_BXD, way_BXD, far_BXD)
    questions_BXD = multiply(near_BXD, way_BXD)
    cubes_BX = torch.stack([cubed_modulus(part).sum(2) for part in (near_BXD, way_BXD, far_BXD)]).sum(0)
    return questions_BXD, multiply(conjugate(near_BXD), far_BXD), (questions_BXD * far_BXD).sum(2), cubes_BX


def cross_entropy(
    scores_BK: Tensor, own_B: Tensor, to_B: Tensor, rivals: slice | Tensor, stand_for: float = 1.0
) -> Tensor:
    """The mean over links to `to` whose scores are `own`: rivals, all of a range or those drawn, have `scores`, which
    are used up, and stand for so many times as many."""
    own_B = own_B.float()
    others_B = rival_totals(scores_BK.float(), to_B, rivals) + math.log(stand_for)
    return (torch.logaddexp(others_B, own_B) - own_B).mean()


def rival_totals(scores_BK: Tensor, to_B: Tensor, rivals: slice | Tensor) -> Tensor:
    """[B] the logarithm of the sum of exp over the rivals; a link is no rival of itself. The scores are used up:
    copies of them would take longer than the matrix product that they come from."""
    if runs_triton(scores_BK):
        from tarbox.models.link_kernels import rival_totals as in_one_pass

        return in_one_pass(scores_BK, to_B, _numbers(rivals, to_B.device))
    found: Tensor = _RivalTotals.apply(scores_BK, to_B, rivals)  # type: ignore[no-untyped-call]
    return found


def _numbers(rivals: slice | Tensor, device: torch.device) -> Tensor:
    return torch.arange(rivals.start, rivals.stop, device=device) if isinstance(rivals, slice) else rivals


@final
class _RivalTotals(torch.autograd.Function):
    """In place: the scores become the terms of the sum, and these their gradient."""

    @staticmethod
    def forward(ctx: Any, scores_BK: Tensor, to_B: Tensor, rivals: slice | Tensor) -> Tensor:
        _hide_own(scores_BK, to_B, rivals)
        most_B1 = scores_BK.amax(1, keepdim=True)
        sums_B = scores_BK.sub_(most_B1).exp_().sum(1)
        ctx.save_for_backward(scores_BK, sums_B)
        return most_B1.squeeze(1) + sums_B.log()

    @staticmethod
    def backward(ctx: Any, slopes_B: Tensor) -> tuple[Tensor, None, None]:
        terms_BK, sums_B = ctx.saved_tensors
        return terms_BK.mul_((slopes_B / sums_B)[:, None]), None, None


def _hide_own(scores_BK: Tensor, to_B: Tensor, rivals: slice | Tensor) -> None:
    """Few links are among those drawn: where a look at which does not hold up a GPU, theirs are the rows looked at."""
    if isinstance(rivals, slice):
        scores_BK.scatter_(1, (to_B - rivals.start)[:, None], _HIDDEN)
    elif scores_BK.is_cpu:
        drawn = torch.isin(to_B, rivals).nonzero()[:, 0]
        scores_BK[drawn] = scores_BK[drawn].masked_fill(rivals == to_B[drawn, None], _HIDDEN)
    else:
        scores_BK.masked_fill_(rivals == to_B[:, None], _HIDDEN)


def multiply(left: Tensor, right: Tensor) -> Tensor:
    """The product of complex numbers, place by place."""
    (a, b), (c, d) = left.chunk(2, -1), right.chunk(2, -1)
    return torch.cat([a * c - b * d, a * d + b * c], -1)


def conjugate(numbers: Tensor) -> Tensor:
    real, imaginary = numbers.chunk(2, -1)
    return torch.cat([real, -imaginary], -1)


def cubed_modulus(numbers: Tensor) -> Tensor:
    """The third powers of the absolute values."""
    real, imaginary = numbers.float().chunk(2, -1)
    cubes: Tensor = (real * real + imaginary * imaginary) ** 1.5
    return cubes
