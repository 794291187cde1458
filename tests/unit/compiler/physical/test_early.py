"""Where rows are at their owners alone their columns are read there."""

import pytest

import kpg
from kpg.compiler.physical.early import check_early
from kpg.compiler.physical.placement import HELD, Placement
from kpg.runtime import plan
from kpg.runtime.errors import InternalError
from kpg.runtime.plan import AnyNode, Mfp
from kpg.runtime.scalar import Column, Fetch, Scalar
from kpg.runtime.types import BIGINT, ROWID
from tests.properties.test_workers import many


class Tables:
    """Of table t each worker has its own rows, of u all."""

    def home(self, table: str) -> int | None:
        return 0

    def owner(self, table: str) -> int | None:
        return 0 if table == "t" else None

    def view(self, name: str) -> Placement:
        return HELD


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
    check_early(nodes, Tables())


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
        check_early(nodes, Tables())


def test_what_is_read_of_a_row_goes_with_it() -> None:
    asked = "explain select o.v, c.kind from o join c on o.c = c.k where o.v > 0"
    plans = []
    for db in (many(2, common=False), kpg.connect()):
        with db:
            db.sql("create table c(k int primary key, kind int)")
            db.sql("create table o(k int primary key, c int, v int)")
            plans.append(str(db.sql(asked).fetchall()[0][0]) if db.workers() is None else repr(db.sql(asked)))
    assert "of c: at %" not in plans[0].split("sent for a change of c")[1]
    assert "sent for a change of c: nothing" in plans[0]
    assert "to owners of #" in plans[0] and "to owners of" not in plans[1]
