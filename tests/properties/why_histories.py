"""Explanations of rows of random views over all of the SQL: what they name gives the row again, alone.

Views are over tables, over each other, over a Datalog program, which reads a view itself. A row is explained
with every row that its aggregates count. What is named is in its tables, and only in such as the view reads;
in a fresh database with these rows and the same views, the row comes out.

``python -m tests.properties.why_histories --seed 1000 --minutes 15`` goes on for as long, a seed at a time,
and prints what does not hold; ``--seed N --minutes 0`` is that seed alone.
"""

import argparse
import math
import random
import re
import time
import traceback
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any, Final

import kpg
from kpg.api.result import Rows
from kpg.provenance.proof_tree import Proof
from tests.properties.wide_histories import History
from tests.properties.wide_queries import WideQueries
from tests.properties.wide_terms import SQL_TYPES

Row = tuple[Any, ...]
Named = dict[str, list[Row]]
KINDS: Final = ("source", "external", "fact")
"""The nodes of an explanation that are rows of tables."""
MOST_TEXT: Final = 900
ROWS: Final = 3
"""Rows of a view that are explained after each change."""
PROGRAM: Final = """
.decl reach(a: number, b: number)
.output reach
reach(x, y) :- link(x, y).
reach(x, z) :- reach(x, y), link(y, z).
.decl alone(a: number)
.output alone
alone(x) :- link(x, _), !link(_, x).
"""
EDGES: Final = "create table edge (a bigint, b bigint, primary key (a, b))"
LINK: Final = "create materialized view link as select distinct a, b from edge where a <> b"


class NotEnough(AssertionError):
    """An explanation names what is not there, or too little, or too much."""


def plain(value: Any) -> Any:
    """A value that can be compared: numbers to nine digits, lists as tuples."""
    if isinstance(value, (list, tuple)):
        return tuple(map(plain, value))
    if isinstance(value, dict):
        return tuple(sorted((key, plain(inner)) for key, inner in value.items()))
    if isinstance(value, bool) or not isinstance(value, (int, float, Decimal)):
        return value if value is None or isinstance(value, (bool, str, bytes)) else str(value)
    if not math.isfinite(value):
        return str(float(value))
    return float(f"{float(value):.9g}") if abs(value) > 1e-12 else 0.0


def words(row: Iterable[Any]) -> Row:
    """A row that can be compared."""
    return tuple(map(plain, row))


def counted(rows: Iterable[Row]) -> Counter[Row]:
    """How often each row is there."""
    return Counter(map(words, rows))


