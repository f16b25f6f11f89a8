"""The short way of `GET /api/answer` gives the replies of the framework's way."""

from __future__ import annotations

import httpx
import pytest

from tarbox.http.routes import read_question

QUERIES = [
    "query=Person",
    "query=Person&k=1",
    "query=Person&order=probability",
    "query=worksAt+value+Google&order=similarity&k=3",
    "query=worksAt+value+Google&language=manchester&k=1000",
    "query=Person&min_degree=0.5",
    "query=Person&min_degree=0&k=2",
    "query=Person&k=3&offset=2&status=known",
    "query=Person&status=predicted",
    "query=worksAt%20value%20Gogle",
    "query=",
    "query=%F0%9F%99%82%00",
    "query=SELECT%20%3Fx%20%7B%20%3Fx%20a%20%3Curn%3Anothing%3E%20%7D&language=sparql",
]


@pytest.mark.parametrize("query", QUERIES)
def test_both_ways_give_the_same(client: httpx.Client, query: str) -> None:
    """A part of an address without a value sends a request the framework's way, which passes over it."""
    assert read_question(query.encode()) is not None
    assert read_question(f"{query}&".encode()) is None
    quick, usual = client.get(f"/api/answer?{query}"), client.get(f"/api/answer?{query}&")
    assert quick.status_code == usual.status_code
    assert {**quick.json(), "milliseconds": 0} == {**usual.json(), "milliseconds": 0}
    different = {"date", "content-length", "etag"}
    assert {k: v for k, v in quick.headers.items() if k not in different} == {
        k: v for k, v in usual.headers.items() if k not in different
    }


@pytest.mark.parametrize(
    "query",
    ["", "k=1", "query=a&query=b", "query=a&k=0", "query=a&k=1001", "query=a&k=-1", "query=a&k=%C2%B2", "query=a&k=1.5",
     "query=a&language=prolog", "query=a&order=best", "query=a&order=", "query=a&k=999999", "query",
     "query=a&min_degree=2", "query=a&min_degree=-0.1", "query=a&min_degree=nan", "query=a&min_degree=",
     "query=a&offset=-1", "query=a&status=", "query=a&status=likely", "query=a&unknown=1"],
)  # fmt: skip
def test_what_is_not_plainly_right_goes_the_usual_way(query: str) -> None:
    assert read_question(query.encode()) is None
