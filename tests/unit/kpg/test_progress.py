"""Bars of long work, as a terminal and a notebook get them."""

import os
import pty
import re
import subprocess
import sys
import types
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import kpg
from kpg.api import progress
from kpg.runtime import progress_report

CHAIN = "WITH RECURSIVE r(a) AS (SELECT 0 UNION SELECT a + 1 FROM r WHERE a < 5) SELECT * FROM r"


class Pictures:
    """A screen that keeps what is drawn."""

    def __init__(self) -> None:
        self.drawn: list[tuple[str, int, int | None, str]] = []
        self.cleared = 0

    def draw(self, task: str, done: int, total: int | None, text: str) -> None:
        self.drawn.append((task, done, total, text))

    def clear(self) -> None:
        self.cleared += 1


@pytest.fixture
def screen(monkeypatch: pytest.MonkeyPatch) -> Iterator[Pictures]:
    """What is drawn where all work counts as long."""
    pictures = Pictures()
    monkeypatch.setattr(progress, "DELAY", 0.0)
    monkeypatch.setattr(progress, "REDRAW_INTERVAL", 0.0)
    monkeypatch.setattr(progress, "_find_screen", lambda *, always: pictures)
    kpg.show_progress(True)
    yield pictures
    kpg.show_progress()


def test_a_view_is_counted_in_operators_and_rounds(screen: Pictures) -> None:
    db = kpg.connect()
    db.sql(f"CREATE MATERIALIZED VIEW r AS {CHAIN}")
    assert {(what, total) for what, _, total, _ in screen.drawn} == {("r", screen.drawn[0][2])}
    done = [count for _, count, _, _ in screen.drawn]
    assert done == sorted(done)
    assert done[-1] <= (screen.drawn[0][2] or 0)
    rounds = re.findall(r"round (\d+)", " ".join(text for *_, text in screen.drawn))
    assert {int(one) for one in rounds} >= {0, 1, 2, 3, 4, 5}
    assert screen.cleared == 1


def test_a_query_is(screen: Pictures) -> None:
    assert kpg.connect().query(f"SELECT count(*) FROM ({CHAIN}) AS r").fetchall() == [(6,)]
    assert {what for what, *_ in screen.drawn} == {"query 1"}


