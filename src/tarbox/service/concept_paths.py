"""The chains of super-concepts that lead to a concept."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from typing import Final, TypeVar

from tarbox.kb.closure import Hierarchy

T = TypeVar("T")
PATHS: Final = 5
_LONGEST: Final = 50


def shortest_chain(starts: Iterable[T], goal: T, above: Callable[[T], Iterable[T]]) -> list[T]:
    """The shortest chain from one of the starts up to the goal; empty where there is none."""
    before: dict[T, T | None] = dict.fromkeys(starts)
    waiting = deque(before)
    while waiting and goal not in before:
        sub = waiting.popleft()
        new = [each for each in above(sub) if each not in before]
        before |= dict.fromkeys(new, sub)
        waiting.extend(new)
    chain = [goal] if goal in before else []
    while chain and (below := before[chain[-1]]) is not None:
        chain.append(below)
    return chain[::-1]


def paths_to(concept: int, tree: Hierarchy, most: int = PATHS) -> list[list[int]]:
    """Chains from a concept without super-concepts down to this one, shortest first.

    Equivalent concepts (a cycle of subsumptions) count as one.
    """
    found: list[list[int]] = []
    waiting: deque[list[int]] = deque([[concept]])
    seen = 0
    while waiting and len(found) < most and seen < 1_000:
        path = waiting.popleft()
        seen += 1
        groups = {int(tree.group[row]) for row in path}
        above = [row for row in _supers(path[0], tree) if int(tree.group[row]) not in groups]
        if not above or len(path) >= _LONGEST:
            found.append(path)
        waiting.extend([row, *path] for row in above)
    return found


def _supers(concept: int, tree: Hierarchy) -> list[int]:
    """The asserted super-concepts of a concept, and of its equivalents where it has some."""
    own: list[int] = tree.parents[concept].tolist()
    if not any(tree.group[row] == tree.group[concept] for row in own):
        return own
    return [row for alike in tree.equivalents(concept).tolist() for row in tree.parents[alike].tolist()]
