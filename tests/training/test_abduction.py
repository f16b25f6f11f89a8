"""What training queries tell beyond the facts."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tarbox.benchmark.folder import open_benchmark
from tarbox.benchmark.tables import Lists, QueryTable, render_shape
from tarbox.kb.facts import Facts
from tarbox.kb.splits import hide
from tarbox.kb.vocabulary import Vocabulary
from tarbox.models.calibration import fit_calibrator
from tarbox.models.complex import Complex, ComplexConfig
from tarbox.models.evidence import Evidence
from tarbox.models.saved import sizes_of
from tarbox.query.templates import TEMPLATES
from tarbox.training import abduction, tellings
from tarbox.training.abduction import ENOUGH, UNSURE, Lore, Told, hear, with_links
from tarbox.training.rehearsal import Rehearsed
from tarbox.training.tellings import Why

NAMES = sorted(["ann", "bob", "cid", "dora", "rome", "paris", "milan", "italy", "france", "europe", "earth"])
RELATIONS = ["bornIn", "locatedIn"]
WORDS = Vocabulary.of(NAMES, relations=RELATIONS)
Named = tuple[str, str, str]


def facts_of(*facts: Named) -> Facts:
    return Facts.of(WORDS, [(NAMES.index(h), RELATIONS.index(r), NAMES.index(t)) for h, r, t in facts])


def asking(*chains: tuple[str, str, set[str]]) -> QueryTable:
    """Training queries of (start, relations with spaces between, answers), all relations read from head to tail."""
    ways = [[2 * RELATIONS.index(name) + 1 for name in text.split()] for _, text, _ in chains]
    answers = [sorted(NAMES.index(name) for name in found) for *_, found in chains]
    return QueryTable.of(
        {
            "id": [str(number) for number in range(len(chains))],
            "level": ["entity"] * len(chains),
            "shape": [render_shape(TEMPLATES[f"{len(way)}p"].shape) for way in ways],
            "slots": Lists.of(
                [[*reversed(way), NAMES.index(chain[0])] for way, chain in zip(ways, chains, strict=True)]
            ),
            "target": Lists.of([found[:1] for found in answers]),
            "known": Lists.of([found[1:] for found in answers]),
        }
    )


def tell(facts: Facts, train: QueryTable) -> dict[int, Why]:
    return abduction.tell(facts, Lore.of(train))


def share_right(facts: Facts, rest: Facts, train: QueryTable) -> dict[Why, float]:
    return abduction.share_right(facts, rest, Lore.of(train))


def named(keys: Iterable[int]) -> set[Named]:
    size, found = len(NAMES), set()
    for key in keys:
        relation, pair = divmod(key, size * size)
        found.add((NAMES[pair // size], RELATIONS[relation], NAMES[pair % size]))
    return found


ROME: Named = ("rome", "locatedIn", "italy")
BORN: list[Named] = [("bob", "bornIn", "rome"), ("cid", "bornIn", "paris")]
KNOWN: list[Named] = [ROME, ("paris", "locatedIn", "france"), ("milan", "locatedIn", "italy"), *BORN]


def test_what_alone_leads_to_the_answers_is_told() -> None:
    """Milan is in Italy too, but nobody is known to be born there."""
    train = asking(("ann", "bornIn locatedIn", {"italy"}))
    assert named(tell(facts_of(*KNOWN), train)) == {("ann", "bornIn", "rome")}


def test_of_several_nothing_is_told() -> None:
    facts = facts_of(*KNOWN, ("dora", "bornIn", "milan"))
    assert not len(tell(facts, asking(("ann", "bornIn locatedIn", {"italy"}))))


def test_what_leads_elsewhere_as_well_is_not_it() -> None:
    """Rome leads to Europe, which is no answer; Milan does not."""
    facts = facts_of(*KNOWN, ("dora", "bornIn", "milan"), ("rome", "locatedIn", "europe"))
    assert named(tell(facts, asking(("ann", "bornIn locatedIn", {"italy"})))) == {("ann", "bornIn", "milan")}


def test_the_last_step_is_told_where_the_first_is_known() -> None:
    facts = facts_of(*(fact for fact in KNOWN if fact != ROME))
    train = asking(("bob", "bornIn locatedIn", {"italy"}))
    assert named(tell(facts, train)) == {ROME}
    twice = facts_of(*(fact for fact in KNOWN if fact != ROME), ("cid", "bornIn", "milan"), ("ann", "bornIn", "paris"))
    both = facts_of(*(fact for fact in KNOWN if fact != ROME), ("bob", "bornIn", "milan"))
    assert named(tell(twice, train)) == {ROME}  # bornIn leads to four thirds on average
    assert not len(tell(both, train))  # Bob's other birthplace explains it


def test_all_chains_of_a_step_are_heard_together() -> None:
    """Rome explains more of the first chain than Milan, but would lead the second one to the earth."""
    wider: list[Named] = [("rome", "locatedIn", "europe"), ("europe", "locatedIn", "earth")]
    facts = facts_of(*KNOWN, *wider, ("italy", "locatedIn", "europe"), ("dora", "bornIn", "milan"))
    first = ("ann", "bornIn locatedIn", {"italy", "europe"})
    assert named(tell(facts, asking(first))) == {("ann", "bornIn", "rome")}
    second = ("ann", "bornIn locatedIn locatedIn", {"europe"})
    assert ("ann", "bornIn", "milan") in named(tell(facts, asking(first, second)))


def test_nothing_is_told_that_leads_another_chain_astray(monkeypatch: pytest.MonkeyPatch) -> None:
    """Cid was born in Paris, and Dora: what she has not been led to is not where Paris is."""
    facts = facts_of(*KNOWN, ("dora", "bornIn", "paris"), ("italy", "locatedIn", "europe"))
    cid = ("cid", "bornIn locatedIn", {"france", "europe"})
    assert named(tell(facts, asking(cid))) == {("paris", "locatedIn", "europe")}
    both = asking(cid, ("dora", "bornIn locatedIn", {"france"}))
    assert not tell(facts, both)
    monkeypatch.setattr(tellings, "CROWD", 0)  # now Paris is one of too many
    assert named(tell(facts, both)) == {("paris", "locatedIn", "europe")}


CITY, PORT = 0, 1
"""The concepts of the tests about meetings: Paris is a city, Rome and Milan are ports as well."""


def typed(*facts: Named) -> Facts:
    cities = [(NAMES.index(name), CITY) for name in ("rome", "paris", "milan")]
    ports = [(NAMES.index(name), PORT) for name in ("rome", "milan")]
    triples = [(NAMES.index(h), RELATIONS.index(r), NAMES.index(t)) for h, r, t in facts]
    return Facts.of(Vocabulary.of(NAMES, ["city", "port"], RELATIONS), triples, cities + ports)


def meeting(*sides: tuple[str, str], concepts: Iterable[int] = (), entities: Iterable[str] = ()) -> dict[str, object]:
    """A training query for what all sides (entity, relation) lead to, by its concepts or its entities."""
    answers = [NAMES.index(name) for name in entities] or sorted(concepts)
    slots = [number for name, relation in sides for number in (2 * RELATIONS.index(relation) + 1, NAMES.index(name))]
    shape = render_shape(TEMPLATES[f"{len(sides)}i"].shape)
    return {"level": "entity" if entities else "concept", "shape": shape, "slots": slots, "answers": answers}


def table_of(*queries: dict[str, Any]) -> QueryTable:
    return QueryTable.of(
        {
            "id": [str(number) for number in range(len(queries))],
            "level": [query["level"] for query in queries],
            "shape": [query["shape"] for query in queries],
            "slots": Lists.of([query["slots"] for query in queries]),
            "target": Lists.of([query["answers"][:1] for query in queries]),
            "known": Lists.of([query["answers"][1:] for query in queries]),
        }
    )


def test_who_meets_somebody_is_told_where() -> None:
    """Bob was born in Rome, and somewhere where Ann was born, too. By what it is, it may be Rome."""
    both = (("bob", "bornIn"), ("ann", "bornIn"))
    facts = typed(*KNOWN)
    told = tell(facts, table_of(meeting(*both, concepts=[CITY, PORT])))
    assert (named(told), set(told.values())) == ({("ann", "bornIn", "rome")}, {Why.MET})
    assert not tell(facts, table_of(meeting(*both, concepts=[CITY])))  # Rome is a port
    third = (*both, ("dora", "bornIn"))
    found = named(tell(facts, table_of(meeting(*third, concepts=[CITY, PORT]))))
    assert found == {("ann", "bornIn", "rome"), ("dora", "bornIn", "rome")}


def test_of_what_a_side_leads_to_one_is_chosen() -> None:
    """Bob has two birthplaces of which one is no port; so bornIn leads to two as often as to one."""
    facts = typed(*KNOWN, ("bob", "bornIn", "paris"), ("cid", "bornIn", "rome"))
    both = (("bob", "bornIn"), ("ann", "bornIn"))
    told = tell(facts, table_of(meeting(*both, concepts=[CITY])))
    assert (named(told), set(told.values())) == ({("ann", "bornIn", "paris")}, {Why.CHOSEN})
    assert not tell(facts, table_of(meeting(*both, concepts=[CITY, PORT])))  # it could be either


def test_meetings_forbid_what_chains_would_tell() -> None:
    """Rome alone explains Ann's chain; but Bob, who was born in Rome, and Ann have only Milan in common."""
    ann = ("ann", "bornIn locatedIn", {"italy", "europe"})
    facts = facts_of(*KNOWN, ("rome", "locatedIn", "europe"), ("bob", "bornIn", "milan"))
    chains = asking(ann)
    assert named(tell(facts, chains)) == {("ann", "bornIn", "rome")}
    met = table_of(meeting(("ann", "bornIn"), ("bob", "bornIn"), entities=["milan"]))
    lore = Lore(Lore.of(chains).chains, [], Lore.of(met).beside)
    assert ("ann", "bornIn", "rome") not in named(abduction.tell(facts, lore))


