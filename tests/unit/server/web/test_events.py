"""GET /subscribe: a view's changes, and a goal's, as server-sent events."""

import base64
import json
import socket
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from kpg.server.web import event_streams
from tests.unit.server.web.conftest import Web, web_of
from tests.waiting import PATIENCE, until


class Stream:
    """The events of an open subscription."""

    def __init__(self, one: socket.socket) -> None:
        self.socket = one
        self._file = one.makefile("rb")
        self.status = int(self._file.readline().split()[1])
        self.headers = dict(self._lines())

    def close(self) -> None:
        self._file.close()

    def _lines(self) -> Iterator[tuple[str, str]]:
        while line := self._file.readline().strip():
            name, _, value = line.decode().partition(": ")
            yield name.lower(), value

    def next(self) -> dict[str, Any]:
        """The next event that tells something; ``kind``, ``id`` and its data."""
        found: dict[str, Any] = {}
        data = ""
        while True:
            line = self._piece()
            if line == "" and data:
                return found | json.loads(data)
            name, _, value = line.partition(": ")
            if name == "event":
                found["kind"] = value
            elif name == "id":
                found["id"] = value
            elif name == "data":
                data += value

    _pieces = b""

    def _piece(self) -> str:
        while b"\n" not in self._pieces:
            size = int(self._file.readline(), 16)
            assert size, "the stream has ended"
            self._pieces += self._file.read(size)
            self._file.readline()
        line, _, self._pieces = self._pieces.partition(b"\n")
        return line.decode()


@contextmanager
def subscribed(web: Web, query: str, headers: str = "", buffer: int = 1 << 20) -> Iterator[Stream]:
    with socket.socket() as one:
        one.settimeout(PATIENCE)
        one.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, buffer)
        one.connect(("127.0.0.1", web.port))
        one.sendall(f"GET /subscribe?{query} HTTP/1.1\r\nHost: 127.0.0.1\r\n{headers}\r\n".encode())
        stream = Stream(one)
        try:
            yield stream
        finally:
            stream.close()


@pytest.fixture(scope="module")
def remembering() -> Iterator[Web]:
    with web_of(history=1000) as one:
        yield one


def test_a_view_and_its_changes(web: Web) -> None:
    web.sql("create table ev (a int primary key, b text)")
    web.sql("create materialized view ev_seen as select b, count(*) n from ev group by b")
    web.sql("insert into ev values (1, 'x')")
    with subscribed(web, "view=EV_seen") as stream:
        assert stream.headers["content-type"] == "text/event-stream; charset=utf-8"
        columns = stream.next()
        assert columns["kind"] == "columns"
        assert [one["name"] for one in columns["columns"]] == ["b", "n"]
        snapshot = stream.next()
        assert (snapshot["kind"], snapshot["snapshot"], snapshot["changes"]) == (
            "snapshot",
            True,
            [[1, ["x", 1]]],
        )
        web.sql("insert into ev values (2, 'x'), (3, null)")
        change = stream.next()
        assert sorted(change["changes"], key=str) == [[-1, ["x", 1]], [1, ["x", 2]], [1, [None, 1]]]
        assert change["id"] == f"{columns['life']}-{change['epoch']}"
        assert change["epoch"] == snapshot["epoch"] + 1


def test_progress_and_no_snapshot(web: Web) -> None:
    web.sql("create table pr (a int); create materialized view pr_v as select a from pr")
    with subscribed(web, "view=pr_v&snapshot=false&progress=1") as stream:
        assert stream.next()["kind"] == "columns"
        before = stream.next()
        assert before["kind"] == "progress"
        web.sql("insert into pr values (1)")
        while (change := stream.next())["kind"] == "progress":
            pass
        assert (change["changes"], change["epoch"]) == ([[1, [1]]], before["progress"] + 1)


def test_a_long_snapshot_comes_in_parts(web: Web) -> None:
    web.sql("create table long (a int); create materialized view long_v as select a from long")
    web.sql("insert into long select i from generate_series(1, 4500) t(i)")
    with subscribed(web, "view=long_v") as stream:
        stream.next()
        parts = [stream.next() for _ in range(3)]
        assert [len(part["changes"]) for part in parts] == [2000, 2000, 500]
        assert [(part["snapshot"], "id" in part) for part in parts] == [
            (False, False),
            (False, False),
            (True, True),
        ]


