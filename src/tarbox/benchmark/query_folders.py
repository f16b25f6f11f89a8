"""The folders of query files that the literature shares: KGReasoning's (BetaE) and Query2box's.

::

    id2ent.pkl id2rel.pkl                       names by id (also ind2ent.pkl, or ent2id.pkl the other way)
    train.txt valid.txt test.txt                facts, ids or names, with tabs (also train_indexified.txt), if any
    SPLIT-queries.pkl                           KGReasoning: groundings by structure (also SPLIT-2p-queries.pkl)
    train-answers.pkl SPLIT-easy-answers.pkl SPLIT-hard-answers.pkl         (or -tp- and -fn-), if any
    SPLIT_triples_2c.pkl                        Query2box: groundings with an answer, by name of the structure
    SPLIT_ans_2c.pkl SPLIT_ans_2c_hard.pkl      all answers, and the hard ones

A relation is there once in each direction: `+r` and `-r`, or `r` and `r_reverse` as in NELL995's files. Pickles can run
code, so containers, numbers and strings are let in, and nothing else.
"""

from __future__ import annotations

import pickle
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any, Final, final

import numpy as np

from tarbox.core.errors import SourceError
from tarbox.core.memory import available, in_words
from tarbox.kb.arrays import Places
from tarbox.kb.facts import SPLITS
from tarbox.query.algebra import Direction
from tarbox.query.betae import MARKS, STRUCTURES, UNION_FORMS, Structure, leaves

REVERSE: Final = "_reverse"
BETAE_FILES: Final = re.compile(rf"({'|'.join(SPLITS)})(-.+)?-queries\.pkl")
QUERY2BOX_FILES: Final = re.compile(rf"({'|'.join(SPLITS)})_(?:triples|ans)_([123uic]{{2}})(?:_hard)?\.pkl")
_EASY: Final = ("-easy-answers.pkl", "-tp-answers.pkl")
_HARD: Final = ("-hard-answers.pkl", "-fn-answers.pkl", "-answers.pkl")
_QUERY2BOX: Final = {"1c": "1p", "2c": "2p", "3c": "3p", "ci": "pi", "ic": "ip", "uc": "up"}
"""Names of templates that differ there."""
_GROWTH: Final = 26
"""How many times its size a pickle of sets of numbers takes in memory, at most: 77 bytes for a number of three."""

_DAMAGED = (
    *(pickle.UnpicklingError, EOFError, AttributeError, LookupError),
    *(TypeError, ValueError, OverflowError, RecursionError),
)
_ALLOWED: Final = frozenset(
    [(module, name) for module in ("builtins", "__builtin__") for name in ("set", "frozenset", "list", "dict", "tuple")]
    + [("collections", "defaultdict"), ("collections", "OrderedDict")]
)

AnswerIds = Sequence[Collection[int]]


@final
@dataclass(frozen=True, slots=True)
class GivenQueries:
    """The queries of one structure and split: their ids [Q, leaves] in the structure's order, without marks.

    `easy` and `hard` are their answers as the folder has them, or None; those of training queries are `hard`.
    """

    file: Path
    split: str
    structure: Structure
    numbers: Places
    easy: AnswerIds | None
    hard: AnswerIds | None


@final
@dataclass(frozen=True, slots=True)
class QueryFolder:
    """What a folder holds. `triples` [T, 3] by split are ids, a relation with its direction. `notes` say what was not
    read."""

    path: Path
    entities: tuple[str, ...]
    relations: tuple[tuple[str, Direction], ...]
    triples: Mapping[str, Places]
    queries: tuple[GivenQueries, ...]
    notes: tuple[str, ...] = ()


def read_query_folder(folder: Path, as_given: bool = False) -> QueryFolder | None:
    """The folder as its files say; None where it has no query files of either layout.

    Training answers that would not fit into memory are left out where facts give them, unless those given are wanted.
    """
    files = sorted(folder.glob("*.pkl"))
    betae = [(file, named[1]) for file in files if (named := BETAE_FILES.fullmatch(file.name))]
    pairs = dict.fromkeys(named.groups() for file in files if (named := QUERY2BOX_FILES.fullmatch(file.name)))
    if not betae and not pairs:
        return None
    entities, relations = _names(folder, "ent"), _names(folder, "rel")
    triples = {}
    for split in SPLITS:
        there = [file for end in ("", "_indexified") if (file := folder / f"{split}{end}.txt").exists()]
        if there:
            triples[split] = _triples(there[-1], entities, relations)
    notes: list[str] = []
    if "train" in triples and not as_given:
        notes += [note for file, split in betae if split == "train" and (note := _too_large(_answer_file(file, _HARD)))]
    given = [queries for file, split in betae for queries in _betae(file, split, answers=split != "train" or not notes)]
    given += [] if betae else [_query2box(folder, split, name) for split, name in pairs]
    for queries in given:
        _check_ids(queries, len(entities), len(relations))
    return QueryFolder(folder, tuple(entities), tuple(_directions(relations)), triples, tuple(given), tuple(notes))


