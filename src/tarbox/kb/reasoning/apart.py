"""Where an expression stands, asked in a process of its own: rustdl keeps the interpreter to itself while it works, and
only a process can be stopped."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from tarbox.core.errors import Overloaded, TarboxError
from tarbox.kb.axioms import Axiom
from tarbox.kb.reasoning.desugaring import Term
from tarbox.kb.reasoning.entailment import ExpressionPlace, query_expression


def query_apart(axioms: Sequence[Axiom], expression: Term, seconds: float) -> ExpressionPlace:
    """What `query_expression` finds of classes by saturation; raises `Overloaded` after so many seconds."""
    command, given = [sys.executable, "-m", __name__], json.dumps([axioms, expression]).encode()
    try:
        done = subprocess.run(command, input=given, capture_output=True, timeout=seconds, check=False)
    except subprocess.TimeoutExpired:
        raise Overloaded(
            f"Reasoning about this expression took more than {seconds:.2g} seconds. `tarbox serve --timeout` sets the "
            "limit; `tarbox concept` has none."
        ) from None
    if done.returncode:
        reason = done.stderr.decode(errors="replace").strip().rpartition("\n")[2]
        raise TarboxError(f"the reasoner failed: {reason or f'exit code {done.returncode}'}")
    found: dict[str, Any] = json.loads(done.stdout)
    sets = {key: frozenset(value) for key, value in found.items() if isinstance(value, list)}
    return ExpressionPlace(**found | sets)


def main() -> None:
    """Axioms and an expression as JSON on the standard input, the place on the standard output."""
    axioms, expression = _tuples(json.load(sys.stdin))
    json.dump(asdict(query_expression(axioms, expression, None, individuals=False)), sys.stdout, default=sorted)


def _tuples(read: Term) -> Term:
    return tuple(map(_tuples, read)) if isinstance(read, list) else read


if __name__ == "__main__":
    main()
