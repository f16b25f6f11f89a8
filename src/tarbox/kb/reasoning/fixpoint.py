"""The rules applied to all facts at once until nothing new follows: semi-naive evaluation over sorted numbers.

Two sorted arrays hold what is known: *edges* `(role * W + x) * W + y`, each in both directions, so that every join
is a look-up by (role, x); and *types* `x * K + concept`, for the concepts that some rule asks for. In each round only
what is new is joined with what is known. Individuals that turn out to be the same are one number from then on.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final, final

import numpy as np

from tarbox.core.errors import TarboxError
from tarbox.kb.arrays import Flags, Keys, Places
from tarbox.kb.closure import Hierarchy
from tarbox.kb.facts import Facts
from tarbox.kb.reasoning.rules import ANY, EVERYBODY, RuleForm, RuleSet
from tarbox.kb.rows import Rows, TripleKeys, contains, distinct, pair_keys, ranges

_ROWS: Final = 1 << 20
"""How many new facts are joined at a time, and how many results of a join are held at a time."""
MOST_FACTS: Final = 200_000_000
"""More facts than this are not inferred: the relation that makes them is not what its axiom says."""


@final
class Saturation:
    """What follows from facts by rules. `edges` and `types` are closed once `run` is over.

    With `whole` the members of every expression are kept, not only of those that a rule asks for.
    `same[x]` is the individual that stands for x; `clashes` are (individual, axiom) found outside of `types`.
    """

    def __init__(self, rules: RuleSet, facts: Facts, whole: bool = False) -> None:
        self.rules = rules
        self.table = {
            form: np.array(sorted(set(rules.table.get(form, ()))), np.int64).reshape(-1, len(form.value[0]) + 1)
            for form in RuleForm
        }
        self.width, self.kinds = len(rules.entities), len(rules.concepts)
        self.triples = TripleKeys(self.width)
        self.hierarchy = Hierarchy.of(
            np.append(facts.subs, self.table[RuleForm.SUB][:, 0]).astype(np.int32),
            np.append(facts.supers, self.table[RuleForm.SUB][:, 1]).astype(np.int32),
            self.kinds,
        )
        self.literal = np.arange(self.width) < literal_count(facts)
        for term, number in rules.entities.more.items():
            self.literal[number] = term.startswith('"')
        self._above = _upward(self.table[RuleForm.ROLE], 2 * len(rules.relations))
        self._chains = _both_ways(self.table[RuleForm.CHAIN])
        self._conjunctions = np.concatenate(
            [self.table[RuleForm.BOTH], self.table[RuleForm.BOTH][:, [1, 0, 2, 3]]]  # each premise may be the new one
        )
        self._asked, self._told = self._concepts_to_keep(whole)
        self.same = np.arange(self.width)
        self.clashes: set[tuple[int, int]] = set()
        self.edges: Keys = np.empty(0, np.int64)
        self.types: Keys = np.empty(0, np.int64)

    def _concepts_to_keep(self, whole: bool) -> tuple[Rows, Rows]:
        """For each concept the ones above it that a rule asks for; and with the named ones that its members get."""
        asked = np.full(self.kinds, whole)
        for form, rows in self.table.items():
            numbers = rows[:, form.places("C")]
            asked[numbers[numbers >= 0]] = True
        for expression, number in self.rules.concepts.more.items():
            asked[number] |= expression[0] == "contradiction"
        lower, upper = self.hierarchy.ancestors.coordinates()
        named = np.ones(self.kinds, np.bool_)
        for expression, number in self.rules.concepts.more.items():
            named[number] = isinstance(expression, str)
        chosen = asked[upper]
        told = (lower == upper) & named[lower]
        inner = np.flatnonzero(~named[lower] & named[upper])
        told[inner[self.hierarchy.most_specific(lower[inner], upper[inner])]] = True
        return (
            Rows.of(lower[chosen], upper[chosen], self.kinds, self.kinds),
            Rows.of(lower[chosen | told], upper[chosen | told], self.kinds, self.kinds),
        )

    def run(self, facts: Facts) -> None:
        """To the fixpoint, from the given facts."""
        edges, types = self._given(facts)
        while len(edges) or len(types):
            self._grow(edges, types)
            edges, types = self._merge()

    def _given(self, facts: Facts) -> tuple[Keys, Keys]:
        used = np.zeros(len(self.rules.relations), np.bool_)
        for form, rows in self.table.items():
            used[rows[:, form.places("r")] // 2] = True
        here = used[facts.relations]
        edges = self._edges(2 * facts.relations[here], facts.heads[here], facts.tails[here])
        origin, concepts = self._asked.gather(facts.types)
        types = [pair_keys(facts.typed[origin], concepts, self.kinds)]
        members = self.table[RuleForm.MEMBER]
        types.append(self._types(members[:, 0], members[:, 1]))
        everybody = self.rules.concepts.more.get(EVERYBODY)
        if everybody is not None:
            entities = np.flatnonzero(~self.literal)
            types.append(self._types(entities, np.full(len(entities), everybody)))
        return distinct(edges), distinct(np.concatenate(types))

    def _grow(self, edges: Keys, types: Keys) -> None:
        while len(edges) or len(types):
            self.edges, self.types = _merged(self.edges, edges), _merged(self.types, types)
            if len(self.edges) + len(self.types) > MOST_FACTS:
                raise TarboxError(
                    f"more than {MOST_FACTS:,} facts would follow. Build with --infer rdfs, or leave out the axiom "
                    "that makes so many: a transitive or symmetric relation, or a chain."
                )
            found: tuple[list[Keys], list[Keys]] = ([], [])
            for new in _pieces(edges):
                for kind, keys in self._from_edges(new):
                    self._keep(found, kind, keys)
            for new in _pieces(types):
                for kind, keys in self._from_types(new):
                    self._keep(found, kind, keys)
            edges, types = (distinct(np.concatenate([np.empty(0, np.int64), *kept])) for kept in found)

    def _keep(self, found: tuple[list[Keys], list[Keys]], kind: int, keys: Keys) -> None:
        keys = distinct(keys)
        keys = keys[~contains(self.types if kind else self.edges, keys)]
        if len(keys):
            found[kind].append(keys)

    def _edges(self, roles: Any, heads: Any, tails: Any) -> Keys:
        """Edges with those that follow by role inclusion, in both directions."""
        origin, above = self._above.gather(roles)
        heads, tails = np.asarray(heads)[origin], np.asarray(tails)[origin]
        forth, back = self.triples.encode(above, heads, tails), self.triples.encode(above ^ 1, tails, heads)
        return np.concatenate([forth, back])

    def _types(self, entities: Any, concepts: Any) -> Keys:
        """Memberships with those that a rule or the store asks for, by inclusion; literals are in no concept."""
        origin, above = self._told.gather(concepts)
        return pair_keys(np.asarray(entities)[origin], above, self.kinds)

    def _from_edges(self, new: Keys) -> Iterator[tuple[int, Keys]]:
        roles, heads, tails = self.triples.decode(new)
        some = self.table[RuleForm.SOME]
        anyone, some = some[some[:, 1] == ANY], some[some[:, 1] != ANY]
        at, rule = _match(anyone[:, 0], roles)
        yield 1, self._types(heads[at], anyone[rule, 2])
        pairs = pair_keys(some[:, 0], some[:, 1], self.kinds)
        used = np.flatnonzero(np.isin(roles, some[:, 0]))
        for at, concepts in _look_up(self.types, tails[used], self.kinds):
            place = used[at]
            hit, rule = _match(pairs, pair_keys(roles[place], concepts, self.kinds))
            yield 1, self._types(heads[place[hit]], some[rule, 2])
        loops = np.flatnonzero(heads == tails)
        at, rule = _match(self.table[RuleForm.SELF][:, 0], roles[loops])
        yield 1, self._types(heads[loops[at]], self.table[RuleForm.SELF][rule, 1])
        at, rule = _match(self._chains[:, 0], roles)
        for hit, ends in _look_up(self.edges, self._chains[rule, 1] * self.width + tails[at], self.width):
            yield 0, self._edges(self._chains[rule[hit], 2], heads[at[hit]], ends)

    def _from_types(self, new: Keys) -> Iterator[tuple[int, Keys]]:
        entities, concepts = np.divmod(new, self.kinds)
        some, value, loop = (self.table[form] for form in (RuleForm.SOME, RuleForm.VALUE, RuleForm.LOOP))
        at, rule = _match(some[:, 1], concepts)
        for hit, heads in _look_up(self.edges, (some[rule, 0] ^ 1) * self.width + entities[at], self.width):
            yield 1, self._types(heads, some[rule[hit], 2])
        pairs = pair_keys(self._conjunctions[:, 0], self._conjunctions[:, 1], self.kinds)
        used = np.flatnonzero(np.isin(concepts, self._conjunctions[:, 0]))
        for at, others in _look_up(self.types, entities[used], self.kinds):
            place = used[at]
            hit, rule = _match(pairs, pair_keys(concepts[place], others, self.kinds))
            yield 1, self._types(entities[place[hit]], self._conjunctions[rule, 2])
        at, rule = _match(value[:, 0], concepts)
        yield 0, self._edges(value[rule, 1], entities[at], self.same[value[rule, 2]])
        at, rule = _match(loop[:, 0], concepts)
        yield 0, self._edges(loop[rule, 1], entities[at], entities[at])

    def _merge(self) -> tuple[Keys, Keys]:
        """Make one of individuals that are the same; returns the facts about those, to be joined again."""
        first: dict[int, int] = {}

        def root(x: int) -> int:
            while first.get(x, x) != x:
                x = first[x]
            return x

        for x, y, axiom in self._equalities():
            one, other = sorted((root(x), root(y)))
            if one != other and (self.literal[one] or self.literal[other]):
                self.clashes.add((other, axiom))  # two values are not the same, and none is an individual
            elif one != other:
                first[other] = one
        if not first:
            return np.empty(0, np.int64), np.empty(0, np.int64)
        moved = np.zeros(self.width, np.bool_)
        standing = np.arange(self.width)
        for x in first:
            standing[x] = root(x)
            moved[standing[x]] = True
        self.same = standing[self.same]
        roles, heads, tails = self.triples.decode(self.edges)
        heads, tails = standing[heads], standing[tails]
        self.edges, touched = distinct(self.triples.encode(roles, heads, tails)), moved[heads] | moved[tails]
        entities, concepts = np.divmod(self.types, self.kinds)
        entities = standing[entities]
        self.types = distinct(pair_keys(entities, concepts, self.kinds))
        again = pair_keys(entities[moved[entities]], concepts[moved[entities]], self.kinds)
        return distinct(self.triples.encode(roles[touched], heads[touched], tails[touched])), distinct(again)

    def _equalities(self) -> Iterator[tuple[int, int, int]]:
        """(x, y, axiom): that x is y follows from the axiom."""
        entities, concepts = np.divmod(self.types, self.kinds)
        table = self.table[RuleForm.SAME]
        at, rule = _match(table[:, 0], concepts)
        yield from zip(entities[at].tolist(), self.same[table[rule, 1]].tolist(), table[rule, 2].tolist(), strict=True)
        for guard, role, filler, axiom in self.table[RuleForm.SINGLE].tolist():
            heads, tails = self.edges_of(role)
            keep = self.in_concept(heads, guard) & self.in_concept(tails, filler)
            heads, tails = heads[keep], tails[keep]
            for place in np.flatnonzero(heads[1:] == heads[:-1]).tolist():
                yield int(tails[place]), int(tails[place + 1]), axiom

    def edges_of(self, role: int) -> tuple[Keys, Keys]:
        """(heads, tails) of a role, sorted."""
        square = self.width * self.width
        first, last = np.searchsorted(self.edges, [role * square, (role + 1) * square])
        _, heads, tails = self.triples.decode(self.edges[first:last])
        return heads, tails

    def in_concept(self, entities: Any, concept: int) -> Flags:
        if concept == ANY:
            return np.ones(len(entities), np.bool_)
        return contains(self.types, pair_keys(entities, np.full(len(entities), concept), self.kinds))

    def contradictions(self) -> set[tuple[int, int]]:
        """(individual, axiom) for all that cannot be, once `run` is over."""
        found = set(self.clashes)
        axiom_of = np.full(self.kinds, -1)
        for expression, number in self.rules.concepts.more.items():
            if expression[0] == "contradiction":
                axiom_of[number] = int(expression[1])
        entities, concepts = np.divmod(self.types, self.kinds)
        clash = axiom_of[concepts] >= 0
        found |= set(zip(entities[clash].tolist(), axiom_of[concepts[clash]].tolist(), strict=True))
        for one, other, axiom in self.table[RuleForm.DISJOINT].tolist():
            heads, tails = self.edges_of(one)
            among = contains(self.edges, self.triples.encode(np.full(len(heads), other), heads, tails))
            found |= {(int(x), axiom) for x in heads[among]}
        seen: dict[tuple[int, int], int] = {}
        for entity, axiom in self.table[RuleForm.DIFFERENT].tolist():
            first = seen.setdefault((int(self.same[entity]), axiom), entity)
            if first != entity:
                found |= {(first, axiom), (entity, axiom)}
        return found


def literal_count(facts: Facts) -> int:
    """How many of the entities are literals; these come first, for a quotation mark sorts before any IRI."""
    low, high = 0, len(facts.vocabulary.entities)
    while low < high:
        middle = (low + high) // 2
        low, high = (middle + 1, high) if facts.vocabulary.entities.iri(middle) < "#" else (low, middle)
    return low


def _upward(inclusions: Places, roles: int) -> Rows:
    """For each role those above it, itself among them; an inclusion holds backwards too."""
    lower = np.concatenate([inclusions[:, 0], inclusions[:, 0] ^ 1]).astype(np.int32)
    upper = np.concatenate([inclusions[:, 1], inclusions[:, 1] ^ 1]).astype(np.int32)
    return Hierarchy.of(lower, upper, roles).ancestors


def _both_ways(chains: Places) -> Places:
    """r after s within t is also s backwards after r backwards within t backwards: one join does for both."""
    back = np.stack([chains[:, 1] ^ 1, chains[:, 0] ^ 1, chains[:, 2] ^ 1, chains[:, 3]], axis=1)
    return np.concatenate([chains, back])


def _match(keys: Keys, wanted: Keys) -> tuple[Places, Places]:
    """(place among `wanted`, place among `keys`) of all that are equal; `keys` are few."""
    order = np.argsort(keys, kind="stable")
    ordered = keys[order]
    first, last = np.searchsorted(ordered, wanted), np.searchsorted(ordered, wanted, "right")
    origin, places = ranges(first, last - first)
    return origin, order[places]


def _look_up(ordered: Keys, prefixes: Keys, width: int) -> Iterator[tuple[Places, Keys]]:
    """(place among `prefixes`, rest) of all keys `prefix * width + rest`, some at a time."""
    first = np.searchsorted(ordered, prefixes * width)
    sizes = np.searchsorted(ordered, (prefixes + 1) * width) - first
    ends = np.cumsum(sizes)
    begin = 0
    while begin < len(prefixes):
        behind = ends[begin - 1] if begin else 0
        end = max(begin + 1, int(np.searchsorted(ends, behind + _ROWS, "right")))
        origin, places = ranges(first[begin:end], sizes[begin:end])
        if len(origin):
            yield origin + begin, ordered[places] - prefixes[origin + begin] * width
        begin = end


def _merged(ordered: Keys, more: Keys) -> Keys:
    both = np.concatenate([ordered, more])
    both.sort(kind="stable")  # two runs: a merge
    return both[np.append(True, both[1:] != both[:-1])] if len(both) else both


def _pieces(keys: Keys) -> Iterator[Keys]:
    for start in range(0, len(keys), _ROWS):
        yield keys[start : start + _ROWS]
