"""What a SPARQL query with predictions says of `?degree` and `?status`: conditions and an order, for an engine.

The rest of such a query is a tree (`tarbox.query.sparql`); its solutions have these two variables beside their own.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

OF_SOLUTIONS: Final = ("degree", "status")
"""The variables that every solution has."""
_JOINED: Final = {"ConditionalAndExpression": " && ", "ConditionalOrExpression": " || "}


def conjuncts(expression: Any) -> Iterator[Any]:
    """The conditions that must all hold, in rdflib's algebra."""
    if getattr(expression, "name", "") == "ConditionalAndExpression":
        for operand in (expression.expr, *expression.other):
            yield from conjuncts(operand)
    else:
        yield expression


def write_condition(expression: Any, names: tuple[str, ...] = OF_SOLUTIONS) -> str | None:
    """A condition over variables of these names as text; None for any other.

    Comparisons are written, of variables, literals and IRIs, and what `&&`, `||` and `!` make of them.
    """
    kind, name = type(expression).__name__, getattr(expression, "name", "")
    if kind in ("Variable", "Literal", "URIRef"):
        return str(expression.n3()) if kind != "Variable" or str(expression) in names else None
    if name == "RelationalExpression" and expression.op in ("=", "!=", "<", ">", "<=", ">="):
        parts, joint = [expression.expr, expression.other], f" {expression.op} "
    elif name in _JOINED:
        parts, joint = [expression.expr, *expression.other], _JOINED[name]
    elif name == "UnaryNot":
        inner = write_condition(expression.expr, names)
        return inner and f"(!{inner})"
    else:
        return None
    written = [write_condition(part, names) for part in parts]
    return f"({joint.join(filter(None, written))})" if all(written) else None
