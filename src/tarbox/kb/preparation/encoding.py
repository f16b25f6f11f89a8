"""From judged statements to the tables of a store: sorted names, ids, labels."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from tarbox.core.ids import Role
from tarbox.kb.preparation import queries
from tarbox.kb.preparation.engine import TableEngine
from tarbox.kb.preparation.entailed import count_described, infer_on_engine
from tarbox.kb.reasoning.inference import InferenceMode, describe_inference
from tarbox.kb.store import SCHEMAS
from tarbox.kb.writing import StoreWriter


def write_tables(engine: TableEngine, writer: StoreWriter) -> None:
    """Encode everything and hand it to the writer, table by table."""
    for role in Role:
        engine.enumerate(f"{role.value}_row", queries.name_rows(role), ["iri"])
        writer.write(role.plural, engine.fetch(queries.names_in_order(role)))
    writer.write("synonyms", engine.fetch(queries.synonyms_in_order()))
    lines = engine.fetch(queries.AXIOMS_IN_ORDER)
    writer.write_axioms(line for block in lines for line in block.column(0).to_pylist())
    for name, sql in queries.FACT_TABLES.items():
        writer.write(name, _as_one_batch(engine.fetch(sql), SCHEMAS[name], writer.scratch))
    declared = engine.fetch(queries.declared_in_order()).read_all()
    if len(declared):
        writer.write("declared", declared.combine_chunks().to_batches())
    if engine.count("attribute"):
        _write_attributes(engine, writer)


def write_entailed(
    engine: TableEngine, writer: StoreWriter, mode: InferenceMode, seconds: float | None
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Write what follows from the tables, found by the engine; returns what the manifest says of it and of the
    hierarchy."""
    engine.run(queries.ENCODED)
    facts = writer.facts()
    schema, hierarchy, report = infer_on_engine(engine, facts.schema(), writer.axioms(), mode, seconds)
    subsumptions = np.flatnonzero(schema.inferred.subsumptions if schema.inferred else ())
    if len(subsumptions) or engine.count("inferred_assertion") or engine.count("inferred_typing"):
        for name, sql in queries.INFERRED_IN_ORDER.items():
            writer.write(name, _as_one_batch(engine.fetch(sql), SCHEMAS[name], writer.scratch))
        columns = [schema.subs[subsumptions], schema.supers[subsumptions]]
        name = "inferred_subsumptions"
        writer.write(name, pa.table(columns, schema=SCHEMAS[name]).to_batches())
    counts = count_described(engine, facts)
    return describe_inference(mode, report), hierarchy.describe(facts.vocabulary.concepts, *counts)


def _write_attributes(engine: TableEngine, writer: StoreWriter) -> None:
    engine.enumerate("assertion_row", queries.ASSERTIONS, ["head", "relation", "tail"])
    found = engine.fetch(queries.ATTRIBUTES_IN_ORDER).read_all()
    if len(found):
        encoded = [found["fact"], *(found[name].combine_chunks().dictionary_encode() for name in ("name", "value"))]
        writer.write("attributes", pa.table(encoded, names=found.column_names).combine_chunks().to_batches())


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
