"""Links between terms: what axioms say of all members of a concept, said of the term as an entity (ADR 40)."""

from __future__ import annotations

from functools import cache

import pyarrow as pa

from tarbox.kb.preparation import program, queries
from tarbox.kb.preparation.engine import TableEngine


def link_terms(engine: TableEngine) -> int:
    """Make assertions A r B of axioms `A subClassOf r some B`, for terms A that are entities; returns how many.

    A term has the links of the terms above it, too; of those by one relation only the most specific. What links lead to
    is an entity by that.
    """
    links: dict[int, list[tuple[int, int]]] = {}
    above: dict[int, list[int]] = {}
    for s, p, o in engine.rows(queries.some_links(engine)):
        links.setdefault(s, []).append((p, o))
    for s, o in engine.rows(queries.SUBSUMED):
        above.setdefault(s, []).append(o)

    @cache
    def ancestors(term: int) -> frozenset[int]:
        found, waiting = {term}, [term]
        for lower in waiting:  # it grows meanwhile
            waiting += [upper for upper in above.get(lower, ()) if upper not in found]
            found.update(above.get(lower, ()))
        return frozenset(found)

    terms = [id for (id,) in engine.rows(program.BOTH_ROLES)]
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
    engine.load("link", pa.table([pa.array(c, pa.int64()) for c in columns], names=["s", "p", "o"]))
    engine.run(program.linked())
    engine.add(program.ADDED)
    return len(rows)
