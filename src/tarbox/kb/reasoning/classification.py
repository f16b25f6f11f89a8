"""The taxonomy of classes: rustdl reads the axioms in functional syntax, and says what is below what.

rustdl is sound. With saturation alone it is quick, and complete for the EL profile; with time for each pair of classes
it tries the rest of OWL 2 DL too. Individuals stay out, but for those that axioms name.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Final, final

from tarbox.core.errors import MissingDependency
from tarbox.kb.axioms import Axiom, write_axioms
from tarbox.kb.reasoning.desugaring import BOTTOM_ROLES, NOTHING, THING, TOP_ROLES, Term, some, sub

PROBE: Final = "urn:tarbox:anything"
"""A class of which nothing is said: what is above it is above everything."""


@final
@dataclass(frozen=True, slots=True)
class Taxonomy:
    """Named classes by what is directly below what.

    `direct` holds (lower, upper), equivalent classes both ways; unsatisfiable classes are below nothing in it. `top`
    are the classes equivalent to owl:Thing. An inconsistent ontology has nothing but `inconsistent`. `complete` is
    False where time ran out for some pair.
    """

    classes: tuple[str, ...] = ()
    direct: tuple[tuple[str, str], ...] = ()
    unsatisfiable: tuple[str, ...] = ()
    top: frozenset[str] = frozenset()
    inconsistent: bool = False
    complete: bool = True


def rustdl() -> Any:
    """The reasoner, or what to install."""
    try:
        import rustdl as library
    except ImportError:
        raise MissingDependency(
            "classes are classified by rustdl, which is not installed: pip install 'tarbox[owl]', or build with "
            "--infer rdfs."
        ) from None
    return library


def ontology_text(axioms: Iterable[Axiom]) -> bytes:
    """The axioms as a document that rustdl reads."""
    return f"Ontology(\n{write_axioms(axioms)})\n".encode()


def classify(axioms: Iterable[Axiom], seconds: float | None = None) -> Taxonomy:
    """The taxonomy that follows from the axioms: by saturation, or with so many `seconds` for each pair of classes."""
    text = ontology_text(_prepared(axioms))
    limit = {"per_pair_timeout_ms": round((seconds or 0) * 1000), "global_timeout_ms": 0}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # an incomplete result says so itself
        found = rustdl().classify_bytes(text, format="ofn", saturation_only=seconds is None, **limit)
    empty = set(found.unsatisfiable)
    if found.inconsistent or PROBE in empty:
        return Taxonomy(tuple(c for c in found.classes if c != PROBE), inconsistent=True)
    direct: list[tuple[str, str]] = []
    for name in found.classes:
        if name not in empty:
            equal = found.equivalent_classes(name)
            direct += [(name, other) for other in equal if other != name]
            direct += [(name, upper) for upper in found.direct_subsumers(name)]
    top = reached(PROBE, direct)
    named = [(lower, upper) for lower, upper in direct if lower != PROBE and upper not in top and upper != PROBE]
    return Taxonomy(
        tuple(c for c in found.classes if c != PROBE), tuple(sorted(set(named))), tuple(sorted(empty)), top,
        complete=found.complete,
    )  # fmt: skip


def _prepared(axioms: Iterable[Axiom]) -> Iterator[Axiom]:
    """What rustdl does not see by itself, said in words that it knows.

    Nobody has the bottom property; and what is said of owl:Thing is said of the probe, too, which stands for it.
    """
    yield ("Declaration", ("Class", PROBE))
    for axiom in axioms:
        plain = _without_bottom(axiom)
        yield plain
        again = _replace(plain, THING, PROBE)
        if again != plain:
            yield again


def _without_bottom(term: Term) -> Term:
    match term:
        case ("SubObjectPropertyOf", lower, upper) if upper in BOTTOM_ROLES:
            return sub(_without_bottom(some(lower)), NOTHING)
        case ("ObjectSomeValuesFrom", role, filler) if role in TOP_ROLES and filler == THING:
            return THING
        case ("ObjectSomeValuesFrom" | "ObjectHasValue", role, _) if role in BOTTOM_ROLES:
            return NOTHING
        case tuple():
            return tuple(map(_without_bottom, term))
    return term


def _replace(term: Term, old: str, new: str) -> Term:
    if isinstance(term, tuple):
        return tuple(_replace(part, old, new) for part in term)
    return new if term == old else term


def reached(start: str, direct: Iterable[tuple[str, str]]) -> frozenset[str]:
    above: dict[str, list[str]] = {}
    for lower, upper in direct:
        above.setdefault(lower, []).append(upper)
    seen: set[str] = set()
    waiting = [start]
    while waiting:
        for upper in above.get(waiting.pop(), ()):
            if upper not in seen:
                seen.add(upper)
                waiting.append(upper)
    return frozenset(seen - {start})
