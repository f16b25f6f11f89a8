"""From how strongly a query's answers are predicted to how often such answers are true.

A t-norm takes the facts of a proof as independent and the strongest way to an entity as the only one, so its degrees
are no probabilities once a query has more than one fact. A *temper* bends the degrees of a query by an increasing
function that depends on what the query looks like: how long it is, how much is known, how much is predicted. Since the
function increases, no order changes: not among entities, and not between a concept and its super-concepts.
"""

# ruff: noqa: N803, N806 (shape suffixes, see STYLE.md)

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, final

import numpy as np
from numpy.typing import NDArray

from tarbox.execution.interpreter import evaluate
from tarbox.models.calibration import Calibrator
from tarbox.query.algebra import Direction, Query

Floats = NDArray[np.float32]
Doubles = NDArray[np.float64]

SURVEYED: Final = 8
"""The features of a query."""
LEAST: Final = 1e-5
"""Below this degree the function is a straight line to 0, and raises nothing: there is no way to such a candidate, only
what orders those without one."""
MOST: Final = 0.9999
LARGEST: Final = (3, 3, 1)
"""The most relations in a row, leaves and negations that tempers are fitted to; a larger query looks like these."""
BASIS: Final = 3


@final
@dataclass(frozen=True, slots=True)
class Temper:
    """`network` maps the survey of a query to the weights of the basis, before they are made positive, and a shift.

    `seen` is the share of the true candidates that are none any more, since they are known now: those that were hidden
    when the network was fitted. `labelled` is the share of what is true that counts.
    """

    network: Calibrator
    seen: float = 0.0
    labelled: float = 1.0

    def bend(self, survey_BF: Floats, degrees_BN: Floats) -> Floats:
        """[B, N] probabilities, in the order of the degrees; 0 stays 0."""
        found = np.empty_like(degrees_BN)
        edge = np.array([LEAST])
        for row, weights_O in enumerate(self.network.outputs(survey_BF).astype(np.float64)):
            degrees_N = degrees_BN[row]
            found[row] = degrees_N * np.minimum(self._probabilities(weights_O, edge) / LEAST, 1.0)
            strong = np.flatnonzero(degrees_N >= LEAST)
            found[row, strong] = self._probabilities(weights_O, degrees_N[strong])
        return found

    def _probabilities(self, weights_O: Doubles, degrees_X: Floats | Doubles) -> Doubles:
        """[X], in double precision, so that small ones keep their order."""
        logits_X = (basis(degrees_X) * np.logaddexp(0.0, weights_O[:BASIS])).sum(-1) + weights_O[BASIS]
        found = np.exp(-np.logaddexp(0.0, -logits_X))
        probable: Doubles = self.labelled * (1 - self.seen) * found / (1 - self.seen * found)
        return probable

    def arrays(self, prefix: str) -> dict[str, NDArray[Any]]:
        """What `of_arrays` reads, with names under a prefix."""
        shares = np.array([self.seen, self.labelled])
        own = {name: array.copy() for name, array in self.network.arrays(prefix).items()}  # two tempers may share one
        return {**own, f"{prefix}shares": shares}

    @classmethod
    def of_arrays(cls, arrays: Mapping[str, NDArray[Any]], prefix: str) -> Temper:
        return cls(Calibrator.of_arrays(arrays, prefix), *arrays[f"{prefix}shares"].tolist())


def basis(degrees: Floats | Doubles) -> Doubles:
    """[..., 3] increasing functions of a degree."""
    held = np.clip(degrees.astype(np.float64), LEAST, MOST)
    return np.stack([np.log(held), np.log(held / (1 - held)), 4 * held], -1)


def survey(shape: Query, known_B: NDArray[np.int64], open_BN: Floats) -> Floats:
    """[B, 8] what queries of one shape look like: `known` answers, and the degrees of all others (0 for those)."""
    size = len(open_BN)
    found = np.empty((size, SURVEYED), np.float32)
    found[:, :3] = np.minimum(evaluate(shape, Proportions()), LARGEST)
    found[:, 3] = np.log1p(known_B)
    found[:, 4] = np.log1p(open_BN.sum(1))
    found[:, 5] = np.log(1e-6 + open_BN.max(1, initial=0.0))
    found[:, 6] = np.log1p((open_BN > 0.1).sum(1))
    found[:, 7] = np.log1p((open_BN > 0.01).sum(1))
    return found


@final
class Proportions:
    """(the most relations in a row, the leaves, the negations) of a query.

    >>> from tarbox.query.templates import TEMPLATES
    >>> evaluate(TEMPLATES["pin"].shape, Proportions())
    (2, 2, 1)
    """

    def entity(self, name: str) -> tuple[int, int, int]:  # noqa: ARG002
        return 0, 1, 0

    def concept(self, name: str) -> tuple[int, int, int]:
        return self.entity(name)

    def exists(self, relation: str, direction: Direction, operand: tuple[int, int, int]) -> tuple[int, int, int]:  # noqa: ARG002
        return operand[0] + 1, operand[1], operand[2]

    def intersection(self, operands: Sequence[tuple[int, int, int]]) -> tuple[int, int, int]:
        hops, leaves, negations = zip(*operands, strict=True)
        return max(hops), sum(leaves), sum(negations)

    def union(self, operands: Sequence[tuple[int, int, int]]) -> tuple[int, int, int]:
        return self.intersection(operands)

    def complement(self, operand: tuple[int, int, int]) -> tuple[int, int, int]:
        return operand[0], operand[1], operand[2] + 1
