"""Dataflows of collections by many workers: the tests of one worker, over members in this process."""

import random
from collections.abc import Iterator

import networkx as nx
import pytest

import kpg
from kpg import graph
from kpg.api.database import Database
from kpg.runtime.errors import NotSupportedError
from tests.properties.test_workers import many
from tests.unit.collections.test_against_python import test_against_python
from tests.unit.collections.test_loops import (
    test_a_column_that_becomes_none_in_the_loop,
    test_a_limit_of_rounds,
    test_a_user_function_inside_a_loop,
    test_a_users_reduce_inside_a_loop,
    test_a_users_reduce_inside_of_nested_loops,
    test_a_variable_that_is_a_collection_from_outside,
    test_an_error_at_the_limit_rolls_back,
    test_enter_and_leave_by_name,
    test_mutual_recursion,
    test_nested_loops_that_are_not_monotone,
    test_reach_and_distances,
    test_results_of_one_loop_that_are_read_at_different_times,
    test_t41_iterate_begins_with_the_input_and_forgets_it,
    test_t44_a_cycle_does_not_support_itself,
    test_tables_in_loops,
)
from tests.unit.collections.test_reduce import test_columns_and_text, test_errors_name_the_group_and_roll_back
from tests.unit.collections.test_sql import test_an_export_is_read_by_other_dataflows_without_a_copy
from tests.unit.collections.watching import step, watch

__all__ = [
    "test_a_column_that_becomes_none_in_the_loop",
    "test_a_limit_of_rounds",
    "test_a_user_function_inside_a_loop",
    "test_a_users_reduce_inside_a_loop",
    "test_a_users_reduce_inside_of_nested_loops",
    "test_a_variable_that_is_a_collection_from_outside",
    "test_against_python",
    "test_an_error_at_the_limit_rolls_back",
    "test_an_export_is_read_by_other_dataflows_without_a_copy",
    "test_columns_and_text",
    "test_enter_and_leave_by_name",
    "test_errors_name_the_group_and_roll_back",
    "test_mutual_recursion",
    "test_nested_loops_that_are_not_monotone",
    "test_reach_and_distances",
    "test_results_of_one_loop_that_are_read_at_different_times",
    "test_t41_iterate_begins_with_the_input_and_forgets_it",
    "test_t44_a_cycle_does_not_support_itself",
    "test_tables_in_loops",
]


@pytest.fixture(params=[2, 3])
def db(request: pytest.FixtureRequest) -> Iterator[Database]:
    with many(request.param, 5, common=request.param == 2) as database:
        yield database


@pytest.fixture
def flow(db: Database) -> kpg.Dataflow:
    return db.dataflow("flow")


def test_strong_components(db: Database, flow: kpg.Dataflow) -> None:
    choice = random.Random(len(db.workers().fetchall()))
    edges = flow.input("edges", src=int, dst=int)
    kept = edges.arrange_by_key("src", "dst")
    seen = watch(graph.strongly_connected_components(kept))
    there = set[tuple[int, int]]()
    for _ in range(8):
        for _ in range(6):
            edge = (choice.randrange(9), choice.randrange(9))
            if edge in there:
                there.remove(edge)
                edges.remove(edge)
            else:
                there.add(edge)
                edges.insert(edge)
        step(flow, edges)
        parts = nx.strongly_connected_components(nx.DiGraph(list(there)))
        label = {node: number for number, nodes in enumerate(parts) for node in nodes}
        assert seen.at() == {(a, b): 1 for a, b in there if label[a] == label[b]}


def test_tables_views_and_exports_of_one_database(db: Database, flow: kpg.Dataflow) -> None:
    db.sql("create table t(n int, s text); insert into t values (1, 'a'), (2, 'b'), (2, 'c')")
    db.sql("create materialized view v as select n, count(*) as rows from t group by n")
    names = flow.input("names", n=int, name=str)
    found = flow.import_("v").join(names, key="n")
    seen = watch(found)
    found.arrange_by_key("n").export("named")
    db.sql("create materialized view w as select t.s, named.name, rows from t join named on t.n = named.n")
    names.insert([(1, "one"), (2, "two")])
    step(flow, names)
    assert seen.at() == {(1, 1, "one"): 1, (2, 2, "two"): 1}
    db.sql("delete from t where s = 'c'; insert into t values (1, 'd')")
    assert seen.at() == {(1, 2, "one"): 1, (2, 1, "two"): 1}
    rows = [("a", "one", 2), ("b", "two", 1), ("d", "one", 2)]
    assert sorted(db.sql("select * from w").fetchall()) == rows
    names.remove((2, "two"))
    step(flow, names)
    assert sorted(db.sql("select * from w").fetchall()) == [rows[0], rows[2]]


def test_what_one_worker_alone_does_is_refused_by_name(db: Database, flow: kpg.Dataflow) -> None:
    class Nothing(kpg.Operator):
        def recv(self, port: int, time: object, batch: object) -> None:
            """Nothing."""

    numbers = flow.input("numbers", n=int)
    with pytest.raises(NotSupportedError, match="an operator of one's own"):
        watch(numbers.apply(Nothing(), n=int))
    numbers.arrange_by_key().export("numbers")
    numbers.insert(3)
    step(flow, numbers)
    db.sql("create table t(n int)")
    with (
        pytest.raises(NotSupportedError, match="in a transaction with changes"),
        db.transaction(),
    ):
        db.sql("insert into t values (1)")
        db.sql("select * from numbers, t")
    assert db.sql("select n from numbers").fetchall() == [(3,)]


def doubled(n: int) -> tuple[int]:
    return (2 * n,)


def test_functions_go_to_other_processes_as_they_are() -> None:
    more = 5

    def factorial(n: int) -> int:
        return 1 if n < 2 else n * factorial(n - 1)

    with kpg.connect(workers=2) as db:
        flow = db.dataflow()
        numbers = flow.input("numbers", n=int)
        first = watch(numbers.map_rows(lambda n: (factorial(n) + more,), m=int))
        second = watch(numbers.map_rows(doubled, m=int).count())
        numbers.insert([1, 2, 3, 4])
        step(flow, numbers)
        assert first.at() == {(6,): 1, (7,): 1, (11,): 1, (29,): 1}
        assert second.at() == {(2, 1): 1, (4, 1): 1, (6, 1): 1, (8, 1): 1}
        numbers.remove(4)
        step(flow, numbers)
        assert first.at() == {(6,): 1, (7,): 1, (11,): 1}
        with pytest.raises(kpg.InterfaceError, match="cannot be sent to workers"):
            watch(numbers.map_rows(lambda n: (len(db.sql("select 1").fetchall()) + n,), m=int))
        assert len(db.workers().fetchall()) == 2
