"""Templates as data, and KGReasoning's names and files for them."""

from __future__ import annotations

import pytest

from shapes import template_of
from tarbox.core.errors import QueryError, QueryTooLarge
from tarbox.core.ids import Role
from tarbox.query.algebra import And, Concept, Direction, Entity, Exists, Not, Slot, ground, lift, slots
from tarbox.query.betae import STRUCTURES, UNION_FORMS, Structure, fill, from_query, to_query
from tarbox.query.manchester import parse
from tarbox.query.templates import TEMPLATES, template

F, I = Direction.FORWARD, Direction.INVERSE  # noqa: E741
NAMES = ["1p", "2p", "3p", "2i", "3i", "pi", "ip", "2u", "up", "2in", "3in", "inp", "pin", "pni"]


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


E, N = ("e", ("r",)), ("e", ("r", "n"))
KGREASONING = {
    "1p": E,
    "2p": ("e", ("r", "r")),
    "3p": ("e", ("r", "r", "r")),
    "2i": (E, E),
    "3i": (E, E, E),
    "pi": (("e", ("r", "r")), E),
    "ip": ((E, E), ("r",)),
    "2u": (E, E, ("u",)),
    "up": ((E, E, ("u",)), ("r",)),
    "2in": (E, N),
    "3in": (E, E, N),
    "inp": ((E, N), ("r",)),
    "pin": (("e", ("r", "r")), N),
    "pni": (("e", ("r", "r", "n")), E),
}


def test_structures_are_kgreasoning_s() -> None:
    assert dict(STRUCTURES) == KGREASONING


@pytest.mark.parametrize("name", NAMES)
def test_structures_match_templates(name: str) -> None:
    structure, names = from_query(TEMPLATES[name].shape)
    assert to_query(structure, names) == TEMPLATES[name].shape


@pytest.mark.parametrize("structure", UNION_FORMS)
def test_unions_by_de_morgan_s_law_are_unions(structure: Structure) -> None:
    names = [f"urn:{place}" for place in range(5)]
    assert template_of(to_query(structure, names)) == template_of(to_query(UNION_FORMS[structure], names))


def test_a_grounding_has_the_names_of_a_query_in_order() -> None:
    query = to_query(("e", ("r", "r", "n")), ["urn:a", "urn:p", "urn:q"])
    assert query == Not(Exists("urn:q", F, Exists("urn:p", F, Entity("urn:a"))))
    assert from_query(query) == (("e", ("r", "r", "n")), ("urn:a", "urn:p", "urn:q"))
    assert fill(("e", ("r", "r", "n")), iter([7, 0, 3])) == (7, (0, 3, -2))
    assert fill(STRUCTURES["2u"], iter([1, 2, 3, 4])) == ((1, (2,)), (3, (4,)), (-1,))


@pytest.mark.parametrize("structure", [(("u",),), "x", ("e", ("x",)), ("u",), (), "r"])
def test_bad_structures(structure: Structure) -> None:
    with pytest.raises(QueryError, match="no structure"):
        to_query(structure, ["urn:a"] * 4)


def test_concepts_have_no_structure() -> None:
    with pytest.raises(QueryError, match="entities only"):
        from_query(Concept("urn:C"))


def test_a_deep_structure_is_refused() -> None:
    structure: Structure = "e"
    for _ in range(200):
        structure = (structure, ("r",))
    with pytest.raises(QueryTooLarge):
        to_query(structure, ["urn:a"])
