"""What requests and replies look like, where the service has no type of its own for it: the models behind the OpenAPI
description."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

from tarbox.http.problems import Problem
from tarbox.http.settings import MOST_ANSWERS, MOST_SKIPPED, Bounds
from tarbox.service.answers import AnswerCounts, Answers, ConceptAnswer, EntityAnswer
from tarbox.service.degrees import MIN_DEGREE
from tarbox.service.examples import Example
from tarbox.service.ordering import Order
from tarbox.service.search import SearchResult

FIGURE_1 = "interestedIn some ((inverse investigates value GeoffreyHinton) and (inverse uses value Google))"
_NS = "https://tarbox.example/academia#"
ORDER_MEANING = (
    "The order of the concepts, known and predicted ones each: by coverage times specificity, by degree, or by the "
    "paper's Jensen-Shannon similarity."
)
K_MEANING = "How many answers of each kind: so many known ones, and so many predicted ones."
OFFSET_MEANING = "How many answers to pass over first, of each kind: known ones and predicted ones each."
MIN_DEGREE_MEANING = (
    "The least degree of a prediction that is listed, where degrees are probabilities; predictions below it, down to "
    "0.01, are counted."
)


class Language(StrEnum):
    """How a query is written."""

    MANCHESTER = "manchester"
    SPARQL = "sparql"


def _whole(value: object) -> object:
    """Numbers of answers are whole in JSON too."""
    if isinstance(value, bool | float):
        raise ValueError("Input should be a whole number")
    return value


class AnswerRequest(BaseModel):
    """A question: the parameters of an address, or a body."""

    model_config = ConfigDict(extra="forbid", json_schema_extra={"examples": [{"query": FIGURE_1, "k": 10}]})
    query: str = Field(
        description="A class expression in Manchester syntax, or a SPARQL SELECT of one variable.", examples=[FIGURE_1]
    )
    language: Language = Language.MANCHESTER
    k: Annotated[int, BeforeValidator(_whole)] = Field(10, ge=1, le=MOST_ANSWERS, description=K_MEANING)
    offset: Annotated[int, BeforeValidator(_whole)] = Field(0, ge=0, le=MOST_SKIPPED, description=OFFSET_MEANING)
    order: Order = Field(Order.DESCRIPTIVE, description=ORDER_MEANING)
    min_degree: float = Field(MIN_DEGREE, ge=0, le=1, description=MIN_DEGREE_MEANING)
    status: Literal["known", "predicted"] | None = Field(None, description="List answers of this status alone.")


class AnswersRequest(BaseModel):
    """Many questions."""

    model_config = ConfigDict(
        extra="forbid", json_schema_extra={"examples": [{"questions": [{"query": FIGURE_1}, {"query": "Person"}]}]}
    )
    questions: list[AnswerRequest] = Field(min_length=1, max_length=Bounds().questions)


class NamedItem(BaseModel):
    iri: str
    label: str
    name: str


class EntityItem(NamedItem):
    """An entity: `iri` in N-Triples form, `name` as a query can say it.

    `degree` is 1 for a known answer, unless it follows from a `not` that a model doubts. For a predicted one it is a
    probability where the model has probabilities (`credo`), else a place between the query's median candidate (0) and
    its best (1).
    """

    degree: float = Field(ge=0, le=1)
    status: Literal["known", "predicted"]


class ConceptItem(EntityItem):
    """A concept that describes the answers."""

    coverage: float = Field(ge=0, le=1)
    specificity: float = Field(ge=0, le=1)


class CountsByKind(BaseModel):
    entities: int
    concepts: int


class CountsItem(CountsByKind):
    """`entities` and `concepts` are the known and the predicted together; `less_likely` are below `min_degree`."""

    known: CountsByKind
    predicted: CountsByKind
    less_likely: CountsByKind


_ENTITY = EntityAnswer(f"<{_NS}YannLeCun>", "Yann LeCun")
_CONCEPT = ConceptAnswer(f"<{_NS}TuringLaureate>", "Turing Award laureate", 1.0, "known", 0.57, 0.57)
_ENGLISH = "everything that is interested in something that Geoffrey Hinton investigates and Google uses"
_SAID = {"canonical": FIGURE_1, "english": _ENGLISH}
_EXAMPLE = Answers(FIGURE_1, [_ENTITY], [_CONCEPT], AnswerCounts(7), AnswerCounts(21), _SAID).to_json()
_EXAMPLE["entities"][0]["name"], _EXAMPLE["concepts"][0]["name"] = "YannLeCun", "TuringLaureate"


class AnswerReply(BaseModel):
    """Both lists of answers, the known first. The counts are of all there are, also where fewer are listed.

    `known_count` and `predicted_count` are of entities; `entity_count` and `concept_count` are of both together.
    """

    model_config = ConfigDict(json_schema_extra={"examples": [{**_EXAMPLE, "milliseconds": 1.2}]})
    query: str
    canonical: str = Field(description="The query in Manchester syntax with short names.")
    english: str
    entities: list[EntityItem]
    concepts: list[ConceptItem]
    entity_count: int
    concept_count: int
    known_count: int
    predicted_count: int
    counts: CountsItem
    trained_on: str | None = Field(None, description="What a model has learnt from; not of a store.")
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


class InstanceItem(NamedItem):
    degree: float
    status: str


class ClassDescriptionReply(BaseModel):
    """The named classes around an expression, all and the direct ones, and its instances by the facts.

    `reasoned` says whether a reasoner for OWL found them, `satisfiable` whether anything can be in the expression.
    A run adds the predicted direct ones, with their probabilities.
    """

    expression: str
    equivalent: list[NamedItem]
    direct_superclasses: list[NamedItem]
    superclasses: list[NamedItem]
    direct_subclasses: list[NamedItem]
    subclasses: list[NamedItem]
    instances: list[InstanceItem]
    instance_count: int
    reasoned: bool
    satisfiable: bool
    predicted_superclasses: list[InstanceItem]
    predicted_subclasses: list[InstanceItem]


class Frequent(NamedItem):
    count: int


class KnowledgeBaseReply(BaseModel):
    """What is served."""

    title: str
    model: str | None = Field(description="The model that predicts; null where answers are exact.")
    trained_on: str | None = Field(description="What the model has learnt from; null where that is not told.")
    version: str
    counts: dict[str, int]
    prefixes: dict[str, str]
    relations: list[Frequent]
    concepts: list[Frequent]
    examples: list[Example]
    limits: dict[str, float]


class WorkersItem(BaseModel):
    up: int
    expected: int


class HealthReply(BaseModel):
    """`degraded`: fewer workers serve than should."""

    status: Literal["ok", "degraded"]
    title: str
    version: str
    workers: WorkersItem
