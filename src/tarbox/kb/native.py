"""Libraries of native code that may panic: `isolated` turns a panic into an error of ours and keeps its stack trace off
the user's terminal."""

from __future__ import annotations

import os
import re
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager

_LINE_AND_COLUMN = re.compile(r"line_col: (?:Pos|Span)\(\(?\(?(\d+), (\d+)")
_PLACE = re.compile(r"(?:line |-->\s*)(\d+)")


class LibraryFailure(Exception):
    """A reader library refused its input or panicked; `line` is where, if it knows."""

    def __init__(self, reason: str, line: int = 1) -> None:
        super().__init__(reason)
        self.line = line


@contextmanager
def isolated(library: str) -> Iterator[None]:
    """Run native code: a panic or a refusal becomes a LibraryFailure, and what it prints on stderr is swallowed."""
    saved = os.dup(2)
    with tempfile.TemporaryFile() as sink:
        os.dup2(sink.fileno(), 2)
        try:
            yield
        except (ValueError, SyntaxError, OSError, RuntimeError) as error:
            text = str(getattr(error, "msg", None) or error)
            found = _LINE_AND_COLUMN.search(text) or _PLACE.search(text)
            line = getattr(error, "lineno", None) or (int(found.group(1)) if found else 1)
            raise LibraryFailure(_short(text), line) from None
        except BaseException as error:
            if type(error).__name__ != "PanicException":  # pyo3's, derived from BaseException
                raise
            raise LibraryFailure(f"{library} panicked: {_short(str(error))}") from None
        finally:
            os.dup2(saved, 2)
            os.close(saved)


def _short(text: str) -> str:
    expected = re.search(r"positives: \[([^\]]*)\]", text)
    if expected:
        words = re.sub(r"\b(\w+)Kw\b", lambda word: f"'{word[1].lower()}'", expected.group(1))
        return f"expected {words.replace('EOI', 'the end') or 'something else'}"
    first = next((line.strip() for line in text.splitlines() if line.strip()), "it cannot be parsed")
    return first[:200]
