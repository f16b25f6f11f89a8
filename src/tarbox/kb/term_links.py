"""Links between terms: what axioms say of all members of a concept, said of the term as an entity (ADR 51)."""

from __future__ import annotations

from functools import cache
from typing import Final

import pyarrow as pa

from tarbox.kb.facts import NO_SPLIT
from tarbox.kb.interpretation import Verdict, code
from tarbox.kb.staging import Staging

_LINK: Final = r"^SubClassOf\(<([^>]*)> ObjectSomeValuesFrom\(<([^>]*)> <([^>]*)>\)\)$"


def link_terms(staging: Staging) -> int:
    """Make assertions A r B of axioms `A subClassOf r some B`, for terms A that are entities; returns how many.

    A term has the links of the terms above it, too; of those by one relation only the most specific. What links lead to
    is an entity by that.
    """
    links: dict[int, list[tuple[int, int]]] = {}
    above: dict[int, list[int]] = {}
    for s, p, o in staging.execute(
        f"""SELECT DISTINCT term_id(said.s), term_id(said.p), term_id(said.o) FROM (
              SELECT regexp_extract(text, '{_LINK}', ['s', 'p', 'o']) AS said FROM axiom
              WHERE regexp_matches(text, '{_LINK}'))"""
    ).fetchall():
        links.setdefault(s, []).append((p, o))
    for s, o in staging.execute(f"SELECT s, o FROM fact WHERE verdict = {code(Verdict.SUBSUMPTION)}").fetchall():
        above.setdefault(s, []).append(o)

    @cache
    def ancestors(term: int) -> frozenset[int]:
        found, waiting = {term}, [term]
        for lower in waiting:  # it grows meanwhile
            waiting += [upper for upper in above.get(lower, ()) if upper not in found]
            found.update(above.get(lower, ()))
        return frozenset(found)

    terms = [id for (id,) in staging.execute("SELECT id FROM entity SEMI JOIN concept USING (id)").fetchall()]
    entities, rows = set(terms), list[tuple[int, int, int]]()
    for term in terms:  # it grows meanwhile
        reached = {link for upper in ancestors(term) for link in links.get(upper, ())}
        for p, o in reached:
            if not any(p == q and o in ancestors(n) and n not in ancestors(o) for q, n in reached):
                rows.append((term, p, o))
                if o not in entities:
                    entities.add(o)
                    terms.append(o)
    columns = list(zip(*rows, strict=True)) or [(), (), ()]
    staging.table("link", pa.table([pa.array(c, pa.uint64()) for c in columns], names=["s", "p", "o"]))
    staging.execute(
        f"""INSERT INTO fact SELECT *, {NO_SPLIT}, {code(Verdict.ASSERTION)} FROM link
            ANTI JOIN fact USING (s, p, o)"""
    )
    staging.execute("INSERT INTO entity SELECT DISTINCT o FROM link ANTI JOIN entity ON o = id")
    return len(rows)
