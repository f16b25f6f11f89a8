"""Questions as the page builds them: trees, and English."""

from __future__ import annotations

from typing import Any

import httpx

NS = "https://tarbox.example/academia#"
CANADA = "Person and (worksAt some (University and locatedIn value Canada)) and not (bornIn value Canada)"


def test_a_query_as_a_tree(client: httpx.Client) -> None:
    def tree(query: str) -> Any:
        return client.get("/api/drawing", params={"query": query}).json()["tree"]

    google = {"kind": "entity", "iri": f"<{NS}Google>", "label": "Google"}
    works = {"relation": {"iri": f"<{NS}worksAt>", "label": "works at"}}
    assert tree("Person and not (inverse worksAt value Google)") == {
        "kind": "and",
        "operands": [
            {"kind": "concept", "iri": f"<{NS}Person>", "label": "Person"},
            {"kind": "not", "operand": {"kind": "some", **works, "inverse": True, "operand": google}},
        ],
    }
    counted = f"<{NS}worksAt> min 2 <{NS}University>"
    assert tree("worksAt min 2 University or {Google}") == {
        "kind": "or",
        "operands": [{"kind": "text", "text": counted, "label": "worksAt min 2 University"}, google],
    }
    deep = "worksAt some (" * 60 + "Person" + ")" * 60
    assert tree(deep)["kind"] == "text"


def test_english_is_answered(client: httpx.Client) -> None:
    text = "every Person that works at a University that is located in Canada, and that was not born in Canada"
    replies = [client.get("/api/answer", params={"query": query, "k": 50}).json() for query in (text, CANADA)]
    assert replies[0]["english"] == text
    assert replies[0]["entities"] == replies[1]["entities"] != []
    wrong = client.get("/api/answer", params={"query": "every Person that flies"})
    assert wrong.status_code == 400