def test_loads_tell_their_rows(screen: Pictures, tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("a\n" + "7\n" * 1000)
    db = kpg.connect()
    db.sql("CREATE TABLE t (a INT)")
    db.load("t", tmp_path / "t.csv", mode="arrow")
    assert screen.drawn[-1][:3] == ("loading t", 1000, None)
    assert screen.drawn[-1][3].startswith("1,000 rows, ")


def test_folders_tell_commits_and_checkpoints_bytes(screen: Pictures, tmp_path: Path) -> None:
    db = kpg.connect(tmp_path / "db")
    db.sql("CREATE TABLE t (a INT, b TEXT)")
    for place in range(3):
        db.insert("t", [(one, str(one)) for one in range(5000 * place, 5000 * place + 5000)])
    screen.drawn.clear()
    db.sql("CHECKPOINT")
    assert {what for what, *_ in screen.drawn} == {"checkpoint"}
    assert max(count for _, count, _, _ in screen.drawn) > 60_000
    db.insert("t", [(-1, "x")])
    db._engine.write_ahead_log = None  # as if killed: nothing more is written
    screen.drawn.clear()
    copy = tmp_path / "copy"
    copy.mkdir()
    for file in (tmp_path / "db").iterdir():
        if file.name != "lock":
            (copy / file.name).write_bytes(file.read_bytes())
    with kpg.connect(copy) as again:
        assert again.query("SELECT count(*) FROM t").fetchall() == [(15001,)]
    assert (f"opening {copy}", 0, 1) in [one[:3] for one in screen.drawn]


def test_an_error_ends_the_picture_and_leaves_the_watch(screen: Pictures) -> None:
    db = kpg.connect()
    with pytest.raises(kpg.DataError):
        db.query("SELECT 1 / (a - a) FROM generate_series(1, 3) AS s(a)")
    assert screen.cleared == 1
    assert db._engine.interrupt.watch is None


def test_a_screen_that_is_gone_ends_nothing(screen: Pictures, monkeypatch: pytest.MonkeyPatch) -> None:
    def gone(*args: object) -> None:
        raise BrokenPipeError

    monkeypatch.setattr(screen, "draw", gone)
    assert kpg.connect().query(CHAIN).fetchall() == [(one,) for one in range(6)]


def test_work_within_work_is_drawn_and_the_outer_goes_on(screen: Pictures) -> None:
    with progress_report.report_progress("outer", "rows") as outer:
        outer(1, 2)
        with progress_report.report_progress("inner", "bytes") as inner:
            inner(3_000_000, 5_000_000, "now")
        outer(2, 2)
    assert [(what, done, total, text.replace("0 s", "")) for what, done, total, text in screen.drawn] == [
        ("outer", 1, 2, "1 of 2 rows, "),
        ("inner", 3_000_000, 5_000_000, "3 of 5 MB, , now"),
        ("outer", 2, 2, "2 of 2 rows, "),
    ]
    assert screen.cleared == 1


SCRIPT = f"""
import kpg
from kpg.api import progress

progress.DELAY = 0.0
db = kpg.connect()
db.sql("CREATE MATERIALIZED VIEW r AS {CHAIN}")
print(len(db.view("r")))
"""


def run_on_a_terminal(**environment: str) -> tuple[str, str]:
    """What a script prints, and what the terminal gets that is its standard error."""
    ours, theirs = pty.openpty()
    environment = {**os.environ, "TERM": "xterm", "COLUMNS": "100", **environment}
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT], stdout=subprocess.PIPE, stderr=theirs, env=environment, check=True
    )
    os.close(theirs)
    drawn = b""
    while True:
        try:
            part = os.read(ours, 65536)
        except OSError:  # what Linux says once the other side is closed
            break
        if not part:
            break
        drawn += part
    os.close(ours)
    return done.stdout.decode(), drawn.decode()


def test_a_terminal_has_a_line_that_goes_again() -> None:
    out, drawn = run_on_a_terminal()
    assert out == "6\n"
    assert re.search(r"r .*of \d+ operators", re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", drawn))
    assert drawn.rstrip().endswith("\x1b[2K")  # the last that happens is that the line is emptied


def test_a_terminal_that_can_do_nothing_gets_nothing() -> None:
    assert run_on_a_terminal(TERM="dumb") == ("6\n", "")


def test_a_pipe_gets_nothing() -> None:
    done = subprocess.run([sys.executable, "-c", SCRIPT], capture_output=True, text=True, check=True)
    assert (done.stdout, done.stderr) == ("6\n", "")


def test_a_notebook_has_it_below_its_cell(monkeypatch: pytest.MonkeyPatch) -> None:
    """A stand-in for IPython, which is no dependency: what a kernel's display is called with."""
    shown: list[str] = []

    class Handle:
        def update(self, text: str) -> None:
            shown.append(text)

    def display(text: str, *, display_id: bool) -> Handle:
        assert display_id
        shown.append(text)
        return Handle()

    ipython: Any = types.ModuleType("IPython")
    ipython.get_ipython = lambda: types.SimpleNamespace(kernel=object())
    ipython.display = types.SimpleNamespace(HTML=str, display=display)
    monkeypatch.setitem(sys.modules, "IPython", ipython)
    monkeypatch.setattr(progress, "DELAY", 0.0)
    monkeypatch.setattr(progress, "REDRAW_INTERVAL", 0.0)
    kpg.connect().query(CHAIN)
    assert shown[0].startswith("query 1 <progress value=")
    assert shown[-1] == ""
