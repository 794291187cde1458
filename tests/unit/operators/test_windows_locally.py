"""Few changes of a large partition: an index is a sorted list, and rows are computed where answers change."""

import random
from collections import Counter

import numpy as np
import pytest

import kpg
from kpg.api.database import Database
from kpg.api.result import Rows
from kpg.runtime.dictionary import Dictionary
from kpg.runtime.operators.windows import partition_index as indexes
from kpg.runtime.operators.windows.partition_index import PartitionIndex
from kpg.runtime.operators.windows.window_operator import Window, make_index_spec
from kpg.runtime.plan import Bound, Edge, Exclude, Frame, Unit, WindowCall, is_local
from kpg.runtime.scalar import Column, Literal
from kpg.runtime.types import BIGINT, DOUBLE, INTEGER, NULL
from tests.properties.sql_windows import TABLES, change, query, table_rows

Row = tuple[int, ...]
VALUE = Column(1, BIGINT)
CALLS = tuple(WindowCall(name, (VALUE,), BIGINT) for name in ("count", "sum", "min", "max"))


def small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kpg.runtime.operators.windows.window_operator.INDEXED_ROWS", 1)
    monkeypatch.setattr(indexes, "BLOCK", 3)
    monkeypatch.setattr(indexes, "FAN", 3)
    monkeypatch.setattr("kpg.runtime.operators.windows.window_operator.CHUNK_ROWS", 2)


def columns_of(rows: list[Row]) -> np.ndarray[tuple[int, int], np.dtype[np.int64]]:
    return np.array(rows, np.int64).reshape(-1, 2).T.copy()


def summed(rows: list[Row]) -> tuple[object, ...]:
    values = [value for _, value in rows if value != NULL]
    small, large = (min(values), max(values)) if values else (None, None)
    extremes = (None if one is None else (one, one) for one in (small, large))
    return len(values), (len(values), sum(values)), *extremes


