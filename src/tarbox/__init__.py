"""tarbox: multi-hop questions over an ontology and its knowledge graph, answered with entities and with concepts.

>>> import tarbox
>>> sorted(tarbox.__all__)
['KnowledgeBase', 'Reasoner', 'TarboxError', '__version__', 'build', 'open', 'train']
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tarbox.core.errors import TarboxError
from tarbox.version import __version__

if TYPE_CHECKING:
    from tarbox.cli.workflow import build, train
    from tarbox.service.answering import open_answerer as open  # noqa: A004 - `tarbox.open`
    from tarbox.service.knowledge_base import KnowledgeBase
    from tarbox.service.reasoner import Reasoner

__all__ = ["KnowledgeBase", "Reasoner", "TarboxError", "__version__", "build", "open", "train"]

_LAZY = {
    "KnowledgeBase": ("tarbox.service.knowledge_base", "KnowledgeBase"),
    "Reasoner": ("tarbox.service.reasoner", "Reasoner"),
    "build": ("tarbox.cli.workflow", "build"),
    "open": ("tarbox.service.answering", "open_answerer"),
    "train": ("tarbox.cli.workflow", "train"),
}


def __getattr__(name: str) -> Any:
    """What is public, imported when it is first used: `import tarbox` stays quick."""
    if name not in _LAZY:
        raise AttributeError(f"module 'tarbox' has no attribute {name!r}")
    from importlib import import_module

    module, attribute = _LAZY[name]
    return getattr(import_module(module), attribute)


def __dir__() -> list[str]:
    return __all__
