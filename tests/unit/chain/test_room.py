"""The memory that small steps take follows what they hold, not what one before them held."""

import tracemalloc

import kpg


def test_a_row_of_many_matches_does_not_have_later_steps_reserve_room_for_as_many_a_row() -> None:
    database = kpg.connect()
    database.sql("create table a (k int, x int)")
    database.sql("create table b (k int, y int)")
    database.sql("create materialized view n as select count(*) n from a join b on a.k = b.k and a.x < b.y")
    database.insert("b", [(1, y) for y in range(50_000)])
    for x in range(3):
        database.insert("a", [(2, x)])
    database.insert("a", [(1, 0)])
    tracemalloc.start()
    try:
        database.insert("a", [(2, x) for x in range(2000)])
        _, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert most < 1 << 26
    assert database.view("n").fetchall() == [(49_999,)]