def test_it_goes_on_where_it_was(remembering: Web) -> None:
    web = remembering
    web.sql("create table re (a int); create materialized view re_v as select a from re")
    with subscribed(web, "view=re_v") as stream:
        stream.next()
        first = stream.next()
        seen, epoch = first["id"], first["epoch"]
    web.sql("insert into re values (1)")
    web.sql("insert into re values (2)")
    for query, headers in ((f"as_of={epoch}", ""), ("", f"Last-Event-ID: {seen}\r\n"), (f"seen={seen}", "")):
        with subscribed(web, f"view=re_v&{query}", headers) as stream:
            stream.next()
            changes = [stream.next(), stream.next()]
            assert [(one["epoch"], one["changes"]) for one in changes] == [
                (epoch + 1, [[1, [1]]]),
                (epoch + 2, [[1, [2]]]),
            ]


def test_marks_of_another_life_are_begun_anew() -> None:
    """Epochs of a server in memory begin anew: those of another life may be there, and mean other changes."""
    marks = []
    for value in (1, 2):
        with web_of(history=1000) as web:
            web.sql("create table li (a int); create materialized view li_v as select a from li")
            with subscribed(web, "view=li_v") as stream:
                life, first = stream.next()["life"], stream.next()
                assert first["id"] == f"{life}-{first['epoch']}"
                marks.append(first["id"])
            web.sql("insert into li values ($1)", [value])
            found = []
            for mark in marks:
                with subscribed(web, "view=li_v", f"Last-Event-ID: {mark}\r\n") as stream:
                    stream.next()
                    one = stream.next()
                    found.append((one["kind"], one["changes"]))
    assert found == [("snapshot", [[1, [2]]]), ("changes", [[1, [2]]])]


def test_what_is_not_kept_is_begun_anew(web: Web) -> None:
    web.sql("create table an (a int); create materialized view an_v as select a from an")
    web.sql("insert into an values (1)")
    with subscribed(web, "view=an_v", f"Last-Event-ID: {web.running.server.run_id}-0\r\n") as stream:
        assert [stream.next()["kind"], stream.next()["kind"]] == ["columns", "snapshot"]
    with subscribed(web, "view=an_v&as_of=0") as stream:
        assert stream.status == 400


def test_a_goal(web: Web) -> None:
    web.datalog(
        ".decl hop(a: number, b: number)\n.input hop\n.decl far(a: number, b: number)\n"
        "far(x, y) :- hop(x, y).\nfar(x, z) :- far(x, y), hop(y, z).\n"
    )
    web.datalog("+hop(1, 2).")
    with subscribed(web, "goal=%3F-%20far(%24a,%20x).&parameters=%7B%22a%22:1%7D") as stream:
        assert stream.next()["columns"] == [{"name": "x", "type": "BIGINT"}]
        assert stream.next()["changes"] == [[1, [2]]]
        web.datalog("+hop(2, 3).")
        assert stream.next()["changes"] == [[1, [3]]]
    with subscribed(web, "view=far") as stream:
        assert len([stream.next(), stream.next()][1]["changes"]) == 3


@pytest.mark.parametrize(
    "query",
    [
        "",
        "view=",
        "view=nosuch",
        "view=v&goal=g",
        "view=v&as_of=x",
        "view=v&nosuch=1",
        "view=v&snapshot=2",
        "goal=nonsense",
        "goal=%3F-%20nosuch(x).",
        "view=v&parameters=1",
        "view=v&parameters=%5B",
        "view=bad_t",
        "view=bad_v&as_of=99999",
    ],
)
def test_subscriptions_that_are_refused(web: Web, query: str) -> None:
    web.sql("create table if not exists bad_t (a int)")
    web.sql("create materialized view if not exists bad_v as select a from bad_t")
    with subscribed(web, query) as stream:
        assert stream.status == 400


