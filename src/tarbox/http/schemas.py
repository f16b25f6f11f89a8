"""What requests and replies look like, where the service has no type of its own for it: the models behind the OpenAPI
description."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

from tarbox.http.problems import Problem
from tarbox.http.settings import MOST_ANSWERS, MOST_SKIPPED, Bounds
from tarbox.service.answer_schema import AnswerContent, Degree
from tarbox.service.answers import AnswerCounts, Answers, ConceptAnswer, EntityAnswer
from tarbox.service.degrees import MIN_DEGREE
from tarbox.service.ordering import Order
from tarbox.service.search import SearchResult

FIGURE_1 = "interestedIn some ((inverse investigates value GeoffreyHinton) and (inverse uses value Google))"
_NS = "https://tarbox.example/academia#"


class Language(StrEnum):
    """How a query is written."""

    MANCHESTER = "manchester"
    SPARQL = "sparql"


def _whole(value: object) -> object:
    if isinstance(value, bool | float):
        raise ValueError("Input should be a whole number")
    return value


Whole = Annotated[int, BeforeValidator(_whole)]
"""Numbers of answers are whole in JSON too."""


class AnswerRequest(BaseModel):
    """A question: the parameters of an address, or a body."""

    model_config = ConfigDict(extra="forbid", json_schema_extra={"examples": [{"query": FIGURE_1, "k": 10}]})
    query: str = Field(
        description="A class expression in Manchester syntax, or a SPARQL SELECT of one variable.", examples=[FIGURE_1]
    )
    language: Language = Language.MANCHESTER
    k: Whole = Field(10, ge=1, le=MOST_ANSWERS, description="How many answers, known ones and predicted ones each.")
    offset: Whole = Field(0, ge=0, le=MOST_SKIPPED, description="How many of each to pass over first.")
    order: Order = Field(
        Order.DESCRIPTIVE,
        description="The order of the concepts, known and predicted ones each: by coverage times specificity, by "
        "degree, or by the paper's Jensen-Shannon similarity.",
    )
    min_degree: Degree = Field(
        MIN_DEGREE,
        description="The least degree of a prediction that is listed, where degrees are probabilities; predictions "
        "below it, down to 0.01, are counted.",
    )
    status: Literal["known", "predicted"] | None = Field(None, description="List answers of this status alone.")


class AnswersRequest(BaseModel):
    """Many questions."""

    model_config = ConfigDict(
        extra="forbid", json_schema_extra={"examples": [{"questions": [{"query": FIGURE_1}, {"query": "Person"}]}]}
    )
    questions: list[AnswerRequest] = Field(min_length=1, max_length=Bounds().questions)


_ENTITY = EntityAnswer(f"<{_NS}YannLeCun>", "Yann LeCun")
_CONCEPT = ConceptAnswer(f"<{_NS}TuringLaureate>", "Turing Award laureate", 1.0, "known", 0.57, 0.57)
_ENGLISH = "everything that is interested in something that Geoffrey Hinton investigates and Google uses"
_SAID = {"canonical": FIGURE_1, "english": _ENGLISH, "milliseconds": 1.2}
_EXAMPLE = Answers(FIGURE_1, [_ENTITY], [_CONCEPT], AnswerCounts(7), AnswerCounts(21), _SAID).to_json()
_EXAMPLE["entities"][0]["name"], _EXAMPLE["concepts"][0]["name"] = "YannLeCun", "TuringLaureate"


class AnswerReply(AnswerContent):
    """Both lists of answers, the known first, and how long they took."""

    model_config = ConfigDict(json_schema_extra={"examples": [_EXAMPLE]})
    milliseconds: float


class AnswersReply(BaseModel):
    """For each question its answers, or what is wrong with it."""

    answers: list[AnswerReply | Problem]


class DrawingReply(BaseModel):
    """A query as a picture (one SVG element), in English, in Manchester syntax with short names, and as a tree.

    A node of the tree has a `kind`: `entity` and `concept` have `iri` and `label`, `some` has `relation`, `inverse` and
    `operand`, `and` and `or` have `operands`, `not` has `operand`, `text` is anything else, in Manchester syntax.
    """

    svg: str
    english: str
    canonical: str
    tree: dict[str, Any]


class SearchReply(BaseModel):
    """Things that a text may name, the best first."""

    results: list[SearchResult]


class HealthReply(BaseModel):
    """`degraded`: fewer workers serve than should."""

    status: Literal["ok", "degraded"]
    title: str
    version: str
    workers: dict[Literal["up", "expected"], int]
