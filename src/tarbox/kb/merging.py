"""Same entities become one, with `--merge-same`."""

from __future__ import annotations

import pyarrow as pa

from tarbox.kb.interpretation import Verdict, code
from tarbox.kb.staging import Staging


def merge_same(staging: Staging) -> int:
    """Give every group of same entities one name, the first by IRI; the others become its synonyms."""
    parent: dict[int, int] = {}

    def root(id: int) -> int:
        while parent.setdefault(id, id) != id:
            parent[id] = parent[parent[id]]
            id = parent[id]
        return id

    for s, o in staging.execute(f"SELECT s, o FROM fact WHERE verdict = {code(Verdict.SAME)}").fetchall():
        parent[root(s)] = root(o)
    staging.table(
        "member",
        pa.table({"id": pa.array(list(parent), pa.uint64()), "root": pa.array([root(i) for i in parent], pa.uint64())}),
    )
    staging.execute(
        """CREATE OR REPLACE TABLE merged AS SELECT member.id AS id, first.id AS kept FROM member JOIN name USING (id)
           JOIN (SELECT root, min_by(member.id, text) AS id FROM member JOIN name USING (id) GROUP BY root) AS first
           ON member.root = first.root WHERE member.id <> first.id"""
    )
    staging.execute(
        f"""CREATE OR REPLACE TABLE fact AS
            SELECT coalesce(a.kept, s) AS s, p, coalesce(b.kept, o) AS o, min(split) AS split, verdict
            FROM fact LEFT JOIN merged AS a ON s = a.id
            LEFT JOIN merged AS b ON o = b.id AND verdict = {code(Verdict.ASSERTION)}
            WHERE verdict <> {code(Verdict.SAME)} GROUP BY ALL UNION ALL
            SELECT s, p, o, split, {code(Verdict.MERGED)} FROM fact WHERE verdict = {code(Verdict.SAME)}"""
    )
    staging.execute("DELETE FROM declared WHERE word = 'entity' AND id IN (SELECT id FROM merged)")
    return staging.number("SELECT count(*) FROM merged")
