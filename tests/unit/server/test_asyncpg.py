"""asyncpg: arrays, records, cursors, COPY and prepared statements; and COPY in binary form by psycopg."""

import asyncio
import datetime
import decimal
import uuid
from collections.abc import Awaitable, Callable, Iterator
from typing import Any

import psycopg
import pytest

from tests.unit.server.conftest import Running, serving


@pytest.fixture(scope="module")
def running() -> Iterator[Running]:
    with serving() as one:
        yield one


def with_asyncpg(running: Running, work: Callable[[Any], Awaitable[Any]]) -> Any:
    import asyncpg

    async def run() -> Any:
        one = await asyncpg.connect(host="127.0.0.1", port=running.port, user="kpg", database="kpg")
        try:
            return await work(one)
        finally:
            await one.close()

    return asyncio.run(run())


def test_arrays_go_both_ways(running: Running) -> None:
    day, at = datetime.date(2024, 2, 29), datetime.datetime(2024, 2, 29, 1, 2, 3, tzinfo=datetime.UTC)
    values: list[tuple[str, list[object]]] = [
        ("int[]", [1, None, -3]),
        ("bigint[]", [2**40]),
        ("text[]", ["a", "b,c", '"', "", None]),
        ("numeric[]", [decimal.Decimal("1.50")]),
        ("boolean[]", [True, False]),
        ("date[]", [day]),
        ("timestamptz[]", [at]),
        ("uuid[]", [uuid.UUID(int=5)]),
        ("float8[]", [0.5, float("inf")]),
        ("int[]", [[1, 2], [3, 4]]),
        ("text[]", []),
    ]

    async def work(one: Any) -> list[object]:
        return [await one.fetchval(f"select $1::{type_}", value) for type_, value in values]

    assert with_asyncpg(running, work) == [value for _, value in values]


def test_everyday_use(running: Running) -> None:
    async def work(one: Any) -> list[object]:
        found: list[object] = []
        await one.execute(
            "create table things (id int primary key, name text, tags text[], price numeric(8,2))"
        )
        rows = [(i, f"thing {i}", ["x"] * (i % 3), decimal.Decimal(i) / 4) for i in range(1, 101)]
        found.append(await one.copy_records_to_table("things", records=rows))
        found.append(await one.fetchval("select count(*) from things where id = any($1::int[])", [1, 2, 500]))
        statement = await one.prepare("select name, tags from things where id = $1")
        found.append([tuple(await statement.fetchrow(i)) for i in (1, 2)])
        found.append([one_.name for one_ in statement.get_attributes()])
        async with one.transaction():
            seen = 0
            async for row in one.cursor("select id from things order by id", prefetch=7):
                seen += row["id"]
            cursor = await one.cursor("select id from things order by id")
            await cursor.forward(10)
            found += [seen, [row["id"] for row in await cursor.fetch(3)]]
        try:
            async with one.transaction():
                await one.execute("delete from things")
                async with one.transaction():
                    await one.execute("selec")
        except Exception as error:
            found.append(type(error).__name__)
        found.append(await one.fetchval("select count(*) from things"))
        return found

    assert with_asyncpg(running, work) == [
        *("COPY 100", 2, [("thing 1", ["x"]), ("thing 2", ["x", "x"])], ["name", "tags"]),
        *(5050, [11, 12, 13], "PostgresSyntaxError", 100),
    ]


def test_copying_out(running: Running) -> None:
    async def work(one: Any) -> bytes:
        import io

        out = io.BytesIO()
        await one.copy_from_query(
            "select i, i * 1.5 as x from generate_series(1, 3) g(i)", output=out, format="csv"
        )
        return out.getvalue()

    assert with_asyncpg(running, work) == b"1,1.5\n2,3.0\n3,4.5\n"


HEAD = b"PGCOPY\n\xff\r\n\0" + bytes(8)
TYPES = ["int4", "int8", "text", "numeric", "bool", "date", "timestamptz", "uuid", "float8", "bytea"]
ROWS = [
    (
        *(1, 2**40, "a\tb\\\n\N{SNOWMAN}", decimal.Decimal("1.50"), True, datetime.date(2024, 2, 29)),
        *(
            datetime.datetime(2024, 1, 2, 3, 4, 5, 678901, tzinfo=datetime.UTC),
            uuid.UUID(int=7),
            0.1,
            b"\0\xff",
        ),
    ),
    (*(2, None, "", None, False, None, None, None, None, None),),
]


