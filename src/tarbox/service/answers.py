"""What a question gets back: entities, and the concepts that describe them."""

from __future__ import annotations

import json
from bisect import bisect_left
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, Final, Generic, TypeVar, final, overload

import pyarrow as pa

from tarbox.core.errors import MissingDependency, QueryError
from tarbox.core.ids import Role
from tarbox.query.algebra import Query

if TYPE_CHECKING:
    import pandas as pd

    from tarbox.service.answering import Answerer
    from tarbox.service.explanations import Support

KNOWN: Final = "known"
PREDICTED: Final = "predicted"
ALL_FACTS = "all facts"
"""What a model was trained on, unless facts were held out."""
T_co = TypeVar("T_co", covariant=True)
A = TypeVar("A", bound="EntityAnswer | ConceptAnswer")


@final
@dataclass(frozen=True, slots=True)
class EntityAnswer:
    """An entity, its degree of membership in [0, 1], and whether the knowledge base knows it or a model predicts it.

    `iri` is in N-Triples form: ``<...>``, or a quoted literal.
    """

    iri: str
    label: str
    degree: float = 1.0
    status: str = KNOWN


@final
@dataclass(frozen=True, slots=True)
class ConceptAnswer:
    """A concept with at least one answer entity.

    `coverage` is the share of the answer entities inside the concept (of a predicted concept: of known and predicted
    answers, each counted by its degree); `specificity` its information content as a share of the greatest possible
    (0: every typed entity is an instance; 1: a single one is). `degree` respects the TBox: it never exceeds a
    super-concept's. The rest is there for described sets only (`tarbox.service.enrichment`): the concept describes
    `set_count` (k) of `set_size` (n) members and `background_count` (K) of `background_size` (N) entities of the
    background, `fold` times as often; what is `expected` counts predictions too, each by its probability.
    """

    iri: str
    label: str
    degree: float
    status: str
    coverage: float
    specificity: float
    set_count: int | None = None
    set_size: int | None = None
    background_count: int | None = None
    background_size: int | None = None
    fold: float | None = None
    p_value: float | None = None
    q_value: float | None = None
    expected_count: float | None = None
    expected_background_count: float | None = None
    expected_p_value: float | None = None
    expected_q_value: float | None = None

    @property
    def score(self) -> float:
        """How much, on average, membership in the concept tells about an answer. `Thing` covers everything and tells
        nothing; a concept of one answer tells much about little. Both score low."""
        return self.coverage * self.specificity


@final
@dataclass(frozen=True, slots=True)
class Expression:
    """A class expression that describes a set of entities: its text and English, how many entities it has, and how it
    fits, as of a concept (`ConceptAnswer`)."""

    expression: str
    english: str
    count: int
    coverage: float
    specificity: float
    p_value: float


@final
class AnswerList(Sequence[T_co], Generic[T_co]):
    """A sequence of answers whose items are made when they are read: millions of answers cost their ids only."""

    def __init__(self, size: int, make: Callable[[int], T_co]) -> None:
        self._size = size
        self._make = make

    def __len__(self) -> int:
        return self._size

    @overload
    def __getitem__(self, index: int) -> T_co: ...
    @overload
    def __getitem__(self, index: slice) -> list[T_co]: ...
    def __getitem__(self, index: int | slice) -> T_co | list[T_co]:
        rows = range(self._size)[index]
        return [self._make(row) for row in rows] if isinstance(rows, range) else self._make(rows)

    def __repr__(self) -> str:
        shown = ", ".join(repr(item) for item in self[:3])
        return f"[{shown}{', ...' if self._size > 3 else ''}]"


@final
@dataclass(frozen=True, slots=True)
class AnswerCounts:
    """How many answers of one kind there are, also where only the best k are listed.

    `predicted` are those with the least degree asked for or more, `less_likely` those below it, down to
    `tarbox.service.degrees.COUNTED`. A
    model that only scores ranks every candidate: all that are not known count as predicted.
    """

    known: int
    predicted: int = 0
    less_likely: int = 0

    @property
    def total(self) -> int:
        """Those that are worth listing."""
        return self.known + self.predicted


