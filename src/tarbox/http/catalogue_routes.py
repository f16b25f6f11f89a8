"""The routes that find names and show what is known of them: search, cards, and the lists of concepts and relations."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict
from functools import partial
from typing import Annotated, Any, Final

from fastapi import APIRouter, Path, Query
from starlette.responses import Response

from tarbox.core.errors import NameLookupError
from tarbox.core.ids import Role
from tarbox.http.dispatcher import Dispatcher
from tarbox.http.problems import problem
from tarbox.http.replies import encode
from tarbox.http.routes import LONGEST_NAME, failures, json_reply
from tarbox.http.schemas import SearchReply
from tarbox.http.settings import MOST_ANSWERS
from tarbox.service.cards import ConceptCard, ConceptList, EntityCard, RelationCard, RelationList
from tarbox.service.catalogue import Catalogue, Page
from tarbox.service.search import SearchResult

MOST_FOUND: Final = 100

Text = Annotated[str, Query(max_length=200, description="Some letters or words of a name, label or synonym.")]
Name = Annotated[
    str,
    Path(description="Its IRI, bare or in angle brackets, or its name.", max_length=LONGEST_NAME, examples=["Google"]),
]
Limit = Annotated[int, Query(ge=1, le=MOST_ANSWERS, description="How many of each list.")]
Offset = Annotated[int, Query(ge=0, description="How many of each list to pass over.")]


def catalogue(desk: Dispatcher) -> APIRouter:
    """What is in the knowledge base, below `/api`."""
    router = APIRouter(prefix="/api")
    _add_search(router, desk)
    _add_cards(router, desk, Catalogue(desk.answerer))
    _add_lists(router, desk, Catalogue(desk.answerer))
    return router


def _add_search(router: APIRouter, desk: Dispatcher) -> None:
    async def found(text: str, limit: int, role: Role | None) -> list[dict[str, Any]]:
        results = await desk.work(desk.kb.search, text, limit, role)
        return [asdict(each) | {"role": each.role.value} for each in results]

    @router.get("/search", response_model=SearchReply, responses=failures(), operation_id="search")
    async def search(
        q: Text, role: Role | None = None, limit: Annotated[int, Query(ge=1, le=MOST_FOUND)] = 20
    ) -> Response:
        """Find entities, concepts and relations by words of a label, synonym or name; misspelling is forgiven."""
        return json_reply({"results": await found(q, limit, role)})

    @router.get("/complete", response_model=list[SearchResult], responses=failures(), operation_id="complete")
    async def complete(
        prefix: Text, role: Role | None = None, limit: Annotated[int, Query(ge=1, le=MOST_FOUND)] = 10
    ) -> Response:
        """Find names that a few letters may begin: the results of a search, as a list."""
        return json_reply(await found(prefix, limit, role))


async def _shown(desk: Dispatcher, make: Callable[[], Any]) -> Response:
    """What is made, as JSON; an unknown name is a problem that says what may have been meant."""

    def made() -> bytes | Response:
        try:
            return encode(asdict(make()))
        except NameLookupError as error:
            return problem("unknown-name", str(error), candidates=list(error.candidates))

    found = await desk.work(made)
    return found if isinstance(found, Response) else json_reply(found)


def _add_cards(router: APIRouter, desk: Dispatcher, cards: Catalogue) -> None:
    @router.get("/entities/{iri:path}", response_model=EntityCard, responses=failures(404), operation_id="entity")
    async def entity(
        iri: Name,
        limit: Limit = 20,
        offset: Offset = 0,
        relation: Annotated[str | None, Query(max_length=LONGEST_NAME, description="Of one relation alone.")] = None,
        predicted: Annotated[bool, Query(description="With what a run predicts.")] = False,
    ) -> Response:
        """Show an entity: its types, and its facts in both directions by relation."""
        return await _shown(desk, partial(cards.entity, iri, Page(limit, offset), relation, predicted))

    @router.get("/concepts/{iri:path}", response_model=ConceptCard, responses=failures(404), operation_id="concept")
    async def concept(iri: Name, limit: Limit = 20, offset: Offset = 0) -> Response:
        """Show a concept: its place in the hierarchy, what it tells, its instances."""
        return await _shown(desk, partial(cards.concept, iri, Page(limit, offset)))

    @router.get("/relations/{iri:path}", response_model=RelationCard, responses=failures(404), operation_id="relation")
    async def relation(iri: Name, limit: Limit = 20, offset: Offset = 0) -> Response:
        """Show a relation: the concepts at its ends, and its facts."""
        return await _shown(desk, partial(cards.relation, iri, Page(limit, offset)))


def _add_lists(router: APIRouter, desk: Dispatcher, cards: Catalogue) -> None:
    @router.get("/concepts", response_model=ConceptList, responses=failures(404), operation_id="concepts")
    async def concepts(
        parent: Annotated[
            str | None, Query(max_length=LONGEST_NAME, description="Those directly below; `top` for the roots.")
        ] = None,
        limit: Limit = 100,
        offset: Offset = 0,
    ) -> Response:
        """List concepts, those with the most instances first."""
        return await _shown(desk, partial(cards.concepts, parent, Page(limit, offset)))

    @router.get("/relations", response_model=RelationList, responses=failures(404), operation_id="relations")
    async def relations(
        concept: Annotated[
            str | None, Query(max_length=LONGEST_NAME, description="What its instances have, in either direction.")
        ] = None,
        limit: Limit = 100,
        offset: Offset = 0,
    ) -> Response:
        """List relations, those with the most facts first, with the concepts at their ends."""
        return await _shown(desk, partial(cards.relations, concept, Page(limit, offset)))
