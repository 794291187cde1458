"""What drivers of other languages ask: Polars by both its engines, and what those of Rust and Go do."""

import socket
import struct
from collections.abc import Iterator

import polars
import psycopg
import pytest

from tests.unit.server.conftest import Running, serving
from tests.waiting import PATIENCE

SETUP = """
CREATE TYPE mood AS ENUM ('sad', 'ok');
CREATE TYPE pair AS (a INT, b TEXT);
CREATE DOMAIN positive AS INT CHECK (VALUE > 0);
CREATE TABLE t (id INT PRIMARY KEY, name VARCHAR(40) NOT NULL, m mood, sum NUMERIC(10, 2), born DATE,
    tags TEXT[]);
INSERT INTO t VALUES (1, 'ann', 'ok', 1.50, '2024-01-02', '{a,b}'), (2, 'bob', NULL, NULL, NULL, NULL);
CREATE VIEW v AS SELECT id, name FROM t;
"""


@pytest.fixture(scope="module")
def running() -> Iterator[Running]:
    with serving() as one, psycopg.connect(one.dsn, autocommit=True) as connection:
        connection.execute(SETUP)
        yield one


@pytest.fixture
def connection(running: Running) -> Iterator[psycopg.Connection]:
    with psycopg.connect(running.dsn, autocommit=True) as one:
        yield one


def uri(running: Running) -> str:
    return f"postgresql://kpg@127.0.0.1:{running.port}/kpg"


@pytest.mark.parametrize("engine", ["connectorx", "adbc"])
def test_polars_reads(running: Running, engine: str) -> None:
    query = "SELECT id, name, m, born FROM t ORDER BY id"
    frame = polars.read_database_uri(query, uri(running), engine=engine)  # type: ignore[arg-type]
    assert frame["m"].to_list() == ["ok", None]
    assert [str(one) for one in frame["born"].to_list()] == ["2024-01-02", "None"]
    counted = polars.read_database_uri("SELECT count(*) AS n FROM t", uri(running), engine=engine)  # type: ignore[arg-type]
    assert counted.to_dict(as_series=False) == {"n": [2]}


def test_polars_writes_and_appends(running: Running) -> None:
    frame = polars.DataFrame({"a": [1, 2], "b": ["x", None]})
    for how in ("replace", "append"):
        frame.write_database("public.written", uri(running), engine="adbc", if_table_exists=how)  # type: ignore[arg-type]
    read = polars.read_database_uri("SELECT * FROM written ORDER BY a", uri(running), engine="adbc")
    assert read.to_dict(as_series=False) == {"a": [1, 1, 2, 2], "b": ["x", "x", None, None]}


def test_adbc_tells_of_tables(running: Running) -> None:
    from adbc_driver_postgresql import dbapi

    with dbapi.connect(uri(running)) as one:
        schema = one.adbc_get_table_schema("t")
        assert schema.names == ["id", "name", "m", "sum", "born", "tags"]
        assert str(schema.field("tags").type) == "list<item: string>"
        (found,) = one.adbc_get_objects(depth="tables", table_name_filter="v").read_all().to_pylist()
        listed = [
            (table["table_name"], table["table_type"])
            for schema in found["catalog_db_schemas"]
            for table in schema["db_schema_tables"]
        ]
        assert listed == [("v", "view")]


