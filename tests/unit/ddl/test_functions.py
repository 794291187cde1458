"""Users' functions in SQL: of values, of columns, that make rows, aggregates; in views and once."""

import datetime
import random
from collections.abc import Iterator
from contextlib import nullcontext
from decimal import Decimal
from typing import Any

import numpy as np
import pytest

import kpg
from kpg.api.database import Database
from kpg.runtime.errors import DataError, InterfaceError, ProgrammingError


@pytest.fixture
def db() -> Iterator[Database]:
    with kpg.connect() as database:
        database.sql("create table t (id int primary key, g text, x int, d date, p decimal(8, 2))")
        database.sql("insert into t values (1, 'a', 4, '2020-02-28', 1.5), (2, 'b', null, null, 2.25)")
        database.sql("insert into t values (3, 'a', -1, '2020-03-01', 0)")
        yield database


def rows(db: Database, query: str) -> list[tuple[Any, ...]]:
    return sorted(db.query(query).fetchall(), key=str)


def test_values_are_those_of_rows(db: Database) -> None:
    def told(g: str, x: int, d: datetime.date, p: Decimal) -> str:
        return f"{g!r} {x!r} {d!r} {p!r}"

    db.create_function("told", told)
    assert rows(db, "select told(g, x, d, p) from t where x is not null") == [
        ("'a' -1 datetime.date(2020, 3, 1) Decimal('0.00')",),
        ("'a' 4 datetime.date(2020, 2, 28) Decimal('1.50')",),
    ]
    assert rows(db, "select told(g, x, d, p) from t where x is null") == [(None,)]
    assert rows(db, "select Told('z', 1 + 1, date '2000-01-01', 7)") == [
        ("'z' 2 datetime.date(2000, 1, 1) Decimal('7')",)
    ]


def test_a_view_follows(db: Database) -> None:
    calls = []

    def double(x: int) -> int:
        calls.append(x)
        return 2 * x

    db.create_function("double", double)
    db.sql(
        "create materialized view v as select g, sum(double(x)) as s from t where double(x) > 0 group by g"
    )
    assert list(db.view("v")) == [("a", 8)]
    db.sql("insert into t values (4, 'b', 10, null, null)")
    db.sql("update t set x = 5 where id = 1")
    assert sorted(db.view("v")) == [("a", 10), ("b", 20)]
    db.sql("delete from t where id = 4")
    assert list(db.view("v")) == [("a", 10)]
    db.verify("v")
    assert set(calls) == {4, -1, 10, 5}


def test_columns(db: Database) -> None:
    seen: list[tuple[str, int]] = []

    def scaled(x: np.ndarray, d: np.ndarray) -> np.ndarray:
        seen.append((str(x.dtype), len(x)))
        return x * 10 + (d - np.datetime64("2020-01-01")).astype(int)

    db.create_function("scaled", scaled, ["BIGINT", "DATE"], "BIGINT", columns=True)
    assert rows(db, "select id, scaled(x, d) from t") == [(1, 98), (2, None), (3, 50)]
    assert seen == [("int64", 2)]
    db.sql("create materialized view v as select id from t where scaled(x, d) > 60")
    db.sql("update t set x = 100 where id = 3")
    assert sorted(db.view("v")) == [(1,), (3,)]


def test_columns_of_text_and_truth(db: Database) -> None:
    db.create_function("long", lambda g: np.array([len(one) > 1 for one in g]), [str], bool, columns=True)
    db.create_function("cry", lambda g: g + "!", [str], str, columns=True)
    assert rows(db, "select cry(g), long(g), long('ab') from t where not long(g)") == [
        ("a!", False, True),
        ("a!", False, True),
        ("b!", False, True),
    ]


def test_nulls(db: Database) -> None:
    db.create_function("known", lambda x, g: f"{x} {g}", [int, str], str, nulls=True)
    assert rows(db, "select known(x, g) from t") == [("-1 a",), ("4 a",), ("None b",)]
    assert rows(db, "select known(null, null)") == [("None None",)]
    db.create_function("nothing", lambda x: None, ["INT"], "TEXT")
    assert rows(db, "select nothing(id) from t where id = 1") == [(None,)]


def test_rows(db: Database) -> None:
    db.create_function(
        "digits", lambda x: [(i, d) for i, d in enumerate(str(x))], [int], {"i": int, "d": str}
    )
    db.create_function("twice", lambda g: [g, g], [str], {"it": str})
    assert rows(db, "select * from digits(-12)") == [(0, "-"), (1, "1"), (2, "2")]
    assert rows(db, "select id, e.d from t, digits(x) as e where i = 0") == [(1, "4"), (3, "-")]
    assert rows(db, "select twice(g) from t where id = 2") == [("b",), ("b",)]
    query = "select g, e.d, count(*) as n from t, lateral digits(x) as e group by g, e.d"
    db.sql(f"create materialized view v as {query}")
    db.sql("update t set x = 44 where id = 3")
    assert list(db.view("v")) == [("a", "4", 3)]
    db.sql("delete from t where id = 1")
    assert list(db.view("v")) == [("a", "4", 2)]


