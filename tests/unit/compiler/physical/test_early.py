"""Where rows are at their owners alone their columns are read there."""

import pytest

from kpg.compiler.physical.placement import REPLICATED, Placement, check_early_materialization
from kpg.runtime import plan
from kpg.runtime.errors import InternalError
from kpg.runtime.plan import AnyNode, Mfp
from kpg.runtime.scalar import Column, Fetch, Scalar
from kpg.runtime.types import BIGINT, ROWID
from tests.properties.test_workers import many


class Tables:
    """Of table t each worker has its own rows, of u all."""

    def partition_column(self, table: str) -> int | None:
        return 0

    def owner_column(self, table: str) -> int | None:
        return 0 if table == "t" else None

    def view_placement(self, name: str) -> Placement:
        return REPLICATED


def read(table: str, rowid: int = 0) -> Fetch:
    return Fetch(table, 1, Column(rowid, ROWID), BIGINT)


def linear(ref: int, *outputs: Scalar) -> plan.Linear:
    return plan.Linear(ref, Mfp((), outputs))


ROW = Column(0, ROWID)
SENT = (plan.Source("t"), linear(0, ROW), plan.Exchange(1, plan.Route.FIRST))


@pytest.mark.parametrize(
    "nodes",
    [
        (plan.Source("t"), linear(0, ROW, read("t")), linear(1, read("t"))),
        (plan.Source("t"), plan.Negate(0), linear(1, read("t"))),
        (plan.Source("u"), plan.Exchange(0, plan.Route.FIRST), linear(1, read("u"))),
        (plan.Source("t"), plan.Loop((plan.Enter(0), linear(0, read("t"))), (1,))),
    ],
)
def test_columns_that_are_read_where_rows_are(nodes: tuple[AnyNode, ...]) -> None:
    check_early_materialization(nodes, Tables())


@pytest.mark.parametrize(
    "nodes",
    [
        (*SENT, linear(2, read("t"))),
        (*SENT, plan.Loop((plan.Enter(2), linear(0, read("t"))), (1,))),
        (plan.Source("t"), linear(0, read("t"), ROW), linear(1, read("t"))),
        (plan.Source("u"), linear(0, read("t"))),
    ],
)
def test_columns_that_are_not(nodes: tuple[AnyNode, ...]) -> None:
    with pytest.raises(InternalError, match="a column of t is read where its rows may not be"):
        check_early_materialization(nodes, Tables())


def test_what_is_read_of_a_row_goes_with_it() -> None:
    with many(2, common=False) as db:
        db.sql("create table c(k int primary key, kind int)")
        db.sql("create table o(k int primary key, c int, v int)")
        plan = str(db.sql("explain select o.v, c.kind from o join c on o.c = c.k where o.v > 0"))
    assert "%1 Linear %0  -- O(change), parted\n    (#0.c, #0.v) where" in plan
    assert "sent for a change of o: at %6 to owners of #0; at %8 to owners of #0" in plan
    assert "sent for a change of c: nothing" in plan


def test_rows_of_a_small_table_go_to_those_of_a_large_one() -> None:
    with many(2, small=100, common=False) as db:
        db.sql("create table c(k int primary key, kind int); create table o(k int primary key, c int)")
        db.sql("insert into c values (1, 1); insert into o select i, 1 from generate_series(1, 101) i(i)")
        plan = str(db.sql("explain select o.k, c.kind from o join c on o.c = c.k"))
        assert "sent for a change of o: nothing" in plan and "to all" in plan
        db.sql("create materialized view v as select o.k, c.kind from o join c on o.c = c.k")
        db.sql("insert into c values (2, 2); update o set c = 2 where k % 2 = 0; delete from o where k < 9")
        assert db.sql("select kind, count(*) from v group by kind order by kind").fetchall() == [
            (1, 47),
            (2, 46),
        ]


def test_what_small_tables_have_sent_to_all_is_read() -> None:
    with many(2, small=100, common=False) as db:
        db.sql("create table c(k int primary key, kind int); insert into c values (1, 1), (2, 3)")
        db.sql("create materialized view v as select kind + 1 as n from c")
        db.sql("create materialized view w as select kind as n from c union all select -k from c")
        db.sql("insert into c values (3, 1); delete from c where k = 2")
        assert sorted(db.sql("select n from v").fetchall()) == [(2,), (2,)]
        assert sorted(db.sql("select n from w").fetchall()) == [(-3,), (-1,), (1,), (1,)]