@pytest.mark.parametrize(
    ("text", "numbers"),
    [
        ("SELECT $1::int + 1, $2::text, $3::text[], ($4)::uuid", [23, 25, 1009, 2950]),
        ("SELECT $1 + 1, $2 * 1.5, interval '1 day' * $3", [23, 1700, 701]),
        (
            "SELECT coalesce($1, 5), CASE WHEN $2 THEN 1 ELSE $3 END, $4 AND true, NOT $5",
            [23, 16, 23, 16, 16],
        ),
        ("SELECT $1::int = ANY($2)", [23, 1007]),
        (
            "SELECT id FROM t WHERE id IN (1, $1) AND name LIKE $2 AND born BETWEEN $3 AND $4",
            [23, 25, 1082, 1082],
        ),
        ("UPDATE t SET name = $1, born = $2 WHERE id = $3", [1043, 1082, 23]),
        (
            "INSERT INTO t (id, name) VALUES ($1, $2) ON CONFLICT (id) DO UPDATE SET sum = $3",
            [23, 1043, 1700],
        ),
        ("SELECT $1::positive", [23]),
    ],
)
def test_parameters_have_the_types_that_postgres_finds(
    running: Running, text: str, numbers: list[int]
) -> None:
    wire = Wire(running)
    wire.send((b"P", b"\0" + text.encode() + b"\0\0\0"), (b"D", b"S\0"), (b"S", b""))
    (told,) = (body for kind, body in wire.until(b"Z") if kind == b"t")
    assert list(struct.unpack(f"!h{len(numbers)}I", told))[1:] == numbers
    wire.close()


def test_types_of_users_are_found_by_name(connection: psycopg.Connection) -> None:
    """As Rust's and Go's drivers look for them: by regtype, with their arrays, labels and fields."""
    for name in ("mood", "public.mood", '"mood"', "pair", "positive"):
        row = connection.execute(
            "SELECT typname FROM pg_type WHERE oid = %s::regtype::oid", [name]
        ).fetchone()
        assert row == (name.rpartition(".")[2].strip('"'),)
    arrays = "SELECT a.typname, a.typcategory, a.typelem = t.oid FROM pg_type t, pg_type a"
    assert connection.execute(f"{arrays} WHERE a.oid = t.typarray AND t.typname = 'mood'").fetchall() == [
        ("_mood", "A", True)
    ]
    assert connection.execute("SELECT '_mood'::regtype = 'mood[]'::regtype").fetchone() == (True,)
    fields = "SELECT attname, format_type(atttypid, NULL) FROM pg_attribute, pg_type"
    found = connection.execute(
        f"{fields} WHERE attrelid = typrelid AND typname = 'pair' ORDER BY attnum"
    ).fetchall()
    assert found == [("a", "integer"), ("b", "text")]
    with pytest.raises(psycopg.errors.UndefinedObject, match='type "nothing" does not exist'):
        connection.execute("SELECT 'nothing'::regtype")


def test_arrays_of_an_enum_are_of_a_type_of_their_own_both_ways(connection: psycopg.Connection) -> None:
    result = connection.pgconn.exec_params(
        b"SELECT array_agg(m ORDER BY id) FROM t WHERE m = 'ok'", None, result_format=1
    )
    row = connection.execute("SELECT typarray FROM pg_type WHERE typname = 'mood'").fetchone()
    assert row == (result.ftype(0),)
    back = connection.pgconn.exec_params(
        b"SELECT $1::mood[]", [result.get_value(0, 0)], param_types=[result.ftype(0)], param_formats=[1]
    )
    assert back.get_value(0, 0) == b"{ok}"


def test_letters_of_catalogs_are_of_their_type(connection: psycopg.Connection) -> None:
    """tokio-postgres reads them as one byte, and refuses a text."""
    told = connection.pgconn.exec_params(
        b"SELECT typtype, typelem, typname, typreceive FROM pg_type WHERE typname = 'mood'",
        None,
        result_format=1,
    )
    assert [told.ftype(place) for place in range(4)] == [18, 26, 19, 24]
    assert told.get_value(0, 0) == b"e"
    query = "SELECT relkind || 'x', relkind::text, relkind IN ('r', 'v') FROM pg_class WHERE relname = 't'"
    assert connection.execute(query).fetchall() == [("rx", "r", True)]


