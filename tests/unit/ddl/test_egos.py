"""Ego views as users have them, beside the plain SQL that they mean."""

import random
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

import kpg
from kpg.runtime.errors import DataError, InterfaceError, NotSupportedError, ProgrammingError

EDGES = [(1, 2, 5), (1, 3, 1), (4, 2, 9), (4, 3, 2), (5, 2, 7), (5, 3, 3), (5, 6, 8)]
WRITES = [(1, 2, 10, "a"), (2, 3, 20, "b"), (3, 6, 5, "c"), (4, 2, 7, "a")]


def database(folder: Path | None = None) -> Any:
    db = kpg.connect(folder) if folder else kpg.connect()
    db.sql("CREATE TABLE edges (src BIGINT, dst BIGINT, weight INT)")
    db.sql("CREATE TABLE writes (ord BIGINT, node BIGINT, value BIGINT, word TEXT)")
    db.insert("edges", EDGES)
    db.insert("writes", WRITES)
    return db


def test_what_a_node_reads() -> None:
    db = database()
    total = db.ego("total", edges="edges", writes="writes", aggregate="sum", window=1)
    assert (total.read(1), total.read(5), total.read(2)) == (27, 32, None)
    assert total.read_many([4, 7, 5]) == [27, None, 32]
    number = db.ego("number", edges="edges", writes="writes", aggregate="count")
    assert (number.read(1), number.read(9)) == (3, 0)
    assert db.sql("SELECT value FROM total WHERE node = 5").fetchall() == [(32,)]
    assert sorted(db.sql("SELECT node, value FROM total").fetchall()) == [(1, 27), (4, 27), (5, 32)]
    db.sql("DELETE FROM writes WHERE ord = 4")
    assert total.read(1) == 30
    db.sql("DELETE FROM edges WHERE src = 1")
    assert total.read(1) is None
    db.sql("INSERT INTO edges VALUES (8, 6, 1)")
    assert total.read(8) == 5
    db.verify("total")


@pytest.mark.parametrize(
    ("neighbourhood", "expected"),
    [
        ("out", {1: 30, 4: 30, 5: 35}),
        ("in", {}),
        ("both", {1: 30, 4: 30, 5: 35}),
        ("in 2", {}),
        ("both 2", {1: 30, 2: 35, 3: 35, 4: 30, 5: 35, 6: 35}),
        ("SELECT dst AS a, dst AS b FROM edges", {2: 10, 3: 20, 6: 5}),
    ],
)
def test_neighbourhoods(neighbourhood: str, expected: dict[int, int]) -> None:
    db = database()
    db.sql("DELETE FROM writes WHERE ord = 4")
    view = db.ego("view", edges="edges", writes="writes", neighbourhood=neighbourhood)
    assert dict(view.fetchall()) == expected


def test_filters_of_edges_and_readers() -> None:
    db = database()
    heavy = db.ego("heavy", edges="edges", writes="writes", where="weight > 4", window=1)
    assert dict(heavy.fetchall()) == {1: 7, 4: 7, 5: 12}
    some = db.ego("some", edges="edges", writes="writes", window=1, readers="node > 3")
    assert dict(some.fetchall()) == {4: 27, 5: 32}
    listed = db.ego("listed", edges="edges", writes="writes", window=1, readers=[1, 5])
    assert dict(listed.fetchall()) == {1: 27, 5: 32}
    asked = db.ego("asked", edges="edges", writes="writes", readers="SELECT src FROM edges WHERE dst = 6")
    assert dict(asked.fetchall()) == {5: 42}


def test_over_views_and_datalog() -> None:
    db = database()
    db.datalog("""
        .decl near(x: number, y: number)
        near(x, y) :- edges(x, y, _).
        near(x, z) :- near(x, y), near(y, z).
    """)
    db.sql("CREATE VIEW large AS SELECT ord, node, value FROM writes WHERE value > 6")
    view = db.ego("view", edges="edges", writes="large", neighbourhood="SELECT x, y FROM near")
    assert dict(view.fetchall()) == {1: 37, 4: 37, 5: 37}
    db.sql("INSERT INTO edges VALUES (9, 1, 1)")
    assert view.read(9) == 37


