"""Union by disjunctive normal form: a query as several alternatives, of which the best counts (Ren et al. 2020).

`Alternatives` makes an algebra with unions of one without: it keeps a set as the tuple of its alternatives, moves all
of them along a relation, combines every choice of them in an intersection, and turns the complement of a union into
the intersection of complements. The algebra below sees single alternatives only, never a union (ADR 0017).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product
from math import prod
from typing import Final, Protocol, TypeAlias, TypeVar, final

import torch
from torch import Tensor

from tarbox.core.errors import QueryError, QueryTooLarge
from tarbox.execution.interpreter import Algebra
from tarbox.query.algebra import Direction

MAX_ALTERNATIVES: Final = 1024
S = TypeVar("S")
Several: TypeAlias = tuple[S, ...]


class Conjunctive(Protocol[S]):
    """What the nodes of a query over entities mean, but for unions; see `tarbox.execution.interpreter.Algebra`.

    A model that `lacks` negation is never asked for a complement.
    """

    def entity(self, name: str) -> S: ...

    def exists(self, relation: str, direction: Direction, operand: S) -> S: ...

    def intersection(self, operands: Sequence[S]) -> S: ...

    def complement(self, operand: S) -> S:  # noqa: ARG002
        raise QueryError("negation has no meaning in this model")


@final
@dataclass(frozen=True, slots=True, eq=False)
class Alternatives(Algebra[Several[S]]):
    """An algebra over tuples of what `single` gives a meaning to."""

    single: Conjunctive[S]

    def entity(self, name: str) -> Several[S]:
        return (self.single.entity(name),)

    def exists(self, relation: str, direction: Direction, operand: Several[S]) -> Several[S]:
        return tuple(self.single.exists(relation, direction, part) for part in operand)

    def intersection(self, operands: Sequence[Several[S]]) -> Several[S]:
        limit_alternatives(prod(map(len, operands)))
        return tuple(self.single.intersection(choice) for choice in product(*operands))

    def union(self, operands: Sequence[Several[S]]) -> Several[S]:
        limit_alternatives(sum(map(len, operands)))
        return tuple(part for operand in operands for part in operand)

    def complement(self, operand: Several[S]) -> Several[S]:
        turned = tuple(self.single.complement(part) for part in operand)
        return turned if len(turned) == 1 else (self.single.intersection(turned),)


def least(distances: Sequence[Tensor]) -> Tensor:
    """The distance of the nearest alternative."""
    return distances[0] if len(distances) == 1 else torch.stack(list(distances)).amin(0)


def limit_alternatives(alternatives: int) -> None:
    if alternatives > MAX_ALTERNATIVES:
        raise QueryTooLarge(
            f"unions give this query {alternatives} alternatives; at most {MAX_ALTERNATIVES} are allowed"
        )
