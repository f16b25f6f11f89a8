"""Fuzzy logic over degrees of membership (Eq. 9-11): t-norms, their dual t-conorms, and negation, in one table.

Each is a function of two tensors of one shape, element by element, from [0, 1] into [0, 1].
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from types import MappingProxyType
from typing import Final, TypeAlias, final

import torch
from torch import Tensor

Binary: TypeAlias = Callable[[Tensor, Tensor], Tensor]


@final
@dataclass(frozen=True, slots=True)
class Logic:
    """A t-norm and its dual t-conorm, join(x, y) = 1 - meet(1 - x, 1 - y).

    >>> T_NORMS["product"].intersection([torch.tensor(0.5), torch.tensor(0.5), torch.tensor(1.0)])
    tensor(0.2500)
    """

    meet: Binary
    join: Binary

    def intersection(self, degrees: Sequence[Tensor]) -> Tensor:
        """Eq. 9, folded over two or more fuzzy sets."""
        return reduce(self.meet, degrees)

    def union(self, degrees: Sequence[Tensor]) -> Tensor:
        """Eq. 10, folded over two or more fuzzy sets."""
        return reduce(self.join, degrees)


def complement(degrees: Tensor) -> Tensor:
    """Eq. 11, the same for every t-norm."""
    return 1 - degrees


# The t-conorms are written out: 1 - (1 - x)(1 - y) would lose small degrees to rounding.
T_NORMS: Final[Mapping[str, Logic]] = MappingProxyType(
    {
        "product": Logic(meet=torch.mul, join=lambda x, y: x + y - x * y),
        "godel": Logic(meet=torch.minimum, join=torch.maximum),
        "lukasiewicz": Logic(meet=lambda x, y: (x + y - 1).clamp_min(0), join=lambda x, y: (x + y).clamp_max(1)),
    }
)
"""The t-norms of Section 3.2 by name."""