def test_functions_of_types_are_compared_with_numbers_and_names(connection: psycopg.Connection) -> None:
    query = (
        "SELECT typname, typreceive, typsend::text FROM pg_type WHERE (typreceive != 0 OR typsend != 0) "
        "AND typtype != 'r' AND typreceive::TEXT != 'array_recv' AND typname = ANY(%s) ORDER BY 1"
    )
    names = ["int4", "numeric", "mood", "int8range", "bytea"]
    assert connection.execute(query, [names]).fetchall() == [
        ("bytea", "bytearecv", "byteasend"),
        ("int4", "int4recv", "int4send"),
        ("mood", "enum_recv", "enum_send"),
        ("numeric", "numeric_recv", "numeric_send"),
    ]


def test_columns_of_views_may_be_null(connection: psycopg.Connection) -> None:
    query = "SELECT attrelid::regclass::text, attname, attnotnull FROM pg_attribute, pg_class c"
    found = connection.execute(
        f"{query} WHERE c.oid = attrelid AND relname IN ('t', 'v') AND attname = 'name' ORDER BY 1"
    ).fetchall()
    assert found == [("t", "name", True), ("v", "name", False)]


class Wire:
    """Messages as they are, for what libpq does not send."""

    def __init__(self, running: Running) -> None:
        self.socket = socket.create_connection(("127.0.0.1", running.port), timeout=PATIENCE)
        words = b"user\0kpg\0database\0kpg\0\0"
        self.socket.sendall(struct.pack("!ii", 8 + len(words), 196608) + words)
        self.until(b"Z")

    def close(self) -> None:
        self.socket.close()

    def send(self, *messages: tuple[bytes, bytes]) -> None:
        self.socket.sendall(
            b"".join(kind + struct.pack("!i", 4 + len(body)) + body for kind, body in messages)
        )

    def until(self, last: bytes) -> list[tuple[bytes, bytes]]:
        """The messages up to one of that kind."""
        found = []
        while not found or found[-1][0] != last:
            kind, length = struct.unpack("!ci", self._read(5))
            found.append((kind, self._read(length - 4)))
        return found

    def _read(self, count: int) -> bytes:
        data = b""
        while len(data) < count:
            part = self.socket.recv(count - len(data))
            assert part, "the server has closed the connection"
            data += part
        return data


HEAD = b"PGCOPY\n\xff\r\n\0" + struct.pack("!ii", 0, 0)
ROW = struct.pack("!hii", 1, 4, 7)


@pytest.mark.parametrize("end", [b"", b"\xff\xff"])
def test_copy_of_rows_that_were_announced_with_sync(running: Running, end: bytes) -> None:
    """tokio-postgres and postgres.js send Sync with Execute; pgx leaves the end of the rows out."""
    wire = Wire(running)
    wire.send((b"Q", b"CREATE TEMP TABLE c (a INT)\0"))
    wire.until(b"Z")
    wire.send(
        (b"P", b"\0COPY c FROM STDIN BINARY\0\0\0"),
        (b"B", b"\0\0\0\0\0\0\0\0"),
        (b"E", b"\0\0\0\0\0"),
        (b"S", b""),
    )
    wire.until(b"G")
    wire.send((b"H", b""), (b"d", HEAD + ROW + end), (b"c", b""), (b"S", b""))
    assert wire.until(b"Z") == [(b"C", b"COPY 1\0"), (b"Z", b"I")]
    # What is still on its way when a COPY has ended is passed over.
    wire.send((b"d", b"late"), (b"c", b""), (b"f", b"sorry\0"), (b"Q", b"SELECT a FROM c\0"))
    kinds = [kind for kind, _ in wire.until(b"Z")]
    assert kinds == [b"T", b"D", b"C", b"Z"]
    wire.close()


def test_a_copy_that_ends_within_a_row_is_refused(running: Running) -> None:
    wire = Wire(running)
    wire.send((b"Q", b"CREATE TEMP TABLE c (a INT); COPY c FROM STDIN BINARY\0"))
    wire.until(b"G")
    wire.send((b"d", HEAD + ROW[:-2]), (b"c", b""))
    (message,) = (body for kind, body in wire.until(b"Z") if kind == b"E")
    assert b"unexpected end of the rows of COPY" in message
    wire.close()
