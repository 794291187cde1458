"""Random queries: joins, grouping and subqueries nested and correlated in every way that SQL has."""

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import count

Relation = tuple[str, Sequence[str]]
Scope = list[Relation]
Scopes = list[Scope]


@dataclass(slots=True)
class Generator:
    """Writes queries over tables, given as their columns (integers all)."""

    pick: random.Random
    tables: Mapping[str, Sequence[str]]
    names: "count[int]" = field(default_factory=count)

    def query(self, scopes: Scopes, depth: int, width: int) -> str:
        """A query of ``width`` columns that may refer to the scopes around it."""
        source, here = self._source(scopes, depth)
        inner = [*scopes, here]
        where = f" where {self._predicate(inner, depth)}" if self.pick.random() < 0.85 else ""
        shape = self.pick.random()
        if shape < 0.2:
            key = self._column([here])
            items = ", ".join([key, *["count(*)"] * (width - 1)])
            having = f" having count(*) > {self.pick.randint(0, 2)}" if self.pick.random() < 0.5 else ""
            return f"select {items} from {source}{where} group by {key}{having}"
        distinct = "distinct " if shape < 0.3 else ""
        items = ", ".join(self._value(inner, depth - 1) for _ in range(width))
        return f"select {distinct}{items} from {source}{where}"

    def _column(self, scopes: Scopes) -> str:
        scope = scopes[-1] if self.pick.random() < 0.6 else self.pick.choice(scopes)
        relation, columns = self.pick.choice(scope)
        return f"{relation}.{self.pick.choice(columns)}"

    def _relation(self, depth: int) -> tuple[str, Relation]:
        name = f"t{next(self.names)}"
        if depth > 0 and self.pick.random() < 0.25:
            return f"({self.query([], depth - 1, 2)}) {name}(p, o)", (name, ("p", "o"))
        table = self.pick.choice(list(self.tables))
        return f"{table} {name}", (name, self.tables[table])

    def _source(self, scopes: Scopes, depth: int) -> tuple[str, Scope]:
        text, first = self._relation(depth)
        if self.pick.random() < 0.6:
            return text, [first]
        other, second = self._relation(depth)
        here = [first, second]
        join = self.pick.choice([",", "join", "left join", "full join"])
        if join == ",":
            return f"{text}, {other}", here
        on = f"{self._column([[first]])} = {self._column([[second]])}"
        if join != "full join" and self.pick.random() < 0.5:
            on += f" and {self._predicate([*scopes, here], depth - 1)}"
        return f"{text} {join} {other} on {on}", here

    def _value(self, scopes: Scopes, depth: int) -> str:
        kind = self.pick.random()
        if kind < 0.6 or depth <= 0:
            return self._column(scopes)
        if kind < 0.7:
            return str(self.pick.randint(0, 4))
        if kind < 0.8:
            return f"({self._column(scopes)} + {self.pick.randint(0, 2)})"
        source, here = self._source(scopes, depth - 1)
        aggregate = self.pick.choice(["count(*)", "max({})", "sum({})", "min({})", "count({})"])
        where = f" where {self._predicate([*scopes, here], depth - 1)}" if self.pick.random() < 0.9 else ""
        return f"(select {aggregate.format(self._column([here]))} from {source}{where})"

    def _predicate(self, scopes: Scopes, depth: int) -> str:
        kind = self.pick.random()
        if depth <= 0 or kind < 0.35:
            return self._comparison(scopes)
        if kind < 0.55:
            word = self.pick.choice(["and", "or"])
            return f"({self._predicate(scopes, depth - 1)} {word} {self._predicate(scopes, depth - 1)})"
        if kind < 0.6:
            return f"not ({self._predicate(scopes, depth - 1)})"
        negation = self.pick.choice(["", "not "])
        if kind < 0.75:
            return f"{negation}exists ({self.query(scopes, depth - 1, 1)})"
        if kind < 0.9:
            return f"{self._column(scopes)} {negation}in ({self.query(scopes, depth - 1, 1)})"
        comparison = self.pick.choice(["<", ">=", "="])
        if kind < 0.94:
            quantifier = self.pick.choice(["any", "all"])
            return f"{self._column(scopes)} {comparison} {quantifier} ({self.query(scopes, depth - 1, 1)})"
        return f"{self._value(scopes, depth)} {comparison} {self._value(scopes, depth)}"

    def _comparison(self, scopes: Scopes) -> str:
        kind = self.pick.randrange(3)
        if kind == 0:
            return f"{self._column(scopes)} is null"
        if kind == 1:
            return f"{self._column(scopes)} = {self.pick.randint(1, 4)}"
        comparison = self.pick.choice(["=", "=", "=", "<", ">", "<>"])
        return f"{self._column(scopes)} {comparison} {self._column(scopes)}"
