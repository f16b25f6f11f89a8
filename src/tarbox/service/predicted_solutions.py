"""What a run predicts as SPARQL has it: solutions with a degree and a status, which the engine writes in any format."""

from __future__ import annotations

from tarbox.query.names import XSD
from tarbox.query.sparql import SparqlSelection
from tarbox.service.answering import Answerer, Question


def solutions_query(answerer: Answerer, selected: SparqlSelection, least: float, rows: int) -> tuple[str, int]:
    """A query whose solutions are what is known and then what is predicted, and how many of them there are.

    They have `degree` and `status` beside the variable selected; at most `rows` are listed.
    """
    offset = selected.offset
    is_sifted = bool(selected.condition or selected.order)  # then the engine takes the part that is asked for
    most = rows if selected.limit is None else min(selected.limit, rows)
    reach = rows if is_sifted else offset + most
    found = answerer.answer_many([Question(selected.query, reach, min_degree=least)])[0]
    names = [f"?{name}" + "_1" * (name == selected.variable) for name in ("degree", "status")]
    variables = " ".join([f"?{selected.variable}", *names])
    shown = " ".join(f"?{name}" for name in selected.selected) if len(selected.selected) > 1 else variables
    listed = "\n".join(
        f'({answer.iri} "{float(answer.degree)!r}"^^<{XSD}double> "{answer.status}")'
        for answer in found.entities[0 if is_sifted else offset :][: rows if is_sifted else most]
    )
    condition = f" FILTER({selected.condition})" if selected.condition else ""
    order = f" ORDER BY{selected.order}" if selected.order else ""
    part = f" OFFSET {offset} LIMIT {most}" if is_sifted else ""
    return f"SELECT {shown} {{ VALUES ({variables}) {{ {listed} }}{condition} }}{order}{part}", found.entity_count
