"""Random queries over Postgres' SQL: joins, windows, grouping sets, functions in FROM, recursion.

Rows that an order does not tell apart are equal in all columns, so that it does not matter which comes first.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from tests.properties.wide_expressions import Atom, Expressions, Query, Scope, Scopes
from tests.properties.wide_terms import LITERALS, SECTIONS, SQL_TYPES, terms

SET_WORDS: Final = ("union", "union all", "except", "except all", "intersect", "intersect all")
JOINS: Final = ("cross join", "join", "join", "left join", "left join", "right join", "full join")
FROM_FUNCTIONS: Final = (
    ("generate_series({small}, 1 + {small})", ("int",)),
    ("generate_series(1, {int} % 5)", ("int",)),
    ("generate_series({date}::timestamp, {date}::timestamp + interval '2 days', interval '1 day')", ("ts",)),
    ("unnest({ints})", ("int",)),
    ("unnest({texts})", ("text",)),
    ("unnest({ints}, {texts})", ("int", "text")),
    ("jsonb_array_elements(jsonb_build_array({int}, {text}, {json}))", ("json",)),
    ("jsonb_each(jsonb_build_object('a', {int}, 'b', {text}))", ("text", "json")),
    ("jsonb_each_text(jsonb_build_object('a', {text}))", ("text", "text")),
    ("jsonb_object_keys(jsonb_build_object({word}, {int}, 'q', 1))", ("text",)),
    ("regexp_split_to_table({text}, {regular})", ("text",)),
    ("string_to_table({text}, ',')", ("text",)),
    ("regexp_matches({text}, '[ab]', 'g')", ("texts",)),
    ("generate_subscripts({ints}, 1)", ("int",)),
)


@dataclass(slots=True)
class WideQueries(Expressions):
    """Writes queries over ``relations``, which may grow and shrink between queries."""

    def query(self, depth: int) -> Query:
        """A whole query of any shape."""
        shapes = (self._with, self._recursive, self._set_operation, self._plain, self._distinct_on)
        found = self.pick.choices(shapes, (2, 1, 2, 8, 1))[0](depth)
        return self._ordered(found) if self.chance(0.2) else found

    def block(
        self, scopes: Scopes, depth: int, types: Sequence[str] | None = None, *, final: bool = False
    ) -> Query:
        """One SELECT with columns of the given types; a ``final`` one may have approximate columns too."""
        source, here = self.source(scopes, depth)
        inner = [*scopes, here]
        where = f" where {self.condition(inner, depth)}" if self.chance(0.5) else ""
        wanted = tuple(types or self.types())
        if self.chance(0.3):
            return self._grouped(scopes, here, source + where, wanted, final)
        if self.chance(0.3):
            return self._windowed(inner, here, source + where, wanted, depth)
        items = [self.value(type_, inner, depth) for type_ in wanted]
        if final and self.chance(0.25):
            items.append(self.fill(self.pick.choice(SECTIONS["approximate"]), inner, 0))
            wanted = (*wanted, "dbl")
        distinct = "distinct " if self.chance(0.15) else ""
        return Query(f"select {distinct}{_listed(items)} from {source}{where}", wanted)

    def subquery(self, scopes: Scopes, depth: int, types: Sequence[str]) -> str:
        if self.chance(0.12):
            return self._set_operation(depth - 1, scopes, types).text
        return self.block(scopes, depth - 1, types).text

    def _relation(self, scopes: Scopes, depth: int) -> tuple[str, list[Atom]]:
        """A table, view or subquery under a name of its own, and its columns, a few of them."""
        name, chance = f"r{next(self.names)}", self.pick.random()
        if depth > 0 and chance < 0.25:
            inner = self._ordered(self.block([], depth - 1)) if chance < 0.05 else self.block([], depth - 1)
            return f"({inner.text}) as {name}", [(f"{name}.{column}", of) for column, of in inner.columns]
        if chance < 0.3:
            types = self.types()
            rows = [
                ", ".join(self.pick.choice(LITERALS[of]) for of in types)
                for _ in range(self.pick.randint(1, 3))
            ]
            columns = [f"c{place}" for place in range(len(types))]
            text = f"(values ({'), ('.join(rows)})) as {name}({', '.join(columns)})"
            return text, [(f"{name}.{column}", of) for column, of in zip(columns, types, strict=True)]
        table = self.pick.choice(list(self.relations))
        return f"{table} as {name}", [(f"{name}.{column}", of) for column, of in self.relations[table]]

    def _dependent(self, scopes: Scopes, here: Scope, depth: int) -> tuple[str, list[Atom]]:
        """A function in FROM, or a LATERAL subquery, of the relations before it."""
        name, inner = f"f{next(self.names)}", [*scopes, here]
        if depth > 0 and self.chance(0.35):
            found = self.block(inner, depth - 1)
            return f"lateral ({found.text}) as {name}", [
                (f"{name}.{column}", of) for column, of in found.columns
            ]
        template, types = self.pick.choice(FROM_FUNCTIONS)
        columns = [f"c{place}" for place in range(len(types))]
        text, ordinality = self.fill(template, inner, 0), self.chance(0.3)
        if ordinality:
            columns, types = [*columns, "o"], (*types, "big")
        words = " with ordinality" if ordinality else ""
        known = [(f"{name}.{column}", of) for column, of in zip(columns, types, strict=True)]
        return f"{text}{words} as {name}({', '.join(columns)})", known

    def source(self, scopes: Scopes, depth: int) -> tuple[str, list[Atom]]:
        """A FROM of one to three relations, and its columns."""
        text, here = self._relation(scopes, depth)
        for _ in range(self.pick.choice((0, 0, 0, 1, 1, 2)) if depth > 0 else self.pick.choice((0, 0, 0, 1))):
            if self.chance(0.3):
                other, there = self._dependent(scopes, here, depth)
                if self.chance(0.3):
                    text += f" left join {other} on true"
                else:
                    text += f" cross join {other}"
                here = [*here, *there]
                continue
            other, there = self._relation(scopes, depth)
            text += self._joined(scopes, here, other, there, depth)
            here = [*here, *there]
        return text, self.pick.sample(here, min(len(here), 5))

    def _joined(self, scopes: Scopes, here: Scope, other: str, there: Scope, depth: int) -> str:
        kind = self.pick.choice(JOINS)
        pairs = [f"{a} = {b}" for a, first in here for b, second in there if first == second]
        if kind == "cross join" or (not pairs and kind == "full join"):
            return f" cross join {other}"
        terms_ = [self.pick.choice(pairs)] if pairs else []
        if kind != "full join" and (not terms_ or self.chance(0.25)):
            terms_.append(self.condition([*scopes, [*here, *there]], min(depth - 1, 1)))
        return f" {kind} {other} on {' and '.join(terms_)}"

    def _grouped(self, scopes: Scopes, here: Scope, source: str, types: Sequence[str], final: bool) -> Query:
        """Groups, perhaps by several sets of keys, of the types that are wanted."""
        keys = self.pick.sample(list(here), min(len(here), self.pick.choice((0, 1, 1, 2, 3))))
        items, windowed = [], self.chance(0.15)
        for type_ in types:
            known = [text for text, of in keys if of == type_]
            aggregate = self.aggregate(type_, here)
            item = self.pick.choice(known) if known and (self.chance(0.6) or aggregate is None) else aggregate
            item = item or self.value(type_, [*scopes, keys], 1)
            if windowed and type_ == "big" and not known:
                inner = self.pick.choice(["count(*)", "sum(1)"])
                item = f"sum({inner}) over (order by {self.total(keys)})::bigint"
            items.append(item)
        found = list(types)
        if final and self.chance(0.3):
            items.append(self.fill(self.pick.choice(SECTIONS["moment"]), [here], 0))
            found.append("dbl")
        group, sets = self._group_by([text for text, _ in keys])
        if sets and final:
            items.append(f"grouping({self.pick.choice(keys)[0]})")
            found.append("int")
        having = self._having(here) if self.chance(0.3) else ""
        if not keys and not having and all("(" not in item for item in items):
            having = " having count(*) >= 0"
        return Query(f"select {_listed(items)} from {source}{group}{having}", tuple(found))

    def _having(self, here: Scope) -> str:
        type_ = self.pick.choice(("int", "big", "text", "bool", "num"))
        return f" having {self.aggregate(type_, here)} is distinct from {self.pick.choice(LITERALS[type_])}"

    def _group_by(self, keys: Sequence[str]) -> tuple[str, bool]:
        if not keys:
            return "", False
        listed = ", ".join(keys)
        if self.chance(0.6):
            return f" group by {listed}", False
        subsets = [
            self.pick.sample(keys, self.pick.randint(0, len(keys))) for _ in range(self.pick.randint(1, 3))
        ]
        sets = ", ".join(f"({', '.join(subset)})" for subset in (list(keys), *subsets))
        distinct = self.pick.choice(["", "", "distinct "])
        by = (
            f"rollup ({listed})",
            f"cube ({listed})",
            f"grouping sets ({sets})",
            f"{keys[0]}, rollup ({listed})",
        )
        return f" group by {distinct}{self.pick.choice(by)}", True

    def _windowed(self, inner: Scopes, here: Scope, source: str, types: Sequence[str], depth: int) -> Query:
        """A select list with window functions where there are some that give what is wanted."""
        items, named = [], f"w{next(self.names)}"
        definition = f"({self.partition(here)} order by {self.total(here)})"
        uses = False
        for type_ in types:
            calls = terms("window", type_)
            if not calls or self.chance(0.3):
                items.append(self.value(type_, inner, min(depth, 1)))
                continue
            call = self.fill(self.pick.choice(calls), [here], 0)
            by_name = self.chance(0.3)
            uses = uses or by_name
            items.append(f"{call} over {named if by_name else self.window(call, here)}")
        clause = f" window {named} as {definition}" if uses else ""
        return Query(f"select {_listed(items)} from {source}{clause}", tuple(types))

    def _plain(self, depth: int) -> Query:
        return self.block([], depth, final=True)

    def _set_operation(self, depth: int, scopes: Scopes = (), types: Sequence[str] | None = None) -> Query:
        left = self.block(scopes, depth - 1, types)
        text = left.text
        for _ in range(self.pick.choice((1, 1, 2))):
            other = self.block(scopes, depth - 1, left.types)
            if len(other.types) != len(left.types):
                continue
            text = f"({text}) {self.pick.choice(SET_WORDS)} ({other.text})"
        return Query(text, left.types)

    def _distinct_on(self, depth: int) -> Query:
        source, here = self.source([], depth)
        keys = [text for text, _ in self.pick.sample(here, min(len(here), self.pick.choice((1, 1, 2))))]
        rest = [atom for atom in here if atom[0] not in keys]
        order = ", ".join([*keys, *([self.total(rest)] if rest else [])])
        items = [text for text, _ in here]
        return Query(
            f"select distinct on ({', '.join(keys)}) {_listed(items)} from {source} order by {order}",
            tuple(of for _, of in here),
        )

    def _with(self, depth: int) -> Query:
        name, inner = f"w{next(self.names)}", self.block([], depth - 1)
        outer = WideQueries(self.pick, {**self.relations, name: inner.columns}, self.names)
        found = outer.block([], depth)
        hint = self.pick.choice(["", "", " materialized", " not materialized"])
        return Query(f"with {name} as{hint} ({inner.text}) {found.text}", found.types)

    def _recursive(self, depth: int) -> Query:
        """A recursion that counts up, with a column that is computed anew in every round."""
        name, type_ = f"w{next(self.names)}", self.pick.choice(("int", "text", "date", "dec"))
        first = self.block([], 0, ("int", type_)).text
        if " group by " in first and "grouping(" in first:
            first = f"select 1 as c0, {self.pick.choice(LITERALS[type_])} as c1"
        here = [(f"{name}.c0", "int"), (f"{name}.c1", type_)]
        other, there = self._relation([], 0)
        word = self.pick.choice(["union", "union all"])
        step = {
            "text": "left(md5(c1), 3)",
            "date": "c1 + 1",
            "dec": "cast(c1 + 1 as numeric(10, 2))",
            "int": "(c1 + 1) % 7",
        }
        computed = step[type_].replace("c1", f"{name}.c1")
        extra = (
            f", (select 1 as one from {other} limit 2) as l{next(self.names)}"
            if there and self.chance(0.3)
            else ""
        )
        until = f"where {name}.c0 between -3 and {self.pick.randint(2, 5)}"
        body = f"select {name}.c0 + 1, {computed} from {name}{extra} {until}"
        outer = WideQueries(self.pick, {name: tuple((a.split(".")[1], of) for a, of in here)}, self.names)
        found = outer.block([], min(depth, 1))
        cast_first = f"select c0::int, c1::{SQL_TYPES[type_]} from ({first}) as i{next(self.names)}"
        return Query(
            f"with recursive {name}(c0, c1) as ({cast_first} {word} {body}) {found.text}", found.types
        )

    def _ordered(self, query: Query) -> Query:
        """The query under a total order, perhaps with a limit."""
        order = [
            f"{column} {self.pick.choice(['asc', 'desc'])} nulls {self.pick.choice(['first', 'last'])}"
            for column, _ in self.pick.sample(query.columns, len(query.columns))
        ]
        limit = self.pick.choice(
            [
                "",
                f" limit {self.pick.choice((0, 1, 2, 5))}",
                " fetch first 2 rows with ties",
                " fetch first 3 rows only",
            ]
        )
        offset = f" offset {self.pick.choice((0, 1, 2))}" if self.chance(0.3) else ""
        text = f"select * from ({query.text}) as o{next(self.names)} order by {', '.join(order)}"
        return Query(
            f"{text}{offset}{limit}" if "fetch" in limit else f"{text}{limit}{offset}",
            query.types,
            ordered=True,
        )


def _listed(items: Sequence[str]) -> str:
    return ", ".join(f"{item} as c{place}" for place, item in enumerate(items))