def test_psycopg_copies_in_binary_form(running: Running) -> None:
    with psycopg.connect(running.dsn, autocommit=True) as one, one.cursor() as cursor:
        cursor.execute(
            "create table b (a int, b bigint, c text, d numeric, e bool, f date, g timestamptz, h uuid, "
            "i float8, j bytea)"
        )
        with cursor.copy("copy b from stdin (format binary)") as copy:
            copy.set_types(TYPES)
            for row in ROWS:
                copy.write_row(row)
        assert cursor.execute("select * from b order by a").fetchall() == ROWS
        with cursor.copy("copy (select * from b order by a) to stdout with binary") as copy:
            copy.set_types(TYPES)
            assert list(copy.rows()) == ROWS
        for text, data, message in (
            ("copy b (a) from stdin with binary", b"nonsense", "signature"),
            (
                "copy b (a) from stdin with binary",
                HEAD + b"\0\2",
                "field count is 2",
            ),
            (
                "copy b (a) from stdin with binary",
                HEAD + b"\0\1\0\0\0\x09abc",
                "end",
            ),
            ("copy b (a) from stdin with binary", HEAD + b"\0", "invalid COPY data"),
        ):
            with pytest.raises(psycopg.DataError, match=message), cursor.copy(text) as copy:
                copy.write(data)
        with pytest.raises(psycopg.Error, match="binary form"):
            cursor.execute("copy b from 'file' (format binary)")


def test_types_with_parts_go_both_ways(running: Running) -> None:
    import asyncpg

    values = [
        ("int4range", asyncpg.Range(1, 5)),
        ("numrange", asyncpg.Range(decimal.Decimal("1.5"), None)),
        ("daterange", asyncpg.Range(datetime.date(2020, 1, 1), datetime.date(2020, 2, 1))),
        ("int4range[]", [asyncpg.Range(1, 5), None]),
        ("int4multirange", [asyncpg.Range(1, 3), asyncpg.Range(5, 7)]),
        ("couple", (3, "z")),
        ("couple[]", [(3, "z"), (None, None)]),
        ("mood", "sad"),
        ("mood[]", ["ok", None]),
        ("few", 3),
    ]

    async def work(one: Any) -> list[object]:
        await one.execute("create type couple as (a int, b text); create type mood as enum ('ok', 'sad')")
        await one.execute("create domain few as int check (value < 10)")
        return [await one.fetchval(f"select $1::{type_}", value) for type_, value in values]

    assert with_asyncpg(running, work) == [value for _, value in values]


def test_a_cached_statement_is_prepared_again(running: Running) -> None:
    async def work(one: Any) -> list[object]:
        await one.execute("create table grown (a int); insert into grown values (1)")
        found = [await one.fetch("select * from grown")]
        for change in ("add column b text default 'x'", "alter column a type bigint", "drop column b"):
            with psycopg.connect(running.dsn) as other:
                other.execute(f"alter table grown {change}".encode())
            found.append(await one.fetch("select * from grown"))
        return [tuple(row) for rows in found for row in rows]

    assert with_asyncpg(running, work) == [(1,), (1, "x"), (1, "x"), (1,)]


def test_errors_and_notices_name_their_source(running: Running) -> None:
    with psycopg.connect(running.dsn, autocommit=True) as one:
        sources: list[tuple[str | None, ...]] = []

        def note(diagnosis: psycopg.errors.Diagnostic) -> None:
            sources.append((diagnosis.source_file, diagnosis.source_line, diagnosis.source_function))

        one.add_notice_handler(note)
        one.execute("commit")
        with pytest.raises(psycopg.Error) as raised:
            one.execute("select 1 / 0")
        note(raised.value.diag)
    assert len(sources) == 2
    for file, line, function in sources:
        assert str(file).endswith(".py") and int(line or 0) > 0 and str(function).isidentifier()


def test_an_error_before_the_engine_ends_the_transaction_too(running: Running) -> None:
    with psycopg.connect(running.dsn) as one:
        one.execute("create temp table k (a int)")
        with pytest.raises(psycopg.errors.SyntaxError):
            one.execute("selec")
        assert one.info.transaction_status == psycopg.pq.TransactionStatus.INERROR
        with pytest.raises(psycopg.errors.InFailedSqlTransaction):
            one.execute("select 1")
        one.rollback()
        one.execute("create temp table k (a int)")
        one.rollback()
