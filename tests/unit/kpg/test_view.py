"""Maintained views: reading, changes, subscriptions, replacing and dropping."""

import gc
from decimal import Decimal
from typing import Any

import pytest

import kpg
from kpg.api.database import Database
from kpg.session.subscriptions import Change

A, B = ("a", Decimal("6.00")), ("b", Decimal("1.00"))


def test_reading(shop: Database) -> None:
    view = shop.view("TOTAL")
    assert view.name == "total"
    assert view.columns == ["kind", "price"]
    assert [str(type_) for type_ in view.types] == ["VARCHAR", "DECIMAL(18, 2)"]
    assert view.fetchall() == list(view) == [A, B]
    assert view.fetchone() == A
    assert view.fetchmany(1) == [A]
    assert len(view) == 2
    assert view.arrow().to_pydict() == {"kind": ["a", "b"], "price": [Decimal("6.00"), Decimal("1.00")]}
    assert view.df()["kind"].tolist() == ["a", "b"]
    assert view.pl().rows() == [A, B]
    assert "2 rows, 2 columns" in repr(view)
    assert view.sql.startswith("SELECT kind, sum(price)")


def test_result_of_a_view_stays(shop: Database) -> None:
    before = shop.view("total").result()
    shop.insert("item", [(4, "c", 1)])
    assert before.fetchall() == [A, B]


def test_changes_start_with_the_contents(shop: Database) -> None:
    view = shop.view("total")
    epoch = shop.epoch
    assert list(view.changes()) == [(A, epoch, 1), (B, epoch, 1)]
    assert list(view.changes()) == []
    shop.delete("item", [(3,)])
    assert list(view.changes()) == [(B, epoch + 1, -1)]
    assert list(view.changes()) == []


def test_changes_without_the_contents(shop: Database) -> None:
    view = shop.view("total")
    assert list(view.changes(snapshot=False)) == []
    shop.insert("item", [(4, "c", 2)])
    assert list(view.changes()) == [(("c", Decimal("2.00")), shop.epoch, 1)]


def test_every_handle_reads_its_own_changes(shop: Database) -> None:
    first, second = shop.view("total"), shop.view("total")
    list(first.changes())
    shop.delete("item", [(3,)])
    list(second.changes())
    shop.insert("item", [(3, "b", 1)])
    assert [diff for _, _, diff in first.changes()] == [-1, 1]
    assert [diff for _, _, diff in second.changes()] == [1]


def test_changes_are_not_recorded_for_nobody(shop: Database) -> None:
    view = shop.view("total")
    list(view.changes())
    capture = shop._engine.views["total"].installation
    assert capture.capture is not None
    del view
    gc.collect()
    shop.delete("item", [(3,)])
    assert capture.capture is None


def test_changed_changes_cancel(shop: Database) -> None:
    view = shop.view("total")
    list(view.changes())
    with shop.transaction():
        shop.insert("item", [(4, "c", 1)])
        shop.delete("item", [(4,)])
    assert list(view.changes()) == []


def test_subscription(shop: Database) -> None:
    heard: list[list[Change]] = []
    subscription = shop.view("total").subscribe(heard.append)
    shop.insert("item", [(4, "c", 2)])
    shop.sql("UPDATE item SET id = 5 WHERE id = 4")
    with pytest.raises(kpg.IntegrityError):
        shop.insert("item", [(1, "c", 2)])
    assert heard == [[(("c", Decimal("2.00")), 2, 1)]]
    subscription.close()
    subscription.close()
    shop.delete("item", [(5,)])
    assert len(heard) == 1


def test_a_subscriber_can_be_called(shop: Database) -> None:
    wrong: Any = "heard"
    with pytest.raises(kpg.InterfaceError, match="a str cannot be called with changes"):
        shop.view("total").subscribe(wrong)
    shop.insert("item", [(4, "c", 2)])


def test_failing_subscriber_does_not_undo_the_commit(shop: Database) -> None:
    heard: list[list[Change]] = []

    def fail(changes: list[Change]) -> None:
        raise ValueError("no")

    view = shop.view("total")
    view.subscribe(fail)
    view.subscribe(heard.append)
    assert shop.delete("item", [(3,)]) == 1
    assert view.fetchall() == [A]
    assert len(heard) == 1
    assert shop.sql("insert into item values (4, 'c', 1) returning id").fetchall() == [(4,)]
    with shop.transaction():
        shop.insert("item", [(5, "d", 1)])
    assert shop.query("select count(*) from item").fetchall() == [(4,)]
    assert len(heard) == 3


