"""Random tables with constraints, and random statements that change them, as Postgres' users write them."""

import random
from dataclasses import dataclass, field
from typing import Final

from tests.properties.wide_queries import WideQueries
from tests.properties.wide_terms import LITERALS, SQL_TYPES, WEIGHTS

ACTIONS: Final = ("no action", "restrict", "cascade", "set null", "set default")
CHECKS: Final = {
    "int": ("{} < 1000", "{} between -1000 and 1000", "{} <> 42"),
    "text": ("length({}) < 200", "{} <> 'forbidden'"),
    "dec": ("{} < 1000",),
    "ints": ("cardinality({}) < 20",),
}
MOST_ROWS: Final = 12


@dataclass(slots=True)
class Table:
    """A table: its columns with their types, and those that are keys or refer to another table."""

    name: str
    columns: list[tuple[str, str]]
    key: str | None
    unique: str | None = None
    parent: str | None = None

    @property
    def free(self) -> list[tuple[str, str]]:
        """The columns that may take any value."""
        return [column for column in self.columns if column[0] not in (self.key, self.unique, "parent")]


@dataclass(slots=True)
class History:
    """Writes the statements of a history; ``queries`` knows the relations that they may read."""

    pick: random.Random
    queries: WideQueries
    tables: dict[str, Table] = field(default_factory=dict)
    last_id: int = 0
    added: int = 0

    def create(self, name: str) -> str:
        """CREATE TABLE, with keys, checks, defaults and, after the first, perhaps a foreign key."""
        pick = self.pick
        types = pick.choices(tuple(SQL_TYPES), WEIGHTS, k=pick.randint(2, 4))
        keyed = pick.random() < 0.75
        columns = [("id", "int"), *((f"{of}{place}", of) for place, of in enumerate(types))]
        lines = [f"id integer{' primary key' if keyed else ''}"]
        for column, of in columns[1:]:
            default = f" default {pick.choice(LITERALS[of])}" if pick.random() < 0.3 else ""
            checks = CHECKS.get(of, ())
            check = f" check ({pick.choice(checks).format(column)})" if checks and pick.random() < 0.3 else ""
            lines.append(f"{column} {SQL_TYPES[of]}{default}{check}")
        unique = "code" if pick.random() < 0.25 else None
        if unique:
            columns.append(("code", "int"))
            lines.append(f"code integer unique{pick.choice(['', ' nulls not distinct'])}")
        parents = [table.name for table in self.tables.values() if table.key]
        parent = pick.choice(parents) if parents and pick.random() < 0.5 else None
        if parent:
            columns.append(("parent", "int"))
            rules = f"on delete {pick.choice(ACTIONS)} on update {pick.choice(ACTIONS)}"
            late = pick.choice(["", "", " deferrable initially deferred"])
            lines.append(f"parent integer references {parent} {rules}{late}")
        if pick.random() < 0.2:
            base = pick.choice(["id * 2", "id % 3", "-id"])
            columns.append(("made", "int"))
            lines.append(f"made integer generated always as ({base}) stored")
        self.tables[name] = Table(name, columns, "id" if keyed else None, unique, parent)
        self.queries.relations[name] = tuple(columns)
        return f"create table {name} ({', '.join(lines)})"

    def statement(self) -> str:
        """A statement that changes a table."""
        table = self.pick.choice(list(self.tables.values()))
        kinds = (
            *(
                (self._insert, 6),
                (self._insert_select, 1),
                (self._conflict, 2),
                (self._update, 4),
                (self._update_from, 1),
            ),
            *(
                (self._delete, 3),
                (self._merge, 1),
                (self._modifying_with, 1),
                (self._truncate, 0.2),
                (self._alter, 0.5),
            ),
        )
        return self.pick.choices([kind for kind, _ in kinds], [weight for _, weight in kinds])[0](table)

    def insert(self, table: Table, rows: int) -> str:
        """INSERT of constants."""
        columns = [column for column in table.columns if column[0] != "made"]
        if self.pick.random() < 0.2:
            columns = [column for column in columns if column not in table.free or self.pick.random() < 0.6]
        listed = ", ".join(name for name, _ in columns)
        values = ", ".join(
            f"({', '.join(self._literal(table, name, of) for name, of in columns)})" for _ in range(rows)
        )
        return f"insert into {table.name} ({listed}) values {values}"

    def _literal(self, table: Table, name: str, type_: str) -> str:
        pick = self.pick
        if name == "id":
            if pick.random() < 0.9:
                self.last_id += 1
                return str(self.last_id)
            return str(pick.randint(1, self.last_id + 1))
        if name == "code":
            return str(pick.randint(0, 200)) if pick.random() < 0.9 else "null"
        if name == "parent":
            return (
                str(pick.randint(max(1, self.last_id - 10), self.last_id + 1))
                if pick.random() < 0.5
                else "null"
            )
        return "null" if pick.random() < 0.15 else pick.choice(LITERALS[type_])

    def _insert(self, table: Table) -> str:
        returning = self._returning(table) if self.pick.random() < 0.2 else ""
        return self.insert(table, self.pick.choice((1, 1, 2, 4))) + returning

    def _returning(self, table: Table) -> str:
        here = [(f"{table.name}.{name}", of) for name, of in table.columns]
        return f" returning {self.queries.value(self.queries.type(), [here], 1)} as r0, {table.name}.id"

    def _insert_select(self, table: Table) -> str:
        free = table.free
        base = f"select {', '.join(of for of, _ in free) or '1'} from {table.name} limit 0"
        types = [of for name, of in free if name not in ("id", "made")]
        names = [name for name, _ in free if name not in ("id", "made")]
        if not types:
            return f"insert into {table.name} (id) select 1 from ({base}) q"
        inner = self.queries.block([], 1, types).text
        self.last_id += MOST_ROWS
        outputs = ", ".join(f"c{place}" for place in range(len(types)))
        number = f"{self.last_id - MOST_ROWS} + row_number() over (order by {outputs})"
        return (
            f"insert into {table.name} (id, {', '.join(names)}) select {number}, {outputs} from "
            f"(select * from ({inner}) p order by {outputs} limit {MOST_ROWS}) q"
        )

    def _conflict(self, table: Table) -> str:
        if not table.key:
            return self._insert(table)
        pick, text = self.pick, self.insert(table, pick_rows := self.pick.choice((1, 2, 3)))
        if pick_rows and pick.random() < 0.4:
            return f"{text} on conflict do nothing"
        here = [(f"{table.name}.{name}", of) for name, of in table.columns]
        new = [(f"excluded.{name}", of) for name, of in table.columns]
        if not table.free:
            return f"{text} on conflict (id) do nothing"
        name, of = pick.choice(table.free)
        if name == "made":
            return f"{text} on conflict (id) do nothing"
        where = f" where {self.queries.condition([[*here, *new]], 0)}" if pick.random() < 0.3 else ""
        value = self.queries.value(of, [[*here, *new]], 1)
        if "select" in value + where:
            return f"{text} on conflict (id) do nothing"
        return f"{text} on conflict (id) do update set {name} = {value}{where}"

    def _set(self, table: Table, here: list[tuple[str, str]], depth: int) -> str:
        free = [column for column in table.free if column[0] != "made"] or [("id", "int")]
        chosen = self.pick.sample(free, min(len(free), self.pick.choice((1, 1, 2))))
        if chosen == [("id", "int")]:
            return "id = id"
        if self.pick.random() < 0.1 and table.parent:
            return f"parent = {self._literal(table, 'parent', 'int')}"
        return ", ".join(f"{name} = {self.queries.value(of, [here], depth)}" for name, of in chosen)

    def _where(self, table: Table, here: list[tuple[str, str]]) -> str:
        if self.pick.random() < 0.4:
            return f" where {table.name}.id % {self.pick.randint(2, 5)} = {self.pick.randint(0, 2)}"
        return (
            f" where {self.queries.condition([here], self.pick.choice((0, 0, 1)))}"
            if self.pick.random() < 0.95
            else ""
        )

    def _update(self, table: Table) -> str:
        here = [(f"{table.name}.{name}", of) for name, of in table.columns]
        if table.key and self.pick.random() < 0.1:
            old = self.pick.randint(1, self.last_id + 1)
            return f"update {table.name} set id = id + 100000 where id = {old}"
        returning = self._returning(table) if self.pick.random() < 0.15 else ""
        return f"update {table.name} set {self._set(table, here, 1)}{self._where(table, here)}{returning}"

    def _update_from(self, table: Table) -> str:
        others = [other for other in self.tables.values() if other.key and other is not table]
        if not others:
            return self._update(table)
        other = self.pick.choice(others)
        here = [(f"{table.name}.{name}", of) for name, of in table.columns]
        here += [(f"o.{name}", of) for name, of in other.columns]
        link = f"{table.name}.{self.pick.choice([name for name, of in table.columns if of == 'int'])} = o.id"
        if self.pick.random() < 0.3:
            condition = self.queries.condition([here], 0)
            return f"delete from {table.name} using {other.name} o where {link} and {condition}"
        return f"update {table.name} set {self._set(table, here, 1)} from {other.name} o where {link}"

    def _delete(self, table: Table) -> str:
        here = [(f"{table.name}.{name}", of) for name, of in table.columns]
        returning = self._returning(table) if self.pick.random() < 0.15 else ""
        return f"delete from {table.name}{self._where(table, here) or ' where id % 2 = 1'}{returning}"

    def _merge(self, table: Table) -> str:
        if not table.key:
            return self._delete(table)
        rows = ", ".join(
            f"({self.last_id + n - 4}, {self.pick.randint(0, 9)})" for n in range(self.pick.randint(1, 6))
        )
        self.last_id += 2
        here = [(f"{table.name}.{name}", of) for name, of in table.columns] + [("s.n", "int")]
        changed = f"when matched and s.n < 5 then update set {self._set(table, here, 1)}"
        removed = self.pick.choice(["when matched then delete", "when matched then do nothing"])
        made = self.pick.choice(
            [
                "when not matched then insert (id) values (s.id)",
                "when not matched and s.n > 3 then insert (id) values (s.id)",
            ]
        )
        source = f"merge into {table.name} using (values {rows}) as s(id, n) on {table.name}.id = s.id"
        return f"{source} {changed} {removed} {made}"

    def _modifying_with(self, table: Table) -> str:
        other = self.pick.choice(list(self.tables.values()))
        here = [(f"{table.name}.{name}", of) for name, of in table.columns]
        gone = f"delete from {table.name}{self._where(table, here)} returning id"
        if other is table:
            return f"with gone as ({gone}) select count(*), sum(id) from gone"
        return (
            f"with gone as ({gone}) delete from {other.name} where id in (select id from gone) returning id"
        )

    def _truncate(self, table: Table) -> str:
        return f"truncate {table.name}{self.pick.choice(['', ' cascade', ' restart identity'])}"

    def _alter(self, table: Table) -> str:
        """ALTER TABLE; what renames or removes a column is for the runner to follow."""
        self.added += 1
        type_ = self.pick.choice(("int", "text", "date", "dec", "ints"))
        free = [name for name, _ in table.free if name not in ("made", "id")]
        kinds = ["add", "rename", "default", "drop default", "not null", "constraint", "drop"]
        match self.pick.choice(kinds if free else kinds[:1]):
            case "add":
                name = f"extra{self.added}"
                table.columns.append((name, type_))
                default = self.pick.choice(["", f" default {self.pick.choice(LITERALS[type_])}"])
                return f"alter table {table.name} add column {name} {SQL_TYPES[type_]}{default}"
            case "default":
                name, of = self.pick.choice([column for column in table.free if column[0] in free])
                value = self.pick.choice(LITERALS[of])
                return f"alter table {table.name} alter column {name} set default {value}"
            case "drop default":
                return f"alter table {table.name} alter column {self.pick.choice(free)} drop default"
            case "not null":
                return f"alter table {table.name} alter column {self.pick.choice(free)} set not null"
            case "constraint":
                check = f"check (id > {self.pick.randint(-2, 2)})"
                return f"alter table {table.name} add constraint c{self.added} {check}"
            case "rename":
                old = self.pick.choice(free)
                new = f"renamed{self.added}"
                table.columns = [(new if name == old else name, of) for name, of in table.columns]
                return f"alter table {table.name} rename column {old} to {new}"
            case _:
                old = self.pick.choice(free)
                table.columns = [column for column in table.columns if column[0] != old]
                return f"alter table {table.name} drop column {old}"