@pytest.mark.parametrize("seed", range(8))
def test_an_index_is_a_sorted_list(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    small(monkeypatch)
    generator = random.Random(seed)
    shape = make_index_spec(2, (0,), CALLS, (), Dictionary())
    assert shape is not None
    rows: list[Row] = []
    index = PartitionIndex.build(shape, columns_of(rows))
    for _ in range(60):
        before = list(rows)
        wanted: Counter[Row] = Counter()
        for _ in range(generator.randint(1, 4)):
            row = (generator.randint(0, 4), generator.choice([NULL, -3, 1, 1, 2**60]))
            gone = rows.count(row) if generator.random() < 0.5 else 0
            wanted[row] = -generator.randint(0, gone) if gone else generator.randint(1, 3)
        changes = sorted((row, count) for row, count in wanted.items() if count)
        old = index
        if changes:
            index = index.apply_changes(
                columns_of([row for row, _ in changes]), [count for _, count in changes]
            )
        rows = sorted((Counter(rows) + +wanted - -wanted).elements())
        assert index.size == len(rows)
        assert list(map(tuple, index.rows(0, len(rows)).T.tolist())) == rows
        assert list(map(tuple, old.rows(0, old.size).T.tolist())) == before
        for _ in range(5):
            start, end = sorted(generator.choices(range(len(rows) + 1), k=2))
            node = index.summarize(start, end)
            assert (node is None) is (start == end)
            if node is not None:
                assert node.partials == summed(rows[start:end])
                assert node.groups == len({key for key, _ in rows[start:end]})
            key = (generator.randint(-1, 5), generator.randint(-4, 4))
            assert index.lower_bound(key) == sum(1 for row in rows if row < key)
        starts = [place for place, row in enumerate(rows) if place == 0 or row[0] != rows[place - 1][0]]
        assert [index.group_start(number) for number in range(len(starts))] == starts
        assert index.group_start(len(starts)) == len(rows)


@pytest.mark.parametrize("seed", range(4))
def test_views_by_indexes_are_what_is_asked_once(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    small(monkeypatch)
    generator = random.Random(seed)
    db = kpg.connect()
    db.sql(TABLES)
    ids = list(range(1, 20))
    db.sql(f"insert into w values {table_rows(generator, ids)}")
    queries = [query(generator) for _ in range(10)]
    for number, text in enumerate(queries):
        names = ", ".join(f"c{place}" for place in range(len(asked(db, text).columns)))
        db.sql(f"create materialized view v{number} ({names}) as {text}")
    for _ in range(8):
        db.sql(change(generator, ids))
        for number, text in enumerate(queries):
            found = Counter(map(repr, db.view(f"v{number}")))
            assert found == Counter(map(repr, asked(db, text).fetchall())), text


def asked(db: Database, text: str) -> Rows:
    found = db.sql(text)
    assert isinstance(found, Rows)
    return found


SIZE = 3000


def work(call: str) -> list[int]:
    """How many rows are computed, before and after, when a row comes near the end, and when it goes again."""
    db = kpg.connect()
    db.sql("create table t (id int primary key, x int, v int)")
    db.sql(f"insert into t select i, i, i % 10 from generate_series(1, {SIZE}) as g(i)")
    db.sql(f"create materialized view w as select id, {call} c from t")
    (window,) = (one for one in db._engine.executor.all_operators() if isinstance(one, Window))  # type: ignore[attr-defined]
    db.sql("insert into t values (0, 100, 5)")
    db.sql("delete from t where id = 0")
    counts = []
    for statement in (f"insert into t values (0, {SIZE - 20}, 5)", "delete from t where id = 0"):
        before = window.computed_rows
        db.sql(statement)
        counts.append(window.computed_rows - before)
    found = Counter(map(repr, db.view("w")))
    assert found == Counter(map(repr, asked(db, f"select id, {call} c from t").fetchall()))
    return counts


@pytest.mark.parametrize(
    ("call", "most"),
    [
        ("row_number() over (order by x)", 44),
        ("rank() over (order by x)", 44),
        ("dense_rank() over (order by v)", 6),
        ("lag(v) over (order by x)", 3),
        ("lead(v, 4) over (order by x)", 9),
        ("sum(v) over (order by x rows between 3 preceding and 3 following)", 13),
        ("max(v) over (order by x rows between 3 preceding and current row)", 7),
        ("count(*) over (order by x range between 10 preceding and 10 following)", 45),
        ("avg(v) over (order by x groups 2 preceding)", 9),
        ("sum(v) over (order by x)", 44),
        ("sum(v) over (order by x desc rows between current row and unbounded following)", 44),
        ("max(v) over (order by x)", 6),
        ("min(v) over (order by x desc rows between current row and unbounded following)", 6),
        ("first_value(v) over (order by x)", 6),
        ("last_value(v) over (order by x)", 6),
        ("nth_value(v, 3) over (order by x)", 6),
        ("max(v) over ()", 3),
        ("median(v) over (order by x rows 4 preceding)", 11),
        ("ntile(3) over (order by x)", 6),
        ("ntile(3) over (order by x desc)", 6),
    ],
)
def test_rows_are_computed_where_answers_change(call: str, most: int) -> None:
    assert max(work(call)) <= most


@pytest.mark.parametrize(
    "call",
    [
        "ntile(v + 1) over (order by x)",
        "percent_rank() over (order by x)",
        "cume_dist() over (order by x)",
        "median(v) over ()",
    ],
)
def test_other_calls_read_their_partition(call: str) -> None:
    assert min(work(call)) >= 2 * SIZE


def test_which_calls_are_local() -> None:
    def call(name: str, *args: Column | Literal, frame: Frame | None = None) -> WindowCall:
        return WindowCall(name, args, BIGINT, frame or Frame())

    three, whole = Literal(3, INTEGER), Frame(end=Bound(Edge.UNBOUNDED_FOLLOWING))
    rows = Frame(Unit.ROWS, Bound(Edge.PRECEDING, 2), Bound(Edge.CURRENT_ROW), Exclude.TIES)
    local = [
        call("rank"),
        call("percent_rank"),
        call("cume_dist"),
        call("ntile", three),
        call("lag", VALUE),
        call("lead", VALUE, three),
        call("sum", VALUE),
        call("max", VALUE, frame=whole),
        call("median", Column(1, DOUBLE), frame=rows),
        call("first_value", VALUE),
        call("nth_value", VALUE, three, frame=whole),
    ]
    other = [
        call("ntile", VALUE),
        call("lag", VALUE, VALUE),
        call("nth_value", VALUE, VALUE),
        call("median", Column(1, DOUBLE)),
        call("nth_value", VALUE, three, frame=Frame(Unit.ROWS, Bound(Edge.CURRENT_ROW), whole.end)),
    ]
    assert [one for one in local if not is_local(one)] == []
    assert [one for one in other if is_local(one)] == []


@pytest.mark.parametrize(
    ("call", "most"),
    [
        ("lag(v) over (order by x)", 8),
        ("sum(v) over (order by x rows between 2 preceding and 2 following)", 20),
        ("max(v) over (order by x)", 10),
        ("rank() over (order by x)", 2 * 2000 + 8),
        ("percent_rank() over (order by x)", 2 * 2000 + 8),
        ("cume_dist() over (order by x)", 2 * 2000 + 8),
        ("ntile(4) over (order by x)", 20),
    ],
)
def test_a_row_that_moves_is_computed_where_it_was_and_where_it_is(call: str, most: int) -> None:
    db = kpg.connect()
    db.sql("create table t (id int primary key, x int, v int)")
    db.sql(f"insert into t select i, i, i % 10 from generate_series(1, {SIZE}) as g(i)")
    db.sql(f"create materialized view w as select id, {call} c from t")
    (window,) = (one for one in db._engine.executor.all_operators() if isinstance(one, Window))  # type: ignore[attr-defined]
    db.sql("insert into t values (0, 100, 5)")
    before = window.computed_rows
    db.sql("update t set x = 2100 where id = 0")
    assert window.computed_rows - before <= most
    found = Counter(map(repr, db.view("w")))
    assert found == Counter(map(repr, asked(db, f"select id, {call} c from t").fetchall()))


@pytest.mark.parametrize(
    "call", ["ntile(7)", "percent_rank()", "cume_dist()", "rank()", "ntile(5000)", "ntile(2000)"]
)
def test_a_row_that_stays_where_it_is_is_computed_alone(call: str) -> None:
    db = kpg.connect()
    db.sql("create table t (id int primary key, x int, v int)")
    db.sql(f"insert into t select i, i, i % 10 from generate_series(1, {SIZE}) as g(i)")
    db.sql(f"create materialized view w as select id, v, {call} over (order by x) c from t")
    (window,) = (one for one in db._engine.executor.all_operators() if isinstance(one, Window))  # type: ignore[attr-defined]
    db.sql("update t set v = 11 where id = 4")
    before = window.computed_rows
    db.sql("update t set v = 11 where id = 700")
    assert window.computed_rows - before <= 6
    found = Counter(map(repr, db.view("w")))
    assert found == Counter(map(repr, asked(db, f"select id, v, {call} over (order by x) c from t")))


@pytest.mark.parametrize("seed", range(6))
def test_buckets_and_shares_of_random_changes(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    small(monkeypatch)
    generator = random.Random(seed)
    db = kpg.connect()
    db.sql("create table t (id int primary key, p int, x int, v int)")
    order = generator.choice(["x", "x desc, id", "x nulls first, v", "id"])
    calls = [f"ntile({generator.randint(1, 12)})", "percent_rank()", "cume_dist()", "row_number()"]
    queries = []
    for number in range(4):
        chosen = generator.sample([*calls, "max(v)", "lag(v)", "ntile(3)"], generator.randint(1, 3))
        columns = ", ".join(
            f"{call} over (partition by p order by {order}) c{i}" for i, call in enumerate(chosen)
        )
        queries.append(f"select id, v, {columns} from t")
        db.sql(f"create materialized view w{number} as {queries[-1]}")
    value = lambda: generator.choice(["null", *map(str, range(6))])  # noqa: E731
    for _ in range(25):
        for _ in range(generator.randint(1, 3)):
            one = generator.randint(1, 40)
            db.sql(
                generator.choice(
                    [
                        f"insert into t values ({one}, {generator.randint(0, 1)}, {value()}, {value()})"
                        " on conflict do nothing",
                        f"delete from t where id = {one}",
                        f"update t set v = {value()} where id = {one}",
                        f"update t set x = {value()} where id between {one} and {one + 2}",
                    ]
                )
            )
        for number, text in enumerate(queries):
            found = Counter(map(repr, db.view(f"w{number}")))
            assert found == Counter(map(repr, asked(db, text))), text
