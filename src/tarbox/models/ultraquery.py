"""UltraQuery: message passing over the facts, by relations that are known by what they meet alone (Galkin et al. 2024).

No parameter depends on which entities, relations or concepts there are, nor on how many: the same weights answer over
any knowledge base. What a relation is to the relation q asked for is found by message passing over a graph of its own
(ULTRA, Galkin et al. 2024): its nodes are the directed relations, with a link from s to t of each of four kinds where
an entity is at both these ends of theirs: head and head, head and tail, tail and head, tail and tail.

    h_s = 1 where s is q, else 0;    then in every layer, over all links (s, k, t) of that graph, k a kind:
    h_t <- h_t + relu(LayerNorm(W [h_t, [t is q] + sum of {h_s w_k}])).

The vectors r_s that come of it stand for the relations where a fuzzy set x of entities follows q, as in NBFNet (Zhu et
al. 2021) and GNN-QE (`tarbox.models.gnnqe`), over all facts (u, s, v) in both directions:

    h_v = x_v r_q;    then in every layer:
    h_v <- h_v + relu(LayerNorm(W [h_v, x_v r_q + sum of {h_u MLP(r_s)}])),    degree of v = sigmoid(MLP[h_v, r_q]).

`and`, `or`, `not` are those of the product t-norm. In training the facts that a query follows are left out at random
(`tarbox.models.messages`), from the facts alone: the graph of relations is made once, of all of them.

Shape letters: B queries, N nodes, D dimension, F facts, A = 2F links, R directed relations, K kinds, G links between
relations, P pairs of relations, I pairs of an entity and a relation that begins there.
"""

# ruff: noqa: N803, N806, N815 (shape suffixes)

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import ClassVar, Final, cast, final

import torch
from torch import Tensor, nn

from tarbox.core.config import check_settings
from tarbox.models.base import Sizes
from tarbox.models.messages import MessageModel, check_dropout, degrees, links_both_ways, message_sums, sources
from tarbox.models.perceptron import Perceptron
from tarbox.models.sets import widen

_KINDS: Final = ((0, 0), (0, 1), (1, 0), (1, 1))
"""At which ends two relations meet: 0 where the first, the second has its head, 1 where it has its tail."""


@final
@dataclass(frozen=True, slots=True)
class UltraQueryConfig:
    """The settings of `UltraQuery`; the defaults are the paper's. `layers` pass messages between entities,
    `relation_layers` between relations; `dropout` is the share of the traversed facts left out."""

    dimension: int = 64
    layers: int = 6
    relation_layers: int = 6
    dropout: float = 0.25

    def __post_init__(self) -> None:
        check_settings(self, {}, ("dimension", "layers", "relation_layers"))
        check_dropout(self.dropout)


@final
class UltraQuery(MessageModel):
    """All queries over entities, by message passing over the facts that it has observed, whatever their vocabulary.

    >>> from tarbox.query.templates import TEMPLATES
    >>> config = UltraQueryConfig(dimension=4, layers=2, relation_layers=2)
    >>> model = UltraQuery(config, Sizes(entities=5, concepts=0, relations=2))
    >>> other = UltraQuery(config, Sizes(entities=9, concepts=0, relations=7))
    >>> other.load_state_dict(model.state_dict())
    <All keys matched successfully>
    >>> other.observe(torch.tensor([[0, 6, 3], [3, 0, 8]]))
    >>> other.score(TEMPLATES["2in"].shape, torch.tensor([[13, 0, 3, 2]]), slice(0, 9)).shape
    torch.Size([1, 9])
    """

    Config: ClassVar[type[UltraQueryConfig]] = UltraQueryConfig
    recipe: ClassVar[str | None] = "ultraquery"
    meetings_3G: Tensor

    def __init__(self, config: UltraQueryConfig, sizes: Sizes) -> None:
        super().__init__(sizes, config.dimension, config.dropout)
        self.config = config
        width, between = config.dimension, config.relation_layers
        self.kinds = nn.Parameter(torch.randn(between, len(_KINDS), width))
        self.relation_layers = nn.ModuleList(SumLayer(width) for _ in range(between))
        self.weights = nn.ModuleList(Perceptron(width, width, 1, width) for _ in range(config.layers))
        self.layers = nn.ModuleList(SumLayer(width) for _ in range(config.layers))
        self.degree = Perceptron(2 * width, 2 * width, 1, 1)
        self.register_buffer("meetings_3G", torch.empty(3, 0, dtype=torch.int64), persistent=False)

    def observe(self, facts_F3: Tensor) -> None:
        """The links of all facts in both directions, and those between relations."""
        self.links_3A = links_both_ways(facts_F3)
        self.meetings_3G = relation_links(self.links_3A, self.sizes.directed)

    def project(self, degrees_BN: Tensor, relations_B: Tensor) -> Tensor:
        kept_AB = self.kept(degrees_BN, relations_B)
        vectors_RBD = self.represent(relations_B)
        asked_BD = vectors_RBD[relations_B, torch.arange(len(relations_B), device=relations_B.device)]
        state_NBD = source_NBD = sources(degrees_BN, asked_BD)
        for layer, weights in zip(cast(Iterable[SumLayer], self.layers), self.weights, strict=True):
            sums_NBD = message_sums(state_NBD, weights(vectors_RBD), self.links_3A, kept_AB)
            state_NBD = layer(state_NBD, sums_NBD + source_NBD)
        return degrees(self.degree, state_NBD, asked_BD)

    def represent(self, relations_B: Tensor) -> Tensor:
        """[R, B, D] what every relation is to the one asked for."""
        asked_RB1 = self.indicator(relations_B, self.sizes.directed).T[:, :, None]
        state_RBD = source_RBD = asked_RB1.expand(-1, -1, self.config.dimension)
        for layer, kinds_KD in zip(cast(Iterable[SumLayer], self.relation_layers), self.kinds, strict=True):
            weights_KBD = kinds_KD[:, None].expand(-1, len(relations_B), -1)
            state_RBD = layer(state_RBD, message_sums(state_RBD, weights_KBD, self.meetings_3G) + source_RBD)
        return state_RBD


