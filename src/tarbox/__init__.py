"""tarbox: multi-hop questions over an ontology and its knowledge graph, answered with entities and with concepts.

>>> import tarbox
>>> sorted(tarbox.__all__)
['KnowledgeBase', 'Reasoner', 'TarboxError', '__version__']
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tarbox.core.errors import TarboxError
from tarbox.version import __version__

if TYPE_CHECKING:
    from tarbox.service.knowledge_base import KnowledgeBase
    from tarbox.service.reasoner import Reasoner

__all__ = ["KnowledgeBase", "Reasoner", "TarboxError", "__version__"]

_LAZY = {"KnowledgeBase": "tarbox.service.knowledge_base", "Reasoner": "tarbox.service.reasoner"}


def __getattr__(name: str) -> Any:
    """The public classes, imported when they are first used: `import tarbox` stays quick."""
    if name not in _LAZY:
        raise AttributeError(f"module 'tarbox' has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(_LAZY[name]), name)


def __dir__() -> list[str]:
    return __all__
