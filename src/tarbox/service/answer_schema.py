"""The schema of answers in JSON: what `Answers.to_json`, `tarbox ask --json` and `/api/answer` give."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, Field

Degree = Annotated[float, Field(ge=0, le=1)]


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