def test_a_failing_subscriber_is_told_of_its_error_and_unsubscribed(
    shop: Database, caplog: pytest.LogCaptureFixture
) -> None:
    errors: list[Exception] = []
    calls: list[int] = []

    def fail(changes: list[Change]) -> None:
        calls.append(len(changes))
        if len(calls) != 5:
            raise ValueError(f"call {len(calls)}")

    shop.view("total").subscribe(fail, on_error=errors.append)
    for number in range(4, 30):
        shop.insert("item", [(number, f"k{number}", 1)])
    assert len(calls) == 5 + 10  # a call that succeeds begins the count anew
    assert [str(error) for error in errors] == [f"call {n}" for n in range(1, 16) if n != 5]
    assert "a subscriber of view total raised ValueError: call 1" in caplog.text
    assert "a subscriber of view total is unsubscribed: its last 10 calls failed" in caplog.text
    assert shop.query("select count(*) from item").fetchall() == [(29,)]


def test_an_error_handler_that_fails_changes_nothing_either(
    shop: Database, caplog: pytest.LogCaptureFixture
) -> None:
    shop.view("total").subscribe(lambda changes: 1 // 0, on_error=lambda error: [][0])
    assert shop.insert("item", [(4, "c", 1)]) == 1
    assert "the error handler of a subscriber of view total raised IndexError" in caplog.text
    wrong: Any = 7
    with pytest.raises(kpg.InterfaceError, match="a int cannot be called"):
        shop.view("total").subscribe(print, on_error=wrong)


def test_a_failing_subscriber_fails_nobodys_commit(shop: Database) -> None:
    """Through sessions, Datalog updates and goals, dataflows, loads and branches."""

    def fail(*_: object) -> None:
        raise ValueError("no")

    shop.view("total").subscribe(fail)
    session = shop.session()
    session.sql("begin; insert into item values (10, 'x', 1); commit")
    session.sql("insert into item values (11, 'y', 1)")
    program = shop.datalog(".decl e(x: number)\n.input e(IO=command)\n.decl p(x: number)\np(x) :- e(x).")
    goal = program.prepare("?- p(x).")
    goal.subscribe(fail)
    assert program.update("+e(1). +e(2).") == 2
    flow = shop.dataflow("flow")
    numbers = flow.input("n", x=int)
    numbers.inspect(fail)
    numbers.inspect_columns(fail)
    numbers.insert(1)
    numbers.advance_to(numbers.time + 1)
    flow.step()
    shop.load("item", {"id": [12], "kind": ["z"], "price": [1]})
    shop.upsert("item", [(12, "z", 2)])
    with shop.batch():
        shop.sql("insert into item values (13, 'z', 1)")
    branch = shop.branch()
    branch.sql("insert into item values (14, 'w', 1)")
    branch.merge()
    assert shop.query("select max(id), count(*) from item").fetchall() == [(14, 8)]
    assert sorted(goal()) == [(1,), (2,)]


def test_subscriber_may_change_the_database(shop: Database) -> None:
    shop.sql("CREATE TABLE log (n INT)")
    shop.view("total").subscribe(lambda changes: shop.insert("log", [(len(changes),)]))
    shop.delete("item", [(3,)])
    assert list(shop.query("SELECT n FROM log")) == [(1,)]


def test_stats(shop: Database) -> None:
    assert shop.view("total").stats.install_seconds > 0
    shop.delete("item", [(3,)])
    assert shop.view("total").stats.last_step_seconds > 0


def test_dropped_view_is_gone(shop: Database) -> None:
    view = shop.view("total")
    shop.sql("DROP MATERIALIZED VIEW total")
    with pytest.raises(kpg.InterfaceError, match="view total was dropped or replaced"):
        view.fetchall()
    with pytest.raises(kpg.ProgrammingError, match='relation "total" does not exist'):
        shop.view("total")
    assert len(shop.arrangements()) == 0


def test_replaced_view(shop: Database) -> None:
    old = shop.view("total")
    shop.sql("CREATE OR REPLACE MATERIALIZED VIEW total AS SELECT count(*) AS n FROM item")
    with pytest.raises(kpg.InterfaceError, match="dropped or replaced"):
        old.fetchall()
    shop.delete("item", [(3,)])
    assert shop.view("total").fetchall() == [(2,)]


def test_failed_replacement_leaves_the_old_view(shop: Database) -> None:
    view = shop.view("total")
    with pytest.raises(kpg.DataError, match="division by zero"):
        shop.sql("CREATE OR REPLACE MATERIALIZED VIEW total AS SELECT 1 / (id - 1) AS n FROM item")
    shop.delete("item", [(3,)])
    assert view.fetchall() == [A]


def test_view_that_is_not_kept(shop: Database) -> None:
    shop.sql("CREATE VIEW cheap AS SELECT id FROM item WHERE price < 2")
    with pytest.raises(kpg.ProgrammingError, match='"cheap" is not materialized'):
        shop.view("cheap")
    with pytest.raises(kpg.ProgrammingError, match='"item" is a table'):
        shop.view("item")


def test_view_over_views(shop: Database) -> None:
    shop.sql("CREATE MATERIALIZED VIEW top AS SELECT max(price) AS price FROM total")
    assert shop.view("top").fetchall() == [(Decimal("6.00"),)]
    shop.insert("item", [(4, "b", 10)])
    assert shop.view("top").fetchall() == [(Decimal("11.00"),)]


def test_hidden_sort_column(shop: Database) -> None:
    shop.sql("CREATE MATERIALIZED VIEW names AS SELECT kind FROM item ORDER BY price DESC")
    view = shop.view("names")
    assert view.fetchall() == [("a",), ("a",), ("b",)]
    list(view.changes())
    shop.sql("UPDATE item SET price = 9 WHERE id = 3")
    assert view.fetchall() == [("b",), ("a",), ("a",)]
    assert list(view.changes()) == []
    assert sorted(shop.query("SELECT kind FROM names WHERE kind > 'a'")) == [("b",)]


@pytest.mark.parametrize("stage", ["ast", "logical", "steps", "optimized", "physical"])
def test_explain(shop: Database, stage: str) -> None:
    assert shop.view("total").explain(stage)


def test_explain_takes_one_query(shop: Database) -> None:
    for text in ("SELECT 1; SELECT 2", "CREATE TABLE x (a INT); SELECT a FROM x", "DROP TABLE item", ""):
        with pytest.raises(kpg.InterfaceError, match="explain takes the text of one query"):
            shop.explain(text)
    assert [row[0] for row in shop.tables().fetchall()] == ["item"]


def test_explain_in_a_transaction_is_of_what_would_run(shop: Database) -> None:
    query = "SELECT price FROM total"
    assert "total" in shop.explain(query, "logical")
    with shop.transaction():
        shop.sql("INSERT INTO item VALUES (9, 'a', 1)")
        assert "Reduce" in shop.explain(query, "logical")
        assert "Reduce" in repr(shop.sql(f"EXPLAIN LOGICAL {query}"))
    assert "Reduce" not in shop.explain(query, "logical")


def test_an_error_of_explain_ends_the_transaction(shop: Database) -> None:
    for wrong in ("SELECT nothing FROM item", "SELECT FROM FROM"):
        with pytest.raises(kpg.ProgrammingError), shop.transaction():
            shop.sql("INSERT INTO item VALUES (9, 'a', 1)")
            with pytest.raises(kpg.ProgrammingError):
                shop.explain(wrong)
            with pytest.raises(kpg.InterfaceError, match="rolled back"):
                shop.sql("SELECT 1")
            raise kpg.ProgrammingError("on")
    assert shop.query("SELECT count(*) FROM item").fetchall() == [(3,)]


def test_explain_arrangements(shop: Database) -> None:
    query = "SELECT i.id FROM item i JOIN item j ON i.kind = j.kind"
    before = "item by (kind): new\nthe result: of this query"
    assert shop.explain(query, "arrangements") == before
    shop.sql(f"CREATE MATERIALIZED VIEW pair AS {query}")
    assert shop.explain(query, "arrangements") == before.replace("new", "shared")
    assert shop.explain("SELECT count(*) FROM item", "arrangements") == "no arrangements"
    with pytest.raises(kpg.InterfaceError, match='there is no stage "fiction"'):
        shop.explain(query, "fiction")
