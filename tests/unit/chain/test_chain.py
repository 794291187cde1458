"""Small steps in a chain give what operators one by one give, errors and Ctrl-C included."""

import random
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest

import kpg
from kpg.runtime.chain import chain, chain_selection
from kpg.runtime.dataflow.dataflow_graph import Step
from kpg.runtime.kernels import chain as kernels
from kpg.runtime.kernels import links as tables
from kpg.runtime.kernels import streams
from kpg.runtime.trace import head
from kpg.runtime.worker.worker import SerialSchedule

TABLES = (
    "create table item (id int primary key, kind int, name text, price decimal(9, 2), weight double)",
    "create table kind (kind int primary key, label text)",
    "create table sale (item int, day int, amount int)",
)
VIEWS = {
    "filtered": "select id, price * 2 p, name from item where price > 30 and name like '%a%'",
    "sums": "select kind, sum(price) s, count(*) n, avg(weight) w from item group by kind",
    "joined": "select i.name, k.label, s.amount from item i, kind k, sale s"
    " where i.kind = k.kind and s.item = i.id",
    "five": "select k.label, sum(s.amount * i.price) v from item i join kind k on i.kind = k.kind"
    " join sale s on s.item = i.id join sale t on t.day = s.day join item j on t.item = j.id"
    " where j.price < i.price group by k.label",
    "lacking": "select i.id, k.label from item i left join kind k on i.kind = k.kind",
    "unsold": "select id from item where not exists (select * from sale where item = id and amount > 2)",
    "labels": "select distinct upper(label) l from kind",
    "top": "select id, price from item order by price desc, id limit 5 offset 1",
    "most": "select kind, max(price) m, min(name) n from item group by kind",
    "dear": "select id from item where price > (select avg(price) from item)",
    "every": "select id from item where kind = 1 union all select item from sale"
    " except all select kind from kind",
    "days": "select day, count(distinct item) n from sale group by day having sum(amount) > 3",
}


def rows_of(database: kpg.Database, view: str) -> list[Any]:
    """A view's rows, in order."""
    return sorted(database.sql(f"select * from {view}").fetchall())


def answers(database: kpg.Database) -> dict[str, list[Any]]:
    """The rows of every view."""
    return {name: sorted(database.sql(f"select * from {name}").fetchall(), key=repr) for name in VIEWS}


def asked(database: kpg.Database) -> dict[str, list[Any]]:
    """The same, computed from nothing."""
    return {name: sorted(database.sql(query).fetchall(), key=repr) for name, query in VIEWS.items()}


def chain_of(database: kpg.Database) -> chain.Chain | None:
    """The chain that is made, if one is."""
    return database._engine.executor._chain_cache._chain


class History:
    """Databases that go through the same changes: ``chained`` small steps in a chain, ``plain`` without."""

    def __init__(self, seed: int, patch: pytest.MonkeyPatch) -> None:
        self.rng, self.patch = random.Random(seed), patch
        self.chained, self.plain = kpg.connect(), kpg.connect()
        self.ids: list[int] = []
        self.next = 0
        for database in (self.chained, self.plain):
            for statement in TABLES:
                database.sql(statement)
            for name, query in VIEWS.items():
                database.sql(f"create materialized view {name} as {query}")

    def both(self, statements: list[str]) -> None:
        """One commit of these statements in both databases, which agree afterwards."""
        for database, most in ((self.chained, chain_selection.SMALL_STEP), (self.plain, -1)):
            self.patch.setattr(chain_selection, "FEW", most)
            with database.transaction():
                for statement in statements:
                    database.sql(statement)
        assert answers(self.chained) == answers(self.plain)

    def change(self, rows: int) -> None:
        rng, statements = self.rng, []
        for _ in range(rows):
            action = rng.random()
            if action < 0.4 or not self.ids:
                name = "".join(rng.choice("abc") for _ in range(rng.randrange(4)))
                values = (self.next, rng.randrange(4), name, rng.randrange(100), rng.randrange(-5, 5) / 4)
                statements.append("insert into item values ({}, {}, '{}', {}, {})".format(*values))
                self.ids.append(self.next)
                self.next += 1
            elif action < 0.65:
                item = rng.choice(self.ids)
                statements.append(f"insert into sale values ({item}, {rng.randrange(5)}, {rng.randrange(4)})")
            elif action < 0.75:
                statements.append(f"delete from sale where item = {rng.choice(self.ids)}")
            elif action < 0.85:
                item = self.ids.pop(rng.randrange(len(self.ids)))
                statements.append(f"delete from item where id = {item}")
            elif action < 0.95:
                price = rng.randrange(100)
                statements.append(
                    f"update item set price = {price}, kind = 3 where id = {rng.choice(self.ids)}"
                )
            else:
                kind = rng.randrange(4)
                statements.append(f"delete from kind where kind = {kind}")
                statements.append(f"insert into kind values ({kind}, 'k{rng.randrange(3)}')")
        self.both(statements)


