"""Questions and answers in JSON, one schema everywhere: what `/api/answer` takes, and what it, `Answers.to_json` and
`tarbox ask --json` give."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Final, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

from tarbox.service.answers import AnswerCounts, Answers, ConceptAnswer, EntityAnswer
from tarbox.service.degrees import MIN_DEGREE
from tarbox.service.ordering import Order

MOST_ANSWERS: Final = 1_000
"""The greatest k: how many answers of each kind one reply may have."""
MOST_SKIPPED: Final = 1_000_000
"""The greatest offset."""
MOST_QUESTIONS: Final = 100
"""How many questions may be asked in one request."""
FIGURE_1: Final = "interestedIn some ((inverse investigates value GeoffreyHinton) and (inverse uses value Google))"
_NS: Final = "https://tarbox.example/academia#"
Degree = Annotated[float, Field(ge=0, le=1)]


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
    questions: list[AnswerRequest] = Field(min_length=1, max_length=MOST_QUESTIONS)


class EntityItem(BaseModel):
    """An entity: `iri` in N-Triples form, `name` as a query can say it.

    `degree` is 1 for a known answer, unless it follows from a `not` that a model doubts. For a predicted one it is a
    probability where the model has probabilities (`credo`), else a place between the query's median candidate (0) and
    its best (1).
    """

    iri: str
    label: str
    name: str
    degree: Degree
    status: Literal["known", "predicted"]


class ConceptItem(EntityItem):
    """A concept that describes the answers."""

    coverage: Degree
    specificity: Degree


class CountsByKind(BaseModel):
    entities: int
    concepts: int


class CountsItem(CountsByKind):
    """`entities` and `concepts` are the known and the predicted together; `less_likely` are below `min_degree`."""

    known: CountsByKind
    predicted: CountsByKind
    less_likely: CountsByKind


class AnswerContent(BaseModel):
    """Both lists of answers, the known first. The counts are of all there are, also where fewer are listed.

    `known_count` and `predicted_count` are of entities; `entity_count` and `concept_count` are of both together.
    `canonical` is the query in Manchester syntax with short names; `trained_on` is what a model has learnt from.
    """

    query: str
    canonical: str
    english: str
    entities: list[EntityItem]
    concepts: list[ConceptItem]
    entity_count: int
    concept_count: int
    known_count: int
    predicted_count: int
    counts: CountsItem
    trained_on: str | None = None


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
