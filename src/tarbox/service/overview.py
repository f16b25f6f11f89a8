"""What a knowledge base is about, at a glance; and so a query."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, final

from tarbox.core.ids import Role
from tarbox.query.algebra import Query
from tarbox.query.tree import Tree, query_tree
from tarbox.service.answering import Answerer
from tarbox.service.cards import CardItem
from tarbox.service.examples import Example, examples
from tarbox.service.knowledge_base import KnowledgeBase
from tarbox.version import __version__

TOP_SHOWN: Final = 10


@final
@dataclass(frozen=True, slots=True)
class FactsVersion:
    """The content hash of the store, and when it was written; both are empty where facts are of no store."""

    version: str
    built: str


@final
@dataclass(frozen=True, slots=True)
class Overview:
    """What is served. `model` predicts, and has learnt from what `trained_on` says; both are null where answers are
    exact. `relations` and `concepts` are the most frequent ones; `limits` are the server's."""

    title: str
    model: str | None
    trained_on: str | None
    version: str
    facts: FactsVersion
    counts: dict[str, int]
    prefixes: dict[str, str]
    relations: list[CardItem]
    concepts: list[CardItem]
    examples: list[Example]
    limits: Mapping[str, float]


@final
@dataclass(frozen=True, slots=True)
class Drawing:
    """A query as a picture (one SVG element), in English, in Manchester syntax with short names, and as a tree.

    A node of the tree has a `kind`: `entity` and `concept` have `iri` and `label`, `some` has `relation`, `inverse` and
    `operand`, `and` and `or` have `operands`, `not` has `operand`, `text` is anything else, in Manchester syntax.
    """

    svg: str
    english: str
    canonical: str
    tree: Tree


def draw_query(kb: KnowledgeBase, query: Query) -> Drawing:
    """A query in every form that people read."""
    tree = query_tree(query, kb.resolver.write, kb.resolver.show)
    return Drawing(kb.draw(query), kb.describe(query), kb.render(query), tree)


def overview(answerer: Answerer, limits: Mapping[str, float]) -> Overview:
    """What an answerer has to say about itself."""
    kb = answerer.kb
    return Overview(
        kb.title,
        answerer.model,
        answerer.trained_on,
        __version__,
        FactsVersion(kb.version, kb.built),
        kb.facts.counts(),
        dict(kb.resolver.prefixes),
        _frequent(kb, Role.RELATION),
        _frequent(kb, Role.CONCEPT),
        examples(kb),
        limits,
    )


def _frequent(kb: KnowledgeBase, role: Role) -> list[CardItem]:
    found = [each for each in kb.search("", TOP_SHOWN, role) if each.count]
    return [CardItem(each.iri, each.label, each.name, each.count) for each in found]
