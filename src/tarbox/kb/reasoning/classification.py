"""The taxonomy of classes: rustdl reads the axioms in functional syntax, and says what is below what.

rustdl is sound. With saturation alone it is quick, and complete for the EL profile; with time for each pair of classes
it tries the rest of OWL 2 DL too. Individuals stay out, but for those that axioms name.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Final, final

from tarbox.core.errors import MissingDependency, TarboxError
from tarbox.kb.axioms import Axiom, write_axioms
from tarbox.kb.namespaces import TOP
from tarbox.kb.native import LibraryFailure, isolated
from tarbox.kb.reasoning.desugaring import BOTTOM, BOTTOM_ROLES, TOP_ROLES, Term, some, sub

_SETS: Final = ("EquivalentClasses", "DisjointClasses", "SameIndividual", "DifferentIndividuals")
_MOST_REFUSED: Final = 20

PROBE: Final = "urn:tarbox:anything"
"""A class of which nothing is said: what is above it is above everything."""


@final
@dataclass(frozen=True, slots=True)
class Taxonomy:
    """Named classes by what is directly below what.

    `direct` holds (lower, upper), equivalent classes both ways; unsatisfiable classes are below nothing in it. `top`
    are the classes equivalent to owl:Thing. An inconsistent ontology has nothing but `inconsistent`. `complete` is
    False where time ran out for some pair; `refused` are axioms that rustdl cannot read.
    """

    classes: tuple[str, ...] = ()
    direct: tuple[tuple[str, str], ...] = ()
    unsatisfiable: tuple[str, ...] = ()
    top: frozenset[str] = frozenset()
    inconsistent: bool = False
    complete: bool = True
    refused: tuple[Axiom, ...] = ()


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
    found, refused = _run(list(_prepared(axioms)), seconds)
    empty = set(found.unsatisfiable)
    if found.inconsistent or PROBE in empty:
        return Taxonomy(tuple(c for c in found.classes if c != PROBE), inconsistent=True, refused=refused)
    direct: list[tuple[str, str]] = []
    for name in found.classes:
        if name not in empty:
            equal = found.equivalent_classes(name)
            direct += [(name, other) for other in equal if other != name]
            direct += [(name, upper) for upper in found.direct_subsumers(name)]
    top = reached(PROBE, direct)
    named = [(lower, upper) for lower, upper in direct if lower != PROBE and upper not in top and upper != PROBE]
    classes = tuple(c for c in found.classes if c != PROBE)
    below = tuple(sorted(set(named)))
    return Taxonomy(classes, below, tuple(sorted(empty)), top, complete=found.complete, refused=refused)


def _run(axioms: list[Axiom], seconds: float | None) -> tuple[Any, tuple[Axiom, ...]]:
    """rustdl's classification, and the axioms that it cannot read, which are left out one by one."""
    library, refused = rustdl(), list[Axiom]()
    limit = {"per_pair_timeout_ms": round((seconds or 0) * 1000), "global_timeout_ms": 0}
    while True:
        try:
            with isolated("rustdl"), warnings.catch_warnings():
                warnings.simplefilter("ignore")  # an incomplete result says so itself
                try:
                    found = library.classify_bytes(
                        ontology_text(axioms), format="ofn", saturation_only=seconds is None, **limit
                    )
                except library.RustdlError as error:
                    raise ValueError(str(error)) from None
            return found, tuple(refused)
        except LibraryFailure as failure:
            place = failure.line - 2  # below the line that opens the document
            if not 0 <= place < len(axioms) or len(refused) == _MOST_REFUSED:
                raise TarboxError(f"the axioms cannot be classified: {failure}. Build with --infer rdfs.") from None
            refused.append(axioms.pop(place))


def _prepared(axioms: Iterable[Axiom]) -> Iterator[Axiom]:
    """What rustdl does not see by itself, said in words that it knows.

    Sets have two members at least; nobody has the bottom property; and what is said of owl:Thing is said of the probe,
    too, which stands for it.
    """
    yield ("Declaration", ("Class", PROBE))
    for axiom in axioms:
        said = _plain(axiom)
        if len(said) == 2 and said[0] in _SETS:  # of one: it says nothing
            continue
        yield said
        again = _replace(said, TOP, PROBE)
        if again != said:
            yield again


def _plain(term: Term) -> Term:
    said = term
    match term:
        case ("SubObjectPropertyOf", lower, upper) if upper in BOTTOM_ROLES:
            said = sub(_plain(some(lower)), BOTTOM)
        case ("ObjectSomeValuesFrom", role, filler) if role in TOP_ROLES and filler == TOP:
            said = TOP
        case ("ObjectSomeValuesFrom" | "ObjectHasValue", role, _) if role in BOTTOM_ROLES:
            said = BOTTOM
        case ("ObjectIntersectionOf" | "ObjectUnionOf" | "ObjectPropertyChain", only):
            said = _plain(only)
        case ("ObjectUnionOf" | "ObjectOneOf",):
            said = BOTTOM
        case ("DisjointUnion", name, only):
            said = ("EquivalentClasses", name, _plain(only))
        case tuple():
            said = tuple(map(_plain, term))
    return said


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
