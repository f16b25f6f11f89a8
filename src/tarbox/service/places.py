"""Who is worked for, where more ask than can be: a short queue, and fair shares."""

from __future__ import annotations

import asyncio
from collections import deque
from typing import final


@final
class Places:
    """`most` places of those who are worked for. Who finds none waits for `patience` seconds, as one of `longest`, and
    clients take turns: one that asks much does not keep out one that asks little."""

    def __init__(self, most: int, longest: int, patience: float) -> None:
        self._most, self._longest, self._patience = most, longest, patience
        self._queues: dict[str, deque[asyncio.Future[None]]] = {}
        self.taken = self.waiting = 0

    async def take(self, client: str) -> bool:
        """Whether there is a place now, or soon; `give_back` returns it."""
        if self.taken < self._most:
            self.taken += 1
            return True
        own = self._queues.get(client, ())
        if self.waiting >= self._longest and len(own) >= self._longest / max(len(self._queues), 1):
            return False
        turn = asyncio.get_running_loop().create_future()
        self._queues.setdefault(client, deque()).append(turn)
        self.waiting += 1
        try:
            async with asyncio.timeout(self._patience):
                await turn  # the place is handed over with it
            return True
        except TimeoutError:
            return turn.done() and not turn.cancelled()  # it came at the last moment
        finally:
            self.waiting -= 1

    def give_back(self) -> None:
        """Hands the place to the client whose turn it is."""
        while self._queues:
            client = next(iter(self._queues))
            queue = self._queues.pop(client)
            turn = queue.popleft()
            if queue:
                self._queues[client] = queue  # behind the others
            if not turn.done():
                turn.set_result(None)
                return
        self.taken -= 1
