"""Pickles of plain containers, as the field's query files are. Pickles can run code, so nothing else is let in."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any, Final, final

from tarbox.core.errors import SourceError

_DAMAGED = (pickle.UnpicklingError, EOFError, AttributeError, LookupError, TypeError, ValueError, RecursionError)
_ALLOWED: Final = frozenset(
    [(module, name) for module in ("builtins", "__builtin__") for name in ("set", "frozenset", "list", "dict", "tuple")]
    + [("collections", "defaultdict"), ("collections", "OrderedDict")]
)


@final
class _PlainUnpickler(pickle.Unpickler):
    """Lets in containers and nothing that could run code."""

    def find_class(self, module: str, name: str) -> Any:
        if (module, name) not in _ALLOWED:
            allowed = "only sets, lists, tuples, dicts, numbers and strings are"
            raise SourceError(f"{module}.{name} is not let in from a pickle, which could run code; {allowed}")
        return super().find_class(module, name)


def load_plain(path: Path) -> object:
    """The plain containers of a pickle; anything else in it is a `SourceError`."""
    try:
        with path.open("rb") as file:
            return _PlainUnpickler(file).load()
    except SourceError as error:
        raise SourceError(f"{path}: {error}") from error
    except OSError as error:
        raise SourceError(f"{path}: cannot be read: {error.strerror}") from error
    except _DAMAGED as error:
        raise SourceError(f"{path}: not a pickle, or a damaged one: {error}") from error


def load_mapping(path: Path) -> dict[Any, Any]:
    """A dictionary whose values are collections."""
    found = load_plain(path)
    if not isinstance(found, dict) or not all(isinstance(rows, set | frozenset | list) for rows in found.values()):
        raise SourceError(f"{path}: expected a dictionary of sets")
    return found


def load_names(path: Path, inverted: bool) -> list[str]:
    """The names of ``id2ent.pkl`` by id, or of ``ent2id.pkl``, which is `inverted`; the ids count from zero."""
    found = load_plain(path)
    if isinstance(found, dict) and inverted:
        found = {number: name for name, number in found.items()}
    if not isinstance(found, dict) or set(found) != set(range(len(found))):
        raise SourceError(f"{path}: expected a dictionary from 0, 1, 2, ... to names, or from these to it")
    return [str(found[row]) for row in range(len(found))]
