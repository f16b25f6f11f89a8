"""What names are called: one label each, and which of the others are of use (ADR 3)."""

from __future__ import annotations

from typing import Final

from tarbox.kb.interpretation import Verdict, code
from tarbox.kb.namespaces import LABEL_ORDER
from tarbox.kb.staging import Staging

_VALUE: Final = """replace(replace(replace(replace(replace(replace(
    regexp_extract(text, '^"(.*)"[^"]*$', 1), '\\\\', chr(1)), '\\"', '"'), '\\n', chr(10)), '\\r', chr(13)),
    '\\t', chr(9)), chr(1), '\\')"""
_LANGUAGE: Final = """lower(regexp_extract(text, '"@([A-Za-z0-9-]+)$', 1))"""
_RANK: Final = " ".join(f"WHEN term_id('{iri}') THEN {rank}" for rank, iri in enumerate(LABEL_ORDER))
_NAMED: Final = "(SELECT id FROM entity UNION SELECT id FROM concept UNION SELECT id FROM relation)"


def choose_labels(staging: Staging, language: str) -> None:
    """`chosen`: one label for each name, by language (the wanted one, none, any other), then by predicate.

    `said` is then what a name is called in the wanted language or in none, its label included. Statements that say
    anything else get a verdict of their own.
    """
    wanted = language.lower().replace("'", "''")
    staging.execute(
        f"""CREATE TABLE said AS SELECT s AS id, p, o, {_VALUE} AS value, {_LANGUAGE} AS language,
              CASE p {_RANK} ELSE 9 END AS rank, verdict = {code(Verdict.LABEL)} AS is_label
            FROM fact JOIN name ON o = name.id WHERE verdict IN ({code(Verdict.LABEL)}, {code(Verdict.SYNONYM)})"""
    )
    staging.execute(
        f"""CREATE TABLE chosen AS SELECT id, min_by(value, (
              CASE language WHEN '{wanted}' THEN 0 WHEN '' THEN 1 ELSE 2 END, rank, language, value)) AS label
            FROM said WHERE is_label AND value <> '' GROUP BY id"""
    )
    staging.execute(
        f"""CREATE TABLE useless AS SELECT id, p, o, CASE
              WHEN value = '' THEN {code(Verdict.EMPTY)}
              WHEN id NOT IN {_NAMED} THEN {code(Verdict.UNUSED)}
              WHEN language NOT IN ('{wanted}', '') AND value IS DISTINCT FROM label THEN {code(Verdict.LANGUAGE)}
              END AS verdict
            FROM said LEFT JOIN chosen USING (id) WHERE verdict IS NOT NULL"""
    )
    same = "s = useless.id AND fact.p = useless.p AND fact.o = useless.o"
    staging.execute(f"UPDATE fact SET verdict = useless.verdict FROM useless WHERE {same}")
    staging.execute("DELETE FROM said USING useless WHERE said.id = useless.id AND said.o = useless.o")
