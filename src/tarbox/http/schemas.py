"""What requests and replies look like, where the service has no type of its own for it: the models behind the OpenAPI
description."""

from __future__ import annotations

from enum import StrEnum
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from tarbox.http.settings import MOST_ANSWERS
from tarbox.service.answers import AnswerCounts, Answers
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
MIN_DEGREE_MEANING = (
    "The least degree of a prediction that is listed, where degrees are probabilities; predictions below it, down to "
    "0.01, are counted."
)


class Language(StrEnum):
    """How a query is written."""

    MANCHESTER = "manchester"
    SPARQL = "sparql"


class AnswerRequest(BaseModel):
    """A question."""

    model_config = ConfigDict(extra="forbid", json_schema_extra={"examples": [{"query": FIGURE_1, "k": 10}]})
    query: str = Field(description="A class expression in Manchester syntax, or a SPARQL SELECT of one variable.")
    language: Language = Language.MANCHESTER
    k: int = Field(10, ge=1, le=MOST_ANSWERS, description=K_MEANING, strict=True)
    order: Order = Field(Order.DESCRIPTIVE, description=ORDER_MEANING)
    min_degree: float = Field(MIN_DEGREE, ge=0, le=1, description=MIN_DEGREE_MEANING)


class EntityItem(BaseModel):
    """An entity: `iri` in N-Triples form, `name` as a query can say it.

    `degree` is 1 for a known answer, unless it follows from a `not` that a model doubts. For a predicted one it is a
    probability where the model has probabilities (`credo`), else a place between the query's median candidate (0) and
    its best (1).
    """

    iri: str
    label: str
    name: str
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


class AnswerReply(BaseModel):
    """Both lists of answers, the known first. The counts are of all there are, also where fewer are listed.

    `known_count` and `predicted_count` are of entities; `entity_count` and `concept_count` are of both together.
    """

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {
                    "query": FIGURE_1,
                    "canonical": FIGURE_1,
                    "english": "everything that is interested in something that Geoffrey Hinton investigates and "
                    "Google uses",
                    "entities": [
                        {
                            "iri": f"<{_NS}YannLeCun>",
                            "label": "Yann LeCun",
                            "name": "YannLeCun",
                            "degree": 1.0,
                            "status": "known",
                        }
                    ],
                    "concepts": [
                        {
                            "iri": f"<{_NS}TuringLaureate>",
                            "label": "Turing Award laureate",
                            "name": "TuringLaureate",
                            "degree": 1.0,
                            "status": "known",
                            "coverage": 0.57,
                            "specificity": 0.57,
                        }
                    ],
                    "entity_count": 7,
                    "concept_count": 21,
                    **Answers("", [], [], AnswerCounts(7), AnswerCounts(21)).count(),
                    "milliseconds": 1.2,
                }
            ]
        }
    )
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
    milliseconds: float


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


class NamedItem(BaseModel):
    iri: str
    label: str
    name: str


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


class Frequent(BaseModel):
    iri: str
    label: str
    name: str
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


class HealthReply(BaseModel):
    status: Literal["ok"]
    title: str
    version: str
