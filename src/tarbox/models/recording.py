"""Steps on a GPU without the cost of launching them one kernel at a time."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, final

import torch

WARM_UP: Final = 3
"""Steps before recording: libraries choose their kernels and make their workspaces in these."""


@final
class Recorded:
    """A step that runs as itself a few times, is then recorded as a CUDA graph, and replayed from then on.

    What changes from step to step must live in tensors on the device; its random numbers come from `generator`.
    """

    def __init__(self, step: Callable[[], None], generator: torch.Generator) -> None:
        self._step, self._generator = step, generator
        self._left = WARM_UP
        self._graph: torch.cuda.CUDAGraph | None = None

    def __call__(self) -> None:
        if self._left:
            self._left -= 1
            self._warm_up()
        else:
            if self._graph is None:
                self._graph = self._record()
            with torch.cuda.device(self._generator.device):
                self._graph.replay()

    def _warm_up(self) -> None:
        """On a stream of its own, as recording wants it."""
        with torch.cuda.device(self._generator.device):
            stream = torch.cuda.Stream()  # type: ignore[no-untyped-call]
            stream.wait_stream(torch.cuda.current_stream())
            with torch.cuda.stream(stream):
                self._step()
            torch.cuda.current_stream().wait_stream(stream)

    def _record(self) -> torch.cuda.CUDAGraph:
        graph = torch.cuda.CUDAGraph()
        graph.register_generator_state(self._generator)
        with torch.cuda.device(self._generator.device), torch.cuda.graph(graph):
            self._step()
        return graph
