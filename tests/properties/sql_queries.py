"""Random queries over the whole of the supported SQL, typed, so that they run on any SQL database.

What databases answer differently by design is left out: division, sums of inexact numbers, an order that
is not total under a LIMIT.
"""

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import count
from typing import Final

Atom = tuple[str, str]
"""An expression and its type, one of ``TYPES``."""
Scope = Sequence[Atom]
Scopes = Sequence[Scope]

TYPES: Final = ("int", "dec", "dbl", "date", "text", "bool")
LITERALS: Final = {
    "int": ("-2", "0", "1", "2", "3", "5"),
    "dec": ("-1.50", "0.00", "0.25", "1.50", "2.00", "99.99"),
    "dbl": ("-0.5e0", "0e0", "0.25e0", "1e0", "2.5e0", "1024e0"),
    "date": tuple(
        f"date '{day}'" for day in ("1969-12-31", "1994-01-31", "1994-02-28", "1996-02-29", "2001-01-01")
    ),
    "text": ("''", "'a'", "'ab'", "'a '", "'B'", "'apple'", "'ä€😀'", "'a%b'"),
    "bool": ("true", "false"),
}
SQL_TYPES: Final = {
    "int": "integer",
    "dec": "decimal(8, 2)",
    "dbl": "double precision",
    "date": "date",
    "text": "varchar",
    "bool": "boolean",
}
COMPARISONS: Final = ("=", "=", "=", "<>", "<", "<=", ">", ">=")
PATTERNS: Final = ("'a%'", "'%b'", "'_'", "'%'", "'a%b'", "'%€%'", "''")
PLAIN: Final = ("int", "dec", "dbl", "date", "text")


@dataclass(frozen=True, slots=True)
class Query:
    """A query, its columns ``c0, c1, ...`` with their types, and whether its text orders all of them."""

    text: str
    types: tuple[str, ...]
    ordered: bool = False

    @property
    def columns(self) -> tuple[Atom, ...]:
        return tuple((f"c{position}", type_) for position, type_ in enumerate(self.types))


