"""The public `KnowledgeBase`: facts, and the answers that follow from them."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Final, final

import numpy as np
import pyarrow as pa

from tarbox.core.errors import QuerySyntaxError, StoreMissing
from tarbox.core.ids import Role
from tarbox.execution.binding import VocabularyResolver, check_names
from tarbox.execution.graph import Index
from tarbox.kb.arrays import Doubles, Places
from tarbox.kb.axioms import Axiom
from tarbox.kb.closure import Instances
from tarbox.kb.facts import Facts, Ids
from tarbox.kb.rows import Rows
from tarbox.query.algebra import Query
from tarbox.query.drawing import draw
from tarbox.query.english import describe
from tarbox.query.manchester import DEFAULT_LIMITS, Limits, parse
from tarbox.query.render import render
from tarbox.query.understanding import understand
from tarbox.service.answering import Question, read_questions
from tarbox.service.answers import (
    KNOWN,
    AnswerCounts,
    AnswerList,
    Answers,
    ConceptAnswer,
    EntityAnswer,
    Expression,
    to_frame,
)
from tarbox.service.collections import Thing, Things, graph_of, tables
from tarbox.service.degrees import check_count
from tarbox.service.naming import Naming
from tarbox.service.ordering import Descriptions, Order, crisp_similarity
from tarbox.service.query_objects import QueryBuilder, QueryLike, tree_of
from tarbox.service.set_descriptions import compare_sets, describe_set, read_names

if TYPE_CHECKING:
    import networkx as nx
    import pandas as pd
    from pyoxigraph import Store as Engine

    from tarbox.execution.exact import Answer
    from tarbox.kb.attributes import FactAttributes
    from tarbox.kb.store import Store
    from tarbox.service.explanations import Support
    from tarbox.service.search import SearchResult


@final
class KnowledgeBase(QueryBuilder):
    """A knowledge base, opened for questions. Answers are exact: what follows from the facts, and nothing else.
    Of a run it also has the predicted subsumptions, for the place of a class. `version` is the content hash of the
    store, and `built` when that was written; both are empty where there is none.

    >>> from tarbox.kb.vocabulary import Vocabulary
    >>> vocabulary = Vocabulary.of(["urn:x:Google", "urn:x:Search"], ["urn:x:Technique"], ["urn:x:uses"])
    >>> kb = KnowledgeBase(Facts.of(vocabulary, [(0, 0, 1)], [(1, 0)]))
    >>> answers = kb.answer("inverse uses value Google")
    >>> [entity.label for entity in answers.entities], [concept.label for concept in answers.concepts]
    (['Search'], ['Technique'])
    """

    model: Final = None
    trained_on: Final = None

    def __init__(
        self,
        facts: Facts,
        title: str = "this knowledge base",
        index: Index | None = None,
        store: Store | None = None,
        predicted: Rows | None = None,
    ) -> None:
        self.facts = facts
        self._store = store
        self.predicted_subsumptions = predicted
        self.of_classes = False
        self._given = index
        self.title = title
        self.version, self.built = ("", "") if store is None else store.version()
        self.resolver = VocabularyResolver(facts.vocabulary, title)
        self.entities = Things(Role.ENTITY, facts.vocabulary, self.resolver)
        self.concepts = Things(Role.CONCEPT, facts.vocabulary, self.resolver)
        self.relations = Things(Role.RELATION, facts.vocabulary, self.resolver)

    @classmethod
    def load(
        cls, path: str | os.PathLike[str], classes: bool | None = None, given: str | os.PathLike[str] | None = None
    ) -> KnowledgeBase:
        """The knowledge base in a store that `tarbox kb build` wrote, with the facts of the file `given` added.

        With `classes`, answers are its classes, with what axioms say of all their members (`tarbox.kb.class_view`):
        so it is unless told otherwise where the store has no individuals. `of_classes` says whether it is so.
        """
        from tarbox.kb.store import open_store

        store = open_store(path)
        if given is not None:
            from tarbox.kb.additions import add_facts, read_facts

            more = read_facts(given, store.manifest.get("options", {}))
            return cls(add_facts(store.facts, more), Path(path).name)
        counts = store.facts.counts()
        if not (counts["concepts"] and not counts["entities"] if classes is None else classes):
            return cls(store.facts, Path(path).name, store=store)
        from tarbox.kb.class_view import class_view

        kb = cls(class_view(store.facts, store.axioms()), Path(path).name, store=store)
        kb.of_classes = True
        return kb

    @property
    def kb(self) -> KnowledgeBase:
        """Itself: who answers has a knowledge base (`tarbox.service.answering.Answerer`)."""
        return self

    @property
    def path(self) -> Path:
        """The folder of its store. Raises `StoreMissing` where it has none."""
        if self._store is None:
            raise StoreMissing(f"{self.title} is in no store: `tarbox.build` makes one, `tarbox.open` opens it")
        return self._store.path

    def axioms(self) -> tuple[Axiom, ...]:
        """What the store says of classes and relations beyond the tables; read anew at each call."""
        return self._store.axioms() if self._store else ()

    @property
    def seconds_per_pair(self) -> float | None:
        """The time for each pair of classes beyond OWL EL that the store was built with (`kb build --complete`)."""
        return self._store and self._store.manifest.get("options", {}).get("seconds")

    @cached_property
    def attributes(self) -> FactAttributes | None:
        """Evidence codes, references and the like, by fact; None where the facts are not those of a store."""
        return None if self._store is None or self.of_classes else self._store.attributes

    def sparql_source(self) -> Path | Iterator[bytes]:
        """Where a SPARQL engine's index is, if the facts are so many that it is on disk; else N-Triples, in pieces."""
        from tarbox.kb.sparql_index import find_index, served_triples

        facts = self._store.facts if self._store else self.facts
        return (self._store and find_index(self._store)) or served_triples(facts, self.axioms())

    @cached_property
    def engine(self) -> Engine:
        """A SPARQL engine over what is known, with typings under closure: `kb.engine.query("SELECT ...")`."""
        from tarbox.kb.sparql_index import open_engine

        return open_engine(self.sparql_source())

    @cached_property
    def naming(self) -> Naming:
        """What things are called."""
        return Naming(self.resolver)

    @cached_property
    def index(self) -> Index:
        """What answering needs; built once, on the first question, where it was not given."""
        return self._given or Index.of(self.facts, at_hand=self.closures)

    @cached_property
    def closures(self) -> tuple[Instances, Instances]:
        """The instances and the descriptions of the index, which are found sooner than all of it."""
        if self._given:
            return self._given.instances, self._given.descriptions
        instances = Instances.of(self.facts)
        return instances, instances.describe(self.facts)

    @cached_property
    def use_counts(self) -> dict[Role, Places]:
        """How much each thing is used: the assertions that name an entity, the entities that a concept describes
        (its instances under closure, where there are no annotation relations), the assertions of a relation."""
        facts = self.facts
        ends = np.bincount(np.append(facts.heads, facts.tails), minlength=len(self.entities))
        relations = np.bincount(facts.relations, minlength=len(self.relations))
        return {Role.ENTITY: ends, Role.CONCEPT: self.closures[1].entities_of.sizes(), Role.RELATION: relations}

    def things(self, role: Role) -> Things:
        """The entities, concepts or relations."""
        return {Role.ENTITY: self.entities, Role.CONCEPT: self.concepts, Role.RELATION: self.relations}[role]

    def search(self, text: str, limit: int = 20, role: Role | None = None) -> list[SearchResult]:
        """Things that a text may name, the best first; see `tarbox.service.search`."""
        from tarbox.service.search import search

        return search(self, text, limit, role)

    def check(self, query: Query) -> None:
        """Raises `UnknownName`, with near names, for a term that this knowledge base does not have."""
        check_names(query, self.resolver)

    def parse(self, text: str, sparql: bool = False, limits: Limits = DEFAULT_LIMITS) -> Query:
        """The query that a text writes, in Manchester syntax or SPARQL, with the names of this knowledge base.

        English that begins with "every", as `describe` writes it, is understood in the place of Manchester syntax.
        """
        if not sparql:
            try:
                return parse(text, self.resolver, limits)
            except QuerySyntaxError:
                if text.lstrip()[: len("every")].lower() != "every":
                    raise
                return self._understand(text)
        from tarbox.query.sparql import parse_sparql

        return parse_sparql(text, limits)

    def answer(
        self, query: QueryLike, k: int | None = None, sparql: bool = False, order: str = Order.DESCRIPTIVE
    ) -> Answers:
        """Both lists of answers, complete unless `k` limits each.

        Entities stand in the order of their IRIs. Concepts are those that describe at least one answer entity: as an
        instance under closure, or by an annotation relation. They stand in the given order
        (`tarbox.service.ordering.Order`): best description first, where none is.
        """
        return self.answer_many([query], k, sparql, order)[0]

    def answer_many(
        self,
        questions: Iterable[Question | QueryLike],
        k: int | None = None,
        sparql: bool = False,
        order: str = Order.DESCRIPTIVE,
    ) -> list[Answers]:
        """The answers to each question as `answer` gives them; those of one shape are answered in one call. A
        `Question` has its own `k` and `order`.

        May be called from several threads at once, as may everything here. Raises at the first text that is no query.
        """
        from tarbox.execution.exact import answer_encoded

        asked = read_questions(self, questions, k, sparql, order)
        found = answer_encoded([question.encoded(self.facts.vocabulary) for question in asked], self.index)
        return [self._assemble(*each) for each in zip(asked, found, strict=True)]

    def members(self, concept: str, k: int | None = None) -> list[EntityAnswer]:
        """The instances of a concept under closure, at most `k`, as answers."""
        return self.list_entities(self.index.instances.entities_of[self.concepts.id(concept)][: check_count(k)])[:]

    def explain(self, query: QueryLike, answer: str, role: Role = Role.ENTITY) -> Support:
        """The facts that carry one answer, an entity or a concept by name or IRI; see `tarbox.service.explanations`."""
        from tarbox.service.explanations import explain_answer

        return explain_answer(tree_of(self, query), self, answer, role)

    def describe_set(
        self,
        entities: Iterable[str],
        background: Iterable[str] | None = None,
        everything: bool = False,
        probabilities: Rows | None = None,
    ) -> Answers:
        """The concepts that describe a list of entities (IRIs, labels or other names), the most surprising first.

        Each carries how often it describes the set and the `background` (by default all described entities of the
        set's own kinds), a hypergeometric p-value, and a q-value corrected over all concepts that describe anything of
        the background (Benjamini-Hochberg). More general concepts that add nothing are left out, unless `everything` is
        asked for. `probabilities` are those of descriptions (`Reasoner.describe_set`). Raises `UnknownName` or
        `AmbiguousName`.
        """
        given = None if background is None else self._ids(background)
        return describe_set(self, self._ids(entities), given, everything, probabilities)

    def compare_sets(
        self, first: Iterable[str], second: Iterable[str], everything: bool = False
    ) -> tuple[Answers, Answers]:
        """What each of two sets is rich in and the other is not: Fisher's exact test, one-sided. As `describe_set` of
        each with both as the background; the members of both are left out of both."""
        return compare_sets(self, self._ids(first), self._ids(second), everything)

    def express(
        self,
        entities: Iterable[str],
        k: int | None = 10,
        without: Query | None = None,
        background: Iterable[str] | None = None,
    ) -> list[Expression]:
        """The best short class expressions for a list of entities (IRIs, labels or other names), at most `k`.

        They are found by beam search (`tarbox.service.expression_search`); single concepts, which `describe_set`
        has, are not among them, nor is the query `without` and its parts. They are tested against the `background`, by
        default all entities of the set's own kinds.
        """
        from tarbox.service.expression_search import express

        members = self._ids(entities)
        return express(self, members, without, None if background is None else self._ids(background))[: check_count(k)]

    def assertions(self, about: str | None = None) -> Iterator[tuple[Thing, Thing, Thing]]:
        """(head, relation, tail) of every assertion, or of those that name the entity `about`."""
        facts = self.facts
        rows: Iterable[int] = range(len(facts.heads))
        if about is not None:
            entity = self.entities.id(about)
            rows = np.flatnonzero((facts.heads == entity) | (facts.tails == entity)).tolist()
        for row in rows:
            head, relation, tail = int(facts.heads[row]), int(facts.relations[row]), int(facts.tails[row])
            yield self.entities.at(head), self.relations.at(relation), self.entities.at(tail)

    def concepts_of(self, entity: str) -> list[Thing]:
        """The concepts that an entity is an instance of, under closure."""
        return [self.concepts.at(row) for row in self.index.instances.concepts_of[self.entities.id(entity)].tolist()]

    def describe(self, query: QueryLike) -> str:
        """The query as an English phrase."""
        return describe(tree_of(self, query), self.naming.show)

    def draw(self, query: QueryLike) -> str:
        """The query as an SVG picture."""
        return draw(tree_of(self, query), self.naming.show, self.describe(query))

    def render(self, query: Query) -> str:
        """The query in Manchester syntax, with the shortest names that mean the same here."""
        return render(query, self.resolver.write)

    def __repr__(self) -> str:
        return f"KnowledgeBase({self.title})"

    def _repr_html_(self) -> str:
        from tarbox.service.notebook_views import kb_view

        return kb_view(self)

    def to_arrow(self) -> dict[str, pa.Table]:
        """The facts as tables of names and labels: ``assertions``, ``typings`` and ``subsumptions``, as asserted."""
        return tables(self.facts)

    def to_networkx(self) -> nx.MultiDiGraph:
        """All facts as a graph (`tarbox.service.collections.graph_of`); needs networkx."""
        return graph_of(self.facts)

    def to_pandas(self) -> dict[str, pd.DataFrame]:
        """The tables of `to_arrow` as data frames; needs pandas."""
        return {name: to_frame(table) for name, table in self.to_arrow().items()}

    @cached_property
    def specificity(self) -> Doubles:
        """[C] of each concept, as answers have it."""
        return self.index.descriptions.specificity()

    def _ids(self, names: Iterable[str]) -> Ids:
        found, problems = read_names(self, names)
        for _, problem in problems:
            raise problem
        return found

    def _understand(self, text: str) -> Query:
        relations = self.facts.vocabulary.relations.iris.to_pylist()
        found = understand(text, self.resolver.read, relations, self.resolver.show)
        if found is None:
            raise QuerySyntaxError(
                "this English is not understood; say it as answers say their question, or in Manchester syntax", text, 0
            )
        return found

    def _assemble(self, asked: Question, found: Answer) -> Answers:
        """What follows from the facts, as it is shown."""
        coverage, by_concept = found.coverage(), self.index.descriptions.entities_of
        described = Descriptions(
            np.ones(len(found.concepts)),
            coverage,
            self.specificity[found.concepts],
            lambda: crisp_similarity(found.counts, len(found.entities), by_concept.sizes()[found.concepts]),
        )
        ordered = described.sort(asked.order, np.arange(len(found.concepts)))[: asked.reach]
        answers = Answers(
            asked.said(),
            self.list_entities(found.entities[: asked.reach]),
            [self._concept_answer(int(found.concepts[row]), float(coverage[row])) for row in ordered.tolist()],
            AnswerCounts(len(found.entities)),
            AnswerCounts(len(found.concepts)),
            tree=asked.query,
            by=self,
        )
        return asked.take_part(answers)

    def list_entities(self, ids: Ids) -> AnswerList[EntityAnswer]:
        """Known answers."""

        def make(row: int) -> EntityAnswer:
            thing = self.entities.at(int(ids[row]))
            return EntityAnswer(thing.iri, thing.label)

        return AnswerList(len(ids), make)

    def _concept_answer(self, concept: int, coverage: float) -> ConceptAnswer:
        thing = self.concepts.at(concept)
        return ConceptAnswer(thing.iri, thing.label, 1.0, KNOWN, coverage, float(self.specificity[concept]))
