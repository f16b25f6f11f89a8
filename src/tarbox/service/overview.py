"""What a knowledge base is about, at a glance."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any, Final

import numpy as np

from tarbox.core.ids import Role
from tarbox.kb.arrays import Places
from tarbox.kb.terms import from_ntriples
from tarbox.service.answering import Answerer
from tarbox.service.collections import Things
from tarbox.service.examples import examples
from tarbox.service.knowledge_base import KnowledgeBase
from tarbox.version import __version__

TOP_SHOWN: Final = 10


def overview(answerer: Answerer) -> dict[str, Any]:
    """Title, counts, prefixes, the most frequent relations and concepts, and examples."""
    kb = answerer.kb
    relations = np.bincount(kb.facts.relations, minlength=len(kb.relations))
    return {
        "title": kb.title,
        "model": answerer.model,
        "trained_on": answerer.trained_on,
        "version": __version__,
        "counts": kb.facts.counts(),
        "prefixes": kb.resolver.prefixes,
        "relations": _frequent(kb, Role.RELATION, kb.relations, relations),
        "concepts": _frequent(kb, Role.CONCEPT, kb.concepts, kb.index.instances.entities_of.sizes()),
        "examples": [asdict(example) for example in examples(kb)],
    }


def _frequent(kb: KnowledgeBase, role: Role, things: Things, counts: Places) -> list[dict[str, Any]]:
    rows = [int(row) for row in np.argsort(-counts, kind="stable")[:TOP_SHOWN] if counts[row]]
    return [
        {
            "iri": things.at(row).iri,
            "label": things.at(row).label,
            "name": kb.resolver.write(role, from_ntriples(things.at(row).iri)),
            "count": int(counts[row]),
        }
        for row in rows
    ]