def test_windows_of_time() -> None:
    db = kpg.connect()
    db.sql("CREATE TABLE edges (a BIGINT, b BIGINT)")
    db.sql("CREATE TABLE writes (at TIMESTAMP, node BIGINT, value BIGINT)")
    db.advance_to("2030-01-01 00:00:00")
    db.insert("edges", [(1, 2), (1, 3)])
    db.sql("INSERT INTO writes VALUES ('2030-01-01 00:00:00', 2, 1), ('2030-01-01 00:30:00', 3, 2)")
    hour = db.ego("hour", edges="edges", writes="writes", window=timedelta(hours=1))
    text = db.ego("text", edges="edges", writes="writes", window="1 hour", mode="push")
    assert (hour.read(1), text.read(1)) == (3, 3)
    db.advance_to("2030-01-01 01:10:00")
    assert (hour.read(1), text.read(1)) == (2, 2)
    db.advance_to("2030-01-01 01:40:00")
    assert (hour.read(1), text.read(1)) == (None, None)


def test_windows_of_orders() -> None:
    db = database()
    view = db.ego("view", edges="edges", writes="writes", window=("range", 2))
    assert dict(view.fetchall()) == {1: 7, 4: 7, 5: 12}
    db.insert("writes", [(9, 6, 1, "x")])
    assert dict(view.fetchall()) == {5: 1}


@pytest.mark.slow
def test_words() -> None:
    db = database()
    words = "SELECT ord, node, word FROM writes"
    trends = db.ego("trends", edges="edges", writes=words, aggregate="top_k(value, 1)")
    assert trends.read_many([1, 5, 6]) == [["a"], ["a"], None]
    least = db.ego("least", edges="edges", writes=words, aggregate="min", mode="push")
    assert least.read_many([1, 5, 6]) == ["a", "a", None]
    seen = db.ego("seen", edges="edges", writes=words, aggregate="distinct_values", overlay="iob")
    assert seen.read_many([4, 5]) == [["a", "b"], ["a", "b", "c"]]


class Spread:
    """The largest less the smallest value, by EAGr's interface."""

    def initialize(self) -> list[int]:
        return []

    def update(self, state: list[int], value: int) -> list[int]:
        return [*state, value]

    def merge(self, state: list[int], other: list[int]) -> list[int]:
        return state + other

    def subtract(self, state: list[int], value: int) -> list[int]:
        state.remove(value)
        return state

    def finalize(self, state: list[int]) -> int:
        if 13 in state:
            raise ValueError("thirteen")
        return max(state) - min(state)


@pytest.mark.parametrize("mode", ["push", "pull"])
def test_an_aggregate_of_ones_own(mode: str) -> None:
    db = database()
    spread = db.ego("spread", edges="edges", writes="writes", aggregate=Spread, mode=mode)
    assert dict(spread.fetchall()) == {1: 13, 4: 13, 5: 15}
    db.insert("writes", [(7, 6, 13, "x")])
    assert spread.read(1) == 13
    with pytest.raises(DataError, match="spread_aggregate of what neighbours wrote cannot be computed"):
        spread.read(5)


class Largest:
    """The largest value: however often it comes."""

    idempotent = True

    def initialize(self) -> list[int]:
        return []

    def update(self, state: list[int], value: int) -> list[int]:
        return [max([*state, value])]

    def merge(self, state: list[int], other: list[int]) -> list[int]:
        return [max(state + other)] if state or other else []

    def finalize(self, state: list[int]) -> int:
        return state[0]


def test_an_aggregate_of_ones_own_that_does_not_mind_repetition() -> None:
    db = database()
    largest = db.ego("big", edges="edges", writes="writes", aggregate=Largest, overlay="vnm_d", mode="push")
    assert dict(largest.fetchall()) == {1: 20, 4: 20, 5: 20}
    db.sql("DELETE FROM writes WHERE ord = 2")
    assert dict(largest.fetchall()) == {1: 10, 4: 10, 5: 10}
    assert db.query("SELECT big_aggregate(value) FROM writes").fetchall() == [(10,)]
    windows = "SELECT ord, big_aggregate(value) OVER (ORDER BY ord) FROM writes ORDER BY ord"
    assert db.query(windows).fetchall() == [(1, 10), (3, 10), (4, 10)]
    again = db.ego("again", edges="edges", writes="writes", aggregate="big_aggregate", window=1)
    assert dict(again.fetchall()) == {1: 7, 4: 7, 5: 7}
    with pytest.raises(NotSupportedError, match="it minds what comes twice"):
        db.ego("no", edges="edges", writes="writes", aggregate=Spread, overlay="vnm_d")