def _too_large(file: Path | None) -> str | None:
    """What is to be said where the sets of a file would take more than half of the memory there is."""
    left, size = available(), 0 if file is None else _GROWTH * file.stat().st_size
    if file is None or left is None or size < left / 2:
        return None
    return (
        f"{file.name} is not compared: its sets may take {in_words(size)} of memory, and {in_words(left)} are there. "
        "The answers are computed from train.txt"
    )


def _names(folder: Path, kind: str) -> list[str]:
    for name in ("id", "ind"):
        for file, inverted in ((f"{name}2{kind}.pkl", False), (f"{kind}2{name}.pkl", True)):
            if (folder / file).exists():
                return _load_names(folder / file, inverted)
    raise SourceError(f"{folder} has query files and no id2{kind}.pkl, which says what their numbers stand for")


def _directions(names: Sequence[str]) -> Iterator[tuple[str, Direction]]:
    """What a name of a relation is without its direction; head to tail is `inverse` in Manchester syntax."""
    signed, there = all(name[:1] in ("+", "-") for name in names), set(names)
    for name in names:
        stem = name[1:] if signed else name.removesuffix(REVERSE)
        back = name[0] == "-" if signed else stem != name and stem in there
        yield stem if signed or back else name, Direction.FORWARD if back else Direction.INVERSE


def _triples(file: Path, entities: Sequence[str], relations: Sequence[str]) -> Places:
    """[T, 3] ids; a file has ids throughout, or names throughout, of relations without a sign."""
    try:
        lines = [tuple(line.split("\t")) for line in file.read_text(encoding="utf-8").splitlines() if line.strip()]
        if ragged := [line for line in lines if len(line) != 3]:
            raise ValueError(ragged[0])
        if all(cell.isdecimal() for cell in chain.from_iterable(lines)):
            ids = np.array(lines, np.int64).reshape(-1, 3)
        else:
            nodes = {name: number for number, name in enumerate(entities)}
            edges = {name.removeprefix("+"): number for number, name in enumerate(relations)}
            ids = np.array([(nodes[h], edges[r.removeprefix("+")], nodes[t]) for h, r, t in lines]).reshape(-1, 3)
    except (OSError, ValueError) as error:
        raise SourceError(f"{file}: expected head, relation and tail with tabs between them: {error}") from None
    except KeyError as error:
        raise SourceError(f"{file}: {error.args[0]!r} is not in the dictionaries of this folder") from None
    bounds = np.array([len(entities), len(relations), len(entities)])
    if (ids >= bounds).any():
        raise SourceError(f"{file}: {ids.max(axis=0).tolist()} are beyond the dictionaries, {bounds.tolist()}")
    return ids


def _answer_file(queries: Path, ends: Sequence[str]) -> Path | None:
    """The file with answers to those of a file of queries."""
    prefix = queries.name.removesuffix("-queries.pkl")
    return next((file for end in ends if (file := queries.with_name(prefix + end)).exists()), None)


def _betae(file: Path, split: str, answers: bool) -> Iterator[GivenQueries]:
    files = (_answer_file(file, ends) if answers else None for ends in (_EASY, _HARD))
    easy, hard = (None if own is None else _load_mapping(own) for own in files)
    for structure, groundings in _load_mapping(file).items():
        marks = tuple(leaves(structure))
        if not {"e", "r"} <= set(marks) <= {"e", "r", *MARKS}:
            raise SourceError(f"{file}: {structure!r} is no structure of KGReasoning's")
        ordered, numbers = _table(file, groundings, len(marks))
        for place, mark in enumerate(marks):
            if mark in MARKS and (numbers[:, place] != MARKS[mark]).any():
                raise SourceError(f"{file}: a grounding of {structure!r} does not have {MARKS[mark]} for {mark!r}")
        kept = numbers[:, [place for place, mark in enumerate(marks) if mark not in MARKS]]
        meant = UNION_FORMS.get(structure, structure)
        yield GivenQueries(file, split, meant, kept, _of(easy, ordered), _of(hard, ordered))


