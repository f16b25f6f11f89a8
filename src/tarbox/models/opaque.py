"""What `torch.compile` must not look into: numba and Triton kernels are no part of its graphs.

Saying so imports its compiler, which takes a second. So this module is imported where such a function is first called,
in training, and a model that only answers loads without it.
"""

from __future__ import annotations

import torch
from torch import Tensor

from tarbox.models import divergence
from tarbox.models.divergence import Halves


@torch.compiler.disable  # type: ignore[untyped-decorator]
def pair_similarity(concepts: Halves, queries: Halves, rows_BK: Tensor) -> Tensor:  # noqa: N803
    """`tarbox.models.divergence.pair_similarity`."""
    return divergence.pair_similarity(concepts, queries, rows_BK)
