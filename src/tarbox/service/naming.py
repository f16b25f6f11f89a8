"""Names as queries write them and as people read them; what is said often is kept."""

from __future__ import annotations

import json
from functools import lru_cache
from typing import final

from tarbox.core.ids import Role
from tarbox.execution.binding import VocabularyResolver
from tarbox.kb.terms import from_ntriples
from tarbox.query.algebra import Query
from tarbox.query.english import describe
from tarbox.query.render import render
from tarbox.service.collections import CACHED


@final
class Naming:
    """The names of one knowledge base."""

    def __init__(self, resolver: VocabularyResolver) -> None:
        self.write = lru_cache(CACHED)(resolver.write)
        self.show = lru_cache(CACHED)(resolver.show)
        self.begin = lru_cache(CACHED)(self._begin)

    def describe(self, query: Query) -> dict[str, str]:
        """The query with short names, and in English."""
        return {"canonical": render(query, self.write), "english": describe(query, self.show)}

    def _begin(self, role: Role, iri: str, label: str) -> str:
        """The first keys of an answer in JSON, which are the same in every reply."""
        content = {"iri": iri, "label": label, "name": self.write(role, from_ntriples(iri))}
        return json.dumps(content, ensure_ascii=False, separators=(",", ":"))[:-1]