@dataclass(slots=True)
class Queries:
    """Writes queries over ``relations``, which may grow and shrink between queries."""

    pick: random.Random
    relations: dict[str, tuple[Atom, ...]]
    names: Iterator[int] = field(default_factory=count)

    def query(self, depth: int) -> Query:
        """A whole query: a block, perhaps with WITH, set operations, an order and a limit."""
        chance = self.pick.random()
        if chance < 0.15:
            return self._with(depth)
        if chance < 0.3:
            return self._set_operation([], depth)
        found = self.block([], depth, None, final=chance < 0.6)
        return self._ordered(found) if chance > 0.8 else found

    def block(
        self, scopes: Scopes, depth: int, types: Sequence[str] | None = None, *, final: bool = False
    ) -> Query:
        """One SELECT of columns of the given types; a ``final`` one may have inexact columns."""
        source, here = self._source(scopes, depth)
        inner = [*scopes, here]
        where = f" where {self.predicate(inner, depth)}" if self._chance(0.7) else ""
        types = types or self.pick.choices(TYPES, (5, 3, 2, 2, 3, 1), k=self.pick.randint(1, 4))
        if self._chance(0.35):
            return self._grouped(scopes, here, f"{source}{where}", depth, types, final)
        distinct = "distinct " if self._chance(0.2) else ""
        items = [self.value(type_, inner, depth - 1) for type_ in types]
        return Query(f"select {distinct}{_listed(items)} from {source}{where}", tuple(types))

    def predicate(self, scopes: Scopes, depth: int) -> str:
        """A condition, true, false or unknown."""
        chance = self.pick.random()
        if depth <= 0 or chance < 0.4:
            return self._comparison(scopes, depth)
        if chance < 0.6:
            word = self.pick.choice(["and", "or"])
            return f"({self.predicate(scopes, depth - 1)} {word} {self.predicate(scopes, depth - 1)})"
        if chance < 0.66:
            return f"not ({self.predicate(scopes, depth - 1)})"
        if chance < 0.7:
            test = self.pick.choice(["is true", "is not true", "is not false", "is null"])
            return f"({self.predicate(scopes, depth - 1)}) {test}"
        negation = self.pick.choice(["", "not "])
        if chance < 0.8:
            return f"{negation}exists ({self._subquery(scopes, depth).text})"
        type_ = self.pick.choice(PLAIN)
        value = self.value(type_, scopes, 0)
        if chance < 0.94:
            return f"{value} {negation}in ({self._subquery(scopes, depth, (type_,)).text})"
        quantifier, inner = self.pick.choice(["any", "all"]), self.block(scopes, depth - 1, (type_,)).text
        return f"{value} {self.pick.choice(COMPARISONS)} {quantifier} ({inner})"

    def value(self, type_: str, scopes: Scopes, depth: int) -> str:
        """An expression of the type."""
        chance = self.pick.random()
        if depth <= 0 or chance < 0.6:
            return self._atom(type_, scopes)
        if chance < 0.7:
            first, second = (self.value(type_, scopes, depth - 1) for _ in range(2))
            return f"case when {self.predicate(scopes, depth - 1)} then {first} else {second} end"
        if chance < 0.78:
            function = self.pick.choice(["coalesce", "nullif"])
            return f"{function}({self._atom(type_, scopes)}, {self.value(type_, scopes, depth - 1)})"
        if chance < 0.88:
            return f"({self._scalar(type_, scopes, depth - 1)})"
        return self._computed(type_, scopes, depth - 1)

    def _chance(self, probability: float) -> bool:
        return self.pick.random() < probability

    def _atom(self, type_: str, scopes: Scopes) -> str:
        for scope in (scopes[-1:], scopes):
            known = [text for atoms in scope for text, known in atoms if known == type_]
            if known and self._chance(0.85):
                return self.pick.choice(known)
        if self._chance(0.1):
            return f"cast(null as {SQL_TYPES[type_]})"
        return self.pick.choice(LITERALS[type_])

    def _computed(self, type_: str, scopes: Scopes, depth: int) -> str:
        def of(wanted: str) -> str:
            return self.value(wanted, scopes, depth)

        match type_, self.pick.randrange(3):
            case "int" | "dec" | "dbl", 0:
                return f"({of(type_)} {self.pick.choice('+-')} {of(type_)})"
            case "int", 1:
                return self.pick.choice([f"length({of('text')})", f"extract(year from {of('date')})"])
            case "int" | "dbl", _:
                return self.pick.choice([f"abs({of(type_)})", f"(- {of(type_)})"])
            case "dec", _:
                return f"({self._atom(type_, scopes)} * {self.pick.choice(LITERALS['int'])})"
            case "date", 0:
                return f"({of('date')} + {self.pick.choice(['1', '30', '-7'])})"
            case "date", _:
                return f"cast({of('date')} - interval '1' month as date)"
            case "text", 0:
                return f"({of('text')} || {of('text')})"
            case "text", _:
                function = self.pick.choice(["upper({})", "substring({}, 1, 2)", "trim({})", "lower({})"])
                return function.format(of("text"))
            case _:
                return f"({self.predicate(scopes, depth)})"

    def _comparison(self, scopes: Scopes, depth: int) -> str:
        type_ = self.pick.choice([atom[1] for atom in scopes[-1]] if scopes and scopes[-1] else TYPES)
        left, right = (self.value(type_, scopes, depth - 1) for _ in range(2))
        listed = ", ".join([*self.pick.choices(LITERALS[type_], k=2), *["null"][: self._chance(0.2)]])
        match self.pick.randrange(8):
            case 0:
                return f"{left} is {self.pick.choice(['', 'not '])}null"
            case 1:
                return f"{left} {self.pick.choice(['', 'not '])}in ({listed})"
            case 2:
                return f"{left} between {right} and {self._atom(type_, scopes)}"
            case 3:
                return f"{left} is {self.pick.choice(['', 'not '])}distinct from {right}"
            case 4 if type_ == "text":
                return f"{left} {self.pick.choice(['', 'not '])}like {self.pick.choice(PATTERNS)}"
            case 4 | 5 if type_ == "bool":
                return f"({left})"
            case _:
                return f"{left} {self.pick.choice(COMPARISONS)} {right}"

    def _subquery(self, scopes: Scopes, depth: int, types: Sequence[str] = ("int",)) -> Query:
        """A query inside a predicate, one level less deep."""
        if self._chance(0.12):
            return self._set_operation(scopes, depth - 1, types)
        return self.block(scopes, depth - 1, types)

    def _scalar(self, type_: str, scopes: Scopes, depth: int) -> str:
        """A subquery of one row at most."""
        if self._chance(0.25):
            found = self.block(scopes, depth, (type_,))
            return f"{found.text} order by c0 desc nulls last limit 1"
        source, here = self._source(scopes, depth)
        where = f" where {self.predicate([*scopes, here], depth)}" if self._chance(0.8) else ""
        return f"select {self._aggregate(type_, here)} as c0 from {source}{where}"

    def _relation(self, scopes: Scopes, depth: int) -> tuple[str, list[Atom]]:
        name = f"r{next(self.names)}"
        if depth > 0 and self._chance(0.2):
            inner = self.block([], depth - 1)
            return f"({inner.text}) as {name}", [(f"{name}.{column}", of) for column, of in inner.columns]
        if depth > 0 and self._chance(0.05):
            inner = self._ordered(self.block([], depth - 1))
            return f"({inner.text}) as {name}", [(f"{name}.{column}", of) for column, of in inner.columns]
        table = self.pick.choice(list(self.relations))
        return f"{table} as {name}", [(f"{name}.{column}", of) for column, of in self.relations[table]]

    def _source(self, scopes: Scopes, depth: int) -> tuple[str, list[Atom]]:
        """A FROM of one to four relations, and its columns."""
        text, here = self._relation(scopes, depth)
        for _ in range(self.pick.choice((0, 0, 0, 1, 1, 2, 3)) if depth > 0 else self.pick.choice((0, 0, 1))):
            other, there = self._relation(scopes, depth)
            kind = self.pick.choice(["cross join", "join", "join", "left join", "right join", "full join"])
            equal = self._equality(here, there)
            if kind == "cross join" or (equal is None and kind == "full join"):
                text += f" cross join {other}"
            else:
                extra = kind != "full join" and (equal is None or self._chance(0.3))
                more = [self.predicate([*scopes, [*here, *there]], min(depth - 1, 1))] if extra else []
                text += f" {kind} {other} on {' and '.join([*([equal] if equal else []), *more])}"
            here = [*here, *there]
        return text, here

    def _equality(self, left: Scope, right: Scope) -> str | None:
        pairs = [(a, b) for a, first in left for b, second in right if first == second != "bool"]
        if not pairs:
            return None
        return " and ".join(
            f"{a} = {b}" for a, b in self.pick.sample(pairs, min(len(pairs), 1 + self._chance(0.2)))
        )

    def _grouped(
        self, scopes: Scopes, here: Scope, source: str, depth: int, types: Sequence[str], final: bool
    ) -> Query:
        keys = [(self.value(of, [here], 1 if depth > 1 else 0), of) for _, of in self._some(here)]
        keys = [key for key in keys if key[0] not in LITERALS[key[1]] and "select" not in key[0]]
        known = [*keys, *((self._aggregate(of, here), of) for of in types)]
        around = [*scopes, known]
        items = [
            self.value(of, around, 0) if self._chance(0.8) else self._key_value(of, scopes, keys)
            for of in types
        ]
        having = f" having {self._comparison(around, 0)}" if self._chance(0.35) else ""
        group = f" group by {', '.join(dict.fromkeys(text for text, _ in keys))}" if keys else ""
        found = list(types)
        if final and self._chance(0.5):
            numbers = [text for text, of in here if of in ("int", "dec", "dbl")] or ["2"]
            items.append(f"avg({self.pick.choice(('', 'distinct '))}{self.pick.choice(numbers)})")
            found.append("dbl")
        if not keys and not any("(" in item for item in items):
            items[0] = self._aggregate(types[0], here)
        return Query(f"select {_listed(items)} from {source}{group}{having}", tuple(found))

    def _key_value(self, type_: str, scopes: Scopes, keys: Scope) -> str:
        """An expression, perhaps with a subquery, over the keys of a group."""
        return self.value(type_, [*scopes, keys], 1)

    def _some(self, here: Scope) -> list[Atom]:
        return self.pick.sample(list(here), min(len(here), self.pick.choice((0, 1, 1, 2))))

    def _aggregate(self, type_: str, here: Scope) -> str:
        operands = [text for text, of in here if of == type_] or [self.pick.choice(LITERALS[type_])]
        operand, distinct = self.pick.choice(operands), self.pick.choice(["", "", "distinct "])
        anything = self.pick.choice(list(here))[0]
        condition = f" filter (where {self._comparison([here], 0)})" if self._chance(0.15) else ""
        if type_ == "bool":
            return f"{self.pick.choice(['bool_and', 'bool_or'])}({operand}){condition}"
        if type_ == "int" and self._chance(0.5):
            return f"{self.pick.choice(['count(*)', f'count({distinct}{anything})'])}{condition}"
        if type_ in ("int", "dec", "dbl") and self._chance(0.5):
            return f"sum({distinct}{operand}){condition}"
        return f"{self.pick.choice(['min', 'max'])}({operand}){condition}"

    def _set_operation(self, scopes: Scopes, depth: int, types: Sequence[str] | None = None) -> Query:
        left = self.block(scopes, depth - 1, types)
        text = left.text
        for _ in range(self.pick.choice((1, 1, 2))):
            word = self.pick.choice(
                ["union", "union all", "except", "except all", "intersect", "intersect all"]
            )
            text = f"({text}) {word} ({self.block(scopes, depth - 1, left.types).text})"
        return Query(text, left.types)

    def _with(self, depth: int) -> Query:
        name, inner = f"w{next(self.names)}", self.block([], depth - 1)
        outer = Queries(self.pick, {**self.relations, name: inner.columns}, self.names)
        for _ in range(8):
            found = outer.block([], depth)
            if found.text.count(f"{name} as") > 0:
                break
        return Query(f"with {name} as ({inner.text}) {found.text}", found.types)

    def _ordered(self, query: Query) -> Query:
        """The query under a total order, perhaps with a limit."""
        order = [
            f"{column} {self.pick.choice(['asc', 'desc'])} nulls {self.pick.choice(['first', 'last'])}"
            for column, _ in self.pick.sample(query.columns, len(query.columns))
        ]
        limit = f" limit {self.pick.choice((0, 1, 2, 3, 5, 10))}" if self._chance(0.7) else ""
        offset = f" offset {self.pick.choice((0, 1, 2, 4))}" if self._chance(0.3) else ""
        text = (
            f"select * from ({query.text}) as o{next(self.names)}"
            if query.text.startswith("(")
            else query.text
        )
        return Query(f"{text} order by {', '.join(order)}{limit}{offset}", query.types, ordered=True)


def _listed(items: Sequence[str]) -> str:
    return ", ".join(f"{item} as c{position}" for position, item in enumerate(items))