def test_a_view_that_is_dropped(web: Web, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(event_streams, "HEARTBEAT", 0.01)
    web.sql("create table dr (a int); create materialized view dr_v as select a from dr")
    with subscribed(web, "view=dr_v") as stream:
        stream.next(), stream.next()
        assert web.sql("drop materialized view dr_v")[0] == 200
        failure = stream.next()
        assert (failure["kind"], failure["error"]["message"]) == (
            "failure",
            "view dr_v was dropped or replaced",
        )


def test_what_was_seen_of_an_earlier_life_is_begun_anew(web: Web) -> None:
    """A browser comes back by itself to a server in memory that was restarted: with an id that is to come."""
    web.sql("create table ag (a int); create materialized view ag_v as select a from ag")
    web.sql("insert into ag values (7)")
    with subscribed(web, "view=ag_v", f"Last-Event-ID: {web.running.server.run_id}-123456789\r\n") as stream:
        assert stream.next()["kind"] == "columns"
        contents = stream.next()
        assert (contents["kind"], contents["changes"]) == ("snapshot", [[1, [7]]])
    with subscribed(web, "view=ag_v&as_of=123456789") as stream:
        assert stream.status == 400


def test_a_right_that_is_taken_away(web: Web, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where changes come without a rest."""
    monkeypatch.setattr(event_streams, "HEARTBEAT", 0.01)
    web.sql("create table rt (a int); create materialized view rt_v as select a from rt; create role reading")
    web.sql("grant select on rt_v to reading; alter role reading login")
    headers = "Authorization: Basic " + base64.b64encode(b"reading:").decode() + "\r\n"
    with subscribed(web, "view=rt_v", headers) as stream:
        stream.next(), stream.next()
        web.sql("revoke select on rt_v from reading")
        for number in range(1000):
            web.sql(f"insert into rt values ({number})")
            if (found := stream.next())["kind"] == "failure":
                break
        assert found["error"]["message"] == "permission denied for materialized view rt_v"


def test_a_client_that_does_not_read_is_cut_off(web: Web, monkeypatch: pytest.MonkeyPatch) -> None:
    """It holds back nobody: not the writer, nor another who reads."""
    monkeypatch.setattr(event_streams, "MAX_PENDING_BYTES", 1 << 21)
    web.sql("create table sl (a text); create materialized view sl_v as select a from sl")
    big = "x" * 1_000_000
    with subscribed(web, "view=sl_v", buffer=4096) as slow, subscribed(web, "view=sl_v") as quick:
        quick.next(), quick.next()
        for i in range(20):
            assert web.sql("insert into sl values ($1)", [f"{i}{big}"])[0] == 200
            assert quick.next()["changes"][0][1][0].startswith(str(i))
        kinds = []
        while not kinds or kinds[-1] != "failure":
            kinds.append(slow.next()["kind"])
        assert kinds[:2] == ["columns", "snapshot"]
        assert 1 <= kinds.count("changes") < 20
    assert web.rows("select count(*) from sl_v") == [[20]]


def test_contents_may_be_larger_than_what_may_wait(web: Web, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also for a client that takes little at a time, and what changes meanwhile comes after them."""
    monkeypatch.setattr(event_streams, "MAX_PENDING_BYTES", 1 << 16)
    web.sql("create table lg (a int, b text); create materialized view lg_v as select a, b from lg")
    web.sql("insert into lg select i, repeat('x', 100) from generate_series(1, 20000) t(i)")
    with subscribed(web, "view=lg_v", buffer=4096) as stream:
        assert web.sql("delete from lg where a = 7")[0] == 200
        rows, parts = [], 0
        assert stream.next()["kind"] == "columns"
        while not (part := stream.next())["snapshot"]:
            rows += part["changes"]
            parts += 1
        rows += part["changes"]
        assert sorted(row[0] for _, row in rows) == list(range(1, 20001))
        assert parts > 5
        assert stream.next()["changes"] == [[-1, [7, "x" * 100]]]


def test_who_was_cut_off_goes_on_where_it_stopped(remembering: Web, monkeypatch: pytest.MonkeyPatch) -> None:
    """Again and again: every change is told once, in the order of epochs."""
    web = remembering
    monkeypatch.setattr(event_streams, "MAX_PENDING_BYTES", 1 << 21)
    web.sql("create table cut (a int, b text); create materialized view cut_v as select a, b from cut")
    big, told, epochs, marks = "x" * 1_000_000, Counter[int](), list[int](), list[str]()

    def read(stream: Stream) -> int:
        """Take what comes until the end or the last epoch; 1 for an end before that."""
        while not epochs or epochs[-1] < last:
            one = stream.next()
            if one["kind"] == "failure":
                assert one["error"]["message"].startswith("the subscription is cut off: ")
                return 1
            if one["kind"] in ("snapshot", "changes"):
                told.update({row[0]: diff for diff, row in one["changes"]})
                epochs.append(one["epoch"])
                marks.append(one["id"])
        return 0

    with subscribed(web, "view=cut_v&progress=true", buffer=4096) as stream:
        for number in range(16):
            last = web.sql("insert into cut values ($1, $2)", [number, big])[1]["epoch"]
            if number % 3 == 2:
                last = web.sql("delete from cut where a = $1", [number])[1]["epoch"]
        cuts = read(stream)
    while epochs[-1] < last:
        seen = f"Last-Event-ID: {marks[-1]}\r\n"
        with subscribed(web, "view=cut_v&progress=true", seen) as stream:
            cuts += read(stream)
    assert cuts > 0
    assert epochs == sorted(set(epochs))
    assert {a: times for a, times in told.items() if times} == {a: 1 for a in range(16) if a % 3 != 2}


def test_subscriptions_end_with_their_clients() -> None:
    with web_of() as web:
        web.sql("create table co (a int); create materialized view co_v as select a from co")

        def is_open() -> bool:
            return b"kpg_subscriptions 1\n" in web.ask("GET", "/metrics")[2]

        with subscribed(web, "view=co_v") as stream:
            stream.next(), stream.next()
            assert is_open()
        until(lambda: not is_open())