LIMITS = {
    (head, "MOST"): (8, 40, 1 << 15),
    (head, "MAX_TAIL_ROWS"): (8, 40, 1 << 12),
    (head, "CHURN_ROWS"): (1, 64),
    (head, "ORDERED_STEPS"): (1, 64),
    (head, "FIRST"): (1, 64),
    (chain, "MEMORY"): (64, 1 << 14),
}


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(6))
def test_small_steps_in_a_chain_are_steps(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = random.Random(seed)
    for (owner, name), values in LIMITS.items():
        monkeypatch.setattr(owner, name, rng.choice(values))
    history = History(seed, monkeypatch)
    for step in range(30):
        history.change(rng.choice((1, 1, 3, 20)))
        if step % 6 == 5:
            assert answers(history.chained) == asked(history.chained)
    assert chain_of(history.chained) is not None and chain_of(history.plain) is None


@contextmanager
def counted() -> Iterator[list[str]]:
    """The descriptions of operators that run in Python."""
    found: list[str] = []
    with pytest.MonkeyPatch.context() as patch:
        original = Step.next

        def spied(self: Step) -> Any:
            operator = original(self)
            if operator is not None:
                found.append(operator.place.description)
            return operator

        patch.setattr(Step, "next", spied)
        yield found


def simple(*views: str) -> kpg.Database:
    """A database with a table and views of it, whose chain is made."""
    database = kpg.connect()
    database.sql("create table t (a int, b bigint)")
    database.sql("create table u (a int primary key, c int)")
    for number, view in enumerate(views):
        database.sql(f"create materialized view v{number} as {view}")
    for row in range(4):
        database.sql(f"insert into t values ({row}, {row})")
        database.sql(f"insert into u values ({row}, {row * row})")
    return database


JOIN = "select t.a, sum((b * c)::int) s from t join u on t.a = u.a group by t.a order by s desc limit 3"


def test_no_operator_runs_in_python_in_a_usual_step() -> None:
    database = simple(JOIN)
    with counted() as found:
        database.sql("insert into t values (2, 5)")
        database.sql("update u set c = 7 where a = 1")
        database.sql("delete from t where a = 3")
    # What finds the rows to update and delete is a query of its own.
    assert not {"Source t", "Source u", "DeltaJoin", "Reduce", "TopK"} & set(found)
    assert rows_of(database, "v0") == [(0, 0), (1, 7), (2, 28)]


def test_counters_are_those_of_operators(monkeypatch: pytest.MonkeyPatch) -> None:
    seen = []
    for most in (chain_selection.SMALL_STEP, -1):
        monkeypatch.setattr(chain_selection, "FEW", most)
        database = simple(JOIN)
        for row in range(6):
            database.sql(f"insert into t values ({row % 4}, {row})")
        infos = database._engine.executor.operators()
        seen.append([(one.position, one.updates_in, one.updates_out) for one in infos])
        assert sum(one.seconds for one in infos) > 0
    assert seen[0] == seen[1]


def test_a_sum_beyond_its_type_is_the_error_of_the_operator_and_changes_nothing() -> None:
    database = simple("select a, sum(b::decimal(18)) s from t group by a")
    database.sql(f"insert into t values (2, {9 * 10**17})")
    before = database.sql("select * from v0").fetchall()
    with pytest.raises(kpg.DataError), database.transaction():
        database.sql(f"insert into t values (2, {9 * 10**17})")
        database.sql("insert into t values (1, 1)")
    assert database.sql("select * from v0").fetchall() == before
    database.sql("insert into t values (1, 1)")
    assert dict(database.sql("select * from v0").fetchall()) == {0: 0, 1: 2, 2: 9 * 10**17 + 2, 3: 3}


def test_a_row_on_which_a_view_fails_is_refused_and_nothing_has_happened() -> None:
    database = simple("select a, 10 / b q from t where a > 0", JOIN)
    kept = [database.sql(f"select * from {view}").fetchall() for view in ("v0", "v1")]
    with pytest.raises(kpg.DataError, match="division by zero"):
        database.sql("insert into t values (5, 2), (6, 0)")
    assert [database.sql(f"select * from {view}").fetchall() for view in ("v0", "v1")] == kept
    database.sql("insert into t values (5, 2)")
    assert (5, 5) in database.sql("select * from v0").fetchall()


def test_ctrl_c_within_a_step_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    database = simple(JOIN)
    before = database.sql("select * from v0").fetchall()
    run = SerialSchedule.run

    def pressed(self: SerialSchedule, *arguments: Any) -> None:
        run(self, *arguments)
        signal.raise_signal(signal.SIGINT)

    with monkeypatch.context() as patch:
        patch.setattr(SerialSchedule, "run", pressed)
        with pytest.raises(KeyboardInterrupt):
            database.sql("insert into t values (3, 100)")
    assert database.sql("select * from v0").fetchall() == before
    database.sql("insert into t values (3, 1)")
    assert rows_of(database, "v0") == [(1, 1), (2, 8), (3, 36)]


def test_who_listens_hears_what_changed() -> None:
    database = simple(JOIN)
    heard: list[Any] = []
    with database.view("v0").subscribe(lambda changes: heard.append(changes)):
        database.sql("insert into t values (2, 5)")
        database.sql("delete from t where a = 2")
    assert [[(row, diff) for row, _, diff in sorted(changes)] for changes in heard] == [
        [((2, 8), -1), ((2, 28), 1)],
        [((0, 0), 1), ((2, 28), -1)],
    ]


def test_views_that_come_and_go_are_in_the_next_chain() -> None:
    database = simple(JOIN)
    database.sql("create materialized view late as select a, count(*) n from t group by a")
    for row in range(4):
        database.sql(f"insert into t values (1, {row})")
    database.sql("drop materialized view v0")
    for row in range(4):
        database.sql(f"insert into t values (1, {row})")
    assert database.sql("select n from late where a = 1").fetchall() == [(9,)]


def test_a_chain_is_made_after_some_small_steps_and_not_for_large_ones(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    database = simple(JOIN)
    assert chain_of(database) is not None
    database.sql("create materialized view other as select a from t")
    database.insert("t", [(row, row) for row in range(chain_selection.FEW + 1)])
    monkeypatch.setattr(chain_selection, "USUAL", 2)
    database.sql("insert into t values (1, 1)")
    assert chain_of(database) is None
    database.sql("insert into t values (1, 1)")
    assert chain_of(database) is not None


def test_text_that_is_new_is_told_to_the_functions_of_text() -> None:
    database = kpg.connect()
    database.sql("create table words (w text)")
    database.sql(
        "create materialized view longer as select upper(w) u, length(w) n from words where w like '%x%'"
    )
    for number in range(4):
        database.sql(f"insert into words values ('x{number}y'), ('z{number}')")
    with counted() as found:
        for number in range(4, 300):
            database.sql(f"insert into words values ('x{number}y'), ('z{number}')")
    assert "Linear" not in found
    expected = [(f"X{number}Y", len(f"x{number}y")) for number in range(300)]
    assert sorted(database.sql("select * from longer").fetchall()) == sorted(expected)


def test_memory_is_widened_in_the_midst_of_a_step(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(chain, "MEMORY", 16)
    widened = []
    widen = chain.Chain._widen

    def spied(self: chain.Chain) -> None:
        widened.append(int(self._state[tables.CHAIN_NEXT]))
        widen(self)

    monkeypatch.setattr(chain.Chain, "_widen", spied)
    database = simple(JOIN)
    database.insert("t", [(row % 4, row) for row in range(200)])
    assert max(widened) > 0
    per_group = [sum(range(group, 200, 4)) + group for group in range(4)]
    assert rows_of(database, "v0") == [(a, a * a * per_group[a]) for a in (1, 2, 3)]


def test_without_addresses_operators_run_one_by_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KPG_KERNELS", "numba")
    monkeypatch.setattr(kernels, "run", lambda *_: 0)
    assert not chain_selection.load_kernels()


def test_a_query_does_not_cost_the_chain() -> None:
    database = simple(JOIN)
    made = chain_of(database)
    assert database.sql("select count(*) from t, u").fetchall() == [(16,)]
    database.sql("insert into t values (1, 1)")
    assert made is not None and chain_of(database) is made


def test_feeding_adds_rows_with_their_diffs() -> None:
    table = np.zeros((2, tables.STREAM_FIELDS), np.int64)
    state = np.zeros(tables.CHAIN_FIELDS, np.int64)
    memory = np.zeros(64, np.int64)
    streams.begin(table, state, memory, 7, 7, 6)
    assert streams.feed(table, state, 1, np.array([4, 5], np.int64), 1)
    shape = [tables.STREAM_WIDTH, tables.STREAM_ROWS, tables.STREAM_DIFFS, tables.STREAM_ORDERED]
    assert table[1, shape].tolist() == [1, 2, 1, 1]
    assert streams.feed(table, state, 1, np.array([2], np.int64), -1)
    rows, diffs = np.empty(3, np.int64), np.empty(3, np.int64)
    assert table[1, shape].tolist() == [1, 3, 3, 0]
    streams.take(int(table[1, tables.STREAM_DATA]), rows)
    streams.take(int(table[1, tables.STREAM_DIFF]), diffs)
    assert (rows.tolist(), diffs.tolist()) == ([4, 5, 2], [1, 1, -1])
    assert not streams.feed(table, state, 0, np.zeros(64, np.int64), 1)
    streams.begin(table, state, memory, 8, 8, 7)
    assert table[:, tables.STREAM_ROWS].tolist() == [0, 0] and memory[0] == 8


def test_links_go_on_behind_an_operator_without_links(monkeypatch: pytest.MonkeyPatch) -> None:
    db = kpg.connect()
    db.sql("create table t (id int primary key, k int, a decimal(9, 2))")
    means = "(select k, avg(a) m from t group by k) g"
    query = f"select t.k, count(*) n from t, {means} where t.k = g.k and t.a < 0.9 * g.m group by t.k"
    db.sql(f"create materialized view v as {query}")
    for number in range(20):
        db.insert("t", [(number, number % 2, number)])
    flushed: list[str] = []
    for one in db._engine.executor.all_operators():
        flush = type(one).flush

        def spied(operator: Any, flush: Any = flush) -> None:
            flushed.append(operator.place.description)
            flush(operator)

        if not hasattr(flush, "spied"):
            spied.spied = True  # type: ignore[attr-defined]
            monkeypatch.setattr(type(one), "flush", spied)
    db.insert("t", [(20, 0, 100)])
    assert set(flushed) == {"Linear"}  # the bound of each group's prices, which is no link; a join follows it
    monkeypatch.undo()
    assert sorted(db.view("v").fetchall()) == sorted(db.sql(query).fetchall()) == [(0, 8), (1, 4)]
