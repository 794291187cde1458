"""Ways in for a row: INSERT, MERGE, upsert, COPY, loads and UPDATE apply the same constraints.

Each case is a table and rows with the stored row or the SQLSTATE that Postgres gives. Every way must give it.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from numpy.typing import NDArray

import kpg
from kpg.execute.changes import table_pipeline
from kpg.extensions import Extension, Write
from kpg.postgres.sqlstate import sqlstate_of

Row = dict[str, Any]
Outcome = tuple[Any, ...] | str
"""The stored row, or the SQLSTATE of the error."""
Way = Callable[[kpg.Database, str, Row, Path], object]
numbers = count()


def constant(value: Any) -> str:
    if value is None:
        return "NULL"
    return f"'{value}'" if isinstance(value, str) else str(value)


def insertion(table: str, row: Row, values: Iterator[str] | None = None) -> str:
    return (
        f"insert into {table} ({', '.join(row)}) values ({', '.join(values or map(constant, row.values()))})"
    )


def assignments(row: Row) -> str:
    return ", ".join(f"{name} = {constant(value)}" for name, value in row.items())


def places(row: Row) -> Iterator[str]:
    return (f"${place + 1}" for place in range(len(row)))


def insert_select(db: kpg.Database, table: str, row: Row, _: Path) -> None:
    db.sql(f"insert into {table} ({', '.join(row)}) select {', '.join(map(constant, row.values()))}")


def insert_prepared(db: kpg.Database, table: str, row: Row, _: Path) -> None:
    db.sql(f"prepare p as {insertion(table, row, places(row))}")
    try:
        db.sql(f"execute p({', '.join(map(constant, row.values()))})")
    finally:
        db.sql("deallocate p")


def insert_in_session(db: kpg.Database, table: str, row: Row, _: Path) -> None:
    with db.session() as session:
        session.sql(insertion(table, row, places(row)), list(row.values()))


def insert_through_view(db: kpg.Database, table: str, row: Row, _: Path) -> None:
    db.sql(f"create view through as select * from {table}")
    try:
        db.sql(insertion("through", row))
    finally:
        db.sql("drop view through")


def merge(db: kpg.Database, table: str, row: Row, _: Path) -> None:
    values = ", ".join(map(constant, row.values()))
    db.sql(
        f"merge into {table} using (select 1 as n) s on false"
        f" when not matched then insert ({', '.join(row)}) values ({values})"
    )


def write_lines(folder: Path, row: Row, separator: str, null: str) -> Path:
    path = folder / f"{next(numbers)}.{'csv' if null == '' else 'txt'}"
    cells = (
        null if value is None else f'"{value}"' if isinstance(value, str) and null == "" else str(value)
        for value in row.values()
    )
    head = f"{separator.join(row)}\n" if null == "" else ""
    path.write_text(f"{head}{separator.join(cells)}\n")
    return path


def copy_csv(db: kpg.Database, table: str, row: Row, folder: Path) -> None:
    path = write_lines(folder, row, ",", "")
    db.sql(f"copy {table} ({', '.join(row)}) from '{path}' (format csv, header true)")


def copy_text(db: kpg.Database, table: str, row: Row, folder: Path) -> None:
    db.sql(f"copy {table} ({', '.join(row)}) from '{write_lines(folder, row, chr(9), chr(92) + 'N')}'")


def arrow_of(row: Row) -> pa.Table:
    return pa.table({name: [value] for name, value in row.items()})


def load_parquet(db: kpg.Database, table: str, row: Row, folder: Path) -> None:
    path = folder / f"{next(numbers)}.parquet"
    pq.write_table(arrow_of(row), path)
    db.load(table, path)


def update_repeatedly(db: kpg.Database, table: str, row: Row, _: Path) -> None:
    for key in (-3, -2, -1, 0):  # the last by a cached plan
        db.sql(f"update {table} set {assignments(row)} where k = {key}")


def update_in_session(db: kpg.Database, table: str, row: Row, _: Path) -> None:
    with db.session() as session:
        for key in (-3, -2, -1, 0):
            session.sql(f"update {table} set {assignments(row)} where k = {key}")


WAYS: dict[str, dict[str, Way]] = {
    "sql": {
        "VALUES": lambda db, table, row, _: db.sql(insertion(table, row)),
        "parameters": lambda db, table, row, _: db.sql(
            insertion(table, row, iter("?" * len(row))), list(row.values())
        ),
        "SELECT": insert_select,
        "EXECUTE": insert_prepared,
        "session": insert_in_session,
        "WITH": lambda db, table, row, _: db.sql(
            f"with new as ({insertion(table, row)} returning *) select * from new"
        ),
        "DO NOTHING": lambda db, table, row, _: db.sql(f"{insertion(table, row)} on conflict (k) do nothing"),
        "DO UPDATE": lambda db, table, row, _: db.sql(
            f"{insertion(table, row)} on conflict (k) do update set k = excluded.k"
        ),
        "view": insert_through_view,
        "MERGE": merge,
    },
    "copy": {"csv": copy_csv, "text": copy_text},
    "python": {
        "rows": lambda db, table, row, _: db.insert(table, [row]),
        "columns": lambda db, table, row, _: db.insert(table, {name: [row[name]] for name in row}),
        "arrow": lambda db, table, row, _: db.insert(table, arrow_of(row)),
        "upsert": lambda db, table, row, _: db.upsert(table, [row]),
        "load": load_parquet,
        "load csv": lambda db, table, row, folder: db.load(table, write_lines(folder, row, ",", "")),
    },
    "update": {
        "repeated": update_repeatedly,
        "session": update_in_session,
        "FROM": lambda db, table, row, _: db.sql(
            f"update {table} set {assignments(row)} from (select 0 as n) s where k = s.n"
        ),
        "MERGE": lambda db, table, row, _: db.sql(
            f"merge into {table} using (select 0 as n) s on k = s.n when matched then update set"
            f" {assignments(row)}"
        ),
        "DO UPDATE": lambda db, table, row, _: db.sql(
            f"insert into {table} select * from {table} where k = 0"
            f" on conflict (k) do update set {assignments(row)}"
        ),
    },
}


@dataclass
class Case:
    """A table and rows. Other groups of ways than ``sql`` give the same outcome unless stated."""

    name: str
    definition: str
    base: str
    """The row that an UPDATE changes; its key is 0."""
    rows: list[tuple[Row, dict[str, Outcome | None]]]
    target: str = "t"
    without: tuple[str, ...] = ()
    """Ways that the table does not support."""


VIEW = "42809"
UNSUPPORTED = "0A000"
CASES = [
    Case(
        "default",
        "create table t (k int primary key, v int default 7, w text default 'x')",
        "(0, 0, 'z')",
        [
            ({"k": 1}, {"sql": (1, 7, "x"), "update": (1, 0, "z")}),
            ({"k": 1, "v": None}, {"sql": (1, None, "x"), "update": (1, None, "z")}),
            ({"k": 1, "v": 2, "w": "a"}, {"sql": (1, 2, "a")}),
        ],
        without=("update DO UPDATE",),
    ),
    Case(
        "sequence",
        "create table t (k int primary key, v serial)",
        "(0, 9)",
        [({"k": 1}, {"sql": (1, 1), "update": (1, 9)}), ({"k": 1, "v": 5}, {"sql": (1, 5)})],
    ),
    Case(
        "identity",
        "create table t (k int primary key, v int generated always as identity)",
        "(0, default)",
        [
            ({"k": 1}, {"sql": (1, 1)}),
            # As in Postgres, COPY stores values of an identity column. So do loads.
            ({"k": 1, "v": 5}, {"sql": "428C9", "copy": (1, 5), "python": (1, 5)}),
        ],
        without=("update DO UPDATE",),
    ),
    Case(
        "generated",
        "create table t (k int primary key, v int, g int generated always as (v * 2) stored check (g < 10))",
        "(0, 1, default)",
        [
            ({"k": 1, "v": 2}, {"sql": (1, 2, 4)}),
            ({"k": 1, "v": 6}, {"sql": "23514"}),
            ({"k": 1, "v": 2_000_000_000}, {"sql": "22003"}),
            ({"k": 1, "g": 2}, {"sql": "428C9", "copy": "42P10", "python": None}),
        ],
        without=("update DO UPDATE",),
    ),
    Case(
        "generated text",
        "create table t (k int primary key, g varchar(2) generated always as ('x' || k) stored)",
        "(0, default)",
        [({"k": 1}, {"sql": (1, "x1")}), ({"k": 12}, {"sql": "22001"})],
        without=("update DO UPDATE",),
    ),
    Case(
        "not null",
        "create table t (k int primary key, v int not null default 5)",
        "(0, 1)",
        [
            ({"k": 1}, {"sql": (1, 5), "update": (1, 1)}),
            ({"k": 1, "v": None}, {"sql": "23502"}),
            ({"k": None, "v": 1}, {"sql": "23502"}),
        ],
    ),
    Case(
        "domain",
        "create domain positive as int check (value > 0); create domain required as text not null;"
        "create table t (k int primary key, v positive, w required default 'a')",
        "(0, 1, 'a')",
        [
            ({"k": 1, "v": 2}, {"sql": (1, 2, "a")}),
            ({"k": 1, "v": None}, {"sql": (1, None, "a")}),
            ({"k": 1, "v": -2}, {"sql": "23514"}),
            ({"k": 1, "w": None}, {"sql": "23502"}),
        ],
    ),
    Case(
        "check",
        "create table t (k int primary key, v int check (v < 10))",
        "(0, 1)",
        [
            ({"k": 1, "v": 2}, {"sql": (1, 2)}),
            ({"k": 1, "v": None}, {"sql": (1, None)}),
            ({"k": 1, "v": 11}, {"sql": "23514"}),
        ],
    ),
    Case(
        "length",
        "create table t (k int primary key, v varchar(3), w char(3), n numeric(4, 1), b int)",
        "(0, '', '', 0, 0)",
        [
            ({"k": 1, "v": "abc", "w": "ab"}, {"sql": (1, "abc", "ab ", None, None), "update": None}),
            ({"k": 1, "v": "abc  "}, {"sql": (1, "abc", None, None, None), "update": None}),
            ({"k": 1, "v": "abcd"}, {"sql": "22001"}),
            ({"k": 1, "w": "abcd"}, {"sql": "22001"}),
            ({"k": 1, "n": 12345}, {"sql": "22003"}),
            ({"k": 1, "b": 2**31}, {"sql": "22003"}),
        ],
    ),
    Case(
        "key",
        "create table t (k int primary key, v int unique nulls not distinct); insert into t values (7, 8)",
        "(0, 0)",
        [
            ({"k": 2, "v": 2}, {"sql": (2, 2)}),
            ({"k": 2, "v": 8}, {"sql": "23505"}),
            ({"k": 2, "v": None}, {"sql": (2, None)}),
        ],
    ),
    Case(
        "unique index",
        "create table t (k int primary key, v text, n int); create unique index i on t (lower(v));"
        "create unique index j on t (n) where n > 5; insert into t values (7, 'a', 6), (8, 'b', 5)",
        "(0, 'z', 0)",
        [
            ({"k": 2, "v": "A", "n": 1}, {"sql": "23505"}),
            ({"k": 2, "v": "c", "n": 6}, {"sql": "23505"}),
            ({"k": 2, "v": "c", "n": 5}, {"sql": (2, "c", 5)}),
        ],
    ),
    Case(
        "foreign key",
        "create table parent (k int primary key); insert into parent values (1);"
        "create table t (k int primary key, v int references parent,"
        " w int references parent deferrable initially deferred)",
        "(0, 1, 1)",
        [
            ({"k": 1, "v": 1, "w": 1}, {"sql": (1, 1, 1)}),
            ({"k": 1, "v": None, "w": None}, {"sql": (1, None, None)}),
            ({"k": 1, "v": 2, "w": 1}, {"sql": "23503"}),
            ({"k": 1, "v": 1, "w": 2}, {"sql": "23503"}),
        ],
    ),
    Case(
        "partitioned",
        "create table t (k int primary key, v int check (v < 5)) partition by range (k);"
        "create table low partition of t (check (v > 0)) for values from (-9) to (10);"
        "create table high partition of t for values from (10) to (20)",
        "(0, 1)",
        [
            ({"k": 1, "v": 1}, {"sql": (1, 1), "python": UNSUPPORTED}),
            ({"k": 11, "v": -1}, {"sql": (11, -1), "python": UNSUPPORTED}),
            ({"k": 1, "v": -1}, {"sql": "23514", "python": UNSUPPORTED}),
            ({"k": 11, "v": 9}, {"sql": "23514", "python": UNSUPPORTED}),
            ({"k": 30, "v": 1}, {"sql": "23514", "python": UNSUPPORTED}),
        ],
        without=("sql view", "update DO UPDATE"),
    ),
    Case(
        "partition",
        "create table whole (k int primary key, v int) partition by range (k);"
        "create table t partition of whole for values from (-9) to (10)",
        "(0, 1)",
        [({"k": 1, "v": 1}, {"sql": (1, 1)}), ({"k": 30, "v": 1}, {"sql": "23514"})],
    ),
    Case(
        "check option",
        "create table stored (k int primary key, v int, g int generated always as (v * 2) stored);"
        "create view t as select * from stored where v < 10 and g > 0 with check option",
        "(0, 1, default)",
        [
            ({"k": 1, "v": 2}, {"sql": (1, 2, 4), "copy": VIEW, "python": VIEW}),
            ({"k": 1, "v": 11}, {"sql": "44000", "copy": VIEW, "python": VIEW}),
            ({"k": 1, "v": -1}, {"sql": "44000", "copy": VIEW, "python": VIEW}),
            ({"k": 1, "v": None}, {"sql": "44000", "copy": VIEW, "python": VIEW}),
        ],
        target="stored",
        without=("sql MERGE", "update MERGE", "update DO UPDATE"),
    ),
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_every_way_in_for_a_row_gives_the_same(case: Case, tmp_path: Path) -> None:
    with kpg.connect() as db:
        db.sql(case.definition)
        fixed = db.query("select * from t").fetchall()
        for row, expected in case.rows:
            for group, ways in WAYS.items():
                wanted = expected.get(group, expected["sql"])
                for name, way in ways.items() if wanted is not None else ():
                    if f"{group} {name}" in case.without:
                        continue
                    db.sql(f"delete from t where k < 7 or k > 8; {restart(case)}")
                    if group == "update":
                        db.sql(f"insert into t values {case.base}; {restart(case)}")
                    before = db.query("select * from t order by k").fetchall()
                    found: Outcome
                    try:
                        way(db, "t", row, tmp_path)
                        (found,) = set(db.query("select * from t where k <> 0").fetchall()) - set(fixed)
                    except kpg.Error as error:
                        found = sqlstate_of(error)
                        assert db.query("select * from t order by k").fetchall() == before
                    assert found == wanted, (group, name, row)


def restart(case: Case) -> str:
    return "alter sequence t_v_seq restart" if case.name in ("sequence", "identity") else ""


POLICY_CASES: list[tuple[Row, str | None, str | None]] = [
    ({"k": 1, "v": 1}, None, None),
    ({"k": 1, "v": 11}, "42501", "42501"),  # WITH CHECK
    ({"k": 1, "v": -1}, "42501", "42501"),  # the restrictive policy
]


@pytest.mark.parametrize(("row", "inserted", "updated"), POLICY_CASES)
def test_every_way_of_a_session_applies_row_policies(
    row: Row, inserted: str | None, updated: str | None, tmp_path: Path
) -> None:
    with kpg.connect() as db:
        db.sql(
            "create role bob; create table t (k int primary key, v int,"
            " g int generated always as (v) stored); create view through as select * from t;"
            "grant all on t, through to bob;"
            "alter table t enable row level security;"
            "create policy visible on t using (true) with check (v < 10);"
            "create policy positive on t as restrictive with check (g > 0)"
        )
        for group, wanted in (("sql", inserted), ("update", updated)):
            for name, way in WAYS[group].items():
                if name in ("view", "session") or f"{group} {name}" == "update DO UPDATE":
                    continue
                db.sql("delete from t")
                if group == "update":
                    db.sql("insert into t values (0, 1)")
                with db.session("bob") as bob:
                    try:
                        way(bob, "t", row, tmp_path)  # type: ignore[arg-type]
                        found = None
                    except kpg.Error as error:
                        found = sqlstate_of(error)
                assert found == wanted, (group, name)
                stored = db.query("select k, v from t where k <> 0").fetchall()
                assert stored == ([] if wanted else [tuple(row.values())]), (group, name)


OF_A_TABLE = [
    "insert into t select 1, v from s",
    "update t set v = s.v from s",
    "update t set v = (select v from s)",
    "update t set (k, v) = (select 0, v from s)",
    "merge into t using s on t.k = 0 when matched then update set v = s.v",
    "merge into t using s on false when not matched then insert values (1, s.v)",
    "insert into t (k) values (0) on conflict (k) do update set v = (select v from s)",
]
OF_CONSTANTS = [
    "insert into t select 1, x.v from (select 'abcd' as v) x",
    "insert into t values (1, 'ab' || 'cd')",
    "update t set v = 'abcd'::text",
]


@pytest.mark.parametrize(
    ("column", "source", "fitting", "long"),
    [
        ("varchar(3)", "text", "abc  ", "abcd"),
        ("char(3)", "varchar(9)", "ab   ", "abcd"),
        ("bit(3)", "bit varying", "101", "1011"),
        ("bit varying(3)", "bit(4)", "", "1011"),
    ],
)
def test_an_assignment_never_truncates(column: str, source: str, fitting: str, long: str) -> None:
    for text in OF_A_TABLE if "bit" in column else OF_A_TABLE + OF_CONSTANTS:
        with kpg.connect() as db:
            db.sql(f"create table t (k int primary key, v {column}); insert into t (k) values (0)")
            db.sql(f"create table s (k int, v {source}); insert into s values (1, '{long}')")
            with pytest.raises(kpg.DataError) as caught:
                db.sql(text)
            assert sqlstate_of(caught.value) == ("22026" if column == "bit(3)" else "22001")
            assert db.query("select * from t").fetchall() == [(0, None)]
            if fitting and text in OF_A_TABLE:
                db.sql(f"update s set v = '{fitting}'; {text}")
                assert (fitting[:3],) in db.query("select v from t").fetchall(), text


@pytest.mark.parametrize(
    ("element", "value", "state"),
    [
        ("bit(2)", "b'111'", "22026"),
        ("bit(2)", "b'1'", "22026"),
        ("bit(2)", "'1'::bit(1)", "22026"),
        ("bit varying(2)", "b'111'", "22001"),
        ("varchar(2)", "'111'::text", "22001"),
        ("char(2)", "'111'", "22001"),
    ],
)
def test_a_part_is_assigned_without_truncation(element: str, value: str, state: str) -> None:
    with kpg.connect() as db:
        db.sql(f"create table t (a {element}[]); insert into t values ('{{10}}')")
        for assigned in (f"a[1] = {value}", f"a[1:1] = array[{value}]", f"a = array[{value}]"):
            with pytest.raises(kpg.DataError) as caught:
                db.sql(f"update t set {assigned}")
            assert sqlstate_of(caught.value) == state, assigned
        assert db.query("select a from t").fetchall() == [(["10"],)]


@pytest.mark.parametrize(
    ("column", "value", "state"), [("bit(2)", "1", "22026"), ("bit varying(2)", "111", "22001")]
)
def test_a_constant_bit_string_is_not_truncated(column: str, value: str, state: str) -> None:
    with kpg.connect() as db:
        db.sql(f"create table t (k int primary key, b {column}); insert into t values (1, '10')")
        for rows in (f"(2, '{value}')", f"(2, '11'), (3, '{value}')"):
            with pytest.raises(kpg.DataError) as caught:
                db.sql(f"insert into t values {rows}")
            assert sqlstate_of(caught.value) == state
        assert db.query("select * from t").fetchall() == [(1, "10")]


def test_a_check_option_applies_to_the_rows_that_are_stored() -> None:
    """A row that ON CONFLICT skips is not checked, as in Postgres; its replacement is."""
    with kpg.connect() as db:
        db.sql("create table stored (k int primary key, v int); insert into stored values (0, 1)")
        db.sql("create view t as select * from stored where v < 10 with check option")
        db.sql("insert into t values (0, 99) on conflict (k) do nothing")
        db.sql("insert into t values (0, 99) on conflict (k) do update set v = 2")
        assert db.query("select * from stored").fetchall() == [(0, 2)]
        with pytest.raises(kpg.IntegrityError, match="CHECK OPTION"):
            db.sql("insert into t values (0, 1) on conflict (k) do update set v = 99")


def test_a_stage_of_an_extension_sees_the_rows_of_every_way(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(table_pipeline, "_registrations", [*table_pipeline._registrations])
    audit = Extension(f"audit{next(numbers)}")

    @audit.table_stage("audit", lambda entry: entry.name == "t")
    def check(write: Write, words: NDArray[np.int64]) -> NDArray[np.int64]:
        if (words[1] == 13).any():
            raise kpg.IntegrityError(f"{write.command} of an unlucky row")
        words = words.copy()
        words[2] = 2 * words[1]
        return words

    with kpg.connect() as db:
        db.sql("create table t (k int primary key, v int, w int)")
        db.sql("insert into t values (9, 13, 0)")  # the database does not have the extension
        db.sql(f"create extension {audit.name}")
        for group, ways in WAYS.items():
            for name, way in ways.items():
                db.sql(
                    "delete from t; insert into t values (0, 1, 0)" if group == "update" else "delete from t"
                )
                with pytest.raises(kpg.IntegrityError, match="of an unlucky row"):
                    way(db, "t", {"k": 1, "v": 13, "w": 0}, tmp_path)
                way(db, "t", {"k": 1, "v": 3, "w": 0}, tmp_path)
                assert (1, 3, 6) in db.query("select * from t").fetchall(), (group, name)
        db.sql("delete from t; create table p (v int primary key); insert into p values (3)")
        db.sql("alter table t add foreign key (v) references p on update cascade")
        db.sql("insert into t values (1, 3, 0)")
        with pytest.raises(kpg.IntegrityError, match="UPDATE of an unlucky row"):
            db.sql("update p set v = 13")
        db.sql("update p set v = 4")
        assert db.query("select * from t").fetchall() == [(1, 4, 8)]


FOLLOWED: list[tuple[str, str | None, str | None]] = [
    ("", None, None),
    ("alter table t add constraint small check (v < 10)", "23514", "23514"),
    ("begin; alter table t drop constraint small; rollback", "23514", "23514"),
    ("alter table t drop constraint small", None, None),
    ("alter table t enable row level security", None, "42501"),
    ("create policy p on t with check (v > 9)", None, None),
    ("alter policy p on t with check (v < 9)", None, "42501"),
    ("begin; alter table t disable row level security; rollback", None, "42501"),
    ("alter table t disable row level security", None, None),
    ("alter table t alter column w type varchar(2)", "22001", "22001"),
    ("alter table t alter column w type text", None, None),
    ("create table whole (k int, v int, w text) partition by range (v);"
     "alter table whole attach partition t for values from (0) to (11)", "23514", "23514"),
    ("alter table whole detach partition t", None, None),
]  # fmt: skip


def test_cached_inserts_follow_definitions() -> None:
    """One shape of INSERT, of two roles, between the definitions that change the stages of its table."""
    with kpg.connect() as db:
        db.sql("create table t (k int, v int, w text); create role bob; grant all on t to bob")
        with db.session("bob") as bob:
            for definition, *expected in FOLLOWED:
                db.sql(f"delete from t; {definition}")
                for writer, wanted in zip((db, bob), expected, strict=True):
                    for _ in range(2):
                        try:
                            writer.sql(f"insert into t values ({next(numbers)}, 11, 'abc')")
                            found = None
                        except kpg.Error as error:
                            found = sqlstate_of(error)
                        assert found == wanted, (definition, writer)
