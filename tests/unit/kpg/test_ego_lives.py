"""Ego views through what befalls a database: workers, kills, Ctrl-C, the past, branches, changed tables."""

import random
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

import kpg
from kpg.api.ego import EgoView
from kpg.runtime.ego.partial_aggregates import Sums
from kpg.runtime.errors import NotSupportedError
from kpg.runtime.operators.ego import find_ego

TABLES = (
    "CREATE TABLE follows (who TEXT, whom TEXT, PRIMARY KEY (who, whom));"
    "CREATE TABLE posts (id BIGINT PRIMARY KEY, author TEXT, likes INT, tag TEXT)"
)
PLAIN = (
    "SELECT who AS node, {} AS value FROM follows JOIN (SELECT *, row_number() OVER (PARTITION BY author"
    " ORDER BY id DESC) AS number FROM posts) AS p ON author = whom AND number <= 2 AND {} IS NOT NULL"
    " GROUP BY who"
)
VIEWS = {
    "likes": ("sum(value)", "likes", "sum(likes)"),
    "least": ("min(value)", "likes", "min(likes)"),
    "tags": ("top_k(value, 2)", "tag", "top_k(tag, 2)"),
    "parity": ("bit_xor(value)", "likes", "bit_xor(likes)"),
}
NAMES = "abcdefgh"


def filled(db: Any, modes: Sequence[str] = ("auto",)) -> Any:
    """Tables, and each view by each mode."""
    db.sql(TABLES)
    db.insert("follows", [(a, b) for a in NAMES for b in NAMES if (ord(a) * ord(b)) % 5 < 3])
    db.insert("posts", [(i, NAMES[i % 7], i * 5 % 11, f"t{i % 4}") for i in range(30)])
    for name, (call, column, _) in VIEWS.items():
        for mode in modes:
            writes = f"SELECT id, author, {column} FROM posts"
            db.sql(
                f"CREATE EGO VIEW {name}_{mode} AS {call} FROM ({writes}) LAST 2 OVER follows OUT"
                f" WITH (mode = {mode})"
            )
    return db


def check(db: Any, modes: Sequence[str] = ("auto",)) -> None:
    """All views have what plain SQL says."""
    for name, (_, column, call) in VIEWS.items():
        expected = sorted(db.query(PLAIN.format(call, column)).fetchall())
        for mode in modes:
            assert sorted(db.query(f"SELECT * FROM {name}_{mode}").fetchall()) == expected, (name, mode)


def change(db: Any, choose: random.Random, number: int) -> None:
    """A write, one that goes or is another, an edge that comes or goes."""
    match choose.randrange(5):
        case 0 | 1:
            row = (100 + number, choose.choice(NAMES), choose.choice([None, 1, 7, 9]), choose.choice("xyz"))
            db.insert("posts", [row])
        case 2:
            db.sql(f"UPDATE posts SET likes = likes + 3, tag = 'u' WHERE id % 7 = {choose.randrange(7)}")
        case 3:
            db.sql(
                f"DELETE FROM follows WHERE who = '{choose.choice(NAMES)}' OR whom = '{choose.choice(NAMES)}'"
            )
        case _:
            pair = f"'{choose.choice(NAMES)}', '{choose.choice(NAMES)}'"
            db.sql(f"INSERT INTO follows VALUES ({pair}) ON CONFLICT DO NOTHING")


def test_modes_agree_with_plain_sql_after_every_change() -> None:
    modes = ("auto", "push", "pull", "continuous")
    db, choose = filled(kpg.connect(), modes), random.Random(4)
    for number in range(16):
        change(db, choose, number)
        check(db, modes)


def test_two_workers() -> None:
    with kpg.connect(workers=2) as db:
        filled(db)
        choose = random.Random(5)
        for number in range(8):
            change(db, choose, number)
            check(db)
        view = db.view("tags_auto")
        assert isinstance(view, EgoView)
        rows = dict(db.query("SELECT * FROM tags_auto").fetchall())
        assert view.read_many(list(NAMES)) == [rows.get(name) for name in NAMES]
        assert view.overlay.readers >= len(rows)
        view.decide()
        check(db)


