"""Orders by text: as by its bytes, however long, and without reading more than may be first."""

import pytest

import kpg
from kpg.runtime.operators import topk

LONG = "x" * 27


def firsts(text: str, values: list[tuple[str, int]], more: list[tuple[str, int]]) -> list[list[tuple]]:
    """The rows of a top-k of three by ``text``, before and after more rows have come one by one."""
    db = kpg.connect()
    db.sql("create table t (s text, n int)")
    db.insert("t", values)
    db.sql(f"create materialized view v as select s, n from t order by {text} limit 3")
    found = [sorted(db.view("v").fetchall())]
    for row in more:
        db.insert("t", [row])
    return [*found, sorted(db.view("v").fetchall())]


def test_texts_that_agree_on_their_words_are_compared_whole() -> None:
    values = [(LONG + "ab" + "c" * i, i) for i in range(6)]
    assert firsts("s desc, n", values, [(LONG + "b", 9), (LONG, 10)]) == [
        [(LONG + "ab" + "c" * i, i) for i in (3, 4, 5)],
        [(LONG + "abcccc", 4), (LONG + "abccccc", 5), (LONG + "b", 9)],
    ]


def test_a_second_text_is_compared_whole_where_the_first_is_the_same() -> None:
    values = [(LONG + "ab" + "c" * i, i) for i in range(6)]
    found = firsts("left(s, 3), s desc", values, [(LONG + "b", 9), (LONG, 10)])
    assert found == [
        [(LONG + "ab" + "c" * i, i) for i in (3, 4, 5)],
        [(LONG + "abcccc", 4), (LONG + "abccccc", 5), (LONG + "b", 9)],
    ]


@pytest.mark.parametrize("order", ["s, n", "s desc, n", "s nulls first, n desc", "left(s, 2), s, n"])
def test_rows_whose_short_texts_are_the_same_are_not_all_read(
    order: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    db = kpg.connect()
    db.sql("create table t (s text, n int)")
    db.insert("t", [(("closed", "new", None)[i % 3], i) for i in range(900)])
    db.sql(f"create materialized view v as select s, n from t order by {order} limit 3")
    read = []

    def counted(*arguments: object) -> object:
        found = plain(*arguments)
        read.append(found[0].shape[1])
        return found

    plain = topk.collect
    monkeypatch.setattr(topk, "collect", counted)
    db.insert("t", [("new", 950), ("closed", -1), (None, -2)])
    assert sorted(db.view("v").fetchall(), key=str) == sorted(
        db.sql(f"select s, n from t order by {order} limit 3").fetchall(), key=str
    )
    assert read and max(read) <= 6