def test_longer_chains_and_what_was_told_before() -> None:
    """Where Ann was born is told by one chain, that Italy is in Europe by another that needs it. Paris would lead to
    the earth as well, which is no answer."""
    further: list[Named] = [("france", "locatedIn", "europe"), ("france", "locatedIn", "earth")]
    train = asking(("ann", "bornIn locatedIn", {"italy"}), ("ann", "bornIn locatedIn locatedIn", {"europe"}))
    found = named(tell(facts_of(*KNOWN, *further), train))
    assert found == {("ann", "bornIn", "rome"), ("italy", "locatedIn", "europe")}


def test_queries_about_all_facts_tell_nothing(bench: Path) -> None:
    benchmark = open_benchmark(bench)
    facts, train = benchmark.store.facts, benchmark.table("train")
    assert not len(tell(facts, train))
    assert not len(hear(facts, facts, None).keys)
    rest = hide(facts, 0, 0.3)
    width = len(facts.vocabulary.entities)
    own = (facts.relations.astype(np.int64) * width + facts.heads) * width + facts.tails
    told = tell(rest, train)
    assert len(told) > 10
    assert np.isin(list(told), own).mean() > 0.1  # by chance it would be less than 0.001


def test_tellings_are_checked_by_what_is_hidden() -> None:
    """Each of many was born in a city of which another is known to be from; the chains name its country, or another."""
    count = ENOUGH + 5
    kinds = ("child", "city", "elder", "land")
    words = Vocabulary.of([f"{kind}{n:03}" for kind in kinds for n in range(count)], relations=RELATIONS)
    child, city, elder, land = (np.arange(count) + count * place for place in range(len(kinds)))
    kept = [
        (*pair[:1], r, pair[1]) for r, a, b in ((0, elder, city), (1, city, land)) for pair in zip(a, b, strict=True)
    ]
    hidden = [(c, 0, place) for c, place in zip(child, city, strict=True)]
    whole, rest = Facts.of(words, [*kept, *hidden]), Facts.of(words, kept)

    def chains(lands: np.ndarray) -> QueryTable:
        columns = {"id": [str(n) for n in range(count)], "level": ["entity"] * count}
        shape = [render_shape(TEMPLATES["2p"].shape)] * count
        slots, targets = Lists.of([[3, 1, int(c)] for c in child]), Lists.of([[int(x)] for x in lands])
        return QueryTable.of(
            {**columns, "shape": shape, "slots": slots, "target": targets, "known": Lists.of([[]] * count)}
        )

    assert share_right(whole, rest, chains(land)) == dict.fromkeys(Why, UNSURE) | {Why.BETWEEN: 1.0}
    assert share_right(whole, rest, chains(np.roll(land, 1)))[Why.BETWEEN] == 0.0
    few = Facts.of(words, [*kept, *hidden[: ENOUGH + 1]])
    assert share_right(whole, few, chains(land))[Why.BETWEEN] == UNSURE


