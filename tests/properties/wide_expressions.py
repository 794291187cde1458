"""Random expressions of all types: functions, conditions with subqueries, aggregates and windows."""

import random
import re
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import count
from typing import Final

from tests.properties.wide_terms import CHOICES, LEAST, LITERALS, SQL_TYPES, WEIGHTS, terms

Atom = tuple[str, str]
Scope = Sequence[Atom]
Scopes = Sequence[Scope]
HOLE: Final = re.compile(r"\{(" + "|".join((*SQL_TYPES, *CHOICES, "any", "all", "same")) + r")\}")

COMPARISONS: Final = ("=", "=", "<>", "<", "<=", ">", ">=", "is distinct from")


@dataclass(frozen=True, slots=True)
class Query:
    """A query, its columns ``c0, c1, ...`` with their types, and whether its text orders its rows."""

    text: str
    types: tuple[str, ...]
    ordered: bool = False

    @property
    def columns(self) -> tuple[Atom, ...]:
        return tuple((f"c{place}", type_) for place, type_ in enumerate(self.types))


@dataclass(slots=True)
class Expressions(ABC):
    """Writes expressions over scopes, the innermost last."""

    pick: random.Random
    relations: dict[str, tuple[Atom, ...]]
    names: Iterator[int] = field(default_factory=count)

    @abstractmethod
    def block(
        self, scopes: Scopes, depth: int, types: Sequence[str] | None = None, *, final: bool = False
    ) -> Query:
        """One SELECT with columns of the given types."""

    @abstractmethod
    def subquery(self, scopes: Scopes, depth: int, types: Sequence[str]) -> str:
        """A query inside a condition, one level less deep."""

    @abstractmethod
    def source(self, scopes: Scopes, depth: int) -> tuple[str, list[Atom]]:
        """A FROM of one to three relations, and its columns."""

    def condition(self, scopes: Scopes, depth: int) -> str:
        """A condition: true, false or unknown."""
        chance = self.pick.random()
        if chance < 0.2 and depth > 0:
            word = self.pick.choice(["and", "or"])
            return f"({self.condition(scopes, depth - 1)} {word} {self.condition(scopes, depth - 1)})"
        if chance < 0.25:
            return f"not ({self.condition(scopes, depth - 1)})"
        if chance < 0.3:
            test = self.pick.choice(["true", "not true", "not false", "null"])
            return f"({self.condition(scopes, depth - 1)}) is {test}"
        negation = self.pick.choice(["", "not "])
        if chance < 0.42 and depth > 0:
            return f"{negation}exists ({self.subquery(scopes, depth, ('int',))})"
        type_ = self.type()
        if chance < 0.55 and depth > 0:
            return f"{self.value(type_, scopes, 0)} {negation}in ({self.subquery(scopes, depth, (type_,))})"
        if chance < 0.6 and depth > 0:
            quantifier, comparison = (
                self.pick.choice(["any", "all"]),
                self.pick.choice(["=", "<>", "<", ">="]),
            )
            left, inner = self.value(type_, scopes, 0), self.subquery(scopes, depth, (type_,))
            return f"{left} {comparison} {quantifier} ({inner})"
        if chance < 0.63 and depth > 0:
            left = f"({self.value('int', scopes, 0)}, {self.value('text', scopes, 0)})"
            return f"{left} {negation}in ({self.subquery(scopes, depth, ('int', 'text'))})"
        if chance < 0.8:
            left, right = self.value(type_, scopes, 1), self.value(type_, scopes, 0)
            return f"{left} {self.pick.choice(COMPARISONS)} {right}"
        if chance < 0.85:
            return f"{self.value(type_, scopes, 0)} is {negation}null"
        return self.fill(self.pick.choice(terms("function", "bool")), scopes, depth - 1)

    def value(self, type_: str, scopes: Scopes, depth: int) -> str:
        """An expression of the type."""
        chance = self.pick.random()
        if depth <= 0 or chance < 0.35:
            return self.atom(type_, scopes)
        if chance < 0.42:
            first, second = (self.value(type_, scopes, depth - 1) for _ in range(2))
            return f"case when {self.condition(scopes, depth - 1)} then {first} else {second} end"
        if chance < 0.5:
            return f"({self.scalar(type_, scopes, depth - 1)})"
        return self.fill(self.pick.choice(terms("function", type_) or LITERALS[type_]), scopes, depth - 1)

    def chance(self, probability: float) -> bool:
        return self.pick.random() < probability

    def type(self) -> str:
        return self.pick.choices(tuple(SQL_TYPES), WEIGHTS)[0]

    def types(self) -> tuple[str, ...]:
        return tuple(self.type() for _ in range(self.pick.choice((1, 2, 2, 3, 4))))

    def atom(self, type_: str, scopes: Scopes) -> str:
        for scope in (scopes[-1:], scopes):
            known = [text for atoms in scope for text, of in atoms if of == type_]
            if known and self.chance(0.85):
                return self.pick.choice(known)
        if self.chance(0.08):
            return f"cast(null as {SQL_TYPES[type_]})"
        return self.pick.choice(LITERALS[type_])

    def fill(self, template: str, scopes: Scopes, depth: int) -> str:
        """The template with expressions in its holes."""

        def filled(match: re.Match[str]) -> str:
            hole, here = match[1], scopes[-1] if scopes else ()
            if hole == "same":
                return last[0]
            if hole in CHOICES:
                return self.pick.choice(CHOICES[hole])
            if hole == "any":
                return self.pick.choice(here)[0] if here else "1"
            if hole == "all":
                return self.total(here)
            last[0] = self.value(hole, scopes, 0 if "{same}" in template else depth)
            return last[0]

        last = [""]
        return HOLE.sub(filled, template)

    def total(self, here: Scope) -> str:
        """An order that tells all rows apart that differ."""
        order = self.pick.sample(list(here), len(here))
        return (
            ", ".join(f"{text}{self.pick.choice(['', '', ' desc', ' nulls first'])}" for text, _ in order)
            or "1"
        )

    def scalar(self, type_: str, scopes: Scopes, depth: int) -> str:
        """A subquery of one row at most."""
        aggregates = self._aggregates(type_)
        if not aggregates or self.chance(0.3):
            return f"{self.block(scopes, depth, (type_,)).text} order by c0 desc nulls last limit 1"
        source, here = self.source(scopes, depth)
        inner = [*scopes, here]
        where = f" where {self.condition(inner, depth)}" if self.chance(0.8) else ""
        return f"select {self.fill(self.pick.choice(aggregates), [here], 0)} as c0 from {source}{where}"

    def _aggregates(self, type_: str) -> list[str]:
        found = list(terms("aggregate", type_))
        if type_ in LEAST:
            found += [f"min({{{type_}}})", f"max({{{type_}}})"]
        return found

    def aggregate(self, type_: str, here: Scope) -> str | None:
        aggregates = self._aggregates(type_)
        if not aggregates:
            return None
        found = self.fill(self.pick.choice(aggregates), [here], self.pick.choice((0, 0, 1)))
        plain = found.endswith(")") and "::" not in found.rsplit(")", 2)[-1]
        if plain and self.chance(0.2):
            return f"{found} filter (where {self.condition([here], 0)})"
        return found

    def partition(self, here: Scope) -> str:
        return f"partition by {self.pick.choice(here)[0]}" if here and self.chance(0.5) else ""

    def window(self, call: str, here: Scope) -> str:
        partition, total = self.partition(here), self.total(here)
        whole = re.match(r"(sum|count|min|max|every|bool_or|rank|dense_rank|percent_rank|cume_dist)\b", call)
        if whole and self.chance(0.4):
            order = f" order by {self.pick.choice(here)[0]}" if here and self.chance(0.7) else ""
            return (
                f"({partition}{order}{self._frame('groups', 'range') if order and self.chance(0.5) else ''})"
            )
        ranks = re.match(r"(row_number|ntile|lag|lead|rank|dense_rank|percent_rank|cume_dist)\b", call)
        frame = "" if ranks or self.chance(0.4) else self._frame("rows", "groups", "range")
        return f"({partition} order by {total}{frame})"

    def _frame(self, *units: str) -> str:
        unit = self.pick.choice(units)
        bounds = ["unbounded preceding", "1 preceding", "current row", "2 following", "unbounded following"]
        if unit == "range":
            bounds = [bounds[0], bounds[2], bounds[4]]
        start = self.pick.randrange(len(bounds) - 1)
        end = self.pick.randrange(max(start, 1), len(bounds))
        exclude = self.pick.choice(["", "", "", " exclude current row", " exclude group", " exclude ties"])
        return f" {unit} between {bounds[start]} and {bounds[end]}{exclude}"
