"""Random tables and random changes to them, as SQL text."""

import random
from dataclasses import dataclass

from tests.properties.sql_queries import LITERALS, PLAIN, SQL_TYPES, Atom, Queries


@dataclass(frozen=True, slots=True)
class TableShape:
    """A table: its columns with their types, and the names of those in its key."""

    name: str
    columns: tuple[Atom, ...]
    key: tuple[str, ...] = ()

    def definitions(self) -> list[str]:
        """The columns as CREATE TABLE has them."""
        return [f"{name} {SQL_TYPES[type_]}" for name, type_ in self.columns]


def random_table(pick: random.Random, name: str) -> TableShape:
    """A table of two to five columns, most often of integers, perhaps with a primary key."""
    types = ["int", *pick.choices(("int", "dec", "dbl", "date", "text", "bool"), k=pick.randint(1, 4))]
    columns = tuple((f"{type_[0]}{place}", type_) for place, type_ in enumerate(types))
    if pick.random() < 0.5:
        return TableShape(name, columns)
    size = 1 if pick.random() < 0.7 else 2
    return TableShape(name, columns, tuple(column for column, of in columns[:size] if of in PLAIN))


@dataclass(slots=True)
class Changes:
    """Writes statements that change ``tables``; predicates and values may read anything ``queries`` knows."""

    pick: random.Random
    tables: dict[str, TableShape]
    queries: Queries

    def statement(self) -> str:
        """One INSERT, DELETE or UPDATE."""
        table = self.pick.choice(list(self.tables.values()))
        scope = [(f"{table.name}.{column}", type_) for column, type_ in table.columns]
        chance = self.pick.random()
        where = f" where {self.queries.predicate([scope], self.pick.choice((0, 0, 1)))}"
        if chance < 0.45:
            return f"insert into {table.name} values {self._rows(table)}"
        if chance < 0.55:
            types = tuple(type_ for _, type_ in table.columns)
            return f"insert into {table.name} {self.queries.block([], 1, types).text}"
        if chance < 0.75:
            return f"delete from {table.name}{where if self.pick.random() < 0.9 else ''}"
        chosen = self.pick.sample(table.columns, self.pick.choice((1, 1, 2)))
        values = ", ".join(f"{name} = {self.queries.value(of, [scope], 1)}" for name, of in chosen)
        return f"update {table.name} set {values}{where}"

    def _rows(self, table: TableShape) -> str:
        size = self.pick.choice((1, 1, 2, 4, 8, 20))
        return ", ".join(
            f"({', '.join(self._literal(table, name, of) for name, of in table.columns)})"
            for _ in range(size)
        )

    def _literal(self, table: TableShape, name: str, type_: str) -> str:
        if name in table.key and type_ == "int":
            return str(self.pick.randint(0, 60))
        return (
            "null"
            if self.pick.random() < 0.15 and name not in table.key
            else self.pick.choice(LITERALS[type_])
        )
