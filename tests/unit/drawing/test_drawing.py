"""What ``draw`` gives: in a notebook, as a file, and of what there is nothing to draw of."""

from pathlib import Path
from xml.etree import ElementTree

import pytest

import kpg


@pytest.fixture
def db() -> kpg.Database:
    db = kpg.connect()
    db.sql("CREATE TABLE t (a INT, b INT); INSERT INTO t VALUES (1, 2), (3, 4)")
    db.sql("CREATE MATERIALIZED VIEW v AS SELECT a, sum(b) AS s FROM t GROUP BY a")
    db.sql("CREATE VIEW plain AS SELECT a + 1 AS c FROM t")
    return db


def texts(drawing: kpg.Drawing) -> set[str]:
    return {
        "".join(one.itertext())
        for one in ElementTree.fromstring(drawing.svg).iter()
        if one.tag[-4:] == "text"
    }


def test_the_database(db: kpg.Database) -> None:
    assert {"t", "v", "2 rows"} <= texts(db.draw())
    assert repr(db.draw()) == "<kpg.Drawing of 2 boxes: a notebook shows it, save() keeps it>"


def test_a_view_by_its_operators(db: kpg.Database) -> None:
    assert {"Source t", "2 out · "} <= {one if "out" not in one else one[:8] for one in texts(db.draw("v"))}


def test_a_query_by_its_plan(db: kpg.Database) -> None:
    drawn = texts(db.draw("SELECT b, count(*) FROM t WHERE a > 1 GROUP BY b"))
    assert {"%0 Source t", "O(change)"} <= drawn
    assert any(one.startswith("%") and "Reduce" in one for one in drawn)


def test_a_view_that_is_not_kept_by_its_plan(db: kpg.Database) -> None:
    assert "%0 Source t" in texts(db.draw("plain"))


def test_a_datalog_relation_and_a_loop(db: kpg.Database) -> None:
    db.datalog(
        ".decl reach(x: number, y: number) reach(x, y) :- t(x, y). reach(x, z) :- reach(x, y), t(y, z)."
    )
    assert any(" Loop" in one for one in texts(db.draw("reach")))


def test_it_is_what_a_notebook_shows_and_a_file_has(db: kpg.Database, tmp_path: Path) -> None:
    drawing = db.draw()
    drawing.save(tmp_path / "flow.svg")
    assert drawing._repr_svg_() == drawing.svg == (tmp_path / "flow.svg").read_text(encoding="utf-8")


def test_a_file_is_what_its_name_says(db: kpg.Database, tmp_path: Path) -> None:
    drawing = db.draw()
    drawing.save(tmp_path / "flow.html")
    page = (tmp_path / "flow.html").read_text(encoding="utf-8")
    assert page.startswith("<!DOCTYPE html>")
    assert drawing.svg in page
    for name in ("flow.png", "flow"):
        with pytest.raises(
            kpg.InterfaceError, match=rf"not written as {name}\nhint: name the file \.svg, or \.html"
        ):
            drawing.save(tmp_path / name)
        assert not (tmp_path / name).exists()


HOW = "\nhint: give the name of a view, the text of a query, or nothing for all: draw()"


@pytest.mark.parametrize(
    ("what", "message"),
    [
        ("nosuch", f'there is no view "nosuch"{HOW}'),
        ("", f'there is no view ""{HOW}'),
        ("SELECT 1; DROP TABLE t", f"one query is drawn at a time{HOW}"),
        ("select x from t", f'column "x" does not exist\nline 1: select x from t\n               ^{HOW}'),
        (
            "create table u (a int)",
            "EXPLAIN of anything but a query or a change is not supported\nline 1: create table u (a int)\n"
            f"        ^^^^^^^^^^^^^^^^^^^^^^{HOW}",
        ),
    ],
)
def test_what_cannot_be_drawn_is_said_of_what_was_written(db: kpg.Database, what: str, message: str) -> None:
    with pytest.raises(kpg.Error) as raised:
        db.draw(what)
    assert str(raised.value) == message
    assert db.query("SELECT count(*) FROM t").fetchall() == [(2,)]


def test_it_stays_as_it_was_drawn(db: kpg.Database) -> None:
    drawing = db.draw()
    before = drawing.svg
    db.insert("t", [(5, 6)])
    assert drawing.svg == before
    assert db.draw().svg != before


def test_what_is_there_to_draw_is_said(db: kpg.Database) -> None:
    with pytest.raises(kpg.ProgrammingError, match='"t" is a table'):
        db.draw("t")
    with pytest.raises(kpg.ProgrammingError, match="nosuch"):
        db.draw("SELECT nosuch FROM t")
