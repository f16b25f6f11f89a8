"""Errors as RFC 9457 problem bodies (`application/problem+json`), for every reply that is not a success.

`type` is a URI that names the kind of problem (it leads nowhere), `title` says it in words, `detail` what was wrong
this time and what to do. Errors in a query have `reason`, `position` (where the caret stands, in characters from
zero; null where there is no place) and `candidates` besides.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, Final, final

from pydantic import BaseModel, ConfigDict
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from tarbox.core.errors import NameLookupError, Overloaded, QuerySyntaxError, TarboxError

PROBLEM_MEDIA_TYPE: Final = "application/problem+json"
PROBLEM_KINDS: Final[Mapping[str, tuple[int, str]]] = {
    "syntax": (400, "The query does not follow the grammar"),
    "not-answerable": (400, "The query asks for something that has no answer here"),
    "too-large": (400, "The query exceeds a limit"),
    "query": (400, "The query cannot be answered"),
    "parameter": (400, "A parameter is missing or out of range"),
    "json": (400, "The request body cannot be read as JSON"),
    "http": (400, "The request does not follow HTTP"),
    "unauthorised": (401, "The API key is missing or wrong"),
    "no-key": (403, "This server has no key"),
    "not-found": (404, "There is nothing here"),
    "unknown-name": (404, "Nothing has this name"),
    "method": (405, "This address does not take this method"),
    "not-acceptable": (406, "No format that was asked for is available"),
    "slow-request": (408, "The request did not arrive in time"),
    "reload": (409, "The facts could not be read anew"),
    "body-too-large": (413, "The request body is too large"),
    "media-type": (415, "The request body has a type that is not read here"),
    "host": (421, "This server has another name"),
    "head-too-large": (431, "The address and the header fields are too long"),
    "internal": (500, "The server made a mistake"),
    "timeout": (503, "The answer took too long"),
    "busy": (503, "The server is busy"),
}
"""Each kind of problem with its status and title."""
PROBLEM_OF: Final = "tarbox.problem"
"""Where a request has the kind of problem that its reply is."""
MISTAKE: Final = "The server could not answer; its log says why."
_OF_ERRORS: Final = {
    "QuerySyntaxError": "syntax",
    "NotAnswerable": "not-answerable",
    "NameLookupError": "syntax",
    "NoSuchFormat": "not-acceptable",
    "QueryTooLarge": "too-large",
    "QueryError": "query",
    "Overloaded": "busy",
}
_GOGLE: Final = "no entity 'Gogle' in academia. Did you mean 'Google'?"
_EXAMPLE: Final[Any] = {"type": "urn:tarbox:problem:syntax", "title": PROBLEM_KINDS["syntax"][1], "status": 400,
                        "detail": _GOGLE, "reason": _GOGLE, "position": 14, "candidates": ["Google"]}  # fmt: skip


class Problem(BaseModel):
    """What every error looks like."""

    model_config = ConfigDict(extra="allow", json_schema_extra={"examples": [_EXAMPLE]})
    type: str
    title: str
    status: int
    detail: str
    reason: str | None = None
    position: int | None = None
    candidates: list[str] | None = None


@final
class ProblemReply(Response):
    """The reply for a kind of problem; the request remembers which, so that it can be counted."""

    media_type = PROBLEM_MEDIA_TYPE

    def __init__(self, kind: str, detail: str, headers: Mapping[str, str] | None = None, **more: Any) -> None:
        self.kind, (status, title) = kind, PROBLEM_KINDS[kind]
        told = {"type": f"urn:tarbox:problem:{kind}", "title": title, "status": status, "detail": detail, **more}
        # half of a surrogate pair, which UTF-8 cannot say, becomes a question mark
        super().__init__(json.dumps(told, ensure_ascii=False).encode("utf-8", "replace"), status, dict(headers or {}))

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        scope[PROBLEM_OF] = self.kind
        await super().__call__(scope, receive, send)


def problem_bytes(kind: str, detail: str, origins: Sequence[str]) -> bytes:
    """The same as it goes over a connection that is closed then, where there is no request for the application.

    Who asked is not known: where one other site may read replies, or all, it may read this one.
    """
    headers = {"Retry-After": "1", "Connection": "close"} if kind == "busy" else {"Connection": "close"}
    headers |= {"Access-Control-Allow-Origin": origins[0]} if len(origins) == 1 else {}
    reply = ProblemReply(kind, detail, headers)
    lines = [b"HTTP/1.1 %d %s" % (reply.status_code, PROBLEM_KINDS[kind][1].encode())]
    return b"\r\n".join([*lines, *(b"%s: %s" % header for header in reply.raw_headers), b"", bytes(reply.body)])


def problem_of(error: TarboxError, title: str) -> ProblemReply:
    """The reply for an error of a query or a name; other errors say no more than that they are the server's."""
    kind = next((_OF_ERRORS[each.__name__] for each in type(error).__mro__ if each.__name__ in _OF_ERRORS), "internal")
    if kind in ("internal", "busy"):
        retry = {"Retry-After": "5"} if isinstance(error, Overloaded) else None
        return ProblemReply(kind, str(error) if retry else MISTAKE, retry)
    found, position = list(error.candidates) if isinstance(error, QuerySyntaxError | NameLookupError) else [], None
    reason = str(error).replace("this knowledge base", title)
    if isinstance(error, QuerySyntaxError):
        reason, position = error.reason, error.position
    return ProblemReply(kind, reason, reason=reason, position=position, candidates=found)