@final
@dataclass(frozen=True, slots=True, repr=False)
class Answers:
    """Both lists of answers to one query, known ones before predicted ones, and how many there are of each.

    `query` is its text and `tree` what it means, where there is one; `extra` stands beside the rest in JSON. `by`
    is who answered: it knows what things are called, and why they are answers.
    """

    query: str
    entities: Sequence[EntityAnswer]
    concepts: Sequence[ConceptAnswer]
    entity_counts: AnswerCounts
    concept_counts: AnswerCounts
    extra: dict[str, Any] = field(default_factory=dict)
    tree: Query | None = None
    by: Answerer | None = field(default=None, compare=False)

    def part(self, offset: int, status: str | None) -> Answers:
        """Without the first `offset` of each list, known and predicted ones each, and with one status alone."""
        if not offset and status is None:
            return self
        return replace(
            self, entities=_part(self.entities, offset, status), concepts=_part(self.concepts, offset, status)
        )

    @property
    def entity_count(self) -> int:
        return self.entity_counts.total

    @property
    def concept_count(self) -> int:
        return self.concept_counts.total

    def count(self) -> dict[str, Any]:
        """The counts as JSON has them: of entities in short, then of both kinds."""
        kinds = {"entities": self.entity_counts, "concepts": self.concept_counts}
        apart = {part: {kind: getattr(counts, part) for kind, counts in kinds.items()} for part in _COUNTED_APART}
        return {
            "known_count": self.entity_counts.known,
            "predicted_count": self.entity_counts.predicted,
            "counts": {kind: counts.total for kind, counts in kinds.items()} | apart,
        }

    def to_json(self) -> dict[str, Any]:
        """A dictionary ready for `json.dumps`: what `to_text` writes."""
        return dict(json.loads(self.to_text()))

    def to_text(self, **more: Any) -> str:
        """The answers as JSON: ``query``, ``canonical``, ``english``, counts, ``entities``, ``concepts``, extras.

        Items are written by hand: most of each is the same in every reply, and kept. Numbers have seven digits, as
        many as models compute with; all of a double's would take three times as long.
        """
        told: dict[str, Any] = {"query": self.query}
        if self.tree is not None and self.by is not None:
            told |= self.by.kb.naming.describe(self.tree)
        told |= {"entity_count": self.entity_count, "concept_count": self.concept_count, **self.count(), **self.extra}
        head = _ENCODER.encode(told | more)
        begin = _begin if self.by is None else self.by.kb.naming.begin
        entities = ",".join([_item(begin(Role.ENTITY, each.iri, each.label), each) + "}" for each in self.entities])
        concepts = ",".join(
            [_item(begin(Role.CONCEPT, each.iri, each.label), each) + _end(each) for each in self.concepts]
        )
        return f'{head[:-1]},"entities":[{entities}],"concepts":[{concepts}]}}'

    def explain(self, answer: EntityAnswer | ConceptAnswer | str | int = 0) -> Support:
        """Why an answer is one: an item of either list, its name, or its place among the entities; the first if none is
        given. Raises `QueryError` where that is no answer."""
        if self.tree is None or self.by is None:
            raise QueryError("only the answers to a query have reasons; a described set has none")
        if isinstance(answer, int):
            if not -len(self.entities) <= answer < len(self.entities):
                raise QueryError(f"there is no entity number {answer} among {len(self.entities):,}: nothing to explain")
            answer = self.entities[answer]
        if isinstance(answer, str):
            role = Role.ENTITY if answer in self.by.kb.entities or answer not in self.by.kb.concepts else Role.CONCEPT
            return self.by.explain(self.tree, answer, role)
        return self.by.explain(
            self.tree, answer.iri, Role.CONCEPT if isinstance(answer, ConceptAnswer) else Role.ENTITY
        )

    def to_arrow(self) -> pa.Table:
        """One row per answer: ``level``, and the fields of `ConceptAnswer`; those of a test only of a described set."""
        rows = [*_rows("entity", self.entities), *_rows("concept", self.concepts)]
        return pa.Table.from_pylist(rows, _SCHEMA if "set_size" in self.extra else _SCHEMA_OF_QUERIES)

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        """The table of `to_arrow` for whoever reads Arrow: `polars.DataFrame(answers)`."""
        return self.to_arrow().__arrow_c_stream__(requested_schema)

    def __repr__(self) -> str:
        """A line for each kind of answers: how many there are, and the first of those that are listed."""
        from tarbox.service.notebook_views import answers_text

        return answers_text(self)

    def _repr_html_(self) -> str:
        from tarbox.service.notebook_views import answers_view

        return answers_view(self)

    def to_pandas(self) -> pd.DataFrame:
        """The table of `to_arrow` as a data frame; needs pandas."""
        return to_frame(self.to_arrow())


def to_frame(table: pa.Table) -> pd.DataFrame:
    """A table as a data frame. Raises `MissingDependency` without pandas."""
    require("pandas", "data frames need")
    frame: pd.DataFrame = table.to_pandas()
    return frame


def require(package: str, purpose: str) -> None:
    """Raises `MissingDependency` where an optional package is not installed, which has an extra of its own name."""
    if find_spec(package) is None:
        raise MissingDependency(f"{purpose} {package}: pip install 'tarbox[{package}]'")


_COUNTED_APART: Final = ("known", "predicted", "less_likely")
_TEXTS: Final = ("level", "iri", "label", "status")
_SCHEMA: Final = pa.schema(
    [(name, pa.string()) for name in _TEXTS]
    + [(each.name, pa.float64()) for each in fields(ConceptAnswer) if each.name not in _TEXTS]
)
_SCHEMA_OF_QUERIES: Final = pa.schema(
    [_SCHEMA.field(name) for name in (*_TEXTS, "degree", "coverage", "specificity")]  # the others are of a test
)


def _rows(level: str, answers: Iterable[EntityAnswer | ConceptAnswer]) -> list[dict[str, Any]]:
    return [{"level": level, **asdict(answer)} for answer in answers]


def _part(listed: Sequence[A], offset: int, status: str | None) -> Sequence[A]:
    """Known answers stand first: the place of the first other is found by halves, since they may be many."""
    border = bisect_left(listed, True, key=lambda each: each.status != KNOWN)
    known = listed[offset : border if status != PREDICTED else 0]
    return known if status == KNOWN else [*known, *listed[border + offset :]]


def _begin(_: Role, iri: str, label: str) -> str:
    return _ENCODER.encode({"iri": iri, "label": label})[:-1]


def _item(start: str, answer: EntityAnswer | ConceptAnswer) -> str:
    return f'{start},"degree":{answer.degree:.7g},"status":"{answer.status}"'


def _end(answer: ConceptAnswer) -> str:
    """The keys that a concept has beside those of an entity; what is not told is left out."""
    fit = f',"coverage":{answer.coverage:.7g},"specificity":{answer.specificity:.7g}'
    if answer.set_size is None:
        return fit + "}"
    given = {name: value for name in _OF_SETS if (value := getattr(answer, name)) is not None}
    texts = [
        f'"{name}":{value:.7g}' if isinstance(value, float) else f'"{name}":{value}' for name, value in given.items()
    ]
    return ",".join([fit, *texts]) + "}"


_ENCODER: Final = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"))
_OF_SETS: Final = tuple(each.name for each in fields(ConceptAnswer) if each.default is None)