class Product:
    """The product of numbers, of which zeros are counted apart, so that they can leave again."""

    def initialize(self) -> list[int]:
        return [1, 0]

    def add(self, state: list[int], x: int) -> list[int]:
        return [state[0] * x, state[1]] if x else [state[0], state[1] + 1]

    def subtract(self, state: list[int], x: int) -> list[int]:
        return [state[0] // x, state[1]] if x else [state[0], state[1] - 1]

    def merge(self, state: list[int], other: list[int]) -> list[int]:
        return [state[0] * other[0], state[1] + other[1]]

    def finish(self, state: list[int]) -> int:
        return 0 if state[1] else state[0]


class Longest:
    """The longest text, which cannot be taken back."""

    idempotent = True

    def initialize(self) -> str:
        return ""

    def add(self, state: str, text: str, times: int) -> str:
        assert times > 0
        return max(state, text, key=lambda one: (len(one), one))

    def finish(self, state: str) -> str:
        return state


@pytest.mark.parametrize("form", [Product, Product()], ids=["a class", "an object"])
def test_aggregates(db: Database, form: Any) -> None:
    db.create_function("multiplied", form)
    db.create_function("longest", Longest())
    assert rows(db, "select multiplied(x), longest(g), count(*) from t") == [(-4, "b", 3)]
    assert rows(db, "select g, multiplied(x) from t group by g") == [("a", -4), ("b", None)]
    assert rows(db, "select multiplied(x) filter (where x > 0), multiplied(distinct x) from t") == [(4, -4)]
    query = "select g, multiplied(x) as p, longest(g || x) as l from t group by g"
    db.sql(f"create materialized view v as {query}")
    db.sql("insert into t values (4, 'a', 0, null, null), (5, 'b', 7, null, null), (6, 'b', 7, null, null)")
    assert sorted(db.view("v")) == [("a", 0, "a-1"), ("b", 49, "b7")]
    db.sql("delete from t where id in (4, 5)")
    assert sorted(db.view("v")) == [("a", -4, "a-1"), ("b", 7, "b7")]
    db.sql("update t set x = -55 where id = 6")
    assert sorted(db.view("v")) == [("a", -4, "a-1"), ("b", -55, "b-55")]
    db.verify("v")


class Sorted:
    """All values in order, as text: nothing is lost, so any mistake shows."""

    def initialize(self) -> list[int]:
        return []

    def add(self, state: list[int], x: int, times: int) -> list[int]:
        state += [x] * times
        return state

    def finish(self, state: list[int]) -> str:
        return " ".join(map(str, sorted(state)))


class Tracked(Sorted):
    """The same, from which values can be taken."""

    def subtract(self, state: list[int], x: int, times: int) -> list[int]:
        for _ in range(times):
            state.remove(x)
        return state


@pytest.mark.parametrize("seed", range(4))
def test_taking_rows_back_is_computing_again(db: Database, seed: int) -> None:
    pick = random.Random(seed)
    db.create_function("every_one", Sorted)
    db.create_function("kept", Tracked)
    db.sql("create table r (id int primary key, g int, x int)")
    db.sql("create materialized view v as select g, kept(x) as a, kept(distinct x) as b from r group by g")
    db.sql("create materialized view w as select kept(x) as a, count(*) as n from r where g > 0")
    assert "Fold" in db.view("v").explain() and "BasicReduce" not in db.view("v").explain()

    def change() -> None:
        number, group, value = pick.randrange(8), pick.randrange(3), pick.choice(["null", "1", "2", "-7"])
        db.sql(f"delete from r where id = {number}")
        if pick.random() < 0.7:
            db.sql(f"insert into r values ({number}, {group}, {value})")

    def compare() -> None:
        grouped = "select g, every_one(x), every_one(distinct x) from r group by g"
        assert sorted(db.view("v"), key=str) == rows(db, grouped)
        assert sorted(db.view("w"), key=str) == rows(db, "select every_one(x), count(*) from r where g > 0")

    for _ in range(30):
        block = pick.choice([db.transaction, db.batch, nullcontext])
        try:
            with block():
                for _ in range(pick.randrange(4)):
                    change()
                if block is not nullcontext and pick.random() < 0.3:
                    raise LookupError
        except LookupError:
            pass
        compare()
    db.sql("create materialized view u as select g, kept(x) as a from r group by g")
    db.sql("delete from r where g = 1")
    assert sorted(db.view("u"), key=str) == rows(db, "select g, every_one(x) from r group by g")


def test_a_failed_step_leaves_states_as_they_were(db: Database) -> None:
    class Small(Tracked):
        def add(self, state: list[int], x: int, times: int) -> list[int]:
            state += [x] * times
            if x > 100:
                raise ValueError("too large")
            return state

    db.create_function("small", Small)
    db.sql("create materialized view v as select g, small(x) as a from t group by g")
    with pytest.raises(DataError, match="small of a group cannot be computed: ValueError: too large"):
        db.sql("insert into t values (4, 'a', 7, null, null), (5, 'a', 101, null, null)")
    assert sorted(db.view("v"), key=str) == [("a", "-1 4"), ("b", None)]
    db.sql("insert into t values (4, 'a', 7, null, null)")
    assert sorted(db.view("v"), key=str) == [("a", "-1 4 7"), ("b", None)]


def test_failures_are_the_statements(db: Database) -> None:
    db.create_function("inverse", lambda x: 10 // x, [int], int)
    db.create_function("inverses", lambda x: 10 // x if x.all() else 1 / 0, [int], int, columns=True)
    db.create_function("wrong", lambda x: "text", [int], int)
    db.create_function("large", lambda x: 10**10, [int], "INT")
    db.create_function("fails", lambda x: [][x], [int], {"a": int})
    db.sql("insert into t values (4, 'c', 0, null, null)")
    with pytest.raises(DataError, match=r"^inverse\(0\) failed: ZeroDivisionError: "):
        db.query("select inverse(x) from t")
    assert rows(db, "select inverse(x) from t where x <> 0") == [(-10,), (2,)]
    with pytest.raises(DataError, match=r"^inverses\(0\) failed"):
        db.query("select inverses(x) from t")
    assert rows(db, "select id, inverses(x) from t where x <> 0") == [(1, 2), (3, -10)]
    with pytest.raises(DataError, match=r"^wrong\(4\) failed: 'text' is no BIGINT"):
        db.query("select wrong(x) from t where id = 1")
    with pytest.raises(DataError, match=r"^large\(1\) failed: 10000000000 is no INTEGER"):
        db.query("select large(id) from t where id = 1")
    with pytest.raises(DataError, match="IndexError"):
        db.query("select * from fails(1)")


def test_a_failing_commit_is_refused(db: Database) -> None:
    db.create_function("inverse", lambda x: 10 // x, [int], int)
    db.sql("create materialized view v as select inverse(x) as i from t where x is not null")
    with pytest.raises(DataError, match=r"inverse\(0\) failed"):
        db.sql("insert into t values (4, 'c', 0, null, null)")
    assert sorted(db.view("v")) == [(-10,), (2,)]
    db.sql("insert into t values (4, 'c', 5, null, null)")
    assert sorted(db.view("v")) == [(-10,), (2,), (2,)]


def test_names(db: Database) -> None:
    db.create_function("soundex", lambda g: g.upper(), [str], str)
    assert rows(db, "select soundex('abc')") == [("ABC",)]
    with pytest.raises(ProgrammingError, match='function "soundex" already exists'):
        db.create_function("Soundex", len, [str], int)
    db.sql("create materialized view v as select soundex(g) as s from t")
    with pytest.raises(ProgrammingError, match='function "soundex" cannot be dropped: view "v" uses it'):
        db.drop_function("soundex")
    db.sql("drop view v")
    db.drop_function("soundex")
    db.create_function("soundex", lambda g: g + g, [str], str)
    assert rows(db, "select soundex('abc')") == [("abcabc",)]
    with kpg.connect() as other, pytest.raises(kpg.Error):
        other.query("select soundex('abc')")


@pytest.mark.parametrize(
    ("name", "function", "args", "returns", "error", "message"),
    [
        ("lower", len, [str], int, ProgrammingError, '"lower" is a function of SQL'),
        ("sum", len, [str], int, ProgrammingError, '"sum" is a function of SQL'),
        ("a b", len, [str], int, InterfaceError, "is no name of a function"),
        ("f", 5, [str], int, InterfaceError, "5 is not a function"),
        ("f", lambda x: x, None, int, InterfaceError, "the type of argument x of f cannot be told"),
        ("f", lambda x: x, [int], None, InterfaceError, "the type of what f gives cannot be told"),
        ("f", lambda x: x, ["COLOUR"], int, ProgrammingError, "f, argument 1 has no type 'COLOUR'"),
    ],
)
def test_refusals(
    db: Database, name: str, function: Any, args: Any, returns: Any, error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        db.create_function(name, function, args, returns)


def test_wrong_calls(db: Database) -> None:
    db.create_function("f", lambda x: x, [int], int)
    with pytest.raises(ProgrammingError, match=r"f does not take \(VARCHAR, INTEGER\)"):
        db.query("select f(g, 1) from t")
    with pytest.raises(ProgrammingError, match='there is no function "g" of your own'):
        db.drop_function("g")
