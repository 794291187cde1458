"""Many workers say what one says, after every step, whatever order what they send comes in."""

import random
from collections.abc import Iterator, Set
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

import kpg
from kpg.api.database import Database
from kpg.runtime.cluster.threads import ThreadMembers
from kpg.runtime.errors import DataError, Error
from kpg.session.distribution import Workers
from tests.oracle.postgres import ASKS, ONCE, statements
from tests.properties import test_branches_are_their_model as branches
from tests.properties import test_past_is_its_model as pasts

SCHEMA = """
create table a(k int primary key, v int, s text);
create table b(k int primary key, a int, w int);
create table e(x int, y int, primary key (x, y));
create table d(f double precision, n numeric, g int)
"""
QUERIES = (
    "select a.s, sum(b.w), count(*), avg(b.w) from a join b on b.a = a.k group by a.s",
    "select max(w), min(w), count(distinct a) from b",
    "select * from b order by w, k limit 3 offset 1",
    "select upper(s) || 'x' as t, count(*), string_agg(v::text, ',' order by v) from a group by 1",
    "select a.k, (select max(w) from b where b.a = a.k) m from a",
    "select x, y, row_number() over (partition by x order by y), sum(y) over (order by x, y) from e",
    "select k from a except all select a from b",
    "select * from a where exists (select 1 from b where b.a = a.k and b.w > a.v)",
    "select e.x, f.y, g.y as z from e join e f on e.y = f.x join e g on f.y = g.x where e.x <> g.y",
    "select * from b where w > (select avg(w) from b)",
    "select e.y, min(b.w) from e join a on a.v = e.x join b on b.a = a.k join d on d.g = b.w % 3"
    " group by e.y",
    "select b.w, e.y from e join a on a.v = e.x join b on b.a = a.k order by 1, 2 limit 2",
    "select 4 / v from a where not exists (select 1 from b where b.a = a.k) and v <> 0",
    "select count(*), sum(f), avg(n) as m, g from d group by g",
    "select sum(f) as f, sum(n) as n from d",
    "select a.v, b.w from a cross join b where a.v < 2",
    "select a.k, b.k as other from a left join b on b.a = a.v",
    "values (1, 'x'), (2, null)",
    "with recursive p(x, y) as (select x, y from e union select p.x, e.y from p join e on p.y = e.x)"
    " select * from p",
    "with recursive p(x, c) as (select 0, 0 union select e.y, p.c + 1 from p join e on p.x = e.x"
    " where p.c < 5) select x, min(c) from p group by x",
)
CHANGES: tuple[tuple[float, str], ...] = (
    (0.3, "insert into a values ({60}, {5}, 's{6}') on conflict do nothing"),
    (0.5, "insert into b values ({60}, {10}, {20}) on conflict do nothing"),
    (0.75, "insert into e values ({8}, {8}) on conflict do nothing"),
    (0.8, "insert into d values ({9} / 7.0, {1000} * 1e12, {3})"),
    (0.85, "delete from d where g = {3}"),
    (0.9, "delete from e where x = {8}"),
    (0.95, "delete from a where v = {5}"),
    (1.0, "update b set w = {20} where a = {10}"),
)


def many(count: int, seed: int = 0, small: int = 0, *, common: bool = True) -> Database:
    """A database whose members run in this process; ``common``: they see its tables and strings in memory."""
    return Database(workers=Workers(ThreadMembers(count, seed, has_shared_memory=common), small))


def change(db: Any, choice: random.Random) -> None:
    chance = choice.random()
    text = next(text for most, text in CHANGES if chance <= most)
    while "{" in text:
        start, end = text.index("{"), text.index("}")
        text = text[:start] + str(choice.randrange(int(text[start + 1 : end]))) + text[end + 1 :]
    db.sql(text)