def test_subscribers_hear_what_changes() -> None:
    db = database()
    view = db.ego("view", edges="edges", writes="writes", window=1)
    heard: list[Any] = []
    mine: list[Any] = []
    with view.subscribe(heard.extend), view.subscribe(mine.extend, nodes=[5]):
        db.insert("writes", [(5, 6, 6, "x")])
        db.insert("edges", [(7, 6, 1)])
        assert [(row, diff) for row, _, diff in heard] == [((5, 32), -1), ((5, 33), 1), ((7, 6), 1)]
        assert [(row, diff) for row, _, diff in mine] == [((5, 32), -1), ((5, 33), 1)]
        assert view.overlay.pulled == 0
    db.insert("writes", [(6, 6, 7, "x")])
    db.insert("writes", [(7, 6, 8, "x")])
    assert len(heard) == 3 and view.read(5) == 35


def test_counts_of_what_has_no_sum() -> None:
    db = kpg.connect()
    db.sql(
        "CREATE TABLE edges (a BIGINT, b BIGINT); CREATE TABLE writes (o INT, n BIGINT, v DOUBLE PRECISION)"
    )
    db.insert("edges", [(1, node) for node in range(8)])
    db.insert("writes", [(node, node, 0.5) for node in range(8)])
    assert db.ego("view", edges="edges", writes="writes", aggregate="count", mode="pull").read(1) == 8


def test_answers_that_are_remembered_change() -> None:
    db = kpg.connect()
    db.sql("CREATE TABLE edges (a BIGINT, b BIGINT); CREATE TABLE writes (o INT, n BIGINT, v TEXT)")
    db.insert("edges", [(1, 2), (1, 3), (4, 2)])
    db.insert("writes", [(1, 2, "x"), (2, 2, "y"), (3, 3, "y")])
    for mode in ("push", "pull"):
        db.ego(mode, edges="edges", writes="writes", aggregate="top_k(value, 2)", mode=mode)
    views = [db.view("push"), db.view("pull")]
    assert [dict(view.fetchall()) for view in views] == [{1: ["y", "x"], 4: ["x", "y"]}] * 2
    db.insert("writes", [(4, 3, "a"), (5, 2, "a")])
    assert [dict(view.fetchall()) for view in views] == [{1: ["a", "y"], 4: ["a", "x"]}] * 2
    db.sql("DELETE FROM writes WHERE v = 'a'")
    assert [dict(view.fetchall()) for view in views] == [{1: ["y", "x"], 4: ["x", "y"]}] * 2


def test_views_over_it_follow() -> None:
    db = database()
    db.ego("view", edges="edges", writes="writes", window=1)
    db.sql("CREATE MATERIALIZED VIEW loud AS SELECT count(*) AS n FROM view WHERE value > 30")
    assert db.sql("SELECT n FROM loud").fetchall() == [(1,)]
    db.insert("writes", [(5, 2, 17, "x")])
    assert db.sql("SELECT n FROM loud").fetchall() == [(3,)]


def test_a_failed_transaction_changes_nothing() -> None:
    db = database()
    view = db.ego("view", edges="edges", writes="writes", aggregate="max", mode="push")
    before = dict(view.fetchall())
    with pytest.raises(RuntimeError), db.transaction():
        db.insert("writes", [(5, 2, 99, "x")])
        db.sql("DELETE FROM edges WHERE dst = 3")
        assert db.sql("SELECT value FROM view WHERE node = 1").fetchall() == [(99,)]
        raise RuntimeError
    assert dict(view.fetchall()) == before
    db.sql("CREATE MATERIALIZED VIEW tenth AS SELECT 10 / (100 - value) AS q FROM writes")
    with pytest.raises(DataError, match="division by zero"):
        db.insert("writes", [(5, 2, 100, "x")])
    assert dict(view.fetchall()) == before


def test_a_folder_has_it_again(tmp_path: Path) -> None:
    with database(tmp_path / "db") as db:
        db.ego("view", edges="edges", writes="writes", window=1)
    with kpg.connect(tmp_path / "db") as db:
        assert dict(db.view("view").fetchall()) == {1: 27, 4: 27, 5: 32}
        db.insert("writes", [(5, 2, 1, "x")])
        assert dict(db.sql("SELECT * FROM view").fetchall()) == {1: 21, 4: 21, 5: 26}


def test_explain_shows_the_overlay() -> None:
    db = kpg.connect()
    db.sql("CREATE TABLE edges (a BIGINT, b BIGINT)")
    db.sql("CREATE TABLE writes (o BIGINT, n BIGINT, v BIGINT)")
    db.insert("edges", [(reader, writer) for reader in range(10, 14) for writer in range(6)])
    db.insert("writes", [(i, i, i) for i in range(6)])
    view = db.ego("view", edges="edges", writes="writes", mode="push")
    text = view.explain()
    assert ": sum(#0), sum(#1); overlay by vnm_a, push  -- O(change x what is pushed)" in text
    assert "6 writers, 4 readers, 1 partial aggregates; 10 edges in the place of 24" in text
    assert "  level 1: 1 pushed, 0 pulled, 6 edges in" in text
    assert view.overlay.depth == 2


