"""An axiom is data: a nested tuple in the words of OWL 2 functional syntax, and that syntax as its text.

`SubClassOf(A ObjectSomeValuesFrom(p B))` is `("SubClassOf", A, ("ObjectSomeValuesFrom", p, B))`. Names are terms as the
knowledge base writes them: an IRI stands bare, a literal in its quoted N-Triples form, a blank node with `_:`.
Cardinalities are digits. A list of arguments without a word, as in `HasKey`, is a tuple that begins with "".
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Final, TypeAlias

from tarbox.core.errors import SourceError

Axiom: TypeAlias = "tuple[str | Axiom, ...]"

_TOKEN: Final = re.compile(
    r"""\s*(?:(?P<iri><[^<>"{}|^`\\\s]*>)
        |(?P<literal>"(?:[^"\\]|\\.)*"(?:@[A-Za-z0-9-]+|\^\^<[^<>\s]*>)?)
        |(?P<word>[A-Za-z]*)\(|(?P<close>\))
        |(?P<blank>_:[^\s()]+)|(?P<digits>\d+))""",
    re.X | re.S,
)


def write_axiom(axiom: Axiom) -> str:
    """The axiom in functional syntax, with full IRIs, on one line."""
    word, *arguments = axiom
    return f"{word}({' '.join(_argument(argument) for argument in arguments)})"


def _argument(argument: str | Axiom) -> str:
    if isinstance(argument, tuple):
        return write_axiom(argument)
    plain = argument.startswith(('"', "_:")) or argument.isdigit()
    return argument if plain else f"<{argument}>"


def write_axioms(axioms: Iterable[Axiom]) -> str:
    """One axiom a line."""
    return "".join(write_axiom(axiom) + "\n" for axiom in axioms)


def read_axioms(text: str) -> Iterator[Axiom]:
    """The axioms of a text with full IRIs, as `write_axioms` makes it."""
    place, end = 0, len(text.rstrip())
    stack: list[list[str | Axiom]] = []
    while place < end:
        found = _TOKEN.match(text, place)
        if found is None:
            line = text.count("\n", 0, place) + 1
            raise SourceError(f"axioms, line {line}: {text[place : place + 40].strip()!r} is not functional syntax")
        place = found.end()
        kind, token = found.lastgroup, found[found.lastgroup or 0]
        if kind == "word":
            stack.append([token])
        elif kind == "close" and stack:
            done = tuple(stack.pop())
            if stack:
                stack[-1].append(done)
            else:
                yield done
        elif stack:
            stack[-1].append(token[1:-1] if kind == "iri" else token)
        else:
            raise SourceError(f"axioms: {token!r} stands outside of an axiom")
    if stack:
        raise SourceError(f"axioms: {stack[-1][0]}( is not closed; the text ends too early")
