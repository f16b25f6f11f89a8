"""Templates as data, and KGReasoning's names and files for them."""

from __future__ import annotations

import pytest

from shapes import template_of
from tarbox.core.errors import QueryError, QueryTooLarge
from tarbox.core.ids import Role
from tarbox.query.algebra import And, Concept, Direction, Entity, Exists, Not, Or, Slot, ground, lift, slots
from tarbox.query.betae import (
    STRUCTURE_OF,
    STRUCTURES,
    TEMPLATE_OF,
    Dictionary,
    from_query,
    to_query,
)
from tarbox.query.manchester import parse
from tarbox.query.templates import TEMPLATES, template

F, I = Direction.FORWARD, Direction.INVERSE  # noqa: E741
NAMES = ["1p", "2p", "3p", "2i", "3i", "pi", "ip", "2u", "up", "2in", "3in", "inp", "pin", "pni"]
SLOTS = Dictionary(tuple(f"?e{n}" for n in range(4)), tuple((f"?r{n}", F) for n in range(4)))
SMALL = Dictionary.of(["urn:a", "urn:b"], ["urn:p", "urn:q"])


def test_the_fourteen_are_there() -> None:
    assert list(TEMPLATES) == NAMES
    assert len({template.shape for template in TEMPLATES.values()}) == len(NAMES)


@pytest.mark.parametrize("name", NAMES)
def test_a_template_is_its_own(name: str) -> None:
    shape = TEMPLATES[name].shape
    assert template_of(shape) == name
    assert lift(shape)[0] == shape
    fillers = [Slot(s.role, f"urn:{n}", I if s.role is Role.RELATION else None) for n, s in enumerate(slots(shape))]
    assert template_of(ground(shape, fillers)) == name


def test_operand_order_and_de_morgan_do_not_hide_a_template() -> None:
    one, two = Exists("urn:p", I, Entity("urn:a")), Exists("urn:q", F, Exists("urn:p", I, Entity("urn:b")))
    assert template_of(And((one, two))) == template_of(And((two, one))) == "pi"
    assert template_of(And((Not(one), one, one))) == "3in"
    assert template_of(And((one, And((one, one))))) == "3i"
    assert template_of(Not(And((Not(one), Not(one))))) == "2u"


@pytest.mark.parametrize(
    "text", ["<urn:C>", "<urn:C> and (<urn:p> value <urn:a>)", "not (<urn:p> value <urn:a>)", "{<urn:a>, <urn:b>}"]
)
def test_other_queries_have_no_template(text: str) -> None:
    assert template_of(parse(text)) is None


def test_a_template_of_one_s_own() -> None:
    mine = template("ci", "?c1 and (?r1 some (?c2 and ?r2 value ?e1))")
    assert [slot.name for slot in slots(mine.shape)] == ["?c1", "?r1", "?c2", "?r2", "?e1"]
    fillers = [Slot(slot.role, f"urn:{slot.name[1:]}", slot.direction) for slot in slots(mine.shape)]
    assert parse("<urn:c1> and (<urn:r1> some (<urn:c2> and <urn:r2> value <urn:e1>))") == ground(mine.shape, fillers)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("?r1 value ?e2", "number the placeholders in order"),
        ("(?r1 value ?e1) and (?r1 value ?e2)", "each once"),
        ("inverse ?r1 value ?e1", "either direction"),
        ("?r1 value ?c1", r"\?c1 cannot stand for an entity"),
        ("?r1 value <urn:a>", "names nothing"),
    ],
)
def test_bad_templates(text: str, message: str) -> None:
    with pytest.raises(QueryError, match=message):
        template("mine", text)


@pytest.mark.parametrize("name", NAMES)
def test_structures_match_templates(name: str) -> None:
    structure, grounding = from_query(TEMPLATES[name].shape, SLOTS)
    assert structure == STRUCTURES[STRUCTURE_OF[name]]
    assert to_query(structure, grounding, SLOTS) == TEMPLATES[name].shape


def test_names_of_both_kinds() -> None:
    assert set(TEMPLATE_OF.values()) == set(NAMES)
    assert {STRUCTURE_OF[name] for name in ("2u", "up")} == {"2u-DNF", "up-DNF"}
    for name, structure in STRUCTURES.items():
        query = to_query(structure, _fill(structure), SLOTS)
        assert template_of(query) == TEMPLATE_OF[name]


def _fill(structure: object) -> object:
    if isinstance(structure, tuple):
        return tuple(_fill(part) for part in structure)
    return {"e": 1, "r": 1, "n": -2, "u": -1}[str(structure)]


def test_relations_alternate_in_direction() -> None:
    """Their 2k goes from head to tail: the answers are tails, ours is `inverse k value head`."""
    assert to_query(("e", ("r",)), (0, (2,)), SMALL) == Exists("urn:q", I, Entity("urn:a"))
    assert to_query(("e", ("r",)), (0, (3,)), SMALL) == Exists("urn:q", F, Entity("urn:a"))
    chain = to_query(("e", ("r", "r", "n")), (1, (0, 3, -2)), SMALL)
    assert chain == Not(Exists("urn:q", F, Exists("urn:p", I, Entity("urn:b"))))
    union = ((0, (0,)), (1, (2,)), (-1,))
    parts = Exists("urn:p", I, Entity("urn:a")), Exists("urn:q", I, Entity("urn:b"))
    assert to_query(STRUCTURES["2u-DNF"], union, SMALL) == Or(parts)


@pytest.mark.parametrize(
    ("structure", "grounding", "message"),
    [
        (("e", ("r",)), (9, (0,)), "no entity 9"),
        (("e", ("r",)), (0, (9,)), "no relation 9"),
        (("e", ("r",)), (0, (0, 1)), "does not fit"),
        (("e", ("r",)), 3, "does not fit"),
        ((("u",),), ((-1,),), "no structure"),
    ],
)
def test_bad_groundings(structure: object, grounding: object, message: str) -> None:
    with pytest.raises(QueryError, match=message):
        to_query(structure, grounding, SMALL)  # type: ignore[arg-type]


def test_concepts_have_no_structure() -> None:
    with pytest.raises(QueryError, match="entities only"):
        from_query(Concept("urn:C"), SMALL)


def test_a_deep_structure_is_refused() -> None:
    structure: object = "e"
    grounding: object = 0
    for _ in range(200):
        structure, grounding = (structure, structure), (grounding, grounding)
    with pytest.raises(QueryTooLarge):
        to_query(structure, grounding, SMALL)  # type: ignore[arg-type]
