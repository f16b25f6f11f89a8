"""The route of `/api/candidates`: the most likely facts of a relation that are not known."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated

from fastapi import APIRouter, Query
from starlette.responses import Response

from tarbox.core.errors import QueryError
from tarbox.http.dispatcher import Dispatcher
from tarbox.http.replies import encode
from tarbox.http.routes import LONGEST_NAME, failures, json_reply
from tarbox.service.candidates import CandidateList
from tarbox.service.reasoner import Reasoner

MOST_CANDIDATES = 1_000


def candidate_routes(dispatcher: Dispatcher) -> APIRouter:
    router = APIRouter(prefix="/api")

    def listed(relation: str, within: str | None, types: str | None, limit: int, offset: int) -> bytes:
        if not isinstance(dispatcher.answerer, Reasoner):
            raise QueryError("a store predicts nothing: train a model on it, and serve the run")
        query = None if within is None else dispatcher.replies.read(within)
        return encode(asdict(dispatcher.answerer.candidates(relation, query, limit, types, offset)))

    @router.get("/candidates", response_model=CandidateList, responses=failures(), operation_id="candidates")
    async def candidates(
        relation: Annotated[
            str, Query(max_length=LONGEST_NAME, description="Name or IRI; after `inverse`, objects first; or `type`.")
        ],
        within: Annotated[str | None, Query(alias="for", description="A query: subjects are its answers.")] = None,
        types: Annotated[str | None, Query(max_length=LONGEST_NAME, description="One concept, for typings.")] = None,
        limit: Annotated[int, Query(ge=1, le=100)] = 10,
        offset: Annotated[int, Query(ge=0, le=MOST_CANDIDATES)] = 0,
    ) -> Response:
        """List the most likely new facts of a relation, with what speaks for each."""
        return json_reply(await dispatcher.work(listed, relation, within, types, limit, offset))

    return router
