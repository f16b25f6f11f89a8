"""Rules as SQL: what `RuleForm` says of each form, read as a join (ADR 60).

What is known are the tables `edge` and `membership`, each edge in both directions. A rule's sentence is a list of such
rows and a conclusion: `r(x, y), y in c -> x in d`. To find what follows anew, one of the rows is taken from what is
new, the others from what is known, once for each of them; letters that are no individual stand for a row of `rule`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final, final

from tarbox.kb.reasoning.compiled_rules import CompiledRules
from tarbox.kb.reasoning.rules import ANY, RuleForm

_ATOM: Final = re.compile(r"(?P<role>\w)\((?P<x>\w), (?P<y>\w)\)|(?P<who>\w) in (?P<concept>\w)")
_LETTER: Final = re.compile(r"\b[a-w]\b")  # x, y, z are individuals
RULE_COLUMNS: Final = ("a", "b", "c")
INCLUSIONS: Final = (RuleForm.SUB, RuleForm.ROLE)  # which are closed, in `told` and `role_above`


@final
@dataclass(frozen=True, slots=True)
class RuleAtom:
    """That individuals have a role, or one a concept; `name` is that role or concept."""

    name: str
    individuals: tuple[str, ...]

    @property
    def columns(self) -> tuple[str, ...]:
        """Those of its table: that of the name, those of the individuals."""
        return ("role", "x", "y") if len(self.individuals) == 2 else ("concept", "x")

    @property
    def table(self) -> str:
        return "edge" if len(self.individuals) == 2 else "membership"


def atoms_of(sentence: str) -> list[RuleAtom]:
    return [
        RuleAtom(found["role"], (found["x"], found["y"]))
        if found["role"]
        else RuleAtom(found["concept"], (found["who"],))
        for found in _ATOM.finditer(sentence)
    ]


def letters_of(form: RuleForm) -> list[str]:
    """What a rule of this form is about, in the order of its columns."""
    return list(dict.fromkeys(_LETTER.findall(form.value[1])))


def rule_rows(form: RuleForm) -> str:
    columns = ", ".join(f"{column} AS {letter}" for column, letter in zip(RULE_COLUMNS, letters_of(form), strict=False))
    return f"(SELECT {columns}, axiom FROM rule WHERE form = '{form.name}')"


def concluded(compiled: CompiledRules, kind: str, new: str) -> list[str]:
    """SQL for the rows of `edge` or `membership`, without those that follow by inclusion, that rules find when the
    tables whose names begin with `new` are added to what is known. Forms without a rule are left out."""
    found: list[str] = []
    for form, rows in compiled.table.items():
        heads = atoms_of(form.value[1].partition(" -> ")[2])
        if form in INCLUSIONS or not len(rows) or [head.table for head in heads] != [kind]:
            continue
        for body, unbound in _bodies(form, compiled):
            for delta in range(len(body)):
                source, bound = join_atoms(form, body, delta, new)
                found.append(_conclude(heads[0], bound, source) + _where(unbound))
    return found


def _bodies(form: RuleForm, compiled: CompiledRules) -> Iterator[tuple[list[RuleAtom], str | None]]:
    """The conditions; and for rules that ask for ANY in the place of a concept, without what says it."""
    body = atoms_of(form.value[1].partition(" -> ")[0])
    yield body, None
    for place, letter in enumerate(letters_of(form)):
        if form.value[0][place] == "C" and (compiled.table[form][:, place] == ANY).any():
            yield [atom for atom in body if atom.name != letter], letter


def _where(letter: str | None) -> str:
    return f" WHERE rule.{letter} = {ANY}" if letter else ""


def join_atoms(form: RuleForm, body: Sequence[RuleAtom], delta: int, new: str) -> tuple[str, dict[str, str]]:
    """SQL for what to select from, in which `delta` is of what is new; and for the value of each letter."""
    bound = {letter: f"rule.{letter}" for letter in letters_of(form)}
    source = ""
    for number, atom in enumerate([body[delta], *body[:delta], *body[delta + 1 :]]):
        name, *columns = atom.columns
        conditions = [f"t{number}.{name} = rule.{atom.name}"]
        for column, individual in zip(columns, atom.individuals, strict=True):
            if individual in bound:
                conditions.append(f"t{number}.{column} = {bound[individual]}")
            else:
                bound[individual] = f"t{number}.{column}"
        if number:
            source += f" JOIN {atom.table} AS t{number} ON {' AND '.join(conditions)}"
        else:
            source = f"{new}{atom.table} AS t0 JOIN {rule_rows(form)} AS rule ON {' AND '.join(conditions)}"
    return source, bound


def _conclude(head: RuleAtom, bound: dict[str, str], source: str) -> str:
    name, *columns = head.columns
    values = [f"{bound[head.name]} AS {name}"]
    for column, individual in zip(columns, head.individuals, strict=True):
        if individual == "a":  # which may be another one by now
            source += " LEFT JOIN same_as ON rule.a = same_as.x"
        values.append(f"{'coalesce(same_as.root, rule.a)' if individual == 'a' else bound[individual]} AS {column}")
    return f"SELECT {', '.join(values)} FROM {source}"


def next_edges(found: Sequence[str]) -> str:
    """New edges with those above them, in both directions."""
    return f"""SELECT above AS role, CASE WHEN is_back THEN y ELSE x END AS x, CASE WHEN is_back THEN x ELSE y END AS y
               FROM ({" UNION ALL ".join(found)}) AS found JOIN role_above ON found.role = role_above.role"""


def next_memberships(found: Sequence[str]) -> str:
    """New memberships with those above them."""
    return f"""SELECT x, above AS concept FROM ({" UNION ALL ".join(found)}) AS found
               JOIN told ON found.concept = told.concept"""


SAME: Final = f"""SELECT x AS whose, x, a AS y, axiom
    FROM membership JOIN {rule_rows(RuleForm.SAME)} AS rule ON concept = rule.c
    ORDER BY x, rule.c, a, axiom"""
SINGLE: Final = f"""SELECT x AS whose, y, z, axiom FROM (
      SELECT t.x, t.y, lead(t.y) OVER (PARTITION BY c, r, d, axiom, t.x ORDER BY t.y) AS z, c, r, d, axiom
      FROM edge AS t JOIN {rule_rows(RuleForm.SINGLE)} AS rule ON t.role = r
      LEFT JOIN membership AS guard ON guard.x = t.x AND guard.concept = c
      LEFT JOIN membership AS filler ON filler.x = t.y AND filler.concept = d
      WHERE (c = {ANY} OR guard.x IS NOT NULL) AND (d = {ANY} OR filler.x IS NOT NULL)) AS neighbour
    WHERE z IS NOT NULL ORDER BY c, r, d, axiom, x, y"""
"""(whose, x, y, axiom) as of `Saturation._equalities`, in its order: that x is y follows."""
