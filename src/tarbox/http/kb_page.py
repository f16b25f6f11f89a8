"""What `/api/kb` says of the knowledge base: made once, when the server starts."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any, Final

from tarbox.core.ids import Role
from tarbox.http.settings import MOST_ANSWERS, Bounds
from tarbox.service.answering import Answerer
from tarbox.service.examples import examples
from tarbox.service.knowledge_base import KnowledgeBase
from tarbox.version import __version__

TOP_SHOWN: Final = 10


def kb_page(answerer: Answerer, bounds: Bounds) -> dict[str, Any]:
    """Title, counts, prefixes, the most frequent relations and concepts, examples, and this server's limits."""
    kb = answerer.kb
    return {
        "title": kb.title,
        "model": answerer.model,
        "trained_on": answerer.trained_on,
        "version": __version__,
        "counts": kb.facts.counts(),
        "prefixes": kb.resolver.prefixes,
        "relations": _frequent(kb, Role.RELATION),
        "concepts": _frequent(kb, Role.CONCEPT),
        "examples": [asdict(example) for example in examples(kb)],
        "limits": {"query": bounds.query, "sparql": bounds.sparql, "k": MOST_ANSWERS, "seconds": bounds.seconds},
    }


def _frequent(kb: KnowledgeBase, role: Role) -> list[dict[str, Any]]:
    found = [each for each in kb.search("", TOP_SHOWN, role) if each.count]
    return [{"iri": each.iri, "label": each.label, "name": each.name, "count": each.count} for each in found]