@pytest.mark.parametrize(
    ("given", "error", "message"),
    [
        ({"mode": "fast"}, InterfaceError, "there is no mode 'fast'"),
        ({"overlay": "best"}, InterfaceError, "there is no overlay 'best'"),
        ({"window": 0}, InterfaceError, "a window has at least one write, not 0"),
        ({"window": 1.5}, InterfaceError, "a window is not 1.5"),
        ({"overlay": "vnm_d"}, NotSupportedError, "it minds what comes twice"),
        ({"overlay": "vnm_n", "aggregate": "max"}, NotSupportedError, "nothing can be taken away"),
        ({"edges": "nothing"}, ProgrammingError, 'no table or view "nothing"|does not exist|nothing'),
        ({"aggregate": "count(DISTINCT value)"}, NotSupportedError, "in an ego view is not supported"),
        ({"writes": "SELECT ord FROM writes"}, ProgrammingError, "writes needs 3 columns"),
        ({"aggregate": object()}, InterfaceError, "needs the method initialize"),
        ({"readers": [1.5]}, InterfaceError, "readers cannot be told by 1.5"),
    ],
)
def test_what_is_refused(given: dict[str, Any], error: type[Exception], message: str) -> None:
    db = database()
    with pytest.raises(error, match=message):
        db.ego("view", **{"edges": "edges", "writes": "writes", **given})
    assert [row[0] for row in db.views().fetchall()] == []


AGGREGATES = ["sum", "count", "avg", "min", "max", "top_k(value, 2)", "distinct_count", "stddev", "bit_or"]


@pytest.mark.slow
@pytest.mark.parametrize("aggregate", AGGREGATES)
def test_random_lives(aggregate: str) -> None:
    """After every commit, each mode and construction gives what plain SQL gives."""
    rng, db = random.Random(aggregate), database()
    views = [
        db.ego(
            f"{mode}_{overlay}", edges="edges", writes="writes", aggregate=aggregate, window=2, mode=mode,
            overlay=overlay,
        )
        for mode in ("auto", "push", "pull")
        for overlay in ("vnm_a", "iob")
    ]  # fmt: skip
    call = aggregate if "(" in aggregate else f"{aggregate}(value)"
    truth = (
        f"SELECT r, {call} FROM (SELECT DISTINCT src r, dst w FROM edges) p JOIN (SELECT * FROM (SELECT *,"
        " row_number() OVER (PARTITION BY node ORDER BY ord DESC) n FROM writes) q"
        " WHERE n <= 2 AND value IS NOT NULL) x ON x.node = w GROUP BY r"
    )
    for order in range(10, 18):
        with db.transaction():
            value = rng.choice([None, rng.randint(-5, 5), rng.randint(-5, 5)])
            db.insert("writes", [(order, rng.randint(1, 9), value, "x")])
            if rng.random() < 0.6:
                db.sql(f"DELETE FROM writes WHERE ord = {rng.randint(1, order)}")
            db.insert("edges", [(rng.randint(1, 9), rng.randint(1, 9), 1)])
            db.sql(f"DELETE FROM edges WHERE src = {rng.randint(1, 9)} AND dst = {rng.randint(1, 9)}")
        expected = dict(db.sql(truth).fetchall())
        empty = 0 if "count" in aggregate else None
        for view in views:
            assert dict(view.fetchall()) == expected
            assert view.read_many(list(range(11))) == [expected.get(node, empty) for node in range(11)]


def test_create_ego_view() -> None:
    db = database()
    db.sql(
        "CREATE EGO VIEW total AS sum(value) FROM writes LAST 1 OVER edges OUT WHERE weight > 1"
        " READERS node > 1 WITH (mode = push, overlay = iob)"
    )
    assert sorted(db.sql("SELECT * FROM total").fetchall()) == [(4, 27), (5, 32)]
    writes = "(SELECT ord, node, value FROM writes)"
    db.sql(f"CREATE OR REPLACE EGO VIEW total AS max(value) FROM {writes} OVER edges BOTH 2")
    assert dict(db.sql("SELECT * FROM total").fetchall()) == {1: 20, 2: 20, 3: 20, 4: 20, 5: 20, 6: 20}
    db.sql("DROP MATERIALIZED VIEW total")
    with pytest.raises(ProgrammingError, match='syntax error at "UNDER"'):
        db.sql("CREATE EGO VIEW total AS sum(value) FROM writes UNDER edges")