@dataclass
class World:
    """A database with random tables, views over them, and a program between two of them."""

    seed: int
    counts: Counter[str] = field(default_factory=Counter)
    definitions: list[str] = field(default_factory=list)
    views: list[str] = field(default_factory=list)
    failures: list[Exception] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.pick = random.Random(self.seed)
        self.db = kpg.connect()
        self.queries = WideQueries(self.pick, {})
        self.history = History(self.pick, self.queries)
        for number in range(3):
            self.db.sql(self.history.create(f"t{number}"))
        self._datalog()

    def _datalog(self) -> None:
        self.db.sql(EDGES)
        self.db.sql(LINK)
        self.db.datalog(PROGRAM)
        self.queries.relations |= {
            "edge": (("a", "big"), ("b", "big")),
            "reach": (("a", "big"), ("b", "big")),
            "alone": (("a", "big"),),
        }

    @property
    def tables(self) -> list[str]:
        return [*self.history.tables, "edge"]

    def change(self) -> None:
        """A statement or a few, of which some may be refused."""
        edges = ", ".join(
            f"({self.pick.randrange(5)}, {self.pick.randrange(5)})" for _ in range(self.pick.randint(1, 3))
        )
        known = {name: (table, list(table.columns)) for name, table in self.history.tables.items()}
        for statement in (
            f"insert into edge values {edges} on conflict do nothing",
            f"delete from edge where a = {self.pick.randrange(5)}",
            *(self.history.statement() for _ in range(3)),
            self.history.insert(self.pick.choice(list(self.history.tables.values())), 2),
        ):
            if not statement.startswith("alter table") and len(statement) < 2 * MOST_TEXT:
                try:
                    self.db.sql(statement)
                except kpg.Error:
                    self.counts["refused"] += 1
        for table, columns in known.values():
            table.columns = columns

    def install(self) -> None:
        """One view more, if a query is found that kpg takes."""
        name = f"v{len(self.views)}"
        for _ in range(6):
            query = self.queries.query(self.pick.choice((1, 1, 2)))
            kind = "" if self.pick.random() < 0.15 else "materialized "
            statement = f"create {kind}view {name} as {query.text}"
            if len(query.text) > MOST_TEXT:
                continue
            try:
                self.db.sql(statement)
                self.db.sql(f"select * from {name}")
            except kpg.Error:
                self.db.sql(f"drop view if exists {name}")
                continue
            self.definitions.append(statement)
            self.views.append(name)
            if self.pick.random() < 0.35:
                self.queries.relations[name] = query.columns
            return

    # Explanations

    def check(self) -> None:
        """Explain some rows of each view."""
        contents = {table: counted(self._rows(table)) for table in self.tables}
        for name in self.views:
            try:
                rows = self._rows(name)
            except kpg.Error:
                continue
            for row in self.pick.sample(rows, min(ROWS, len(rows))):
                try:
                    self._explain(name, row, contents)
                except Exception as error:
                    error.add_note("\n".join(self.definitions[: self.views.index(name) + 1]))
                    self.failures.append(error)

    def _rows(self, relation: str) -> list[Row]:
        found = self.db.sql(f"select * from {relation}")
        assert isinstance(found, Rows)
        return found.fetchall()

    def _explain(self, name: str, row: Row, contents: dict[str, Counter[Row]]) -> None:
        self.counts["explained"] += 1
        try:
            proof = self.db.explain_row(name, row, sample=None)
        except kpg.ProgrammingError as error:
            if "there are" in str(error) or "several" in str(error):
                return
            raise NotEnough(f"{name} {row}: {error}") from error
        named = named_by(proof, self.tables)
        read = self._read_by(name)
        for table, found in named.items():
            if table == "edge":  # each of several proofs of a program names its own
                found[:] = dict.fromkeys(found)
            if not counted(found) <= contents[table]:
                raise NotEnough(f"{name} {row}\n{proof}\n{table} has no such rows: {found}")
            if found and table not in read:
                raise NotEnough(f"{name} {row}\n{proof}\n{table} has nothing to do with it")
        self.counts["rows named"] += sum(map(len, named.values()))
        self.counts["rows there"] += sum(contents[table].total() for table in read)
        again = self.alone(named, name)
        if words(row) not in again:
            raise NotEnough(f"{name} {row}\n{proof}\nwhat is named gives {again}")

    def _read_by(self, name: str) -> set[str]:
        """The tables that a view reads, through others."""
        found, pending = set[str](), [name]
        of = dict(zip(self.views, self.definitions, strict=True))
        of |= {"reach": "edge", "alone": "edge", "link": "edge"}
        while pending:
            for word in set(re.findall(r"\w+", of[pending.pop()])):
                if word in self.tables:
                    found.add(word)
                elif word in of and word not in found:
                    found.add(word)
                    pending.append(word)
        return found & set(self.tables)

    def alone(self, named: Named, view: str) -> set[Row]:
        """The view's rows in a database that has these rows of tables only, and no constraints."""
        with kpg.connect() as db:
            for name, table in self.history.tables.items():
                columns = ", ".join(f"{column} {SQL_TYPES[of]}" for column, of in table.columns)
                db.sql(f"create table {name} ({columns})")
            db.sql(EDGES)
            for name, rows in named.items():
                if rows:
                    db.insert(name, rows)
            db.sql(LINK)
            db.datalog(PROGRAM)
            for definition in self.definitions[: self.views.index(view) + 1]:
                db.sql(definition.replace("create materialized view", "create view", 1))
            found = db.sql(f"select * from {view}")
            assert isinstance(found, Rows)
            return set(map(words, found.fetchall()))


def named_by(proof: Proof, tables: Iterable[str]) -> Named:
    """The rows of tables that an explanation names, and how often."""
    found: Named = {name: [] for name in tables}
    for node in proof.nodes():
        if node.kind.value in KINDS and node.relation in found and node.row is not None:
            found[node.relation].append(node.row)
    return found


def live(seed: int, views: int = 4, steps: int = 3) -> World:
    """One history, rows being explained after every change; what was explained is counted."""
    world = World(seed)
    with world.db:
        for _ in range(3):
            world.change()
        for _ in range(views):
            world.install()
        for _ in range(steps):
            world.change()
            world.check()
    return world


def main() -> None:
    """Random histories until the time is over."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--seed", type=int, default=1000)
    parser.add_argument("--minutes", type=float, default=15)
    options = parser.parse_args()
    seed, end, counts = options.seed, time.monotonic() + options.minutes * 60, Counter[str]()
    while True:
        world = live(seed)
        counts += world.counts
        for error in world.failures:
            counts["failed"] += 1
            print(
                f"seed {seed}: {type(error).__name__}: {str(error)[:6000]}",
                *error.__notes__,
                sep="\n",
                flush=True,
            )
            if not isinstance(error, NotEnough):
                print("".join(traceback.format_exception(error, limit=-4))[:2500], flush=True)
        seed += 1
        if time.monotonic() >= end:
            break
    print(f"seeds {options.seed} to {seed - 1}", *(f"{n} {what}" for what, n in counts.items()), sep="\n")


if __name__ == "__main__":
    main()
