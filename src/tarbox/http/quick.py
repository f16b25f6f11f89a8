"""The short way for the commonest request, `GET /api/answer`.

Reading five parameters by hand takes a fifth of what the framework takes for it, and under load that is a good part
of the whole. Whatever is not plainly right goes the framework's way, which says what is wrong; a test holds both ways
to the same replies.
"""

from __future__ import annotations

import re
from typing import Final, final
from urllib.parse import parse_qsl

from starlette.types import ASGIApp, Receive, Scope, Send

from tarbox.core.errors import TarboxError
from tarbox.http.dispatcher import Dispatcher
from tarbox.http.problems import problem_of
from tarbox.http.settings import MOST_ANSWERS
from tarbox.service.degrees import MIN_DEGREE
from tarbox.service.ordering import Order

PATH: Final = "/api/answer"
_NAMES: Final = frozenset(["query", "language", "k", "order", "min_degree"])
DEGREE: Final = re.compile(r"0(\.\d{1,9})?|1(\.0{1,9})?", re.ASCII)
_MIN_DEGREE: Final = str(MIN_DEGREE)
_ORDERS: Final = {order.value: order for order in Order}


@final
class QuickAnswers:
    """An application that answers plain questions itself and leaves the rest to another."""

    def __init__(self, app: ASGIApp, dispatcher: Dispatcher) -> None:
        self._app = app
        self._dispatcher = dispatcher

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        asked = None
        if scope["type"] == "http" and scope["path"] == PATH and scope["method"] == "GET":
            asked = read_question(scope["query_string"])
        if asked is None:
            await self._app(scope, receive, send)
            return
        scope["tarbox.route"] = PATH
        try:
            content = await self._dispatcher.answer(*asked)
        except TarboxError as error:
            await problem_of(error, self._dispatcher.kb.title)(scope, receive, send)
            return
        headers = [(b"content-length", str(len(content)).encode()), (b"content-type", b"application/json")]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": content})


def read_question(query_string: bytes) -> tuple[str, int, bool, Order, float] | None:
    """(text, k, whether it is SPARQL, the order of concepts, the least degree) where the parameters are plainly right.

    >>> read_question(b"query=Person&k=5")
    ('Person', 5, False, <Order.DESCRIPTIVE: 'descriptive'>, 0.1)
    """
    try:
        pairs = parse_qsl(query_string.decode("ascii"), keep_blank_values=True, strict_parsing=True)
    except ValueError:
        return None
    given = dict(pairs)
    k, language = given.get("k", "10"), given.get("language", "manchester")
    order = _ORDERS.get(given.get("order", Order.DESCRIPTIVE.value))
    degree = given.get("min_degree", _MIN_DEGREE)
    if len(given) < len(pairs) or not _NAMES.issuperset(given) or "query" not in given or not DEGREE.fullmatch(degree):
        return None
    if not (k.isascii() and k.isdigit() and len(k) < 6) or language not in ("manchester", "sparql") or order is None:
        return None
    if not 1 <= int(k) <= MOST_ANSWERS:
        return None
    return given["query"], int(k), language == "sparql", order, float(degree)
