"""Classes as entities: what axioms say of all members of a class, against what is said of single ones."""

from __future__ import annotations

import pytest

from tarbox.kb.class_view import class_view
from tarbox.kb.facts import Facts
from tarbox.kb.vocabulary import Vocabulary

CLASSES = ["Cell", "Chromatin", "Nucleolus", "Nucleus", "Organelle", "Part"]
VOCABULARY = Vocabulary.of(["someone"], CLASSES, ["has_part", "inside", "part_of"])
FACTS = Facts.of(VOCABULARY, [(0, 0, 0)], [(0, 0)], [(CLASSES.index("Nucleus"), CLASSES.index("Organelle"))])


def some(relation: str, filler: object) -> tuple[object, ...]:
    return ("ObjectSomeValuesFrom", relation, filler)


def links(*axioms: object) -> set[tuple[str, str, str]]:
    view = class_view(FACTS, axioms)  # type: ignore[arg-type]
    names, relations = view.vocabulary.entities, view.vocabulary.relations
    rows = zip(view.heads.tolist(), view.relations.tolist(), view.tails.tolist(), strict=True)
    return {(names.iri(head), relations.iri(relation), names.iri(tail)) for head, relation, tail in rows}


ORGANELLE = ("SubClassOf", "Organelle", some("part_of", "Cell"))
CASES = [
    ([ORGANELLE], {("Organelle", "part_of", "Cell"), ("Nucleus", "part_of", "Cell")}),
    ([("SubClassOf", "Cell", ("ObjectAllValuesFrom", "part_of", "Cell"))], set()),
    ([("SubClassOf", "Cell", some(("ObjectInverseOf", "part_of"), "Part"))], set()),
    ([("SubClassOf", some("part_of", "Cell"), "Part")], set()),
    (
        [("EquivalentClasses", "Part", ("ObjectIntersectionOf", "Cell", some("part_of", "Nucleus")))],
        {("Part", "part_of", "Nucleus")},
    ),
    (
        [("SubClassOf", "Part", some("part_of", ("ObjectIntersectionOf", "Nucleus", some("inside", "Cell"))))],
        {("Part", "part_of", "Nucleus")},
    ),
    ([("SubClassOf", "Cell", ("ObjectMinCardinality", "2", "has_part", "Part"))], {("Cell", "has_part", "Part")}),
    ([("SubClassOf", "Cell", ("ObjectMinCardinality", "0", "has_part", "Part"))], set()),
    (
        [("SubClassOf", "Cell", some("part_of", "Part")), ("SubObjectPropertyOf", "part_of", "inside")],
        {("Cell", "part_of", "Part"), ("Cell", "inside", "Part")},
    ),
    (
        [("SubClassOf", "Cell", some("part_of", "Part")), ("SymmetricObjectProperty", "part_of")],
        {("Cell", "part_of", "Part")},
    ),
    (
        [
            ("SubClassOf", "Chromatin", some("part_of", "Nucleolus")),
            ("SubClassOf", "Nucleolus", some("part_of", "Nucleus")),
            ORGANELLE,
            ("TransitiveObjectProperty", "part_of"),
        ],
        {
            *((c, "part_of", "Cell") for c in ("Chromatin", "Nucleolus", "Nucleus", "Organelle")),
            *((c, "part_of", "Nucleus") for c in ("Chromatin", "Nucleolus")),
            ("Chromatin", "part_of", "Nucleolus"),
        },
    ),
    (
        [
            ("SubClassOf", "Chromatin", some("inside", "Nucleus")),
            ORGANELLE,
            ("SubObjectPropertyOf", ("ObjectPropertyChain", "inside", "part_of"), "inside"),
        ],
        {
            ("Chromatin", "inside", "Nucleus"),
            ("Chromatin", "inside", "Cell"),
            ("Organelle", "part_of", "Cell"),
            ("Nucleus", "part_of", "Cell"),
        },
    ),
    ([("SubClassOf", "Nowhere", some("part_of", "Cell"))], set()),
]


@pytest.mark.parametrize(("axioms", "wanted"), CASES)
def test_links_between_classes(axioms: list[object], wanted: set[tuple[str, str, str]]) -> None:
    assert links(*axioms) == wanted


def test_every_class_is_an_instance_of_itself_alone() -> None:
    view = class_view(FACTS, [])
    assert list(view.vocabulary.entities) == CLASSES
    assert view.typed.tolist() == view.types.tolist() == list(range(len(CLASSES)))
    assert view.subs.tolist() == FACTS.subs.tolist()
    assert not len(view.heads)
