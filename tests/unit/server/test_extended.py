"""The extended protocol, message by message: what portals and prepared statements outlive, and what not."""

import socket
import struct
from collections.abc import Iterator

import pytest
from pygwire import messages as wire

from tests.unit.server.conftest import Running

SYNC = wire.Sync().to_wire()


class Raw:
    """A client that sends what it is told, and shows what comes: a letter, and what matters of it."""

    def __init__(self, port: int) -> None:
        body = struct.pack("!i", 3 << 16) + b"user\0kpg\0database\0kpg\0\0"
        self.socket = socket.create_connection(("127.0.0.1", port), timeout=60)
        self.file = self.socket.makefile("rb")
        self.socket.sendall(struct.pack("!i", len(body) + 4) + body)
        self.until_ready()

    def until_ready(self) -> list[str]:
        found = []
        while not found or found[-1][0] != "Z":
            kind, length = struct.unpack("!ci", self.file.read(5))
            shown = SHOWN.get(kind, lambda body: "")(self.file.read(length - 4))
            if kind not in b"SKR1n":
                found.append(kind.decode() + shown)
        return found

    def ask(self, *messages: bytes) -> list[str]:
        self.socket.sendall(b"".join(messages) + SYNC)
        return self.until_ready()

    def query(self, text: str) -> list[str]:
        self.socket.sendall(wire.Query(query_string=text).to_wire())
        return self.until_ready()

    def close(self) -> None:
        self.file.close()
        self.socket.close()


def _state(body: bytes) -> str:
    return next(field[1:].decode() for field in body.split(b"\0") if field[:1] == b"C")


def _row(body: bytes) -> str:
    (length,) = struct.unpack_from("!i", body, 2)
    return body[6 : 6 + length].decode()


SHOWN = {b"E": _state, b"D": _row, b"C": lambda body: " " + body[:-1].decode(), b"Z": bytes.decode}


def parse(name: str, text: str) -> bytes:
    return wire.Parse(statement=name, query=text, param_types=[]).to_wire()


def bind(portal: str, name: str) -> bytes:
    return wire.Bind(
        portal=portal, statement=name, param_formats=[], param_values=[], result_formats=[]
    ).to_wire()


def execute(portal: str, most: int = 0) -> bytes:
    return wire.Execute(portal=portal, max_rows=most).to_wire()


def described(name: str) -> bytes:
    return wire.Describe(kind="S", name=name).to_wire()


@pytest.fixture
def client(running: Running) -> Iterator[Raw]:
    one = Raw(running.port)
    one.query("drop table if exists t; create table t (a int primary key, b int)")
    one.query("insert into t values (1, 10), (2, 20), (3, 30)")
    yield one
    one.close()


@pytest.mark.parametrize("end", ["commit", "rollback"])
@pytest.mark.parametrize("name", ["", "p"])
def test_portals_end_with_their_transaction(client: Raw, end: str, name: str) -> None:
    client.query("begin; insert into t values (0, 0)")
    read = parse("", "select a from t order by a"), bind(name, ""), execute(name, 1)
    assert client.ask(*read) == ["2", "D0", "s", "ZT"]
    assert client.query(end)[-1] == "ZI"
    assert client.ask(execute(name, 1)) == ["E34000", "ZI"]


def test_portals_end_with_what_a_savepoint_takes_back(client: Raw) -> None:
    client.query("begin")
    client.ask(parse("s", "select a from t order by a"), bind("before", "s"), execute("before", 1))
    client.query("savepoint x; insert into t values (0, 0)")
    assert client.ask(bind("after", "s"), execute("after", 1)) == ["2", "D0", "s", "ZT"]
    assert client.query("select 1 / 0") == ["E22012", "ZE"]
    assert client.ask(execute("before", 1)) == ["E25P02", "ZE"]
    client.query("rollback to x")
    assert client.ask(execute("before", 1)) == ["D2", "s", "ZT"]
    assert client.ask(execute("after", 1)) == ["E34000", "ZE"]


def test_a_portal_that_gives_no_rows_runs_once(client: Raw) -> None:
    insert = parse("", "insert into t values (7, 7)"), bind("p", "")
    assert client.ask(*insert, execute("p"), execute("p")) == ["2", "C INSERT 0 1", "E55000", "ZI"]


def test_names_that_are_there_already_and_those_that_are_not(client: Raw) -> None:
    assert client.ask(parse("s", "select 1"), parse("s", "select 2")) == ["E42P05", "ZI"]
    assert client.ask(bind("", "absent")) == ["E26000", "ZI"]
    assert client.ask(execute("absent")) == ["E34000", "ZI"]
    assert client.ask(bind("p", "s"), bind("p", "s")) == ["2", "E42P03", "ZI"]
    assert client.ask(parse("", "select 1; select 2")) == ["E42601", "ZI"]


@pytest.mark.parametrize("end", ["deallocate s", "deallocate all", "discard all"])
def test_deallocated_statements_can_be_prepared_anew(client: Raw, end: str) -> None:
    assert client.ask(parse("s", "select 1"), bind("", "s"), execute("")) == ["2", "D1", "C SELECT 1", "ZI"]
    assert client.query(end) == ["C " + " ".join(end.upper().split()[: 1 + end.endswith("all")]), "ZI"]
    assert client.ask(bind("", "s")) == ["E26000", "ZI"]
    assert client.ask(parse("s", "select 2"), bind("", "s"), execute("")) == ["2", "D2", "C SELECT 1", "ZI"]


@pytest.mark.parametrize(
    "text", ["select * from t where a = 1", "update t set b = 9 where a = 1 returning *"]
)
@pytest.mark.parametrize("by_portal", [False, True])
def test_columns_are_those_that_the_client_was_told_of(client: Raw, text: str, by_portal: bool) -> None:
    run = bind("", "s"), execute("")
    if by_portal:  # as JDBC's driver does
        told = client.ask(parse("s", text), run[0], wire.Describe(kind="P", name="").to_wire(), run[1])
        assert told[:3] == ["2", "T", "D1"]
    else:
        told = client.ask(parse("s", text), described("s"))
        assert told == ["t", "T", "ZI"]
    for _ in range(3):  # the second and third time by the fast lane
        assert client.ask(*run)[:2] == ["2", "D1"]
    for change in ("alter table t alter column b type text", "alter table t add column c int"):
        client.query(change)
        assert client.ask(*run) == ["E0A000", "ZI"]
    client.query("alter table t drop column c; alter table t alter column b type int using b::int")
    assert client.ask(*run)[:2] == ["2", "D1"]
    client.query("create table other (a int)")
    for _ in range(2):
        assert client.ask(*run)[:2] == ["2", "D1"]
    client.query("drop table other")