@final
class SumLayer(nn.Module):
    """What a node makes of the sum of its messages; it hears its source again in every round."""

    def __init__(self, dimension: int) -> None:
        super().__init__()
        self.update = nn.Linear(2 * dimension, dimension)
        self.norm = nn.LayerNorm(dimension)

    def forward(self, state_NBD: Tensor, sums_NBD: Tensor) -> Tensor:
        """[N, B, D]"""
        found_NBD = widen(self.update(torch.cat([state_NBD, sums_NBD], -1)))
        return state_NBD + torch.relu(self.norm(found_NBD))


def relation_links(links_3A: Tensor, relations: int) -> Tensor:
    """[3, G] the links (relation, kind, relation) between directed relations that meet, each of them once.

    There are four for each pair that shares a head: at most 4 R R, however many facts there are. To find them takes,
    for each entity, the square of how many relations begin there, and memory in proportion to G and I.

    >>> relation_links(links_both_ways(torch.tensor([[5, 0, 7]])), 2).T.tolist()
    [[0, 0, 0], [1, 0, 1], [0, 1, 1], [1, 1, 0], [1, 2, 0], [0, 2, 1], [1, 3, 1], [0, 3, 0]]
    """
    one_P, two_P = pairs_at_heads(links_3A, relations)
    # The tails of a relation are the heads of its inverse, which differs in the last bit.
    kinds = [(one_P ^ one, torch.full_like(one_P, kind), two_P ^ two) for kind, (one, two) in enumerate(_KINDS)]
    return torch.cat([torch.stack(links) for links in kinds], 1)


def pairs_at_heads(links_3A: Tensor, relations: int) -> Tensor:
    """[2, P] the directed relations that share a head, in order; a relation is in a pair with itself."""
    starts_I: Tensor = torch.unique(links_3A[0] * relations + links_3A[1])
    heads_I, own_I = starts_I // relations, starts_I % relations
    first_I, last_I = (torch.searchsorted(heads_I, heads_I, right=right) for right in (False, True))
    sizes = own_I.bincount(minlength=relations).tolist()
    of_each: Sequence[Tensor] = torch.split(own_I.argsort(stable=True), sizes)
    pairs = [torch.empty_like(links_3A[:2, :0])]
    for relation, places in enumerate(of_each):
        counts = last_I[places] - first_I[places]
        skipped = first_I[places] - counts.cumsum(0) + counts
        others = torch.arange(int(counts.sum()), device=counts.device) + skipped.repeat_interleave(counts)
        met_R = torch.zeros(relations, dtype=torch.bool, device=others.device)
        met_R[own_I[others]] = True
        found = met_R.nonzero().squeeze(1)
        pairs.append(torch.stack([torch.full_like(found, relation), found]))
    return torch.cat(pairs, 1)
