"""From judged statements to the tables of a store: sorted names, ids, labels."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa

from tarbox.core.ids import Role
from tarbox.kb.interpretation import Verdict, code
from tarbox.kb.staging import Staging
from tarbox.kb.store import SCHEMAS
from tarbox.kb.writing import StoreWriter


def write_tables(staging: Staging, writer: StoreWriter) -> None:
    """Encode everything and hand it to the writer, table by table."""
    for role in Role:
        staging.execute(  # written in order, so that DuckDB's rowid is the id
            f"""CREATE TABLE {role.value}_row AS SELECT id, text AS iri, label FROM {role.value} JOIN name USING (id)
                LEFT JOIN chosen USING (id) ORDER BY text"""
        )
        writer.write(role.plural, staging.reader(f"SELECT iri, label FROM {role.value}_row ORDER BY rowid"))
    writer.write("synonyms", staging.reader(_synonyms()))
    assertion, typing = code(Verdict.ASSERTION), code(Verdict.TYPING)
    facts = {
        "assertions": f"""SELECT h.rowid::INT AS head, r.rowid::INT AS relation, t.rowid::INT AS tail, split
            FROM fact JOIN entity_row AS h ON s = h.id JOIN relation_row AS r ON p = r.id
            JOIN entity_row AS t ON o = t.id WHERE verdict = {assertion}""",
        "typings": f"""SELECT e.rowid::INT AS entity, c.rowid::INT AS concept
            FROM fact JOIN entity_row AS e ON s = e.id JOIN concept_row AS c ON o = c.id WHERE verdict = {typing}""",
        "subsumptions": f"""SELECT DISTINCT a.rowid::INT AS sub, b.rowid::INT AS super FROM (
              SELECT s, o FROM fact WHERE verdict IN ({code(Verdict.SUBSUMPTION)}, {code(Verdict.EQUIVALENCE)}) UNION
              SELECT o, s FROM fact WHERE verdict = {code(Verdict.EQUIVALENCE)})
            JOIN concept_row AS a ON s = a.id JOIN concept_row AS b ON o = b.id""",
    }
    lines = staging.reader("SELECT text FROM axiom ORDER BY text")
    writer.write_axioms(line for block in lines for line in block.column(0).to_pylist())
    for name, sql in facts.items():
        batches = staging.reader(f"{sql} ORDER BY ALL")
        writer.write(name, _as_one_batch(batches, SCHEMAS[name], writer.scratch))
    declared = staging.reader(_declared()).read_all()
    if len(declared):
        writer.write("declared", declared.combine_chunks().to_batches())
    found = staging.reader(_attributes(facts["assertions"])).read_all()
    if len(found):
        encoded = [found["fact"], *(found[name].combine_chunks().dictionary_encode() for name in ("name", "value"))]
        writer.write("attributes", pa.table(encoded, names=found.column_names).combine_chunks().to_batches())


def _declared() -> str:
    """The names of `stated`, by their rows in the tables of names put one after the other."""
    before, roles = "0", []
    for role in Role:
        roles.append(
            f"SELECT (r.rowid + {before})::INT AS name FROM {role.value}_row AS r JOIN stated USING (id) "
            f"WHERE role = '{role.value}'"
        )
        before += f" + (SELECT count(*) FROM {role.value}_row)"
    return f"SELECT DISTINCT name FROM ({' UNION ALL '.join(roles)}) ORDER BY name"


def _attributes(assertions: str) -> str:
    """What is said of each assertion, by its row among them."""
    return f"""SELECT DISTINCT row::INT AS fact, name, value FROM attribute
        LEFT JOIN merged AS a ON s = a.id LEFT JOIN merged AS b ON o = b.id
        JOIN entity_row AS h ON coalesce(a.kept, s) = h.id JOIN relation_row AS r ON p = r.id
        JOIN entity_row AS t ON coalesce(b.kept, o) = t.id
        JOIN (SELECT *, row_number() OVER (ORDER BY head, relation, tail) - 1 AS row FROM ({assertions}))
        ON head = h.rowid AND relation = r.rowid AND tail = t.rowid ORDER BY ALL"""


def _synonyms() -> str:
    """Everything else that a name is called; merged entities by their IRI."""
    roles = " UNION ALL ".join(
        f"""SELECT '{role.value}' AS role, r.rowid::INT AS id, value AS text FROM said
            JOIN {role.value}_row AS r USING (id)
            WHERE value IS DISTINCT FROM r.label"""
        for role in Role
    )
    merged = """SELECT 'entity', r.rowid::INT, name.text FROM merged JOIN entity_row AS r ON kept = r.id
                JOIN name ON merged.id = name.id"""
    return f"SELECT DISTINCT * FROM ({roles} UNION ALL {merged}) ORDER BY ALL"


def _as_one_batch(batches: Iterator[pa.RecordBatch], schema: pa.Schema, scratch: Path) -> Iterator[pa.RecordBatch]:
    """All rows as a single batch, through files instead of memory, so that a column of the store is one array."""
    files = [scratch / f"{name}.column" for name in schema.names]
    rows = 0
    handles = [file.open("wb") for file in files]
    for block in batches:
        rows += block.num_rows
        for handle, column, field in zip(handles, block.columns, schema, strict=True):
            handle.write(np.ascontiguousarray(column.cast(field.type).to_numpy(zero_copy_only=False)).data)
    for handle in handles:
        handle.close()
    columns = [
        np.memmap(file, field.type.to_pandas_dtype(), "r") if rows else np.empty(0, field.type.to_pandas_dtype())
        for file, field in zip(files, schema, strict=True)
    ]
    yield pa.record_batch([pa.array(column) for column in columns], schema=schema)
    for file in files:
        file.unlink()