def history(db: Any, seed: int) -> Iterator[object]:
    """What views, their changes and queries say, step by step."""
    choice = random.Random(seed)
    with db:
        db.sql(SCHEMA)
        for _ in range(12):
            change(db, choice)
        views = [
            db.sql(f"create materialized view v{i} as {query}")
            if i % 2
            else db.sql(f"create view v{i} as {query}")
            for i, query in enumerate(QUERIES)
        ]
        heard = [view.changes() for view in views if view is not None]
        for step in range(5):
            with db.transaction():
                for _ in range(8):
                    change(db, choice)
            yield [sorted(map(repr, db.sql(f"select * from v{i}").fetchall())) for i in range(len(QUERIES))]
            yield [sorted(map(repr, one)) for one in heard]
            if step == 2:
                yield [sorted(map(repr, db.sql(query).fetchall())) for query in QUERIES]


@pytest.mark.parametrize(("count", "common"), [(1, True), (2, True), (3, True), (2, False), (3, False)])
def test_histories_are_those_of_one_worker(count: int, common: bool, draw: int | None = None) -> None:
    seed = count if draw is None else draw
    assert list(history(many(count, seed, common=common), seed)) == list(history(kpg.connect(), seed))


def test_an_error_at_one_worker_undoes_the_step_at_all() -> None:
    for count in (2, 3):
        with many(count) as db, kpg.connect() as one:
            said = []
            for each in (db, one):
                each.sql("create table t(k int primary key, v int); insert into t values (1, 1), (2, 2)")
                each.sql("create materialized view inverse as select k, 100 / v as part from t")
                each.sql("create materialized view total as select sum(part) as s from inverse")
                with pytest.raises(Error) as caught:
                    each.sql("insert into t values (3, 4), (4, 0), (5, 5)")
                each.sql("insert into t values (3, 4)")
                said.append((str(caught.value), each.sql("select s from total").fetchall()))
                said.append(sorted(each.sql("select * from inverse").fetchall()))
            assert said[:2] == said[2:]
            assert said[0][1] == [(175,)]


def test_a_view_that_fails_is_not_there() -> None:
    with many(2) as db:
        db.sql("create table t(k int primary key, v int); insert into t values (1, 0), (2, 2)")
        with pytest.raises(Error, match="division by zero"):
            db.sql("create materialized view inverse as select k, 100 / v as part from t")
        db.sql("create materialized view twice as select 2 * v as w from t")
        db.sql("insert into t values (3, 9)")
        assert sorted(db.sql("select * from twice").fetchall()) == [(0,), (4,), (18,)]


def test_a_minimum_over_a_join_whose_paths_end_at_different_workers() -> None:
    """A row may come at one worker and go at another: none of them knows alone which is the least."""
    said = []
    for db in (kpg.connect(), many(2), many(3)):
        with db:
            db.sql("create table t(k int primary key, g int, b int); create table u(b int, c int)")
            db.sql("create table w(c int, v int)")
            db.sql("insert into u select i, i * 7 % 20 from generate_series(0, 19) i(i)")
            db.sql("insert into t select i, i % 4, i from generate_series(0, 19) i(i)")
            join = "from t join u on u.b = t.b join w on w.c = u.c"
            db.sql(f"create materialized view least as select g, min(v) as v {join} group by g")
            db.sql(f"create materialized view first_few as select v, g {join} order by v limit 3")
            db.sql("insert into w select i, i from generate_series(0, 19) i(i)")
            for k in range(20):
                db.sql(f"delete from t where k = {k * 7 % 20}")
                said.append(sorted(db.sql("select * from least").fetchall()))
                said.append(sorted(db.sql("select * from first_few").fetchall()))
    assert said[:40] == said[40:80] == said[80:]


SCRIPTS = ("basics", "failing_expressions", "recursion_traversed", "sets_of_equals")


def outcomes(db: Database, script: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[str, object]]:
    """What a script of the oracle's says: each query kept as a view too, and asked after each change."""
    monkeypatch.setattr("kpg.runtime.cluster.installation.MAX_LOCAL_ROWS", -1)

    def said(text: str) -> object:
        try:
            found: Any = db.sql(text)
            return sorted(map(repr, found.fetchall())) if hasattr(found, "fetchall") else None
        except Error as error:
            return str(error)

    with db:
        kept = list[str]()
        for number, text in enumerate(statements(script)):
            yield text, said(text)
            view = f"create materialized view kept_{number} as {text}"
            if not ASKS.match(text):
                for name in kept:
                    yield text, said(f"select * from {name}")
            elif not text.startswith(ONCE) and said(view) is None:
                kept.append(f"kept_{number}")


