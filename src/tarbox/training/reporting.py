"""How far the whole training is, and when it will be done: one estimate from the plan of its parts."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final, final

from tarbox.training.events import Estimated, Event, Listener, PartBegan, PartProgressed
from tarbox.training.stopwatch import Clock

FIRST: Final = 5.0
"""Seconds of work that an estimate is made from at least."""


@final
class ProgressReport:
    """Tells the listeners about the parts of a training, and estimates the time left for all of them.

    Without a plan the training is one part. What a checkpoint brought back counts as done, but not as work: the time
    left is that of the work so far for each share of the whole, times what is left of the whole. Where steps are made,
    only they count, without the first of them: what libraries do once takes as long as hundreds of steps.
    """

    def __init__(
        self, listeners: Sequence[Listener], clock: Clock, memory: Callable[[], tuple[int, int]] = lambda: (0, 0)
    ) -> None:
        self._listeners, self._clock, self._memory = listeners, clock, memory
        self._began = clock()
        self._shares: dict[str, float] = {}
        self._part, self._before, self._share = "", 0.0, 1.0
        self._done = self._skipped = self._uncounted = 0.0
        self._estimated = self._warming = self._stepped = False

    @property
    def part(self) -> str:
        """The part that is under way; empty where there is no plan."""
        return self._part

    @property
    def share(self) -> float:
        """The share of the whole that the part has."""
        return self._share

    def tell(self, event: Event) -> None:
        for listener in self._listeners:
            listener(event)

    def plan(self, shares: Mapping[str, float]) -> None:
        self._began = self._clock()
        total = sum(shares.values()) or 1.0
        self._shares = {part: share / total for part, share in shares.items()}
        self._part, self._before, self._share = "", 0.0, 0.0
        self._done = self._uncounted = 0.0

    def begin(self, part: str) -> None:
        """Everything before it in the plan is done; a part that is not in the plan takes no time of it."""
        if part in self._shares:
            parts = list(self._shares)
            self._before = sum(self._shares[name] for name in parts[: parts.index(part)])
        else:
            self._before += self._share
        self._part, self._share, self._done = part, self._shares.get(part, 0.0), 0.0
        self.tell(PartBegan(part))
        self._estimate()

    def start(self) -> None:
        """Steps begin now: work is counted from the next time that they are told of."""
        self._warming = self._stepped = True

    def skip(self, done: float) -> None:
        """This share of the part was done before this process began."""
        self._skipped += self._share * (done - self._done)
        self._done = done

    def advance(self, done: float) -> None:
        """This share of the part is done; tells nothing but the first estimate."""
        self._done = done
        if self._warming:
            self._began, self._uncounted, self._warming = self._clock(), self._whole() - self._skipped, False
        self._estimate()

    def progress(self, done: float) -> None:
        """This share of the part is done, and everyone is told."""
        self._done = done
        if not self._stepped:  # compiled code takes longer once than a part of a small training does
            self._estimate()
        self.tell(PartProgressed(self._part, done, self.seconds_left()))

    def seconds_left(self) -> float | None:
        """None as long as there is too little to tell it from."""
        whole, seconds = self._whole(), self._clock() - self._began
        worked = whole - self._skipped - self._uncounted
        return None if self._warming or worked <= 0 or seconds < FIRST else seconds / worked * max(0.0, 1.0 - whole)

    def _estimate(self) -> None:
        left = self.seconds_left()
        if not self._estimated and left is not None:
            self._estimated = True
            self.tell(Estimated(round(left, 1), *self._memory()))

    def _whole(self) -> float:
        """The share of the whole that is done."""
        return self._before + self._share * self._done