@pytest.mark.soak
def test_killed_in_the_middle_and_opened_again(tmp_path: Path) -> None:
    code = (
        "import os, random, signal, kpg\n"
        "from tests.unit.kpg.test_ego_lives import change, filled\n"
        f"db = filled(kpg.connect({str(tmp_path / 'db')!r}))\n"
        "choose = random.Random(6)\n"
        "for number in range(9):\n"
        "    change(db, choose, number)\n"
        "db.sql('BEGIN')\n"
        "change(db, choose, 10)\n"
        "os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == -signal.SIGKILL
    choose = random.Random(7)
    with kpg.connect(tmp_path / "db") as db:
        check(db)
        view = db.view("likes_auto")
        assert isinstance(view, EgoView) and view.overlay.construction == "vnm_a"
        for number in range(20, 28):
            change(db, choose, number)
            check(db)


def test_ctrl_c_in_a_step_leaves_everything_as_it_was(monkeypatch: pytest.MonkeyPatch) -> None:
    db = filled(kpg.connect())
    before = sorted(db.query("SELECT * FROM likes_auto").fetchall())
    write = Sums.write

    def interrupted(self: Sums, *given: Any) -> None:
        signal.raise_signal(signal.SIGINT)
        write(self, *given)

    monkeypatch.setattr(Sums, "write", interrupted)
    with pytest.raises(KeyboardInterrupt):
        db.sql("UPDATE posts SET likes = likes + 100")
    monkeypatch.undo()
    assert sorted(db.query("SELECT * FROM likes_auto").fetchall()) == before
    check(db)
    db.sql("UPDATE posts SET likes = likes + 100")
    check(db)


def test_the_past_and_branches(tmp_path: Path) -> None:
    with kpg.connect(tmp_path / "db", history="1 hour") as db:
        filled(db)
        before = sorted(db.query("SELECT * FROM tags_auto").fetchall())
        epoch = db.epoch
        db.sql("DELETE FROM posts WHERE id % 3 = 0; DELETE FROM follows WHERE who = 'a'")
        assert sorted(db.query(f"SELECT * FROM tags_auto AS OF {epoch}").fetchall()) == before
        after = sorted(db.query("SELECT * FROM tags_auto").fetchall())
        other = db.branch()
        other.sql("DELETE FROM follows WHERE who = 'b'; UPDATE posts SET tag = 'q'")
        check(other)
        assert isinstance(other.view("tags_auto"), EgoView)
        assert sorted(db.query("SELECT * FROM tags_auto").fetchall()) == after


def test_proofs_name_rows_of_tables() -> None:
    db = filled(kpg.connect())
    ((node, value),) = db.query("SELECT * FROM likes_auto ORDER BY node LIMIT 1").fetchall()
    shown = str(db.explain_row("likes_auto", (node, value)))
    assert f"likes_auto(node = '{node}', value = {value})" in shown
    assert "follows(who = 'a'" in shown and "posts(id = " in shown


def test_tables_that_change_under_it(tmp_path: Path) -> None:
    with kpg.connect(tmp_path / "db") as db:
        filled(db)
        db.sql("ALTER TABLE posts ADD COLUMN more INT DEFAULT 3; ALTER TABLE follows ADD COLUMN since DATE")
        check(db)
        db.sql("INSERT INTO posts (id, author, likes, tag) VALUES (200, 'b', 70, 'z')")
        check(db)
        with pytest.raises(kpg.ProgrammingError, match=r'likes of "posts" cannot be dropped: .* use it'):
            db.sql("ALTER TABLE posts DROP COLUMN likes")
        with pytest.raises(NotSupportedError, match=r"is not supported while .* use it"):
            db.sql("ALTER TABLE posts ALTER COLUMN likes TYPE BIGINT")
        before = sorted(db.query("SELECT * FROM likes_auto").fetchall())
        db.sql("ALTER TABLE posts RENAME COLUMN likes TO hearts; ALTER TABLE follows RENAME TO links")
        assert sorted(db.query("SELECT * FROM likes_auto").fetchall()) == before
        db.sql("INSERT INTO posts (id, author, hearts) VALUES (201, 'b', 1000)")
    with kpg.connect(tmp_path / "db") as db:
        rows = db.query("SELECT max(value) FROM likes_auto").fetchall()
        assert rows == [(max(value for _, value in db.view("likes_auto").fetchall()),)] and rows[0][0] > 1000
        db.sql("DROP TABLE posts CASCADE")
        assert "likes_auto" not in db.names()


@pytest.mark.parametrize("aggregate", ["sum(value)", "avg(value)", "top_k(value, 2)"])
def test_a_query_for_one_node_reads_that_one_only(aggregate: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Once it is prepared; and the question is one that labels go by."""
    with kpg.connect() as db:
        db.sql(TABLES)
        db.insert("follows", [("a", "b"), ("a", "c"), ("b", "c")])
        db.insert("posts", [(1, "b", 3, "x"), (2, "c", 4, "y"), (3, "c", 4, "y")])
        view = db.ego(
            "likes", edges="follows", writes="SELECT id, author, likes FROM posts", aggregate=aggregate
        )
        every = dict(db.query("SELECT node, value FROM likes").fetchall())
        assert sorted(every) == ["a", "b"]
        text = "SELECT value FROM likes WHERE node = ?"
        for _ in range(3):
            assert db.query(text, ["a"]).fetchall() == [(every["a"],)]
        engine = find_ego(view._maintained.installation.output).engine
        monkeypatch.setattr(engine, "rows", None)
        asked = int(engine.overlay.read_counts.sum())
        for node in ("b", "a", "a"):
            assert db.query(text, [node]).fetchall() == [(every[node],)]
        for node in ("c", "nobody"):
            assert db.query(text, [node]).fetchall() == []
        assert int(engine.overlay.read_counts.sum()) == asked + 3
        with pytest.raises(TypeError):
            db.query("SELECT count(*) FROM likes").fetchall()
        monkeypatch.undo()
        db.insert("posts", [(4, "b", 9, "z"), (5, "b", 9, "z")])
        now = dict(db.query("SELECT node, value FROM likes").fetchall())
        assert db.query(text, ["a"]).fetchall() == [(now["a"],)] != [(every["a"],)]
