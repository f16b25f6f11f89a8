"""Settings: a frozen dataclass per component, read from TOML tables; unknown keys are errors that list the known ones.

A field may be a bool, int, float, str, an `Enum` (by its value), another dataclass (a sub-table), a tuple of these, or
one of them or None.
"""

from __future__ import annotations

import json
import types
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import fields, is_dataclass
from difflib import get_close_matches
from enum import Enum
from math import isfinite
from typing import Any, TypeVar, Union, cast, get_args, get_origin, get_type_hints

from tarbox.core.errors import ConfigError

T = TypeVar("T")
Table = Mapping[str, Any]


def read_config(kind: type[T], table: Table, where: str = "") -> T:
    """The settings of type `kind` that a table holds; what it leaves out keeps its default.

    >>> from dataclasses import dataclass
    >>> @dataclass(frozen=True)
    ... class Adam:
    ...     rate: float = 0.1
    >>> read_config(Adam, {"rate": 1})
    Adam(rate=1.0)
    """
    hints = get_type_hints(kind)
    known = [field.name for field in fields(cast(Any, kind))]
    for key in table:
        if key not in hints or key not in known:
            raise unknown_key(_join(where, key), [_join(where, name) for name in known])
    return kind(**{key: _read(hints[key], value, _join(where, key)) for key, value in table.items()})


def unknown_key(key: str, known: list[str]) -> ConfigError:
    """The error for a setting that does not exist."""
    near = get_close_matches(key, known, 1)
    advice = f"Did you mean {near[0]!r}? " if near else ""
    return ConfigError(f"no setting {key!r}. {advice}Known here: {', '.join(known) or 'none'}.")


def check_settings(config: Any, choices: Mapping[str, Iterable[object]], positive: Iterable[str] = ()) -> None:
    """Refuse a setting that is none of its choices, and a number that must be greater than 0 and is not."""
    for name, allowed in choices.items():
        if getattr(config, name) not in allowed:
            known = ", ".join(map(str, allowed))
            raise ConfigError(f"{name} = {getattr(config, name)!r}: choose one of {known}")
    for name in positive:
        if not getattr(config, name) > 0:
            raise ConfigError(f"{name} = {getattr(config, name)}: it must be greater than 0")


def to_table(config: Any) -> dict[str, Any]:
    """The settings as plain values: the inverse of `read_config`. None is left out."""
    found = {}
    for field in fields(config):
        value = _plain(getattr(config, field.name))
        if value is not None:
            found[field.name] = value
    return found


def to_toml(table: Table, prefix: str = "") -> str:
    """A table as TOML: scalars and lists first, then sub-tables under their dotted names."""
    lines = [f"{key} = {_literal(value)}" for key, value in table.items() if not isinstance(value, Mapping)]
    parts = ["\n".join(lines) + "\n"] if lines else []
    for key, value in table.items():
        if isinstance(value, Mapping):
            name = _join(prefix, key)
            only_tables = value and all(isinstance(part, Mapping) for part in value.values())
            parts.append(("" if only_tables else f"[{name}]\n") + to_toml(value, name))
    return "\n".join(part for part in parts if part)


def flatten(table: Table, prefix: str = "") -> Iterator[tuple[str, Any]]:
    """(dotted key, value) of every setting that is no table."""
    for key, value in table.items():
        if isinstance(value, Mapping):
            yield from flatten(value, _join(prefix, key))
        else:
            yield _join(prefix, key), value


def merge(base: Table, over: Table) -> dict[str, Any]:
    """The settings of `base`, replaced by those of `over` where it has them."""
    merged = dict(base)
    for key, value in over.items():
        old = merged.get(key)
        merged[key] = merge(old, value) if isinstance(old, Mapping) and isinstance(value, Mapping) else value
    return merged


def _read(hint: Any, value: Any, where: str) -> Any:
    if isinstance(hint, type) and is_dataclass(hint):
        if not isinstance(value, Mapping):
            raise ConfigError(f"{where} is a table of settings, not {value!r}")
        return read_config(hint, value, where)
    if get_origin(hint) in (Union, types.UnionType):
        options = [option for option in get_args(hint) if option is not type(None)]
        return None if value is None else _read(options[0], value, where)
    if get_origin(hint) is tuple:
        if not isinstance(value, list | tuple):
            raise ConfigError(f"{where} is a list, not {value!r}")
        return tuple(_read(get_args(hint)[0], item, where) for item in value)
    if isinstance(hint, type) and issubclass(hint, Enum):
        return _read_enum(hint, value, where)
    return _read_scalar(hint, value, where)


def _read_enum(kind: type[Enum], value: Any, where: str) -> Enum:
    for member in kind:
        if value == member.value or value is member:
            return member
    raise ConfigError(f"{where} is {value!r}; it must be one of {', '.join(str(member.value) for member in kind)}")


_SCALARS: Mapping[type, tuple[str, Callable[[Any], bool]]] = {
    bool: ("true or false", lambda value: isinstance(value, bool)),
    int: ("a whole number", lambda value: isinstance(value, int) and not isinstance(value, bool)),
    float: (
        "a number",
        lambda value: isinstance(value, int | float) and not isinstance(value, bool) and isfinite(value),
    ),
    str: ("a text", lambda value: isinstance(value, str)),
}


def _read_scalar(hint: Any, value: Any, where: str) -> Any:
    name, fits = _SCALARS[hint]
    if not fits(value):
        raise ConfigError(f"{where} is {value!r}; it must be {name}")
    return hint(value)


def _plain(value: Any) -> Any:
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, tuple | list | frozenset):
        return [_plain(item) for item in value]
    return to_table(value) if is_dataclass(value) and not isinstance(value, type) else value


def _literal(value: Any) -> str:
    if isinstance(value, float):
        return repr(value)
    return json.dumps(value, ensure_ascii=False)


def _join(prefix: str, key: str) -> str:
    return f"{prefix}.{key}" if prefix else key