def _query2box(folder: Path, split: str, name: str) -> GivenQueries:
    """The keys of an answer file are groundings; a triple has an answer and a name after them, or around one chain."""
    files = [folder / f"{split}_{end}.pkl" for end in (f"ans_{name}", f"ans_{name}_hard", f"triples_{name}")]
    every, hard = (_load_mapping(file) if file.exists() else None for file in files[:2])
    given: Any = hard if every is None else every
    file = next(file for file in files if file.exists())
    if given is None:
        given = load_plain(file)
        if not isinstance(given, list | set) or not all(isinstance(row, tuple) and len(row) > 1 for row in given):
            raise SourceError(f"{file}: expected a list of Query2box's groundings")
        given = {(row[0][:2],) if len(row) == 2 else row[:-2] for row in given}
    structure = STRUCTURES.get(_QUERY2BOX.get(name, name))
    if structure is None:
        raise SourceError(f"{file}: {name!r} is no structure of Query2box's")
    ordered, numbers = _table(file, given, sum(mark not in MARKS for mark in leaves(structure)))
    if split == "train":
        return GivenQueries(file, split, structure, numbers, None, _of(every, ordered))
    easy = None if every is None or hard is None else [set(every[key]) - set(hard.get(key, ())) for key in ordered]
    return GivenQueries(file, split, structure, numbers, easy, _of(hard, ordered))


def _of(answers: Mapping[Any, Collection[int]] | None, groundings: Sequence[Any]) -> AnswerIds | None:
    return None if answers is None else [answers.get(key, ()) for key in groundings]


def _table(file: Path, groundings: Iterable[Any], width: int) -> tuple[list[Any], Places]:
    """The groundings in order, and their leaves [Q, width]."""
    try:
        rows = {grounding: tuple(leaves(grounding)) for grounding in groundings}
    except TypeError:
        raise SourceError(f"{file}: a grounding is a tuple of tuples and numbers, and one here has a list") from None
    for row in rows.values():
        if len(row) != width or not all(type(number) is int for number in row):
            raise SourceError(f"{file}: {row} are not the {width} numbers of a grounding")
    ordered = sorted(rows, key=rows.__getitem__)
    return ordered, np.array([rows[grounding] for grounding in ordered], np.int64).reshape(-1, width)


def _check_ids(given: GivenQueries, entities: int, relations: int) -> None:
    kept = [mark for mark in leaves(given.structure) if mark not in MARKS]
    for column, mark in zip(given.numbers.T, kept, strict=True):
        kind, bound = ("entity", entities) if mark == "e" else ("relation", relations)
        if ((column < 0) | (column >= bound)).any():
            raise SourceError(f"{given.file}: there is no {kind} {column.max()}: the dictionary has {bound:,}")


@final
class _PlainUnpickler(pickle.Unpickler):
    """Lets in containers and nothing that could run code."""

    def find_class(self, module: str, name: str) -> Any:
        if (module, name) not in _ALLOWED:
            allowed = "only sets, lists, tuples, dicts, strings and Python's own numbers are"
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
    except MemoryError:
        raise SourceError(f"{path}: damaged, or too large for the memory of this machine") from None
    except _DAMAGED as error:
        raise SourceError(f"{path}: not a pickle, or a damaged one: {error}") from error


def _load_mapping(path: Path) -> dict[Any, Any]:
    """A dictionary whose values are collections."""
    found = load_plain(path)
    if not isinstance(found, dict) or not all(isinstance(rows, set | frozenset | list) for rows in found.values()):
        raise SourceError(f"{path}: expected a dictionary of sets")
    return found


def _load_names(path: Path, inverted: bool) -> list[str]:
    """The names of ``id2ent.pkl`` by id, or of ``ent2id.pkl``, which is `inverted`; the ids count from zero."""
    found = load_plain(path)
    if isinstance(found, dict) and inverted:
        found = {number: name for name, number in found.items()}
    if not isinstance(found, dict) or set(found) != set(range(len(found))):
        raise SourceError(f"{path}: expected a dictionary from 0, 1, 2, ... to names, or from these to it")
    return [str(found[row]) for row in range(len(found))]
