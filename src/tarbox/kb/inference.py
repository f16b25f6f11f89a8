"""Rules that a user may ask for with `--infer` (ADR 3): inverse relations, sub-relations, same entities.

They are off by default: a fact that merely repeats another one in other words would land on both sides of a
benchmark's split.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from typing import Final

import pyarrow as pa

from tarbox.kb.interpretation import RULES, Verdict, code
from tarbox.kb.namespaces import OWL
from tarbox.kb.staging import Staging

ADDED: Final = "assertions added by inverse and sub-relations"
MERGED: Final = "entities merged by same"
Directed = tuple[int, bool]  # a relation's id, and whether it is meant backwards


def apply_rules(staging: Staging, infer: frozenset[str]) -> dict[str, int]:
    """Apply the rules named in `infer` to the table `fact`; returns what each added or merged.

    The statements that say the rules get the verdict `APPLIED`. Statements that merging makes equal become one.
    """
    done: dict[str, int] = {}
    if "same" in infer:
        done[MERGED] = _merge_same(staging)
    if infer & {"inverse", "subproperty"}:
        done[ADDED] = _add_implied(staging, infer)
    for name in infer:
        staging.execute(f"UPDATE fact SET verdict = {code(Verdict.APPLIED)} WHERE verdict = {code(RULES[name])}")
    return done


def _pairs(staging: Staging, verdict: Verdict) -> list[tuple[int, int, int]]:
    rows = staging.execute(f"SELECT s, o, p FROM fact WHERE verdict = {code(verdict)}").fetchall()
    return [(int(s), int(o), int(p)) for s, o, p in rows]


def implied(inverse: Iterable[tuple[int, int]], below: Iterable[tuple[int, int]]) -> dict[int, set[Directed]]:
    """For each relation the directed relations that follow from it, by transitivity."""
    step: dict[Directed, set[Directed]] = defaultdict(set)
    for p, q in inverse:
        for flip in (False, True):
            step[p, flip].add((q, not flip))
            step[q, flip].add((p, not flip))
    for p, q in below:
        for flip in (False, True):
            step[p, flip].add((q, flip))
    result: dict[int, set[Directed]] = {}
    for start in {p for p, _ in step}:
        seen: set[Directed] = set()
        waiting = [(start, False)]
        while waiting:
            for found in step.get(waiting.pop(), ()):
                if found not in seen:
                    seen.add(found)
                    waiting.append(found)
        result[start] = seen - {(start, False)}
    return result


def _add_implied(staging: Staging, infer: frozenset[str]) -> int:
    inverse = [(s, o) for s, o, _ in _pairs(staging, Verdict.INVERSE)] if "inverse" in infer else []
    below: list[tuple[int, int]] = []
    if "subproperty" in infer:
        equivalent = staging.number(f"SELECT term_id('{OWL}equivalentProperty')")
        for s, o, p in _pairs(staging, Verdict.SUBPROPERTY):
            below += [(s, o), (o, s)] if p == equivalent else [(s, o)]
    rows = [(p, q, flip) for p, found in implied(inverse, below).items() for q, flip in found]
    columns = list(zip(*rows, strict=True)) or [(), (), ()]
    staging.table(
        "rule",
        pa.table(
            {
                "p": pa.array(columns[0], pa.uint64()),
                "q": pa.array(columns[1], pa.uint64()),
                "flip": pa.array(columns[2], pa.bool_()),
            }
        ),
    )
    before = staging.number("SELECT count(*) FROM fact")
    staging.execute(
        f"""INSERT INTO fact
            SELECT new.* FROM (
              SELECT CASE WHEN flip THEN o ELSE s END AS s, q AS p, CASE WHEN flip THEN s ELSE o END AS o,
                     min(split) AS split, {code(Verdict.ASSERTION)} AS verdict
              FROM fact JOIN rule USING (p) WHERE verdict = {code(Verdict.ASSERTION)} AND (NOT flip OR o & 3 = 0)
              GROUP BY ALL) AS new
            ANTI JOIN fact ON new.s = fact.s AND new.p = fact.p AND new.o = fact.o"""
    )
    return staging.number("SELECT count(*) FROM fact") - before


def _merge_same(staging: Staging) -> int:
    """Give every group of same entities one name, the first by IRI; the others become its synonyms."""
    parent: dict[int, int] = {}

    def root(id: int) -> int:
        while parent.setdefault(id, id) != id:
            parent[id] = parent[parent[id]]
            id = parent[id]
        return id

    for s, o, _ in _pairs(staging, Verdict.SAME):
        parent[root(s)] = root(o)
    staging.table(
        "member",
        pa.table({"id": pa.array(list(parent), pa.uint64()), "root": pa.array([root(i) for i in parent], pa.uint64())}),
    )
    staging.execute(
        """CREATE TABLE merged AS SELECT member.id AS id, first.id AS kept FROM member JOIN name USING (id)
           JOIN (SELECT root, min_by(member.id, text) AS id FROM member JOIN name USING (id) GROUP BY root) AS first
           ON member.root = first.root WHERE member.id <> first.id"""
    )
    staging.execute(
        f"""CREATE OR REPLACE TABLE fact AS
            SELECT coalesce(a.kept, s) AS s, p, coalesce(b.kept, o) AS o, min(split) AS split, verdict
            FROM fact LEFT JOIN merged AS a ON s = a.id
            LEFT JOIN merged AS b ON o = b.id AND verdict = {code(Verdict.ASSERTION)}
            WHERE verdict <> {code(Verdict.SAME)} GROUP BY ALL UNION ALL
            SELECT * FROM fact WHERE verdict = {code(Verdict.SAME)}"""
    )
    staging.execute("DELETE FROM declared WHERE word = 'entity' AND id IN (SELECT id FROM merged)")
    return staging.number("SELECT count(*) FROM merged")


def check_rules(names: Iterable[str]) -> frozenset[str]:
    """The rules named, or an error that lists those there are."""
    from tarbox.core.errors import ConfigError

    unknown = sorted(set(names) - set(RULES))
    if unknown:
        raise ConfigError(f"--infer {unknown[0]}: no such rule. Known: {', '.join(RULES)}.")
    return frozenset(names)