def test_links_are_added_once_and_in_order() -> None:
    facts = facts_of(*KNOWN)
    told = tell(facts, asking(("ann", "bornIn locatedIn", {"italy"})))
    own = (1 * len(NAMES) + NAMES.index("rome")) * len(NAMES) + NAMES.index("italy")
    found = with_links(facts, np.array([*told, own], np.int64))
    wanted = facts_of(*KNOWN, ("ann", "bornIn", "rome"))
    for column in ("heads", "relations", "tails", "splits"):
        assert getattr(found, column).tolist() == getattr(wanted, column).tolist()
    assert with_links(facts, np.empty(0, np.int64)).heads.tolist() == facts.heads.tolist()


def test_what_is_told_is_believed_and_not_known() -> None:
    facts = facts_of(*KNOWN)
    told = hear(facts, facts, asking(("ann", "bornIn locatedIn", {"italy"})))
    assert told.degrees.tolist() == [UNSURE]
    evidence, nothing = Evidence.of(told.whole()), np.empty(0, np.bool_)
    links, typings = (fit_calibrator(np.empty((0, width), np.float32), nothing, 0) for width in (23, 11))
    predictor = Complex(ComplexConfig(rank=2), sizes_of(facts))
    sure = Told(facts, told.keys, np.array([0.75], np.float32))
    probabilities = predict(predictor, evidence, Rehearsed(links, typings, None, None, {}), sure)
    born = slice(probabilities.starts[1], probabilities.starts[2])
    found = {
        (NAMES[near], NAMES[far]): degree
        for near, far, degree in zip(
            probabilities.near[born].tolist(),
            probabilities.far[born].tolist(),
            probabilities.degrees[born].tolist(),
            strict=True,
        )
    }
    assert found == pytest.approx({("ann", "rome"): 0.75, ("bob", "rome"): 1.0, ("cid", "paris"): 1.0})