@pytest.mark.parametrize("common", [True, False])
@pytest.mark.parametrize("name", SCRIPTS)
def test_scripts_say_the_same(name: str, common: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    script = (Path(__file__).parent.parent / "oracle/sql" / f"{name}.sql").read_text()
    assert list(outcomes(many(3, 7, common=common), script, monkeypatch)) == list(
        outcomes(kpg.connect(), script, monkeypatch)
    )


def sent(db: Database) -> int:
    return sum(row[3 + 1] for row in db.workers().fetchall())


@pytest.mark.parametrize("distribution", ["", "DISTRIBUTED BY (g)", "REPLICATED"])
def test_how_a_table_is_distributed_decides_what_is_sent(distribution: str) -> None:
    with many(2) as db:
        db.sql(f"create table t(k int primary key, g int) {distribution}")
        db.sql("create materialized view s as select g, sum(k) as s from t group by g")
        db.sql("insert into t select i, i % 10 from generate_series(1, 80) i(i)")
        assert len(db.sql("select * from s").fetchall()) == 10
        assert (sent(db) > 0) == (not distribution)
        assert sum(row[5] for row in db.workers().fetchall()) == sent(db)


def test_counts_and_sums_are_added_up_before_they_are_sent() -> None:
    with many(2) as db:
        db.sql("create table t(k int primary key, g int, v int)")
        db.sql("create materialized view s as select g, sum(v) as s, count(*) as n from t group by g")
        db.sql("insert into t select i, i % 3, nullif(i % 5, 0) from generate_series(1, 9000) i(i)")
        assert sorted(db.sql("select * from s").fetchall()) == [(g, 6000, 3000) for g in range(3)]
        assert sent(db) <= 3 * 3


@pytest.mark.parametrize("common", [True, False])
def test_of_a_tables_rows_each_worker_sends_its_best(common: bool) -> None:
    """The columns that are asked for do not tell whose a row is; what is taken away is where it came."""
    with many(2, common=common) as db:
        db.sql("create table t(k int primary key, g int, v int, name text)")
        db.sql("create materialized view most as select max(v) as v, min(name) as name from t where g < 9")
        db.sql("create materialized view few as select v, name from t order by v desc, name limit 2")
        numbers = "generate_series(0, 7999) i(i)"
        db.sql(f"insert into t select i, i % 10, i * 7 % 8009, 'n' || i * 3 % 7993 from {numbers}")
        assert sent(db) <= 8
        for life in range(3):
            assert (
                db.sql("select * from most").fetchall()
                == db.sql("select max(v), min(name) from t where g < 9").fetchall()
            )
            best = db.sql("select v, name from t order by v desc, name limit 2").fetchall()
            assert sorted(db.sql("select * from few").fetchall()) == sorted(best)
            db.sql(f"delete from t where v >= {7900 - 100 * life} or name like 'n1{life}%'")


@pytest.mark.parametrize("common", [True, False])
def test_of_rows_that_are_taken_from_others_none_is_the_best(common: bool) -> None:
    with many(2, common=common) as db:
        db.sql("create table t(k int primary key, v int); create table u(k int primary key, v int)")
        left = "select v from t except all select v from u"
        db.sql(f"create materialized view w as select max(v) as v from ({left}) d")
        db.sql("insert into t select i, i from generate_series(0, 99) i(i)")
        for top in range(99, 60, -1):
            # The same value, under keys of both workers.
            db.sql(f"insert into u values ({1000 + top * 7}, {top})")
            assert db.sql("select v from w").fetchall() == [(top - 1,)]
        db.sql("delete from u where v = 90")
        assert db.sql("select v from w").fetchall() == [(90,)]


def test_small_tables_are_kept_by_all_until_they_are_large() -> None:
    """A view is placed again when tables that were empty turn out small, and when small ones have grown."""
    said, rows_sent, heard = [], list[int](), []
    for db in (kpg.connect(), many(2, small=10)):
        with db:
            db.sql("create table c(k int primary key, kind int)")
            db.sql("create table o(k int primary key, c int, m int)")
            db.sql("create table m(k int primary key, w int)")
            join = "from o join m on o.m = m.k join c on o.c = c.k"
            db.sql(f"create materialized view s as select c.kind, o.k, m.w {join}")
            db.sql("create materialized view t as select kind, w + k as w from s where kind > 0")
            changes = db.view("t").changes()
            with db.transaction():
                db.sql("insert into c select i, i % 3 from generate_series(0, 5) i(i)")
                db.sql("insert into m select i, i * i from generate_series(1, 999) i(i)")
                db.sql("insert into o select i, i % 200, i % 97 from generate_series(1, 999) i(i)")
            for step in range(4):
                rows_sent.append(sent(db) if db.workers().fetchall()[1:] else 0)
                said.append(sorted(db.sql("select * from s").fetchall()))
                said.append(sorted(db.sql("select * from t").fetchall()))
                if step == 1:  # and so c is too large to be kept by all
                    db.sql("insert into c select i, i % 3 from generate_series(6, 180) i(i)")
                else:
                    ks = f"generate_series({1000 + 50 * step}, {1049 + 50 * step}) i(i)"
                    db.sql(f"insert into o select i, i % 200, i % 97 from {ks}")
            heard.append(sorted(map(repr, changes)))
    assert said[:8] == said[8:]
    assert heard[0] == heard[1]
    kept, filling, parted = (after - before for before, after in pairwise(rows_sent[4:]))
    assert kept == 0 and filling > 0 and parted > 0


def test_histories_in_which_tables_are_moved(monkeypatch: pytest.MonkeyPatch) -> None:
    moved = list[str]()
    moving = Workers.plans_to_replace

    def noted(workers: Workers, rows: int, tables: Set[str]) -> set[str]:
        found = moving(workers, rows, tables)
        moved.extend(found)
        return found

    monkeypatch.setattr("kpg.session.distribution.PLACEMENT_STEPS", 1000)
    monkeypatch.setattr("kpg.session.distribution.REPLICATION_RATIO", 3)
    monkeypatch.setattr("kpg.session.distribution.GROWTH_FACTOR", 2)
    monkeypatch.setattr(Workers, "plans_to_replace", noted)
    assert list(history(many(3, 4, 2), 4)) == list(history(kpg.connect(), 4))
    assert len(moved) >= 3


def test_workers_add_up_their_pieces_of_a_table() -> None:
    """Each takes stretches of 4096 rows, of rows that come and of those that go."""
    with many(3) as db:
        db.sql("create table t(k int primary key, g int)")
        db.sql("create materialized view s as select g, count(*) as n from t group by g")
        executor: Any = db._engine.executor

        def shares() -> list[int]:
            found = executor.client.call_members("operators_here")
            return [next(one.updates_out for one in each if one.description == "Exchange") for each in found]

        db.sql("insert into t select i, i % 2 from generate_series(0, 19999) i(i)")
        assert shares() == [2 * 4096, 4096 + 20000 - 4 * 4096, 4096]
        db.sql("delete from t where k >= 4000 and k < 4200")
        assert shares() == [8192 + 96, 7712 + 104, 4096]
        db.sql("delete from t where k % 5000 = 7")
        assert shares() == [8288 + 2, 7816 + 1, 4096 + 1]
        db.sql("insert into t values (20000, 0), (20001, 1)")
        assert shares() == [8290, 7817 + 2, 4097]
        assert sorted(db.sql("select * from s").fetchall()) == [(0, 9901), (1, 9897)]


def test_a_distribution_names_a_column() -> None:
    for db in (many(2), kpg.connect()):
        with db, pytest.raises(Error, match='column "h" does not exist'):
            db.sql("create table t(k int) distributed by (h)")


def test_explain_tells_where_rows_are_and_what_is_sent() -> None:
    with many(2) as db:
        db.sql("create table c(k int primary key, kind int); create table o(k int primary key, c int, v int)")
        plan = repr(db.sql("explain select c, sum(v) from o group by c"))
        assert "Reduce" in plan and "parted by #0" in plan
        assert "sent for a change of o: at %3 to owners of #0, added up first" in plan
        assert "with o distributed by (c): 0 exchanges instead of 1" in plan
        plan = repr(db.sql("explain select c.kind, o.v from o join c on o.c = c.k"))
        assert "sent for a change of o: nothing\nsent for a change of c: nothing" in plan
    with kpg.connect() as db:
        db.sql("create table o(k int primary key, c int, v int)")
        assert "parted" not in repr(db.sql("explain select c, sum(v) from o group by c"))


@pytest.mark.parametrize("count", [1, 2, 3])
def test_the_past_is_what_it_was(count: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """``AS OF``, and the changes of views since an epoch, against a model that keeps every version."""

    def connect(folder: Path | None, history: int) -> Database:
        return Database(
            history=history, workers=Workers(ThreadMembers(count, count, has_shared_memory=True), 0)
        )

    monkeypatch.setattr(kpg, "connect", connect)
    past = pasts.History(count, 5 if count == 2 else 1000)
    with past.db:
        for _ in range(8):
            past.step()
        past.check()


def test_the_past_is_kept_in_a_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def connect(folder: Path, history: int) -> Database:
        crew = ThreadMembers(2, 4, has_shared_memory=True)
        return Database(history=history, workers=Workers(crew, 0), folder=folder)

    monkeypatch.setattr(kpg, "connect", connect)
    monkeypatch.setattr(pasts, "kept", lambda db: set())
    past = pasts.History(6, 1000, tmp_path / "db")
    for _ in range(3):
        past.step()
        past.step()
        past.again()
    past.check()
    past.db.close()


def test_a_branch_goes_on_by_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    """A branch is one worker's; what the trunk gives up meanwhile stays as long as the branch is there."""

    def connect(folder: Path | None, history: int | None) -> Database:
        return Database(history=history, workers=Workers(ThreadMembers(2, 3, has_shared_memory=True), 0))

    monkeypatch.setattr(kpg, "connect", connect)
    branches.test_a_merge_is_both_changes_or_none(1)
    with many(2) as db:
        db.sql(
            "create table t(k int primary key, v int); create materialized view s as select sum(v) s from t"
        )
        db.sql("insert into t select i, 1 from generate_series(1, 600000) i(i)")
        branch = db.branch()
        db.sql("delete from t where k % 8 <> 0")
        db.sql("delete from t where k % 16 <> 0")
        db.sql("insert into t select i, 2 from generate_series(600001, 1200000) i(i)")
        assert branch.sql("select count(*), sum(k) from t").fetchall() == [(600000, 180000300000)]
        assert db.sql("select * from s").fetchall() == [(37500 + 1200000,)]
        assert branch.sql("select * from s").fetchall() == [(600000,)]
        branch.close()


@pytest.mark.parametrize("common", [True, False])
def test_rows_of_a_step_that_was_taken_back_are_in_no_view_made_next(common: bool) -> None:
    """Members see the rows of a table up to a number, which is to be what it was before the step."""
    with many(2, common=common) as db:
        db.sql("create table t (k int primary key, v int); insert into t values (1, 1), (2, 2)")
        db.sql("create materialized view inverse as select k, 10 / v as q from t")
        for _ in range(2):
            with pytest.raises(DataError, match="division by zero"):
                db.sql("insert into t select i, i - 5 from generate_series(3, 3000) s(i)")
            db.sql("create materialized view sums as select count(*) as n, sum(v) as v from t")
            assert db.query("select * from sums").fetchall() == [(2, 3)]
            db.sql("drop view sums")
        db.sql("create materialized view sums as select count(*) as n, sum(v) as v from t")
        db.sql("insert into t values (3, 5)")
        assert db.query("select * from sums").fetchall() == [(3, 8)]
